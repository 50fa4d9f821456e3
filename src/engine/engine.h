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
#include "engine/scheduler.h"
#include "engine/step_gaps.h"
#include "ga/engine.h"
#include "model/exec.h"

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
  ga_logit_bias *bias; /* the caller's; behind them, those that ban every end of generation */
  int32_t n_bias, n_bias_all;
  int32_t *stop_ids;
  int32_t max_new;
  double submitted;

  /* The engine thread's. */
  int32_t *ids;     /* [sched.max_ids] */
  int32_t n_scored; /* tokens of the prompt that have been given to the caller, with their log-probabilities */
  ga_plan *sample_plan;
  uint64_t rng[4];
  int32_t at_sequence;  /* its row of device_sampler.sequences; -1: none */
  int32_t n_on_device;  /* tokens up to there are in it, as far back as penalties look */
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
/* Nothing more will come; lets go of the engine's part. status not GA_OK: the error text is this thread's. */
void request_end(ga_request *r, ga_finish finish, ga_status status);

/* --- steps --- */

/* Integer inputs of a step, written on the host and copied to the device. Two steps may be enqueued, so that the host
 * has two places. Drawn tokens come first, at a place that all steps share, with the first logits of their rows. */
typedef struct step_inputs {
  int32_t *host[2], *device;
  int64_t room; /* int32 */
} step_inputs;

/* A row of logits and what it is for. */
typedef struct step_row {
  ga_request *request;
  int32_t token;    /* of the step */
  int32_t position; /* of that token in its sequence: the row tells the next one */
  bool samples;     /* else the prompt's token that follows is scored */
} step_row;

/* Where in a step's inputs, in int32, rows of parameters have their places: n of them. */
typedef struct step_samples {
  int64_t rows, rng, ids, first; /* first: of each row the first logit */
  int32_t n;
} step_samples;

/* A step that is being made or is under way. */
typedef struct engine_step {
  const sched_plan *plan;
  step_row *rows; /* [sizes.batch]; .request NULL: has ended meanwhile */
  int32_t n_rows;
  int place; /* of step_inputs.host, and of device_sampler.drawn */
  step_samples samples;
  int64_t used; /* int32 of that place */
} engine_step;

/* The step under way, and the one behind it: planned and enqueued before the tokens of the first are known. The device
 * gives it those tokens as it draws them. */
typedef struct engine_steps {
  engine_step step[2];
  int at;              /* the one under way, or the next one */
  bool is_ahead;       /* the other one is enqueued, too */
  atomic_long n_steps; /* all */
  atomic_long n_ahead; /* that were enqueued before the tokens of the step before were known */
} engine_steps;

/* Draws tokens on a device whose memory is not the host's: one launch for all rows of a block. */
typedef struct device_sampler {
  bool on;
  int32_t *sequences;          /* [max_sequences, context + 1] tokens that penalties see; made when first asked for */
  ga_request **owners;         /* [max_sequences] of those rows */
  ga_logit_bias *bias;         /* [bias_room] of the step's rows */
  ga_logit_bias *bias_host[2]; /* by the step's place */
  int64_t bias_room;
  int32_t *row_starts; /* [max_sequences] on the device: places of the rows' first logits */
  ga_event *drawn[2];  /* the draws of the step at that place of step_inputs have come to the host */
} device_sampler;

/* A step in which every sequence generates, padded to a class of sizes, and recorded when it comes a second time. */
typedef struct step_graph {
  ga_graph *graph;        /* NULL: it has run once, op by op */
  int32_t n_seqs, max_kv; /* n_seqs 0: an empty place */
  uint64_t last_used;
} step_graph;

#define STEP_GRAPHS 64

typedef struct step_graphs {
  step_graph entries[STEP_GRAPHS];
  const void *workspace; /* that the recorded launches use */
  uint64_t clock;
  bool off; /* the device has none */
  atomic_long n_steps, n_replayed;
} step_graphs;

struct ga_engine {
  ga_model *model;
  ga_ctx *ctx;        /* the model's */
  ga_ctx *sample_ctx; /* the model's, or one of its own on a CPU */
  bool owns_sample_ctx;
  ga_session_sizes sizes; /* batch: tokens of a step */
  ga_engine_options options;
  ga_kv_cache cache;
  memory_host host;
  layer_memory *memory;
  scheduler *scheduler;
  ga_exec exec;
  step_inputs inputs;
  step_pace pace;
  sched_costs costs;
  engine_steps steps;
  ga_request **stepped; /* [max_sequences] those of the step under way */
  float *logits;        /* [max_out, vocab], of device_sampler one row, where the device's memory is not the host's */
  device_sampler sampler;
  step_graphs graphs;
  step_gaps gaps;
  void *sample_workspace;
  uint64_t sample_workspace_bytes;
  int32_t *eog; /* [n_eog] tokens that end generation */
  int32_t n_eog, n_vocab;
  ga_request *live;
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

/* Runs the plan's items, unless they are enqueued already, and hands out what becomes of them. Before it waits for
 * that, it enqueues the next step if it can. */
GA_NODISCARD ga_status engine_run_step(ga_engine *e, const sched_plan *plan);
/* The step that is enqueued ahead becomes the one under way. Its plan, or NULL: there is none. */
const sched_plan *engine_take_ahead(ga_engine *e);
/* Waits for the step under way, of which no request is left. */
GA_NODISCARD ga_status engine_skip_step(ga_engine *e);
/* The request ends: what a step ahead draws for it is nobody's. */
void engine_forget_rows(ga_engine *e, const ga_request *r);
/* Ends the requests that have waited too long. */
void engine_end_expired(ga_engine *e, const sched_plan *plan);
/* Rows [first, first + n) of the step, whose logits are [n, vocab] in host memory: samples, scores, pushes. */
GA_NODISCARD ga_status engine_take_rows(ga_engine *e, const engine_step *step, int32_t first, int32_t n,
                                        const float *logits);
/* The first token of the prompt, which no row tells. */
void engine_give_first(ga_request *r);
/* A token has been drawn from logits that begin with `first`; x: all of them, where the request wants
 * log-probabilities. */
GA_NODISCARD ga_status rows_accept(ga_engine *e, ga_request *r, int32_t id, float first, const float *x);
/* The token behind the row's, of the prompt, gets its log-probabilities. */
GA_NODISCARD ga_status rows_score_prompt(const ga_engine *e, const step_row *row, const float *x);
/* Biases that count behind n_ids tokens: those that ban every end of generation only until there are min_tokens. */
int32_t rows_n_bias(const ga_request *r, int32_t n_ids);
/* What a row's status becomes; GA_ERR_DEVICE ends the step. */
GA_NODISCARD ga_status rows_note_status(ga_request *r, ga_status status);

/* --- rows_device.c --- */

GA_NODISCARD ga_status device_sampler_create(ga_engine *e);
void device_sampler_destroy(ga_engine *e);
/* Gives up what the device has of a request that ends. */
void device_sampler_forget(ga_engine *e, const ga_request *r);
/* Writes the parameters of the step's rows into its inputs on the host, rows of nothing behind them. Rows of
 * requests that go wrong draw nothing: their row_status tells. */
GA_NODISCARD ga_status device_rows_put(ga_engine *e, engine_step *step);
/* Enqueues draws [first, first + n) of the step, whose logits are on the device. */
GA_NODISCARD ga_status device_rows_sample(ga_engine *e, const step_samples *at, int32_t first, int32_t n);
/* Enqueues copies of the first logits of n rows, which a step ahead would overwrite. */
GA_NODISCARD ga_status device_rows_keep_first(const ga_engine *e, const step_samples *at, int32_t n);
/* Enqueues the copy of the draws, and of those logits, to the step's place of the host's inputs. */
GA_NODISCARD ga_status device_rows_fetch(ga_engine *e, const engine_step *step);
/* Waits for that copy, and hands out what became of the step's rows, all of which draw. */
GA_NODISCARD ga_status device_rows_take_fetched(ga_engine *e, const engine_step *step);
/* Waits for rows [first, first + n) of the step, whose draws begin at `sample`, and hands out what became of them. */
GA_NODISCARD ga_status device_rows_take(ga_engine *e, const engine_step *step, int32_t first, int32_t n,
                                        int32_t sample);

/* --- step_graphs.c --- */

/* Sequences that a step of n is padded to, at most `most`: few values, so that graphs stay few. */
int32_t step_class(int32_t n, int32_t most);
typedef ga_status (*step_run_fn)(void *user);
/* Runs a step of that class: run enqueues the same launches with the same arguments each time. */
GA_NODISCARD ga_status step_graphs_run(ga_engine *e, int32_t n_seqs, int32_t max_kv, step_run_fn run, void *user);
void step_graphs_drop(ga_engine *e);

/* Pages that no sequence holds stay: for later prompts, or for those that are preempted. */
static inline bool engine_keeps_pages(const ga_engine *e) {
  return !(e->options.flags & GA_ENGINE_NO_PREFIX_CACHE) || e->options.swap_bytes > 0;
}
/* int32 that the inputs of any step need. */
int64_t step_inputs_room(const ga_engine *e);
/* The request's plan for the chain that it asks for. */
GA_NODISCARD ga_status engine_prepare_sampling(ga_engine *e, ga_request *r);
/* Checks the options and fills in what they leave open. memory: kinds of the model's layers, and how many units each
 * gets on the device and in host memory. */
GA_NODISCARD ga_status engine_sizes(const ga_model *model, const ga_engine_options *options, ga_session_sizes *sizes,
                                    ga_engine_options *full, layer_memory_options *memory);

#endif
