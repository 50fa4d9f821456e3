/* Reads bodies of llama-server's requests /completion and /infill. The functions need no model: the caller passes an
 * encoder of texts. */
#ifndef GA_SERVE_NATIVE_REQUEST_H
#define GA_SERVE_NATIVE_REQUEST_H

#include "serve/request.h"

enum {
  SV_PENALTY_LAST = 64,    /* default number of last tokens that repetition penalties count */
  SV_MAX_BIAS_BYTES = 1024 /* largest number of bytes of a text in logit_bias */
};

typedef struct sv_encoder {
  /* Tokenizes a text. flags: as for ga_tokenize. Returns false after a failure, with the reason in *fail. After success
   * the caller frees *ids with free. */
  bool (*encode)(const void *user, const char *text, size_t bytes, uint32_t flags, int32_t **ids, size_t *n,
                 sv_fail *fail);
  const void *user;
  size_t most; /* largest number of tokens in a prompt that is an array of texts and ids */
} sv_encoder;

/* Reads a body of /completion into *out. Modifies the body and takes it over, also after a failure. vocab: token ids
 * must be below it. The caller frees *out in either case. */
bool sv_request_native(const sv_encoder *encoder, json_t *body, int64_t vocab, sv_request *out, sv_fail *fail);
/* Reads a body of /infill into *out, with the same parameters and ownership as sv_request_native. */
bool sv_request_infill(const sv_encoder *encoder, json_t *body, int64_t vocab, sv_request *out, sv_fail *fail);
/* Sets the sampling parameters to llama-server's defaults, which differ from OpenAI's. */
void sv_native_defaults(ga_sample_desc *sample);

#endif
