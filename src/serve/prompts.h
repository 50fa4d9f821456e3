/* From texts and messages to the ids of a prompt, through the model's tokenizer and template. */
#ifndef GA_SERVE_PROMPTS_H
#define GA_SERVE_PROMPTS_H

#include "serve/request.h"
#include "serve/state.h"

typedef struct sv_ids {
  int32_t *p; /* malloc'd */
  size_t n;
} sv_ids;

/* flags: of ga_tokenize. Refuses, before any work, text that cannot fit into the context. */
bool sv_encode_text(const sv_server *s, const char *text, size_t bytes, uint32_t flags, sv_ids *out, sv_fail *fail);
/* The chat of r->context. */
bool sv_encode_chat(const sv_server *s, const sv_request *r, sv_ids *out, sv_fail *fail);
/* Its text. */
bool sv_render_chat(const sv_server *s, const sv_request *r, sv_text *out, sv_fail *fail);
/* One prompt of a completion: its ids are taken, or made of its text. */
bool sv_encode_prompt(const sv_server *s, sv_prompt *prompt, const sv_params *p, sv_ids *out, sv_fail *fail);
/* The same where the answer fills the gap between a prompt and r->suffix, by the model's tokens for that. */
bool sv_encode_gap(const sv_server *s, sv_prompt *prompt, const sv_request *r, sv_ids *out, sv_fail *fail);
/* What fills a gap ends with tokens that end a file, too: they join stop_ids. */
bool sv_add_gap_stops(const sv_server *s, sv_params *p, sv_fail *fail);
/* Text of ids. */
bool sv_decode_ids(const sv_server *s, const int32_t *ids, size_t n, uint32_t flags, sv_text *out, sv_fail *fail);
/* Is there room for n tokens and the answer? what: the field they come from. */
bool sv_fits_context(const sv_server *s, size_t n, int64_t max_tokens, const char *what, sv_fail *fail);

#endif
