/* Chat templates: the public face of the engine in jinja.h. */
#include <stdlib.h>

#include <jansson.h>

#include "ga/chat.h"

#include "base/locale.h"
#include "base/mem.h"
#include "base/sized.h"
#include "jinja/jinja.h"
#include "text/json_io.h"

#define MAX_SOURCE_BYTES ((size_t)4 << 20) /* the largest template in use is below 100 KiB */

static ga_status with_defaults(const ga_template_limits *given, ga_template_limits *out) {
  ga_template_limits limits = GA_TEMPLATE_LIMITS_INIT;
  if (given) GA_TRY(GA_SIZED_TAKE("chat template: limits", ga_template_limits, given, &limits));
  if (!limits.steps) limits.steps = 4000000;
  if (!limits.output_bytes) limits.output_bytes = (uint64_t)32 << 20;
  if (!limits.memory_bytes) limits.memory_bytes = (uint64_t)256 << 20;
  if (!limits.depth) limits.depth = 400;
  if (!limits.nodes) limits.nodes = 200000;
  *out = limits;
  return GA_OK;
}

/* Copy with \r\n and \r as \n, and without the last newline (keep_trailing_newline is off). */
static ga_status take_source(ga_template *tpl, const char *source, size_t n) {
  char *text;
  size_t used = 0;
  GA_TRY(ga_arena_strndup(&tpl->arena, source, n, &text));
  for (size_t i = 0; i < n; i++) {
    if (text[i] == '\r' && i + 1 < n && text[i + 1] == '\n') continue;
    text[used++] = text[i] == '\r' ? '\n' : text[i];
  }
  if (used && text[used - 1] == '\n') used--;
  text[used] = 0;
  tpl->source = text;
  tpl->n = used;
  return GA_OK;
}

ga_status ga_template_compile_limited(const char *source, size_t bytes, const ga_template_limits *limits_or_null,
                                      ga_template **out) {
  ga_template_limits limits = {0};
  void *p;
  GA_REQUIRE(out, GA_ERR_ARG, "chat template: out is NULL");
  *out = NULL;
  GA_REQUIRE(source || !bytes, GA_ERR_ARG, "chat template: source is NULL");
  GA_REQUIRE(bytes <= MAX_SOURCE_BYTES, GA_ERR_NOMEM, "chat template: %zu bytes; at most %zu", bytes, MAX_SOURCE_BYTES);
  GA_REQUIRE(ga_jj_utf8_ok(source, bytes), GA_ERR_FORMAT, "chat template: not UTF-8");
  GA_TRY(with_defaults(limits_or_null, &limits));
  GA_TRY(ga_mem_zalloc(1, sizeof(ga_template), "chat template", &p));
  ga_template *tpl = p;
  ga_locale locale = {0};
  ga_arena_init(&tpl->arena, 0);
  ga_status status = take_source(tpl, source, bytes);
  if (status == GA_OK) status = ga_locale_begin(&locale);
  if (status == GA_OK) status = ga_jj_parse(tpl, &limits);
  if (status == GA_OK) status = ga_jj_find_roles(tpl);
  ga_locale_end(&locale);
  if (status != GA_OK) {
    ga_template_destroy(tpl);
    return status;
  }
  *out = tpl;
  return GA_OK;
}

ga_status ga_template_compile(const char *source, size_t bytes, ga_template **out) {
  return ga_template_compile_limited(source, bytes, NULL, out);
}

void ga_template_destroy(ga_template *tpl) {
  if (!tpl) return;
  ga_arena_free(&tpl->arena);
  ga_mem_free(tpl);
}

static ga_status copy_out(const void *p, size_t n, void **out) {
  GA_TRY(ga_mem_alloc(n + 1, "chat text", out));
  if (n) memcpy(*out, p, n);
  ((char *)*out)[n] = 0;
  return GA_OK;
}

static ga_status render_messages(jj_run *run, const char *json, size_t bytes, char **text, uint8_t **foreign,
                                 size_t *n) {
  jj_buf out = {0};
  jj_scope *scope;
  void *copy, *marks = NULL;
  run->out = &out;
  GA_TRY(ga_jj_from_json(run, json, bytes));
  GA_TRY(ga_jj_scope_new(run, NULL, &scope));
  GA_TRY(ga_jj_exec(run, scope, run->tpl->root->kids));
  if (foreign && !out.foreign) GA_TRY(ga_mem_zalloc(out.n + 1, 1, "chat text", &marks));
  if (foreign && out.foreign) GA_TRY(copy_out(out.foreign, out.n, &marks));
  ga_status status = copy_out(out.p, out.n, &copy);
  if (status != GA_OK) {
    ga_mem_free(marks);
    return status;
  }
  *text = copy;
  *n = out.n;
  if (foreign) *foreign = marks;
  return GA_OK;
}

static ga_status render_in(const ga_template *tpl, const char *json_context, size_t bytes,
                           const ga_template_limits *limits_or_null, char **text, uint8_t **foreign, size_t *n) {
  ga_template_limits limits = {0};
  ga_locale locale;
  GA_REQUIRE(tpl && json_context && text && n, GA_ERR_ARG, "chat template: an argument is NULL");
  *text = NULL;
  *n = 0;
  GA_TRY(with_defaults(limits_or_null, &limits));
  jj_run run = {.tpl = tpl,
                .steps_left = limits.steps,
                .steps_limit = limits.steps,
                .output_limit = limits.output_bytes,
                .depth_left = limits.depth,
                .depth_limit = limits.depth,
                .now = limits.now,
                .trace = foreign != NULL};
  GA_TRY(ga_locale_begin(&locale));
  ga_arena_init(&run.arena, limits.memory_bytes);
  ga_status status = render_messages(&run, json_context, bytes, text, foreign, n);
  ga_arena_free(&run.arena);
  ga_locale_end(&locale);
  if (status != GA_OK && !run.located) return ga_fail_in(status, "chat template");
  return status;
}

ga_status ga_template_render(const ga_template *tpl, const char *json_context, size_t bytes,
                             const ga_template_limits *limits_or_null, char **text, size_t *n) {
  return render_in(tpl, json_context, bytes, limits_or_null, text, NULL, n);
}

ga_status ga_jj_render_traced(const ga_template *tpl, const char *json_context, size_t bytes,
                              const ga_template_limits *limits_or_null, char **text, uint8_t **foreign, size_t *n) {
  *foreign = NULL;
  return render_in(tpl, json_context, bytes, limits_or_null, text, foreign, n);
}

void ga_template_text_free(char *text) { ga_mem_free(text); }

/* json_object_set_new with its failure as a status. Takes over the value. */
static ga_status set_json(json_t *object, const char *key, json_t *value) {
  GA_REQUIRE(value, GA_ERR_NOMEM, "chat: out of memory");
  GA_REQUIRE(json_object_set_new(object, key, value) == 0, GA_ERR_NOMEM, "chat: out of memory");
  return GA_OK;
}

static ga_status set_json_text(json_t *object, const char *key, const char *text) {
  const size_t n = strlen(text);
  GA_REQUIRE(ga_jj_utf8_ok(text, n), GA_ERR_FORMAT, "chat: '%s' is not UTF-8", key);
  return set_json(object, key, json_stringn_nocheck(text, n));
}

static ga_status add_messages(json_t *context, const ga_chat_message *messages, size_t n) {
  json_t *list = json_array();
  GA_TRY(set_json(context, "messages", list));
  for (size_t i = 0; i < n; i++) {
    json_t *message = json_object();
    GA_REQUIRE(messages[i].role && messages[i].content, GA_ERR_ARG, "chat: message %zu has no role or content", i);
    GA_REQUIRE(message && json_array_append_new(list, message) == 0, GA_ERR_NOMEM, "chat: out of memory");
    GA_TRY(set_json_text(message, "role", messages[i].role));
    GA_TRY(set_json_text(message, "content", messages[i].content));
  }
  return GA_OK;
}

static ga_status add_extra(json_t *context, const char *extra) {
  json_error_t error;
  if (!extra) return GA_OK;
  json_t *more = ga_json_load(extra, strlen(extra), GA_JSON_PYTHON, &error);
  GA_REQUIRE(more || json_error_code(&error) != json_error_out_of_memory, GA_ERR_NOMEM, "chat: out of memory");
  GA_REQUIRE(more, GA_ERR_FORMAT, "chat: extra_json, line %d, column %d: %s", error.line, error.column, error.text);
  const bool is_object = json_is_object(more), failed = is_object && json_object_update(context, more);
  json_decref(more);
  GA_REQUIRE(is_object, GA_ERR_FORMAT, "chat: extra_json must be a JSON object");
  GA_REQUIRE(!failed, GA_ERR_NOMEM, "chat: out of memory");
  return GA_OK;
}

static ga_status build_context(json_t *context, const ga_chat_message *messages, size_t n,
                               const ga_chat_options *options) {
  GA_TRY(add_messages(context, messages, n));
  GA_TRY(set_json(context, "add_generation_prompt", json_boolean(options->add_generation_prompt)));
  GA_TRY(set_json_text(context, "bos_token", options->bos_token ? options->bos_token : ""));
  GA_TRY(set_json_text(context, "eos_token", options->eos_token ? options->eos_token : ""));
  return add_extra(context, options->extra_json);
}

ga_status ga_jj_chat_context(const ga_chat_message *messages, size_t n, const ga_chat_options *options, char **json) {
  ga_chat_options full = GA_CHAT_OPTIONS_INIT;
  *json = NULL;
  GA_REQUIRE(messages || !n, GA_ERR_ARG, "chat: messages is NULL");
  if (options) GA_TRY(GA_SIZED_TAKE("chat: options", ga_chat_options, options, &full));
  json_t *context = json_object();
  ga_locale locale = {0};
  ga_status status = GA_OK;
  GA_REQUIRE(context, GA_ERR_NOMEM, "chat: out of memory");
  GA_TRY_OUT(ga_locale_begin(&locale));
  GA_TRY_OUT(build_context(context, messages, n, &full));
  *json = ga_json_dump(context, JSON_COMPACT);
  GA_REQUIRE_OUT(*json, GA_ERR_NOMEM, "chat: out of memory");
out:
  ga_locale_end(&locale);
  json_decref(context);
  return status;
}

ga_status ga_chat_render(const ga_template *tpl, const ga_chat_message *messages, size_t n_messages,
                         const ga_chat_options *options, char **text, size_t *n) {
  char *json;
  GA_REQUIRE(tpl && text && n, GA_ERR_ARG, "chat: an argument is NULL");
  *text = NULL;
  *n = 0;
  GA_TRY(ga_jj_chat_context(messages, n_messages, options, &json));
  ga_status status = ga_template_render(tpl, json, strlen(json), options ? options->limits : NULL, text, n);
  free(json);
  return status;
}
