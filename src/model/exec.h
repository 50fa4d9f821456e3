/* Running a model's programs (fuse.h) on the layers of a placement: a loop over launches.
 *
 * Activations are f32 rows on the device. Everything is enqueued on the context's stream. */
#ifndef GA_MODEL_EXEC_H
#define GA_MODEL_EXEC_H

#include "ga/attn.h"
#include "model/fuse.h"
#include "model/kv_cache.h"

/* Where layers of a kind have the sequences' keys and values. */
typedef struct ga_step_pages {
  const int32_t *slots;      /* [T] where K and V go; -1 = nowhere */
  const int32_t *page_table; /* [n_seqs, page_stride] */
} ga_step_pages;

/* Tokens of one step, possibly of several sequences, packed one after the other: those with one new token first. Arrays
 * are on the device. */
typedef struct ga_step {
  int32_t n_tokens, n_seqs;
  int32_t n_decode;         /* the first so many sequences have one new token each */
  int32_t max_q, max_kv;    /* longest new part and longest total of a sequence */
  const int32_t *ids;       /* [T] */
  const int32_t *positions; /* [T] */
  const int32_t *types;     /* [T] all 0: token types of encoders; else NULL */
  ga_step_pages pages[KV_KINDS];
  const int32_t *q_start;         /* [n_seqs + 1] */
  const int32_t *q_start_prompts; /* [n_seqs - n_decode + 1] of the others, counted from their first token */
  const int32_t *kv_len;          /* [n_seqs] after this step */
  int64_t page_stride;
  int32_t out_begin, n_out; /* rows whose logits are wanted: [out_begin, out_begin + n_out) */
  const int32_t *out_rows;  /* NULL, or [n_out]: these instead; steps of several tokens */
} ga_step;

/* Told of a product before it runs: x, on the device, [rows, cols] with `stride` elements from row to row, is to be
 * multiplied by that matrix. */
typedef ga_status (*exec_watch_fn)(void *user, ga_ctx *ctx, weight_id matrix, int32_t layer, const float *x,
                                   int64_t rows, int64_t cols, int64_t stride);

/* Buffers for up to max_tokens tokens a step, and the programs of the steps that there have been. */
typedef struct ga_exec {
  const ga_model *model;
  const ga_placement *placement; /* whose layers it runs */
  ga_ctx *ctx;
  const ga_step *step;
  const ga_kv_cache *kv; /* NULL: no cache, attention among the step's own tokens (encoders) */
  int32_t max_tokens, max_out;
  bool is_invariant;        /* a token's numbers do not depend on what else is in its step: set before the first one */
  bool rounds_x;            /* to e4m3, in products of fuse_target: set before the first step */
  float *buffer[BUF_COUNT]; /* NULL: not used here */
  float *gathered;          /* [max_out, d] the rows out_rows; made when first needed */
  bool is_long;             /* by the frequencies of ROPE_LONG, whose magnitude is ROPE_GLOBAL's */
  exec_watch_fn watch;      /* NULL: none. Of steps of more than FUSED_FEW tokens, whose products do nothing to x */
  void *watch_user;
  fused_program *programs[FUSED_FEW + 1][FUSED_FEW + 1]; /* by fused_class of tokens and of rows of logits */
} ga_exec;

/* Allocates the buffers for the layers of a placement; release with exec_destroy. Only the last placement has logits.
 * kv may be NULL and must live as long. context: the most tokens of a sequence. */
GA_NODISCARD ga_status exec_create(const ga_model *model, const ga_placement *placement, const ga_kv_cache *kv,
                                   int32_t max_tokens, int32_t max_out, int32_t context, ga_exec *out);
void exec_destroy(ga_exec *e);
/* Of one with is_invariant: whether its context has batch-invariant rows for all products; asks the planner alone. */
GA_NODISCARD ga_status exec_check_invariant(ga_exec *e);
/* Of one with rounds_x: GA_ERR_UNSUPPORTED if no weight of its placement, or no row of its context, takes rounded X. */
GA_NODISCARD ga_status exec_check_rounds_x(ga_exec *e);
/* Runs the placement's layers on e->step, with the embedding before them at the first placement and the head behind
 * them at the last. Encoders leave [T, d] in BUF_X; the others [n_out, V] in BUF_LOGITS. */
GA_NODISCARD ga_status exec_run(ga_exec *e);
/* The head again, for other rows of the same step. */
GA_NODISCARD ga_status exec_head(ga_exec *e);
/* The layers before these leave their result where these begin. */
GA_NODISCARD ga_status exec_take_over(ga_exec *e, const ga_exec *before);

/* Bytes of the buffers. */
uint64_t exec_bytes(const ga_model *model, int32_t max_tokens, int32_t max_out);
/* The largest workspace that the products and the attention of such a session need on ctx. */
GA_NODISCARD ga_status exec_workspace(const ga_model *model, ga_ctx *ctx, const ga_session_sizes *sizes,
                                      uint64_t *bytes);

/* Lengths are rounded up so that the plans (and the recorded steps) of a growing sequence stay few; the exact ones are
 * in kv_len. */
int64_t exec_rounded(int64_t n);
/* Attention over a cache. */
ga_attn_desc exec_attn_desc(const ga_hparams *p, int32_t seqs, int32_t max_q, int64_t max_kv, ga_dtype kv);

#endif
