/* The Messages API of Anthropic. Its requests are translated to chat requests of OpenAI's API; its answers have
 * Anthropic's form. */
#ifndef GA_SERVE_ANTHROPIC_H
#define GA_SERVE_ANTHROPIC_H

#include "serve/answer.h"

/* Translates the body of a Messages request to a body for sv_request_chat, in *out. Takes over `body`. counts: the
 * request only counts tokens, so that max_tokens may be missing. Returns false after a failure, with the reason in
 * *fail. */
bool sv_ant_translate(json_t *body, bool counts, json_t **out, sv_fail *fail);

/* Writes the whole answer as one message. The answer's choice must have ended without an error. */
void sv_ant_put_message(sv_text *t, sv_answer *a);
/* Writes the events of a streamed message for new text, and removes that text from the choice. Once the choice has
 * ended, writes the last events. */
void sv_ant_put_events(sv_text *t, sv_answer *a);
void sv_ant_put_ping(sv_text *t, const sv_answer *a);
void sv_ant_put_fail(sv_text *t, const sv_fail *f);

#endif
