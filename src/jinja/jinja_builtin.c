/* Built-ins: look-up in the tables of a template, refusals that say what there is, and parameters. */
#include "jinja/jinja_builtin.h"

#include <stdio.h>

static const jj_def *find(const jj_def *const tables[JJ_TABLES], const jj_str *name) {
  for (int t = 0; t < JJ_TABLES && tables[t]; t++)
    for (const jj_def *def = tables[t]; def->name; def++)
      if (ga_jj_str_is(name, def->name)) return def;
  return NULL;
}

/* Fails with "<what> '<name>' is not known; known are ...". */
static ga_status unknown(const char *what, const jj_str *name, const jj_def *const tables[JJ_TABLES]) {
  char list[800];
  size_t n = 0;
  for (int t = 0; t < JJ_TABLES && tables[t]; t++)
    for (const jj_def *def = tables[t]; def->name && n + 32 < sizeof list; def++)
      n += (size_t)snprintf(list + n, sizeof list - n, " %s", def->name);
  if (!n) (void)snprintf(list, sizeof list, " none");
  return ga_fail(GA_ERR_UNSUPPORTED, "%s '%.*s' is not known; known are%s", what, (int)(name->n < 60 ? name->n : 60),
                 name->p, list);
}

const jj_def *ga_jj_filter(const ga_template *tpl, const jj_str *name) { return find(tpl->builtins->filters, name); }
const jj_def *ga_jj_test(const ga_template *tpl, const jj_str *name) { return find(tpl->builtins->tests, name); }
const jj_def *ga_jj_global(const ga_template *tpl, const jj_str *name) { return find(tpl->builtins->globals, name); }
const jj_def *ga_jj_method(const ga_template *tpl, jj_val self, const jj_str *name) {
  return find(tpl->builtins->methods[self.kind], name);
}

ga_status ga_jj_unknown_filter(const ga_template *tpl, const jj_str *name) {
  return unknown("filter", name, tpl->builtins->filters);
}

ga_status ga_jj_unknown_test(const ga_template *tpl, const jj_str *name) {
  return unknown("test", name, tpl->builtins->tests);
}

ga_status ga_jj_unknown_method(const ga_template *tpl, jj_val self, const jj_str *name) {
  char what[40];
  (void)snprintf(what, sizeof what, "method of %s", ga_jj_type(self));
  return unknown(what, name, tpl->builtins->methods[self.kind]);
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
