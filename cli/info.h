/* Prints the contents of model files, for `ga info`. */
#ifndef GA_CLI_INFO_H
#define GA_CLI_INFO_H

#include "ga/model_file.h"

/* Prints the metadata of a file, its tensors, or both, as text or as one JSON object:
 *   "metadata": key -> value; an array is {"type": "text", "count": 49152, "first": [at most 8]}
 *   "tensors": [{"name", "type", "shape" (slowest dimension first), "bytes"}] */
GA_NODISCARD ga_status info_file(const ga_model_file *file, bool meta, bool tensors, bool json);

#endif
