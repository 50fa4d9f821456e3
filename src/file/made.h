/* Tensors that GA makes of a model's tensors when it opens the model, because files lay their values out in other ways
 * than GGUF's stacks of matrices: a tensor for each expert, gate and up in one, columns before rows, keys and values of
 * all heads in one, blocks of MXFP4 in Hugging Face's order, or e4m3 with scales. A made tensor has no bytes in any
 * file: ga_model_file_read makes them. Its `part` is GA_MADE_PART, its `offset` is its number in ga_model_file.made.
 * The tensors of which it is made are not listed. */
#ifndef GA_FILE_MADE_H
#define GA_FILE_MADE_H

#include "file/model_store.h"

#define GA_MADE_PART (-1)

enum { GA_MADE_BLOCK = 128 }; /* rows and columns of a block with one scale */

/* How a made tensor's rows are taken from its sources. */
typedef enum ga_made_order {
  GA_MADE_ROWS,    /* a row is a row of the source */
  GA_MADE_COLUMNS, /* a row is a column of a matrix of the source */
  /* a row is a row of blocks; the sources are codes of two elements a byte [.., 16], and scales, a byte for each block:
   * of byte i the low half is element 2 i, where GGUF has elements i and i + 16 */
  GA_MADE_MXFP4,
  /* a row of bf16 is a row of e4m3 codes times scales; the sources are the codes of all matrices, then the scales of
   * each: one for the matrix, one for each row, or one for each block of 128 x 128 */
  GA_MADE_E4M3
} ga_made_order;

/* A made tensor: matrices [rows, columns], one after the other. Row r of a matrix is row, or column, first + r * step
 * of the source's matrix. */
struct ga_made {
  ga_made_order order;
  const ga_model_tensor **sources; /* [n_sources] */
  /* GA_MADE_MXFP4: 2; GA_MADE_E4M3: two for each matrix; else each has as many matrices as the others */
  int32_t n_sources;
  int64_t matrices, rows;           /* number of matrices, and rows of each, of the made tensor */
  int64_t source_rows, source_cols; /* dimensions of the source's matrices, in elements */
  int64_t taken;                    /* GA_MADE_COLUMNS: number of the first rows of the source's matrices that count */
  int64_t first, step;
};

/* Finds which tensors of file->tensors, under their GGUF names, others are to be made of, and puts the made ones in
 * their place. There must be room for two tensors in the place of each. arch NULL: a GGUF file. Errors: GA_ERR_FORMAT,
 * GA_ERR_SHAPE, if sources are missing or do not match. */
GA_NODISCARD ga_status ga_made_find(ga_model_file *file, const struct ga_hf_arch *arch);
/* Makes bytes [offset, offset + bytes) of a made tensor; the range lies in the tensor. */
GA_NODISCARD ga_status ga_made_read(const ga_model_file *file, const ga_model_tensor *tensor, uint64_t offset,
                                    void *out, size_t bytes);
/* Frees the resident memory pages of all sources of a made tensor. */
void ga_made_forget(const ga_model_file *file, const ga_model_tensor *tensor);

#endif
