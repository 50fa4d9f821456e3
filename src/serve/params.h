/* Parameters that completions and chat completions share: sampling, stops, and contents of the answer. */
#ifndef GA_SERVE_PARAMS_H
#define GA_SERVE_PARAMS_H

#include "ga/engine.h"
#include "serve/fields.h"

enum {
  SV_MAX_N = 128,
  SV_MAX_STOPS = 16,
  SV_MAX_STOP_BYTES = 1024, /* the most bytes of one stop string */
  SV_MAX_STOP_IDS = 256,
  SV_MAX_BIAS = 4096,
  SV_MAX_TTL = 86400, /* the most seconds of cache_ttl */
  SV_MAX_INDENT = 65536,
  SV_NO_LIMIT = -1 /* value of max_tokens if it was not given, or given as -1 */
};

typedef struct sv_params {
  ga_sample_desc sample;
  int64_t seed; /* -1 = chosen at random */
  int64_t n, max_tokens, min_tokens, priority;
  bool has_max_tokens;     /* the request has max_tokens, -1 included */
  int64_t logprobs;        /* number of alternatives for each token; -1 = no log-probabilities */
  int64_t prompt_logprobs; /* number of alternatives for each token of the prompt, in the form of vLLM; -1 = none */
  bool stream, include_usage, ignore_eos, skip_special, add_special, parse_special, include_stop;
  int32_t penalty_last; /* number of last tokens that penalties count; -1 = all */
  /* Fields that only requests of llama-server have. return_ids: tokens are kept even without log-probabilities. */
  bool return_ids, timings_per_token, no_cache;
  int64_t n_indent; /* the answer ends at a later line with fewer leading blanks; 0 = off */
  /* seconds from the first token to the end of the answer at most; the first line is never cut. <= 0: no limit */
  double predict_seconds;
  ga_text stop[SV_MAX_STOPS]; /* [n_stop] texts owned by the body */
  size_t n_stop;
  int32_t *stop_ids; /* [n_stop_ids] malloc'd */
  int32_t n_stop_ids;
  ga_logit_bias *bias; /* [n_bias] malloc'd */
  int32_t n_bias;
  const char *cache_salt; /* text owned by the body; NULL = none */
  /* seconds for which the prefix is kept in the cache; 0 = no later request uses it; -1 = not given */
  double cache_ttl;
} sv_params;

/* Reads the parameters of a body, which must outlive *out. vocab: bound of token ids. The caller frees *out also after
 * a failure. */
bool sv_params_read(const json_t *body, int64_t vocab, sv_params *out, sv_fail *fail);
/* Checks that min_tokens is at most max_tokens, whose default is filled in. */
bool sv_check_min_tokens(const sv_params *p, sv_fail *fail);
void sv_params_free(sv_params *p);

#endif
