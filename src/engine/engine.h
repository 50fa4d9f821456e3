/* Inside of an engine: one thread that plans a step, runs it, samples, and hands out tokens, for as long as there is
 * work.
 *
 *   submit (any thread) -> inbox -> scheduler -> step -> sample -> queue of the request -> poll (any thread)
 *
 * Locks: ga_engine.lock guards what any thread may touch (inbox, stats); ga_request.lock guards a request's queue. Who
 * holds a request's lock may take the engine's, never the other way round. All else is the engine thread's own.
 */
#ifndef GA_ENGINE_ENGINE_H
#define GA_ENGINE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/memory_host.h"
#include "engine/pace.h"
#include "engine/runner.h"
#include "engine/scheduler.h"
#include "ga/engine.h"

/* --- requests --- */

typedef struct request_token {
  int32_t event, id; /* ga_request_event */
  float logprob;
  int32_t n_top;
  int64_t top; /* first of its entries in request_queue.top */
} request_token;

/* Tokens that have not been polled, [begin, end) of `tokens`. */
typedef struct request_queue {
  request_token *tokens;
  ga_token_logprob *top;
  int64_t begin, end, room, n_top, top_room;
} request_queue;

struct ga_request {
  sched_request sched; /* .user is the request */
  ga_request *next;    /* of the inbox */
  ga_request *live_next, *live_prev;
  atomic_int holders; /* the caller, and the engine until its end */
  atomic_bool cancelled;

  /* Fixed when it is submitted. */
  ga_request_options options; /* pointers are NULL */
  ga_sample_desc sample;
  int32_t window;      /* tokens that penalties see */
  ga_logit_bias *bias; /* [n_bias_all]: the caller's n_bias, then entries that ban each end-of-generation token */
  int32_t n_bias, n_bias_all;
  int32_t *stop_ids;
  int32_t max_new;
  double submitted;

  /* The engine thread's. */
  int32_t *ids;     /* [sched.max_ids] */
  int32_t n_scored; /* tokens of the prompt that have been given to the caller, with their log-probabilities */
  uint64_t rng[4];
  draw_history history; /* of its tokens on the device */
  int32_t at_draw;      /* its row among the draws of the newest step that has one of it */
  int32_t drawn;        /* by the step under way; GA_TOK_NONE: nothing */
  ga_status row_status; /* what became of its row of logits; the text is in row_error */
  char row_error[256];

  pthread_mutex_t lock; /* for all below */
  pthread_cond_t changed;
  request_queue queue;
  ga_engine *engine; /* NULL once it has ended */
  ga_notify_fn notify;
  void *user;
  bool ended;
  ga_finish finish;
  ga_status status;
  char error[512];
  ga_request_info info;
};

/* Lets go of one holder's part. */
void request_release(ga_request *r);
/* Puts a token at the end of its queue, with n_top entries; the receiver is not told yet. */
GA_NODISCARD ga_status request_push(ga_request *r, const request_token *token, const ga_token_logprob *top);
/* Tells the receiver that there is something new. */
void request_tell(ga_request *r);
/* Ends a request: no output follows, and the engine's reference is released. If status is not GA_OK, the request gets
 * this thread's error text. */
void request_end(ga_request *r, ga_finish finish, ga_status status);

/* --- steps --- */

/* One row of logits of a step, and the request that it belongs to. How a token is drawn from it: its row_draw. */
typedef struct step_row {
  ga_request *request; /* NULL: has ended meanwhile */
  int32_t part;        /* of the step: the plan's item */
  int32_t position;    /* in the sequence, of the token whose successor the row predicts */
  bool samples;        /* the next token is drawn from the row; else the next token is a known one of the prompt */
  bool scores;         /* with a known next token: its log-probability is reported */
} step_row;

/* One planned step while the runner executes it. */
typedef struct engine_step {
  ga_engine *engine;
  const sched_plan *plan;
  step_part *parts; /* [max_sequences] of the plan's items */
  step_row *rows;   /* [sizes.batch] */
  row_draw *draws;  /* [sizes.batch] of those rows */
  int32_t n_rows;
  int64_t ticket;
} engine_step;

/* The step in flight, and the next one, which may be enqueued before the first one's tokens are known: the device
 * passes each drawn token on to it. */
typedef struct engine_steps {
  engine_step step[2];
  int at;        /* the one under way, or the next one */
  bool is_ahead; /* the other one is enqueued, too */
} engine_steps;

struct ga_engine {
  ga_model *model;
  ga_ctx *ctx;            /* the model's */
  ga_session_sizes sizes; /* batch: tokens of a step */
  ga_engine_options options;
  ga_kv_cache cache;
  memory_host host;
  layer_memory *memory;
  scheduler *scheduler;
  runner *runner;
  step_pace pace;
  sched_costs costs;
  engine_steps steps;
  ga_request **stepped; /* [max_sequences] those of the step under way */
  int32_t *eog;         /* [n_eog] tokens that end generation */
  int32_t n_eog, n_vocab;
  ga_request *live;
  int32_t n_shown;          /* of those, requests whose rows of logits come to the host */
  uint64_t cache_secret[4]; /* hashed with each salt */

  pthread_t thread;
  pthread_mutex_t lock; /* for all below */
  pthread_cond_t wake;
  ga_request *inbox, **inbox_end;
  int32_t n_inbox;
  bool stop, has_cancelled;
  char failure[512];
  ga_engine_stats stats;
};

/* Runs the plan's items, unless they are enqueued already, and hands out their tokens. While they run, it enqueues the
 * next step, if that is possible. */
GA_NODISCARD ga_status engine_run_step(ga_engine *e, const sched_plan *plan);
/* Makes the step that was enqueued ahead the current one. Returns its plan; NULL: there is no such step. */
const sched_plan *engine_take_ahead(ga_engine *e);
/* Waits for the step in flight, whose requests have all ended. */
GA_NODISCARD ga_status engine_skip_step(ga_engine *e);
/* Removes the request from a step that was enqueued ahead: tokens that it draws there are dropped. */
void engine_forget_rows(ga_engine *e, const ga_request *r);
/* Ends the requests that have waited too long. */
void engine_end_expired(ga_engine *e, const sched_plan *plan);

/* --- rows.c --- */

/* Hands out the prompt's first token, which no row of logits predicts. */
void engine_give_first(ga_request *r);
/* Returns the parameters with which the request draws the token that follows its first n_ids tokens. */
row_draw rows_draw_of(ga_request *r, int32_t n_ids);
/* Called with the logits of row `row` of the engine_step `user`, and with the token that was drawn from them. */
GA_NODISCARD ga_status rows_show(void *user, int32_t row, int32_t id, const float *logits);
/* Notes which parts of an enqueued step have failed. */
void rows_note_results(const engine_step *step, const part_result *results);
/* Hands out the tokens that the device drew, for rows whose logits were not passed to rows_show. */
GA_NODISCARD ga_status rows_take_results(const engine_step *step, const part_result *results);

/* Returns whether pages stay cached when their sequence ends or is preempted. */
static inline bool engine_keeps_pages(const ga_engine *e) {
  return !(e->options.flags & GA_ENGINE_NO_PREFIX_CACHE) || e->options.swap_bytes > 0;
}
/* Checks the options and fills in what they leave open. memory: kinds of the model's layers, and how many units each
 * gets on the device and in host memory. */
GA_NODISCARD ga_status engine_sizes(const ga_model *model, const ga_engine_options *options, ga_session_sizes *sizes,
                                    ga_engine_options *full, layer_memory_options *memory);

#endif
