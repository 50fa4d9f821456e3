/* Runs steps of a model: new tokens of several sequences through all layers, and draws of the tokens that follow.
 *
 * A runner has a stage for each placement of the model, the inputs of steps, recordings of steps, and the data for
 * draws. It knows sequences, but neither requests nor a scheduler. Two steps may be under way: the second one may begin
 * with tokens that the first one draws. One thread at a time may use a runner.
 */
#ifndef GA_ENGINE_RUNNER_H
#define GA_ENGINE_RUNNER_H

#include "engine/layer_memory.h"
#include "engine/step_gaps.h"
#include "ga/sample.h"
#include "model/exec.h"

typedef struct runner runner;

/* The part of a step that evaluates new tokens [first, first + n) of one sequence. */
typedef struct step_part {
  const sequence_memory *memory; /* units of the sequence, enough for all tokens of the part */
  const int32_t *ids;            /* [n] token ids; the last one is not read if draw >= 0 */
  int32_t first, n;
  /* number of last tokens whose rows of logits are needed. If several of them draw, all but the first are drafts
   * (speculative decoding) */
  int32_t n_wanted;
  int32_t adapter; /* must be -1, no adapter. Other values are refused with GA_ERR_UNSUPPORTED */
  /* index, among the previous step's draws, of the draw that gives the last id of this part; -1: the last id is
   * known */
  int32_t draw;
} step_part;

/* Says where on the device the tokens of a sequence are kept for penalties. Start with DRAW_HISTORY_INIT. */
typedef struct draw_history {
  int32_t place;   /* index of the sequence's row in device_sampler.sequences; -1: none */
  int32_t n_known; /* the device has the last row_draw.window tokens of the sequence's first n_known */
  int64_t ticket;  /* ticket of the newest step that uses the place */
} draw_history;
#define DRAW_HISTORY_INIT \
  { .place = -1 }

/* Says how a row of logits is used. All zeros: the row is not used. */
typedef struct row_draw {
  /* NULL: nothing is drawn. If a row of a part draws, all later rows of the part draw, too, with the same rng and
   * history. runner_check_sample must have accepted it */
  const ga_sample_desc *sample;
  const int32_t *ids; /* [n_ids] known tokens of the sequence, from its beginning to the row's token */
  int32_t n_ids;
  int32_t window; /* number of last tokens that penalties read */
  int32_t n_bias;
  const ga_logit_bias *bias; /* [n_bias] values added to logits */
  const uint32_t *mask;      /* [ceil(vocab / 32)] words; a set bit allows its token. NULL: all tokens are allowed */
  uint64_t *rng; /* [4] state of the generator. runner_take advances it by one draw for each draw that counts */
  draw_history *history;
  bool shows; /* true: runner_step.show is called with the row's logits */
} row_draw;

/* Receives one row of logits in host memory, valid during the call. row: index in runner_step.rows. id: the token
 * drawn from it, -1: none. An error ends the step. */
typedef ga_status (*show_row_fn)(void *user, int32_t row, int32_t id, const float *logits);

typedef struct runner_step {
  const step_part *parts; /* [n_parts] parts of the step; only runner_enqueue reads them */
  int32_t n_parts;
  /* [wanted rows] how each wanted row of all parts is used, in the order of the rows. The array must live until
   * runner_take; until then the caller may clear entries */
  const row_draw *rows;
  /* [wanted rows, rows of the output matrix] host memory for the logits, if all rows have `shows`; NULL: the runner's
   * own buffer is used */
  float *into;
  show_row_fn show; /* receives rows that have `shows`; may be NULL if `into` is not NULL */
  void *user;
} runner_step;

/* The result of one part of a step. */
typedef struct part_result {
  /* number of drafts, from the first on, that equal the token drawn from the row before them; later draws are
   * dropped */
  int32_t n_accepted;
  int32_t next;     /* token drawn after the last accepted draft; -1: none */
  float first;      /* first logit of the row from which `next` was drawn */
  ga_status status; /* status of this part, not of the step; `error` has its text */
  char error[256];
} part_result;

typedef struct runner_options {
  ga_model *model;
  const ga_kv_cache *cache;
  const layer_memory *memory;
  ga_session_sizes sizes; /* sizes of the model's session; sizes.batch is the largest number of tokens of a step */
  int32_t max_sequences;  /* largest number of parts of a step */
  int32_t max_draws;      /* largest number of rows of a step that draw; raised to max_sequences if it is less */
  int32_t n_vocab;        /* ids [0, n_vocab) may be drawn. Further rows of the output matrix are padding */
  bool is_invariant;      /* true: all kernels of steps must be batch-invariant */
  bool times_gaps;        /* the time between steps is measured */
} runner_options;

/* Creates a runner. Everything that the options point to must outlive it. */
GA_NODISCARD ga_status runner_create(const runner_options *options, runner **out);
/* Destroys the runner. No step may be in flight. NULL is fine. */
void runner_destroy(runner *r);
/* Checks that the runner's devices have batch-invariant kernels. GA_ERR_UNSUPPORTED: a device lacks them. */
GA_NODISCARD ga_status runner_check_invariant(runner *r);
/* Checks that the runner's devices have kernels that round activations to e4m3. GA_ERR_UNSUPPORTED: a device lacks
 * them. */
GA_NODISCARD ga_status runner_check_rounds_x(runner *r);

/* Sets a function that is called with the input of each matrix product in steps of more than FUSED_FEW tokens. Call
 * it before the first step. */
void runner_watch(runner *r, exec_watch_fn watch, void *user);

/* Returns whether stages run different steps at the same time. Then two steps of different sequences take as long as
 * one. */
bool runner_pipelines(const runner *r);
/* Enqueues a step after the one in flight, if there is one, and writes its ticket. If draws happen on the host, or if
 * some rows have `shows` besides draws, runner_take does all work after the layers. An error leaves earlier steps in
 * flight; the caller then calls runner_wait before the next step. */
GA_NODISCARD ga_status runner_enqueue(runner *r, const runner_step *step, int64_t *ticket);
/* Returns whether another step may be enqueued before runner_take. Steps with rows that have row_draw.shows must be
 * taken first. */
bool runner_may_enqueue(const runner *r);
/* Waits for the oldest step in flight, which must have this ticket, and fills in its results. */
GA_NODISCARD ga_status runner_take(runner *r, int64_t ticket);
/* Returns the results of a step by part, valid until the next but one runner_enqueue. Before runner_take, only
 * status and error are set. */
const part_result *runner_results(const runner *r, int64_t ticket);
/* Waits until the devices have finished all enqueued work. */
GA_NODISCARD ga_status runner_wait(runner *r);
/* Waits until the devices have finished all enqueued work, and drops the results of the steps in flight. */
GA_NODISCARD ga_status runner_drop_steps(runner *r);
/* Frees the place on the device of the tokens of a sequence that ends. */
void runner_forget(runner *r, draw_history *history);

/* Returns n: ids [0, n) may be drawn. */
int32_t runner_n_vocab(const runner *r);
/* Checks that draws with these parameters are possible, and returns an error if they are not. Any thread may call the
 * function. */
GA_NODISCARD ga_status runner_check_sample(const runner *r, const ga_sample_desc *sample);
step_gaps *runner_gaps(runner *r);

typedef struct runner_counts {
  bool draws_on_device;
  long n_steps;      /* steps with draws on the device */
  long n_ahead;      /* steps with draws on the device that were enqueued while another was in flight */
  long n_recordable; /* steps of sizes that are recorded when they run again */
  long n_replayed;   /* steps that were replayed from a recording */
} runner_counts;
/* Returns the counts of steps so far. Any thread may call the function. */
runner_counts runner_count(runner *r);

/* Returns the number of sequences to which a step of n sequences is padded, at most `most`. The result has few
 * different values, so that there are few recordings. */
int32_t step_class(int32_t n, int32_t most);

#endif
