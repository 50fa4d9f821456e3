/* llama.cpp's own interface: POST /completion, /apply-template, GET /props, /slots. */
#ifndef GA_SERVE_NATIVE_H
#define GA_SERVE_NATIVE_H

#include "serve/answer.h"
#include "serve/http.h"

/* Turns a body of /completion into one of /v1/completions, in place. Takes `body` over; *out is it, or NULL. */
bool sv_native_translate(const sv_server *s, json_t *body, json_t **out, sv_fail *fail);
/* What /v1/completions has no field for: no limit of tokens, more alternatives. Behind sv_request_completion. */
bool sv_native_params(sv_request *r, sv_fail *fail);

/* The whole answer: an object, an array where there are several prompts or choices. */
void sv_native_put_answer(sv_text *t, const sv_answer *a);
/* The events for what is new in all choices, which is taken from them. */
void sv_native_put_events(sv_text *t, const sv_answer *a);
/* generation_settings of a request. */
void sv_native_put_settings(sv_text *t, const sv_params *p);

enum MHD_Result sv_run_native_completion(sv_call *call);
enum MHD_Result sv_run_apply_template(sv_call *call);
enum MHD_Result sv_run_props(sv_call *call);
enum MHD_Result sv_run_slots(sv_call *call);

#endif
