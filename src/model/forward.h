/* One step of a model: the vocabulary that the architecture files are written in.
 *
 * Shapes in comments: T tokens of the step, d width, Hq and Hkv heads, D head_dim, F ff_width, V vocabulary.
 * Activations are f32 rows on the device. Everything is enqueued on the context's stream. */
#ifndef GA_MODEL_FORWARD_H
#define GA_MODEL_FORWARD_H

#include "model/model.h"

#define GA_KV_PAGE 64 /* tokens */

/* Tokens of one step, possibly of several sequences, packed one after the other. Arrays are on the device. */
typedef struct ga_step {
  int32_t n_tokens, n_seqs;
  int32_t max_q, max_kv;     /* longest new part and longest total of a sequence */
  const int32_t *ids;        /* [T] */
  const int32_t *positions;  /* [T] */
  const int32_t *types;      /* [T] all 0: token types of encoders; else NULL */
  const int32_t *slots;      /* [T] where K and V go */
  const int32_t *q_start;    /* [n_seqs + 1] */
  const int32_t *kv_len;     /* [n_seqs] after this step */
  const int32_t *page_table; /* [n_seqs, page_stride] */
  int64_t page_stride;
  int32_t out_begin, n_out; /* rows whose logits are wanted: [out_begin, out_begin + n_out) */
} ga_step;

/* KV cache of all layers: [pages, page_size, Hkv, D] each; in e4m3 with scales [Hkv, n_slots] behind. */
typedef struct ga_kv_cache {
  void **k, **v; /* [n_layers] device memory */
  ga_dtype dtype;
  int32_t page_size;
  int64_t n_slots; /* pages * page_size */
} ga_kv_cache;

/* Buffers for up to max_tokens tokens a step. */
typedef struct ga_forward {
  const ga_model *model;
  const ga_place *place; /* whose layers it runs */
  ga_ctx *ctx;
  const ga_step *step;
  const ga_kv_cache *kv; /* NULL: no cache, attention among the step's own tokens (encoders) */
  int32_t max_tokens, max_out;
  float *stream, *h;  /* [T + 1, d] residual stream, one token's in the first row and the last in turn; [T, d] its
                         normalised copy */
  float *x;           /* where the stream is; at the end of a step at stream, but for the last place */
  ga_vector add_norm; /* what fwd_add_rms has left: x is x + RMS norm of h, by these weights; or NULL */
  float *q, *k, *v;   /* [T, Hq D] [T, Hkv D] [T, Hkv Dv], or one fused block at q */
  float *o;           /* [T, Hq Dv] */
  float *gate, *up;   /* [T, F] */
  float *logits;      /* [max_out, V] */
  int64_t q_stride, kv_stride;   /* elements between tokens of q, and of k and v */
  bool store_turns, store_norms; /* the device turns q and k, and norms their heads, as it stores k: fwd_rope and
                                    fwd_head_rms leave it to that */
  bool turn, turn_local;         /* what fwd_rope has left, and by which frequencies */
  ga_vector q_norm, k_norm;      /* what fwd_head_rms has left, or NULL */
  uint8_t
      refused[GA_MODEL_MAX_LAYERS]; /* launches of several products that no row of the device takes: forward_fused.c */
} ga_forward;

/* Allocates the buffers for the layers of a place; release with fwd_destroy. Only the last place has logits. */
GA_NODISCARD ga_status fwd_create(ga_model *model, const ga_place *place, int32_t max_tokens, int32_t max_out,
                                  ga_forward *out);
/* Bytes of those buffers. */
uint64_t fwd_bytes(const ga_model *model, int32_t max_tokens, int32_t max_out);
/* The largest workspace that the products and the attention of such a session need on ctx. */
GA_NODISCARD ga_status fwd_workspace(const ga_model *model, ga_ctx *ctx, const ga_session_sizes *sizes,
                                     uint64_t *bytes);
void fwd_destroy(ga_forward *f);

/* From now on keys and values go to `kv`, and attention reads them there. */
GA_NODISCARD ga_status fwd_use_cache(ga_forward *f, const ga_kv_cache *kv);

/* The layers before these leave their result where these begin. */
GA_NODISCARD ga_status fwd_take_over(ga_forward *f, const ga_forward *before);
static inline bool fwd_begins(const ga_forward *f) { return f->place == f->model->places; }
static inline bool fwd_ends(const ga_forward *f) { return f->place == f->model->places + f->model->n_places - 1; }

/* The architectures, one file each: the layers of f->place, with the embedding before them at the first place and the
 * head behind them at the last. Encoders leave [T, d] in f->x; the others [n_out, V] in f->logits. */
#define X(name) GA_NODISCARD ga_status ga_arch_##name(ga_forward *f);
GA_MODEL_ARCHS(X)
#undef X
/* Runs the architecture of f->model on f->step. */
GA_NODISCARD ga_status fwd_run(ga_forward *f);

/* Lengths are rounded up so that the plans (and the recorded steps) of a growing sequence stay few; the exact ones are
 * in kv_len. */
int64_t fwd_rounded(int64_t n);

/* --- words of the architecture files --- */

/* What a linear layer does besides y = W x. */
typedef struct fwd_epilogue {
  ga_vector bias;
  int32_t act;           /* ga_act_kind */
  const float *gate;     /* y = act(gate) * y, rows as y */
  const float *residual; /* y += residual, rows as y */
} fwd_epilogue;

GA_NODISCARD ga_status fwd_embed(ga_forward *f, const ga_matrix *table, const int32_t *ids, float scale, float *y);
/* y [rows, width] = RMS norm (bias NULL and rms) or layer norm of x. */
GA_NODISCARD ga_status fwd_rms(ga_forward *f, const float *x, ga_vector weight, float *y);
GA_NODISCARD ga_status fwd_layer_norm(ga_forward *f, const float *x, ga_vector weight, ga_vector bias, float *y);
/* RMS norm of each head of q and of k by itself, in place, at the latest in fwd_attention; fwd_rope follows. */
GA_NODISCARD ga_status fwd_head_rms(ga_forward *f, ga_vector q_norm, ga_vector k_norm);
/* y [T, rows of w] = W x, contiguous */
GA_NODISCARD ga_status fwd_linear(ga_forward *f, const float *x, const ga_matrix *w, const fwd_epilogue *e, float *y);
/* q, k, v = W h + b of layer il, h = RMS norm of f->x; h is left in f->h only where that takes a launch of its own. */
GA_NODISCARD ga_status fwd_qkv(ga_forward *f, int il);
/* up [T, F] = act(Wg h) * (Wu h) of layer il, h as in fwd_qkv */
GA_NODISCARD ga_status fwd_gated(ga_forward *f, int il, int32_t act);
/* out = x + y [T, d] */
GA_NODISCARD ga_status fwd_add(ga_forward *f, const float *x, const float *y, float *out);
/* f->x [T, d] += RMS norm of f->h; of one token at the latest in the product that norms f->x next. */
GA_NODISCARD ga_status fwd_add_rms(ga_forward *f, ga_vector weight);
/* Rotates q and k, at the latest in fwd_attention; local layers have their own frequencies. */
GA_NODISCARD ga_status fwd_rope(ga_forward *f, bool local);
/* Stores k and v into the cache of layer il, then o = attention(q, cache). window 0 = none. */
GA_NODISCARD ga_status fwd_attention(ga_forward *f, int il, int32_t window);
/* o = attention(q, k, v) among the step's own tokens, both directions. */
GA_NODISCARD ga_status fwd_attention_bidirectional(ga_forward *f);
/* logits [n_out, V] = output * norm(x[out rows]); nothing where the head is elsewhere. May be called again for other
 * rows of the same step. */
GA_NODISCARD ga_status fwd_logits(ga_forward *f);

/* --- for forward_fused.c --- */

/* Does what fwd_add_rms has left. */
GA_NODISCARD ga_status fwd_add_now(ga_forward *f);
/* logits [rows, V] = output * RMS norm of x [rows, d] */
GA_NODISCARD ga_status fwd_head(ga_forward *f, int64_t rows, const float *x);
/* y [rows, d] = norm of x: RMS, or layer norm in GPT-2. */
GA_NODISCARD ga_status fwd_norm_rows(ga_forward *f, int64_t rows, const float *x, ga_vector weight, ga_vector bias,
                                     float *y);
GA_NODISCARD ga_status fwd_linear_rows(ga_forward *f, int64_t rows, const float *x, const ga_matrix *w, float *y);

#endif
