/* Turns texts and chats into the token ids of prompts, with the model's tokenizer and chat template. */
#ifndef GA_SERVE_PROMPTS_H
#define GA_SERVE_PROMPTS_H

#include "serve/request.h"
#include "serve/state.h"

typedef struct sv_ids {
  int32_t *p; /* [n] token ids, allocated with malloc */
  size_t n;
} sv_ids;

/* Tokenizes a text. flags: as for ga_tokenize. A text that is too long for the model's context is refused before it is
 * tokenized. */
bool sv_encode_text(const sv_server *s, const char *text, size_t bytes, uint32_t flags, sv_ids *out, sv_fail *fail);
/* Renders the chat in r->context with the chat template, and tokenizes the result. */
bool sv_encode_chat(const sv_server *s, const sv_request *r, sv_ids *out, sv_fail *fail);
/* Renders the chat in r->context with the chat template, as text. */
bool sv_render_chat(const sv_server *s, const sv_request *r, sv_text *out, sv_fail *fail);
/* Turns one prompt of a completion into token ids. A prompt that consists of ids is taken over; a text is tokenized. */
bool sv_encode_prompt(const sv_server *s, sv_prompt *prompt, const sv_params *p, sv_ids *out, sv_fail *fail);
/* Builds a fill-in-the-middle prompt with the model's special tokens. `prompt` is the text before the gap, r->suffix
 * the text after it; the answer fills the gap. */
bool sv_encode_gap(const sv_server *s, sv_prompt *prompt, const sv_request *r, sv_ids *out, sv_fail *fail);
/* Adds the fill-in-the-middle tokens that separate files to p->stop_ids, because they also end the text that fills a
 * gap. */
bool sv_add_gap_stops(const sv_server *s, sv_params *p, sv_fail *fail);
/* Writes the text of n token ids. flags: as for ga_detokenize. */
bool sv_decode_ids(const sv_server *s, const int32_t *ids, size_t n, uint32_t flags, sv_text *out, sv_fail *fail);
/* Checks that a prompt of n tokens and an answer of max_tokens tokens fit into the model's context. what: name of the
 * prompt's field, for the error text. */
bool sv_fits_context(const sv_server *s, size_t n, int64_t max_tokens, const char *what, sv_fail *fail);

#endif
