/* Expressions. */
#include "jinja/jinja.h"

static jj_str no_else = {"an if without else", 18, 18, NULL};

ga_status ga_jj_locate(jj_run *run, const jj_node *node, ga_status status) {
  if (run->located) return status;
  unsigned line, column;
  run->located = true;
  ga_jj_where(run->tpl, node->pos, &line, &column);
  return ga_fail_in(status, "chat template, line %u, column %u", line, column);
}

static ga_status eval_name(jj_run *run, jj_scope *scope, const jj_node *node, jj_val *out) {
  uint64_t seen = 0;
  for (; scope; scope = scope->parent) {
    for (const jj_var *var = scope->vars; var; var = var->next, seen++)
      if (var->name == node->name) {
        *out = var->value;
        return ga_jj_step(run, seen / 8);
      }
    seen++;
  }
  jj_val *found;
  GA_TRY(ga_jj_step(run, seen / 8));
  GA_TRY(ga_jj_dict_find_text(run, run->context, node->name, &found));
  *out = ga_jj_undef(node->name);
  if (found) *out = *found;
  if (found) return GA_OK;
  const jj_def *def = ga_jj_global(run->tpl, node->name);
  if (!def) return GA_OK;
  void *fn;
  GA_TRY(ga_jj_alloc(run, 1, sizeof(jj_func), &fn));
  *out = (jj_val){.kind = JJ_FUNC, .u.fn = fn};
  out->u.fn->def = def;
  return GA_OK;
}

static ga_status eval_seq(jj_run *run, jj_scope *scope, const jj_node *node, jj_val *out) {
  jj_val v;
  GA_TRY(ga_jj_seq_new(run, node->kind == JN_LIST ? JJ_LIST : JJ_TUPLE, 0, out));
  for (const jj_node *kid = node->kids; kid; kid = kid->next) {
    GA_TRY(ga_jj_eval(run, scope, kid, &v));
    GA_TRY(ga_jj_seq_push(run, out->u.q, v));
  }
  return GA_OK;
}

static ga_status eval_dict(jj_run *run, jj_scope *scope, const jj_node *node, jj_val *out) {
  jj_val key, value;
  GA_TRY(ga_jj_dict_new(run, 0, out));
  for (const jj_node *kid = node->kids; kid; kid = kid->next->next) {
    GA_TRY(ga_jj_eval(run, scope, kid, &key));
    GA_TRY(ga_jj_eval(run, scope, kid->next, &value));
    GA_TRY(ga_jj_dict_set(run, out->u.d, key, value));
  }
  return GA_OK;
}

static ga_status eval_compare(jj_run *run, jj_scope *scope, const jj_node *node, jj_val *out) {
  jj_val left, right;
  bool yes = true;
  GA_TRY(ga_jj_eval(run, scope, node->a, &left));
  for (const jj_node *kid = node->kids; kid && yes; kid = kid->next, left = right) {
    GA_TRY(ga_jj_eval(run, scope, kid->a, &right));
    GA_TRY(ga_jj_compare(run, (jj_op)kid->op, left, right, &yes));
  }
  *out = ga_jj_bool(yes);
  return GA_OK;
}

static ga_status eval_concat(jj_run *run, jj_scope *scope, const jj_node *node, jj_val *out) {
  jj_buf buf = {0};
  jj_val v;
  for (const jj_node *kid = node->kids; kid; kid = kid->next) {
    GA_TRY(ga_jj_eval(run, scope, kid, &v));
    GA_TRY(ga_jj_put_str(run, &buf, v));
  }
  return ga_jj_buf_str(run, &buf, out);
}

static ga_status eval_subscript(jj_run *run, jj_scope *scope, const jj_node *node, jj_val *out) {
  jj_val v, key, bounds[3] = {ga_jj_none(), ga_jj_none(), ga_jj_none()};
  GA_TRY(ga_jj_eval(run, scope, node->a, &v));
  if (node->b->kind != JN_SLICE) {
    GA_TRY(ga_jj_eval(run, scope, node->b, &key));
    return ga_jj_item(run, v, key, out);
  }
  const jj_node *const parts[3] = {node->b->a, node->b->b, node->b->c};
  for (int i = 0; i < 3; i++)
    if (parts[i]) GA_TRY(ga_jj_eval(run, scope, parts[i], &bounds[i]));
  return ga_jj_slice(run, v, bounds, out);
}

static ga_status eval_binary(jj_run *run, jj_scope *scope, const jj_node *node, jj_val *out) {
  jj_val a, b;
  GA_TRY(ga_jj_eval(run, scope, node->a, &a));
  GA_TRY(ga_jj_eval(run, scope, node->b, &b));
  return ga_jj_binary(run, (jj_op)node->op, a, b, out);
}

static ga_status eval_unary(jj_run *run, jj_scope *scope, const jj_node *node, jj_val *out) {
  jj_val a;
  GA_TRY(ga_jj_eval(run, scope, node->a, &a));
  if (node->kind == JN_NEG) return ga_jj_negate(run, a, out);
  *out = ga_jj_bool(!ga_jj_truth(a));
  if (node->kind == JN_NOT) return GA_OK;
  return ga_jj_binary(run, JO_ADD, ga_jj_int(0), a, out);
}

static ga_status eval_cond(jj_run *run, jj_scope *scope, const jj_node *node, jj_val *out) {
  jj_val test;
  GA_TRY(ga_jj_eval(run, scope, node->a, &test));
  if (ga_jj_truth(test)) return ga_jj_eval(run, scope, node->b, out);
  if (node->c) return ga_jj_eval(run, scope, node->c, out);
  *out = ga_jj_undef(&no_else);
  return GA_OK;
}

/* Arguments */

static ga_status push_kw(jj_run *run, jj_args *args, size_t *cap, const jj_str *name, jj_val value) {
  if (args->n_kw == *cap) {
    void *bigger;
    GA_TRY(ga_jj_alloc(run, *cap ? 2 * *cap : 4, sizeof(jj_kw), &bigger));
    if (args->n_kw) memcpy(bigger, args->kw, args->n_kw * sizeof(jj_kw));
    args->kw = bigger;
    *cap = *cap ? 2 * *cap : 4;
  }
  args->kw[args->n_kw++] = (jj_kw){name, value};
  return GA_OK;
}

static ga_status push_star(jj_run *run, jj_seq *pos, jj_val v) {
  const jj_val *items;
  size_t n;
  GA_TRY(ga_jj_items(run, v, &items, &n));
  for (size_t i = 0; i < n; i++) GA_TRY(ga_jj_seq_push(run, pos, items[i]));
  return GA_OK;
}

static ga_status push_star2(jj_run *run, jj_args *args, size_t *cap, jj_val v) {
  if (v.kind != JJ_DICT) return ga_fail(GA_ERR_FORMAT, "call: ** takes a dict, not '%s'", ga_jj_type(v));
  for (size_t i = 0; i < v.u.d->n; i++) {
    if (v.u.d->e[i].key.kind != JJ_STR) return ga_fail(GA_ERR_FORMAT, "call: the keys of ** must be strings");
    GA_TRY(push_kw(run, args, cap, v.u.d->e[i].key.u.s, v.u.d->e[i].value));
  }
  return GA_OK;
}

ga_status ga_jj_eval_args(jj_run *run, jj_scope *scope, const jj_node *kids, jj_args *args) {
  jj_val pos;
  size_t cap = 0;
  *args = (jj_args){0};
  if (!kids) return GA_OK;
  GA_TRY(ga_jj_seq_new(run, JJ_LIST, 0, &pos));
  for (; kids; kids = kids->next) {
    bool wrapped = kids->kind == JN_STAR || kids->kind == JN_STAR2 || kids->kind == JN_KWARG;
    jj_val v;
    GA_TRY(ga_jj_eval(run, scope, wrapped ? kids->a : kids, &v));
    if (kids->kind == JN_STAR)
      GA_TRY(push_star(run, pos.u.q, v));
    else if (kids->kind == JN_STAR2)
      GA_TRY(push_star2(run, args, &cap, v));
    else if (kids->kind == JN_KWARG)
      GA_TRY(push_kw(run, args, &cap, kids->name, v));
    else
      GA_TRY(ga_jj_seq_push(run, pos.u.q, v));
  }
  args->pos = pos.u.q->v;
  args->n_pos = pos.u.q->n;
  return GA_OK;
}

/* Position of `name` among the words of `params`; also counts the words. */
static int param_index(const char *params, const jj_str *name, int *n_params, int *n_needed) {
  int index = -1;
  *n_params = *n_needed = 0;
  for (const char *p = params; *p; p += strspn(p, " ")) {
    size_t n = strcspn(p, " ?");
    if (name && name->n == n && !memcmp(name->p, p, n)) index = *n_params;
    p += n;
    ++*n_params;
    if (*p == '?')
      p++;
    else
      *n_needed = *n_params;
  }
  return index;
}

static ga_status bind_args(const jj_def *def, const jj_args *args, jj_val v[JJ_MAX_PARAMS]) {
  bool no_names = def->params[0] == '/';
  const char *params = def->params + no_names;
  int n_params, n_needed, index;
  (void)param_index(params, NULL, &n_params, &n_needed);
  if (args->n_pos > (size_t)n_params)
    return ga_fail(GA_ERR_FORMAT, "%s: %zu arguments; takes (%s)", def->name, args->n_pos, params);
  if (args->n_kw && no_names)
    return ga_fail(GA_ERR_FORMAT, "%s: takes no named arguments, only (%s)", def->name, params);
  for (size_t i = 0; i < args->n_pos; i++) v[i] = args->pos[i];
  for (size_t i = 0; i < args->n_kw; i++) {
    const jj_str *name = args->kw[i].name;
    index = param_index(params, name, &n_params, &n_needed);
    if (index < 0 || v[index].kind != JJ_MISSING)
      return ga_fail(GA_ERR_FORMAT, "%s: argument '%.*s' is %s; takes (%s)", def->name,
                     (int)(name->n < 60 ? name->n : 60), name->p, index < 0 ? "unknown" : "given twice", params);
    v[index] = args->kw[i].value;
  }
  for (int i = 0; i < n_needed; i++)
    if (v[i].kind == JJ_MISSING) return ga_fail(GA_ERR_FORMAT, "%s: too few arguments; takes (%s)", def->name, params);
  return GA_OK;
}

ga_status ga_jj_call_def(jj_run *run, const jj_def *def, jj_val self, const jj_args *args, jj_val *out) {
  jj_call call = {.self = self, .args = args, .def = def};
  GA_TRY(ga_jj_enter(run));
  if (def->params[0] != '*') GA_TRY(bind_args(def, args, call.v));
  GA_TRY(def->fn(run, &call, out));
  run->depth_left++;
  return GA_OK;
}

ga_status ga_jj_call_value(jj_run *run, jj_val fn, const jj_args *args, jj_val *out) {
  GA_TRY(ga_jj_need_defined(fn));
  if (fn.kind == JJ_LOOP) return ga_jj_call_loop(run, fn.u.loop, args, out);
  if (fn.kind != JJ_FUNC) return ga_fail(GA_ERR_FORMAT, "a '%s' cannot be called", ga_jj_type(fn));
  if (fn.u.fn->macro) return ga_jj_call_macro(run, fn.u.fn, args, out);
  return ga_jj_call_def(run, fn.u.fn->def, fn.u.fn->self, args, out);
}

static ga_status eval_call(jj_run *run, jj_scope *scope, const jj_node *node, jj_val *out) {
  jj_val fn, self;
  jj_args args;
  if (node->a->kind == JN_ATTR) {
    GA_TRY(ga_jj_eval(run, scope, node->a->a, &self));
    GA_TRY(ga_jj_attr(run, self, node->a->name, &fn));
    if (fn.kind == JJ_UNDEF) return ga_jj_unknown_method(run->tpl, self, node->a->name);
  } else {
    GA_TRY(ga_jj_eval(run, scope, node->a, &fn));
  }
  GA_TRY(ga_jj_eval_args(run, scope, node->kids, &args));
  return ga_jj_call_value(run, fn, &args, out);
}

static ga_status apply_filter(jj_run *run, jj_scope *scope, const jj_node *node, jj_val operand, jj_val *out) {
  jj_args args;
  if (!node->def) return ga_jj_unknown_filter(run->tpl, node->name);
  GA_TRY(ga_jj_eval_args(run, scope, node->kids, &args));
  return ga_jj_call_def(run, node->def, operand, &args, out);
}

static ga_status eval_test(jj_run *run, jj_scope *scope, const jj_node *node, jj_val *out) {
  jj_val operand;
  jj_args args;
  if (!node->def) return ga_jj_unknown_test(run->tpl, node->name);
  GA_TRY(ga_jj_eval(run, scope, node->a, &operand));
  GA_TRY(ga_jj_eval_args(run, scope, node->kids, &args));
  return ga_jj_call_def(run, node->def, operand, &args, out);
}

ga_status ga_jj_eval_filters(jj_run *run, jj_scope *scope, const jj_node *node, jj_val text, jj_val *out) {
  *out = text;
  if (!node) return GA_OK;
  GA_TRY(ga_jj_enter(run));
  GA_TRY(ga_jj_eval_filters(run, scope, node->a, text, out));
  run->depth_left++;
  ga_status status = apply_filter(run, scope, node, *out, out);
  return status == GA_OK ? GA_OK : ga_jj_locate(run, node, status);
}

static ga_status eval_here(jj_run *run, jj_scope *scope, const jj_node *node, jj_val *out) {
  jj_val a;
  switch ((jj_node_kind)node->kind) {
  case JN_CONST: *out = node->value; return GA_OK;
  case JN_NAME: return eval_name(run, scope, node, out);
  case JN_LIST:
  case JN_TUPLE: return eval_seq(run, scope, node, out);
  case JN_DICT: return eval_dict(run, scope, node, out);
  case JN_NOT:
  case JN_NEG:
  case JN_POS: return eval_unary(run, scope, node, out);
  case JN_BINARY: return eval_binary(run, scope, node, out);
  case JN_AND:
  case JN_OR:
    GA_TRY(ga_jj_eval(run, scope, node->a, out));
    if (ga_jj_truth(*out) == (node->kind == JN_OR)) return GA_OK;
    return ga_jj_eval(run, scope, node->b, out);
  case JN_COMPARE: return eval_compare(run, scope, node, out);
  case JN_CONCAT: return eval_concat(run, scope, node, out);
  case JN_COND: return eval_cond(run, scope, node, out);
  case JN_ATTR: GA_TRY(ga_jj_eval(run, scope, node->a, &a)); return ga_jj_attr(run, a, node->name, out);
  case JN_ITEM: return eval_subscript(run, scope, node, out);
  case JN_CALL: return eval_call(run, scope, node, out);
  case JN_FILTER:
    if (!node->def) return ga_jj_unknown_filter(run->tpl, node->name);
    GA_TRY(ga_jj_eval(run, scope, node->a, &a));
    return apply_filter(run, scope, node, a, out);
  case JN_TEST: return eval_test(run, scope, node, out);
  default: return ga_fail(GA_ERR_UNSUPPORTED, "a slice stands alone in its brackets");
  }
}

ga_status ga_jj_eval(jj_run *run, jj_scope *scope, const jj_node *node, jj_val *out) {
  *out = (jj_val){.kind = JJ_MISSING};
  ga_status status = ga_jj_enter(run);
  if (status == GA_OK) status = eval_here(run, scope, node, out);
  if (status != GA_OK) return ga_jj_locate(run, node, status);
  run->depth_left++;
  return GA_OK;
}
