/* GA, the engine: many requests through one model at once (continuous batching, paged KV cache, cached prefixes).
 *
 *   ga_engine   a model, a pool of KV pages, and a thread that runs one step after the other for all requests
 *   ga_request  one prompt and the tokens that follow it
 *
 * A step evaluates up to `step_tokens` tokens: one of each request that generates, and pieces of prompts (chunked
 * prefill: Sarathi, arXiv 2308.16369). Requests join and leave between steps (Orca, OSDI 2022). Keys and values lie in
 * pages that requests with the same beginning share (PagedAttention, arXiv 2309.06180; RadixAttention, 2312.07104).
 *
 * All functions may be called from any thread. During a _destroy no other call on the same handle may be under way. One
 * thread at a time polls a request. While an engine lives it alone uses the context of its model: sessions of that
 * model, and a second engine, get GA_ERR_STATE. ga_model_share makes a model of the same weights in another context.
 */
#ifndef GA_ENGINE_H
#define GA_ENGINE_H

#include "ga/llm.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ga_engine ga_engine;
typedef struct ga_request ga_request;

/* Flags of an engine, combined with |. */
typedef enum ga_engine_flags {
  /* pages of ended requests are not kept for later requests, whatever keep_seconds says */
  GA_ENGINE_NO_PREFIX_CACHE = 1,
  /* on one build, device and model, a request's own options determine its tokens and log-probabilities bit by bit.
   * Other requests, the division of its prompt into steps, and cached prefixes have no influence */
  GA_ENGINE_DETERMINISTIC = 2,
  /* pages kept for later requests are moved to the swap space instead of being dropped. GA_ERR_ARG without
   * swap_bytes or with GA_ENGINE_NO_PREFIX_CACHE */
  GA_ENGINE_OFFLOAD_PREFIXES = 4,
  /* measures the step_gap fields of ga_engine_stats, at the cost of two GPU events in each step */
  GA_ENGINE_TIME_STEPS = 8,
  /* rounds activations to e4m3 as GA_SESSION_E4M3_ACTIVATIONS does; with GA_ENGINE_DETERMINISTIC also in steps of few
   * tokens */
  GA_ENGINE_E4M3_ACTIVATIONS = 16
} ga_engine_flags;

typedef struct ga_engine_options {
  size_t struct_size;
  /* number of tokens of the longest sequence, prompt and answer; 0 = the context the model was trained for, on a CPU at
   * most 4096 */
  int32_t context;
  int32_t max_sequences; /* largest number of requests that run at once, 1 to 1024; 0 = 16 on a CPU, 256 on a GPU */
  /* largest number of tokens of a step, max_sequences to 16384; 0 = 512 on a CPU, 2048 on a GPU */
  int32_t step_tokens;
  /* largest number of requests that wait to run, 1 to 2^20; 0 = 1024. Further requests get GA_ERR_BUSY */
  int32_t max_waiting;
  /* tokens that the pool of KV pages holds, at least `context`. 0 = 4 x context on a CPU; on a GPU as many as fit into
   * nine tenths of the free memory */
  int64_t kv_tokens;
  /* ga_dtype of the KV cache: f16 (0 means this), f32, bf16, e4m3 (a scale for each token of a head), q8_0, q4_0 */
  int32_t kv_dtype;
  uint32_t flags; /* ga_engine_flags */
  /* bytes of the swap space: host memory, page-locked for a GPU. It holds pages of preempted requests, pages of
   * requests with keep_seconds, and with GA_ENGINE_OFFLOAD_PREFIXES other cached pages. 0 = none: preempted requests
   * evaluate their tokens again. GA_ERR_ARG: less than 0, or too little for one page of each kind of layer. The kinds
   * of layers share it in the ratio in which they share the pool */
  int64_t swap_bytes;
} ga_engine_options;
#define GA_ENGINE_OPTIONS_INIT \
  { sizeof(ga_engine_options), 0, 0, 0, 0, 0, 0, 0, 0 }

/* Creates an engine and starts its thread. options may be NULL. Layers may be on several devices, whose parts of a
 * step run one after another. GA_ERR_UNSUPPORTED: the model is an encoder, or has one rank's part of the weights.
 * GA_ERR_STATE: another engine uses one of the model's contexts. */
GA_API GA_NODISCARD ga_status ga_engine_create(ga_model *model, const ga_engine_options *options, ga_engine **out);
/* Cancels all requests, waits for the step in flight and ends the thread. In a fork of the process that made the engine
 * it does nothing, and other calls return GA_ERR_STATE. Requests stay valid: they end with
 * GA_ERR_CANCELLED, and may be destroyed before or after the engine. NULL is fine. */
GA_API void ga_engine_destroy(ga_engine *engine);

/* A callback from the engine's thread when a request has a new output. It must return soon, and must not call GA. */
typedef void (*ga_notify_fn)(void *user);

typedef struct ga_request_options {
  size_t struct_size;
  /* [n_ids] token ids of the prompt. The engine copies them, as it copies all arrays and texts of the options */
  const int32_t *ids;
  int32_t n_ids; /* number of ids, at least 1; n_ids + max_tokens is at most the engine's context */
  /* largest number of tokens to generate. 0 = none, to get prompt_logprobs or to cache the prompt. -1 = as many as the
   * context has room for */
  int32_t max_tokens;
  /* smallest number of tokens to generate: before that, no end-of-generation token and none of stop_ids is drawn */
  int32_t min_tokens;
  int32_t priority;             /* waiting requests with the lowest value run first */
  uint64_t seed;                /* seed of the random generator that draws the tokens */
  const ga_sample_desc *sample; /* parameters of the draws, whose vocab is ignored; NULL = greedy */
  int32_t penalty_last;         /* number of last tokens to which penalties apply; 0 = 64, -1 = all */
  int32_t n_bias;
  const ga_logit_bias *bias; /* [n_bias] values that are added to logits; NULL = none */
  const int32_t *stop_ids;   /* [n_stop_ids] tokens that end the request besides the model's own */
  int32_t n_stop_ids;
  /* -1 = none. N, 0 to 20: each token comes with its log-probability and those of the N most probable tokens, under
   * the plain softmax of the logits */
  int32_t logprobs;
  /* true: the prompt's tokens are output first, each with its log-probability, and with the most probable tokens as
   * `logprobs` says. No cached prefix is used */
  bool prompt_logprobs;
  bool ignore_eog;     /* true: generation goes on after an end-of-generation token */
  uint8_t reserved[6]; /* must be 0 */
  uint64_t tenant;     /* id of the request's owner: tenants get equal shares of the engine's tokens */
  /* text: requests share cached prefixes only if their tenants and salts are equal; NULL = "" */
  const char *cache_salt;
  /* seconds in which the first token must have begun to be evaluated; 0 = no limit. A request that waits longer ends
   * with GA_ERR_TIMEOUT */
  double first_token_deadline;
  ga_notify_fn notify; /* called when the request has a new output; may be NULL */
  void *user;          /* argument of notify */
  /* seconds, from the start of the request's last step, during which its cached pages are evicted only after the pages
   * of other requests. It is meant for requests that a later prompt continues. At most half of the engine's pages have
   * this priority, over all tenants; a request that would exceed it gets no priority. If several requests give times
   * for one page, the longest counts. 0: no priority. Below 0: no prompt will continue this request. Its pages become
   * free at once, except those that other requests use, continue or keep */
  double keep_seconds;
  /* the most tokens that wait to be polled while other requests wait to run. With more, this request gives its place
   * to those, as if it were preempted, until half of them are polled or no other request waits. 0 = no limit */
  int32_t max_unread;
  int32_t reserved_end; /* 0 */
} ga_request_options;
#define GA_REQUEST_OPTIONS_INIT                                                                                       \
  {                                                                                                                   \
    sizeof(ga_request_options), NULL, 0, -1, 0, 0, 0, NULL, 0, 0, NULL, NULL, 0, -1, false, false, {0}, 0, NULL, 0.0, \
        NULL, NULL, 0.0, 0, 0                                                                                         \
  }

/* Checks the options and queues the request. GA_ERR_SHAPE: the prompt is longer than the context, or more than the
 * pool holds. GA_ERR_BUSY: max_waiting requests wait already. GA_ERR_STATE: the engine has failed. Release with
 * ga_request_destroy. */
GA_API GA_NODISCARD ga_status ga_engine_submit(ga_engine *engine, const ga_request_options *options, ga_request **out);

typedef struct ga_token_logprob {
  int32_t id;
  float logprob; /* natural logarithm of the token's probability */
} ga_token_logprob;

#define GA_MAX_TOP_LOGPROBS 20

typedef enum ga_request_event {
  GA_REQUEST_PENDING = 0, /* no new output */
  GA_REQUEST_PROMPT = 1,  /* a token of the prompt, with its log-probability (NaN for the first token) */
  GA_REQUEST_TOKEN = 2,   /* a generated token; the token that ended the request is included */
  GA_REQUEST_END = 3      /* the request has ended: no output follows */
} ga_request_event;

typedef struct ga_request_output {
  size_t struct_size;
  int32_t event; /* ga_request_event */
  int32_t id;    /* PROMPT, TOKEN: the token's id */
  float logprob; /* log-probability of id if it was requested, else NaN */
  int32_t n_top; /* number of entries in top */
  /* END: ga_finish, where GA_FINISH_STOPPED says that the request was cancelled. Not meaningful if status is not
   * GA_OK */
  int32_t finish;
  int32_t status; /* END: ga_status of the request */
  /* [n_top] most probable tokens with their log-probabilities, the most probable first */
  ga_token_logprob top[GA_MAX_TOP_LOGPROBS];
} ga_request_output;
#define GA_REQUEST_OUTPUT_INIT                        \
  {                                                   \
    sizeof(ga_request_output), 0, 0, 0.0f, 0, 0, 0, { \
      { 0, 0.0f }                                     \
    }                                                 \
  }

/* Returns the next event of the request. timeout_ms: milliseconds to wait for an event; 0 = none, -1 = without
 * limit. After END every call returns END. The call returns GA_OK even if the request failed: output->status has the
 * failure, and ga_request_error its text. */
GA_API GA_NODISCARD ga_status ga_request_poll(ga_request *request, int32_t timeout_ms, ga_request_output *output);
/* Returns the text of the request's failure; "" if it has not failed. Owned by the request; final once END has been
 * returned. */
GA_API const char *ga_request_error(const ga_request *request);

typedef struct ga_request_info {
  size_t struct_size;
  int32_t n_prompt;           /* tokens of the prompt */
  int32_t n_cached;           /* tokens of the prompt whose pages were in the cache, so that they were not evaluated */
  int32_t n_generated;        /* tokens generated so far */
  int32_t n_preempted;        /* how often the request was preempted: its pages were taken for other requests */
  double queue_seconds;       /* seconds from submission until the request's first step; 0 if it has not happened yet */
  double first_token_seconds; /* seconds from submission until the first token; 0 if there is none yet */
  double total_seconds;       /* seconds from submission until now, or until the request's end */
} ga_request_info;
#define GA_REQUEST_INFO_INIT \
  { sizeof(ga_request_info), 0, 0, 0, 0, 0.0, 0.0, 0.0 }
GA_API GA_NODISCARD ga_status ga_request_get_info(const ga_request *request, ga_request_info *info);

/* Cancels the request and returns at once. No token follows the step in flight; then END comes with
 * GA_FINISH_STOPPED, and the request's pages become free. */
GA_API void ga_request_cancel(ga_request *request);
/* Destroys the request; cancels it first if it still runs. It does not wait. notify is not called any more once it
 * has returned. NULL is fine. */
GA_API void ga_request_destroy(ga_request *request);

#define GA_STEP_SIZES 14

typedef struct ga_engine_stats {
  size_t struct_size;
  int32_t running, waiting; /* numbers of requests that now run, and that wait */
  int64_t kv_pages;         /* number of KV pages in the pool */
  int64_t kv_pages_used;    /* pages that requests use now */
  int64_t kv_pages_cached;  /* pages that no request uses, kept for later requests */
  uint64_t steps; /* steps since the engine was created. The fields below also count from then, unless they say "now" */
  uint64_t prompt_tokens, generated_tokens;
  uint64_t prefix_queries; /* number of prompt tokens that were looked up in the prefix cache */
  uint64_t prefix_hits;    /* number of prompt tokens that were found in the prefix cache */
  uint64_t preemptions;    /* how often a request was preempted */
  uint64_t submitted;      /* requests submitted */
  uint64_t refused;        /* requests refused with GA_ERR_BUSY */
  /* numbers of requests that ended by a stop token, by max_tokens or the context, by cancelling, and with an error */
  uint64_t finished_stop, finished_length, finished_abort, finished_error;
  double busy_seconds;                                      /* seconds that the engine spent in steps */
  int32_t context, max_sequences, step_tokens, max_waiting; /* the engine's options, with defaults filled in */
  int32_t failed;     /* ga_status of the failure that stopped the engine; every submit then fails with it. 0 = none */
  int32_t reserved;   /* always 0 */
  int64_t swapped;    /* preempted requests that wait now and whose pages are in the swap space */
  int64_t swap_pages; /* pages of the swap space */
  int64_t swap_pages_used;                      /* pages of the swap space that are in use now */
  uint64_t swapped_out_bytes, swapped_in_bytes; /* bytes of pages copied to the swap space, and back from it */
  /* with GA_ENGINE_TIME_STEPS: number of measured gaps between consecutive steps. A gap counts only if requests ran all
   * the time */
  uint64_t step_gaps;
  /* with GA_ENGINE_TIME_STEPS: median and 99th percentile of the gaps between steps, in seconds, exact to 5 %. A gap is
   * the time from the last kernel of a step to the first kernel of the next. The device is idle in it, or copies
   * inputs */
  double step_gap_median, step_gap_p99;
  /* steps by their tokens: up to 1, up to 8, 16, 32 and so on to 16384, and more */
  uint64_t step_sizes[GA_STEP_SIZES];
  uint64_t step_tokens_run; /* tokens of all these steps */
  /* the model's cache of experts, since it was loaded: lookups, hits and loads as in ga_expert_cache_stats */
  uint64_t expert_lookups, expert_hits, expert_loads;
  int64_t expert_slots, expert_slots_used; /* experts that the cache can hold, and that it holds now */
} ga_engine_stats;
#define GA_ENGINE_STATS_INIT                                                                                          \
  {                                                                                                                   \
    sizeof(ga_engine_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
        0, 0.0, 0.0, {0}, 0, 0, 0, 0, 0, 0                                                                            \
  }
GA_API GA_NODISCARD ga_status ga_engine_get_stats(ga_engine *engine, ga_engine_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
