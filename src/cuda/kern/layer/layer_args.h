/* Arguments of the layer kernels: one struct by value, the same bytes on the host and on the device. C11 and CUDA C. */
#ifndef GA_CUDA_KERN_LAYER_LAYER_ARGS_H
#define GA_CUDA_KERN_LAYER_LAYER_ARGS_H

#include <stdint.h>

#ifdef __cplusplus
#define GA_KARGS_LAYER_ASSERT(c) static_assert(c, #c)
#else
#define GA_KARGS_LAYER_ASSERT(c) _Static_assert(c, #c)
#endif

/* Strides in elements. `vec16`: every pointer and row starts at a multiple of 16 bytes. */
typedef struct ga_kargs_add {
  const void *x, *b; /* b null: nothing is added */
  void *y;
  int64_t rows, width, x_stride, b_stride, y_stride; /* b_stride 0: one row for all */
  float scale;
  int32_t vec16;
} ga_kargs_add;

typedef struct ga_kargs_act {
  const void *x, *g; /* g null: no gate */
  void *y;
  int64_t rows, width, x_stride, g_stride, y_stride;
  int32_t act; /* ga_act_kind */
  int32_t vec16;
} ga_kargs_act;

typedef struct ga_kargs_norm {
  const void *x;
  void *y;
  const float *weight, *bias; /* null: none */
  const void *residual;       /* null: none */
  int64_t rows, width, x_stride, y_stride, residual_stride;
  float eps;
  int32_t kind; /* ga_norm_kind */
} ga_kargs_norm;

typedef struct ga_kargs_softmax {
  const float *x;
  float *y;
  int64_t rows, width, x_stride, y_stride;
  float scale;
  int32_t log;
} ga_kargs_softmax;

typedef struct ga_kargs_attn_merge {
  float *o, *lse;
  const float *part, *part_lse, *part_l; /* part_l null: part_lse is an LSE; else part_lse is m */
  int64_t rows, o_token, o_head, lse_head, part_token, part_head, part_lse_head;
  int32_t heads, dim;
} ga_kargs_attn_merge;

/* Conversion from f32 to 16 bits. */
typedef struct ga_kargs_narrow {
  const float *x;
  void *y;
  int64_t n;
  int32_t vec16; /* x and y begin at multiples of 16 bytes */
  int32_t reserved;
} ga_kargs_narrow;

/* Types are ga_dtype. */
typedef struct ga_kargs_embed {
  const int32_t *ids;
  const void *table;
  void *y;
  int64_t tokens, vocab, width, y_stride;
  int32_t w_dtype, y_dtype;
  float scale;
  int32_t reserved;
} ga_kargs_embed;

typedef struct ga_kargs_rope {
  void *x;
  const int32_t *positions;
  const float *inv_freq;
  int64_t tokens, x_stride;
  int32_t heads, head_dim, rot_dim, pairs, x_dtype;
  float magnitude;
} ga_kargs_rope;

typedef struct ga_kargs_kv_store {
  const void *k, *v;
  const int32_t *slot;
  void *k_cache, *v_cache;
  int64_t tokens, slots, k_stride, v_stride;
  int32_t k_width, v_width; /* heads * dim */
  int32_t x_dtype, kv_dtype;
  void *q; /* with rot_dim: rotated in place */
  const int32_t *positions;
  const float *inv_freq;
  int64_t q_stride;
  int32_t q_heads, head_dim, rot_dim, pairs; /* rot_dim 0: no rotation */
  float magnitude;
  int32_t chunk;                /* heads, or runs of V, that a warp processes one after the other */
  float *k_scale, *v_scale;     /* e4m3: [heads, slots] */
  const float *q_norm, *k_norm; /* q_norm and all fields after it: only for the normed kernel */
  float norm_eps;
  int32_t lanes; /* lanes of a head: whole warps */
} ga_kargs_kv_store;

/* The fields of one row; see ga_sample_row. */
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
  const void *bias; /* ga_logit_bias */
  int32_t *id;
  float *logprob;   /* null: not wanted */
  int32_t *advance; /* n_advance numbers, each of which is incremented */
  /* null, or *n_sequence tokens that replace history; id is appended to them */
  int32_t *sequence;
  const int32_t *n_sequence;
  uint64_t *rng;     /* 4 words; used above temperature 0 */
  float *adjusted;   /* workspace [vocab]: logits with biases and penalties, if there are any */
  float *group_max;  /* workspace [groups] */
  double *group_sum; /* workspace [groups] */
  int32_t *counter;  /* zeroed before the launch and left zeroed */
  int64_t vocab, n_history, n_bias, n_advance;
  int32_t groups, group_log; /* groups of 2^group_log neighbouring tokens */
  int32_t top_k, filters;    /* top_k 0: off; filters: any of top_p, min_p and, without typical, top_k */
  float temperature, top_p, min_p;
  float sum_temperature; /* temperature at which groups' weights are summed; 0: no sums */
  float repetition_penalty, presence_penalty, frequency_penalty;
  float typical_p;      /* 1: off */
  const uint32_t *mask; /* null, or [ceil(vocab / 32)] bits of the tokens that may be drawn */
  int32_t *append;      /* null, or an address to which id is also written */
  /* null, or the fields that rows have of their own; the pointers here are shared by all rows */
  const ga_kargs_sample_row *rows;
  int64_t logits_stride, workspace_stride; /* distance of rows, in elements and in bytes */
  int32_t row_blocks;                      /* blocks of a row, with consecutive indices */
  int32_t unused;
} ga_kargs_sample;

GA_KARGS_LAYER_ASSERT(sizeof(ga_kargs_embed) == 72);
GA_KARGS_LAYER_ASSERT(sizeof(ga_kargs_rope) == 64);
GA_KARGS_LAYER_ASSERT(sizeof(ga_kargs_kv_store) == 184);
GA_KARGS_LAYER_ASSERT(sizeof(ga_kargs_sample) == 232);
GA_KARGS_LAYER_ASSERT(sizeof(ga_kargs_add) == 72);
GA_KARGS_LAYER_ASSERT(sizeof(ga_kargs_act) == 72);
GA_KARGS_LAYER_ASSERT(sizeof(ga_kargs_norm) == 88);
GA_KARGS_LAYER_ASSERT(sizeof(ga_kargs_softmax) == 56);
GA_KARGS_LAYER_ASSERT(sizeof(ga_kargs_attn_merge) == 104);
GA_KARGS_LAYER_ASSERT(sizeof(ga_kargs_narrow) == 32);
#endif
