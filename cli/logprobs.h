/* Log-probabilities of the tokens of an answer. */
#ifndef GA_CLI_LOGPROBS_H
#define GA_CLI_LOGPROBS_H

#include <jansson.h>

#include "ga/llm.h"

enum { LOGPROBS_MOST = 20 };

/* Makes [{"id", "text", "logprob", "top": [{"id", "text", "logprob"}]}] of ids[0..n). They follow the session's first
 * `before` tokens; `before` is at least 1, and `last` is the last of these tokens. The ids are evaluated once more, as
 * a prompt, and are in the session afterwards. Natural logarithms under the plain softmax, whatever the sampling was.
 * *out: new. */
ga_status logprobs_json(ga_session *session, const ga_model *model, int32_t before, int32_t last, const int32_t *ids,
                        int32_t n, int32_t n_top, json_t **out);

#endif
