/* The body of llama-server's /completion. Nothing here looks at a model: the caller says how texts become ids. */
#ifndef GA_SERVE_NATIVE_REQUEST_H
#define GA_SERVE_NATIVE_REQUEST_H

#include "serve/request.h"

enum {
  SV_PENALTY_LAST = 64,    /* tokens that penalties look back on, unless the request says otherwise */
  SV_MAX_BIAS_BYTES = 1024 /* of a text that gets a bias */
};

typedef struct sv_encoder {
  /* flags: of ga_tokenize. *ids is malloc'd, and the caller's when this is true. */
  bool (*encode)(const void *user, const char *text, size_t bytes, uint32_t flags, int32_t **ids, size_t *n,
                 sv_fail *fail);
  const void *user;
  size_t most; /* tokens of a prompt of texts and ids */
} sv_encoder;

/* Takes over `body`, also when it fails, and writes into it; *out is to be freed either way. */
bool sv_request_native(const sv_encoder *encoder, json_t *body, int64_t vocab, sv_request *out, sv_fail *fail);
/* The body of /infill, in the same way. */
bool sv_request_infill(const sv_encoder *encoder, json_t *body, int64_t vocab, sv_request *out, sv_fail *fail);
/* How tokens are drawn where a request says nothing: as llama-server does it, not as OpenAI. */
void sv_native_defaults(ga_sample_desc *sample);

#endif
