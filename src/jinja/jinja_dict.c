/* Dicts, equality and order of values, sorting. */
#include <stdlib.h>

#include "jinja/jinja.h"

/* Equal keys hash alike: 1, 1.0 and True are one key in Python. */
static ga_status hash_value(jj_run *run, jj_val v, uint64_t *h) {
  double f;
  switch (v.kind) {
  case JJ_UNDEF:
  case JJ_NONE: *h = ga_fnv64(*h, &v.kind, sizeof v.kind); return GA_OK;
  case JJ_BOOL:
  case JJ_INT:
  case JJ_BIG:
  case JJ_FLOAT:
    f = ga_jj_as_double(v) + 0.0; /* -0.0 is 0.0 */
    *h = ga_fnv64(*h, &f, sizeof f);
    return GA_OK;
  case JJ_STR: *h = ga_fnv64(*h, v.u.s->p, v.u.s->n); return ga_jj_step(run, v.u.s->n / 64);
  case JJ_TUPLE:
  case JJ_RANGE:
    GA_TRY(ga_jj_enter(run));
    for (size_t i = 0; i < v.u.q->n; i++) GA_TRY(hash_value(run, v.u.q->v[i], h));
    run->depth_left++;
    return GA_OK;
  case JJ_GEN:
  case JJ_NS:
  case JJ_FUNC:
  case JJ_LOOP: *h = ga_fnv64(*h, &v.u.d, sizeof v.u.d); return GA_OK;
  default:
    return ga_fail(GA_ERR_FORMAT, "unhashable type: '%s'; keys are strings, numbers, none or tuples", ga_jj_type(v));
  }
}

ga_status ga_jj_dict_new(jj_run *run, size_t cap, jj_val *out) {
  void *d, *e = NULL;
  GA_TRY(ga_jj_alloc(run, 1, sizeof(jj_dict), &d));
  if (cap) GA_TRY(ga_jj_alloc(run, cap, sizeof(jj_entry), &e));
  *out = (jj_val){.kind = JJ_DICT, .u.d = d};
  out->u.d->e = e;
  out->u.d->cap = cap;
  return GA_OK;
}

static void index_entry(jj_dict *d, size_t entry) {
  size_t mask = d->index_cap - 1, i = (size_t)d->e[entry].hash & mask;
  while (d->index[i]) i = (i + 1) & mask;
  d->index[i] = (uint32_t)entry + 1;
}

static ga_status rebuild_index(jj_run *run, jj_dict *d) {
  size_t cap = 32;
  void *index;
  while (cap < 2 * d->cap) cap *= 2;
  GA_TRY(ga_jj_alloc(run, cap, sizeof(uint32_t), &index));
  d->index = index;
  d->index_cap = cap;
  for (size_t i = 0; i < d->n; i++) index_entry(d, i);
  return GA_OK;
}

static ga_status same_key(jj_run *run, const jj_entry *e, jj_val key, uint64_t hash, bool *same) {
  *same = false;
  GA_TRY(ga_jj_step(run, 1));
  if (e->hash != hash) return GA_OK;
  return ga_jj_equal(run, e->key, key, same);
}

static ga_status find_hashed(jj_run *run, const jj_dict *d, jj_val key, uint64_t hash, jj_val **out) {
  bool same;
  *out = NULL;
  if (!d->index) {
    for (size_t i = 0; i < d->n; i++) {
      GA_TRY(same_key(run, &d->e[i], key, hash, &same));
      if (same) *out = &d->e[i].value;
      if (same) return GA_OK;
    }
    return GA_OK;
  }
  size_t mask = d->index_cap - 1;
  for (size_t i = (size_t)hash & mask; d->index[i]; i = (i + 1) & mask) {
    jj_entry *e = &d->e[d->index[i] - 1];
    GA_TRY(same_key(run, e, key, hash, &same));
    if (same) *out = &e->value;
    if (same) return GA_OK;
  }
  return GA_OK;
}

ga_status ga_jj_dict_find(jj_run *run, const jj_dict *d, jj_val key, jj_val **out) {
  uint64_t hash = GA_FNV64_START;
  *out = NULL;
  GA_TRY(hash_value(run, key, &hash));
  return find_hashed(run, d, key, hash, out);
}

ga_status ga_jj_dict_find_text(jj_run *run, const jj_dict *d, const jj_str *key, jj_val **out) {
  jj_str copy = *key;
  return ga_jj_dict_find(run, d, (jj_val){.kind = JJ_STR, .u.s = &copy}, out);
}

static ga_status grow_dict(jj_run *run, jj_dict *d) {
  size_t cap = d->cap ? 2 * d->cap : 4;
  void *bigger;
  if (cap > UINT32_MAX / 2) return ga_fail_nomem("dict", SIZE_MAX);
  GA_TRY(ga_jj_alloc(run, cap, sizeof(jj_entry), &bigger));
  if (d->n) memcpy(bigger, d->e, d->n * sizeof(jj_entry));
  d->e = bigger;
  d->cap = cap;
  return GA_OK;
}

ga_status ga_jj_dict_set(jj_run *run, jj_dict *d, jj_val key, jj_val value) {
  uint64_t hash = GA_FNV64_START;
  jj_val *found;
  GA_TRY(hash_value(run, key, &hash));
  GA_TRY(find_hashed(run, d, key, hash, &found));
  if (found) {
    *found = value;
    return GA_OK;
  }
  bool grown = d->n == d->cap;
  if (grown) GA_TRY(grow_dict(run, d));
  d->e[d->n++] = (jj_entry){key, value, hash};
  if (d->n <= JJ_DICT_LINEAR) return GA_OK;
  if (!d->index || grown) return rebuild_index(run, d);
  index_entry(d, d->n - 1);
  return GA_OK;
}

ga_status ga_jj_dict_remove(jj_run *run, jj_dict *d, const jj_val *found) {
  size_t at = 0;
  while (&d->e[at].value != found) at++;
  GA_TRY(ga_jj_step(run, d->n / 4));
  d->n--;
  memmove(&d->e[at], &d->e[at + 1], (d->n - at) * sizeof(jj_entry));
  return d->index ? rebuild_index(run, d) : GA_OK;
}

static ga_status equal_seq(jj_run *run, const jj_seq *a, const jj_seq *b, bool *out) {
  *out = a->n == b->n;
  for (size_t i = 0; i < a->n && *out; i++) GA_TRY(ga_jj_equal(run, a->v[i], b->v[i], out));
  return GA_OK;
}

static ga_status equal_dict(jj_run *run, const jj_dict *a, const jj_dict *b, bool *out) {
  *out = a->n == b->n;
  for (size_t i = 0; i < a->n && *out; i++) {
    jj_val *other;
    GA_TRY(ga_jj_dict_find(run, b, a->e[i].key, &other));
    *out = other != NULL;
    if (other) GA_TRY(ga_jj_equal(run, a->e[i].value, *other, out));
  }
  return GA_OK;
}

double ga_jj_big_as_double(const jj_str *digits) { return strtod(digits->p, NULL); }

/* The sign of an integer beyond 64 bits times its number of digits: it orders them unless it is equal. */
static int64_t big_length(const jj_str *digits) {
  return *digits->p == '-' ? 1 - (int64_t)digits->n : (int64_t)digits->n;
}

static int order_bigs(const jj_str *a, const jj_str *b) {
  const int64_t x = big_length(a), y = big_length(b);
  if (x != y) return x > y ? 1 : -1;
  const int c = memcmp(a->p, b->p, a->n);
  return (c > 0) - (c < 0) == 0 ? 0 : (c > 0) == (x > 0) ? 1 : -1;
}

static int order_numbers(jj_val a, jj_val b) {
  int64_t i, j;
  if (a.kind == JJ_BIG && b.kind == JJ_BIG) return order_bigs(a.u.s, b.u.s);
  if (a.kind == JJ_BIG && b.kind != JJ_FLOAT) return *a.u.s->p == '-' ? -1 : 1;
  if (b.kind == JJ_BIG && a.kind != JJ_FLOAT) return *b.u.s->p == '-' ? 1 : -1;
  if (ga_jj_as_int(a, &i) && ga_jj_as_int(b, &j)) return (i > j) - (i < j);
  double x = ga_jj_as_double(a), y = ga_jj_as_double(b);
  return (x > y) - (x < y);
}

static bool is_nan(jj_val v) { return v.kind == JJ_FLOAT && v.u.f != v.u.f; }

static ga_status equal_here(jj_run *run, jj_val a, jj_val b, bool *out) {
  *out = false;
  if (ga_jj_is_num(a) && ga_jj_is_num(b)) {
    *out = !is_nan(a) && !is_nan(b) && order_numbers(a, b) == 0;
    return GA_OK;
  }
  if (a.kind != b.kind) return GA_OK;
  switch (a.kind) {
  case JJ_UNDEF:
  case JJ_NONE: *out = true; return GA_OK;
  case JJ_STR: *out = ga_jj_str_eq(a.u.s, b.u.s); return ga_jj_step(run, *out ? a.u.s->n / 64 : 0);
  case JJ_LIST:
  case JJ_TUPLE:
  case JJ_RANGE: return equal_seq(run, a.u.q, b.u.q, out);
  case JJ_DICT: return equal_dict(run, a.u.d, b.u.d, out);
  default: *out = a.u.d == b.u.d; return GA_OK; /* the same object */
  }
}

ga_status ga_jj_equal(jj_run *run, jj_val a, jj_val b, bool *out) {
  GA_TRY(ga_jj_enter(run));
  GA_TRY(equal_here(run, a, b, out));
  run->depth_left++;
  return GA_OK;
}

static int order_text(const jj_str *a, const jj_str *b) {
  size_t n = a->n < b->n ? a->n : b->n;
  int c = n ? memcmp(a->p, b->p, n) : 0; /* UTF-8 sorts as its code points do */
  return c ? c : (a->n > b->n) - (a->n < b->n);
}

static ga_status order_seq(jj_run *run, const jj_seq *a, const jj_seq *b, int *out) {
  for (size_t i = 0; i < a->n && i < b->n; i++) {
    bool same;
    GA_TRY(ga_jj_equal(run, a->v[i], b->v[i], &same));
    if (!same) return ga_jj_order(run, a->v[i], b->v[i], out);
  }
  *out = (a->n > b->n) - (a->n < b->n);
  return GA_OK;
}

ga_status ga_jj_order(jj_run *run, jj_val a, jj_val b, int *out) {
  *out = 0;
  if (ga_jj_is_num(a) && ga_jj_is_num(b)) {
    *out = order_numbers(a, b);
    return ga_jj_step(run, 1);
  }
  if (a.kind == JJ_STR && b.kind == JJ_STR) {
    *out = order_text(a.u.s, b.u.s);
    return ga_jj_step(run, 1);
  }
  if (a.kind == b.kind && (a.kind == JJ_LIST || a.kind == JJ_TUPLE)) {
    GA_TRY(ga_jj_enter(run));
    GA_TRY(order_seq(run, a.u.q, b.u.q, out));
    run->depth_left++;
    return GA_OK;
  }
  GA_TRY(ga_jj_need_defined(a));
  GA_TRY(ga_jj_need_defined(b));
  return ga_fail(GA_ERR_FORMAT, "'%s' and '%s' have no order", ga_jj_type(a), ga_jj_type(b));
}

/* Merges the sorted halves [0, mid) and [mid, n) of `from` into `to`; `from` holds keys, then values n apart. */
static ga_status merge_runs(jj_run *run, const jj_val *keys, const jj_val *values, size_t mid, size_t n, bool reverse,
                            jj_val *to_keys, jj_val *to_values) {
  size_t i = 0, j = mid;
  for (size_t k = 0; k < n; k++) {
    int c = 0;
    if (i < mid && j < n) GA_TRY(ga_jj_order(run, keys[i], keys[j], &c));
    bool right = i >= mid || (j < n && (reverse ? c < 0 : c > 0));
    size_t from = right ? j++ : i++;
    to_keys[k] = keys[from];
    to_values[k] = values[from];
  }
  return GA_OK;
}

ga_status ga_jj_sort(jj_run *run, jj_val *keys, jj_val *values, size_t n, bool reverse) {
  void *spare;
  GA_TRY(ga_jj_alloc(run, 2 * n, sizeof(jj_val), &spare));
  jj_val *spare_keys = spare, *spare_values = spare_keys + n;
  for (size_t width = 1; width < n; width *= 2) {
    for (size_t at = 0; at < n; at += 2 * width) {
      size_t rest = n - at < 2 * width ? n - at : 2 * width, mid = rest < width ? rest : width;
      GA_TRY(merge_runs(run, keys + at, values + at, mid, rest, reverse, spare_keys + at, spare_values + at));
    }
    memcpy(keys, spare_keys, n * sizeof *keys);
    memcpy(values, spare_values, n * sizeof *values);
  }
  return GA_OK;
}
