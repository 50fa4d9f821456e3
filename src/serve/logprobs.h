/* Log-probabilities as JSON, in the forms of OpenAI, llama.cpp and vLLM. */
#ifndef GA_SERVE_LOGPROBS_H
#define GA_SERVE_LOGPROBS_H

#include "serve/choice.h"

/* Writes Completions' {"tokens","token_logprobs","top_logprobs","text_offset"}. with_prompt: first for the prompt's
 * tokens; then for the new tokens. */
void sv_put_completion_logprobs(sv_text *t, const sv_choice *c, bool with_prompt);
/* Writes Chat's {"content":[{"token","logprob","bytes","top_logprobs"}]}. */
void sv_put_chat_logprobs(sv_text *t, const sv_choice *c);
/* Writes llama.cpp's completion_probabilities: [{"id","token","logprob","bytes","top_logprobs"}]. */
void sv_put_native_logprobs(sv_text *t, const sv_choice *c);
/* Writes vLLM's prompt_logprobs: [null, {"id": {"logprob","rank","decoded_token"}}, ...]. */
void sv_put_prompt_logprobs(sv_text *t, const sv_choice *c);

#endif
