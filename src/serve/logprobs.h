/* Writes log-probabilities as JSON, in the forms of OpenAI, llama.cpp and vLLM. */
#ifndef GA_SERVE_LOGPROBS_H
#define GA_SERVE_LOGPROBS_H

#include "serve/choice.h"

/* Writes the new tokens' log-probabilities in the form of OpenAI's Completions API:
 * {"tokens","token_logprobs","top_logprobs","text_offset"}. with_prompt: the prompt's tokens come first. */
void sv_put_completion_logprobs(sv_text *t, const sv_choice *c, bool with_prompt);
/* Writes the new tokens' log-probabilities as entries of the array "content" of OpenAI's Chat API, without its
 * brackets. */
void sv_put_chat_tokens(sv_text *t, const sv_choice *c);
/* Writes the new tokens' log-probabilities in the form of OpenAI's Chat API:
 * {"content":[{"token","logprob","bytes","top_logprobs"}]}. */
void sv_put_chat_logprobs(sv_text *t, const sv_choice *c);
/* Writes the new tokens' log-probabilities in the form of llama.cpp's completion_probabilities:
 * [{"id","token","logprob","bytes","top_logprobs"}]. */
void sv_put_native_logprobs(sv_text *t, const sv_choice *c);
/* Writes the prompt's log-probabilities in the form of vLLM's prompt_logprobs: [null, {"id":
 * {"logprob","rank","decoded_token"}}, ...]. */
void sv_put_prompt_logprobs(sv_text *t, const sv_choice *c);

#endif
