/* What completions and chat completions have in common: how tokens are drawn, when to stop, what to tell. */
#ifndef GA_SERVE_PARAMS_H
#define GA_SERVE_PARAMS_H

#include "ga/engine.h"
#include "serve/fields.h"

enum {
  SV_MAX_N = 128,
  SV_MAX_STOPS = 16,
  SV_MAX_STOP_BYTES = 1024, /* of one stop string */
  SV_MAX_STOP_IDS = 256,
  SV_MAX_BIAS = 4096,
  SV_MAX_TTL = 86400, /* seconds */
  SV_MAX_INDENT = 65536,
  SV_NO_LIMIT = -1 /* max_tokens was not given */
};

typedef struct sv_params {
  ga_sample_desc sample;
  int64_t seed; /* -1 = any */
  int64_t n, max_tokens, min_tokens, priority;
  int64_t logprobs;        /* how many alternatives a token; -1 = no log-probabilities */
  int64_t prompt_logprobs; /* the same for the prompt, in the form of vLLM */
  bool stream, include_usage, ignore_eos, skip_special, add_special, parse_special, include_stop;
  int32_t penalty_last; /* tokens that penalties look back on, -1 = all */
  /* Of llama-server's requests alone. return_ids: tokens are kept without log-probabilities, too. */
  bool return_ids, timings_per_token, no_cache;
  int64_t n_indent;           /* a line behind the first with fewer blanks in front ends the answer; 0 = none does */
  double predict_seconds;     /* from the first token on, once there is a line end; 0 or less = any */
  ga_text stop[SV_MAX_STOPS]; /* texts of the body */
  size_t n_stop;
  int32_t *stop_ids; /* malloc'd */
  int32_t n_stop_ids;
  ga_logit_bias *bias; /* malloc'd */
  int32_t n_bias;
  const char *cache_salt; /* of the body; NULL = none */
  double cache_ttl;       /* seconds; 0 = nobody will come back; -1 = not given */
} sv_params;

/* vocab: token ids must be below it. *out is to be freed also after a failure. The body must live as long. */
bool sv_params_read(const json_t *body, int64_t vocab, sv_params *out, sv_fail *fail);
/* Behind the default of max_tokens. */
bool sv_check_min_tokens(const sv_params *p, sv_fail *fail);
void sv_params_free(sv_params *p);

#endif
