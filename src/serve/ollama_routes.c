/* Routes under /api/, and the forms of chats and completions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "serve/embed.h"
#include "serve/facts.h"
#include "serve/job.h"
#include "serve/models.h"
#include "serve/ollama.h"

/* The version of Ollama whose interface this is; clients compare it with what they need. */
#define SV_OLLAMA_VERSION "0.13.0"

/* --- chats and completions --- */

static sv_ollama *sv_new_ollama(sv_job *job, json_t *body, sv_fail *fail) {
  sv_ollama *state = calloc(1, sizeof *state);
  if (!state) {
    json_decref(body);
    (void)sv_refuse_nomem(fail);
    return NULL;
  }
  job->answer.state = state;
  job->answer.state_free = free;
  return state;
}

/* Reads a translated body. options: of the original one. */
static bool sv_read_translated(sv_job *job, json_t *body, bool is_chat, const json_t *options, sv_fail *fail) {
  const sv_ollama *state = job->answer.state;
  sv_request *r = &job->request;
  if (state->only_loads) {
    *r = (sv_request){.body = body};
    return sv_read_string(body, "model", &r->model, fail) && sv_params_read(body, job->server->vocab, &r->p, fail);
  }
  const bool ok = (is_chat ? sv_request_chat : sv_request_completion)(body, job->server->vocab, r, fail);
  r->clips_length = true;
  return ok && sv_ollama_finish(options, state, &job->server->o.profile.defaults, &r->p, fail);
}

static bool sv_read_ollama_chat(sv_job *job, json_t *body, sv_fail *fail) {
  sv_ollama *state = sv_new_ollama(job, body, fail);
  if (!state) return false;
  json_t *options = json_incref(json_object_get(body, "options"));
  const bool ok = sv_ollama_chat(body, state, &body, fail) && sv_read_translated(job, body, true, options, fail);
  json_decref(options);
  return ok;
}

static bool sv_read_ollama_generate(sv_job *job, json_t *body, sv_fail *fail) {
  sv_ollama *state = sv_new_ollama(job, body, fail);
  bool is_chat = false;
  if (!state) return false;
  json_t *options = json_incref(json_object_get(body, "options"));
  const bool ok =
      sv_ollama_generate(body, sv_chat_template(job->server, false) != NULL, state, &is_chat, &body, fail) &&
      sv_read_translated(job, body, is_chat, options, fail);
  json_decref(options);
  return ok;
}

static void sv_put_ollama_error(sv_text *t, sv_answer *a, const sv_fail *fail) {
  (void)a;
  sv_ollama_put_fail(t, fail);
  sv_puts(t, "\n");
}

const sv_form sv_form_ollama_chat = {.id_prefix = "chat-",
                                     .stream_type = "application/x-ndjson",
                                     .read = sv_read_ollama_chat,
                                     .put_whole = sv_ollama_put_whole,
                                     .put_news = sv_ollama_put_lines,
                                     .put_error = sv_put_ollama_error};
const sv_form sv_form_ollama_generate = {.id_prefix = "gen-",
                                         .stream_type = "application/x-ndjson",
                                         .read = sv_read_ollama_generate,
                                         .put_whole = sv_ollama_put_whole,
                                         .put_news = sv_ollama_put_lines,
                                         .put_error = sv_put_ollama_error};

/* --- models --- */

/* Writes the members that lists of models share, without braces. */
static void sv_put_ollama_model(sv_text *t, const sv_offer *offer) {
  sv_puts(t, "\"name\":");
  sv_puts_json(t, offer->id);
  sv_puts(t, ",\"model\":");
  sv_puts_json(t, offer->id);
  sv_putf(t, ",\"size\":%llu,\"digest\":", (unsigned long long)offer->facts->bytes);
  sv_puts_json(t, offer->facts->digest);
  sv_puts(t, ",\"details\":");
  sv_put_details(t, offer->facts);
}

enum MHD_Result sv_run_ollama_tags(sv_call *call) {
  sv_text t = {0};
  if (!sv_is_ready(call->host, &call->fail)) return sv_reply_fail(call);
  sv_puts(&t, "{\"models\":[");
  for (size_t i = 0; i < sv_count_models(call->host); i++) {
    sv_offer offer;
    sv_describe_model(call->host, i, &offer);
    const struct timespec modified = {.tv_sec = offer.facts->modified};
    sv_puts(&t, i ? ",{" : "{");
    sv_put_ollama_model(&t, &offer);
    sv_puts(&t, ",\"modified_at\":");
    sv_put_time(&t, &modified);
    sv_puts(&t, "}");
  }
  sv_puts(&t, "]}");
  return sv_reply_json(call, &t);
}

/* Writes a loaded model. One that stays, or is idle for longer than a century, has a year far away, as in Ollama. */
static void sv_put_ollama_loaded(sv_text *t, const sv_offer *offer) {
  static const double century = 100 * 365.25 * 86400;
  struct timespec until = {0};
  sv_put_ollama_model(t, offer);
  sv_puts(t, ",\"expires_at\":");
  if (!(offer->idle_left >= 0 && offer->idle_left < century)) {
    sv_puts(t, "\"2318-01-01T00:00:00Z\"");
  } else {
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)offer->idle_left;
    sv_put_time(t, &until);
  }
  sv_putf(t, ",\"size_vram\":%llu,\"size_loaded\":%llu,\"context_length\":%d", (unsigned long long)offer->on_gpus,
          (unsigned long long)offer->bytes, offer->context);
  if (offer->expert_lookups)
    sv_putf(t, ",\"expert_hit_rate\":%.4f", (double)offer->expert_hits / (double)offer->expert_lookups);
}

enum MHD_Result sv_run_ollama_ps(sv_call *call) {
  sv_text t = {0};
  const char *comma = "";
  if (!sv_is_ready(call->host, &call->fail)) return sv_reply_fail(call);
  sv_puts(&t, "{\"models\":[");
  for (size_t i = 0; i < sv_count_models(call->host); i++) {
    sv_offer offer;
    sv_describe_model(call->host, i, &offer);
    if (!offer.is_loaded) continue;
    sv_putf(&t, "%s{", comma);
    sv_put_ollama_loaded(&t, &offer);
    sv_puts(&t, "}");
    comma = ",";
  }
  sv_puts(&t, "]}");
  return sv_reply_json(call, &t);
}

static bool sv_can_fill_gaps(const sv_server *s) {
  for (int i = GA_TOK_FIM_PREFIX; i <= GA_TOK_FIM_MIDDLE; i++)
    if (ga_tokenizer_special(s->tok, (ga_tok_special)i) < 0) return false;
  return true;
}

static void sv_put_capabilities(sv_text *t, const sv_server *s) {
  sv_putf(t, "[\"%s\"", s->engine ? "completion" : "embedding");
  if (s->engine && s->o.tools != TOOL_FORMAT_NONE) sv_puts(t, ",\"tools\"");
  if (s->engine && s->o.thinks) sv_puts(t, ",\"thinking\"");
  if (s->engine && sv_can_fill_gaps(s)) sv_puts(t, ",\"insert\"");
  sv_puts(t, "]");
}

static bool sv_refuse_file(ga_status status, sv_fail *fail) {
  if (status == GA_ERR_NOMEM) return sv_refuse_nomem(fail);
  return sv_refuse(fail, 500, NULL, NULL, "%s", ga_error_text());
}

static bool sv_put_template(sv_text *t, const sv_server *s, sv_fail *fail) {
  ga_model_file *file;
  ga_text text = {0};
  if (s->o.profile.chat_template) {
    sv_puts_json(t, s->o.profile.chat_template);
    return true;
  }
  const ga_status status = ga_model_file_open(s->o.model_path, &file);
  if (status != GA_OK) return sv_refuse_file(status, fail);
  if (!ga_model_file_meta(file, "tokenizer.chat_template") ||
      ga_model_file_text(file, "tokenizer.chat_template", &text) != GA_OK)
    text = (ga_text){0};
  sv_put_json(t, text.data ? text.data : "", text.bytes);
  ga_model_file_destroy(file);
  return true;
}

/* Writes the defaults of parameters as lines of a text. */
static void sv_put_parameters(sv_text *t, const sv_profile *profile) {
  const sv_defaults *d = &profile->defaults;
  sv_text lines = {0};
  sv_put(&lines, "", 0);
  if (d->is_given)
    sv_putf(&lines, "temperature %g\ntop_k %d\ntop_p %g\nmin_p %g\nrepeat_penalty %g", (double)d->temperature, d->top_k,
            (double)d->top_p, (double)d->min_p, (double)d->repetition_penalty);
  if (d->presence_penalty != 0.0f) sv_putf(&lines, "\npresence_penalty %g", (double)d->presence_penalty);
  if (d->frequency_penalty != 0.0f) sv_putf(&lines, "\nfrequency_penalty %g", (double)d->frequency_penalty);
  if (d->max_tokens > 0) sv_putf(&lines, "\nnum_predict %lld", (long long)d->max_tokens);
  if (profile->context) sv_putf(&lines, "\nnum_ctx %lld", (long long)profile->context);
  for (size_t i = 0; i < profile->n_stop; i++) sv_putf(&lines, "\nstop \"%s\"", profile->stop[i]);
  sv_put_json(t, lines.p ? lines.p : "", lines.n);
  t->failed |= lines.failed;
  sv_text_free(&lines);
}

static bool sv_put_show(sv_text *t, const sv_server *s, bool is_verbose, sv_fail *fail) {
  const struct timespec modified = {.tv_sec = s->facts.modified};
  if (!s->o.model_path)
    return sv_refuse(fail, 404, "not_found", "model", "There is no file of %.100s to describe.", s->o.model_id);
  sv_puts(t, "{\"modelfile\":");
  sv_text modelfile = {0};
  if (s->o.profile.modelfile)
    sv_puts(&modelfile, s->o.profile.modelfile);
  else
    sv_putf(&modelfile, "FROM %s\n", s->o.model_id);
  sv_put_json(t, modelfile.p ? modelfile.p : "", modelfile.n);
  t->failed |= modelfile.failed;
  sv_text_free(&modelfile);
  sv_puts(t, ",\"parameters\":");
  sv_put_parameters(t, &s->o.profile);
  if (s->o.profile.system) {
    sv_puts(t, ",\"system\":");
    sv_puts_json(t, s->o.profile.system);
  }
  sv_puts(t, ",\"template\":");
  if (!sv_put_template(t, s, fail)) return false;
  sv_puts(t, ",\"details\":");
  sv_put_details(t, &s->facts);
  sv_puts(t, ",\"model_info\":");
  const ga_status status = sv_put_metadata(t, s->o.model_path, is_verbose);
  if (status != GA_OK) return sv_refuse_file(status, fail);
  sv_puts(t, ",\"capabilities\":");
  sv_put_capabilities(t, s);
  sv_puts(t, ",\"modified_at\":");
  sv_put_time(t, &modified);
  sv_puts(t, "}");
  return true;
}

/* Checks `model`, or its former name `name`. */
static bool sv_check_ollama_model(const sv_server *s, const json_t *body, sv_fail *fail) {
  const char *model = NULL, *name = NULL;
  return sv_read_string(body, "model", &model, fail) && sv_read_string(body, "name", &name, fail) &&
         sv_is_model(s, model ? model : name, fail);
}

enum MHD_Result sv_run_ollama_show(sv_call *call) {
  sv_text t = {0};
  bool is_verbose = false;
  json_t *body = sv_is_ready(call->server, &call->fail) ? sv_call_json(call) : NULL;
  const bool ok = body && sv_check_ollama_model(call->server, body, &call->fail) &&
                  sv_read_bool(body, "verbose", &is_verbose, &call->fail) &&
                  sv_put_show(&t, call->server, is_verbose, &call->fail);
  json_decref(body);
  if (ok) return sv_reply_json(call, &t);
  sv_text_free(&t);
  return sv_reply_fail(call);
}

enum MHD_Result sv_run_ollama_version(sv_call *call) {
  sv_text t = {0};
  sv_puts(&t, "{\"version\":\"" SV_OLLAMA_VERSION "\",\"ga\":");
  sv_puts_json(&t, ga_version());
  sv_puts(&t, "}");
  return sv_reply_json(call, &t);
}

enum MHD_Result sv_run_ollama_refuse(sv_call *call) {
  (void)sv_refuse(
      &call->fail, 501, "not_supported", NULL,
      "%s is not supported: models are made and removed with the program (ga create, ga convert, ga quantize, ga rm).",
      call->route->path);
  return sv_reply_fail(call);
}

/* --- embeddings --- */

static bool sv_read_ollama_embed(sv_embed_job *job, const json_t *body, sv_call *call) {
  const int64_t width = ga_model_get_info(job->server->model)->embedding_width;
  int64_t dimensions = width;
  bool cuts = true;
  double keep;
  if (!sv_check_ollama_model(job->server, body, &call->fail) || !sv_ollama_keep_alive(body, &keep, &call->fail) ||
      !sv_read_bool(body, "truncate", &cuts, &call->fail) ||
      !sv_read_int(body, "dimensions", 0, INT32_MAX, &dimensions, &call->fail))
    return false;
  if (dimensions && dimensions != width)
    return sv_refuse(&call->fail, 400, "unsupported_parameter", "dimensions",
                     "dimensions is %lld; this model's embeddings have %lld and are not cut.", (long long)dimensions,
                     (long long)width);
  return sv_embed_inputs(job, body, "input", cuts, call);
}

static void sv_put_ollama_embed(sv_text *t, const sv_embed_job *job, const sv_call *call) {
  sv_puts(t, "{\"model\":");
  sv_puts_json(t, job->server->o.model_id);
  sv_puts(t, ",\"embeddings\":[");
  for (size_t i = 0; i < job->n; i++) {
    if (i) sv_puts(t, ",");
    sv_put_floats(t, job->vectors + i * job->width, job->width);
  }
  sv_putf(t, "],\"total_duration\":%lld,\"load_duration\":0,\"prompt_eval_count\":%lld}",
          (long long)((sv_seconds() - job->start) * 1e9), (long long)call->n_prompt);
}

enum MHD_Result sv_run_ollama_embed(sv_call *call) {
  static const sv_embed_form form = {sv_read_ollama_embed, sv_put_ollama_embed};
  return sv_run_embed(call, &form);
}

/* The older form has one text and one vector. */
static bool sv_read_ollama_embedding(sv_embed_job *job, const json_t *body, sv_call *call) {
  const char *prompt = NULL;
  double keep;
  if (!sv_check_ollama_model(job->server, body, &call->fail) || !sv_ollama_keep_alive(body, &keep, &call->fail) ||
      !sv_read_string(body, "prompt", &prompt, &call->fail))
    return false;
  return sv_embed_inputs(job, body, "prompt", true, call);
}

static void sv_put_ollama_embedding(sv_text *t, const sv_embed_job *job, const sv_call *call) {
  (void)call;
  sv_puts(t, "{\"embedding\":");
  sv_put_floats(t, job->vectors, job->width);
  sv_puts(t, "}");
}

enum MHD_Result sv_run_ollama_embeddings(sv_call *call) {
  static const sv_embed_form form = {sv_read_ollama_embedding, sv_put_ollama_embedding};
  return sv_run_embed(call, &form);
}
