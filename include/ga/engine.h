/* GA, the engine: many requests through one model at once (continuous batching, paged KV cache, cached prefixes).
 *
 *   ga_engine   a model, a pool of KV pages, and a thread that runs one step after the other for all requests
 *   ga_request  one prompt and the tokens that follow it
 *
 * A step evaluates up to `step_tokens` tokens: one of each request that generates, and pieces of prompts (chunked
 * prefill: Sarathi, arXiv 2308.16369). Requests join and leave between steps (Orca, OSDI 2022). Keys and values lie in
 * pages that requests with the same beginning share (PagedAttention, arXiv 2309.06180; RadixAttention, 2312.07104).
 *
 * All functions may be called from any thread, but for _destroy: no other call on the same handle may be under way. One
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

/* GA_ENGINE_DETERMINISTIC: a request's tokens and log-probabilities follow bit by bit from its own options, on one
 * build, device and model: not from what else runs, how its prompt was cut, or what was found in the cache. */
typedef enum ga_engine_flags {
  GA_ENGINE_NO_PREFIX_CACHE = 1, /* pages are not kept for later requests, whatever their keep_seconds */
  GA_ENGINE_DETERMINISTIC = 2,
  GA_ENGINE_OFFLOAD_PREFIXES = 4, /* pages kept for later requests go to the swap space, too, instead of being dropped;
                                     GA_ERR_ARG without swap_bytes or with GA_ENGINE_NO_PREFIX_CACHE */
  GA_ENGINE_TIME_STEPS = 8,       /* measure step_gaps of ga_engine_stats: two more events in each step */
  GA_ENGINE_E4M3_ACTIVATIONS = 16 /* as GA_SESSION_E4M3_ACTIVATIONS; with GA_ENGINE_DETERMINISTIC in all steps */
} ga_engine_flags;

typedef struct ga_engine_options {
  size_t struct_size;
  int32_t context;       /* tokens of the longest sequence, prompt and answer; 0 = what the model was trained for, on a
                            CPU at most 4096 */
  int32_t max_sequences; /* requests that run at once, 1 to 1024; 0 = 16 on a CPU, 256 on a GPU */
  int32_t step_tokens;   /* tokens of a step, max_sequences to 16384; 0 = 512 on a CPU, 2048 on a GPU */
  int32_t max_waiting;   /* requests that may wait to run, 1 to 2^20; 0 = 1024. Beyond it: GA_ERR_BUSY */
  int64_t kv_tokens;  /* tokens that the pool of KV pages holds, at least `context`; 0 = 4 contexts on a CPU, on a GPU
                            what is left of its memory but a tenth */
  int32_t kv_dtype;   /* as in ga_session_options */
  uint32_t flags;     /* ga_engine_flags */
  int64_t swap_bytes; /* swap space: host memory, page-locked for a GPU, for the pages of requests that are preempted,
                         of those with keep_seconds, and of GA_ENGINE_OFFLOAD_PREFIXES. 0 = none: the preempted evaluate
                         their tokens again. GA_ERR_ARG: less than 0, or too little for a page of each kind of layer,
                         divided as the pool is */
} ga_engine_options;
#define GA_ENGINE_OPTIONS_INIT \
  { sizeof(ga_engine_options), 0, 0, 0, 0, 0, 0, 0, 0 }

/* Starts the engine's thread. options may be NULL. Layers may be on several devices, whose parts of a step run one
 * after another. GA_ERR_UNSUPPORTED: an encoder, or one rank's part of a model. GA_ERR_STATE: another engine uses one
 * of the model's contexts. */
GA_API GA_NODISCARD ga_status ga_engine_create(ga_model *model, const ga_engine_options *options, ga_engine **out);
/* Cancels what runs, waits for the step under way, ends the thread. Requests stay valid: they end with
 * GA_ERR_CANCELLED, and are destroyed before or after. NULL is fine. */
GA_API void ga_engine_destroy(ga_engine *engine);

/* Called by the engine's thread when a request has something new. It must return soon, and calls nothing of GA. */
typedef void (*ga_notify_fn)(void *user);

typedef struct ga_request_options {
  size_t struct_size;
  const int32_t *ids; /* [n_ids] the prompt; copied, as everything here is */
  int32_t n_ids;      /* at least 1; with max_tokens at most the engine's context */
  int32_t max_tokens; /* 0 = none: for prompt_logprobs, or to have the prompt cached; -1 = what the context has room
                         for */
  int32_t min_tokens; /* no end-of-generation token and none of stop_ids is drawn before */
  int32_t priority;   /* of waiting requests the lowest is first */
  uint64_t seed;      /* of the generator */
  const ga_sample_desc *sample; /* NULL = greedy; vocab is not looked at */
  int32_t penalty_last;         /* tokens that penalties look back on; 0 = 64, -1 = all */
  int32_t n_bias;
  const ga_logit_bias *bias;
  const int32_t *stop_ids; /* [n_stop_ids] tokens that end the request besides the model's own */
  int32_t n_stop_ids;
  int32_t logprobs;       /* -1 = none; N = each token has its log-probability and those of the N most probable tokens
                           (0 to 20), under the plain softmax of the logits */
  bool prompt_logprobs;   /* the same for the prompt's tokens, at least 0: they come first, and no cached prefix is
                           used */
  bool ignore_eog;        /* go on after an end-of-generation token */
  uint8_t reserved[6];    /* 0 */
  uint64_t tenant;        /* whose request it is: tenants get equal shares of the engine's tokens */
  const char *cache_salt; /* cached prefixes are shared by requests of one tenant and salt alone; NULL = "" */
  double first_token_deadline; /* seconds until the first token must have begun to be made; 0 = none. A request that
                                  waits longer ends with GA_ERR_TIMEOUT */
  ga_notify_fn notify;         /* may be NULL */
  void *user;
  double keep_seconds; /* seconds, from the start of its last step, in which its cached pages are evicted after those
                          of other requests, for a prompt that continues this one. At most half of the engine's pages
                          are protected so, over all tenants; a request beyond that gets no protection. Of several
                          times for one page the longest counts. 0: no protection. Below 0: no prompt will continue
                          this one, so its pages become free at once, but for those that other requests use, continue
                          or protect */
} ga_request_options;
#define GA_REQUEST_OPTIONS_INIT                                                                                       \
  {                                                                                                                   \
    sizeof(ga_request_options), NULL, 0, -1, 0, 0, 0, NULL, 0, 0, NULL, NULL, 0, -1, false, false, {0}, 0, NULL, 0.0, \
        NULL, NULL, 0.0                                                                                               \
  }

/* Checks the options and queues the request. GA_ERR_SHAPE: the prompt is longer than the context, or more than the
 * pool holds. GA_ERR_BUSY: max_waiting requests wait already. GA_ERR_STATE: the engine has failed. Release with
 * ga_request_destroy. */
GA_API GA_NODISCARD ga_status ga_engine_submit(ga_engine *engine, const ga_request_options *options, ga_request **out);

typedef struct ga_token_logprob {
  int32_t id;
  float logprob; /* natural log */
} ga_token_logprob;

#define GA_MAX_TOP_LOGPROBS 20

typedef enum ga_request_event {
  GA_REQUEST_PENDING = 0, /* nothing new */
  GA_REQUEST_PROMPT = 1,  /* a token of the prompt, with its log-probability (NaN for the first) */
  GA_REQUEST_TOKEN = 2,   /* a generated token; the one that ended the request is given too */
  GA_REQUEST_END = 3      /* nothing more will come */
} ga_request_event;

typedef struct ga_request_output {
  size_t struct_size;
  int32_t event;  /* ga_request_event */
  int32_t id;     /* PROMPT, TOKEN */
  float logprob;  /* of id, where asked for; else NaN */
  int32_t n_top;  /* entries of top */
  int32_t finish; /* ga_finish of END: STOPPED = cancelled; not meaningful when status is not GA_OK */
  int32_t status; /* ga_status of END */
  ga_token_logprob top[GA_MAX_TOP_LOGPROBS]; /* the most probable first */
} ga_request_output;
#define GA_REQUEST_OUTPUT_INIT                        \
  {                                                   \
    sizeof(ga_request_output), 0, 0, 0.0f, 0, 0, 0, { \
      { 0, 0.0f }                                     \
    }                                                 \
  }

/* The next event of the request. timeout_ms: how long to wait for one; 0 = not at all, -1 = until there is one. After
 * END it gives END again. The status of the call is GA_OK also when the request failed: output->status says so, and
 * ga_request_error tells why. */
GA_API GA_NODISCARD ga_status ga_request_poll(ga_request *request, int32_t timeout_ms, ga_request_output *output);
/* Why the request failed, "" if it did not. Owned by the request; fixed once END has been given. */
GA_API const char *ga_request_error(const ga_request *request);

typedef struct ga_request_info {
  size_t struct_size;
  int32_t n_prompt, n_cached; /* tokens; n_cached of the prompt were not evaluated: their pages were in the cache */
  int32_t n_generated;
  int32_t n_preempted;        /* how often its pages were taken for others */
  double queue_seconds;       /* until its first step; what has not happened yet is 0 */
  double first_token_seconds; /* since it was submitted, until its first token */
  double total_seconds;       /* since it was submitted, until now or its end */
} ga_request_info;
#define GA_REQUEST_INFO_INIT \
  { sizeof(ga_request_info), 0, 0, 0, 0, 0.0, 0.0, 0.0 }
GA_API GA_NODISCARD ga_status ga_request_get_info(const ga_request *request, ga_request_info *info);

/* Asks for its end: no token comes after the step under way, then END (GA_FINISH_STOPPED), and its pages are free.
 * Returns at once. */
GA_API void ga_request_cancel(ga_request *request);
/* Cancels it if it still runs; does not wait, and notify is not called once it has returned. NULL is fine. */
GA_API void ga_request_destroy(ga_request *request);

typedef struct ga_engine_stats {
  size_t struct_size;
  int32_t running, waiting;        /* requests, now */
  int64_t kv_pages, kv_pages_used; /* of the pool; used: held by requests */
  int64_t kv_pages_cached;         /* held by no request, kept for later ones */
  uint64_t steps;                  /* all that follows: since the start */
  uint64_t prompt_tokens, generated_tokens;
  uint64_t prefix_queries, prefix_hits; /* tokens of prompts that were looked up, and found in the cache */
  uint64_t preemptions;
  uint64_t submitted, refused;                                             /* requests; refused: GA_ERR_BUSY */
  uint64_t finished_stop, finished_length, finished_abort, finished_error; /* abort: cancelled */
  double busy_seconds;                                                     /* in steps */
  int32_t context, max_sequences, step_tokens, max_waiting;                /* as the engine has them */
  int32_t failed;                      /* ga_status of what broke the engine, else 0: every submit fails from then on */
  int32_t reserved;                    /* 0 */
  int64_t swapped;                     /* requests that wait, preempted, to go on with pages from the swap space; now */
  int64_t swap_pages, swap_pages_used; /* of the swap space, now */
  uint64_t swapped_out_bytes, swapped_in_bytes; /* copied to the swap space, and back from it */
  uint64_t step_gaps; /* with GA_ENGINE_TIME_STEPS: steps that followed another while requests ran all the time */
  double step_gap_median, step_gap_p99; /* seconds, within 5 %: from the last kernel of a step to the first of the next,
                                           the device idle or copying inputs */
} ga_engine_stats;
#define GA_ENGINE_STATS_INIT                                                                                          \
  {                                                                                                                   \
    sizeof(ga_engine_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
        0, 0.0, 0.0                                                                                                   \
  }
GA_API GA_NODISCARD ga_status ga_engine_get_stats(ga_engine *engine, ga_engine_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
