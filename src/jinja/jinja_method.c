/* Methods of strings that map and ask, of lists, dicts and loops. Transformers' sandbox refuses methods that change a
 * list or dict; append and pop are taken here, since templates written for other engines use them. */
#include <utf8proc.h>

#include "jinja/jinja_builtin.h"

JJ_BUILTIN(str_upper) { return ga_jj_recase(run, call->self.u.s, JJ_UPPER, out); }
JJ_BUILTIN(str_lower) { return ga_jj_recase(run, call->self.u.s, JJ_LOWER, out); }
JJ_BUILTIN(str_title) { return ga_jj_recase(run, call->self.u.s, JJ_TITLE, out); }
JJ_BUILTIN(str_capitalize) { return ga_jj_recase(run, call->self.u.s, JJ_CAPITALIZE, out); }
JJ_BUILTIN(str_swapcase) { return ga_jj_recase(run, call->self.u.s, JJ_SWAP, out); }

JJ_BUILTIN(str_join) {
  const jj_val *items;
  size_t n;
  jj_buf buf = {0};
  GA_TRY(ga_jj_items(run, call->v[0], &items, &n));
  for (size_t i = 0; i < n; i++) {
    GA_TRY(ga_jj_step(run, 1));
    if (items[i].kind != JJ_STR)
      return ga_fail(GA_ERR_FORMAT, "join: item %zu is a '%s'; all must be strings", i, ga_jj_type(items[i]));
    if (i) GA_TRY(ga_jj_put_str(run, &buf, call->self));
    GA_TRY(ga_jj_put_str(run, &buf, items[i]));
  }
  return ga_jj_buf_str(run, &buf, out);
}

static ga_status pad_method(jj_run *run, const jj_call *call, int side, jj_val *out) {
  int64_t width;
  jj_str *fill;
  GA_TRY(ga_jj_param_int(call, 0, 0, &width));
  GA_TRY(ga_jj_param_str(call, 1, &fill));
  return ga_jj_pad(run, call->self.u.s, width, side, fill, out);
}

JJ_BUILTIN(str_ljust) { return pad_method(run, call, -1, out); }
JJ_BUILTIN(str_rjust) { return pad_method(run, call, 1, out); }
JJ_BUILTIN(str_center) { return pad_method(run, call, 0, out); }

JJ_BUILTIN(str_zfill) {
  static const jj_str zero = {"0", 1, 1, NULL};
  jj_str *s = call->self.u.s, digits;
  int64_t width;
  jj_val rest;
  GA_TRY(ga_jj_param_int(call, 0, 0, &width));
  if (!s->n || (s->p[0] != '-' && s->p[0] != '+')) return ga_jj_pad(run, s, width, 1, &zero, out);
  digits = ga_jj_part(s, 1, s->n - 1);
  GA_TRY(ga_jj_pad(run, &digits, width > 0 ? width - 1 : 0, 1, &zero, &rest));
  GA_TRY(ga_jj_str_part(run, s, 0, 1, out));
  return ga_jj_binary(run, JO_ADD, *out, rest, out);
}

static bool is_alpha(int32_t c) {
  utf8proc_category_t k = utf8proc_category(c);
  return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}
static bool is_decimal(int32_t c) { return utf8proc_category(c) == UTF8PROC_CATEGORY_ND; }
static bool is_numeric(int32_t c) {
  utf8proc_category_t k = utf8proc_category(c);
  return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}
static bool is_alnum(int32_t c) { return is_alpha(c) || is_numeric(c); }

/* Non-empty, and `what` holds for every character. */
static ga_status all_points(jj_run *run, const jj_call *call, bool (*what)(int32_t), jj_val *out) {
  const jj_str *s = call->self.u.s;
  size_t len;
  bool all = s->n != 0;
  GA_TRY(ga_jj_step(run, s->n / 16));
  for (size_t at = 0; at < s->n && all; at += len) all = what(ga_jj_decode(s->p + at, s->p + s->n, &len));
  *out = ga_jj_bool(all);
  return GA_OK;
}

JJ_BUILTIN(str_isalpha) { return all_points(run, call, is_alpha, out); }
JJ_BUILTIN(str_isalnum) { return all_points(run, call, is_alnum, out); }
JJ_BUILTIN(str_isdigit) { return all_points(run, call, is_decimal, out); }
JJ_BUILTIN(str_isnumeric) { return all_points(run, call, is_numeric, out); }
JJ_BUILTIN(str_isspace) { return all_points(run, call, ga_jj_is_space, out); }

static ga_status test_method(jj_run *run, const jj_call *call, const char *name, jj_val *out) {
  const jj_str text = {name, strlen(name), JJ_POINTS_UNKNOWN, NULL};
  return ga_jj_test(run->tpl, &text)->fn(run, call, out);
}

JJ_BUILTIN(str_islower) { return test_method(run, call, "lower", out); }
JJ_BUILTIN(str_isupper) { return test_method(run, call, "upper", out); }

const jj_def ga_jj_methods_str2[] = {
    {"capitalize", "/", str_capitalize},
    {"center", "/width fillchar?", str_center},
    {"format", "*", ga_jj_brace_format},
    {"isalnum", "/", str_isalnum},
    {"isalpha", "/", str_isalpha},
    {"isdecimal", "/", str_isdigit},
    {"isdigit", "/", str_isdigit},
    {"islower", "/", str_islower},
    {"isnumeric", "/", str_isnumeric},
    {"isspace", "/", str_isspace},
    {"isupper", "/", str_isupper},
    {"join", "/iterable", str_join},
    {"ljust", "/width fillchar?", str_ljust},
    {"lower", "/", str_lower},
    {"rjust", "/width fillchar?", str_rjust},
    {"swapcase", "/", str_swapcase},
    {"title", "/", str_title},
    {"upper", "/", str_upper},
    {"zfill", "/width", str_zfill},
    {NULL, NULL, NULL},
};

JJ_BUILTIN(list_append) {
  *out = ga_jj_none();
  return ga_jj_seq_push(run, call->self.u.q, call->v[0]);
}

JJ_BUILTIN(list_pop) {
  jj_seq *q = call->self.u.q;
  int64_t i;
  GA_TRY(ga_jj_param_int(call, 0, -1, &i));
  if (i < 0) i += (int64_t)q->n;
  if (i < 0 || (uint64_t)i >= q->n) return ga_fail(GA_ERR_FORMAT, "pop: index out of range of %zu items", q->n);
  *out = q->v[i];
  /* Loops may be reading the old items: they keep them. */
  jj_val copy;
  GA_TRY(ga_jj_to_list(run, call->self, &copy));
  memmove(copy.u.q->v + i, copy.u.q->v + i + 1, (q->n - 1 - (size_t)i) * sizeof(jj_val));
  q->v = copy.u.q->v;
  q->cap = copy.u.q->cap;
  q->n--;
  return GA_OK;
}

JJ_BUILTIN(list_index) {
  const jj_seq *q = call->self.u.q;
  bool same = false;
  size_t i = 0;
  for (; i < q->n && !same; i++) GA_TRY(ga_jj_equal(run, q->v[i], call->v[0], &same));
  if (!same) return ga_fail(GA_ERR_FORMAT, "index: the value is not in the %s", ga_jj_type(call->self));
  *out = ga_jj_int((int64_t)i - 1);
  return GA_OK;
}

JJ_BUILTIN(list_count) {
  const jj_seq *q = call->self.u.q;
  int64_t n = 0;
  for (size_t i = 0; i < q->n; i++) {
    bool same;
    GA_TRY(ga_jj_equal(run, q->v[i], call->v[0], &same));
    n += same;
  }
  *out = ga_jj_int(n);
  return GA_OK;
}

/* append and pop first: what follows them is of tuples and ranges too. */
const jj_def ga_jj_methods_list[] = {
    {"append", "/object", list_append}, {"pop", "/index?", list_pop}, {"index", "/value", list_index},
    {"count", "/value", list_count},    {NULL, NULL, NULL},
};

static ga_status dict_view(jj_run *run, const jj_call *call, const char *view, jj_val *out) {
  const jj_dict *d = call->self.u.d;
  GA_TRY(ga_jj_seq_new(run, JJ_VIEW, d->n, out));
  out->u.q->view = view;
  for (size_t i = 0; i < d->n; i++) {
    jj_val v = view[5] == 'k' ? d->e[i].key : d->e[i].value;
    if (view[5] == 'i') {
      GA_TRY(ga_jj_seq_new(run, JJ_TUPLE, 2, &v));
      GA_TRY(ga_jj_seq_push(run, v.u.q, d->e[i].key));
      GA_TRY(ga_jj_seq_push(run, v.u.q, d->e[i].value));
    }
    GA_TRY(ga_jj_seq_push(run, out->u.q, v));
  }
  return GA_OK;
}

JJ_BUILTIN(dict_keys) { return dict_view(run, call, "dict_keys", out); }
JJ_BUILTIN(dict_values) { return dict_view(run, call, "dict_values", out); }
JJ_BUILTIN(dict_items) { return dict_view(run, call, "dict_items", out); }

JJ_BUILTIN(dict_get) {
  jj_val *found;
  GA_TRY(ga_jj_dict_find(run, call->self.u.d, call->v[0], &found));
  *out = found ? *found : call->v[1].kind == JJ_MISSING ? ga_jj_none() : call->v[1];
  return GA_OK;
}

JJ_BUILTIN(dict_pop) {
  jj_val *found;
  GA_TRY(ga_jj_dict_find(run, call->self.u.d, call->v[0], &found));
  if (!found && call->v[1].kind == JJ_MISSING) return ga_fail(GA_ERR_FORMAT, "pop: the dict has no such key");
  *out = found ? *found : call->v[1];
  return found ? ga_jj_dict_remove(run, call->self.u.d, found) : GA_OK;
}

JJ_BUILTIN(dict_copy) {
  const jj_dict *d = call->self.u.d;
  GA_TRY(ga_jj_dict_new(run, d->n, out));
  for (size_t i = 0; i < d->n; i++) GA_TRY(ga_jj_dict_set(run, out->u.d, d->e[i].key, d->e[i].value));
  return GA_OK;
}

const jj_def ga_jj_methods_dict[] = {
    {"copy", "/", dict_copy}, {"get", "/key default?", dict_get}, {"items", "/", dict_items},
    {"keys", "/", dict_keys}, {"pop", "/key default?", dict_pop}, {"values", "/", dict_values},
    {NULL, NULL, NULL},
};

JJ_BUILTIN(loop_cycle) {
  (void)run;
  if (!call->args->n_pos) return ga_fail(GA_ERR_FORMAT, "loop.cycle: takes at least one value");
  *out = call->args->pos[call->self.u.loop->index % call->args->n_pos];
  return GA_OK;
}

JJ_BUILTIN(loop_changed) {
  jj_loop *loop = call->self.u.loop;
  jj_val now;
  bool same;
  GA_TRY(ga_jj_seq_new(run, JJ_TUPLE, 0, &now));
  for (size_t i = 0; i < call->args->n_pos; i++) GA_TRY(ga_jj_seq_push(run, now.u.q, call->args->pos[i]));
  GA_TRY(ga_jj_equal(run, now, loop->changed, &same));
  loop->changed = now;
  *out = ga_jj_bool(!same);
  return GA_OK;
}

const jj_def ga_jj_methods_loop[] = {
    {"changed", "*", loop_changed},
    {"cycle", "*", loop_cycle},
    {NULL, NULL, NULL},
};
