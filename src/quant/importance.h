/* Importance matrices, as llama.cpp keeps them: a GGUF file of general.type "imatrix" with two tensors for a weight W
 * of [rows, cols]: "W.in_sum2" f32 [1, cols], sums of squares of the inputs, and "W.counts" f32 [1, 1], how many. */
#ifndef GA_QUANT_IMPORTANCE_H
#define GA_QUANT_IMPORTANCE_H

#include "ga/model_file.h"

typedef struct quant_importance quant_importance;

/* GA_ERR_FORMAT, GA_ERR_IO: no such file, or another one than that. *out NULL on failure. */
GA_NODISCARD ga_status quant_importance_open(const char *path, quant_importance **out);
/* The same from an open file, which it takes over, on failure too. */
GA_NODISCARD ga_status quant_importance_take(ga_model_file *file, quant_importance **out);
void quant_importance_close(quant_importance *imp); /* NULL is fine */
/* Mean squares of the inputs of a weight of `cols` columns. *found false: the file has none of that name, or has seen
 * no input; out is then untouched. GA_ERR_FORMAT for other columns, or numbers that are none. */
GA_NODISCARD ga_status quant_importance_of(const quant_importance *imp, const char *name, int64_t cols, float *out,
                                           bool *found);
/* Weights that it knows. */
int64_t quant_importance_count(const quant_importance *imp);
const ga_model_file *quant_importance_file(const quant_importance *imp);

#endif
