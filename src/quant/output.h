/* Checks of the path to which a new file is written. */
#ifndef GA_QUANT_OUTPUT_H
#define GA_QUANT_OUTPUT_H

#include "ga/model_file.h"

/* Checks that `out` may be written. GA_ERR_ARG: it is no regular file, is part of the source model, is the file
 * `importance` (NULL: none), or exists although overwrite is false. */
GA_NODISCARD ga_status quant_check_output(const ga_model_file *model, const char *importance, const char *out,
                                          bool overwrite);

#endif
