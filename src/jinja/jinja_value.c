/* Making values. Everything a rendering makes lives in its arena, and is paid for in steps. */
#include "jinja/jinja.h"

ga_status ga_jj_step(jj_run *run, uint64_t n) {
  if (GA_UNLIKELY(n > run->steps_left)) {
    run->steps_left = 0;
    return ga_fail(GA_ERR_TIMEOUT, "more than %llu steps", (unsigned long long)run->steps_limit);
  }
  run->steps_left -= n;
  return GA_OK;
}

ga_status ga_jj_enter(jj_run *run) {
  if (!run->depth_left) return ga_fail(GA_ERR_TIMEOUT, "nested more than %u deep", run->depth_limit);
  run->depth_left--;
  return ga_jj_step(run, 1);
}

ga_status ga_jj_alloc(jj_run *run, size_t count, size_t each, void **out) {
  uint64_t bytes;
  *out = NULL;
  if (!ga_mul_ok(count, each, &bytes)) return ga_fail_nomem("chat template", SIZE_MAX);
  GA_TRY(ga_jj_step(run, bytes / 256)); /* clearing and copying 256 bytes is about one step's work */
  ga_status status = ga_arena_alloc(&run->arena, bytes, out);
  const size_t limit = run->arena.limit_bytes, left = limit - run->arena.total_bytes;
  if (status != GA_OK && limit && ga_round_up(bytes ? bytes : 1, 16) > left) /* else the system has none */
    return ga_fail(status, "%zu more bytes for values, with %zu of %zu in use", (size_t)bytes, run->arena.total_bytes,
                   limit);
  return status;
}

static ga_status str_val(jj_run *run, jj_str str, jj_val *out) {
  void *s;
  GA_TRY(ga_jj_alloc(run, 1, sizeof(jj_str), &s));
  *out = (jj_val){.kind = JJ_STR, .u.s = s};
  *out->u.s = str;
  return GA_OK;
}

ga_status ga_jj_str_part(jj_run *run, const jj_str *s, size_t at, size_t n, jj_val *out) {
  return str_val(run, ga_jj_part(s, at, n), out);
}

ga_status ga_jj_str_new(jj_run *run, const char *p, size_t n, jj_val *out) {
  void *copy;
  GA_TRY(ga_jj_alloc(run, n, 1, &copy));
  if (n) memcpy(copy, p, n);
  return str_val(run, (jj_str){copy, n, JJ_POINTS_UNKNOWN, NULL}, out);
}

/* Doubles, so that a text of n bytes costs at most 4 n of the arena. */
static ga_status grow_buf(jj_run *run, jj_buf *buf, size_t need) {
  size_t cap = buf->cap ? buf->cap : 64;
  void *bigger, *marks = NULL;
  while (cap < need) cap *= 2;
  GA_TRY(ga_jj_alloc(run, cap, 1, &bigger));
  if (buf->foreign) GA_TRY(ga_jj_alloc(run, cap, 1, &marks));
  if (buf->n) memcpy(bigger, buf->p, buf->n);
  if (buf->foreign && buf->n) memcpy(marks, buf->foreign, buf->n);
  buf->p = bigger;
  buf->foreign = marks;
  buf->cap = cap;
  return GA_OK;
}

ga_status ga_jj_buf_put(jj_run *run, jj_buf *buf, const char *p, size_t n) {
  if (n > run->output_limit || buf->n > run->output_limit - n)
    return ga_fail(GA_ERR_NOMEM, "text of more than %llu bytes", (unsigned long long)run->output_limit);
  if (n > buf->cap - buf->n) GA_TRY(grow_buf(run, buf, buf->n + n));
  if (n) memcpy(buf->p + buf->n, p, n);
  if (buf->foreign && n) memset(buf->foreign + buf->n, 0, n);
  buf->n += n;
  return ga_jj_step(run, n / 256);
}

/* Marks of a buffer that has had none: all its bytes are our own so far. */
static ga_status begin_marks(jj_run *run, jj_buf *buf) {
  void *marks;
  if (buf->foreign || !buf->cap) return GA_OK;
  GA_TRY(ga_jj_alloc(run, buf->cap, 1, &marks)); /* zeroed */
  buf->foreign = marks;
  return GA_OK;
}

ga_status ga_jj_buf_part(jj_run *run, jj_buf *buf, const jj_str *s, size_t at, size_t n) {
  GA_TRY(ga_jj_buf_put(run, buf, s->p + at, n));
  if (!s->foreign || !n) return GA_OK;
  GA_TRY(begin_marks(run, buf));
  memcpy(buf->foreign + buf->n - n, s->foreign + at, n);
  return GA_OK;
}

ga_status ga_jj_buf_stand(jj_run *run, jj_buf *buf, const jj_str *s, size_t at, const char *p, size_t n) {
  GA_TRY(ga_jj_buf_put(run, buf, p, n));
  if (!s->foreign || !s->foreign[at] || !n) return GA_OK;
  GA_TRY(begin_marks(run, buf));
  memset(buf->foreign + buf->n - n, 1, n);
  return GA_OK;
}

ga_status ga_jj_buf_puts(jj_run *run, jj_buf *buf, const char *text) {
  return ga_jj_buf_put(run, buf, text, strlen(text));
}

ga_status ga_jj_buf_str(jj_run *run, const jj_buf *buf, jj_val *out) {
  return str_val(run, (jj_str){buf->p ? buf->p : "", buf->n, JJ_POINTS_UNKNOWN, buf->foreign}, out);
}

ga_status ga_jj_seq_new(jj_run *run, jj_kind kind, size_t cap, jj_val *out) {
  void *seq, *items = NULL;
  GA_TRY(ga_jj_alloc(run, 1, sizeof(jj_seq), &seq));
  if (cap) GA_TRY(ga_jj_alloc(run, cap, sizeof(jj_val), &items));
  *out = (jj_val){.kind = kind, .u.q = seq};
  out->u.q->v = items;
  out->u.q->cap = cap;
  return GA_OK;
}

ga_status ga_jj_seq_push(jj_run *run, jj_seq *seq, jj_val v) {
  if (seq->n == seq->cap) {
    size_t cap = seq->cap ? 2 * seq->cap : 4;
    void *bigger;
    GA_TRY(ga_jj_alloc(run, cap, sizeof(jj_val), &bigger));
    if (seq->n) memcpy(bigger, seq->v, seq->n * sizeof(jj_val));
    seq->v = bigger;
    seq->cap = cap;
  }
  seq->v[seq->n++] = v;
  return GA_OK;
}

static ga_status str_items(jj_run *run, const jj_str *s, jj_seq *seq) {
  const char *end = s->p + s->n;
  size_t len;
  for (const char *p = s->p; p < end; p += len) {
    jj_val c;
    (void)ga_jj_decode(p, end, &len);
    GA_TRY(ga_jj_str_part(run, s, (size_t)(p - s->p), len, &c));
    c.u.s->points = 1;
    GA_TRY(ga_jj_seq_push(run, seq, c));
  }
  return GA_OK;
}

ga_status ga_jj_items(jj_run *run, jj_val v, const jj_val **items, size_t *n) {
  jj_val list;
  *items = NULL;
  *n = 0;
  if (v.kind == JJ_UNDEF) return GA_OK;
  if (ga_jj_is_seq(v)) {
    if (v.kind == JJ_GEN && v.u.q->spent) return GA_OK;
    v.u.q->spent = true;
    *items = v.u.q->v;
    *n = v.u.q->n;
    return ga_jj_step(run, *n / 8);
  }
  if (v.kind != JJ_STR && v.kind != JJ_DICT) return ga_fail(GA_ERR_FORMAT, "'%s' is not iterable", ga_jj_type(v));
  GA_TRY(ga_jj_seq_new(run, JJ_LIST, v.kind == JJ_DICT ? v.u.d->n : 0, &list));
  if (v.kind == JJ_STR)
    GA_TRY(str_items(run, v.u.s, list.u.q));
  else
    for (size_t i = 0; i < v.u.d->n; i++) GA_TRY(ga_jj_seq_push(run, list.u.q, v.u.d->e[i].key));
  *items = list.u.q->v;
  *n = list.u.q->n;
  return GA_OK;
}

bool ga_jj_truth(jj_val v) {
  switch (v.kind) {
  case JJ_MISSING:
  case JJ_UNDEF:
  case JJ_NONE: return false;
  case JJ_BOOL: return v.u.b;
  case JJ_INT: return v.u.i != 0;
  case JJ_FLOAT: return v.u.f < 0 || v.u.f > 0 || v.u.f != v.u.f; /* NaN is true */
  case JJ_BIG: return true;
  case JJ_STR: return v.u.s->n != 0;
  case JJ_LIST:
  case JJ_TUPLE:
  case JJ_RANGE:
  case JJ_VIEW: return v.u.q->n != 0;
  case JJ_DICT: return v.u.d->n != 0;
  case JJ_LOOP: return v.u.loop->n != 0;
  case JJ_GEN:
  case JJ_NS:
  case JJ_FUNC: return true;
  }
  return false;
}

const char *ga_jj_type(jj_val v) {
  switch (v.kind) {
  case JJ_MISSING:
  case JJ_UNDEF: return "Undefined";
  case JJ_NONE: return "NoneType";
  case JJ_BOOL: return "bool";
  case JJ_INT:
  case JJ_BIG: return "int";
  case JJ_FLOAT: return "float";
  case JJ_STR: return "str";
  case JJ_LIST: return "list";
  case JJ_TUPLE: return "tuple";
  case JJ_RANGE: return "range";
  case JJ_VIEW: return v.u.q->view;
  case JJ_GEN: return "generator";
  case JJ_DICT: return "dict";
  case JJ_NS: return "Namespace";
  case JJ_FUNC: return "function";
  case JJ_LOOP: return "LoopContext";
  }
  return "value";
}

ga_status ga_jj_need_defined(jj_val v) {
  if (v.kind != JJ_UNDEF && v.kind != JJ_MISSING) return GA_OK;
  const jj_str *name = v.u.s;
  return ga_fail(GA_ERR_FORMAT, "'%.*s' is undefined", name ? (int)(name->n < 100 ? name->n : 100) : 5,
                 name ? name->p : "value");
}
