/* Log-probabilities of the tokens of an answer, for `ga run`. */
#ifndef GA_CLI_LOGPROBS_H
#define GA_CLI_LOGPROBS_H

#include <jansson.h>

#include "ga/llm.h"

enum { LOGPROBS_MOST = 20 }; /* largest number of alternatives for each token */

/* Sets *out to the log-probabilities of ids[0..n): [{"id", "text", "logprob", "top": [{"id", "text", "logprob"}]}]. The
 * ids follow the session's first `before` tokens, at least 1, the last of which is `last`. The ids are evaluated once
 * more, as a prompt, and are in the session afterwards. Log-probabilities are natural logarithms under the plain
 * softmax, whatever the sampling was. */
ga_status logprobs_json(ga_session *session, const ga_model *model, int32_t before, int32_t last, const int32_t *ids,
                        int32_t n, int32_t n_top, json_t **out);

#endif
