/* Importance matrices in llama.cpp's format: a GGUF file of general.type "imatrix". A weight W of [rows, cols] has two
 * tensors, f32. "W.in_sum2" [1, cols] has sums of squares of the inputs, "W.counts" [1, 1] the number of inputs. Of a
 * stack of n matrices both have n rows. */
#ifndef GA_QUANT_IMPORTANCE_H
#define GA_QUANT_IMPORTANCE_H

#include "ga/model_file.h"

typedef struct quant_importance quant_importance;

/* Opens an importance matrix. GA_ERR_IO, GA_ERR_FORMAT: the file cannot be read, or is of another kind. *out is NULL
 * on failure. */
GA_NODISCARD ga_status quant_importance_open(const char *path, quant_importance **out);
/* Reads the importance matrix of an open file, and takes over the file, even after a failure. Errors are those of
 * quant_importance_open. */
GA_NODISCARD ga_status quant_importance_take(ga_model_file *file, quant_importance **out);
void quant_importance_close(quant_importance *imp); /* NULL is fine */
/* Reads the mean squares of the input columns of a stack of matrices to out[matrices * cols], and the numbers of their
 * inputs to counts[matrices]; values of a matrix without inputs are of no use. *found is false if the file does not
 * have the weight or counted no input. GA_ERR_FORMAT: another number of columns or matrices, or values that are no sums
 * or counts. */
GA_NODISCARD ga_status quant_importance_of(const quant_importance *imp, const char *name, int64_t matrices,
                                           int64_t cols, float *counts, float *out, bool *found);
/* Returns the number of weight matrices that have sums in the file, tensors W.in_sum2. */
int64_t quant_importance_count(const quant_importance *imp);
const ga_model_file *quant_importance_file(const quant_importance *imp);

#endif
