/* Runs a model's programs (program.h) on the layers of a placement: a loop over launches.
 *
 * Values are f32 rows on the device. Everything is enqueued on the context's stream. */
#ifndef GA_MODEL_EXEC_H
#define GA_MODEL_EXEC_H

#include "ga/all_reduce.h"
#include "ga/attn.h"
#include "model/kv_cache.h"
#include "model/pass/fuse.h"
#include "model/pass/memory.h"

/* Units of layer memory that the step's sequences have, of the kind with the same index in ga_kv_cache.kinds. */
typedef struct ga_step_pages {
  const int32_t *slots;      /* pages: [T] where a token goes, unit * GA_KV_PAGE + place in the page; -1: nowhere */
  const int32_t *page_table; /* pages: [n_seqs, page_stride]; states: [n_seqs] a unit each, -1: none */
} ga_step_pages;

/* Tokens of one step, possibly of several sequences, packed one after the other: those with one new token first. Arrays
 * are on the device. */
typedef struct ga_step {
  int32_t n_tokens, n_seqs;
  int32_t n_decode;         /* the first so many sequences have one new token each */
  int32_t max_q, max_kv;    /* longest new part and longest total of a sequence */
  const int32_t *ids;       /* [T] */
  const int32_t *positions; /* [T] */
  const int32_t *types;     /* [T] token types, which are all 0, for encoders; NULL for other models */
  ga_step_pages pages[MEMORY_KINDS_MAX];
  const int32_t *q_start;         /* [n_seqs + 1] */
  const int32_t *q_start_prompts; /* [n_seqs - n_decode + 1] of the others, counted from their first token */
  const int32_t *kv_len;          /* [n_seqs] after this step */
  int64_t page_stride;
  int32_t out_begin, n_out; /* rows whose logits are wanted: [out_begin, out_begin + n_out) */
  const int32_t *out_rows;  /* NULL, or [n_out]: these instead; steps of several tokens */
} ga_step;

/* A callback before each product of the program, unless its matrix is an attachment's: x on the device, [rows, cols]
 * with `stride` elements from row to row, is about to be multiplied by that matrix. */
typedef ga_status (*exec_watch_fn)(void *user, ga_ctx *ctx, weight_id matrix, int32_t layer, const float *x,
                                   int64_t rows, int64_t cols, int64_t stride);

/* A program and the memory of its values that share memory. */
typedef struct exec_program {
  ga_program *program; /* NULL: not made yet */
  char *scratch;       /* the arena's, or `own` */
  void *own;           /* memory of a program for which the arena is too small; NULL: none */
} exec_program;

/* Memory for up to max_tokens tokens a step, and the programs of the steps that there have been. */
typedef struct ga_exec {
  const ga_model *model;
  const ga_placement *placement; /* whose layers it runs */
  ga_ctx *ctx;
  const ga_step *step;
  const ga_kv_cache *kv; /* NULL: no cache, attention among the step's own tokens (encoders) */
  int32_t max_tokens, max_out;
  int32_t first, end; /* nodes of the graph */
  bool is_invariant;  /* a token's numbers do not depend on what else is in its step: set before the first one */
  bool rounds_x;      /* to e4m3, in products of fuse_target: set before the first step */
  memory_pins pins;   /* values that have one address in all programs */
  char *arena;
  uint64_t arena_bytes;
  bool is_long; /* by the frequencies of ROPE_LONG, whose magnitude is ROPE_GLOBAL's */
  exec_watch_fn
      watch; /* called in steps of more than FUSED_FEW tokens, where no norm is fused into products; or NULL */
  void *watch_user;
  exec_program programs[FUSED_FEW + 1][FUSED_FEW + 1]; /* by fused_class of tokens and of rows of logits */
  const exec_program *running;
  ga_all_reduce *windows;   /* of ranks on GPUs; NULL: they exchange messages, or there is one rank */
  int64_t windows_elements; /* that a sum in windows may have */
} ga_exec;

/* Allocates memory for the layers of a placement; release with exec_destroy. Only the last placement has logits. kv
 * may be NULL and must live as long. context: the most tokens of a sequence. */
GA_NODISCARD ga_status exec_create(const ga_model *model, const ga_placement *placement, const ga_kv_cache *kv,
                                   int32_t max_tokens, int32_t max_out, int32_t context, ga_exec *out);
void exec_destroy(ga_exec *e);
/* With is_invariant: fails where the context lacks batch-invariant rows for a launch. context: most tokens of a
 * sequence. Asks planners alone. */
GA_NODISCARD ga_status exec_check_invariant(ga_exec *e, int32_t context);
/* With rounds_x: GA_ERR_UNSUPPORTED if no weight of the placement, or no row of its context, takes rounded X. */
GA_NODISCARD ga_status exec_check_rounds_x(ga_exec *e);
/* Runs the placement's layers on e->step, with the embedding before them at the first placement and the head after
 * them at the last. exec_result has what they compute: logits [n_out, V], or [T, d] of encoders. */
GA_NODISCARD ga_status exec_run(ga_exec *e);
/* Runs the head again, for other rows of the same step. */
GA_NODISCARD ga_status exec_head(ga_exec *e);
/* Where the last placement leaves the graph's result; the same address for all steps. */
float *exec_result(const ga_exec *e);
/* With ranks on GPUs: says whether all sums so far got what they waited for; waits for the stream. The results of a
 * step are not to be used before. A failure ends the communicator. */
GA_NODISCARD ga_status exec_check(const ga_exec *e);
/* Copies the values that these layers read of those of `before`: behind their work, and before the next work of
 * either context. */
GA_NODISCARD ga_status exec_take_over(ga_exec *e, const ga_exec *before);
/* The same in two halves, between which the rows lie in a buffer of exec_taken_bytes on the device of e. Each half is
 * ordered on one context alone, so that `before` may run another step meanwhile. GA_ERR_UNSUPPORTED: the devices do
 * not reach one another. */
GA_NODISCARD ga_status exec_send(const ga_exec *e, const ga_exec *before, char *buffer); /* on before->ctx */
GA_NODISCARD ga_status exec_receive(const ga_exec *e, const char *buffer);               /* on e->ctx */
/* Bytes of those values for max_tokens tokens. */
uint64_t exec_taken_bytes(const ga_exec *e);

/* Address of the rows of a value in the running program, and elements between its rows. */
float *exec_rows(const ga_exec *e, value_id v);
int64_t exec_stride(const ga_exec *e, value_id v);
GA_NODISCARD ga_status exec_launch(const ga_exec *e, const launch *l); /* exec_launch.c */

/* Plans each declared op of a loaded model for one token, where its layer is. Fails where a device has no row for the
 * file's types. */
GA_NODISCARD ga_status exec_check_ops(const ga_model *model);
/* Computes the bytes of the memory that a ga_exec of all layers needs for steps of max_tokens tokens, max_out of them
 * with logits. max_out 0: without the memory of the output head. */
GA_NODISCARD ga_status exec_bytes(const ga_model *model, int32_t max_tokens, int32_t max_out, uint64_t *bytes);
/* The largest workspace that the products and the attention of such a session need on ctx. */
GA_NODISCARD ga_status exec_workspace(const ga_model *model, ga_ctx *ctx, const ga_session_sizes *sizes,
                                      uint64_t *bytes);

/* Lengths are rounded up so that the plans (and the recorded steps) of a growing sequence stay few; the exact ones are
 * in kv_len. */
int64_t exec_rounded(int64_t n);
/* Attention over a cache. */
ga_attn_desc exec_attn_desc(const ga_hparams *p, int32_t seqs, int32_t max_q, int64_t max_kv, ga_dtype kv);

#endif
