/* Shared by the files of the runner. */
#ifndef GA_ENGINE_RUNNER_IMPL_H
#define GA_ENGINE_RUNNER_IMPL_H

#include <stdatomic.h>

#include "engine/runner.h"

/* Steps of equal sizes are the same launches with the same arguments. */
typedef struct step_size {
  int32_t n_seqs, max_kv;
  int32_t n_samples; /* rows of parameters, which come before the inputs */
  bool draws;
} step_size;

/* A step of one token a sequence, padded to a class of sizes, and recorded when it comes a second time. */
typedef struct step_graph {
  ga_graph *graph; /* NULL: it has run once, op by op */
  step_size size;  /* n_seqs 0: an empty place */
  uint64_t last_used;
} step_graph;

#define STEP_GRAPHS 64

/* Recordings of one stage. */
typedef struct step_graphs {
  step_graph entries[STEP_GRAPHS];
  const void *workspace; /* that the recorded launches use */
  uint64_t clock;
  bool off; /* the device has none */
  atomic_long n_steps, n_replayed;
} step_graphs;

/* Buffers of the rows that a stage gets from the one before it: one for each step under way. */
typedef struct stage_handover {
  char *buffer[2];       /* on the stage's device */
  ga_event *sent[2];     /* recorded by the previous stage once the rows are in the buffer */
  ga_event *received[2]; /* recorded by this stage once it has read the rows: the buffer is free */
  bool is_used[2];       /* `received` has been recorded */
} stage_handover;

/* The layers of one placement, and integer inputs of steps on its device. Two steps may be enqueued, so that the host
 * has two places. On the last stage drawn tokens come first, at a place that all steps share, with the first logits of
 * their rows. */
typedef struct runner_stage {
  ga_ctx *ctx;
  ga_exec exec;
  ga_step step;
  int32_t *host[2], *device; /* [inputs_room] */
  step_graphs graphs;
  stage_handover handover; /* from the stage before; of the first one empty */
} runner_stage;

/* Where in a step's inputs, in int32, rows of parameters have their places: n of them. */
typedef struct step_samples {
  int64_t rows, rng, ids, first; /* first: of each row the first logit */
  int32_t n;
} step_samples;

/* Offsets in int32 of a step's inputs. */
typedef struct step_layout {
  int64_t ids, positions, slots[MEMORY_KINDS_MAX], q_start, q_start_prompts, kv_len, out_rows, total;
  int64_t table[MEMORY_KINDS_MAX], columns[MEMORY_KINDS_MAX]; /* [seqs, columns] */
  int64_t stride;                                             /* columns of tables of pages */
  step_samples samples;
} step_layout;

/* Sizes of a step. */
typedef struct step_shape {
  int32_t n_tokens, n_seqs, n_rows, n_samples; /* as they run: padded where is_decode */
  int32_t n_decode, max_q, max_kv, n_pages;
  bool is_decode;   /* every sequence has one token and draws the next, on the device */
  bool is_recorded; /* is_decode, or one token of one sequence, whose row of logits has another use */
} step_shape;

/* A row of logits with a use. */
typedef struct run_row {
  int32_t row, part;     /* of the step */
  int32_t token;         /* among all tokens of the step */
  int32_t n_before;      /* tokens of the sequence before the one that the row tells */
  bool draws, is_behind; /* is_behind: the last of those tokens is drawn by the step before */
  int32_t at_draw;       /* draws of the part before this one */
  int32_t draft;         /* the part's token that this draw is to be; -1: none, it is the part's last draw */
} run_row;

typedef struct run_step {
  runner_step asked;
  run_row *rows; /* [sizes.batch] */
  int32_t n_rows, n_draws;
  int place; /* of runner_stage.host, and of device_sampler.drawn */
  step_shape shape;
  step_layout layout;
  int64_t used;         /* int32 of that place */
  bool in_blocks;       /* rows are computed and used some at a time, by runner_take */
  part_result *results; /* [max_sequences] */
} run_step;

/* Draws tokens: one launch for all rows of a block. */
typedef struct device_sampler {
  ga_ctx *ctx; /* of the draws: the last stage's, or runner.sample_ctx */
  bool on;     /* draws are enqueued with the layers: the last stage's device makes them, after calls have returned */
  int32_t *sequences;    /* [max_sequences, context + 1] tokens that penalties see; made when first asked for */
  int64_t drafted_room;  /* tokens of rows with drafts, which follow those */
  draw_history **owners; /* [max_sequences] of those rows */
  ga_logit_bias *bias;   /* [bias_room] of the step's rows */
  void *bias_host[2];    /* by the step's place; in host memory `bias` itself, and so for masks */
  int64_t bias_room;
  uint32_t *masks;     /* [max_draws, words] of the step's rows; made when first asked for */
  void *masks_host[2]; /* by the step's place */
  int32_t *row_starts; /* [max_draws] on the device: places of the rows' first logits */
  ga_event *drawn[2];  /* the draws of the step at that place have come to the host */
} device_sampler;

struct runner {
  runner_options options;
  runner_stage stages[GA_MODEL_MAX_PLACEMENTS];
  int32_t n_stages, n_kinds;
  bool pipelines;      /* stages run different steps at the same time */
  int64_t inputs_room; /* int32 */
  run_step steps[2];   /* by ticket % 2 */
  int64_t n_enqueued, n_taken;
  atomic_long n_steps, n_ahead;
  device_sampler sampler;
  step_gaps gaps;
  float *logits; /* [n_logits, vocab] where the device's memory is not the host's: rows that come to the host */
  int32_t n_logits;
  ga_ctx *sample_ctx; /* the last stage's if that is a CPU, else one of its own on a CPU */
  bool owns_sample_ctx;
};

static inline runner_stage *runner_last(runner *r) { return &r->stages[r->n_stages - 1]; }
static inline const row_draw *run_row_draw(const run_step *step, int32_t i) {
  return &step->asked.rows[step->rows[i].row];
}
static inline part_result *run_row_result(const run_step *step, int32_t i) {
  return &step->results[step->rows[i].part];
}

/* Is the row one of several of its part that draw? */
static inline bool run_row_is_drafted(const run_row *row) { return row->draws && (row->at_draw || row->draft >= 0); }
/* Can the device of the head replay steps? */
static inline bool runner_records(const runner *r) { return r->stages[r->n_stages - 1].ctx->device->graphs; }
/* Does each row belong to the token after the one of the row before it? */
static inline bool run_rows_follow(const run_step *step) {
  return !step->n_rows || step->rows[step->n_rows - 1].token - step->rows[0].token == step->n_rows - 1;
}

/* --- runner_rows.c --- */

/* Gives r->logits room for n rows. */
GA_NODISCARD ga_status runner_logits_room(runner *r, int32_t n);
/* Notes an error of one part, of which the step goes on; returns GA_ERR_DEVICE, which ends it. */
GA_NODISCARD ga_status part_note_status(part_result *result, ga_status status);
/* Moves the generator on by one draw. */
void rng_advance(const ga_sample_desc *sample, const uint64_t *state, uint64_t next[4]);

/* --- runner_inputs.c --- */

/* int32 that the inputs of any step need. */
int64_t runner_inputs_room(const runner *r);
/* Makes the step's inputs, and enqueues their way to all devices. */
GA_NODISCARD ga_status runner_send_inputs(runner *r, run_step *step);

/* --- runner_draws.c --- */

GA_NODISCARD ga_status device_sampler_create(runner *r);
void device_sampler_destroy(runner *r);
/* Writes the parameters of the step's rows into its inputs on the host, then rows that draw nothing. Rows that go
 * wrong draw nothing: the results of their parts say why. */
GA_NODISCARD ga_status device_rows_put(runner *r, run_step *step);
/* Enqueues draws [first, first + n) of the step, whose logits are on the device. */
GA_NODISCARD ga_status device_rows_sample(runner *r, const step_samples *at, int32_t first, int32_t n);
/* Enqueues copies of the first logits of n rows, which a step ahead would overwrite. */
GA_NODISCARD ga_status device_rows_keep_first(runner *r, const step_samples *at, int32_t n);
/* Enqueues the copy of the draws, and of those logits, to the step's place of the host's inputs. */
GA_NODISCARD ga_status device_rows_fetch(runner *r, const run_step *step);
/* Waits for that copy, and takes the step's rows, all of which draw. */
GA_NODISCARD ga_status device_rows_take_fetched(runner *r, const run_step *step);
/* Draws, waits for and takes rows [first, first + n) of the step, whose logits are on the device. Their draws begin at
 * *sample, which moves on. */
GA_NODISCARD ga_status device_rows_take(runner *r, const run_step *step, int32_t first, int32_t n, int32_t *sample);

/* --- runner_history.c --- */

/* Frees the places of sequences from the step that could not be enqueued. */
void device_sampler_unuse(runner *r);
/* Enqueues the way of the last `window` tokens before the draw of row i that are not there yet. *sequence: where the
 * draw puts its token. */
GA_NODISCARD ga_status history_put(runner *r, run_step *step, int32_t i, int32_t window, int64_t *sequence);
/* Tokens of row i that history_put_apart puts, and the one that is drawn; 0: it has no drafts, or no penalties. */
int64_t history_apart(const run_step *step, int32_t i);
GA_NODISCARD ga_status history_make_room(runner *r, const run_step *step);
/* Like history_put, for a row whose part has drafts; at: tokens of such rows before it. */
GA_NODISCARD ga_status history_put_apart(runner *r, run_step *step, int32_t i, int32_t window, int64_t at,
                                         int64_t *sequence);

/* --- runner_blocks.c --- */

/* Rows of logits of a step in blocks, and their uses. */
GA_NODISCARD ga_status runner_take_blocks(runner *r, const run_step *step);

/* --- runner_handover.c --- */

GA_NODISCARD ga_status runner_create_handovers(runner *r);
void runner_destroy_handover(runner_stage *stage);
/* Enqueues the way of the rows of the step at that place from stage i - 1 to stage i. */
GA_NODISCARD ga_status runner_hand_over(runner *r, int32_t i, int place);

/* --- runner_graphs.c --- */

typedef ga_status (*step_run_fn)(void *user);
/* Runs a stage's part of a step of that class: run enqueues the same launches with the same arguments each time. */
GA_NODISCARD ga_status step_graphs_run(runner_stage *stage, step_size size, step_run_fn run, void *user);
void step_graphs_drop(runner_stage *stage);

#endif
