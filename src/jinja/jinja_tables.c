/* The tables of all built-ins, which every template gets. */
#include "jinja/jinja.h"

const jj_builtins ga_jj_builtins = {.filters = {ga_jj_filters_text, ga_jj_filters_seq},
                                    .tests = {ga_jj_tests},
                                    .globals = {ga_jj_globals},
                                    .methods = {[JJ_STR] = {ga_jj_methods_str, ga_jj_methods_str2},
                                                [JJ_LIST] = {ga_jj_methods_list},
                                                [JJ_TUPLE] = {ga_jj_methods_list + 2}, /* index and count */
                                                [JJ_RANGE] = {ga_jj_methods_list + 2},
                                                [JJ_DICT] = {ga_jj_methods_dict},
                                                [JJ_LOOP] = {ga_jj_methods_loop}}};
