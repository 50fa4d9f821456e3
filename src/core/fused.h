/* Fused forms of public ops: what src/model/fuse.c puts into one launch.
 *
 * A fused struct begins with the public one. GA_OP_<op> always carries the fused structs: ga_<op> puts zeros behind
 * what its caller gives. A kernel that knows of nothing fused reads the public part alone. Programs hold no fused
 * struct, so that these have no versions (docs/adr/0003-growing-structs.md).
 *
 * ga_<op>_fused, _fused_plan and _fused_run are as the public three, of structs that this library has made itself. */
#ifndef GA_CORE_FUSED_H
#define GA_CORE_FUSED_H

#include "ga/gemm.h"
#include "ga/layer.h"
#include "ga/sample.h"

/* K is rotated on its way, as ga_rope does it, and Q [tokens, q_heads, head_dim] in place: what comes between the
 * products and attention in one launch. K itself stays as it is. With head_norm each head of Q and K is first divided
 * by sqrt(mean of its squares + norm_eps) and multiplied by weights of its own (Gemma 3, Qwen 3), all elements of it;
 * results are rounded once, behind the rotation. */
typedef struct ga_kv_store_fused_desc {
  ga_kv_store_desc plain;
  int32_t rot_dim; /* leading elements of a head that are rotated, even; 0 = none, and what follows is not looked at */
  int32_t q_heads;
  int64_t q_stride; /* 0 = contiguous */
  int32_t pairs;    /* ga_rope_pairs */
  float magnitude;
  int32_t head_norm; /* not 0: needs rot_dim */
  float norm_eps;
} ga_kv_store_fused_desc;
#define GA_KV_STORE_FUSED_DESC_INIT \
  { GA_KV_STORE_DESC_INIT, 0, 0, 0, 0, 1.0f, 0, 0.0f }

typedef struct ga_kv_store_fused_io {
  ga_kv_store_io plain;
  void *q;                      /* with rot_dim */
  const int32_t *positions;     /* [tokens] */
  const float *inv_freq;        /* [rot_dim / 2] */
  const float *q_norm, *k_norm; /* [head_dim] each, with head_norm */
} ga_kv_store_fused_io;

/* A step that is recorded once and replayed moves on by itself: fields of the io. */
typedef ga_sample_desc ga_sample_fused_desc;

typedef struct ga_sample_fused_io {
  ga_sample_io plain;
  int32_t *advance; /* [n_advance] numbers of which each becomes one more: the next step's position, slot, length */
  int64_t n_advance;
  /* NULL, or [*n_sequence + 1]: penalties see the last n_history of these tokens (fewer at the start) instead of
   * `history`, and the token is put behind them. */
  int32_t *sequence;
  const int32_t *n_sequence; /* on the device, 0 or more; may be one of `advance`, counted after it has been read */
} ga_sample_fused_io;

#define GA_DECLARE_FUSED_OP(op)                                                                                       \
  GA_NODISCARD ga_status ga_##op##_fused_plan(ga_ctx *ctx, const ga_##op##_fused_desc *desc, ga_plan **out);          \
  GA_NODISCARD ga_status ga_##op##_fused_run(const ga_plan *plan, const ga_##op##_fused_io *io, void *workspace,      \
                                             ga_stream *stream);                                                      \
  GA_NODISCARD ga_status ga_##op##_fused(ga_ctx *ctx, const ga_##op##_fused_desc *desc, const ga_##op##_fused_io *io, \
                                         ga_stream *stream);

GA_DECLARE_FUSED_OP(kv_store)
GA_DECLARE_FUSED_OP(sample)

#endif
