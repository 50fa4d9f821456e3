/* v.name, v[key], v[a:b:c]. An attribute is a method first and a key second, a subscript the other way round. */
#include "jinja/jinja.h"

static jj_str no_element = {"element", 7, 7, NULL}; /* never written: its length is known */

static ga_status new_method(jj_run *run, jj_val self, const jj_def *def, jj_val *out) {
  void *fn;
  GA_TRY(ga_jj_alloc(run, 1, sizeof(jj_func), &fn));
  *out = (jj_val){.kind = JJ_FUNC, .u.fn = fn};
  *out->u.fn = (jj_func){.def = def, .self = self};
  return GA_OK;
}

static jj_val loop_attr(const jj_loop *loop, jj_str *name) {
  int64_t index = (int64_t)loop->index, n = (int64_t)loop->n;
  if (ga_jj_str_is(name, "index")) return ga_jj_int(index + 1);
  if (ga_jj_str_is(name, "index0")) return ga_jj_int(index);
  if (ga_jj_str_is(name, "revindex")) return ga_jj_int(n - index);
  if (ga_jj_str_is(name, "revindex0")) return ga_jj_int(n - index - 1);
  if (ga_jj_str_is(name, "first")) return ga_jj_bool(index == 0);
  if (ga_jj_str_is(name, "last")) return ga_jj_bool(index == n - 1);
  if (ga_jj_str_is(name, "length")) return ga_jj_int(n);
  if (ga_jj_str_is(name, "depth")) return ga_jj_int(loop->depth0 + 1);
  if (ga_jj_str_is(name, "depth0")) return ga_jj_int(loop->depth0);
  if (ga_jj_str_is(name, "previtem") && index > 0) return loop->items[index - 1];
  if (ga_jj_str_is(name, "nextitem") && index < n - 1) return loop->items[index + 1];
  return ga_jj_undef(name);
}

/* Python's getattr: methods, and what objects hold. *out is undefined when there is none. */
static ga_status own_attr(jj_run *run, jj_val v, jj_str *name, jj_val *out) {
  jj_val *found;
  *out = ga_jj_undef(name);
  const jj_def *def = ga_jj_method(run->tpl, v, name);
  if (def) return new_method(run, v, def, out);
  if (v.kind == JJ_NS) {
    GA_TRY(ga_jj_dict_find_text(run, v.u.d, name, &found));
    if (found) *out = *found;
  } else if (v.kind == JJ_LOOP) {
    *out = loop_attr(v.u.loop, name);
  } else if (v.kind == JJ_TUPLE && v.u.q->view && v.u.q->n == 2) { /* what groupby yields */
    if (ga_jj_str_is(name, "grouper")) *out = v.u.q->v[0];
    if (ga_jj_str_is(name, "list")) *out = v.u.q->v[1];
  } else if (v.kind == JJ_FUNC && v.u.fn->macro && ga_jj_str_is(name, "name")) {
    *out = (jj_val){.kind = JJ_STR, .u.s = v.u.fn->macro->name};
    if (!out->u.s) *out = ga_jj_none();
  }
  return GA_OK;
}

static bool seq_index(int64_t i, size_t n, size_t *out) {
  if (i < 0) i += (int64_t)n;
  if (i < 0 || (uint64_t)i >= n) return false;
  *out = (size_t)i;
  return true;
}

static ga_status str_point(jj_run *run, jj_str *s, size_t point, jj_val *out) {
  size_t len, at = ga_jj_offset(s, point);
  (void)ga_jj_decode(s->p + at, s->p + s->n, &len);
  if (ga_jj_str_points(s) != s->n) GA_TRY(ga_jj_step(run, s->n / 64));
  return ga_jj_str_part(run, s, at, len, out);
}

static bool hashable(jj_val key) { return key.kind != JJ_LIST && key.kind != JJ_DICT && key.kind != JJ_VIEW; }

/* Python's v[key]; undefined where Python raises LookupError or TypeError. */
static ga_status own_item(jj_run *run, jj_val v, jj_val key, jj_val *out) {
  int64_t i;
  size_t at;
  *out = ga_jj_undef(key.kind == JJ_STR ? key.u.s : &no_element);
  if (v.kind == JJ_DICT) {
    jj_val *found = NULL;
    if (hashable(key)) GA_TRY(ga_jj_dict_find(run, v.u.d, key, &found));
    if (found) *out = *found;
  } else if ((v.kind == JJ_LIST || v.kind == JJ_TUPLE || v.kind == JJ_RANGE) && ga_jj_as_int(key, &i)) {
    if (seq_index(i, v.u.q->n, &at)) *out = v.u.q->v[at];
  } else if (v.kind == JJ_STR && ga_jj_as_int(key, &i)) {
    if (seq_index(i, ga_jj_str_points(v.u.s), &at)) return str_point(run, v.u.s, at, out);
  }
  return GA_OK;
}

ga_status ga_jj_attr(jj_run *run, jj_val v, jj_str *name, jj_val *out) {
  GA_TRY(ga_jj_need_defined(v));
  GA_TRY(own_attr(run, v, name, out));
  if (out->kind != JJ_UNDEF || v.kind != JJ_DICT) return GA_OK;
  return own_item(run, v, (jj_val){.kind = JJ_STR, .u.s = name}, out);
}

ga_status ga_jj_item(jj_run *run, jj_val v, jj_val key, jj_val *out) {
  GA_TRY(ga_jj_need_defined(v));
  GA_TRY(own_item(run, v, key, out));
  if (out->kind != JJ_UNDEF || key.kind != JJ_STR) return GA_OK;
  return own_attr(run, v, key.u.s, out);
}

static ga_status slice_int(jj_val v, int64_t fallback, int64_t *out) {
  *out = fallback;
  if (v.kind == JJ_NONE || ga_jj_as_int(v, out)) return GA_OK;
  GA_TRY(ga_jj_need_defined(v));
  return ga_fail(GA_ERR_FORMAT, "slice: bounds are integers or none, not '%s'", ga_jj_type(v));
}

/* One bound of a slice, brought into [low, high] as Python does. */
static ga_status slice_bound(jj_val v, int64_t n, int64_t low, int64_t high, int64_t fallback, int64_t *out) {
  GA_TRY(slice_int(v, fallback, out));
  if (v.kind == JJ_NONE) return GA_OK;
  if (*out < 0) *out = *out < -n ? low : *out + n;
  if (*out < low) *out = low;
  if (*out > high) *out = high;
  return GA_OK;
}

static ga_status slice_str(jj_run *run, jj_str *s, int64_t start, int64_t count, int64_t step, jj_val *out) {
  jj_buf buf = {0};
  if (step == 1) {
    size_t from = ga_jj_offset(s, (size_t)start), to = ga_jj_offset(s, (size_t)(start + count));
    GA_TRY(ga_jj_step(run, ga_jj_str_points(s) == s->n ? 0 : s->n / 64));
    return ga_jj_str_part(run, s, from, to - from, out);
  }
  jj_val str = {.kind = JJ_STR, .u.s = s};
  const jj_val *points;
  size_t n;
  GA_TRY(ga_jj_items(run, str, &points, &n));
  for (; count--; start += step) GA_TRY(ga_jj_put_str(run, &buf, points[start]));
  return ga_jj_buf_str(run, &buf, out);
}

static ga_status slice_seq(jj_run *run, jj_val v, int64_t start, int64_t stop, int64_t count, int64_t step,
                           jj_val *out) {
  GA_TRY(ga_jj_seq_new(run, v.kind, (size_t)count, out));
  jj_seq *q = out->u.q;
  for (int64_t i = 0; i < count; i++) q->v[q->n++] = v.u.q->v[start + i * step];
  if (v.kind == JJ_RANGE) {
    q->start = v.u.q->start + start * v.u.q->step;
    q->step = v.u.q->step * step;
    q->stop = v.u.q->start + stop * v.u.q->step;
  }
  return ga_jj_step(run, (uint64_t)count / 8);
}

ga_status ga_jj_slice(jj_run *run, jj_val v, const jj_val bounds[3], jj_val *out) {
  int64_t n, start, stop, step = 1;
  GA_TRY(ga_jj_need_defined(v));
  if (v.kind != JJ_STR && v.kind != JJ_LIST && v.kind != JJ_TUPLE && v.kind != JJ_RANGE)
    return ga_fail(GA_ERR_FORMAT, "slice: a '%s' has no slices; strings, lists and tuples have", ga_jj_type(v));
  n = (int64_t)(v.kind == JJ_STR ? ga_jj_str_points(v.u.s) : v.u.q->n);
  GA_TRY(slice_int(bounds[2], 1, &step));
  if (!step) return ga_fail(GA_ERR_FORMAT, "slice: the step must not be 0");
  if (step > n) step = n + 1; /* the first element only, without overflow below */
  if (step < -n) step = -n - 1;
  int64_t low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
  GA_TRY(slice_bound(bounds[0], n, low, high, step < 0 ? high : low, &start));
  GA_TRY(slice_bound(bounds[1], n, low, high, step < 0 ? low : high, &stop));
  int64_t count = step > 0 ? (stop > start ? (stop - start - 1) / step + 1 : 0)
                           : (start > stop ? (start - stop - 1) / -step + 1 : 0);
  if (v.kind == JJ_STR) return slice_str(run, v.u.s, start, count, step, out);
  return slice_seq(run, v, start, stop, count, step, out);
}

static ga_status path_part(jj_run *run, const char *p, size_t n, jj_val *out) {
  int64_t i = 0;
  for (size_t k = 0; k < n; k++) {
    if (p[k] < '0' || p[k] > '9' || n > 9) return ga_jj_str_new(run, p, n, out);
    i = 10 * i + (p[k] - '0');
  }
  *out = ga_jj_int(i);
  return n ? GA_OK : ga_jj_str_new(run, p, n, out);
}

static ga_status path_step(jj_run *run, jj_val v, jj_val key, jj_val fallback, jj_val *out) {
  GA_TRY(ga_jj_item(run, v, key, out));
  if (out->kind == JJ_UNDEF && fallback.kind != JJ_NONE && fallback.kind != JJ_MISSING) *out = fallback;
  return GA_OK;
}

ga_status ga_jj_path(jj_run *run, jj_val v, jj_val path, jj_val fallback, jj_val *out) {
  *out = v;
  if (path.kind == JJ_NONE || path.kind == JJ_MISSING) return GA_OK;
  if (path.kind != JJ_STR) return path_step(run, v, path, fallback, out);
  const char *p = path.u.s->p, *end = p + path.u.s->n;
  for (;;) {
    const char *dot = p < end ? memchr(p, '.', (size_t)(end - p)) : NULL;
    jj_val key;
    GA_TRY(path_part(run, p, (size_t)((dot ? dot : end) - p), &key));
    GA_TRY(path_step(run, *out, key, fallback, out));
    if (!dot) return GA_OK;
    p = dot + 1;
  }
}
