/* The scheduler: which tokens of which requests the next step evaluates.
 *
 * A pure function of the requests, their layer memory and the time: this code calls no clock, no device and no thread.
 * A request is a list of tokens that grows; each step evaluates some tokens that have not been evaluated yet. Prompts
 * and answers differ only in this: a request with one token left to evaluate generates (decode), other requests are
 * being read (prefill).
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
  /* Fields that the owner sets. */
  const int32_t *ids; /* [n_ids] prompt and generated tokens; the array may move between calls */
  int32_t n_prompt;
  int32_t n_ids;
  int32_t max_ids;    /* largest value that n_ids may reach */
  int32_t priority;   /* requests with the lowest value run first */
  uint64_t tenant;    /* id of the tenant; tenants get equal shares */
  uint64_t cache_key; /* key for layer_memory_match: requests with different keys share no cached pages */
  bool use_prefix;    /* cached prefixes of the prompt are used */
  double arrival;     /* time of arrival in seconds */
  /* seconds after the request's end during which its units are evicted last. 0: no such time. Below 0: its units
   * become free at its end */
  double keep_seconds;
  double first_deadline; /* time at which the request expires if it waits and has generated nothing; 0: never */
  /* true: the caller does not read the request's tokens. A stalled request gives its place to waiting requests, and
   * waits until no other request waits or it is no longer stalled. The owner may change the field between plans */
  bool is_stalled;
  void *user;
  /* Fields that the scheduler sets. */
  sched_state state;
  sequence_memory kv;
  int32_t n_computed;  /* ids [0, n_computed) have been evaluated */
  int32_t n_cached;    /* tokens of the prompt that were cached when the request first ran; -1 before that */
  int32_t n_preempted; /* how often the request has been preempted */
  bool is_swapped;     /* the request is preempted and waits; its units are kept, perhaps in host memory */
  struct sched_request *next, *prev;
  /* n_ids when the request last began to run; it is not preempted again before n_ids has grown */
  int32_t n_ids_resumed;
  double served;       /* number of the request's tokens that have been counted for its tenant, from the first on */
  int32_t n_short;     /* tokens of a short prompt that were not cached at scheduler_add; 0: the prompt is long */
  int32_t n_found;     /* tokens that were cached when the request last began to run */
  int32_t n_reached;   /* tokens that were evaluated when the request was last preempted */
  int32_t n_planned;   /* the request's tokens in the newest plan; 0: none */
  int32_t n_under_way; /* the request's tokens in the plan before the newest, whose step is in flight */
  /* the newest plan was for a part of the generating requests, without this one; the next plan includes it */
  bool is_left_out;
  int32_t n_drawn;     /* 1: the step in flight draws the token after ids, which is not known yet; else 0 */
  int32_t at_deadline; /* index in the heap sched_queue.deadlines; -1: the request is not in it */
  struct sched_tenant *account;
  /* list of its tenant's requests in which the request waits; NULL: it runs, or waits among the preempted requests */
  struct sched_lane *lane;
} sched_request;

/* Tokens [first, first + n) of a request. */
typedef struct sched_item {
  sched_request *request;
  int32_t first, n;
  bool samples; /* the item ends with the request's last token, so a new token is drawn after it */
} sched_item;

typedef struct sched_plan {
  sched_item *items; /* [n_items] first items of requests that generate, then items of prompts */
  int32_t n_items, n_tokens;
  /* [n_expired] requests that have been removed because their deadline passed; their state is SCHED_NONE */
  sched_request **expired;
  int32_t n_expired;
  int32_t n_preempted; /* number of requests that were preempted to make the plan */
} sched_plan;

typedef struct sched_options {
  int32_t max_sequences; /* largest number of requests that run at once */
  int32_t step_tokens;   /* largest number of tokens of a step; at least max_sequences */
  /* largest number of prompt tokens of a step in which other requests generate; 1 to step_tokens */
  int32_t chunk_tokens;
  int32_t step_tile; /* a step with prompts is filled up to a multiple of step_tile tokens; at least 1 */
  /* largest number of tokens to evaluate of a prompt that counts as short; 0: no prompt is short. Up to half of the
   * prompt tokens of a step go to short prompts first, which need not wait until long prompts are admitted */
  int32_t short_tokens;
} sched_options;

typedef struct scheduler scheduler;

/* Costs in seconds of the two ways to resume a preempted request. 0: not known. */
typedef struct sched_costs {
  double token;                  /* seconds to evaluate one token again */
  double unit[MEMORY_KINDS_MAX]; /* [kind] seconds to copy one unit to host memory and back */
} sched_costs;

/* Creates a scheduler that uses the caller's layer memory, which must outlive it. The caller enqueues the copies of
 * layer_memory_copies before each step. */
GA_NODISCARD ga_status scheduler_create(const sched_options *options, layer_memory *memory, scheduler **out);
void scheduler_destroy(scheduler *s); /* NULL is fine; all requests must have been removed */

/* Sets, from the next plan on, the largest number of prompt tokens of a step in which other requests generate: 1 to
 * step_tokens. */
void scheduler_set_chunk(scheduler *s, int32_t chunk_tokens);

/* Sets, from the next plan on, the largest number of prompt tokens of a step in which no request generates: 1 to
 * step_tokens. The default is step_tokens. */
void scheduler_set_alone(scheduler *s, int32_t tokens);

/* Sets, from the next plan on, the largest number of tokens of an even step. Such a step reads one long prompt, and no
 * other, while requests generate. A very long prompt counts as the only one even if short prompts wait with it. 0: no
 * such limit. */
void scheduler_set_even(scheduler *s, int32_t rows);
/* Sets, from the next plan on, how many steps share the generating requests: 1, or 2 in a pipeline of stages. With
 * 2, each plan has half of them. A request that one plan leaves out is in the next plan. */
void scheduler_set_micro_batches(scheduler *s, int32_t n);
/* Sets, from the next plan on, the costs that decide how a preempted request resumes. Its pages are copied to host
 * memory if that costs less than computing them again. */
void scheduler_set_costs(scheduler *s, const sched_costs *costs);

/* Queues a request, which the caller owns and keeps in place until scheduler_remove. GA_ERR_SHAPE: layer memory cannot
 * hold max_ids tokens even when it is empty. */
GA_NODISCARD ga_status scheduler_add(scheduler *s, sched_request *request);
/* Removes a request in any state and releases its pages. SCHED_NONE: does nothing. If the request is in the plan of a
 * step in flight, its items there get request NULL, and their results are dropped. Until that step has ended, the
 * device may still write to the released pages. */
void scheduler_remove(scheduler *s, sched_request *request);

/* Plans which tokens the next step evaluates, and takes units for them. The scheduler owns the plan, which is valid
 * until its step is done. A plan without items: nothing can run. GA_ERR_NOMEM: there is no host memory to begin the
 * request that scheduler_next returns, and nothing else can run. An error changes nothing. */
GA_NODISCARD ga_status scheduler_plan(scheduler *s, double now, const sched_plan **out);
/* Records that the step in flight (the older of two) has been evaluated, and advances n_computed of its requests. The
 * token ids of pages that became full must be known. Then the owner appends the drawn tokens to `ids` of the requests
 * whose items sample. */
void scheduler_done(scheduler *s);

/* Plans the step after the one in flight, before that step's tokens are known. No request is preempted. With two
 * micro-batches, it plans requests that draw no token in the step in flight, if there are any. With one, requests that
 * draw in that step get items that end one token after n_ids, in the order of the draws. Requests whose last token that
 * step draws are left out. *out is NULL or has no items: nothing can run, or a request lacks a page. */
void scheduler_plan_ahead(scheduler *s, double now, const sched_plan **out);
/* Drops the plan of scheduler_plan_ahead. The plan before it is the newest again. The units of the dropped plan stay
 * with their requests. */
void scheduler_drop_ahead(scheduler *s);

/* Replaces scheduler_done if the step in flight has failed; no other step is in flight then. The contents of its
 * requests' pages are invalid, and the caller removes the requests. Also allowed when no step is in flight. */
void scheduler_failed(scheduler *s);

/* Returns the waiting request that runs next; NULL: none waits. */
sched_request *scheduler_next(scheduler *s);
int32_t scheduler_n_waiting(const scheduler *s);
int32_t scheduler_n_running(const scheduler *s);
int32_t scheduler_n_swapped(const scheduler *s); /* waiting requests whose pages are in host memory */

#endif
