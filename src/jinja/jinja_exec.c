/* Statements. A scope is a loop iteration, a macro call, or the body of set, call, filter, with and generation; `if`
 * has none. Reads look outwards, writes stay. */
#include "jinja/jinja.h"

ga_status ga_jj_scope_new(jj_run *run, jj_scope *parent, jj_scope **out) {
  void *scope;
  *out = NULL;
  GA_TRY(ga_jj_alloc(run, 1, sizeof(jj_scope), &scope));
  *out = scope;
  (*out)->parent = parent;
  return GA_OK;
}

ga_status ga_jj_scope_set(jj_run *run, jj_scope *scope, const jj_str *name, jj_val value) {
  uint64_t seen = 0;
  for (jj_var *var = scope->vars; var; var = var->next, seen++)
    if (var->name == name) {
      var->value = value;
      return ga_jj_step(run, seen / 8);
    }
  void *p;
  GA_TRY(ga_jj_step(run, seen / 8));
  GA_TRY(ga_jj_alloc(run, 1, sizeof(jj_var), &p));
  jj_var *var = p;
  *var = (jj_var){scope->vars, name, value};
  scope->vars = var;
  return GA_OK;
}

/* Text that `list` writes, as a string. */
static ga_status capture(jj_run *run, jj_scope *scope, const jj_node *list, jj_val *out) {
  jj_buf buf = {0}, *outer = run->out;
  run->out = &buf;
  GA_TRY(ga_jj_exec(run, scope, list));
  run->out = outer;
  return ga_jj_buf_str(run, &buf, out);
}

static ga_status assign_attr(jj_run *run, jj_scope *scope, const jj_node *target, jj_val value) {
  jj_val object, key = {.kind = JJ_STR, .u.s = target->name};
  GA_TRY(ga_jj_eval(run, scope, target->a, &object));
  if (object.kind != JJ_NS)
    return ga_fail(GA_ERR_FORMAT,
                   "set: '%.60s' is no namespace but a '%s'; only namespace() objects have attributes to set",
                   target->a->name->p, ga_jj_type(object));
  return ga_jj_dict_set(run, object.u.d, key, value);
}

static ga_status assign(jj_run *run, jj_scope *scope, const jj_node *target, jj_val value) {
  if (target->kind == JN_NAME) return ga_jj_scope_set(run, scope, target->name, value);
  if (target->kind == JN_ATTR) return assign_attr(run, scope, target, value);
  const jj_val *items;
  size_t n, wanted = 0, i = 0;
  GA_TRY(ga_jj_need_defined(value));
  GA_TRY(ga_jj_items(run, value, &items, &n));
  for (const jj_node *kid = target->kids; kid; kid = kid->next) wanted++;
  if (wanted != n) return ga_fail(GA_ERR_FORMAT, "assignment: %zu values for %zu names", n, wanted);
  for (const jj_node *kid = target->kids; kid; kid = kid->next) GA_TRY(assign(run, scope, kid, items[i++]));
  return GA_OK;
}

/* Items for which the loop's `if` holds. */
static ga_status filter_items(jj_run *run, jj_scope *scope, const jj_node *node, const jj_val **items, size_t *n) {
  jj_val kept, test;
  jj_scope *inner;
  GA_TRY(ga_jj_seq_new(run, JJ_LIST, 0, &kept));
  for (size_t i = 0; i < *n; i++) {
    GA_TRY(ga_jj_scope_new(run, scope, &inner));
    GA_TRY(assign(run, inner, node->a, (*items)[i]));
    GA_TRY(ga_jj_eval(run, inner, node->c, &test));
    if (ga_jj_truth(test)) GA_TRY(ga_jj_seq_push(run, kept.u.q, (*items)[i]));
  }
  *items = kept.u.q->v;
  *n = kept.u.q->n;
  return GA_OK;
}

/* *done = some iteration ran to the end of the body: only then Jinja passes over `else`. */
static ga_status iterate(jj_run *run, jj_scope *scope, const jj_node *node, jj_loop *loop, bool *done) {
  jj_val self = {.kind = JJ_LOOP, .u.loop = loop};
  jj_scope *inner;
  for (; loop->index < loop->n; loop->index++) {
    GA_TRY(ga_jj_step(run, 1));
    GA_TRY(ga_jj_scope_new(run, scope, &inner));
    GA_TRY(ga_jj_scope_set(run, inner, run->tpl->name_loop, self));
    GA_TRY(assign(run, inner, node->a, loop->items[loop->index]));
    GA_TRY(ga_jj_exec(run, inner, node->kids));
    jj_flow flow = run->flow;
    run->flow = JJ_FLOW_NEXT;
    *done = *done || flow == JJ_FLOW_NEXT;
    if (flow == JJ_FLOW_BREAK) break;
  }
  return GA_OK;
}

static ga_status exec_loop(jj_run *run, jj_scope *scope, const jj_node *node, jj_val over, int depth0) {
  const jj_val *items;
  size_t n;
  void *p;
  jj_scope *inner;
  bool done = false;
  GA_TRY(ga_jj_items(run, over, &items, &n));
  if (node->c) GA_TRY(filter_items(run, scope, node, &items, &n));
  GA_TRY(ga_jj_alloc(run, 1, sizeof(jj_loop), &p));
  jj_loop *loop = p;
  *loop = (jj_loop){.items = items, .n = n, .depth0 = depth0, .node = node->op ? node : NULL, .scope = scope};
  GA_TRY(iterate(run, scope, node, loop, &done));
  if (done || !node->d) return GA_OK;
  GA_TRY(ga_jj_scope_new(run, scope, &inner));
  return ga_jj_exec(run, inner, node->d->kids);
}

ga_status ga_jj_call_loop(jj_run *run, jj_loop *loop, const jj_args *args, jj_val *out) {
  if (!loop->node) return ga_fail(GA_ERR_FORMAT, "loop: only a 'for ... recursive' can be called");
  if (args->n_pos != 1 || args->n_kw) return ga_fail(GA_ERR_FORMAT, "loop: takes one sequence");
  jj_buf buf = {0}, *outer = run->out;
  run->out = &buf;
  GA_TRY(ga_jj_enter(run));
  GA_TRY(exec_loop(run, loop->scope, loop->node, args->pos[0], loop->depth0 + 1));
  run->depth_left++;
  run->out = outer;
  return ga_jj_buf_str(run, &buf, out);
}

static ga_status exec_for(jj_run *run, jj_scope *scope, const jj_node *node) {
  jj_val over;
  GA_TRY(ga_jj_eval(run, scope, node->b, &over));
  return exec_loop(run, scope, node, over, 0);
}

static ga_status exec_if(jj_run *run, jj_scope *scope, const jj_node *node) {
  jj_val test;
  for (; node; node = node->b) {
    if (node->kind == JN_BLOCK) return ga_jj_exec(run, scope, node->kids);
    GA_TRY(ga_jj_eval(run, scope, node->a, &test));
    if (ga_jj_truth(test)) return ga_jj_exec(run, scope, node->kids);
  }
  return GA_OK;
}

static ga_status exec_set(jj_run *run, jj_scope *scope, const jj_node *node) {
  jj_val value;
  jj_scope *inner;
  if (node->kind == JN_SET) {
    GA_TRY(ga_jj_eval(run, scope, node->b, &value));
  } else {
    GA_TRY(ga_jj_scope_new(run, scope, &inner));
    GA_TRY(capture(run, inner, node->kids, &value));
    GA_TRY(ga_jj_eval_filters(run, scope, node->b, value, &value));
  }
  return assign(run, scope, node->a, value);
}

/* Macros */

static ga_status new_macro(jj_run *run, jj_scope *scope, const jj_node *node, jj_val *out) {
  void *fn;
  GA_TRY(ga_jj_alloc(run, 1, sizeof(jj_func), &fn));
  *out = (jj_val){.kind = JJ_FUNC, .u.fn = fn};
  out->u.fn->macro = node;
  out->u.fn->scope = scope;
  return GA_OK;
}

static const char *macro_name(const jj_node *macro) { return macro->name ? macro->name->p : "caller"; }

static const jj_kw *find_kw(const jj_args *args, const jj_str *name) {
  for (size_t i = 0; i < args->n_kw; i++)
    if (ga_jj_str_eq(args->kw[i].name, name)) return &args->kw[i];
  return NULL;
}

static bool is_param(const jj_node *macro, const jj_str *name) {
  for (const jj_node *param = macro->kids; param; param = param->next)
    if (ga_jj_str_eq(param->name, name)) return true;
  return false;
}

/* Arguments no parameter takes: varargs, kwargs and caller where the body speaks of them, else errors. */
static ga_status bind_rest(jj_run *run, const jj_node *macro, const jj_args *args, size_t n_params, jj_scope *scope) {
  jj_val rest;
  if (args->n_pos > n_params && !(macro->op & JJ_MACRO_VARARGS))
    return ga_fail(GA_ERR_FORMAT, "macro '%.60s': %zu arguments; takes %zu", macro_name(macro), args->n_pos, n_params);
  if (macro->op & JJ_MACRO_VARARGS) {
    GA_TRY(ga_jj_seq_new(run, JJ_TUPLE, 0, &rest));
    for (size_t i = n_params; i < args->n_pos; i++) GA_TRY(ga_jj_seq_push(run, rest.u.q, args->pos[i]));
    GA_TRY(ga_jj_scope_set(run, scope, run->tpl->name_varargs, rest));
  }
  GA_TRY(ga_jj_dict_new(run, 0, &rest));
  for (size_t i = 0; i < args->n_kw; i++) {
    const jj_str *name = args->kw[i].name;
    bool caller = ga_jj_str_eq(name, run->tpl->name_caller);
    if (is_param(macro, name)) continue;
    if (caller && (macro->op & JJ_MACRO_CALLER)) {
      GA_TRY(ga_jj_scope_set(run, scope, run->tpl->name_caller, args->kw[i].value));
    } else if (!caller && (macro->op & JJ_MACRO_KWARGS)) {
      jj_val key;
      GA_TRY(ga_jj_str_part(run, name, 0, name->n, &key));
      GA_TRY(ga_jj_dict_set(run, rest.u.d, key, args->kw[i].value));
    } else {
      return ga_fail(GA_ERR_FORMAT, "macro '%.60s': takes no argument '%.60s'", macro_name(macro), name->p);
    }
  }
  if (macro->op & JJ_MACRO_KWARGS) return ga_jj_scope_set(run, scope, run->tpl->name_kwargs, rest);
  return GA_OK;
}

static ga_status bind_params(jj_run *run, const jj_node *macro, const jj_args *args, jj_scope *scope) {
  size_t n = 0;
  for (const jj_node *param = macro->kids; param; param = param->next, n++) {
    const jj_kw *kw = find_kw(args, param->name);
    jj_val value = ga_jj_undef(param->name);
    if (kw && n < args->n_pos)
      return ga_fail(GA_ERR_FORMAT, "macro '%.60s': argument '%.60s' is given twice", macro_name(macro),
                     param->name->p);
    if (n < args->n_pos)
      value = args->pos[n];
    else if (kw)
      value = kw->value;
    else if (param->a)
      GA_TRY(ga_jj_eval(run, scope, param->a, &value));
    GA_TRY(ga_jj_scope_set(run, scope, param->name, value));
    GA_TRY(ga_jj_step(run, 1 + args->n_kw / 8));
  }
  return bind_rest(run, macro, args, n, scope);
}

ga_status ga_jj_call_macro(jj_run *run, const jj_func *fn, const jj_args *args, jj_val *out) {
  jj_scope *scope;
  GA_TRY(ga_jj_enter(run));
  GA_TRY(ga_jj_scope_new(run, fn->scope, &scope));
  if (fn->macro->op & JJ_MACRO_CALLER)
    GA_TRY(ga_jj_scope_set(run, scope, run->tpl->name_caller, ga_jj_undef(run->tpl->name_caller)));
  GA_TRY(bind_params(run, fn->macro, args, scope));
  GA_TRY(capture(run, scope, fn->macro->b->kids, out));
  run->depth_left++;
  return GA_OK;
}

static ga_status exec_macro(jj_run *run, jj_scope *scope, const jj_node *node) {
  jj_val macro;
  GA_TRY(new_macro(run, scope, node, &macro));
  return ga_jj_scope_set(run, scope, node->name, macro);
}

static ga_status exec_call(jj_run *run, jj_scope *scope, const jj_node *node) {
  jj_val fn, caller, text;
  jj_args args;
  void *kw;
  GA_TRY(new_macro(run, scope, node, &caller));
  GA_TRY(ga_jj_eval(run, scope, node->a->a, &fn));
  GA_TRY(ga_jj_eval_args(run, scope, node->a->kids, &args));
  GA_TRY(ga_jj_alloc(run, args.n_kw + 1, sizeof(jj_kw), &kw));
  if (args.n_kw) memcpy(kw, args.kw, args.n_kw * sizeof(jj_kw));
  args.kw = kw;
  args.kw[args.n_kw++] = (jj_kw){run->tpl->name_caller, caller};
  GA_TRY(ga_jj_call_value(run, fn, &args, &text));
  return ga_jj_put_str(run, run->out, text);
}

static ga_status exec_filter(jj_run *run, jj_scope *scope, const jj_node *node) {
  jj_scope *inner;
  jj_val text;
  GA_TRY(ga_jj_scope_new(run, scope, &inner));
  GA_TRY(capture(run, inner, node->kids, &text));
  GA_TRY(ga_jj_eval_filters(run, scope, node->a, text, &text));
  return ga_jj_put_str(run, run->out, text);
}

static ga_status exec_with(jj_run *run, jj_scope *scope, const jj_node *node) {
  jj_scope *inner;
  jj_val value;
  GA_TRY(ga_jj_scope_new(run, scope, &inner));
  for (const jj_node *kid = node->kids; kid; kid = kid->next) {
    GA_TRY(ga_jj_eval(run, scope, kid->b, &value));
    GA_TRY(assign(run, inner, kid->a, value));
  }
  return ga_jj_exec(run, inner, node->b->kids);
}

static ga_status exec_here(jj_run *run, jj_scope *scope, const jj_node *node) {
  jj_val value;
  jj_scope *inner;
  switch ((jj_node_kind)node->kind) {
  case JN_TEXT: return ga_jj_buf_put(run, run->out, node->value.u.s->p, node->value.u.s->n);
  case JN_OUTPUT: GA_TRY(ga_jj_eval(run, scope, node->a, &value)); return ga_jj_put_str(run, run->out, value);
  case JN_IF: return exec_if(run, scope, node);
  case JN_FOR: return exec_for(run, scope, node);
  case JN_SET:
  case JN_SET_BLOCK: return exec_set(run, scope, node);
  case JN_MACRO: return exec_macro(run, scope, node);
  case JN_CALL_BLOCK: return exec_call(run, scope, node);
  case JN_FILTER_BLOCK: return exec_filter(run, scope, node);
  case JN_WITH: return exec_with(run, scope, node);
  case JN_SCOPE: GA_TRY(ga_jj_scope_new(run, scope, &inner)); return ga_jj_exec(run, inner, node->kids);
  case JN_BREAK: run->flow = JJ_FLOW_BREAK; return GA_OK;
  case JN_CONTINUE: run->flow = JJ_FLOW_CONTINUE; return GA_OK;
  default: return ga_fail(GA_ERR_INTERNAL, "template node of kind %d", node->kind);
  }
}

ga_status ga_jj_exec(jj_run *run, jj_scope *scope, const jj_node *list) {
  for (; list && run->flow == JJ_FLOW_NEXT; list = list->next) {
    ga_status status = ga_jj_enter(run);
    if (status == GA_OK) status = exec_here(run, scope, list);
    if (status != GA_OK) return ga_jj_locate(run, list, status);
    run->depth_left++;
  }
  return GA_OK;
}
