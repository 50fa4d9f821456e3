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
  const int32_t *ids; /* [n_ids] prompt and generated tokens; the array may move between calls */
  int32_t n_prompt;
  int32_t n_ids;
  int32_t max_ids;    /* n_ids never exceeds it */
  int32_t priority;   /* the lowest first */
  uint64_t tenant;    /* equal shares */
  uint64_t cache_key; /* layer_memory_match */
  bool use_prefix;    /* look for a kept prefix */
  double arrival;     /* seconds */
  double
      keep_seconds; /* seconds after its end in which its units are evicted last; 0: none, below 0: they become free */
  double first_deadline; /* a waiting request that has generated nothing expires then; 0 = never */
  void *user;
  /* The scheduler's. */
  sched_state state;
  sequence_memory kv;
  int32_t n_computed;  /* ids [0, n_computed) have been evaluated */
  int32_t n_cached;    /* tokens of the prompt that were cached when it first ran; -1 before */
  int32_t n_preempted; /* how often */
  bool is_swapped;     /* preempted and waiting, with its units kept, maybe in host memory */
  struct sched_request *next, *prev;
  int32_t n_ids_resumed; /* n_ids when it last began to run: it is not preempted again before n_ids has grown */
  double served;         /* its tenant has been charged for tokens [0, served) */
  int32_t n_found;       /* tokens that were cached when it last began to run */
  int32_t n_reached;     /* tokens that were evaluated when it was last preempted */
  int32_t n_planned;     /* its tokens in the newest plan; 0: none */
  int32_t n_under_way;   /* its tokens in the plan before that one, whose step is not done */
  bool is_left_out;      /* the newest plan's share had no room for it; the next plan's has */
  int32_t n_drawn;       /* 1: that step draws the token that follows ids, which is not known yet */
  int32_t at_deadline;   /* place among deadlines; -1: none */
  struct sched_tenant *account;
  struct sched_lane *lane; /* where it waits; NULL: it runs, or waits among the preempted requests */
} sched_request;

/* Tokens [first, first + n) of a request. */
typedef struct sched_item {
  sched_request *request;
  int32_t first, n;
  bool samples; /* its last token is the request's last one, so that a new token is drawn after it */
} sched_item;

typedef struct sched_plan {
  sched_item *items; /* first of requests that generate, then of prompts */
  int32_t n_items, n_tokens;
  sched_request **expired; /* requests that have been removed, as their deadline passed: state is SCHED_NONE */
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

/* Seconds that it costs to resume a preempted request, in two ways; 0: not known. */
typedef struct sched_costs {
  double token;                  /* to evaluate a token again */
  double unit[MEMORY_KINDS_MAX]; /* to copy a unit to host memory and back */
} sched_costs;

/* Creates a scheduler over the caller's memory, which must outlive it. The caller enqueues layer_memory_copies before
 * each step. */
GA_NODISCARD ga_status scheduler_create(const sched_options *options, layer_memory *memory, scheduler **out);
void scheduler_destroy(scheduler *s); /* NULL is fine; all requests have been removed */

/* Sets, from the next plan on, how many prompt tokens a step reads; 1 to step_tokens. */
void scheduler_set_chunk(scheduler *s, int32_t chunk_tokens);

/* Sets, from the next plan on, the rows of a step that reads one long prompt alone (or a very long one beside short
 * ones) while other requests generate. 0: no limit of its own. */
void scheduler_set_even(scheduler *s, int32_t rows);
/* Sets, from the next plan on, how many steps share the requests that generate: 1, or 2 in a pipeline of stages. With
 * two each plan has half of them. A request that one plan leaves out is in the next plan. */
void scheduler_set_micro_batches(scheduler *s, int32_t n);
/* Sets, from the next plan on, the costs that decide how a preempted request comes back: its pages are copied to host
 * memory if that costs less than computing them again. */
void scheduler_set_costs(scheduler *s, const sched_costs *costs);

/* Queues a request. GA_ERR_SHAPE: the pool cannot hold max_ids tokens even when it is empty. */
GA_NODISCARD ga_status scheduler_add(scheduler *s, sched_request *request);
/* Removes a request in any state and releases its pages; SCHED_NONE: does nothing. If it is in the plan of a step in
 * flight, its items there get the request NULL, and their results are dropped. The device may still write to the
 * released pages until that step has ended. */
void scheduler_remove(scheduler *s, sched_request *request);

/* Plans which tokens the next step evaluates, and takes units for them. The plan is the scheduler's, valid until that
 * step is done. No items: nothing can run. GA_ERR_NOMEM: there is no host memory for the request of scheduler_next, and
 * nothing else can run; nothing has changed then. */
GA_NODISCARD ga_status scheduler_plan(scheduler *s, double now, const sched_plan **out);
/* Records that the step in flight (the older of two) has been evaluated: n_computed of its requests grows. The ids of
 * pages that became whole must be known. Then the owner appends the drawn tokens to ids of the items that sample. */
void scheduler_done(scheduler *s);

/* Plans the step after the one in flight, before the tokens of that one are known. With two micro-batches it takes
 * requests that draw no token in the step in flight, if there are any. With one, items of requests that draw a token
 * there are one token longer than n_ids, and come in the order of these draws; requests whose last token is drawn there
 * are left out. None is preempted. If *out is NULL, or has no items, nothing can run or a request lacks a page. */
void scheduler_plan_ahead(scheduler *s, double now, const sched_plan **out);
/* Drops the plan of scheduler_plan_ahead: the one before it is the newest again. Its units stay with their requests. */
void scheduler_drop_ahead(scheduler *s);

/* Called instead of scheduler_done if the step in flight has failed, after which no other runs. The contents of its
 * requests' pages are invalid; the caller removes the requests. Also fine when no step is in flight. */
void scheduler_failed(scheduler *s);

/* Returns the waiting request whose turn it is; NULL: none waits. */
sched_request *scheduler_next(scheduler *s);
int32_t scheduler_n_waiting(const scheduler *s);
int32_t scheduler_n_running(const scheduler *s);
int32_t scheduler_n_swapped(const scheduler *s); /* waiting requests whose pages are in host memory */

#endif
