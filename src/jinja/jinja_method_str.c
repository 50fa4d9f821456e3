/* Methods of strings that cut, search and replace. */
#include "jinja/jinja_builtin.h"

static ga_status strip_method(jj_run *run, const jj_call *call, int sides, jj_val *out) {
  jj_str *chars;
  GA_TRY(ga_jj_param_str(call, 0, &chars));
  return ga_jj_strip_paid(run, call->self.u.s, chars, sides, out);
}

JJ_BUILTIN(str_strip) { return strip_method(run, call, JJ_STRIP_LEFT | JJ_STRIP_RIGHT, out); }
JJ_BUILTIN(str_lstrip) { return strip_method(run, call, JJ_STRIP_LEFT, out); }
JJ_BUILTIN(str_rstrip) { return strip_method(run, call, JJ_STRIP_RIGHT, out); }

static ga_status push_part(jj_run *run, const jj_str *s, size_t begin, size_t end, jj_val list) {
  jj_val part;
  GA_TRY(ga_jj_step(run, 1));
  GA_TRY(ga_jj_str_part(run, s, begin, end - begin, &part));
  return ga_jj_seq_push(run, list.u.q, part);
}

static ga_status split_at(jj_run *run, const jj_str *s, const jj_str *sep, int64_t most, jj_val list) {
  size_t at = 0, hit;
  while (most-- && (hit = ga_jj_find(s, sep, at)) != SIZE_MAX) {
    GA_TRY(push_part(run, s, at, hit, list));
    at = hit + sep->n;
  }
  return push_part(run, s, at, s->n, list);
}

static ga_status split_space(jj_run *run, const jj_str *s, int64_t most, jj_val list) {
  jj_str rest = *s;
  while (rest = ga_jj_strip(&rest, NULL, JJ_STRIP_LEFT), rest.n) {
    size_t end = 0, len;
    if (!most--) return push_part(run, &rest, 0, rest.n, list);
    for (; end < rest.n; end += len)
      if (ga_jj_is_space(ga_jj_decode(rest.p + end, rest.p + rest.n, &len))) break;
    GA_TRY(push_part(run, &rest, 0, end, list));
    rest = ga_jj_part(&rest, end, rest.n - end);
  }
  return GA_OK;
}

/* From the right, parts come in the wrong order. */
static void reverse_list(jj_seq *q) {
  for (size_t i = 0; i < q->n / 2; i++) {
    jj_val v = q->v[i];
    q->v[i] = q->v[q->n - 1 - i];
    q->v[q->n - 1 - i] = v;
  }
}

static ga_status rsplit_at(jj_run *run, const jj_str *s, const jj_str *sep, int64_t most, jj_val list) {
  jj_str rest = *s;
  while (most--) {
    size_t hit;
    GA_TRY(ga_jj_step(run, rest.n / 64));
    GA_TRY(ga_jj_rfind(run, &rest, sep, &hit));
    if (hit == SIZE_MAX) break;
    GA_TRY(push_part(run, &rest, hit + sep->n, rest.n, list));
    rest.n = hit;
  }
  GA_TRY(push_part(run, &rest, 0, rest.n, list));
  reverse_list(list.u.q);
  return GA_OK;
}

static ga_status rsplit_space(jj_run *run, const jj_str *s, int64_t most, jj_val list) {
  jj_str rest = *s;
  while (rest = ga_jj_strip(&rest, NULL, JJ_STRIP_RIGHT), rest.n) {
    if (!most--) {
      GA_TRY(push_part(run, &rest, 0, rest.n, list));
      break;
    }
    size_t begin = rest.n, len;
    while (begin) {
      size_t last = begin - 1;
      while (last && ((unsigned char)rest.p[last] & 0xc0) == 0x80) last--;
      if (ga_jj_is_space(ga_jj_decode(rest.p + last, rest.p + rest.n, &len))) break;
      begin = last;
    }
    GA_TRY(push_part(run, &rest, begin, rest.n, list));
    rest.n = begin;
  }
  reverse_list(list.u.q);
  return GA_OK;
}

static ga_status split_method(jj_run *run, const jj_call *call, bool right, jj_val *out) {
  const jj_str *s = call->self.u.s;
  jj_str *sep;
  int64_t most;
  GA_TRY(ga_jj_param_str(call, 0, &sep));
  GA_TRY(ga_jj_param_int(call, 1, -1, &most));
  if (sep && !sep->n) return ga_fail(GA_ERR_FORMAT, "%s: the separator is empty", call->def->name);
  GA_TRY(ga_jj_step(run, s->n / 64));
  GA_TRY(ga_jj_seq_new(run, JJ_LIST, 0, out));
  if (!sep) return right ? rsplit_space(run, s, most, *out) : split_space(run, s, most, *out);
  /* Splitting off everything gives the same parts from either side unless separators overlap, as "aa" in "aaa". */
  return right ? rsplit_at(run, s, sep, most, *out) : split_at(run, s, sep, most, *out);
}

JJ_BUILTIN(str_split) { return split_method(run, call, false, out); }
JJ_BUILTIN(str_rsplit) { return split_method(run, call, true, out); }
JJ_BUILTIN(str_splitlines) { return ga_jj_splitlines(run, call->self.u.s, ga_jj_param_flag(call, 0), out); }

/* The part of self that start and end (v[first], v[first + 1]) leave; `base` = code points before it. false: start lies
 * behind the end of the string, where Python finds not even "". */
static ga_status window(jj_run *run, const jj_call *call, int first, jj_str *out, size_t *base, bool *inside) {
  jj_str *s = call->self.u.s;
  int64_t n = (int64_t)ga_jj_str_points(s), start, end;
  GA_TRY(ga_jj_param_int(call, first, 0, &start));
  GA_TRY(ga_jj_param_int(call, first + 1, n, &end));
  if (start < 0) start = start < -n ? 0 : start + n;
  if (end < 0) end = end < -n ? 0 : end + n;
  if (end > n) end = n;
  *inside = start <= end;
  *base = *inside ? (size_t)start : 0;
  size_t from = ga_jj_offset(s, *base), to = ga_jj_offset(s, *inside ? (size_t)end : 0);
  *out = ga_jj_part(s, from, to - from);
  return ga_jj_step(run, s->n / 64);
}

/* Code point of a hit or -1; fails for index and rindex when there is none. */
static ga_status found_at(const jj_call *call, const jj_str *in, size_t base, size_t hit, bool must, jj_val *out) {
  *out = ga_jj_int(-1);
  if (hit != SIZE_MAX)
    *out = ga_jj_int((int64_t)(base + ga_jj_points(in->p, hit)));
  else if (must)
    return ga_fail(GA_ERR_FORMAT, "%s: substring not found", call->def->name);
  return GA_OK;
}

static ga_status find_method(jj_run *run, const jj_call *call, bool right, bool must, jj_val *out) {
  jj_str in, *what;
  size_t base, hit = SIZE_MAX;
  bool inside;
  GA_TRY(ga_jj_param_str(call, 0, &what));
  GA_TRY(window(run, call, 1, &in, &base, &inside));
  if (!what) return ga_fail(GA_ERR_FORMAT, "%s: takes a string, not none", call->def->name);
  if (inside && right)
    GA_TRY(ga_jj_rfind(run, &in, what, &hit));
  else if (inside)
    hit = ga_jj_find(&in, what, 0);
  return found_at(call, &in, base, hit, must, out);
}

JJ_BUILTIN(str_find) { return find_method(run, call, false, false, out); }
JJ_BUILTIN(str_rfind) { return find_method(run, call, true, false, out); }
JJ_BUILTIN(str_index) { return find_method(run, call, false, true, out); }
JJ_BUILTIN(str_rindex) { return find_method(run, call, true, true, out); }

JJ_BUILTIN(str_count) {
  jj_str in, *what;
  size_t base, n = 0;
  bool inside;
  GA_TRY(ga_jj_param_str(call, 0, &what));
  GA_TRY(window(run, call, 1, &in, &base, &inside));
  if (!what) return ga_fail(GA_ERR_FORMAT, "count: takes a string, not none");
  if (inside && !what->n) n = ga_jj_points(in.p, in.n) + 1;
  for (size_t at = 0; inside && what->n && (at = ga_jj_find(&in, what, at)) != SIZE_MAX; at += what->n) {
    GA_TRY(ga_jj_step(run, 1 + what->n / 64));
    n++;
  }
  *out = ga_jj_int((int64_t)n);
  return GA_OK;
}

static bool has_affix(const jj_str *s, const jj_str *affix, bool end) {
  if (affix->n > s->n) return false;
  return !affix->n || !memcmp(end ? s->p + s->n - affix->n : s->p, affix->p, affix->n);
}

static ga_status affix_method(jj_run *run, const jj_call *call, bool end, jj_val *out) {
  jj_str in;
  size_t base;
  bool inside, yes = false;
  jj_val v = call->v[0];
  GA_TRY(window(run, call, 1, &in, &base, &inside));
  const jj_val *options = v.kind == JJ_TUPLE ? v.u.q->v : &v;
  size_t n = v.kind == JJ_TUPLE ? v.u.q->n : 1;
  for (size_t i = 0; i < n && !yes; i++) {
    if (options[i].kind != JJ_STR) {
      GA_TRY(ga_jj_need_defined(options[i]));
      return ga_fail(GA_ERR_FORMAT, "%s: takes a string or a tuple of strings, not '%s'", call->def->name,
                     ga_jj_type(options[i]));
    }
    yes = inside && has_affix(&in, options[i].u.s, end);
  }
  *out = ga_jj_bool(yes);
  return ga_jj_step(run, n / 4);
}

JJ_BUILTIN(str_startswith) { return affix_method(run, call, false, out); }
JJ_BUILTIN(str_endswith) { return affix_method(run, call, true, out); }

static ga_status remove_affix(jj_run *run, const jj_call *call, bool end, jj_val *out) {
  const jj_str *s = call->self.u.s;
  jj_str *affix;
  GA_TRY(ga_jj_param_str(call, 0, &affix));
  if (!affix) return ga_fail(GA_ERR_FORMAT, "%s: takes a string, not none", call->def->name);
  *out = call->self;
  if (!has_affix(s, affix, end)) return GA_OK;
  return ga_jj_str_part(run, s, end ? 0 : affix->n, s->n - affix->n, out);
}

JJ_BUILTIN(str_removeprefix) { return remove_affix(run, call, false, out); }
JJ_BUILTIN(str_removesuffix) { return remove_affix(run, call, true, out); }

JJ_BUILTIN(str_replace) {
  jj_str *old, *new_;
  int64_t count;
  GA_TRY(ga_jj_param_str(call, 0, &old));
  GA_TRY(ga_jj_param_str(call, 1, &new_));
  GA_TRY(ga_jj_param_int(call, 2, -1, &count));
  if (!old || !new_) return ga_fail(GA_ERR_FORMAT, "replace: takes strings, not none");
  return ga_jj_replace(run, call->self.u.s, old, new_, count, out);
}

static ga_status partition(jj_run *run, const jj_call *call, bool right, jj_val *out) {
  const jj_str *s = call->self.u.s;
  jj_str *sep;
  size_t hit;
  GA_TRY(ga_jj_param_str(call, 0, &sep));
  if (!sep || !sep->n) return ga_fail(GA_ERR_FORMAT, "%s: the separator is empty", call->def->name);
  GA_TRY(ga_jj_seq_new(run, JJ_TUPLE, 3, out));
  GA_TRY(ga_jj_step(run, s->n / 64));
  hit = ga_jj_find(s, sep, 0);
  if (right) GA_TRY(ga_jj_rfind(run, s, sep, &hit));
  size_t a = hit != SIZE_MAX ? hit : right ? 0 : s->n, b = hit != SIZE_MAX ? hit + sep->n : a;
  GA_TRY(push_part(run, s, 0, a, *out));
  GA_TRY(push_part(run, s, a, b, *out));
  return push_part(run, s, b, s->n, *out);
}

JJ_BUILTIN(str_partition) { return partition(run, call, false, out); }
JJ_BUILTIN(str_rpartition) { return partition(run, call, true, out); }

const jj_def ga_jj_methods_str[] = {
    {"count", "/sub start? end?", str_count},
    {"endswith", "/suffix start? end?", str_endswith},
    {"find", "/sub start? end?", str_find},
    {"index", "/sub start? end?", str_index},
    {"lstrip", "/chars?", str_lstrip},
    {"partition", "/sep", str_partition},
    {"removeprefix", "/prefix", str_removeprefix},
    {"removesuffix", "/suffix", str_removesuffix},
    {"replace", "/old new count?", str_replace},
    {"rfind", "/sub start? end?", str_rfind},
    {"rindex", "/sub start? end?", str_rindex},
    {"rpartition", "/sep", str_rpartition},
    {"rsplit", "sep? maxsplit?", str_rsplit},
    {"rstrip", "/chars?", str_rstrip},
    {"split", "sep? maxsplit?", str_split},
    {"splitlines", "keepends?", str_splitlines},
    {"startswith", "/prefix start? end?", str_startswith},
    {"strip", "/chars?", str_strip},
    {NULL, NULL, NULL},
};
