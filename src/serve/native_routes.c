/* Routes of llama.cpp's server that tell what is there. */
#include "serve/native.h"
#include "serve/prompts.h"

enum MHD_Result sv_run_apply_template(sv_call *call) {
  const sv_server *s = call->server;
  sv_request r = {0};
  sv_text t = {0}, text = {0};
  json_t *body = sv_is_ready(call->server, &call->fail) ? sv_call_json(call) : NULL;
  const bool ok =
      body && sv_request_chat(body, s->vocab, &r, &call->fail) && sv_render_chat(s, &r, &text, &call->fail);
  if (ok) {
    sv_puts(&t, "{\"prompt\":");
    sv_put_json(&t, text.p, text.n);
    sv_puts(&t, "}");
  }
  sv_text_free(&text);
  sv_request_free(&r);
  return ok ? sv_reply_json(call, &t) : sv_reply_fail(call);
}

static bool sv_native_stats(sv_call *call, ga_engine_stats *out) {
  *out = (ga_engine_stats)GA_ENGINE_STATS_INIT;
  if (!sv_is_ready(call->server, &call->fail)) return false;
  if (!call->server->engine || ga_engine_get_stats(call->server->engine, out) == GA_OK) return true;
  return sv_refuse(&call->fail, 500, NULL, NULL, "%s", ga_error_text());
}

/* No path of the model: it is nobody's business. */
enum MHD_Result sv_run_props(sv_call *call) {
  const sv_params none = {.sample = GA_SAMPLE_DESC_INIT, .seed = -1, .max_tokens = SV_NO_LIMIT, .logprobs = -1};
  sv_params p = none;
  ga_engine_stats stats;
  sv_text t = {0};
  p.sample.temperature = 1.0f;
  if (!sv_native_stats(call, &stats)) return sv_reply_fail(call);
  sv_putf(&t, "{\"default_generation_settings\":{\"n_ctx\":%d,\"params\":", call->server->context);
  sv_native_put_settings(&t, &p);
  sv_putf(&t, "},\"total_slots\":%d,\"model_alias\":", stats.max_sequences);
  sv_puts_json(&t, call->server->o.model_id);
  sv_puts(&t, ",\"modalities\":{\"vision\":false,\"audio\":false},\"build_info\":");
  sv_puts_json(&t, ga_version());
  sv_puts(&t, "}");
  return sv_reply_json(call, &t);
}

/* Sequences have no slots here: as many entries as may run at once, the first ones busy. */
enum MHD_Result sv_run_slots(sv_call *call) {
  ga_engine_stats stats;
  sv_text t = {0};
  if (!sv_native_stats(call, &stats)) return sv_reply_fail(call);
  sv_puts(&t, "[");
  for (int32_t i = 0; i < stats.max_sequences; i++)
    sv_putf(&t, "%s{\"id\":%d,\"n_ctx\":%d,\"is_processing\":%s}", i ? "," : "", i, call->server->context,
            i < stats.running ? "true" : "false");
  sv_puts(&t, "]");
  return sv_reply_json(call, &t);
}
