/* llama-server's /infill: the gap between two texts, as editors ask for it. The rest is as in /completion. */
#include <string.h>

#include "serve/native_request.h"

static bool sv_read_gap_text(const json_t *body, const char *key, bool required, ga_text *out, sv_fail *fail) {
  const json_t *v = sv_field(body, key);
  *out = (ga_text){"", 0};
  if (!v && !required) return true;
  if (!v) return sv_refuse(fail, 400, "missing_required_parameter", key, "%s is missing.", key);
  if (!json_is_string(v)) return sv_refuse_value(fail, key, v, "a string");
  *out = (ga_text){json_string_value(v), json_string_length(v)};
  return true;
}

static bool sv_check_extra(const json_t *body, const json_t **out, sv_fail *fail) {
  static const char like[] = "an array of objects with a text and perhaps a filename, which are strings";
  const json_t *v = sv_field(body, "input_extra"), *one;
  size_t i;
  *out = v;
  if (v && !json_is_array(v)) return sv_refuse_value(fail, "input_extra", v, like);
  json_array_foreach(v, i, one) {
    const json_t *name = sv_field(one, "filename");
    if (!json_is_string(sv_field(one, "text")) || (name && !json_is_string(name)))
      return sv_refuse_value(fail, "input_extra", one, like);
  }
  return true;
}

static bool sv_names(const json_t *list, const char *name) {
  const json_t *one;
  size_t i;
  json_array_foreach(list, i, one) {
    if (!strcmp(json_string_value(one), name)) return true;
  }
  return false;
}

/* Samplers that are not in the list are off. Ours have one order, and those that are not ours are passed over: editors
 * ask for "infill" always. */
static bool sv_apply_samplers(const json_t *list, sv_params *p, sv_fail *fail) {
  ga_sample_desc *s = &p->sample;
  const json_t *one;
  size_t i;
  if (!list || !json_array_size(list))
    return !list || json_is_array(list) || sv_refuse_value(fail, "samplers", list, "an array of names");
  json_array_foreach(list, i, one) {
    if (!json_is_string(one)) return sv_refuse_value(fail, "samplers", one, "an array of names");
  }
  if (!sv_names(list, "temperature")) s->temperature = 1.0f;
  if (!sv_names(list, "top_k")) s->top_k = 0;
  if (!sv_names(list, "top_p")) s->top_p = 1.0f;
  if (!sv_names(list, "min_p")) s->min_p = 0.0f;
  if (!sv_names(list, "typ_p") && !sv_names(list, "typical_p")) s->typical_p = 1.0f;
  if (!sv_names(list, "penalties")) {
    s->repetition_penalty = 1.0f;
    s->presence_penalty = s->frequency_penalty = 0.0f;
  }
  return true;
}

bool sv_request_infill(const sv_encoder *encoder, json_t *body, int64_t vocab, sv_request *out, sv_fail *fail) {
  ga_text prefix, suffix, line;
  const json_t *extra;
  *out = (sv_request){.body = body};
  if (!sv_read_gap_text(body, "input_prefix", true, &prefix, fail) ||
      !sv_read_gap_text(body, "input_suffix", true, &suffix, fail) ||
      !sv_read_gap_text(body, "prompt", false, &line, fail) || !sv_check_extra(body, &extra, fail))
    return false;
  /* What /completion calls the prompt stands before the gap; the body keeps all texts alive. */
  json_t *samplers = json_incref(json_object_get(body, "samplers"));
  (void)json_object_del(body, "samplers");
  const bool kept = !line.bytes || !json_object_set(body, "infill prompt", json_object_get(body, "prompt"));
  bool ok = (kept && !json_object_set(body, "prompt", json_object_get(body, "input_prefix"))) || sv_refuse_nomem(fail);
  ok = ok && sv_request_native(encoder, body, vocab, out, fail) &&
       (json_is_null(samplers) || sv_apply_samplers(samplers, &out->p, fail));
  json_decref(samplers);
  out->has_gap = out->fits_gap = true;
  out->suffix = suffix, out->line = line, out->extra = extra;
  return ok;
}
