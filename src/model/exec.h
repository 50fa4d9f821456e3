/* Runs a model's programs (program.h) for the layers of one placement: a loop over launches.
 *
 * Values are f32 rows on the device. Everything is enqueued on the context's stream. */
#ifndef GA_MODEL_EXEC_H
#define GA_MODEL_EXEC_H

#include "ga/all_reduce.h"
#include "ga/attn.h"
#include "ga/experts.h"
#include "model/host_experts.h"
#include "model/kv_cache.h"
#include "model/pass/fuse.h"
#include "model/pass/memory.h"

/* Units of the step's sequences in the layer memory of one kind: the kind with the same index in ga_kv_cache.kinds. */
typedef struct ga_step_pages {
  /* pages: [T] slot of each token, unit * GA_KV_PAGE + place in the page; -1: the token is not stored */
  const int32_t *slots;
  /* pages: [n_seqs, page_stride] units of each sequence; states: [n_seqs] unit of each sequence, -1: none */
  const int32_t *page_table;
} ga_step_pages;

/* The tokens of one step, of one or several sequences, packed one after the other. Sequences with one new token come
 * first. Arrays are on the device. */
typedef struct ga_step {
  int32_t n_tokens, n_seqs;
  int32_t n_decode;         /* number of sequences with one new token, which come first */
  int32_t max_q, max_kv;    /* largest number of new tokens, and of all tokens, of any sequence */
  const int32_t *ids;       /* [T] token ids */
  const int32_t *positions; /* [T] position of each token in its sequence */
  const int32_t *types;     /* encoders: [T] token types: 1 in the second text of a pair, else 0; else NULL */
  ga_step_pages pages[MEMORY_KINDS_MAX];
  const int32_t *q_start; /* [n_seqs + 1] index of the first token of each sequence */
  /* [n_seqs - n_decode + 1] index of the first token of each sequence after the first n_decode, counted from their
   * first token */
  const int32_t *q_start_prompts;
  const int32_t *kv_len; /* [n_seqs] tokens of each sequence after this step */
  /* [T] factor of each token's queries, of models with hparams.temperature; else NULL */
  const float *q_factors;
  /* Sequences cut at chunks, of models with hparams.chunk: pieces of the step's tokens, as the arrays above have
   * sequences. Their lengths and units begin with the piece's chunk; the first n_decode pieces have one token each. */
  struct ga_step_pieces {
    int32_t n;      /* number of pieces */
    int32_t max_kv; /* largest number of tokens from the beginning of a piece's chunk to its end */
    const int32_t *q_start, *q_start_prompts, *kv_len, *page_table;
  } pieces;
  int64_t page_stride;      /* elements between rows of a page_table */
  int32_t out_begin, n_out; /* rows whose logits are wanted, unless out_rows is set: [out_begin, out_begin + n_out) */
  const int32_t *out_rows;  /* NULL, or [n_out] rows whose logits are wanted, for steps of several tokens */
} ga_step;

/* The input of a product: x [rows, cols], with `stride` elements between rows, is about to be multiplied by `matrix`.
 * Arrays are on the device. */
typedef struct exec_watched {
  weight_id matrix;
  int32_t layer;
  const float *x;
  int64_t rows, cols, stride;
  /* Stacks of matrices; 0: one matrix. Rows are chosen by experts as ga_route has sorted them: number i of the sorted
   * rows, of the expert by `offsets`, is row i of x, or row order[i] / top_k if order is not NULL. */
  int32_t n_experts, top_k;
  const int32_t *offsets, *order; /* [n_experts + 1], [sorted rows] */
} exec_watched;

/* A callback before each product of the program, except products with an attachment. */
typedef ga_status (*exec_watch_fn)(void *user, ga_ctx *ctx, const exec_watched *product);

/* A program, and the memory that its values share, except values in memory_pins. */
typedef struct exec_program {
  ga_program *program; /* NULL: the program has not been made yet */
  char *scratch;       /* the memory that values share: part of the arena, or `own` */
  void *own;           /* memory allocated for a program for which the arena is too small; NULL: none */
} exec_program;

/* Memory for steps of up to max_tokens tokens, and the programs of the steps that have run. */
typedef struct ga_exec {
  const ga_model *model;
  const ga_placement *placement; /* the placement whose layers are run */
  ga_ctx *ctx;
  const ga_step *step;         /* the step to run; set by the caller */
  const ga_kv_cache *kv;       /* NULL: no cache; attention is among the step's own tokens (encoders) */
  int32_t max_tokens, max_out; /* largest number of tokens of a step, and of rows of logits */
  int32_t first, end;          /* nodes [first, end) of the graph belong to the placement */
  bool is_invariant; /* a token's numbers do not depend on the step's other tokens; set before the first step */
  /* products with e4m3_128 round X to e4m3 if they have more than FUSED_FEW rows, or are batch-invariant; set before
   * the first step */
  bool rounds_x;
  memory_pins pins; /* values that have the same address in all programs */
  char *arena;      /* memory of the values in `pins`, followed by the memory that other values share */
  uint64_t arena_bytes;
  /* true: the context is so long that RoPE uses the frequencies ROPE_LONG, with the magnitude of ROPE_GLOBAL */
  bool is_long;
  /* called in steps of more than FUSED_FEW tokens, where no norm is fused into products; NULL: no callback */
  exec_watch_fn watch;
  void *watch_user;
  /* programs of the steps that have run, indexed by fused_class of the tokens, and of the rows of logits */
  exec_program programs[FUSED_FEW + 1][FUSED_FEW + 1];
  const exec_program *running;
  host_experts *host;     /* NULL: no layer of the placement has its experts in host memory */
  ga_all_reduce *windows; /* windows for sums over ranks on GPUs; NULL: ranks exchange messages, or there is one rank */
  int64_t windows_elements; /* largest number of elements of a sum by windows */
} ga_exec;

/* Allocates memory for the layers of a placement; release with exec_destroy. Only the last placement has logits. kv
 * must outlive *out; NULL: no cache. context: largest number of tokens of a sequence. */
GA_NODISCARD ga_status exec_create(const ga_model *model, const ga_placement *placement, const ga_kv_cache *kv,
                                   int32_t max_tokens, int32_t max_out, int32_t context, ga_exec *out);
void exec_destroy(ga_exec *e);
/* Checks, if e->is_invariant, that the context has batch-invariant kernels for all launches. context: largest number of
 * tokens of a sequence. Only planners are called; nothing runs. */
GA_NODISCARD ga_status exec_check_invariant(ga_exec *e, int32_t context);
/* Checks, if e->rounds_x, that products can round their input X to e4m3. GA_ERR_UNSUPPORTED: no weight of the placement
 * is e4m3_128, or its context has no kernel for it. */
GA_NODISCARD ga_status exec_check_rounds_x(ga_exec *e);
/* Returns whether exec_run waits for the device, because the CPU multiplies by experts of some layers, or because
 * choices of experts are traced. Its launches cannot be recorded then. */
static inline bool exec_waits(const ga_exec *e) { return e->host || e->model->trace; }
/* Runs the placement's layers on e->step. The first placement also runs the embedding, and the last the output head.
 * exec_result then has logits [n_out, V], or, for encoders, [T, d]. */
GA_NODISCARD ga_status exec_run(ga_exec *e);
/* Runs the output head again for other rows of the same step. */
GA_NODISCARD ga_status exec_head(ga_exec *e);
/* Returns the address of the graph's result at the last placement; the same for all steps. */
float *exec_result(const ga_exec *e);
/* Waits for the stream, and checks that all sums over ranks on GPUs got the data of all ranks. The results of a step
 * must not be used before this check. A failure ends the communicator. */
GA_NODISCARD ga_status exec_check(const ga_exec *e);
/* Copies the values that this placement needs from the preceding placement, `before`. The copy follows the work of
 * `before`, and precedes the next work of either context. */
GA_NODISCARD ga_status exec_take_over(ga_exec *e, const ga_exec *before);
/* Copies the values that this placement needs from the preceding placement, `before`, to a buffer of exec_taken_bytes
 * on e's device. The copy is ordered on before->ctx only, so that `before` may run another step meanwhile.
 * GA_ERR_UNSUPPORTED: a device cannot copy to the other one. */
GA_NODISCARD ga_status exec_send(const ga_exec *e, const ga_exec *before, char *buffer);
/* Copies the values from the buffer of exec_send to their addresses in e's memory. It is ordered on e->ctx only. */
GA_NODISCARD ga_status exec_receive(const ga_exec *e, const char *buffer);
/* Returns the bytes of the buffer of exec_send, for max_tokens tokens. */
uint64_t exec_taken_bytes(const ga_exec *e);
/* Number of buffers of exec_send of a placement that follows another placement on a GPU: one for each step in
 * flight. */
#define EXEC_BUFFERS 2
/* Returns the bytes of one buffer of exec_send for `tokens` tokens, for callers that have no ga_exec yet. Placements
 * pass on rows of the model's width. */
static inline uint64_t exec_buffer_bytes(const ga_hparams *p, int32_t tokens) {
  return (uint64_t)tokens * (uint64_t)p->width * sizeof(float);
}

/* Returns the address of the first row of a value in the running program. */
float *exec_rows(const ga_exec *e, value_id v);
/* Returns the elements between rows of a value in the running program. */
int64_t exec_stride(const ga_exec *e, value_id v);
/* Enqueues one launch of the running program. */
GA_NODISCARD ga_status exec_launch(const ga_exec *e, const launch *l);

/* Plans each declared op of a loaded model for one token, on the device of its layer. Fails where a device has no
 * kernel for the types of the file. */
GA_NODISCARD ga_status exec_check_ops(const ga_model *model);
/* Computes the bytes of memory that a ga_exec of all layers needs, for steps of max_tokens tokens of which max_out
 * have logits. max_out 0: without the memory of the output head. */
GA_NODISCARD ga_status exec_bytes(const ga_model *model, int32_t max_tokens, int32_t max_out, uint64_t *bytes);
/* Computes the largest workspace, in bytes, that products and attention of a session of these sizes need on ctx. The
 * CPU multiplies by the experts of layers before n_host_experts. */
GA_NODISCARD ga_status exec_workspace(const ga_model *model, ga_ctx *ctx, const ga_session_sizes *sizes,
                                      int32_t n_host_experts, uint64_t *bytes);
/* Returns the bytes of device memory, beside exec_bytes, for the results of experts that the CPU multiplies by. */
static inline uint64_t exec_host_expert_bytes(const ga_hparams *p, int32_t max_tokens) {
  return (uint64_t)max_tokens * (uint64_t)p->width * sizeof(float);
}

/* Rounds up a sequence's length for a plan, so that a growing sequence has few plans and recordings. The exact lengths
 * are in ga_step.kv_len. */
int64_t exec_rounded(int64_t n);
/* Returns the description of a layer's attention over the pages of a KV cache. */
ga_attn_desc exec_attn_desc(const ga_hparams *p, int32_t layer, int32_t seqs, int32_t max_q, int64_t max_kv,
                            ga_dtype kv);
/* Returns the description of the choice of experts for so many tokens. */
ga_route_desc exec_route_desc(const ga_hparams *p, ga_ctx *ctx, route_kind kind, int32_t tokens, int64_t logits_stride);
/* Returns the description of products by w, the stack of the experts' matrices, or the only expert's matrix. */
ga_expert_gemm_desc exec_expert_desc(const ga_hparams *p, ga_ctx *ctx, route_kind kind, const ga_weight *w,
                                     int32_t tokens, ga_expert_form form);

#endif
