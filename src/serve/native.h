/* llama-server's own interface: POST /completion and /apply-template, GET /props and /slots; its /tokenize. */
#ifndef GA_SERVE_NATIVE_H
#define GA_SERVE_NATIVE_H

#include "serve/answer.h"
#include "serve/http.h"

/* Writes the whole answer: an object, or an array for several prompts or choices. */
void sv_native_put_answer(sv_text *t, const sv_answer *a);
/* Writes the events for new text of all choices, and removes that text from them. */
void sv_native_put_events(sv_text *t, const sv_answer *a);
/* Writes generation_settings of a request. */
void sv_native_put_settings(sv_text *t, const sv_params *p);

/* Answers /tokenize with a `content`: {"tokens": [id, ...]}, or [{"id","piece"}, ...] if with_pieces is true. */
bool sv_native_tokenize(const sv_server *s, const json_t *body, sv_text *out, sv_fail *fail);

enum MHD_Result sv_run_native_completion(sv_call *call);
enum MHD_Result sv_run_infill(sv_call *call);
enum MHD_Result sv_run_apply_template(sv_call *call);
enum MHD_Result sv_run_props(sv_call *call);
enum MHD_Result sv_run_slots(sv_call *call);

#endif
