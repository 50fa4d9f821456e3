/* Operators on values, with Python's results and Python's refusals. */
#include <math.h>

#include "jinja/jinja.h"

static ga_status overflow(void) { return ga_fail(GA_ERR_UNSUPPORTED, "integer beyond 64 bits"); }

static ga_status bad_operands(char op, jj_val a, jj_val b) {
  const char *name = op == JO_FLOORDIV ? "//" : op == JO_POW ? "**" : NULL;
  char one[2] = {op, 0};
  GA_TRY(ga_jj_need_defined(a));
  GA_TRY(ga_jj_need_defined(b));
  return ga_fail(GA_ERR_FORMAT, "operator %s takes no '%s' and '%s'; convert with |int, |float, |string or |list",
                 name ? name : one, ga_jj_type(a), ga_jj_type(b));
}

static bool mul_fits(int64_t a, int64_t b, int64_t *out) {
  uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b, product;
  bool negative = (a < 0) != (b < 0);
  if (!ga_mul_ok(x, y, &product) || product > (uint64_t)INT64_MAX + negative) return false;
  *out = negative && product ? -(int64_t)(product - 1) - 1 : (int64_t)product;
  return true;
}

static ga_status int_power(int64_t base, int64_t exponent, jj_val *out) {
  int64_t result = 1;
  if (exponent < 0) {
    if (!base) return ga_fail(GA_ERR_FORMAT, "0 to a negative power");
    *out = ga_jj_float(pow((double)base, (double)exponent));
    return GA_OK;
  }
  /* Only 0, 1 and -1 survive more than 63 multiplications. */
  if (base == 0 || base == 1 || base == -1) exponent = exponent ? 2 - exponent % 2 : 0;
  while (exponent--)
    if (!mul_fits(result, base, &result)) return overflow();
  *out = ga_jj_int(result);
  return GA_OK;
}

static ga_status int_divide(char op, int64_t a, int64_t b, jj_val *out) {
  if (!b) return ga_fail(GA_ERR_FORMAT, "division by zero");
  if (op == JO_DIV) {
    *out = ga_jj_float((double)a / (double)b);
    return GA_OK;
  }
  if (b == -1) { /* INT64_MIN / -1 traps */
    if (op == JO_FLOORDIV && a == INT64_MIN) return overflow();
    *out = ga_jj_int(op == JO_MOD ? 0 : -a);
    return GA_OK;
  }
  int64_t q = a / b, r = a % b;
  if (r && (r < 0) != (b < 0)) { /* Python rounds down, C towards zero */
    q--;
    r += b;
  }
  *out = ga_jj_int(op == JO_MOD ? r : q);
  return GA_OK;
}

static ga_status int_binary(char op, int64_t a, int64_t b, jj_val *out) {
  int64_t product;
  switch (op) {
  case JO_ADD:
    if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b) return overflow();
    *out = ga_jj_int(a + b);
    return GA_OK;
  case JO_SUB:
    if (b < 0 ? a > INT64_MAX + b : a < INT64_MIN + b) return overflow();
    *out = ga_jj_int(a - b);
    return GA_OK;
  case JO_MUL:
    if (!mul_fits(a, b, &product)) return overflow();
    *out = ga_jj_int(product);
    return GA_OK;
  case JO_POW: return int_power(a, b, out);
  default: return int_divide(op, a, b, out);
  }
}

/* // and % as CPython's float_divmod computes them. */
static void float_divmod(double a, double b, double *div, double *mod) {
  *mod = fmod(a, b);
  double q = (a - *mod) / b;
  if (*mod < 0 || *mod > 0) {
    if ((b < 0) != (*mod < 0)) {
      *mod += b;
      q -= 1.0;
    }
  } else {
    *mod = copysign(0.0, b);
  }
  if (q < 0 || q > 0) {
    *div = floor(q);
    if (q - *div > 0.5) *div += 1.0;
  } else {
    *div = copysign(0.0, a / b);
  }
}

static ga_status float_binary(char op, double a, double b, jj_val *out) {
  bool zero = !(b < 0 || b > 0 || b != b);
  double div, mod, f;
  switch (op) {
  case JO_ADD: f = a + b; break;
  case JO_SUB: f = a - b; break;
  case JO_MUL: f = a * b; break;
  case JO_POW:
    f = pow(a, b);
    if (a <= 0 && a >= 0 && b < 0) return ga_fail(GA_ERR_FORMAT, "0 to a negative power");
    if (a < 0 && isfinite(b) && b != floor(b)) return ga_fail(GA_ERR_UNSUPPORTED, "complex result of **");
    if (isinf(f) && isfinite(a) && isfinite(b)) return ga_fail(GA_ERR_FORMAT, "result of ** is too large");
    break;
  default:
    if (zero) return ga_fail(GA_ERR_FORMAT, "division by zero");
    if (op == JO_DIV) {
      f = a / b;
      break;
    }
    float_divmod(a, b, &div, &mod);
    f = op == JO_MOD ? mod : div;
  }
  *out = ga_jj_float(f);
  return GA_OK;
}

static ga_status repeat_str(jj_run *run, const jj_str *s, uint64_t times, jj_val *out) {
  jj_buf buf = {0};
  uint64_t bytes;
  if (!s->n) times = 0;
  if (!ga_mul_ok(s->n, times, &bytes) || bytes > run->output_limit)
    return ga_fail(GA_ERR_NOMEM, "string of more than %llu bytes", (unsigned long long)run->output_limit);
  GA_TRY(ga_jj_step(run, times / 4));
  while (times--) GA_TRY(ga_jj_buf_part(run, &buf, s, 0, s->n));
  return ga_jj_buf_str(run, &buf, out);
}

static ga_status repeat(jj_run *run, jj_val v, int64_t times, jj_val *out) {
  if (times < 0) times = 0;
  if (v.kind == JJ_STR) return repeat_str(run, v.u.s, (uint64_t)times, out);
  uint64_t n;
  if (!v.u.q->n) times = 0;
  if (!ga_mul_ok(v.u.q->n, (uint64_t)times, &n)) return ga_fail_nomem("list", SIZE_MAX);
  GA_TRY(ga_jj_step(run, n / 8));
  GA_TRY(ga_jj_seq_new(run, v.kind, n, out));
  for (; times--; out->u.q->n += v.u.q->n) memcpy(out->u.q->v + out->u.q->n, v.u.q->v, v.u.q->n * sizeof(jj_val));
  return GA_OK;
}

static ga_status join_seqs(jj_run *run, jj_val a, jj_val b, jj_val *out) {
  GA_TRY(ga_jj_step(run, (a.u.q->n + b.u.q->n) / 8));
  GA_TRY(ga_jj_seq_new(run, a.kind, a.u.q->n + b.u.q->n, out));
  jj_seq *q = out->u.q;
  if (a.u.q->n) memcpy(q->v, a.u.q->v, a.u.q->n * sizeof(jj_val));
  if (b.u.q->n) memcpy(q->v + a.u.q->n, b.u.q->v, b.u.q->n * sizeof(jj_val));
  q->n = a.u.q->n + b.u.q->n;
  return GA_OK;
}

static ga_status join_strs(jj_run *run, const jj_str *a, const jj_str *b, jj_val *out) {
  jj_buf buf = {0};
  void *p;
  if (b->n > run->output_limit || a->n > run->output_limit - b->n)
    return ga_fail(GA_ERR_NOMEM, "string of more than %llu bytes", (unsigned long long)run->output_limit);
  GA_TRY(ga_jj_alloc(run, a->n + b->n, 1, &p)); /* no more than it takes */
  buf.p = p;
  buf.cap = a->n + b->n;
  GA_TRY(ga_jj_buf_part(run, &buf, a, 0, a->n));
  GA_TRY(ga_jj_buf_part(run, &buf, b, 0, b->n));
  return ga_jj_buf_str(run, &buf, out);
}

static bool repeatable(jj_val v) { return v.kind == JJ_STR || v.kind == JJ_LIST || v.kind == JJ_TUPLE; }

ga_status ga_jj_binary(jj_run *run, jj_op op, jj_val a, jj_val b, jj_val *out) {
  int64_t i, j;
  if (op == JO_MOD && a.kind == JJ_STR) return ga_jj_percent(run, a.u.s, b, out);
  if (ga_jj_as_int(a, &i) && ga_jj_as_int(b, &j)) return int_binary((char)op, i, j, out);
  if (ga_jj_is_num(a) && ga_jj_is_num(b) && a.kind != JJ_FLOAT && b.kind != JJ_FLOAT) return overflow();
  if (ga_jj_is_num(a) && ga_jj_is_num(b)) return float_binary((char)op, ga_jj_as_double(a), ga_jj_as_double(b), out);
  if (op == JO_ADD && a.kind == JJ_STR && b.kind == JJ_STR) return join_strs(run, a.u.s, b.u.s, out);
  if (op == JO_ADD && a.kind == b.kind && (a.kind == JJ_LIST || a.kind == JJ_TUPLE)) return join_seqs(run, a, b, out);
  if (op == JO_MUL && repeatable(a) && ga_jj_as_int(b, &j)) return repeat(run, a, j, out);
  if (op == JO_MUL && repeatable(b) && ga_jj_as_int(a, &i)) return repeat(run, b, i, out);
  return bad_operands((char)op, a, b);
}

ga_status ga_jj_negate(jj_run *run, jj_val a, jj_val *out) {
  if (a.kind == JJ_FLOAT)
    *out = ga_jj_float(-a.u.f);
  else if (ga_jj_is_num(a))
    return ga_jj_binary(run, JO_SUB, ga_jj_int(0), a, out);
  else {
    GA_TRY(ga_jj_need_defined(a));
    return ga_fail(GA_ERR_FORMAT, "unary - takes no '%s'", ga_jj_type(a));
  }
  return GA_OK;
}

static ga_status contains(jj_run *run, jj_val needle, jj_val hay, bool *out) {
  const jj_val *items;
  size_t n;
  *out = false;
  if (hay.kind == JJ_STR) {
    GA_TRY(ga_jj_need_defined(needle));
    if (needle.kind != JJ_STR)
      return ga_fail(GA_ERR_FORMAT, "'in <string>' takes a string on its left, not '%s'", ga_jj_type(needle));
    *out = ga_jj_find(hay.u.s, needle.u.s, 0) != SIZE_MAX;
    return ga_jj_step(run, hay.u.s->n / 64);
  }
  if (hay.kind == JJ_DICT) {
    jj_val *found;
    GA_TRY(ga_jj_dict_find(run, hay.u.d, needle, &found));
    *out = found != NULL;
    return GA_OK;
  }
  if (hay.kind != JJ_UNDEF && !ga_jj_is_seq(hay))
    return ga_fail(GA_ERR_FORMAT, "'in' takes a string, list or dict on its right, not '%s'", ga_jj_type(hay));
  GA_TRY(ga_jj_items(run, hay, &items, &n));
  for (size_t i = 0; i < n && !*out; i++) GA_TRY(ga_jj_equal(run, items[i], needle, out));
  return GA_OK;
}

ga_status ga_jj_compare(jj_run *run, jj_op op, jj_val a, jj_val b, bool *out) {
  int c;
  ga_status status;
  switch (op) {
  case JO_EQ: return ga_jj_equal(run, a, b, out);
  case JO_NE:
    status = ga_jj_equal(run, a, b, out);
    *out = !*out;
    return status;
  case JO_IN: return contains(run, a, b, out);
  case JO_NOT_IN:
    status = contains(run, a, b, out);
    *out = !*out;
    return status;
  default: break;
  }
  *out = false;
  GA_TRY(ga_jj_order(run, a, b, &c));
  if ((a.kind == JJ_FLOAT && isnan(a.u.f)) || (b.kind == JJ_FLOAT && isnan(b.u.f))) return GA_OK;
  *out = op == JO_LT ? c < 0 : op == JO_LE ? c <= 0 : op == JO_GT ? c > 0 : c >= 0;
  return GA_OK;
}
