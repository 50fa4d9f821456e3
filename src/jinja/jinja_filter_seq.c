/* Filters of sequences and dicts. Those that are lazy in Jinja return JJ_GEN, already computed: what a generator would
 * do as a value (always true, no length) is kept, its timing is not. */
#include "jinja/jinja_builtin.h"

static jj_str no_item = {"item of an empty sequence", 25, 25, NULL};

ga_status ga_jj_to_list(jj_run *run, jj_val v, jj_val *out) {
  const jj_val *items;
  size_t n;
  GA_TRY(ga_jj_items(run, v, &items, &n));
  GA_TRY(ga_jj_seq_new(run, JJ_LIST, n, out));
  if (n) memcpy(out->u.q->v, items, n * sizeof *items);
  out->u.q->n = n;
  return GA_OK;
}

JJ_BUILTIN(filter_list) { return ga_jj_to_list(run, call->self, out); }

JJ_BUILTIN(filter_length) {
  jj_val v = call->self;
  (void)run;
  switch (v.kind) {
  case JJ_UNDEF: *out = ga_jj_int(0); return GA_OK;
  case JJ_STR: *out = ga_jj_int((int64_t)ga_jj_str_points(v.u.s)); return GA_OK;
  case JJ_LIST:
  case JJ_TUPLE:
  case JJ_RANGE:
  case JJ_VIEW: *out = ga_jj_int((int64_t)v.u.q->n); return GA_OK;
  case JJ_DICT: *out = ga_jj_int((int64_t)v.u.d->n); return GA_OK;
  case JJ_LOOP: *out = ga_jj_int((int64_t)v.u.loop->n); return GA_OK;
  default: return ga_fail(GA_ERR_FORMAT, "length: a '%s' has none; strings, lists and dicts have", ga_jj_type(v));
  }
}

JJ_BUILTIN(filter_first) {
  const jj_val *items;
  size_t n;
  GA_TRY(ga_jj_items(run, call->self, &items, &n));
  *out = n ? items[0] : ga_jj_undef(&no_item);
  return GA_OK;
}

JJ_BUILTIN(filter_last) {
  const jj_val *items;
  size_t n;
  if (call->self.kind == JJ_GEN)
    return ga_fail(GA_ERR_FORMAT, "last: a generator has no end to start from; use |list|last");
  GA_TRY(ga_jj_items(run, call->self, &items, &n));
  *out = n ? items[n - 1] : ga_jj_undef(&no_item);
  return GA_OK;
}

JJ_BUILTIN(filter_reverse) {
  const jj_val bounds[3] = {ga_jj_none(), ga_jj_none(), ga_jj_int(-1)};
  if (call->self.kind == JJ_STR) return ga_jj_slice(run, call->self, bounds, out);
  GA_TRY(ga_jj_to_list(run, call->self, out));
  GA_TRY(ga_jj_slice(run, *out, bounds, out));
  out->kind = call->self.kind == JJ_GEN ? JJ_LIST : JJ_GEN;
  return GA_OK;
}

JJ_BUILTIN(filter_items) {
  jj_val v = call->self;
  GA_TRY(ga_jj_seq_new(run, JJ_GEN, 0, out));
  if (v.kind == JJ_UNDEF) return GA_OK;
  if (v.kind != JJ_DICT) return ga_fail(GA_ERR_FORMAT, "items: takes a dict, not '%s'", ga_jj_type(v));
  for (size_t i = 0; i < v.u.d->n; i++) {
    jj_val pair;
    GA_TRY(ga_jj_seq_new(run, JJ_TUPLE, 2, &pair));
    GA_TRY(ga_jj_seq_push(run, pair.u.q, v.u.d->e[i].key));
    GA_TRY(ga_jj_seq_push(run, pair.u.q, v.u.d->e[i].value));
    GA_TRY(ga_jj_seq_push(run, out->u.q, pair));
  }
  return GA_OK;
}

JJ_BUILTIN(filter_join) {
  const jj_val *items;
  size_t n;
  jj_buf buf = {0};
  jj_val d, v;
  GA_TRY(ga_jj_items(run, call->self, &items, &n));
  d = (jj_val){.kind = JJ_UNDEF}; /* prints as nothing */
  if (call->v[0].kind != JJ_MISSING) GA_TRY(ga_jj_to_str(run, call->v[0], &d));
  for (size_t i = 0; i < n; i++) {
    GA_TRY(ga_jj_step(run, 1));
    if (i) GA_TRY(ga_jj_put_str(run, &buf, d));
    GA_TRY(ga_jj_path(run, items[i], call->v[1], ga_jj_none(), &v));
    GA_TRY(ga_jj_put_str(run, &buf, v));
  }
  return ga_jj_buf_str(run, &buf, out);
}

/* Arguments after the first `n`. */
static jj_args args_from(const jj_args *args, size_t n) {
  return (jj_args){n ? args->pos + n : args->pos, args->n_pos - n, args->kw, args->n_kw};
}

static const jj_val *find_kw_text(const jj_args *args, const char *name) {
  for (size_t i = 0; i < args->n_kw; i++)
    if (ga_jj_str_is(args->kw[i].name, name)) return &args->kw[i].value;
  return NULL;
}

static ga_status map_attribute(jj_run *run, const jj_call *call, jj_val path, const jj_val *fallback, jj_seq *to) {
  const jj_val *items;
  size_t n;
  GA_TRY(ga_jj_items(run, call->self, &items, &n));
  for (size_t i = 0; i < n; i++) {
    jj_val v;
    GA_TRY(ga_jj_step(run, 1));
    GA_TRY(ga_jj_path(run, items[i], path, fallback ? *fallback : ga_jj_none(), &v));
    GA_TRY(ga_jj_seq_push(run, to, v));
  }
  return GA_OK;
}

JJ_BUILTIN(filter_map) {
  const jj_args *args = call->args;
  const jj_val *items, *path = find_kw_text(args, "attribute");
  size_t n;
  GA_TRY(ga_jj_seq_new(run, JJ_GEN, 0, out));
  if (!ga_jj_truth(call->self)) return GA_OK; /* before any complaint, as in Jinja */
  if (!args->n_pos && path) return map_attribute(run, call, *path, find_kw_text(args, "default"), out->u.q);
  if (!args->n_pos || args->pos[0].kind != JJ_STR)
    return ga_fail(GA_ERR_FORMAT, "map: takes the name of a filter, or attribute='name'");
  const jj_def *def = ga_jj_filter(run->tpl, args->pos[0].u.s);
  if (!def) return ga_jj_unknown_filter(run->tpl, args->pos[0].u.s);
  jj_args rest = args_from(args, 1);
  GA_TRY(ga_jj_items(run, call->self, &items, &n));
  for (size_t i = 0; i < n; i++) {
    jj_val v;
    GA_TRY(ga_jj_call_def(run, def, items[i], &rest, &v));
    GA_TRY(ga_jj_seq_push(run, out->u.q, v));
  }
  return GA_OK;
}

/* select, reject (path = NULL) and selectattr, rejectattr. */
static ga_status select_items(jj_run *run, const jj_call *call, bool by_attribute, bool wanted, jj_val *out) {
  const jj_args *args = call->args;
  const jj_val *items;
  const jj_def *def = NULL;
  size_t n, used = by_attribute;
  GA_TRY(ga_jj_seq_new(run, JJ_GEN, 0, out));
  if (!ga_jj_truth(call->self)) return GA_OK; /* before any complaint, as in Jinja */
  if (by_attribute && !args->n_pos)
    return ga_fail(GA_ERR_FORMAT, "%s: takes the name of an attribute first", call->def->name);
  if (args->n_pos > used) {
    if (args->pos[used].kind != JJ_STR)
      return ga_fail(GA_ERR_FORMAT, "%s: the name of a test is a string", call->def->name);
    def = ga_jj_test(run->tpl, args->pos[used].u.s);
    if (!def) return ga_jj_unknown_test(run->tpl, args->pos[used].u.s);
    used++;
  }
  jj_args rest = args_from(args, used);
  GA_TRY(ga_jj_items(run, call->self, &items, &n));
  for (size_t i = 0; i < n; i++) {
    jj_val v = items[i], verdict;
    if (by_attribute) GA_TRY(ga_jj_path(run, v, args->pos[0], ga_jj_none(), &v));
    verdict = v;
    if (def) GA_TRY(ga_jj_call_def(run, def, v, &rest, &verdict));
    GA_TRY(ga_jj_step(run, 1));
    if (ga_jj_truth(verdict) == wanted) GA_TRY(ga_jj_seq_push(run, out->u.q, items[i]));
  }
  return GA_OK;
}

JJ_BUILTIN(filter_select) { return select_items(run, call, false, true, out); }
JJ_BUILTIN(filter_reject) { return select_items(run, call, false, false, out); }
JJ_BUILTIN(filter_selectattr) { return select_items(run, call, true, true, out); }
JJ_BUILTIN(filter_rejectattr) { return select_items(run, call, true, false, out); }

JJ_BUILTIN(filter_sum) {
  const jj_val *items;
  size_t n;
  GA_TRY(ga_jj_items(run, call->self, &items, &n));
  *out = call->v[1].kind == JJ_MISSING ? ga_jj_int(0) : call->v[1];
  for (size_t i = 0; i < n; i++) {
    jj_val v;
    GA_TRY(ga_jj_path(run, items[i], call->v[0], ga_jj_none(), &v));
    GA_TRY(ga_jj_binary(run, JO_ADD, *out, v, out));
    GA_TRY(ga_jj_step(run, 1));
  }
  return GA_OK;
}

typedef struct sort_spec {
  jj_val path, fallback; /* attribute, and what stands for one that is missing (none: nothing does) */
  bool case_sensitive, reverse;
  bool alone; /* the key is the value itself, not a list of values */
} sort_spec;

/* What items are sorted and compared by: their attribute, strings in lower case unless case_sensitive. */
static ga_status key_of_item(jj_run *run, jj_val item, const sort_spec *by, jj_val path, jj_val *key) {
  GA_TRY(ga_jj_path(run, item, path, by->fallback, key));
  if (key->kind == JJ_STR && !by->case_sensitive) return ga_jj_recase(run, key->u.s, JJ_LOWER, key);
  return GA_OK;
}

static ga_status extreme(jj_run *run, const jj_call *call, int sign, jj_val *out) {
  const jj_val *items;
  size_t n;
  jj_val best = {.kind = JJ_MISSING}, key;
  const sort_spec by = {call->v[1], ga_jj_none(), ga_jj_param_flag(call, 0), false, true};
  GA_TRY(ga_jj_items(run, call->self, &items, &n));
  *out = ga_jj_undef(&no_item);
  for (size_t i = 0; i < n; i++) {
    int c = sign;
    GA_TRY(key_of_item(run, items[i], &by, by.path, &key));
    if (i) GA_TRY(ga_jj_order(run, key, best, &c));
    if (c * sign <= 0) continue;
    best = key;
    *out = items[i];
  }
  return GA_OK;
}

JJ_BUILTIN(filter_max) { return extreme(run, call, 1, out); }
JJ_BUILTIN(filter_min) { return extreme(run, call, -1, out); }

/* "a,b" sorts by a, then by b. A list even of one, as in Jinja: lists of equal values are equal where the values alone
 * (two undefined ones) have no order. */
static ga_status multi_key(jj_run *run, jj_val item, const sort_spec *by, jj_val *key) {
  jj_val one;
  if (by->alone) return key_of_item(run, item, by, by->path, key);
  GA_TRY(ga_jj_seq_new(run, JJ_LIST, 0, key));
  if (by->path.kind != JJ_STR) {
    GA_TRY(key_of_item(run, item, by, by->path, &one));
    return ga_jj_seq_push(run, key->u.q, one);
  }
  const jj_str *path = by->path.u.s;
  const char *p = path->p, *end = p + path->n;
  while (p <= end) {
    const char *comma = p < end ? memchr(p, ',', (size_t)(end - p)) : NULL;
    jj_val part, v;
    if (!comma) comma = end;
    GA_TRY(ga_jj_str_part(run, path, (size_t)(p - path->p), (size_t)(comma - p), &part));
    GA_TRY(key_of_item(run, item, by, part, &v));
    GA_TRY(ga_jj_seq_push(run, key->u.q, v));
    p = comma + 1;
  }
  return GA_OK;
}

/* Sorted list of `self`, and the keys it was sorted by. */
static ga_status sort_by(jj_run *run, jj_val self, const sort_spec *by, jj_val *out, jj_val *keys) {
  GA_TRY(ga_jj_to_list(run, self, out));
  jj_seq *q = out->u.q;
  GA_TRY(ga_jj_seq_new(run, JJ_LIST, q->n, keys));
  for (size_t i = 0; i < q->n; i++) GA_TRY(multi_key(run, q->v[i], by, &keys->u.q->v[i]));
  keys->u.q->n = q->n;
  return ga_jj_sort(run, keys->u.q->v, q->v, q->n, by->reverse);
}

JJ_BUILTIN(filter_sort) {
  jj_val keys;
  const sort_spec by = {call->v[2], ga_jj_none(), ga_jj_param_flag(call, 1), ga_jj_param_flag(call, 0), false};
  return sort_by(run, call->self, &by, out, &keys);
}

JJ_BUILTIN(filter_dictsort) {
  jj_val pairs, keys;
  jj_str *by;
  GA_TRY(ga_jj_param_str(call, 1, &by));
  bool by_value = by && ga_jj_str_is(by, "value");
  if (by && !by_value && !ga_jj_str_is(by, "key")) return ga_fail(GA_ERR_FORMAT, "dictsort: by is 'key' or 'value'");
  GA_TRY(ga_jj_need_defined(call->self));
  GA_TRY(filter_items(run, call, &pairs));
  const sort_spec spec = {ga_jj_int(by_value), ga_jj_none(), ga_jj_param_flag(call, 0), ga_jj_param_flag(call, 2),
                          true};
  return sort_by(run, pairs, &spec, out, &keys);
}

JJ_BUILTIN(filter_unique) {
  const jj_val *items;
  size_t n;
  jj_val seen, key, *found;
  const sort_spec by = {call->v[1], ga_jj_none(), ga_jj_param_flag(call, 0), false, true};
  GA_TRY(ga_jj_items(run, call->self, &items, &n));
  GA_TRY(ga_jj_dict_new(run, 0, &seen));
  GA_TRY(ga_jj_seq_new(run, JJ_GEN, 0, out));
  for (size_t i = 0; i < n; i++) {
    GA_TRY(key_of_item(run, items[i], &by, by.path, &key));
    GA_TRY(ga_jj_dict_find(run, seen.u.d, key, &found));
    if (found) continue;
    GA_TRY(ga_jj_dict_set(run, seen.u.d, key, ga_jj_none()));
    GA_TRY(ga_jj_seq_push(run, out->u.q, items[i]));
  }
  return GA_OK;
}

JJ_BUILTIN(filter_groupby) {
  jj_val sorted, keys, group, real;
  bool same;
  const sort_spec by = {call->v[0], call->v[1], ga_jj_param_flag(call, 2), false, true};
  GA_TRY(sort_by(run, call->self, &by, &sorted, &keys));
  GA_TRY(ga_jj_seq_new(run, JJ_LIST, 0, out));
  group = (jj_val){.kind = JJ_MISSING};
  for (size_t i = 0; i < sorted.u.q->n; i++) {
    same = false;
    if (i) GA_TRY(ga_jj_equal(run, keys.u.q->v[i - 1], keys.u.q->v[i], &same));
    if (!same) {
      jj_val pair;
      GA_TRY(ga_jj_path(run, sorted.u.q->v[i], by.path, by.fallback, &real));
      GA_TRY(ga_jj_seq_new(run, JJ_LIST, 0, &group));
      GA_TRY(ga_jj_seq_new(run, JJ_TUPLE, 2, &pair));
      pair.u.q->view = "group"; /* .grouper and .list */
      GA_TRY(ga_jj_seq_push(run, pair.u.q, real));
      GA_TRY(ga_jj_seq_push(run, pair.u.q, group));
      GA_TRY(ga_jj_seq_push(run, out->u.q, pair));
    }
    GA_TRY(ga_jj_seq_push(run, group.u.q, sorted.u.q->v[i]));
  }
  return GA_OK;
}

JJ_BUILTIN(filter_batch) {
  const jj_val *items;
  size_t n;
  int64_t width;
  jj_val row;
  GA_TRY(ga_jj_param_int(call, 0, 1, &width));
  GA_TRY(ga_jj_items(run, call->self, &items, &n));
  GA_TRY(ga_jj_seq_new(run, JJ_GEN, 0, out));
  GA_TRY(ga_jj_seq_new(run, JJ_LIST, 0, &row));
  for (size_t i = 0; i < n; i++) {
    if ((int64_t)row.u.q->n == width) { /* for 0: an empty row and then one of everything, as in Jinja */
      GA_TRY(ga_jj_seq_push(run, out->u.q, row));
      GA_TRY(ga_jj_seq_new(run, JJ_LIST, 0, &row));
    }
    GA_TRY(ga_jj_seq_push(run, row.u.q, items[i]));
  }
  if (!row.u.q->n) return GA_OK;
  bool fill = call->v[1].kind != JJ_MISSING && call->v[1].kind != JJ_NONE;
  while (fill && (int64_t)row.u.q->n < width) GA_TRY(ga_jj_seq_push(run, row.u.q, call->v[1]));
  return ga_jj_seq_push(run, out->u.q, row);
}

const jj_def ga_jj_filters_seq[] = {
    {"batch", "linecount fill_with?", filter_batch},
    {"count", "", filter_length},
    {"dictsort", "case_sensitive? by? reverse?", filter_dictsort},
    {"first", "", filter_first},
    {"groupby", "attribute default? case_sensitive?", filter_groupby},
    {"items", "", filter_items},
    {"join", "d? attribute?", filter_join},
    {"last", "", filter_last},
    {"length", "", filter_length},
    {"list", "", filter_list},
    {"map", "*", filter_map},
    {"max", "case_sensitive? attribute?", filter_max},
    {"min", "case_sensitive? attribute?", filter_min},
    {"reject", "*", filter_reject},
    {"rejectattr", "*", filter_rejectattr},
    {"reverse", "", filter_reverse},
    {"select", "*", filter_select},
    {"selectattr", "*", filter_selectattr},
    {"sort", "reverse? case_sensitive? attribute?", filter_sort},
    {"sum", "attribute? start?", filter_sum},
    {"unique", "case_sensitive? attribute?", filter_unique},
    {NULL, NULL, NULL},
};
