/* Parameters that completions and chat completions share: sampling, stop conditions, and the contents of the answer. */
#ifndef GA_SERVE_PARAMS_H
#define GA_SERVE_PARAMS_H

#include "ga/engine.h"
#include "serve/fields.h"

enum {
  SV_MAX_N = 128,
  SV_MAX_STOPS = 16,
  SV_MAX_STOP_BYTES = 1024, /* largest number of bytes of one stop string */
  SV_MAX_STOP_IDS = 256,
  SV_MAX_BIAS = 4096,
  SV_MAX_TTL = 86400, /* largest value of cache_ttl, in seconds */
  SV_MAX_INDENT = 65536,
  SV_NO_LIMIT = -1 /* value of max_tokens if the request does not have it, or has -1 */
};

typedef struct sv_params {
  ga_sample_desc sample;
  int64_t seed; /* seed of the random numbers; -1 = the server chooses one */
  int64_t n, max_tokens, min_tokens, priority;
  bool has_max_tokens; /* the request has max_tokens, which may be -1 */
  /* number of alternative tokens in the log-probabilities of each token; -1 = no log-probabilities */
  int64_t logprobs;
  /* number of alternative tokens for each token of the prompt, in vLLM's form; -1 = no log-probabilities of the
   * prompt */
  int64_t prompt_logprobs;
  bool stream, include_usage, ignore_eos, skip_special, add_special, parse_special, include_stop;
  int32_t penalty_last; /* number of last tokens that repetition penalties count; -1 = all tokens */
  /* Fields that only llama-server's requests have. return_ids: tokens are kept even without log-probabilities. */
  bool return_ids, timings_per_token, no_cache;
  /* the answer ends before a line, other than its first, that has fewer leading blanks than this; 0 = off */
  int64_t n_indent;
  /* largest time in seconds from the first token to the end of the answer; its first line is never cut. <= 0: no
   * limit */
  double predict_seconds;
  ga_text stop[SV_MAX_STOPS]; /* [n_stop] stop strings, owned by the request's body */
  size_t n_stop;
  int32_t *stop_ids; /* [n_stop_ids] ids of stop tokens, allocated with malloc */
  int32_t n_stop_ids;
  ga_logit_bias *bias; /* [n_bias] numbers that are added to logits of tokens, allocated with malloc */
  int32_t n_bias;
  const char *cache_salt; /* salt of the prefix cache (ga_request_options.cache_salt), owned by the body; NULL = none */
  /* seconds for which the prompt's prefix is kept in the cache; 0 = no later request uses it; -1 = not given */
  double cache_ttl;
} sv_params;

/* Default values of sampling parameters, for fields that a request does not have. */
typedef struct sv_defaults {
  bool is_given; /* false: the defaults of OpenAI's API are used instead */
  bool is_own;   /* the values are from the model's own files */
  float temperature, top_p, min_p, repetition_penalty;
  float presence_penalty, frequency_penalty;
  int32_t top_k;        /* 0 = all tokens */
  int32_t penalty_last; /* number of last tokens that default penalties count; -1 = all tokens */
  int64_t seed;         /* seed of the random numbers; -1 = the server chooses one for each request */
  int64_t max_tokens;   /* length of an answer; 0 = the default of the request's form */
} sv_defaults;

/* Sets the fields of *p that the body does not have under a name of OpenAI, vLLM or llama-server. A greedy request gets
 * no default penalty. */
void sv_apply_defaults(const json_t *body, const sv_defaults *defaults, sv_params *p);

/* Reads the parameters from a request's body, which must outlive *out. vocab: token ids must be below it. The caller
 * frees *out with sv_params_free, also after a failure. */
bool sv_params_read(const json_t *body, int64_t vocab, sv_params *out, sv_fail *fail);
/* Checks that min_tokens is at most max_tokens, if the request has max_tokens. */
bool sv_check_min_tokens(const sv_params *p, sv_fail *fail);
void sv_params_free(sv_params *p);

#endif
