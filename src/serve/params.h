/* Parameters that completions and chat completions share: sampling, stops, and contents of the answer. */
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
  int64_t logprobs;        /* number of alternatives for each token; -1 = no log-probabilities */
  int64_t prompt_logprobs; /* the same for the prompt, in the form of vLLM */
  bool stream, include_usage, ignore_eos, skip_special, add_special, parse_special, include_stop;
  int32_t penalty_last; /* number of last tokens that penalties count, -1 = all */
  /* Fields of llama-server's requests alone. return_ids: tokens are kept without log-probabilities, too. */
  bool return_ids, timings_per_token, no_cache;
  int64_t n_indent;           /* a later line with fewer leading blanks ends the answer; 0 = off */
  double predict_seconds;     /* time limit, counted from the first token; the first line is not cut; <= 0: none */
  ga_text stop[SV_MAX_STOPS]; /* texts of the body */
  size_t n_stop;
  int32_t *stop_ids; /* malloc'd */
  int32_t n_stop_ids;
  ga_logit_bias *bias; /* malloc'd */
  int32_t n_bias;
  const char *cache_salt; /* of the body; NULL = none */
  double cache_ttl;       /* seconds; 0 = no later request uses the prefix; -1 = not given */
} sv_params;

/* Reads the parameters of a body, which must outlive *out. vocab: bound of token ids. The caller frees *out also after
 * a failure. */
bool sv_params_read(const json_t *body, int64_t vocab, sv_params *out, sv_fail *fail);
/* Checks min_tokens against max_tokens, once its default is filled in. */
bool sv_check_min_tokens(const sv_params *p, sv_fail *fail);
void sv_params_free(sv_params *p);

#endif
