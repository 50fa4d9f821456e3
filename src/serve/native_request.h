/* Reads bodies of llama-server's /completion and /infill. Nothing here uses a model: the caller passes an encoder of
 * texts. */
#ifndef GA_SERVE_NATIVE_REQUEST_H
#define GA_SERVE_NATIVE_REQUEST_H

#include "serve/request.h"

enum {
  SV_PENALTY_LAST = 64,    /* default number of last tokens that penalties count */
  SV_MAX_BIAS_BYTES = 1024 /* the most bytes of a text with a bias */
};

typedef struct sv_encoder {
  /* Tokenizes a text. flags: as for ga_tokenize. If it returns true, *ids is malloc'd and owned by the caller. */
  bool (*encode)(const void *user, const char *text, size_t bytes, uint32_t flags, int32_t **ids, size_t *n,
                 sv_fail *fail);
  const void *user;
  size_t most; /* the most tokens of a prompt of texts and ids */
} sv_encoder;

/* Reads a body of /completion, modifies it and takes it over, also after a failure. The caller frees *out in either
 * case. */
bool sv_request_native(const sv_encoder *encoder, json_t *body, int64_t vocab, sv_request *out, sv_fail *fail);
/* Reads a body of /infill, with the same ownership. */
bool sv_request_infill(const sv_encoder *encoder, json_t *body, int64_t vocab, sv_request *out, sv_fail *fail);
/* Sets the defaults of sampling: llama-server's, not OpenAI's. */
void sv_native_defaults(ga_sample_desc *sample);

#endif
