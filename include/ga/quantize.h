/* GA, quantisation: converts weights to the block types of GGUF with a small error, converts whole files, and measures
 * the importance of weights.
 *
 *   ga_quantizer *q;
 *   GA_QUANTIZE_DESC_INIT: rows, cols, dtype
 *   ga_quantize_bytes(&desc, &bytes)   room for the result
 *   ga_quantize_rows(q, &desc, x, importance, y)
 *
 * A search chooses the scale of each block, so that its weighted square error is small. The error is never larger than
 * with the scale that the block's extreme values give. iq4_nl and iq4_xs give errors of large values more weight.
 * Results are the same bit by bit for any number of threads.
 */
#ifndef GA_QUANTIZE_H
#define GA_QUANTIZE_H

#include "ga/llm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A set of threads that quantise. One thread at a time may use it. */
typedef struct ga_quantizer ga_quantizer;

/* Creates a quantizer. n_threads: 1 to 1024, or 0 = one per CPU that this process may use. *out is NULL on failure;
 * release it with ga_quantizer_destroy. GA_ERR_DEVICE: the system refuses to create a thread. */
GA_API GA_NODISCARD ga_status ga_quantizer_create(int32_t n_threads, ga_quantizer **out);
GA_API void ga_quantizer_destroy(ga_quantizer *q); /* NULL is fine */

/* Describes the quantisation of a matrix [rows, cols], row-major and contiguous. */
typedef struct ga_quantize_desc {
  size_t struct_size;
  int64_t rows, cols; /* dimensions of the matrix, at least 1 */
  int32_t dtype;      /* ga_dtype of the result: f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q2_k, q3_k, q4_k, q5_k,
                         q6_k, iq4_nl, iq4_xs, mxfp4 */
  int32_t reserved;   /* must be 0 */
} ga_quantize_desc;
#define GA_QUANTIZE_DESC_INIT \
  { sizeof(ga_quantize_desc), 0, 0, 0, 0 }

/* Returns whether ga_quantize_rows can write this type. */
GA_API bool ga_quantize_known(ga_dtype dtype);
/* Computes the bytes of the result. GA_ERR_SHAPE: cols is no multiple of the type's block. GA_ERR_DTYPE:
 * ga_quantize_rows cannot write the type. */
GA_API GA_NODISCARD ga_status ga_quantize_bytes(const ga_quantize_desc *desc, uint64_t *bytes);
/* Quantises x, [rows, cols] f32, into y, which has the bytes that ga_quantize_bytes computes. importance: [cols]
 * weights of errors, finite and at least 0; NULL = all the same. GA_ERR_FORMAT, with y zeroed: a value is NaN or
 * infinite, or above 65504 in a type whose scales are f16. The text names the first such element. */
GA_API GA_NODISCARD ga_status ga_quantize_rows(ga_quantizer *q, const ga_quantize_desc *desc, const float *x,
                                               const float *importance, void *y);
/* Dequantises x, as ga_quantize_rows writes it with the same desc, into y [rows, cols] f32. */
GA_API GA_NODISCARD ga_status ga_dequantize_rows(ga_quantizer *q, const ga_quantize_desc *desc, const void *x,
                                                 float *y);

/* --- files ------------------------------------------------------------------------------------------------------- */

/* One tensor of a file to be written. The library makes these records; later versions may append fields. */
typedef struct ga_quantize_tensor {
  const char *name;
  int32_t from; /* ga_dtype in the source */
  int32_t to;   /* ga_dtype in the new file */
  /* ga_dtype that the mixture chose. `to` differs from it if the length of rows is no multiple of that type's block */
  int32_t wanted;
  int32_t left_out;    /* 1: the tensor is not written, since no architecture of GA uses it */
  int64_t rows;        /* product of all dimensions but the last */
  int64_t cols;        /* size of the last dimension */
  uint64_t bytes_from; /* bytes in the source */
  uint64_t bytes_to;   /* bytes in the new file */
  int32_t weighted;    /* 1: errors are weighted by the importance matrix */
  int32_t reserved;    /* always 0 */
} ga_quantize_tensor;

/* A callback that is called once for each tensor, in the order of the file, before the first tensor is written. */
typedef void (*ga_quantize_tensor_fn)(void *user, const ga_quantize_tensor *tensor);

typedef struct ga_quantize_options {
  size_t struct_size;
  /* type of the matrices: f32, f16, bf16, q8_0, q4_0, ...; a mixture such as q4_k_m; or copy: the types of the
   * source */
  const char *type;
  const char *importance;       /* path of an importance matrix (ga_imatrix_write), or NULL */
  int32_t n_threads;            /* number of threads, 1 to 1024; 0 = one per CPU that this process may use */
  bool overwrite;               /* true: an existing file is replaced, once the new one is complete */
  bool pure;                    /* true: all matrices get one type, without the mixture's exceptions */
  bool dry_run;                 /* true: plan and call `tensor` for each tensor, but write nothing */
  bool reserved;                /* must be false */
  ga_quantize_tensor_fn tensor; /* called for each tensor before writing; may be NULL */
  /* called with the bytes of the source read so far, and all bytes of the source; may be NULL */
  ga_progress_fn progress;
  void *user;
  /* [n_tensor_types] texts "NAME=TYPE" that override the mixture; the first that matches counts. NAME is a pattern of
   * fnmatch(3) for a matrix. It matches the whole name, or the name without ".weight" and "blk.N.": "attn_v=q8_0",
   * "blk.0.*=f16", "token_embd=q6_k". */
  const char *const *tensor_types;
  int32_t n_tensor_types;
  int32_t reserved_types; /* must be 0 */
} ga_quantize_options;
#define GA_QUANTIZE_OPTIONS_INIT \
  { sizeof(ga_quantize_options), NULL, NULL, 0, false, false, false, false, NULL, NULL, NULL, NULL, 0, 0 }

/* Returns the name of type or mixture `index`, in the order in which help texts show them; NULL past the last. */
GA_API const char *ga_quantize_type_at(int32_t index);

/* Writes the model at `in`, any path that ga_model_file_open takes, as one GGUF file `out`. The new file has all
 * metadata and the tokenizer. From a safetensors folder the tokenizer and configuration files are included, and weights
 * get the layouts that llama.cpp expects. Memory holds only a few rows at a time, whatever the file's size. `out` is
 * either the complete new file or unchanged, even if the process is killed. GA_ERR_ARG: unknown type; a NAME of
 * tensor_types that matches no matrix; `out` exists (see overwrite), is a file of `in` or the importance matrix, or is
 * no regular file. GA_ERR_IO: also if the disk is full. GA_ERR_UNSUPPORTED: a folder's weights in FP8 or integers; a
 * tokenizer that GA does not have. GA_ERR_FORMAT: a weight that is not finite. */
GA_API GA_NODISCARD ga_status ga_quantize_file(const char *in, const char *out, const ga_quantize_options *options);

/* --- importance -------------------------------------------------------------------------------------------------- */

/* An importance matrix: for each matrix of a model, the mean squares of its input columns over a text. Quantisation
 * weights errors in the matrix's columns by them. ga_quantize_options.importance takes the path of its file. */
typedef struct ga_imatrix ga_imatrix;

/* Creates an empty importance matrix of a model, which must outlive *out. window: number of tokens that are
 * evaluated together, 16 to 4096; 0 = 512. *out is NULL on failure; release it with ga_imatrix_destroy.
 * GA_ERR_UNSUPPORTED: the model is an encoder. */
GA_API GA_NODISCARD ga_status ga_imatrix_create(ga_model *model, int32_t window, ga_imatrix **out);
GA_API void ga_imatrix_destroy(ga_imatrix *im); /* NULL is fine */
/* Evaluates n ids in whole windows, each window separately. For models that need a beginning token, that token replaces
 * the first id of each window. GA_ERR_SHAPE: there are fewer ids than one window has. progress (in windows) may be
 * NULL. */
GA_API GA_NODISCARD ga_status ga_imatrix_add(ga_imatrix *im, const int32_t *ids, size_t n, ga_progress_fn progress,
                                             void *user);
/* Returns the number of windows evaluated so far. */
GA_API int64_t ga_imatrix_windows(const ga_imatrix *im);
/* Writes the importance matrix to a file in the format of llama-imatrix. That is GGUF of general.type "imatrix", with
 * tensors NAME.in_sum2 and NAME.counts. dataset: a name of the text, "" for none. The output head has no entry. `path`
 * is either the complete new file or unchanged. GA_ERR_ARG: `path` exists and overwrite is false, is no regular file,
 * or is the model. GA_ERR_STATE: no window has been evaluated. */
GA_API GA_NODISCARD ga_status ga_imatrix_write(const ga_imatrix *im, const char *path, const char *dataset,
                                               bool overwrite);

#ifdef __cplusplus
}
#endif
#endif
