/* GA, the rest of a transformer layer: norm, rope, activation, softmax, embedding, KV store, (de)quantise.
 *
 * Each op has three functions, as ga_gemm has: _plan, _run, and one without a suffix that does both. Activations are
 * row-major [tokens, width] with an explicit row stride in elements (0 = contiguous).
 */
#ifndef GA_LAYER_H
#define GA_LAYER_H

#include "ga/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- src/op/norm.toml: ga_norm_kind desc io functions --- */
typedef enum ga_norm_kind {
  GA_NORM_RMS = 0,
  GA_NORM_LAYER = 1,
  GA_NORM_L2 = 2 /* x / max(|x|, eps), where |x| is the Euclidean length of the row */
} ga_norm_kind;

/* Computes Y = residual + norm(X) * weight + bias for each row of `width` elements, rounded once. RMS: x / sqrt(mean
 * x^2 + eps) (arXiv 1910.07467). LAYER: (x - mean) / sqrt(var + eps) (arXiv 1607.06450). */
typedef struct ga_norm_desc {
  size_t struct_size;
  int64_t rows, width;
  int64_t x_stride, y_stride;
  int32_t kind;             /* ga_norm_kind */
  int32_t x_dtype, y_dtype; /* ga_dtype of X and of Y: f32, f16, bf16 */
  float eps;                /* RMS, LAYER: added to the mean square or to the variance; L2: smallest divisor */
  int64_t residual_stride;
} ga_norm_desc;
#define GA_NORM_DESC_INIT \
  { sizeof(ga_norm_desc), 0, 0, 0, 0, 0, GA_F32, GA_F32, 1e-5f, 0 }

typedef struct ga_norm_io {
  const void *x;
  void *y;              /* output [rows, width]; may be x */
  const float *weight;  /* [width] factors; NULL = 1 */
  const float *bias;    /* [width] addends; NULL = 0 */
  const void *residual; /* addend [rows, width] of y's type, or NULL; may be y */
} ga_norm_io;

GA_DECLARE_OP(norm)
/* --- end of src/op/norm.toml --- */

/* --- src/op/rope.toml: ga_rope_pairs desc io functions --- */
typedef enum ga_rope_pairs {
  GA_ROPE_NORM = 0, /* rotates elements (2i, 2i + 1) */
  GA_ROPE_NEOX = 1  /* rotates elements (i, i + rot_dim / 2) */
} ga_rope_pairs;

/* Rotates pairs of elements of X [tokens, heads, head_dim] in place, by the angle position * inv_freq (RoFormer, arXiv
 * 2104.09864). Linear, per-frequency and YaRN (arXiv 2309.00071) scaling are all in inv_freq and magnitude: see
 * ga_rope_freqs. */
typedef struct ga_rope_desc {
  size_t struct_size;
  int64_t tokens;
  int64_t x_stride; /* elements between tokens; 0 = heads * head_dim */
  int32_t heads;    /* number of heads, 1 to 65536 */
  int32_t head_dim; /* number of elements of a head, 1 to 16384 */
  int32_t rot_dim;  /* number of leading elements of a head that are rotated, even */
  int32_t pairs;    /* ga_rope_pairs */
  int32_t x_dtype;  /* ga_dtype of X: f32, f16, bf16 */
  float magnitude;  /* factor by which cos and sin are multiplied */
} ga_rope_desc;
#define GA_ROPE_DESC_INIT \
  { sizeof(ga_rope_desc), 0, 0, 0, 0, 0, 0, GA_F32, 1.0f }

typedef struct ga_rope_io {
  void *x;
  const int32_t *positions; /* [tokens] position of each token */
  const float *inv_freq;    /* [rot_dim / 2] frequency of each pair, see ga_rope_freqs */
} ga_rope_io;

GA_DECLARE_OP(rope)
/* --- end of src/op/rope.toml --- */

typedef enum ga_rope_scaling {
  GA_ROPE_SCALE_NONE = 0,
  GA_ROPE_SCALE_LINEAR = 1,
  GA_ROPE_SCALE_YARN = 2
} ga_rope_scaling;

typedef struct ga_rope_params {
  size_t struct_size;
  int32_t rot_dim;
  int32_t scaling;         /* ga_rope_scaling */
  double base;             /* base of the frequencies: 10000, 500000, ... */
  double factor;           /* LINEAR, YARN: factor by which the context is extended, 1 or more */
  double original_context; /* YARN: tokens of the context before it was extended */
  /* YARN: frequencies with at least beta_fast rotations over the original context stay. Frequencies with at most
   * beta_slow rotations are divided by factor. Between the two bounds both values are blended. 0 = 32 and 1 */
  double beta_fast, beta_slow;
  double attn_factor;        /* YARN: factor of the magnitude; 0 = 1 */
  const float *freq_factors; /* [rot_dim / 2] divisors of the frequencies (Llama 3.1); NULL = none */
  int32_t exact_bounds;      /* YARN: 1 = the two bounds are not rounded outwards to whole pairs (gpt-oss) */
  int32_t reserved;          /* must be 0 */
} ga_rope_params;
#define GA_ROPE_PARAMS_INIT \
  { sizeof(ga_rope_params), 0, 0, 10000.0, 1.0, 0.0, 0.0, 0.0, 0.0, NULL, 0, 0 }

/* Fills inv_freq[rot_dim / 2] and *magnitude on the host; both are unchanged after a failure. rot_dim is at most 16384.
 * All numbers must be finite, base above 1, beta_* and attn_factor not negative, freq_factors above 0. */
GA_API GA_NODISCARD ga_status ga_rope_freqs(const ga_rope_params *params, float *inv_freq, float *magnitude);

/* --- src/op/act.toml: desc io functions --- */
/* Computes Y = act(X), or act(X) * G if g is not NULL; X, G and Y are [rows, width]. */
typedef struct ga_act_desc {
  size_t struct_size;
  int64_t rows, width;
  int64_t x_stride, g_stride, y_stride;
  int32_t act;   /* ga_act_kind */
  int32_t dtype; /* ga_dtype of X, G and Y: f32, f16, bf16 */
} ga_act_desc;
#define GA_ACT_DESC_INIT \
  { sizeof(ga_act_desc), 0, 0, 0, 0, 0, 0, GA_F32 }

typedef struct ga_act_io {
  const void *x, *g; /* inputs [rows, width]; g NULL = no factor */
  void *y;           /* output [rows, width]; may be x or g */
} ga_act_io;

GA_DECLARE_OP(act)
/* --- end of src/op/act.toml --- */

/* --- src/op/add.toml: desc io functions --- */
/* Computes Y = scale * f * X + B, [rows, width], where f is the row's factor. b_rows 1 with b_stride 0: the one row of
 * B is added to all rows. */
typedef struct ga_add_desc {
  size_t struct_size;
  int64_t rows, width;
  int64_t x_stride, b_stride, y_stride;
  int64_t b_rows;        /* number of rows of B: rows, or 1 */
  int32_t dtype;         /* ga_dtype of X, B and Y: f32, f16, bf16 */
  float scale;           /* factor of X: Y = scale * X + B */
  int64_t factor_stride; /* elements between the factors of rows; 0 = there are none */
} ga_add_desc;
#define GA_ADD_DESC_INIT \
  { sizeof(ga_add_desc), 0, 0, 0, 0, 0, 0, GA_F32, 1.0f, 0 }

typedef struct ga_add_io {
  const void *x, *b;    /* inputs [rows, width]; b NULL = nothing is added */
  void *y;              /* output [rows, width]; may be x or b */
  const float *factors; /* with factor_stride: [rows] factor of each row of X; may not overlap y */
} ga_add_io;

GA_DECLARE_OP(add)
/* --- end of src/op/add.toml --- */

/* --- src/op/softmax.toml: desc io functions --- */
/* Computes Y = softmax(scale * X) for each row of `width` f32 elements. A row of -infinity gives zeros; its log-softmax
 * is -infinity. */
typedef struct ga_softmax_desc {
  size_t struct_size;
  int64_t rows, width;
  int64_t x_stride, y_stride;
  float scale; /* factor by which X is multiplied */
  int32_t log; /* not 0: log-softmax; 0: softmax */
} ga_softmax_desc;
#define GA_SOFTMAX_DESC_INIT \
  { sizeof(ga_softmax_desc), 0, 0, 0, 0, 1.0f, 0 }

typedef struct ga_softmax_io {
  const float *x;
  float *y; /* output [rows, width]; may be x */
} ga_softmax_io;

GA_DECLARE_OP(softmax)
/* --- end of src/op/softmax.toml --- */

/* --- src/op/attn_merge.toml: ga_attn_merge_kind desc io functions --- */
typedef enum ga_attn_merge_kind {
  GA_ATTN_MERGE_LSE = 0, /* PART, the result to merge, is an output O of attention with its LSE */
  GA_ATTN_MERGE_STATE =
      1 /* PART, the result to merge, is a state of ga_attn: O = PART / l, LSE = (m + log2 l) / log2 e */
} ga_attn_merge_kind;

/* Merges partial results of attention over two sets of keys into the result over both (distributed attention, split
 * keys). The result is f32, PART is f32, f16 or bf16:
 *   O [rows, heads, dim] = (e^(LSE - M) O + e^(PART_LSE - M) PART) / (e^(LSE - M) + e^(PART_LSE - M)), M the larger LSE
 * and LSE becomes log (e^LSE + e^PART_LSE). An LSE of -infinity marks a result over no keys, which is not read. */
typedef struct ga_attn_merge_desc {
  size_t struct_size;
  int64_t rows;
  /* strides in elements: o_token between rows of O, o_head between its heads, lse_head between heads of LSE [heads,
   * rows]. 0 = heads * dim, dim, rows */
  int64_t o_token, o_head, lse_head;
  /* strides in elements: part_token between rows of PART, part_head between its heads, part_lse_head between heads of
   * part_lse, or of m and l. 0 = heads * dim, dim, rows */
  int64_t part_token, part_head, part_lse_head;
  int32_t heads;      /* number of heads of O, 1 to 65536 */
  int32_t dim;        /* elements of a head of O, 1 to 1024 */
  int32_t kind;       /* ga_attn_merge_kind */
  int32_t part_dtype; /* ga_dtype of PART: f32, f16 or bf16; 0 = f32. A state is f32 */
} ga_attn_merge_desc;
#define GA_ATTN_MERGE_DESC_INIT \
  { sizeof(ga_attn_merge_desc), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, GA_F32 }

typedef struct ga_attn_merge_io {
  float *o, *lse;
  const void *part;      /* PART, the partial result that is merged into o and lse, of type part_dtype */
  const float *part_lse; /* LSE of PART, or m of a state. PART and part_lse must overlap neither o nor lse */
  const float *part_l;   /* l of a state; NULL for GA_ATTN_MERGE_LSE */
} ga_attn_merge_io;

GA_DECLARE_OP(attn_merge)
/* --- end of src/op/attn_merge.toml --- */

/* --- src/op/embed.toml: desc io functions --- */
/* Looks up rows: Y [tokens, width] = scale * table[ids]. The table [vocab, width] is of any weight type, in native
 * layout. */
typedef struct ga_embed_desc {
  size_t struct_size;
  int64_t tokens, vocab, width;
  int64_t y_stride;
  int32_t w_dtype;  /* ga_dtype of the table: any weight type */
  int32_t y_dtype;  /* ga_dtype of Y: f32, f16, bf16 */
  float scale;      /* factor by which rows are multiplied */
  int32_t reserved; /* must be 0 */
} ga_embed_desc;
#define GA_EMBED_DESC_INIT \
  { sizeof(ga_embed_desc), 0, 0, 0, 0, 0, GA_F32, 1.0f, 0 }

typedef struct ga_embed_io {
  /* [tokens] ids, 0 to vocab - 1. Only CPU contexts check them, also if width is 0: GA_ERR_ARG names the first bad
   * id */
  const int32_t *ids;
  const void *table;
  void *y;
} ga_embed_io;

GA_DECLARE_OP(embed)
/* --- end of src/op/embed.toml --- */

/* --- src/op/kv_store.toml: desc io functions --- */
/* Stores the K and V rows of `tokens` new tokens into slots of their caches: cache[slot[t]] = convert(x[t]). A cache is
 * [slots, heads, dim]; the number of a slot is page * page_size + offset in the page. An e4m3 cache has a scale for
 * each token of a head, as ga_attn_quant makes it: the largest magnitude / 448, or 1 if that is 0. The cache holds x /
 * scale, rounded to nearest even; both quotients are computed in f32. A NaN stays NaN and does not count for the
 * magnitude. An infinity becomes NaN, and the other elements of its row become 0. ga_attn reads the scales with
 * kv_scale_tokens 1 and strides page_size (page), slots (head) and 1 (token). */
typedef struct ga_kv_store_desc {
  size_t struct_size;
  int64_t tokens, slots;
  int64_t k_stride, v_stride; /* elements between the new rows of K and of V; 0 = contiguous */
  int32_t heads;              /* number of heads of K and V, 1 to 65536 */
  int32_t head_dim;           /* number of elements of a head of K, 1 to 16384 */
  int32_t v_dim;              /* number of elements of a head of V, 1 to 16384; 0 = head_dim */
  int32_t x_dtype;            /* ga_dtype of the new rows of K and V: f32, f16, bf16 */
  int32_t kv_dtype;           /* ga_dtype of the caches: f32, f16, bf16, e4m3, block types */
  int32_t reserved;           /* must be 0 */
} ga_kv_store_desc;
#define GA_KV_STORE_DESC_INIT \
  { sizeof(ga_kv_store_desc), 0, 0, 0, 0, 0, 0, 0, GA_F32, GA_F16, 0 }

typedef struct ga_kv_store_io {
  const void *k, *v;
  /* [tokens] slot of each token; -1 = do not store the token. No slot may occur twice. Only CPU contexts check slots:
   * GA_ERR_ARG names the first bad slot */
  const int32_t *slot;
  void *k_cache, *v_cache;
  float *k_scale, *v_scale; /* e4m3 caches: [heads, slots] scales of K and of V, which the op writes */
} ga_kv_store_io;

GA_DECLARE_OP(kv_store)
/* --- end of src/op/kv_store.toml --- */

/* --- src/op/convert.toml: ga_convert_scales desc io functions --- */
/* Scales that a conversion to e4m3 computes, as ga_gemm takes them (ga/gemm.h). A scale is the largest magnitude of its
 * block / 448, or 1 if that is 0. y is x / scale, rounded to nearest even. Both quotients are computed in f32, so that
 * every device has the same bits. A NaN stays NaN and does not count for the magnitude. An infinity becomes NaN, and
 * the other elements of its block become 0. Numbers of blocks are rounded up. */
typedef enum ga_convert_scales {
  GA_CONVERT_SCALES_NONE = 0,
  GA_CONVERT_SCALES_ROW = 1,  /* blocks of 1 x 128: scale [width / 128, rows], ga_gemm's x_scale */
  GA_CONVERT_SCALES_BLOCK = 2 /* blocks of 128 x 128: scale [rows / 128, width / 128], ga_gemm's w_scale */
} ga_convert_scales;

/* Converts X [rows, width] to another element type: quantise, dequantise, cast. X and Y are contiguous. */
typedef struct ga_convert_desc {
  size_t struct_size;
  int64_t rows, width;
  int32_t x_dtype, y_dtype; /* ga_dtype of X and of Y */
  int32_t scales;           /* ga_convert_scales. If not NONE, x is f32, f16 or bf16, and y is e4m3 */
  int32_t reserved;         /* must be 0 */
} ga_convert_desc;
#define GA_CONVERT_DESC_INIT \
  { sizeof(ga_convert_desc), 0, 0, 0, 0, 0, 0 }

typedef struct ga_convert_io {
  const void *x;
  void *y;
  float *scale; /* scales, written if desc.scales is not NONE */
} ga_convert_io;

GA_DECLARE_OP(convert)
/* --- end of src/op/convert.toml --- */

#ifdef __cplusplus
}
#endif
#endif
