/* The Messages API of Anthropic: requests become requests for chats, answers have its form. */
#ifndef GA_SERVE_ANTHROPIC_H
#define GA_SERVE_ANTHROPIC_H

#include "serve/answer.h"

/* Takes over `body`; *out is a new body for sv_request_chat. counts: only tokens are to be counted, so max_tokens may
 * be missing. */
bool sv_ant_translate(json_t *body, bool counts, json_t **out, sv_fail *fail);

/* The whole message; the choice has ended without an error. */
void sv_ant_put_message(sv_text *t, const sv_answer *a);
/* The events for what is new, which is taken from the choice; the last ones once it has ended. */
void sv_ant_put_events(sv_text *t, sv_answer *a);
void sv_ant_put_ping(sv_text *t, const sv_answer *a);
void sv_ant_put_fail(sv_text *t, const sv_fail *f);

#endif
