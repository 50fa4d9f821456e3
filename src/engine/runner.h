/* Runs steps of a model: new tokens of several sequences through all layers, and draws of the tokens that follow.
 *
 * A runner has a stage for each placement of the model, the inputs of steps, their recordings, and what draws need. It
 * knows sequences, but neither requests nor a scheduler. Two steps may be under way: the second one may begin with
 * tokens that the first one draws. One thread at a time.
 */
#ifndef GA_ENGINE_RUNNER_H
#define GA_ENGINE_RUNNER_H

#include "engine/layer_memory.h"
#include "engine/step_gaps.h"
#include "ga/sample.h"
#include "model/exec.h"

typedef struct runner runner;

/* New tokens [first, first + n) of one sequence. */
typedef struct step_part {
  const sequence_memory *memory; /* has units for all of them */
  const int32_t *ids;            /* [n]; the last is not read if draw >= 0 */
  int32_t first, n;
  int32_t n_wanted; /* the last n_wanted tokens have rows of logits; if several draw, all but the first are drafts */
  int32_t adapter;  /* -1: none. GA_ERR_UNSUPPORTED: all others */
  int32_t draw;     /* draw of the step before, counted from 0, that is the last id; -1: none */
} step_part;

/* Place of a sequence's tokens for penalties on the device. Start with DRAW_HISTORY_INIT. */
typedef struct draw_history {
  int32_t place;   /* -1: none */
  int32_t n_known; /* number of the sequence's tokens whose last ones, as far as penalties look, are there */
  int64_t ticket;  /* of the newest step that uses it */
} draw_history;
#define DRAW_HISTORY_INIT \
  { .place = -1 }

/* Use of a wanted row. All zeros: none. */
typedef struct row_draw {
  const ga_sample_desc *sample; /* NULL: nothing is drawn. All rows of a part behind one that draws do so, too, with the
                                   same rng and history. runner_check_sample has taken it */
  const int32_t *ids;           /* [n_ids] known tokens of the sequence, from its beginning to the row's */
  int32_t n_ids;
  int32_t window; /* penalties read so many tokens at most */
  int32_t n_bias;
  const ga_logit_bias *bias; /* [n_bias] */
  const uint32_t *mask;      /* [ceil(vocab / 32)] bits of the allowed tokens; NULL: all */
  uint64_t *rng;             /* [4] runner_take moves it on by one for each draw that counts */
  draw_history *history;
  bool shows; /* runner_step.show gets the logits */
} row_draw;

/* Receives a row of logits, in host memory, during the call. row: index in runner_step.rows. id: the token that was
 * drawn from it, -1: none. An error ends the step. */
typedef ga_status (*show_row_fn)(void *user, int32_t row, int32_t id, const float *logits);

typedef struct runner_step {
  const step_part *parts; /* [n_parts], read by runner_enqueue alone */
  int32_t n_parts;
  const row_draw *rows; /* of all wanted rows, in order. They live until runner_take; the caller may clear some */
  float *into; /* [wanted rows, rows of the head] host memory for their logits, if all are shown; NULL: the runner's */
  show_row_fn show; /* may be NULL if `into` is not */
  void *user;
} runner_step;

/* Outcome of a part. */
typedef struct part_result {
  int32_t n_accepted; /* leading drafts that equal the draw of the row before them; later draws do not count */
  int32_t next;       /* the token that was drawn after the last of those; -1: none */
  float first;        /* the first logit of its row */
  ga_status status;   /* of this part alone */
  char error[256];
} part_result;

typedef struct runner_options {
  ga_model *model;
  const ga_kv_cache *cache;
  const layer_memory *memory;
  ga_session_sizes sizes; /* batch: tokens of a step */
  int32_t max_sequences;  /* parts of a step */
  int32_t max_draws;      /* rows of a step that draw; max_sequences if it is less */
  int32_t n_vocab;        /* ids [0, n_vocab) may be drawn; the head can have more rows, which are padding */
  bool is_invariant, times_gaps;
} runner_options;

/* Everything in the options outlives the runner. */
GA_NODISCARD ga_status runner_create(const runner_options *options, runner **out);
/* No step is under way; NULL is fine. */
void runner_destroy(runner *r);
/* GA_ERR_UNSUPPORTED: a device lacks batch-invariant rows, or rows for rounded activations. */
GA_NODISCARD ga_status runner_check_invariant(runner *r);
GA_NODISCARD ga_status runner_check_rounds_x(runner *r);

/* Every product of steps of more than FUSED_FEW tokens tells `watch` of its input. Comes before the first step. */
void runner_watch(runner *r, exec_watch_fn watch, void *user);

/* Do stages run different steps at the same time? Then two steps of different sequences take as long as one. */
bool runner_pipelines(const runner *r);
/* Enqueues a step, behind the one under way if there is one. With draws on the host, or rows that are shown besides
 * draws, all that follows the layers is done by runner_take. After an error no other step is under way than before, but
 * the caller calls runner_wait before the next one. */
GA_NODISCARD ga_status runner_enqueue(runner *r, const runner_step *step, int64_t *ticket);
/* Bytes of the buffers between stages on a stage's device; graphs hand over rows of the model's width. */
static inline uint64_t runner_handover_bytes(const ga_model *model, const ga_session_sizes *sizes) {
  return 2 * (uint64_t)sizes->batch * (uint64_t)model->hparams.width * sizeof(float);
}
/* May another step be enqueued before runner_take? Rows that are shown must be taken first. */
bool runner_may_enqueue(const runner *r);
/* Waits for the oldest step under way, which has this ticket. */
GA_NODISCARD ga_status runner_take(runner *r, int64_t ticket);
/* Results by part, valid until the next but one runner_enqueue; before runner_take, status and error alone. */
const part_result *runner_results(const runner *r, int64_t ticket);
/* Waits until the devices have done everything that is enqueued. */
GA_NODISCARD ga_status runner_wait(runner *r);
/* The same, and the steps under way are not to be taken. */
GA_NODISCARD ga_status runner_drop_steps(runner *r);
/* Gives up the place of a sequence that ends. */
void runner_forget(runner *r, draw_history *history);

/* Ids [0, n) may be drawn. */
int32_t runner_n_vocab(const runner *r);
/* GA_ERR_ARG and others: no such draws. Any thread may ask. */
GA_NODISCARD ga_status runner_check_sample(const runner *r, const ga_sample_desc *sample);
step_gaps *runner_gaps(runner *r);

typedef struct runner_counts {
  bool draws_on_device;
  long n_steps, n_ahead;         /* with draws on the device; of those, enqueued behind another */
  long n_recordable, n_replayed; /* of a class that is recorded; replayed */
} runner_counts;
/* Any thread may ask. */
runner_counts runner_count(runner *r);

/* Sequences that a step of n is padded to, at most `most`: few values, so that recordings stay few. */
int32_t step_class(int32_t n, int32_t most);

#endif
