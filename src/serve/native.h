/* The HTTP interface of llama-server: POST /completion, /infill, /apply-template and /tokenize, GET /props and
 * /slots. */
#ifndef GA_SERVE_NATIVE_H
#define GA_SERVE_NATIVE_H

#include "serve/answer.h"
#include "serve/http.h"

/* Writes the whole answer as JSON: one object, or an array of objects for several prompts or choices. */
void sv_native_put_answer(sv_text *t, sv_answer *a);
/* Writes the events for the new text of all choices, and removes that text from them. */
void sv_native_put_events(sv_text *t, sv_answer *a);
/* Writes the object generation_settings: the parameters of a request. */
void sv_native_put_settings(sv_text *t, const sv_params *p);

/* Writes the answer to POST /tokenize for a body with `content`: {"tokens": [id, ...]}, or [{"id","piece"}, ...] if
 * with_pieces in the body is true. */
bool sv_native_tokenize(const sv_server *s, const json_t *body, sv_text *out, sv_fail *fail);

enum MHD_Result sv_run_apply_template(sv_call *call);
enum MHD_Result sv_run_props(sv_call *call);
enum MHD_Result sv_run_slots(sv_call *call);

#endif
