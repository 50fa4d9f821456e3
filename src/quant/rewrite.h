/* Rewrites a model file. A record for each tensor says how it changes, and a function makes its bytes when the writer
 * needs them. */
#ifndef GA_QUANT_REWRITE_H
#define GA_QUANT_REWRITE_H

#include "base/mem.h"
#include "file/gguf_write.h"
#include "quant/importance.h"
#include "quant/mixture.h"
#include "quant/quantizer.h"
#include "quant/tensor_types.h"

/* The change from a tensor of a safetensors file to the same tensor of a GGUF file. */
typedef enum rewrite_change {
  CHANGE_NONE,
  CHANGE_PLUS_ONE,  /* weights of norms: w becomes 1 + w */
  CHANGE_TRANSPOSE, /* [in, out] becomes [out, in] */
  CHANGE_PAIRS,     /* rows of queries and keys: elements i and i + n/2 of each head become neighbours */
  CHANGE_SPLIT      /* rows in the order of heads, each with q, k and v, become all rows of q, then of k, then of v */
} rewrite_change;

struct rewrite;

typedef struct rewrite_tensor {
  struct rewrite *all;
  const ga_model_tensor *from; /* tensor of the source; NULL: `made` has the values */
  const float *made;
  const char *name;
  ga_tensor view;  /* description of the new tensor, without data */
  ga_dtype wanted; /* type that the mixture chose */
  rewrite_change change;
  int64_t rows, cols; /* dimensions of the new tensor */
  int64_t head_rows;  /* CHANGE_PAIRS, CHANGE_SPLIT: rows of a head */
  /* [matrices, cols] weights of errors of each matrix, from the importance matrix; NULL: none */
  float *weight;
  float *inputs;     /* with weight: [matrices] number of inputs that each matrix had; 0: its errors are not weighted */
  int64_t matrices;  /* 1, or number of matrices of a stack, which have rows / matrices rows each */
  bool left_out;     /* the tensor is not written */
  uint64_t bytes_to; /* bytes of the new tensor */
} rewrite_tensor;

typedef struct rewrite {
  ga_model_file *file;
  quant_importance *importance;
  const quant_mixture *mixture;
  quant_model model;
  tensor_types types; /* types that the caller has chosen */
  ga_quantizer *q;
  ga_gguf_writer *writer;
  ga_arena arena; /* arena of the tensors' names and of weights of errors */
  rewrite_tensor *tensors;
  int64_t n_tensors;
  ga_progress_fn progress;
  void *user;
  uint64_t done, total; /* bytes of the source that have been read, and that will be read in all */
  /* The fields below describe the piece of the current tensor that is in memory. */
  const rewrite_tensor *current;
  int64_t next_row, piece_rows;
  size_t piece_bytes; /* bytes of `piece` that are filled */
  size_t piece_at;    /* bytes of `piece` that were passed to the writer */
  uint8_t *raw, *piece;
  float *values;
  size_t raw_room, values_room, piece_room;
} rewrite;

/* Makes bytes [offset, offset + bytes) of a new tensor, as a ga_gguf_source_fn (rewrite_tensor.c). user is a
 * rewrite_tensor. */
ga_status rewrite_bytes(void *user, uint64_t offset, void *data, size_t bytes);

/* Passes metadata and tokens of a safetensors folder to the writer, as keys of GGUF (from_folder.c). */
GA_NODISCARD ga_status rewrite_put_folder_keys(rewrite *r);
/* Folders with latent attention (from_latent.c): whether r's is one, whether GGUF says what the key says in other keys,
 * and those keys. */
GA_NODISCARD bool rewrite_is_latent(const rewrite *r);
GA_NODISCARD ga_status rewrite_is_latents_own(const rewrite *r, const char *key, bool *is_own);
GA_NODISCARD ga_status rewrite_put_latent_keys(rewrite *r);
#define REWRITE_LATENT_EPS 1e-6f /* epsilon of folders' latent norms */
/* Largest number of tensors that are added to those of a folder. */
#define REWRITE_MADE_TENSORS 3 /* not counting tensors that are made from several others */
/* Decides how a tensor of a safetensors folder changes, its new shape, and whether it is written. */
GA_NODISCARD ga_status rewrite_layout(const rewrite *r, rewrite_tensor *t);
/* Adds the tensors that GGUF files have and whose values a folder has in config.json: divisors of RoPE's
 * frequencies. */
GA_NODISCARD ga_status rewrite_add_made(rewrite *r);

/* Passes the keys tokenizer.ggml.* and the chat template to the writer (folder_tokens.c). rows: number of rows of the
 * embedding. */
GA_NODISCARD ga_status rewrite_put_tokens(rewrite *r, int64_t rows);

#endif
