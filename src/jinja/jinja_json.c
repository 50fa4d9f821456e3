/* JSON into values, and the `tojson` of Transformers: Python's json.dumps without HTML escapes. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "jinja/jinja.h"
#include "text/json_io.h"

/* Where in the context a node stands, as far as it matters to who vouches for its text. */
typedef enum place { CONTEXT, MESSAGES, MESSAGE, OURS, FOREIGN } place;

static place place_of_value(const jj_run *run, place parent, const char *key, size_t n, const json_t *value) {
  if (strlen(key) != n) return FOREIGN; /* NUL stands in it */
  if (parent == CONTEXT && !strcmp(key, "messages")) return MESSAGES;
  if (parent == CONTEXT && json_is_string(value) && ga_ends_with(key, "_token")) return OURS;
  if (parent == MESSAGE && json_is_string(value) && !strcmp(key, "role") &&
      ga_jj_is_known_role(run->tpl, json_string_value(value), json_string_length(value)))
    return OURS;
  return FOREIGN;
}

/* Messages of role "developer" are of the system where the template does not know the newer name. */
static bool is_developer(const jj_run *run, place parent, const char *key, const json_t *value) {
  return parent == MESSAGE && !run->tpl->knows_developer && !strcmp(key, "role") && json_is_string(value) &&
         !strcmp(json_string_value(value), "developer") && json_string_length(value) == strlen("developer");
}

static ga_status value_from_text(jj_run *run, const char *p, size_t n, place at, jj_val *out) {
  GA_TRY(ga_jj_str_new(run, p, n, out));
  if (!run->trace || at == OURS) return GA_OK;
  void *marks;
  GA_TRY(ga_jj_alloc(run, n, 1, &marks));
  out->u.s->foreign = memset(marks, 1, n);
  return GA_OK;
}

static ga_status from_node(jj_run *run, const json_t *json, place at, jj_val *out);

static ga_status from_array(jj_run *run, const json_t *json, place at, jj_val *out) {
  GA_TRY(ga_jj_seq_new(run, JJ_LIST, json_array_size(json), out));
  for (size_t i = 0; i < json_array_size(json); i++) {
    jj_val v;
    GA_TRY(from_node(run, json_array_get(json, i), at == MESSAGES ? MESSAGE : FOREIGN, &v));
    GA_TRY(ga_jj_seq_push(run, out->u.q, v));
  }
  return GA_OK;
}

static ga_status from_object(jj_run *run, json_t *json, place at, jj_val *out) {
  GA_TRY(ga_jj_dict_new(run, json_object_size(json), out));
  for (void *it = json_object_iter(json); it; it = json_object_iter_next(json, it)) {
    jj_val key, v;
    const char *name = json_object_iter_key(it);
    const size_t n = json_object_iter_key_len(it);
    const json_t *value = json_object_iter_value(it);
    GA_TRY(value_from_text(run, name, n, FOREIGN, &key));
    if (is_developer(run, at, name, value))
      GA_TRY(value_from_text(run, "system", strlen("system"), OURS, &v));
    else
      GA_TRY(from_node(run, value, place_of_value(run, at, name, n, value), &v));
    GA_TRY(ga_jj_dict_set(run, out->u.d, key, v));
  }
  return GA_OK;
}

/* A number that jansson cannot hold. */
static ga_status from_wide(jj_run *run, const char *text, jj_val *out) {
  if (strchr("0123456789", text[*text == '-'])) {
    GA_TRY(ga_jj_str_new(run, text, strlen(text) + 1, out));
    out->u.s->n--;
    out->kind = JJ_BIG;
    return GA_OK;
  }
  *out = ga_jj_float(*text == 'N' ? (double)NAN : *text == '-' ? -(double)INFINITY : (double)INFINITY);
  return GA_OK;
}

static ga_status from_node(jj_run *run, const json_t *json, place at, jj_val *out) {
  GA_TRY(ga_jj_enter(run));
  switch (json_typeof(json)) {
  case JSON_OBJECT:
    if (ga_json_wide(json)) {
      GA_TRY(from_wide(run, ga_json_wide(json), out));
      break;
    }
    GA_TRY(from_object(run, (json_t *)(uintptr_t)json, at, out));
    break; /* iterators want it writable */
  case JSON_ARRAY: GA_TRY(from_array(run, json, at, out)); break;
  case JSON_STRING: GA_TRY(value_from_text(run, json_string_value(json), json_string_length(json), at, out)); break;
  case JSON_INTEGER: *out = ga_jj_int(json_integer_value(json)); break;
  case JSON_REAL: *out = ga_jj_float(json_real_value(json)); break;
  case JSON_TRUE:
  case JSON_FALSE: *out = ga_jj_bool(json_is_true(json)); break;
  case JSON_NULL: *out = ga_jj_none(); break;
  }
  run->depth_left++;
  return GA_OK;
}

ga_status ga_jj_from_json(jj_run *run, const char *json, size_t n) {
  json_error_t error;
  jj_val context;
  json_t *root = ga_json_load(json, n, GA_JSON_PYTHON, &error);
  if (!root && json_error_code(&error) == json_error_out_of_memory) return ga_fail_nomem("context of a template", n);
  if (!root)
    return ga_fail(GA_ERR_FORMAT, "context: JSON of %zu bytes, line %d, column %d: %s", n, error.line, error.column,
                   error.text);
  ga_status status = GA_OK;
  if (!json_is_object(root))
    status = ga_fail(GA_ERR_FORMAT, "context: expected a JSON object such as {\"messages\": [...]}");
  else
    status = from_node(run, root, CONTEXT, &context);
  json_decref(root);
  if (status != GA_OK) return status;
  run->context = context.u.d;
  return GA_OK;
}

typedef struct json_style {
  bool ascii, pretty, sort;
  jj_str item, colon; /* separators */
  jj_str indent;
} json_style;

static ga_status put_json(jj_run *run, jj_buf *buf, jj_val v, const json_style *style, size_t level);

/* The escape of c, which is at `at` of s. */
static ga_status put_json_char(jj_run *run, jj_buf *buf, const jj_str *s, size_t at, int32_t c) {
  static const char names[] = "\"\"\\\\\nn\rr\tt\bb\ff";
  for (size_t i = 0; i + 1 < sizeof names; i += 2)
    if (names[i] == c) {
      char two[2] = {'\\', names[i + 1]};
      return ga_jj_buf_stand(run, buf, s, at, two, 2);
    }
  char text[24];
  if (c < 0x10000)
    (void)snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
  else
    (void)snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800u + ((unsigned)(c - 0x10000) >> 10),
                   0xdc00u + ((unsigned)(c - 0x10000) & 0x3ff));
  return ga_jj_buf_stand(run, buf, s, at, text, strlen(text));
}

static ga_status put_json_str(jj_run *run, jj_buf *buf, const jj_str *s, bool ascii) {
  size_t len, plain = 0; /* [plain, at) needs no escape */
  GA_TRY(ga_jj_step(run, s->n / 16));
  GA_TRY(ga_jj_buf_put(run, buf, "\"", 1));
  for (size_t at = 0; at < s->n; at += len) {
    int32_t c = ga_jj_decode(s->p + at, s->p + s->n, &len);
    if (c >= ' ' && c != '"' && c != '\\' && (!ascii || c < 0x7f)) continue;
    GA_TRY(ga_jj_buf_part(run, buf, s, plain, at - plain));
    GA_TRY(put_json_char(run, buf, s, at, c));
    plain = at + len;
  }
  GA_TRY(ga_jj_buf_part(run, buf, s, plain, s->n - plain));
  return ga_jj_buf_put(run, buf, "\"", 1);
}

static ga_status put_json_number(jj_run *run, jj_buf *buf, jj_val v) {
  if (v.kind != JJ_FLOAT || isfinite(v.u.f)) return ga_jj_put_repr(run, buf, v);
  return ga_jj_buf_puts(run, buf, isnan(v.u.f) ? "NaN" : v.u.f < 0 ? "-Infinity" : "Infinity");
}

static ga_status put_break(jj_run *run, jj_buf *buf, const json_style *style, size_t level) {
  if (!style->pretty) return GA_OK;
  GA_TRY(ga_jj_buf_put(run, buf, "\n", 1));
  for (size_t i = 0; i < level; i++) GA_TRY(ga_jj_buf_part(run, buf, &style->indent, 0, style->indent.n));
  return GA_OK;
}

static ga_status put_json_list(jj_run *run, jj_buf *buf, const jj_seq *seq, const json_style *style, size_t level) {
  GA_TRY(ga_jj_buf_put(run, buf, "[", 1));
  for (size_t i = 0; i < seq->n; i++) {
    if (i) GA_TRY(ga_jj_buf_part(run, buf, &style->item, 0, style->item.n));
    GA_TRY(put_break(run, buf, style, level + 1));
    GA_TRY(put_json(run, buf, seq->v[i], style, level + 1));
  }
  if (seq->n) GA_TRY(put_break(run, buf, style, level));
  return ga_jj_buf_put(run, buf, "]", 1);
}

static ga_status put_json_key(jj_run *run, jj_buf *buf, jj_val key, const json_style *style) {
  if (key.kind == JJ_STR) return put_json_str(run, buf, key.u.s, style->ascii);
  if (key.kind < JJ_NONE || key.kind > JJ_FLOAT)
    return ga_fail(GA_ERR_FORMAT, "tojson: key of type '%s'; JSON takes strings, numbers, bools and none",
                   ga_jj_type(key));
  GA_TRY(ga_jj_buf_put(run, buf, "\"", 1));
  GA_TRY(put_json(run, buf, key, style, 0));
  return ga_jj_buf_put(run, buf, "\"", 1);
}

static ga_status sorted_values(jj_run *run, const jj_dict *d, jj_val **keys, jj_val **values) {
  void *p;
  GA_TRY(ga_jj_alloc(run, 2 * d->n, sizeof(jj_val), &p));
  *keys = p;
  *values = *keys + d->n;
  for (size_t i = 0; i < d->n; i++) {
    (*keys)[i] = d->e[i].key;
    (*values)[i] = d->e[i].value;
  }
  return ga_jj_sort(run, *keys, *values, d->n, false);
}

static ga_status put_json_dict(jj_run *run, jj_buf *buf, const jj_dict *d, const json_style *style, size_t level) {
  jj_val *keys = NULL, *values = NULL;
  if (style->sort) GA_TRY(sorted_values(run, d, &keys, &values));
  GA_TRY(ga_jj_buf_put(run, buf, "{", 1));
  for (size_t i = 0; i < d->n; i++) {
    if (i) GA_TRY(ga_jj_buf_part(run, buf, &style->item, 0, style->item.n));
    GA_TRY(put_break(run, buf, style, level + 1));
    GA_TRY(put_json_key(run, buf, keys ? keys[i] : d->e[i].key, style));
    GA_TRY(ga_jj_buf_part(run, buf, &style->colon, 0, style->colon.n));
    GA_TRY(put_json(run, buf, values ? values[i] : d->e[i].value, style, level + 1));
  }
  if (d->n) GA_TRY(put_break(run, buf, style, level));
  return ga_jj_buf_put(run, buf, "}", 1);
}

static ga_status put_json(jj_run *run, jj_buf *buf, jj_val v, const json_style *style, size_t level) {
  GA_TRY(ga_jj_enter(run));
  switch (v.kind) {
  case JJ_NONE: GA_TRY(ga_jj_buf_puts(run, buf, "null")); break;
  case JJ_BOOL: GA_TRY(ga_jj_buf_puts(run, buf, v.u.b ? "true" : "false")); break;
  case JJ_INT:
  case JJ_BIG:
  case JJ_FLOAT: GA_TRY(put_json_number(run, buf, v)); break;
  case JJ_STR: GA_TRY(put_json_str(run, buf, v.u.s, style->ascii)); break;
  case JJ_LIST:
  case JJ_TUPLE: GA_TRY(put_json_list(run, buf, v.u.q, style, level)); break;
  case JJ_DICT: GA_TRY(put_json_dict(run, buf, v.u.d, style, level)); break;
  default:
    GA_TRY(ga_jj_need_defined(v));
    return ga_fail(GA_ERR_FORMAT, "tojson: a %s is not JSON; lists, dicts, strings, numbers, bools and none are",
                   ga_jj_type(v));
  }
  run->depth_left++;
  return GA_OK;
}

static ga_status read_indent(jj_run *run, const jj_call *call, json_style *style) {
  jj_val v = call->v[1];
  int64_t width;
  if (v.kind == JJ_MISSING || v.kind == JJ_NONE) return GA_OK;
  style->pretty = true;
  style->item = (jj_str){",", 1, 1, NULL};
  if (v.kind == JJ_STR) {
    style->indent = *v.u.s;
    return GA_OK;
  }
  GA_TRY(ga_jj_param_int(call, 1, 0, &width));
  if (width > 1024) return ga_fail(GA_ERR_FORMAT, "tojson: indent = %lld; at most 1024", (long long)width);
  void *spaces;
  const size_t n = width > 0 ? (size_t)width : 0;
  GA_TRY(ga_jj_alloc(run, n, 1, &spaces));
  style->indent = (jj_str){memset(spaces, ' ', n), n, n, NULL};
  return GA_OK;
}

static ga_status read_separators(const jj_call *call, json_style *style) {
  jj_val v = call->v[2];
  if (v.kind == JJ_MISSING || v.kind == JJ_NONE) return GA_OK;
  if ((v.kind != JJ_LIST && v.kind != JJ_TUPLE) || v.u.q->n != 2 || v.u.q->v[0].kind != JJ_STR ||
      v.u.q->v[1].kind != JJ_STR)
    return ga_fail(GA_ERR_FORMAT, "tojson: separators must be two strings, such as (',', ':')");
  style->item = *v.u.q->v[0].u.s;
  style->colon = *v.u.q->v[1].u.s;
  return GA_OK;
}

ga_status ga_jj_tojson(jj_run *run, const jj_call *call, jj_val *out) {
  json_style style = {.item = {", ", 2, 2, NULL}, .colon = {": ", 2, 2, NULL}};
  jj_buf buf = {0};
  style.ascii = ga_jj_param_flag(call, 0);
  style.sort = ga_jj_param_flag(call, 3);
  GA_TRY(read_indent(run, call, &style));
  GA_TRY(read_separators(call, &style));
  GA_TRY(put_json(run, &buf, call->self, &style, 0));
  return ga_jj_buf_str(run, &buf, out);
}
