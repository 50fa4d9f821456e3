/* Helpers that the files of filters, tests, methods and functions share. */
#ifndef GA_JINJA_JINJA_BUILTIN_H
#define GA_JINJA_JINJA_BUILTIN_H

#include "jinja/jinja.h"

/* The head of a built-in's function: static ga_status name(jj_run *run, const jj_call *call, jj_val *out). */
#define JJ_BUILTIN(name) static ga_status name(jj_run *run, const jj_call *call, jj_val *out)

/* Converts a filter's operand to a string, as str(self) does. */
GA_NODISCARD ga_status ga_jj_self_str(jj_run *run, const jj_call *call, jj_str **out);
/* Computes Python's s.replace(old, new, count). count < 0: all occurrences are replaced. */
GA_NODISCARD ga_status ga_jj_replace(jj_run *run, const jj_str *s, const jj_str *old, const jj_str *new_, int64_t count,
                                     jj_val *out);
/* Computes Python's s.splitlines(keep). */
GA_NODISCARD ga_status ga_jj_splitlines(jj_run *run, const jj_str *s, bool keep, jj_val *out);
/* Pads s to `width` code points. side < 0 pads on the left, 0 on both sides, > 0 on the right. fill is one code point;
 * NULL: space. */
GA_NODISCARD ga_status ga_jj_pad(jj_run *run, jj_str *s, int64_t width, int side, const jj_str *fill, jj_val *out);
/* Counts the steps of ga_jj_strip in the run's limit, and strips s as that function does. */
GA_NODISCARD ga_status ga_jj_strip_paid(jj_run *run, const jj_str *s, const jj_str *chars, int sides, jj_val *out);
/* Computes Python's list(v). */
GA_NODISCARD ga_status ga_jj_to_list(jj_run *run, jj_val v, jj_val *out);

#endif
