/* GA, multi-head latent attention (MLA): ga_mla attends over a cache of latent vectors (arXiv 2405.04434), which
 * ga_mla_store fills.
 *
 * A token's row of the cache has two parts, which all heads share: its latent vector c, normalised, of v_dim elements,
 * and its rotated key r, of head_dim - v_dim elements. For DeepSeek V2 and V3 that is 512 + 64 = 576. A layer's keys
 * and values of head h are W_K[h] c and W_V[h] c. ga_mla never makes them: the caller multiplies queries by W_K[h]^T
 * before the call, and results by W_V[h] after it ("absorbed" projections).
 *
 *   q of head h     [W_K[h]^T q_nope, q_rope]     head_dim elements
 *   logit           scale * (q . [c, r])
 *   o of head h     sum of softmax weights times c       v_dim elements
 *
 * A row of an e4m3 cache has codes of the latent vector, then an f32 scale for each 128 of them, then the rotated key
 * in bf16: 656 bytes for 512 + 64, as FlashMLA has them. Scales are powers of two: the least of at least 1 / 448 of the
 * block's largest magnitude. Codes times scales are exact in bf16.
 *
 * Sequences are packed: q_start has their first rows in Q and O, kv_len their cached tokens. Attention is causal: query
 * i of a sequence with n_q queries and n_kv cached tokens sees tokens j <= i + n_kv - n_q, so that the last query sees
 * all of them. NaN and infinities of a token reach only rows that see the token.
 */
#ifndef GA_MLA_H
#define GA_MLA_H

#include "ga/layer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- src/op/mla.toml: ga_mla_flags desc io functions --- */
typedef enum ga_mla_flags {
  GA_MLA_LSE = 1, /* write LSE; rows that see no token get LSE -infinity and O = 0 */
  /* Batch-invariant: the bits of a row of O depend only on its query, its position and the tokens that it sees, not on
   * batch, max_q, max_kv or other queries of the call. The call returns GA_ERR_UNSUPPORTED if no kernel has this
   * property. */
  GA_MLA_INVARIANT = 2
} ga_mla_flags;

/* Computes O = softmax(scale Q C^T) V over pages of a latent cache: C has one row of head_dim elements for each token,
 * which all heads share, and V is the first v_dim elements of each row. The head of this file says more. */
typedef struct ga_mla_desc {
  size_t struct_size;
  int64_t batch;              /* number of sequences */
  int64_t max_q, max_kv;      /* largest numbers of queries and of cached tokens of any sequence */
  int64_t q_stride, o_stride; /* elements between tokens of Q and of O; 0 = contiguous */
  int64_t lse_stride;         /* LSE: elements between heads of LSE, at least 1; else 0 */
  int32_t q_heads;            /* number of heads of Q, 1 to 65536 */
  /* elements of a row of the cache and of a head of Q, 1 to 1024: the latent vector and the rotated part */
  int32_t head_dim;
  int32_t v_dim;   /* elements of the latent vector and of a head of O, 1 to 1024, at most head_dim */
  int32_t q_dtype; /* ga_dtype of Q: f32, f16, bf16 */
  /* ga_dtype of the cache: f32, f16, bf16, e4m3. e4m3: rows of codes, scales and bf16, which need v_dim to be a
   * multiple of 128 */
  int32_t kv_dtype;
  int32_t o_dtype;   /* ga_dtype of O: f32, f16, bf16 */
  int32_t page_size; /* tokens of a page, 1 to 2^24 */
  uint32_t flags;    /* ga_mla_flags */
  float scale;       /* factor of Q C^T. It follows from the heads before absorption, such as 1 / sqrt(192) */
  int32_t reserved;  /* must be 0 */
} ga_mla_desc;
#define GA_MLA_DESC_INIT \
  { sizeof(ga_mla_desc), 1, 0, 0, 0, 0, 0, 0, 0, 0, GA_F32, GA_BF16, GA_F32, 64, 0, 1.0f, 0 }

typedef struct ga_mla_io {
  const void *q; /* [tokens, q_heads, head_dim]: the absorbed query, then its rotated part */
  /* pages [pages, page_size, head_dim], contiguous. e4m3: [pages, page_size] rows, at multiples of 4 bytes */
  const void *cache;
  void *o; /* output [tokens, q_heads, v_dim]; must not overlap the inputs */
  /* with LSE: output [q_heads, lse_stride], the log sum exp of each row of logits, indexed by token like Q */
  float *lse;
  /* [batch + 1] row in q of each sequence's first query; sequence b has the rows up to q_start[b + 1] */
  const int32_t *q_start;
  const int32_t *kv_len; /* [batch] number of cached tokens of each sequence, with those of its queries */
  /* [batch, page_table_stride] numbers of pages. Entry i of a sequence is the page with its tokens i * page_size to (i
   * + 1) * page_size - 1 */
  const int32_t *page_table;
  int64_t page_table_stride; /* elements between rows of page_table, 0 to 2^40 */
  /* number of tokens in q and o. Rows of no sequence are not written. A GPU neither reads nor writes rows from q_tokens
   * on; a CPU does not read it */
  int64_t q_tokens;
} ga_mla_io;

GA_DECLARE_OP(mla)
/* --- end of src/op/mla.toml --- */

/* --- src/op/mla_store.toml: desc io functions --- */
/* Stores rows of new tokens in a latent cache, as ga_mla reads it: cache[slot[t]] = [norm(c), rope(r)] of X[t] = [c,
 * r]. The RMS norm divides the latent vector c by sqrt(mean of its squares + norm_eps) and multiplies it by io.norm.
 * The key r is rotated as ga_rope rotates a head. Results are rounded once. */
typedef struct ga_mla_store_desc {
  size_t struct_size;
  /* numbers of new tokens and of slots of the cache. The number of a slot is page * page_size + offset in the page */
  int64_t tokens, slots;
  int64_t x_stride; /* elements between rows of X; 0 = contiguous */
  int32_t v_dim;    /* elements of the latent vector, 1 to 1024 */
  int32_t rot_dim;  /* elements of the rotated key, even; v_dim + rot_dim is at most 1024 */
  int32_t pairs;    /* ga_rope_pairs */
  int32_t x_dtype;  /* ga_dtype of X: f32, f16, bf16 */
  /* ga_dtype of the cache: f32, f16, bf16, e4m3. e4m3: rows of codes, scales and bf16, which need v_dim to be a
   * multiple of 128 */
  int32_t kv_dtype;
  float norm_eps;   /* with io.norm: addend of the mean of squares */
  float magnitude;  /* factor by which cos and sin are multiplied */
  int32_t reserved; /* must be 0 */
} ga_mla_store_desc;
#define GA_MLA_STORE_DESC_INIT \
  { sizeof(ga_mla_store_desc), 0, 0, 0, 0, 0, 0, GA_F32, GA_BF16, 0.0f, 1.0f, 0 }

typedef struct ga_mla_store_io {
  const void *x;     /* [tokens, v_dim + rot_dim] */
  const float *norm; /* [v_dim] factors of the norm; NULL = c is stored as it is */
  /* [tokens] slot of each token; -1 = do not store the token. No slot may occur twice. Only CPU contexts check slots:
   * GA_ERR_ARG names the first bad slot */
  const int32_t *slot;
  const int32_t *positions; /* with rot_dim: [tokens] position of each token */
  const float *inv_freq;    /* with rot_dim: [rot_dim / 2] frequencies, see ga_rope_freqs */
  void *cache;              /* [slots, v_dim + rot_dim], contiguous. e4m3: [slots] rows, at multiples of 4 bytes */
} ga_mla_store_io;

GA_DECLARE_OP(mla_store)
/* --- end of src/op/mla_store.toml --- */

#ifdef __cplusplus
}
#endif

#endif
