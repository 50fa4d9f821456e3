/* The scheduler: which tokens of which requests the next step evaluates.
 *
 * A pure function of the requests, their layer memory and the time: nothing here knows a clock, a device or a
 * thread. A request is a list of tokens that grows; each step evaluates some of those that have not been yet. There is
 * no difference between a prompt and an answer but this: a request that has one token left to evaluate generates
 * (decode), others are being read (prefill).
 *
 * Sources: iteration-level scheduling (Orca, OSDI 2022), chunked prefill (Sarathi-Serve, arXiv 2403.02310), a counter
 * of served tokens for each tenant (VTC, arXiv 2401.00588), preemption by recomputation or swap (vLLM, arXiv
 * 2309.06180).
 */
#ifndef GA_ENGINE_SCHEDULER_H
#define GA_ENGINE_SCHEDULER_H

#include "engine/layer_memory.h"

typedef enum sched_state { SCHED_NONE, SCHED_WAITING, SCHED_RUNNING } sched_state;

/* A request as the scheduler sees it. The owner keeps it in place from scheduler_add to scheduler_remove. */
typedef struct sched_request {
  /* The owner's. */
  const int32_t *ids; /* [n_ids] prompt and what has been generated; may move between calls */
  int32_t n_prompt;
  int32_t n_ids;
  int32_t max_ids;       /* n_ids never exceeds it */
  int32_t priority;      /* the lowest first */
  uint64_t tenant;       /* equal shares */
  uint64_t cache_key;    /* layer_memory_match */
  bool use_prefix;       /* look for a kept prefix */
  double arrival;        /* seconds */
  double keep_seconds;   /* after its end its units have priority so long; 0: none, below 0: they become free */
  double first_deadline; /* a waiting request that has generated nothing expires then; 0 = never */
  void *user;
  /* The scheduler's. */
  sched_state state;
  sequence_memory kv;
  int32_t n_computed;  /* ids [0, n_computed) have been evaluated */
  int32_t n_cached;    /* of the prompt, found kept when it first ran; -1 before */
  int32_t n_preempted; /* how often */
  bool is_swapped;     /* preempted, and its units may be in host memory: it waits to go on with them */
  struct sched_request *next, *prev;
  int32_t n_ids_resumed; /* n_ids when it last began to run: not preempted again before it has grown */
  double served;         /* of its tokens, those that its tenant has been charged for: [0, served) */
  int32_t n_found;       /* tokens found kept when it last began to run */
  int32_t n_reached;     /* tokens that were evaluated when it was last preempted */
  int32_t n_planned;     /* tokens in the newest plan; 0: it is not in there */
  int32_t n_under_way;   /* tokens in the plan before that one, whose step is not done */
  bool is_left_out;      /* the newest plan had no room for it in its share: the next one has */
  int32_t n_drawn;       /* 1: that step draws a token behind ids, which nobody knows yet */
  int32_t at_deadline;   /* place among deadlines; -1: none */
  struct sched_tenant *account;
  struct sched_lane *lane; /* where it waits; NULL: with the preempted ones, or it runs */
} sched_request;

/* Tokens [first, first + n) of a request. */
typedef struct sched_item {
  sched_request *request;
  int32_t first, n;
  bool samples; /* the last of them is the request's last token: a new one follows */
} sched_item;

typedef struct sched_plan {
  sched_item *items; /* the ones that generate first, then prompts */
  int32_t n_items, n_tokens;
  sched_request **expired; /* have been removed: state is SCHED_NONE */
  int32_t n_expired;
  int32_t n_preempted; /* in this step */
} sched_plan;

typedef struct sched_options {
  int32_t max_sequences; /* that run at once */
  int32_t step_tokens;   /* budget of a step, at least max_sequences */
  int32_t chunk_tokens;  /* of prompts in a step in which others generate, 1 to step_tokens */
  int32_t step_tile;     /* a step with prompts is filled up to a multiple of it, at least 1 */
} sched_options;

typedef struct scheduler scheduler;

/* Seconds that a preempted request costs to go on; 0: not known. */
typedef struct sched_costs {
  double token;                  /* to evaluate a token again */
  double unit[MEMORY_KINDS_MAX]; /* to copy a unit to host memory and back */
} sched_costs;

/* memory stays the caller's and outlives the scheduler. The caller enqueues layer_memory_copies before each step. */
GA_NODISCARD ga_status scheduler_create(const sched_options *options, layer_memory *memory, scheduler **out);
void scheduler_destroy(scheduler *s); /* NULL is fine; all requests have been removed */

/* Sets, from the next plan on, how many prompt tokens a step reads; 1 to step_tokens. */
void scheduler_set_chunk(scheduler *s, int32_t chunk_tokens);

/* Sets, from the next plan on, the rows of a step that reads one long prompt alone (or a very long one beside short
 * ones) while other requests generate. 0: no limit of its own. */
void scheduler_set_even(scheduler *s, int32_t rows);
/* Sets, from the next plan on, how many steps share the requests that generate: 1, or 2 in a pipeline of stages. With two each plan has half of the
 * requests that generate, and one that was left out is in the next plan. */
void scheduler_set_micro_batches(scheduler *s, int32_t n);
/* Sets, from the next plan on, the costs that decide how a preempted request comes back: its pages are copied to host
 * memory if that costs less than computing them again. */
void scheduler_set_costs(scheduler *s, const sched_costs *costs);

/* Queues a request. GA_ERR_SHAPE: the pool cannot hold max_ids tokens even when it is empty. */
GA_NODISCARD ga_status scheduler_add(scheduler *s, sched_request *request);
/* Takes it out, whatever its state, and gives its pages back (SCHED_NONE: does nothing). Items of a request that is in
 * a plan under way have the request NULL then, and what their step computes is not kept: the device may still write to
 * the pages that come back, before the next step. */
void scheduler_remove(scheduler *s, sched_request *request);

/* Plans which tokens the next step evaluates, and takes units for them. The plan is the scheduler's, valid until that
 * step is done. No items: nothing can run. GA_ERR_NOMEM: there is no host memory for the request of scheduler_next, and
 * nothing else can run; nothing has changed then. */
GA_NODISCARD ga_status scheduler_plan(scheduler *s, double now, const sched_plan **out);
/* Records that the step under way, the older one of two, has been evaluated: n_computed of its requests grows. Ids of
 * whole pages are known. Then the owner appends the new tokens to ids of the items that sample. */
void scheduler_done(scheduler *s);

/* Plans the step after the one under way before the tokens of that one are known. With two micro-batches it takes
 * requests that do not draw in the step under way, if there are any. With one, items of requests that draw there are
 * one token longer than n_ids; those that have their last token then are left out; the others come in the order in
 * which they have their tokens drawn. Nobody is preempted. *out NULL, or no items but some that have expired: there is
 * nothing to run, or a request lacks a page. */
void scheduler_plan_ahead(scheduler *s, double now, const sched_plan **out);
/* Drops that plan: the one before it is the newest again. Units that were taken stay with their requests. */
void scheduler_drop_ahead(scheduler *s);

/* Instead of scheduler_done: the step under way has failed, and no other will run. What its requests have in pages
 * counts for nothing; they are to be removed. Also fine when no step is under way. */
void scheduler_failed(scheduler *s);

/* The waiting request whose turn it is; NULL: none waits. */
sched_request *scheduler_next(scheduler *s);
int32_t scheduler_n_waiting(const scheduler *s);
int32_t scheduler_n_running(const scheduler *s);
int32_t scheduler_n_swapped(const scheduler *s); /* waiting requests whose pages are in host memory */

#endif
