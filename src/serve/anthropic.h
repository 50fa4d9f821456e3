/* The Messages API of Anthropic: its requests are translated to chat requests, answers have its form. */
#ifndef GA_SERVE_ANTHROPIC_H
#define GA_SERVE_ANTHROPIC_H

#include "serve/answer.h"

/* Translates a request to a body for sv_request_chat, which *out gets. Takes over `body`. counts: the request only
 * counts tokens, so max_tokens may be missing. */
bool sv_ant_translate(json_t *body, bool counts, json_t **out, sv_fail *fail);

/* Writes the whole message. The choice must have ended without an error. */
void sv_ant_put_message(sv_text *t, const sv_answer *a);
/* Writes the events for new text and removes it from the choice; writes the last events once the choice has ended. */
void sv_ant_put_events(sv_text *t, sv_answer *a);
void sv_ant_put_ping(sv_text *t, const sv_answer *a);
void sv_ant_put_fail(sv_text *t, const sv_fail *f);

#endif
