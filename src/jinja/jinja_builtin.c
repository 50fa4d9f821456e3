/* Tables of built-ins: look-up, refusals that say what there is, and parameters. */
#include "jinja/jinja_builtin.h"

#include <stdio.h>

const jj_def *ga_jj_find_def(const jj_def *table, const jj_str *name) {
  for (; table->name; table++)
    if (ga_jj_str_is(name, table->name)) return table;
  return NULL;
}

ga_status ga_jj_unknown_def(const char *what, const jj_str *name, const jj_def *const *tables, size_t n_tables) {
  char list[800];
  size_t n = 0;
  for (size_t t = 0; t < n_tables; t++)
    for (const jj_def *def = tables[t]; def->name && n + 32 < sizeof list; def++)
      n += (size_t)snprintf(list + n, sizeof list - n, " %s", def->name);
  if (!n) (void)snprintf(list, sizeof list, " none");
  return ga_fail(GA_ERR_UNSUPPORTED, "%s '%.*s' is not known; known are%s", what, (int)(name->n < 60 ? name->n : 60),
                 name->p, list);
}

const jj_def *ga_jj_filter(const jj_str *name) {
  const jj_def *def = ga_jj_find_def(ga_jj_filters_text, name);
  return def ? def : ga_jj_find_def(ga_jj_filters_seq, name);
}

ga_status ga_jj_unknown_filter(const jj_str *name) {
  const jj_def *const tables[] = {ga_jj_filters_text, ga_jj_filters_seq};
  return ga_jj_unknown_def("filter", name, tables, GA_COUNT_OF(tables));
}

static size_t method_tables(jj_val self, const jj_def *tables[2]) {
  switch (self.kind) {
  case JJ_STR:
    tables[0] = ga_jj_methods_str;
    tables[1] = ga_jj_methods_str2;
    return 2;
  case JJ_LIST: tables[0] = ga_jj_methods_list; return 1;
  case JJ_TUPLE:
  case JJ_RANGE: tables[0] = ga_jj_methods_list + 2; return 1; /* index and count */
  case JJ_DICT: tables[0] = ga_jj_methods_dict; return 1;
  case JJ_LOOP: tables[0] = ga_jj_methods_loop; return 1;
  default: return 0;
  }
}

const jj_def *ga_jj_method(jj_val self, const jj_str *name) {
  const jj_def *tables[2], *def = NULL;
  size_t n = method_tables(self, tables);
  for (size_t i = 0; i < n && !def; i++) def = ga_jj_find_def(tables[i], name);
  return def;
}

ga_status ga_jj_unknown_method(jj_val self, const jj_str *name) {
  const jj_def *tables[2];
  char what[40];
  size_t n = method_tables(self, tables);
  (void)snprintf(what, sizeof what, "method of %s", ga_jj_type(self));
  return ga_jj_unknown_def(what, name, tables, n);
}

/* Name of parameter `index`, for messages. */
static const char *param_name(const jj_call *call, int index, int *n) {
  const char *p = call->def->params + (call->def->params[0] == '/');
  while (index--) p += strcspn(p, " ") + 1;
  *n = (int)strcspn(p, " ?");
  return p;
}

static ga_status wrong_type(const jj_call *call, int index, const char *expected) {
  int n;
  const char *name = param_name(call, index, &n);
  GA_TRY(ga_jj_need_defined(call->v[index]));
  return ga_fail(GA_ERR_FORMAT, "%s: argument '%.*s' is a '%s'; expected %s", call->def->name, n, name,
                 ga_jj_type(call->v[index]), expected);
}

ga_status ga_jj_param_int(const jj_call *call, int index, int64_t fallback, int64_t *out) {
  jj_val v = call->v[index];
  *out = fallback;
  if (v.kind == JJ_MISSING || v.kind == JJ_NONE || ga_jj_as_int(v, out)) return GA_OK;
  return wrong_type(call, index, "an integer");
}

ga_status ga_jj_param_str(const jj_call *call, int index, jj_str **out) {
  jj_val v = call->v[index];
  *out = NULL;
  if (v.kind == JJ_MISSING || v.kind == JJ_NONE) return GA_OK;
  if (v.kind != JJ_STR) return wrong_type(call, index, "a string");
  *out = v.u.s;
  return GA_OK;
}

bool ga_jj_param_flag(const jj_call *call, int index) { return ga_jj_truth(call->v[index]); }

ga_status ga_jj_self_str(jj_run *run, const jj_call *call, jj_str **out) {
  jj_val s;
  GA_TRY(ga_jj_to_str(run, call->self, &s));
  *out = s.u.s;
  return GA_OK;
}
