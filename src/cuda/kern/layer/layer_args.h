/* Arguments of the layer kernels: one struct by value, the same bytes on the host and on the device. This file is both
 * C11 and CUDA C. */
#ifndef GA_CUDA_KERN_LAYER_LAYER_ARGS_H
#define GA_CUDA_KERN_LAYER_LAYER_ARGS_H

#include <stdint.h>

#ifdef __cplusplus
#define GA_KARGS_LAYER_ASSERT(c) static_assert(c, #c)
#else
#define GA_KARGS_LAYER_ASSERT(c) _Static_assert(c, #c)
#endif

/* Arguments of y = scale * x + b. In this file strides are in elements. vec16 is 1 if every pointer and row starts at a
 * multiple of 16 bytes. */
typedef struct ga_kargs_add {
  const void *x, *b; /* b NULL: nothing is added. */
  void *y;
  const float *factors;                              /* Factor of each row of x. NULL: none. */
  int64_t rows, width, x_stride, b_stride, y_stride; /* b_stride 0: b has one row, which is added to all rows of x. */
  int64_t factor_stride;
  float scale;
  int32_t vec16;
} ga_kargs_add;

/* Arguments of y = act(x), or y = act(x) * g with a gate g. */
typedef struct ga_kargs_act {
  const void *x, *g; /* g is the gate. NULL: no gate. */
  void *y;
  int64_t rows, width, x_stride, g_stride, y_stride;
  int32_t act; /* Activation, a ga_act_kind value. */
  int32_t vec16;
} ga_kargs_act;

/* Arguments of the norms of rows: y = norm(x) * weight + bias + residual. */
typedef struct ga_kargs_norm {
  const void *x;
  void *y;
  const float *weight, *bias; /* NULL: no weight, or no bias. */
  /* Tensor [rows, width] that is added after weight and bias. NULL: none. */
  const void *residual;
  int64_t rows, width, x_stride, y_stride, residual_stride;
  float eps;
  int32_t kind; /* Kind of norm, a ga_norm_kind value. */
} ga_kargs_norm;

/* Arguments of the softmax of scale * x, for rows of `width` elements. */
typedef struct ga_kargs_softmax {
  const float *x;
  float *y;
  int64_t rows, width, x_stride, y_stride;
  float scale;
  /* 1: y is the logarithm of the softmax. 0: y is the softmax. */
  int32_t log;
} ga_kargs_softmax;

/* Arguments of attn_merge, which merges a partial result of attention (part, part_lse, part_l) into o and lse. */
typedef struct ga_kargs_attn_merge {
  float *o, *lse;
  /* part_lse is the log-sum-exp of each row of `part` if part_l is NULL. Otherwise part_lse is the row's maximum and
   * part_l its sum of weights. */
  const void *part;
  const float *part_lse, *part_l;
  int64_t rows, o_token, o_head, lse_head, part_token, part_head, part_lse_head;
  int32_t heads, dim;
  int32_t part_dtype; /* Type of `part`, a ga_dtype value. */
  /* 1: o, part and all strides of rows are multiples of 16 bytes, and dim is a multiple of 8. */
  int32_t vec16;
} ga_kargs_attn_merge;

/* Arguments of the conversion of n elements from f32 (x) to a 16-bit type (y). */
typedef struct ga_kargs_narrow {
  const float *x;
  void *y;
  int64_t n;
  int32_t vec16; /* 1: x and y begin at multiples of 16 bytes. */
  int32_t reserved;
} ga_kargs_narrow;

/* Arguments of the look-up of rows of `table` by token id. w_dtype and y_dtype are ga_dtype values. */
typedef struct ga_kargs_embed {
  const int32_t *ids;
  const void *table;
  void *y;
  int64_t tokens, vocab, width, y_stride;
  int32_t w_dtype, y_dtype;
  float scale;
  int32_t reserved;
} ga_kargs_embed;

/* Arguments of the rotation (RoPE) of x in place, for tokens at the given positions. inv_freq has a frequency for each
 * rotated pair. magnitude is a factor of cosine and sine. */
typedef struct ga_kargs_rope {
  void *x;
  const int32_t *positions;
  const float *inv_freq;
  int64_t tokens, x_stride;
  int32_t heads, head_dim, rot_dim, pairs, x_dtype;
  float magnitude;
} ga_kargs_rope;

/* Arguments of the storing of K and V in a cache, with an optional rotation (RoPE) of Q and K. */
typedef struct ga_kargs_kv_store {
  const void *k, *v;
  /* Cache row of each token. Slots below 0, or from `slots` on, store nothing. */
  const int32_t *slot;
  void *k_cache, *v_cache;
  int64_t tokens, slots, k_stride, v_stride;
  int32_t k_width, v_width; /* Elements of a row of K and of V: KV heads * head dimension. */
  int32_t x_dtype, kv_dtype;
  void *q; /* Queries. With rot_dim above 0 they are rotated in place. */
  const int32_t *positions;
  const float *inv_freq;
  int64_t q_stride;
  /* rot_dim is the number of dimensions of a head that are rotated. 0: neither Q nor K is rotated. */
  int32_t q_heads, head_dim, rot_dim, pairs;
  float magnitude;
  /* Number of heads, or of runs of 32 elements of V, that a warp processes one after the other. */
  int32_t chunk;
  /* Scales of an e4m3 cache, [heads, slots]. Unused for other types. */
  float *k_scale, *v_scale;
  /* Weights of the norms of Q and K, [head_dim]. q_norm and all fields after it are read only by the kernel that
   * applies norms. */
  const float *q_norm, *k_norm;
  float norm_eps;
  int32_t lanes; /* Number of lanes that process a head, a multiple of 32. */
} ga_kargs_kv_store;

/* Fields of one row of logits, with the meaning that ga_sample_row gives them. */
typedef struct ga_kargs_sample_row {
  int64_t sequence;
  int32_t logits, n_history, bias, n_bias, mask, top_k;
  float temperature, top_p, min_p, typical_p;
  float repetition_penalty, presence_penalty, frequency_penalty;
  int32_t reserved;
} ga_kargs_sample_row;

typedef struct ga_kargs_sample {
  const float *logits;
  const int32_t *history;
  const void *bias; /* Logit biases, an array of ga_logit_bias. */
  int32_t *id;
  float *logprob;   /* Log-probability of the drawn token. NULL: not written. */
  int32_t *advance; /* Address of n_advance numbers. The kernel adds 1 to each of them. */
  /* Address of *n_sequence tokens that replace history. The drawn token is appended to them. NULL: history is used. */
  int32_t *sequence;
  const int32_t *n_sequence;
  uint64_t *rng; /* State of the random generator, 4 words, used if temperature is above 0. */
  /* Workspace [vocab]: logits after penalties, biases, typical_p and mask. Not used if the call has none of these. */
  float *adjusted;
  float *group_max;  /* Workspace [groups]: largest logit of each group of tokens. */
  double *group_sum; /* Workspace [groups]: sum of the weights of each group of tokens. */
  /* One counter of finished thread blocks for each row of logits. Counters are 0 before the launch, and the kernel
   * leaves them 0. */
  int32_t *counter;
  int64_t vocab, n_history, n_bias, n_advance;
  /* groups is the number of groups of 2^group_log neighbouring tokens. */
  int32_t groups, group_log;
  /* top_k 0: no top-k filter. filters 1: top_p or min_p is used, or top_k without typical_p. */
  int32_t top_k, filters;
  float temperature, top_p, min_p;
  /* Temperature at which the weights of groups are summed. 0: nothing is summed. */
  float sum_temperature;
  float repetition_penalty, presence_penalty, frequency_penalty;
  float typical_p;      /* 1: no typical-p filter. */
  const uint32_t *mask; /* Bits of the tokens that may be drawn, [ceil(vocab / 32)]. NULL: all tokens may be drawn. */
  int32_t *append;      /* Address to which the drawn token is also written. NULL: not written. */
  /* Fields of each row of logits, which replace the fields above. NULL: all rows use the fields above. Pointers are
   * shared by all rows. */
  const ga_kargs_sample_row *rows;
  /* Distances between rows of logits (logits_stride, in elements) and between the rows' parts of the workspace
   * (workspace_stride, in bytes). */
  int64_t logits_stride, workspace_stride;
  /* Number of thread blocks that process a row. Their indices are consecutive. */
  int32_t row_blocks;
  int32_t unused;
} ga_kargs_sample;

GA_KARGS_LAYER_ASSERT(sizeof(ga_kargs_embed) == 72);
GA_KARGS_LAYER_ASSERT(sizeof(ga_kargs_rope) == 64);
GA_KARGS_LAYER_ASSERT(sizeof(ga_kargs_kv_store) == 184);
GA_KARGS_LAYER_ASSERT(sizeof(ga_kargs_sample) == 232);
GA_KARGS_LAYER_ASSERT(sizeof(ga_kargs_add) == 88);
GA_KARGS_LAYER_ASSERT(sizeof(ga_kargs_act) == 72);
GA_KARGS_LAYER_ASSERT(sizeof(ga_kargs_norm) == 88);
GA_KARGS_LAYER_ASSERT(sizeof(ga_kargs_softmax) == 56);
GA_KARGS_LAYER_ASSERT(sizeof(ga_kargs_attn_merge) == 112);
GA_KARGS_LAYER_ASSERT(sizeof(ga_kargs_narrow) == 32);
#endif
