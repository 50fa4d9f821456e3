/* Internals of an engine: one thread plans a step, runs it, samples, and passes tokens to their requests, for as long
 * as there is work.
 *
 *   submit (any thread) -> inbox -> scheduler -> step -> sample -> queue of the request -> poll (any thread)
 *
 * Locks: ga_engine.lock guards the fields that any thread may touch (inbox, stats); ga_request.lock guards a request's
 * queue. A thread that holds a request's lock may take the engine's lock, never the other way round. All other fields
 * belong to the engine's thread.
 */
#ifndef GA_ENGINE_ENGINE_H
#define GA_ENGINE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "engine/memory_host.h"
#include "engine/pace.h"
#include "engine/runner.h"
#include "engine/scheduler.h"
#include "ga/engine.h"

/* --- requests --- */

typedef struct request_token {
  int32_t event; /* kind of event, a ga_request_event */
  int32_t id;    /* id of the token */
  float logprob;
  int32_t n_top;
  int64_t top; /* index in request_queue.top of the token's first entry; it has n_top entries */
} request_token;

/* Queue of a request's tokens that the caller has not polled yet: elements [begin, end) of `tokens`. */
typedef struct request_queue {
  request_token *tokens;
  ga_token_logprob *top;
  int64_t begin, end, room, n_top, top_room;
} request_queue;

struct ga_request {
  sched_request sched; /* the request as the scheduler sees it; sched.user points to the ga_request */
  ga_request *next;    /* next request in the engine's inbox */
  ga_request *live_next, *live_prev;
  atomic_int holders; /* references: one of the caller, and one of the engine until the request ends */
  atomic_bool cancelled;
  atomic_int unread; /* number of tokens in `queue` */

  /* The following fields are fixed when the request is submitted. */
  ga_request_options options; /* a copy of the caller's options, with all pointers NULL */
  ga_sample_desc sample;
  int32_t window;      /* number of last tokens that penalties see */
  ga_logit_bias *bias; /* [n_bias_all]: the caller's n_bias, then entries that ban each end-of-generation token */
  int32_t n_bias, n_bias_all;
  int32_t *stop_ids;
  int32_t max_new;
  double submitted;

  /* The following fields are used by the engine's thread only. */
  int32_t *ids;     /* [sched.max_ids] prompt and generated tokens */
  int32_t n_scored; /* tokens of the prompt whose log-probabilities the caller has received */
  uint64_t rng[4];
  draw_history history; /* the request's tokens on the device, which penalties read */
  int32_t at_draw;      /* the request's index among the draws of the newest step in which it draws */
  int32_t drawn;        /* token that the current step drew for the request; GA_TOK_NONE: none */
  /* status of the request's row of logits in the current step; row_error has the text of an error */
  ga_status row_status;
  char row_error[256];

  pid_t process;        /* id of the process that made the engine */
  pthread_mutex_t lock; /* guards all fields below */
  pthread_cond_t changed;
  request_queue queue;
  ga_engine *engine; /* NULL once the request has ended */
  ga_notify_fn notify;
  void *user;
  bool ended;
  ga_finish finish;
  ga_status status;
  char error[512];
  ga_request_info info;
};

/* Releases one reference to the request. The release of the last reference frees the request. */
void request_release(ga_request *r);
/* Appends a token with its n_top entries of `top` to the request's queue. It does not notify the caller. */
GA_NODISCARD ga_status request_push(ga_request *r, const request_token *token, const ga_token_logprob *top);
/* Notifies the caller of the request that its queue has new tokens, or that it has ended. */
void request_tell(ga_request *r);
/* Ends a request: no output follows, and the engine's reference is released. If status is not GA_OK, the request gets
 * this thread's error text. */
void request_end(ga_request *r, ga_finish finish, ga_status status);

/* --- steps --- */

/* A row of logits of a step, and the request to which it belongs. The row's row_draw says how its token is drawn. */
typedef struct step_row {
  ga_request *request; /* NULL: the request has ended since the step was planned */
  int32_t part;        /* index of the item in the step's plan, and of its step_part */
  int32_t position;    /* position in the sequence of the token whose successor the row predicts */
  bool samples;        /* the next token is drawn from the row; else the next token is a known one of the prompt */
  bool scores;         /* with a known next token: the log-probability of that token is reported */
} step_row;

/* One planned step while the runner executes it. */
typedef struct engine_step {
  ga_engine *engine;
  const sched_plan *plan;
  step_part *parts; /* [max_sequences] one part for each item of the plan */
  step_row *rows;   /* [sizes.batch] rows of logits that the step needs */
  row_draw *draws;  /* [sizes.batch] draws[i] says how a token is drawn from rows[i] */
  int32_t n_rows;
  int64_t ticket;
} engine_step;

/* The step in flight, and the next step, which may be enqueued before the first step's tokens are known. The device
 * passes each drawn token on to the next step. */
typedef struct engine_steps {
  engine_step step[2];
  int at;        /* index of the current step: the step in flight, or else the next one to run */
  bool is_ahead; /* step[1 - at] is enqueued, too, after the current one */
} engine_steps;

struct ga_engine {
  ga_model *model;
  ga_ctx *ctx;            /* context of the model */
  ga_session_sizes sizes; /* sizes of the runner; sizes.batch is the largest number of tokens of a step */
  ga_engine_options options;
  ga_kv_cache cache;
  memory_host host;
  layer_memory *memory;
  scheduler *scheduler;
  runner *runner;
  step_pace pace;
  sched_costs costs;
  engine_steps steps;
  ga_request **stepped; /* [max_sequences] requests of the current step */
  int32_t *eog;         /* [n_eog] tokens that end generation */
  int32_t n_eog, n_vocab;
  ga_request *live;
  int32_t n_shown;          /* number of live requests whose rows of logits are copied to the host */
  uint64_t cache_secret[4]; /* secret that is hashed together with each cache salt */

  pid_t process; /* id of the process that made the engine; a fork of that process does not have the engine's thread */
  pthread_t thread;
  pthread_mutex_t lock; /* guards all fields below */
  pthread_cond_t wake;
  ga_request *inbox, **inbox_end;
  int32_t n_inbox;
  bool stop, has_cancelled;
  char failure[512];
  ga_engine_stats stats;
};

/* Runs the plan's items, unless they are enqueued already, and passes their tokens to the requests. While they run,
 * it enqueues the next step, if that is possible. */
GA_NODISCARD ga_status engine_run_step(ga_engine *e, const sched_plan *plan);
/* Makes the step that was enqueued early the current one. Returns its plan; NULL: no step was enqueued early. */
const sched_plan *engine_take_ahead(ga_engine *e);
/* Waits for the step in flight, whose requests have all ended. */
GA_NODISCARD ga_status engine_skip_step(ga_engine *e);
/* Removes the request from a step that was enqueued early: tokens that the request draws there are dropped. */
void engine_forget_rows(ga_engine *e, const ga_request *r);
/* Ends the requests of plan->expired, whose deadlines have passed. */
void engine_end_expired(ga_engine *e, const sched_plan *plan);

/* --- rows.c --- */

/* Passes the prompt's first token to the caller, without a log-probability: no row of logits predicts that token. */
void engine_give_first(ga_request *r);
/* Returns the parameters with which the request draws the token that follows its first n_ids tokens. */
row_draw rows_draw_of(ga_request *r, int32_t n_ids);
/* Handles the logits of one row and the token drawn from them. user: the engine_step. row: index in its rows. id:
 * the drawn token, -1: none. */
GA_NODISCARD ga_status rows_show(void *user, int32_t row, int32_t id, const float *logits);
/* Notes in the requests which parts of an enqueued step have failed. */
void rows_note_results(const engine_step *step, const part_result *results);
/* Passes on the tokens that the device drew, for rows whose logits were not passed to rows_show. */
GA_NODISCARD ga_status rows_take_results(const engine_step *step, const part_result *results);

/* Returns whether pages stay cached when their sequence ends or is preempted. */
static inline bool engine_keeps_pages(const ga_engine *e) {
  return !(e->options.flags & GA_ENGINE_NO_PREFIX_CACHE) || e->options.swap_bytes > 0;
}
/* Checks `options` and writes them to `full` with all defaults filled in. `memory` gets the kinds of the model's
 * layers, and how many units each kind has on the device and in host memory. */
GA_NODISCARD ga_status engine_sizes(const ga_model *model, const ga_engine_options *options, ga_session_sizes *sizes,
                                    ga_engine_options *full, layer_memory_options *memory);

#endif
