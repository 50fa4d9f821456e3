/* Where a new file may be written. */
#ifndef GA_QUANT_OUTPUT_H
#define GA_QUANT_OUTPUT_H

#include "ga/model_file.h"

/* Checks that `out` may be written. GA_ERR_ARG: it is no regular file; it is part of the source model; it is the
 * importance matrix (NULL: none); it exists, without overwrite. */
GA_NODISCARD ga_status quant_check_output(const ga_model_file *model, const char *importance, const char *out,
                                          bool overwrite);

#endif
