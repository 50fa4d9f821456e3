/* Turns texts and messages into the ids of a prompt, through the model's tokenizer and template. */
#ifndef GA_SERVE_PROMPTS_H
#define GA_SERVE_PROMPTS_H

#include "serve/request.h"
#include "serve/state.h"

typedef struct sv_ids {
  int32_t *p; /* malloc'd */
  size_t n;
} sv_ids;

/* Tokenizes a text. flags: as for ga_tokenize. A text that cannot fit into the context is refused before any work. */
bool sv_encode_text(const sv_server *s, const char *text, size_t bytes, uint32_t flags, sv_ids *out, sv_fail *fail);
/* Encodes the chat of r->context. */
bool sv_encode_chat(const sv_server *s, const sv_request *r, sv_ids *out, sv_fail *fail);
/* Renders the chat of r->context as text. */
bool sv_render_chat(const sv_server *s, const sv_request *r, sv_text *out, sv_fail *fail);
/* Encodes one prompt of a completion. Ids of the request are taken over; a text is tokenized. */
bool sv_encode_prompt(const sv_server *s, sv_prompt *prompt, const sv_params *p, sv_ids *out, sv_fail *fail);
/* Encodes a prompt and r->suffix with the model's fill-in-the-middle tokens: the answer fills the gap between them. */
bool sv_encode_gap(const sv_server *s, sv_prompt *prompt, const sv_request *r, sv_ids *out, sv_fail *fail);
/* Adds the tokens that end a file to stop_ids: they also end the text that fills a gap. */
bool sv_add_gap_stops(const sv_server *s, sv_params *p, sv_fail *fail);
/* Writes the text of ids. */
bool sv_decode_ids(const sv_server *s, const int32_t *ids, size_t n, uint32_t flags, sv_text *out, sv_fail *fail);
/* Checks that n tokens and the answer fit into the context. what: name of the field that has the tokens. */
bool sv_fits_context(const sv_server *s, size_t n, int64_t max_tokens, const char *what, sv_fail *fail);

#endif
