/* Declarations that the runner's source files share. */
#ifndef GA_ENGINE_RUNNER_IMPL_H
#define GA_ENGINE_RUNNER_IMPL_H

#include <stdatomic.h>

#include "engine/runner.h"

/* The sizes of a step. Steps of equal sizes have the same launches with the same arguments. */
typedef struct step_size {
  int32_t n_seqs, max_kv;
  int32_t n_samples; /* number of rows of parameters for draws, which precede the other inputs in memory */
  bool draws;
} step_size;

/* The recording of steps of one size: one token per sequence, with a padded number of sequences. A step is recorded
 * when its size occurs a second time. */
typedef struct step_graph {
  ga_graph *graph; /* NULL: the step has run once, op by op, and is not recorded yet */
  step_size size;  /* size.n_seqs 0: the entry is empty */
  uint64_t last_used;
} step_graph;

#define STEP_GRAPHS 64

/* Recordings of the steps of one stage. */
typedef struct step_graphs {
  step_graph entries[STEP_GRAPHS];
  const void *workspace; /* workspace that the recorded launches use */
  uint64_t clock;
  bool off; /* true: the device cannot record launches */
  atomic_long n_steps, n_replayed;
} step_graphs;

/* Buffers for the rows that a stage receives from the previous stage: one for each step in flight. */
typedef struct stage_handover {
  char *buffer[EXEC_BUFFERS]; /* memory on the stage's device */
  ga_event *sent[2];          /* recorded by the previous stage once the rows are in the buffer */
  ga_event *received[2];      /* recorded by this stage once it has read the rows: the buffer is free */
  bool is_used[2];            /* the event `received` has been recorded at least once */
} stage_handover;

/* The layers of one placement, and the integer inputs of steps on its device. Two steps may be in flight, so the host
 * has two places for inputs. The inputs of the last stage begin with two arrays that its device writes. They have the
 * drawn tokens, and for each of them the first logit of its row. */
typedef struct runner_stage {
  ga_ctx *ctx;
  ga_exec exec;
  ga_step step;
  int32_t *host[2]; /* [2][inputs_room] inputs on the host, indexed by run_step.place */
  int32_t *device;  /* [inputs_room] inputs on the device */
  step_graphs graphs;
  stage_handover handover; /* buffers for rows from the previous stage; empty on the first stage */
} runner_stage;

/* Offsets in a step's inputs, in units of int32, of the parameters of its n draws. */
typedef struct step_samples {
  int64_t rows;
  int64_t rng;
  int64_t ids;
  int64_t first; /* first logit of the row of each draw */
  int32_t n;
} step_samples;

/* Offsets of a step's inputs, in units of int32. */
typedef struct step_layout {
  int64_t q_factors, pieces_q_start, pieces_q_start_prompts, pieces_kv_len, pieces_table; /* as ga_step has them */
  int64_t ids, positions, slots[MEMORY_KINDS_MAX], q_start, q_start_prompts, kv_len, out_rows, total;
  int64_t table[MEMORY_KINDS_MAX];   /* [kind] offset of the table of units, [seqs, columns[kind]] */
  int64_t columns[MEMORY_KINDS_MAX]; /* [kind] number of columns of table[kind] */
  int64_t stride;                    /* number of columns of the tables of kinds of pages */
  step_samples samples;
} step_layout;

/* Sizes of a step, as it runs on the device. */
typedef struct step_shape {
  /* numbers of tokens, sequences, rows of logits and draws; padded if is_decode */
  int32_t n_tokens, n_seqs, n_rows, n_samples;
  int32_t n_decode, max_q, max_kv, n_pages;
  int32_t n_pieces; /* number of pieces of sequences that are cut at chunks; 0: the model has no chunks */
  bool is_decode;   /* each sequence has one token and draws the next one on the device */
  /* true if is_decode, or if the step has one token of one sequence, whose row of logits is passed to runner_step.show
   * instead of drawn from */
  bool is_recorded;
} step_shape;

/* A row of logits from which a token is drawn, or that is passed to runner_step.show. */
typedef struct run_row {
  int32_t row;      /* index in runner_step.rows */
  int32_t part;     /* index in runner_step.parts */
  int32_t token;    /* index of the row's token among all tokens of the step */
  int32_t n_before; /* number of the sequence's tokens before the one that the row predicts */
  bool draws;
  bool is_behind;  /* the last of the n_before tokens is drawn by the previous step */
  int32_t at_draw; /* number of draws of the same part before this one */
  /* the draft, a token of the part, that this draw must equal to be accepted; -1: the part's last draw, without a
   * draft */
  int32_t draft;
} run_row;

typedef struct run_step {
  runner_step asked;
  run_row *rows; /* [sizes.batch] rows of logits that the step needs */
  int32_t n_rows, n_draws;
  /* index of the step's memory and event in arrays of two, such as runner_stage.host and device_sampler.drawn */
  int place;
  step_shape shape;
  step_layout layout;
  int64_t used;         /* number of int32 elements that the inputs take in runner_stage.host[place] */
  bool in_blocks;       /* runner_take computes and uses the rows in blocks, one block after the other */
  part_result *results; /* [max_sequences] result of each part of the step */
} run_step;

/* The state for drawing tokens on the device. One launch draws the tokens of all rows of a step, or of one block of its
 * rows (run_step.in_blocks). */
typedef struct device_sampler {
  ga_ctx *ctx; /* context of the draws: the last stage's, or runner.sample_ctx */
  bool on; /* draws are enqueued with the layers, on the last stage's device. false: draws are made by runner_take */
  int32_t *sequences; /* [max_sequences, context + 1] tokens that penalties see; allocated at first use */
  /* number of tokens for which there is room after the rows of `sequences`, for rows with drafts */
  int64_t drafted_room;
  draw_history **owners; /* [max_sequences] history to which each row of `sequences` belongs; NULL: the row is free */
  ga_logit_bias *bias;   /* [bias_room] logit biases of the step's rows */
  /* copies of `bias` on the host, indexed by run_step.place. If the device uses host memory, they are `bias` itself */
  void *bias_host[2];
  int64_t bias_room;
  uint32_t *masks; /* [max_draws, words] masks of the step's rows; allocated at first use */
  /* copies of `masks` on the host, indexed by run_step.place. If the device uses host memory, they are `masks`
   * itself */
  void *masks_host[2];
  int32_t *row_starts; /* [max_draws] on the device: index of each row's first logit */
  ga_event *drawn[2];  /* signalled once a step's draws have been copied to the host; indexed by run_step.place */
} device_sampler;

struct runner {
  runner_options options;
  runner_stage stages[GA_MODEL_MAX_PLACEMENTS];
  int32_t n_stages, n_kinds;
  bool pipelines;      /* stages run different steps at the same time */
  int64_t inputs_room; /* size of a step's inputs, in units of int32 */
  run_step steps[2];   /* the steps in flight, indexed by ticket % 2 */
  int64_t n_enqueued, n_taken;
  atomic_long n_steps, n_ahead;
  device_sampler sampler;
  step_gaps gaps;
  /* [n_logits, vocab] rows that are copied to the host; used where the device's memory is not the host's */
  float *logits;
  int32_t n_logits;
  /* context for draws on the host: the last stage's if it is a CPU, else a CPU context of the runner's own */
  ga_ctx *sample_ctx;
  bool owns_sample_ctx;
};

static inline const ga_hparams *runner_hparams(const runner *r) { return &r->options.model->hparams; }
static inline runner_stage *runner_last(runner *r) { return &r->stages[r->n_stages - 1]; }
static inline const row_draw *run_row_draw(const run_step *step, int32_t i) {
  return &step->asked.rows[step->rows[i].row];
}
static inline part_result *run_row_result(const run_step *step, int32_t i) {
  return &step->results[step->rows[i].part];
}

/* Returns whether the row is one of several rows of its part that draw. */
static inline bool run_row_is_drafted(const run_row *row) { return row->draws && (row->at_draw || row->draft >= 0); }
/* Returns whether the last stage's device can record and replay steps. */
static inline bool runner_records(const runner *r) { return r->stages[r->n_stages - 1].ctx->device->graphs; }
/* Returns whether the step's rows belong to consecutive tokens. */
static inline bool run_rows_follow(const run_step *step) {
  return !step->n_rows || step->rows[step->n_rows - 1].token - step->rows[0].token == step->n_rows - 1;
}

/* --- runner_rows.c --- */

/* Makes r->logits, the rows of logits on the host, at least n rows large. */
GA_NODISCARD ga_status runner_logits_room(runner *r, int32_t n);
/* Writes an error of one part and its text into the part's result, and returns GA_OK, so that the step goes on. It
 * returns GA_ERR_DEVICE unchanged, which ends the step. */
GA_NODISCARD ga_status part_note_status(part_result *result, ga_status status);
/* Writes to `next` the state of the generator after one more draw; temperature 0 draws nothing, so the state is the
 * same. */
void rng_advance(const ga_sample_desc *sample, const uint64_t *state, uint64_t next[4]);

/* --- runner_inputs.c --- */

/* Returns the size, in units of int32, that suffices for the inputs of any step. */
int64_t runner_inputs_room(const runner *r);
/* Builds the step's inputs on the host, and enqueues their copies to all devices. */
GA_NODISCARD ga_status runner_send_inputs(runner *r, run_step *step);

/* --- runner_draws.c --- */

GA_NODISCARD ga_status device_sampler_create(runner *r);
void device_sampler_destroy(runner *r);
/* Writes the parameters of the step's draws into its inputs on the host, followed by padding rows that draw nothing.
 * A row with an error draws nothing: the result of its part has the error. */
GA_NODISCARD ga_status device_rows_put(runner *r, run_step *step);
/* Enqueues draws [first, first + n) of the step. Their logits are on the device. */
GA_NODISCARD ga_status device_rows_sample(runner *r, const step_samples *at, int32_t first, int32_t n);
/* Enqueues copies of the first logits of n rows, which the next step in flight would overwrite. */
GA_NODISCARD ga_status device_rows_keep_first(runner *r, const step_samples *at, int32_t n);
/* Enqueues the copy of the drawn tokens, and of element 0 of each row of logits, to runner_stage.host[step->place]. */
GA_NODISCARD ga_status device_rows_fetch(runner *r, const run_step *step);
/* Waits for the copy of device_rows_fetch, and takes over the results of the step's rows, all of which draw. */
GA_NODISCARD ga_status device_rows_take_fetched(runner *r, const run_step *step);
/* Draws rows [first, first + n) of the step, waits for the draws and takes the results. The logits are on the
 * device. *sample: index of the first of these draws; the function advances it. */
GA_NODISCARD ga_status device_rows_take(runner *r, const run_step *step, int32_t first, int32_t n, int32_t *sample);

/* --- runner_history.c --- */

/* Frees the rows of `sequences` that were taken for a step that could not be enqueued. */
void device_sampler_unuse(runner *r);
/* Enqueues the copy to the device of the last `window` tokens before the draw of row i, without those that it has
 * already. *sequence becomes the index in device_sampler.sequences at which the draw writes its token. */
GA_NODISCARD ga_status history_put(runner *r, run_step *step, int32_t i, int32_t window, int64_t *sequence);
/* Returns the number of tokens that row i takes in the memory of history_put_apart: those that penalties see, and the
 * drawn one. 0: the row has no draft tokens, or no penalties. */
int64_t history_apart(const run_step *step, int32_t i);
GA_NODISCARD ga_status history_make_room(runner *r, const run_step *step);
/* Does the work of history_put for a row whose part has drafts, in memory apart from other rows. at: number of tokens
 * that earlier rows with drafts use. */
GA_NODISCARD ga_status history_put_apart(runner *r, run_step *step, int32_t i, int32_t window, int64_t at,
                                         int64_t *sequence);

/* --- runner_blocks.c --- */

/* Computes the step's rows of logits in blocks, and draws from each row or passes it to runner_step.show. */
GA_NODISCARD ga_status runner_take_blocks(runner *r, const run_step *step);

/* --- runner_handover.c --- */

GA_NODISCARD ga_status runner_create_handovers(runner *r);
void runner_destroy_handover(runner_stage *stage);
/* Enqueues the transfer of a step's rows from stage i - 1 to stage i. place: run_step.place, the index of the step's
 * buffer and events in stage_handover. */
GA_NODISCARD ga_status runner_hand_over(runner *r, int32_t i, int place);

/* --- runner_graphs.c --- */

typedef ga_status (*step_run_fn)(void *user);
/* Runs a stage's part of a step, or replays its recording. `run` must enqueue the same launches with the same
 * arguments each time for steps of the same size. */
GA_NODISCARD ga_status step_graphs_run(runner_stage *stage, step_size size, step_run_fn run, void *user);
void step_graphs_drop(runner_stage *stage);

#endif
