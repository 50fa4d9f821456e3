/* Fused forms of public ops: several ops of a model that src/model/pass/fuse.c joins into one launch.
 *
 * A fused struct begins with the public one. GA_OP_<op> always carries the fused structs: ga_<op> appends zeros to its
 * caller's struct. A kernel without fused work reads the public part alone. Programs of the library's users have no
 * fused structs, so these have no versions (docs/adr/0003-growing-structs.md).
 *
 * ga_<op>_fused, _fused_plan and _fused_run work like the three public functions, with structs that this library has
 * made itself. */
#ifndef GA_OPDEF_FUSED_H
#define GA_OPDEF_FUSED_H

#include "ga/gemm.h"
#include "ga/layer.h"
#include "ga/sample.h"

#define GA_DECLARE_FUSED_OP(op)                                                                                       \
  GA_NODISCARD ga_status ga_##op##_fused_plan(ga_ctx *ctx, const ga_##op##_fused_desc *desc, ga_plan **out);          \
  GA_NODISCARD ga_status ga_##op##_fused_run(const ga_plan *plan, const ga_##op##_fused_io *io, void *workspace,      \
                                             ga_stream *stream);                                                      \
  GA_NODISCARD ga_status ga_##op##_fused(ga_ctx *ctx, const ga_##op##_fused_desc *desc, const ga_##op##_fused_io *io, \
                                         ga_stream *stream);

/* Further work in the launch of a product with X. NORM: X is normed first, x / sqrt(mean x^2 + norm_eps) * norm[k]
 * (RMS, arXiv 1910.07467). GATED: a GLU whose gate is scale * (X w_more[0]^T), where w_more[0] has w's shape, type and
 * layout. n_more: further matrices that multiply X, each with a Y of its own. With these flags, a layer's work between
 * two calls of attention is three launches. */
typedef enum ga_gemm_fused_flags {
  GA_GEMM_FUSED_NORM = 1,
  GA_GEMM_FUSED_GATED = 2, /* may be combined with NORM and ADD_NORM, but with none of ga_gemm_flags */
  /* Only with NORM: X is add + x / sqrt(mean x^2 + norm_eps) * add_norm[k], in f32. That value is also written to sum,
   * if not NULL (Gemma 3's norms after its blocks, arXiv 2503.19786). */
  GA_GEMM_FUSED_ADD_NORM = 4
} ga_gemm_fused_flags;

#define GA_GEMM_MORE 2

/* --- src/op/gemm.toml: fused_desc fused_io fused_functions --- */
typedef struct ga_gemm_fused_desc {
  ga_gemm_desc plain;
  /* numbers of rows of further matrices, of w's type and layout, with the same act and scale; 0 = none. With further
   * matrices only GA_GEMM_BIAS, NORM and ADD_NORM may be set */
  int64_t n_more[GA_GEMM_MORE];
  int64_t y_more_stride[GA_GEMM_MORE]; /* elements between rows of each further Y; 0 = n_more */
  /* ga_gemm_fused_flags. If not 0, or with n_more, GA_GEMM_XT, GA_GEMM_WT, w_stride and scales must be 0 */
  uint32_t fused;
  float norm_eps; /* eps of the norm, with NORM; else 0 */
} ga_gemm_fused_desc;
#define GA_GEMM_FUSED_DESC_INIT \
  { GA_GEMM_DESC_INIT, {0}, {0}, 0, 0.0f }

typedef struct ga_gemm_fused_io {
  ga_gemm_io plain;
  const float *norm;           /* [k] factors of the norm */
  const float *add, *add_norm; /* with ADD_NORM: addend [m, k] of x's stride, and factors [k] */
  float *sum;                  /* with ADD_NORM: output [m, k] of x's stride, or NULL; must overlap no other tensor */
  const void *w_more[GA_GEMM_MORE]; /* [n_more, k] further matrices; GATED: the first is the gate's, [n, k] */
  void *y_more[GA_GEMM_MORE];       /* [m, n_more] results of the further matrices; none may overlap another tensor */
  const float *bias_more[GA_GEMM_MORE]; /* [n_more] biases of the further matrices, with GA_GEMM_BIAS */
} ga_gemm_fused_io;

GA_DECLARE_FUSED_OP(gemm)
/* --- end of src/op/gemm.toml --- */

/* Returns the reason why a kernel for one plain product cannot run `d` (static text); NULL: it can. */
static inline const char *ga_gemm_one_product(const ga_gemm_fused_desc *d) {
  if (d->fused & GA_GEMM_FUSED_NORM) return "it does not norm X";
  return d->fused & GA_GEMM_FUSED_GATED || d->n_more[0] ? "it takes one matrix" : NULL;
}

/* --- src/op/kv_store.toml: fused_desc fused_io fused_functions --- */
/* Does in one launch all work between the products that give Q, K and V, and attention. It stores K and V in the cache,
 * with K rotated as ga_rope rotates it; the input K is not changed. It rotates Q [tokens, q_heads, head_dim] in place.
 * With head_norm each whole head of Q and K is RMS-normed first (Gemma 3, Qwen 3). It is divided by sqrt(mean of its
 * squares + norm_eps) and multiplied by q_norm or k_norm. Results are rounded once, after the rotation. */
typedef struct ga_kv_store_fused_desc {
  ga_kv_store_desc plain;
  /* number of leading elements of a head that are rotated, even; 0 = none, and the fields below are ignored */
  int32_t rot_dim;
  int32_t q_heads;
  int64_t q_stride; /* elements between tokens of Q; 0 = contiguous */
  int32_t pairs;    /* elements that are rotated together, a ga_rope_pairs */
  float magnitude;
  int32_t head_norm; /* not 0: heads are normed first; needs rot_dim */
  float norm_eps;
} ga_kv_store_fused_desc;
#define GA_KV_STORE_FUSED_DESC_INIT \
  { GA_KV_STORE_DESC_INIT, 0, 0, 0, 0, 1.0f, 0, 0.0f }

typedef struct ga_kv_store_fused_io {
  ga_kv_store_io plain;
  void *q;                      /* with rot_dim: [tokens, q_heads, head_dim], rotated in place */
  const int32_t *positions;     /* with rot_dim: [tokens] position of each token */
  const float *inv_freq;        /* with rot_dim: [rot_dim / 2] frequencies, see ga_rope_freqs */
  const float *q_norm, *k_norm; /* with head_norm: [head_dim] factors for heads of Q, and of K */
} ga_kv_store_fused_io;

GA_DECLARE_FUSED_OP(kv_store)
/* --- end of src/op/kv_store.toml --- */

#define GA_SAMPLE_ROWS_MAX 4096

/* --- src/op/sample.toml: fused_desc --- */
/* With rows > 0, the op draws `rows` tokens, each with the parameters of its ga_sample_row; of `plain` only vocab is
 * read. */
typedef struct ga_sample_fused_desc {
  ga_sample_desc plain;
  int64_t logits_stride; /* with rows: elements between rows of logits; 0 = vocab */
  int32_t rows;     /* number of tokens to draw, at most GA_SAMPLE_ROWS_MAX; 0: one token, as the public op draws it */
  int32_t reserved; /* must be 0 */
} ga_sample_fused_desc;
#define GA_SAMPLE_FUSED_DESC_INIT \
  { GA_SAMPLE_DESC_INIT, 0, 0, 0 }
/* --- end of src/op/sample.toml --- */

/* The parameters with which one token is drawn, in device memory. Indices into the arrays of the io are not checked. */
typedef struct ga_sample_row {
  /* index in io.sequence to which the token is written; penalties see the n_history tokens before it. -1: it is not
   * written, and there are no penalties */
  int64_t sequence;
  int32_t logits;       /* index of the row of logits; -1: nothing is drawn, id becomes -1 and logprob NaN */
  int32_t n_history;    /* number of earlier tokens to which penalties apply */
  int32_t bias, n_bias; /* entries [bias, bias + n_bias) of io.bias apply */
  int32_t mask;         /* index of the row of io.mask that applies; -1: all tokens are allowed */
  int32_t top_k;        /* top_k and the fields after it are as in ga_sample_desc */
  float temperature, top_p, min_p, typical_p;
  float repetition_penalty, presence_penalty, frequency_penalty;
  int32_t reserved; /* must be 0 */
} ga_sample_row;

/* --- src/op/sample.toml: fused_io fused_functions --- */
/* Arrays of a fused draw. `advance` and `sequence` let a recorded step be replayed without new arguments: the kernel
 * itself increases positions and appends the token. With rows: rng is [rows][4], id [rows], logprob NULL or [rows].
 * history, n_history, n_bias, n_sequence and advance are then not read. sequence, bias and mask may be NULL where no
 * row uses them. */
typedef struct ga_sample_fused_io {
  ga_sample_io plain;
  /* [n_advance] numbers that the kernel increases by one, such as the position, slot and length of the next step */
  int32_t *advance;
  int64_t n_advance;
  /* NULL, or [*n_sequence + 1] tokens. Penalties apply to the last n_history of them (fewer at the start) instead of
   * `history`, and the drawn token is appended */
  int32_t *sequence;
  /* on the device: number of tokens in sequence. It may be an element of `advance`, which is increased after it has
   * been read */
  const int32_t *n_sequence;
  const ga_sample_row *rows; /* [desc.rows] parameters of the draws, on the device */
  /* rows of ceil(vocab / 32) words. Token i may be drawn if bit i % 32 of word i / 32 is set; else its logit counts as
   * -infinity */
  const uint32_t *mask;
} ga_sample_fused_io;

GA_DECLARE_FUSED_OP(sample)
/* --- end of src/op/sample.toml --- */

#endif
