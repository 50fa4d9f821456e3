/* Filters of single values: strings and numbers. Order of parameters as in jinja2/filters.py. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "jinja/jinja_builtin.h"

static ga_status abs_big(jj_run *run, jj_val v, jj_val *out) {
  const bool negative = *v.u.s->p == '-';
  GA_TRY(ga_jj_str_part(run, v.u.s, negative, v.u.s->n - negative, out));
  out->kind = JJ_BIG;
  return GA_OK;
}

JJ_BUILTIN(filter_abs) {
  jj_val v = call->self;
  if (!ga_jj_is_num(v)) {
    GA_TRY(ga_jj_need_defined(v));
    return ga_fail(GA_ERR_FORMAT, "abs: takes a number, not '%s'", ga_jj_type(v));
  }
  if (v.kind == JJ_FLOAT)
    *out = ga_jj_float(fabs(v.u.f));
  else if (v.kind == JJ_BIG)
    return abs_big(run, v, out);
  else if (v.kind == JJ_INT && v.u.i < 0)
    return ga_jj_negate(run, v, out);
  else
    *out = ga_jj_int(v.kind == JJ_INT ? v.u.i : v.u.b);
  return GA_OK;
}

static ga_status recase_filter(jj_run *run, const jj_call *call, jj_case to, jj_val *out) {
  jj_str *s;
  GA_TRY(ga_jj_self_str(run, call, &s));
  return ga_jj_recase(run, s, to, out);
}

JJ_BUILTIN(filter_capitalize) { return recase_filter(run, call, JJ_CAPITALIZE, out); }
JJ_BUILTIN(filter_lower) { return recase_filter(run, call, JJ_LOWER, out); }
JJ_BUILTIN(filter_upper) { return recase_filter(run, call, JJ_UPPER, out); }

/* Words start after white space, '-' and opening brackets, unlike str.title(). */
JJ_BUILTIN(filter_title) {
  jj_str *s;
  jj_buf buf = {0};
  size_t at = 0, len;
  GA_TRY(ga_jj_self_str(run, call, &s));
  while (at < s->n) {
    size_t begin = at;
    jj_val word, part;
    for (; at < s->n; at += len) {
      int32_t c = ga_jj_decode(s->p + at, s->p + s->n, &len);
      bool split = ga_jj_is_space(c) || (c < 0x80 && strchr("-({[<", c) && c);
      if (split && at > begin) break;
      if (split) {
        at += len;
        break;
      }
    }
    (void)ga_jj_decode(s->p + begin, s->p + s->n, &len);
    const jj_str first = ga_jj_part(s, begin, len), rest = ga_jj_part(s, begin + len, at - begin - len);
    GA_TRY(ga_jj_recase(run, &first, JJ_UPPER, &word));
    GA_TRY(ga_jj_put_str(run, &buf, word));
    GA_TRY(ga_jj_recase(run, &rest, JJ_LOWER, &part));
    GA_TRY(ga_jj_put_str(run, &buf, part));
  }
  return ga_jj_buf_str(run, &buf, out);
}

JJ_BUILTIN(filter_center) {
  jj_str *s;
  int64_t width;
  GA_TRY(ga_jj_self_str(run, call, &s));
  GA_TRY(ga_jj_param_int(call, 0, 80, &width));
  return ga_jj_pad(run, s, width, 0, NULL, out);
}

JJ_BUILTIN(filter_default) {
  (void)run;
  bool use = call->self.kind == JJ_UNDEF || (ga_jj_param_flag(call, 1) && !ga_jj_truth(call->self));
  static jj_str empty = {"", 0, 0, NULL};
  *out = call->self;
  if (use) *out = call->v[0].kind == JJ_MISSING ? (jj_val){.kind = JJ_STR, .u.s = &empty} : call->v[0];
  return GA_OK;
}

JJ_BUILTIN(filter_escape) {
  static const char *const names[] = {
      ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&#34;", ['\''] = "&#39;"};
  jj_str *s;
  jj_buf buf = {0};
  GA_TRY(ga_jj_self_str(run, call, &s));
  GA_TRY(ga_jj_step(run, s->n / 16));
  for (size_t i = 0; i < s->n; i++) {
    unsigned char c = (unsigned char)s->p[i];
    if (c < GA_COUNT_OF(names) && names[c])
      GA_TRY(ga_jj_buf_stand(run, &buf, s, i, names[c], strlen(names[c])));
    else
      GA_TRY(ga_jj_buf_part(run, &buf, s, i, 1));
  }
  return ga_jj_buf_str(run, &buf, out);
}

JJ_BUILTIN(filter_float) {
  jj_val v = call->self;
  double f;
  (void)run;
  GA_TRY(ga_jj_need_defined(v));
  *out = call->v[0].kind == JJ_MISSING ? ga_jj_float(0) : call->v[0];
  if (ga_jj_is_num(v)) *out = ga_jj_float(ga_jj_as_double(v));
  if (v.kind == JJ_STR && ga_jj_read_float(v.u.s->p, v.u.s->n, &f)) *out = ga_jj_float(f);
  return GA_OK;
}

static int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = (char)(c | 32);
  return c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;
}

/* int(text, base) of Python. false: no such number; *too_big: one beyond 64 bits. */
static bool parse_int(const jj_str *text, int base, int64_t *out, bool *too_big) {
  jj_str s = ga_jj_strip(text, NULL, JJ_STRIP_LEFT | JJ_STRIP_RIGHT);
  size_t at = 0;
  bool negative = s.n && s.p[0] == '-', digit = false;
  if (s.n && (s.p[0] == '-' || s.p[0] == '+')) at++;
  if (at + 1 < s.n && s.p[at] == '0') {
    char c = (char)(s.p[at + 1] | 32);
    int prefix = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
    if (prefix && (base == prefix || base == 0)) {
      base = prefix;
      at += 2;
      if (at < s.n && s.p[at] == '_') at++;
    }
  }
  if (base == 0) base = 10;
  *out = 0;
  for (; at < s.n; at++) {
    if (s.p[at] == '_' && digit) {
      digit = false; /* one between digits */
      continue;
    }
    int d = digit_of(s.p[at]);
    if (d >= base) return false;
    digit = true;
    if (*out < (INT64_MIN + d) / base)
      *too_big = true;
    else
      *out = *out * base - d; /* negative: INT64_MIN has no positive */
  }
  if (!negative && *out == INT64_MIN) *too_big = true;
  if (!negative && !*too_big) *out = -*out;
  return digit;
}

static ga_status float_to_int(double f, jj_val *out) {
  if (f < -0x1p63 || f >= 0x1p63) return ga_fail(GA_ERR_UNSUPPORTED, "int: beyond 64 bits");
  *out = ga_jj_int((int64_t)f);
  return GA_OK;
}

JJ_BUILTIN(filter_int) {
  jj_val v = call->self;
  int64_t base, i;
  double f;
  bool too_big = false;
  (void)run;
  GA_TRY(ga_jj_need_defined(v));
  GA_TRY(ga_jj_param_int(call, 1, 10, &base));
  *out = call->v[0].kind == JJ_MISSING ? ga_jj_int(0) : call->v[0];
  if (v.kind == JJ_FLOAT && !isnan(v.u.f)) return float_to_int(v.u.f, out);
  if (ga_jj_as_int(v, &i)) *out = ga_jj_int(i);
  if (v.kind == JJ_BIG) *out = v;
  if (v.kind != JJ_STR) return GA_OK;
  if ((base == 0 || (base >= 2 && base <= 36)) && parse_int(v.u.s, (int)base, &i, &too_big)) {
    if (too_big) return ga_fail(GA_ERR_UNSUPPORTED, "int: beyond 64 bits");
    *out = ga_jj_int(i);
  } else if (ga_jj_read_float(v.u.s->p, v.u.s->n, &f) && isfinite(f)) {
    return float_to_int(f, out); /* "42.23"|int is 42 */
  }
  return GA_OK;
}

JJ_BUILTIN(filter_format) {
  const jj_args *args = call->args;
  jj_str *s;
  jj_val v;
  if (args->n_pos && args->n_kw)
    return ga_fail(GA_ERR_FORMAT, "format: takes positional or keyword arguments, not both");
  GA_TRY(ga_jj_self_str(run, call, &s));
  if (args->n_kw) {
    GA_TRY(ga_jj_dict_new(run, 0, &v));
    for (size_t i = 0; i < args->n_kw; i++) {
      jj_val key;
      GA_TRY(ga_jj_str_part(run, args->kw[i].name, 0, args->kw[i].name->n, &key));
      GA_TRY(ga_jj_dict_set(run, v.u.d, key, args->kw[i].value));
    }
  } else {
    GA_TRY(ga_jj_seq_new(run, JJ_TUPLE, 0, &v));
    for (size_t i = 0; i < args->n_pos; i++) GA_TRY(ga_jj_seq_push(run, v.u.q, args->pos[i]));
  }
  return ga_jj_percent(run, s, v, out);
}

static ga_status indent_unit(jj_run *run, const jj_call *call, jj_val *out) {
  static jj_str empty = {"", 0, 0, NULL};
  int64_t width;
  *out = call->v[0];
  if (out->kind == JJ_STR) return GA_OK;
  GA_TRY(ga_jj_param_int(call, 0, 4, &width));
  return ga_jj_pad(run, &empty, width, 1, NULL, out);
}

JJ_BUILTIN(filter_indent) {
  jj_val unit, text, lines;
  jj_buf buf = {0};
  bool first = ga_jj_param_flag(call, 1), blank = ga_jj_param_flag(call, 2);
  if (call->self.kind != JJ_STR) {
    GA_TRY(ga_jj_need_defined(call->self));
    return ga_fail(GA_ERR_FORMAT, "indent: takes a string, not '%s'", ga_jj_type(call->self));
  }
  GA_TRY(indent_unit(run, call, &unit));
  GA_TRY(ga_jj_str_new(run, "\n", 1, &text));
  GA_TRY(ga_jj_binary(run, JO_ADD, call->self, text, &text));
  GA_TRY(ga_jj_splitlines(run, text.u.s, false, &lines));
  for (size_t i = 0; i < lines.u.q->n; i++) {
    jj_val line = lines.u.q->v[i];
    if (i) GA_TRY(ga_jj_buf_put(run, &buf, "\n", 1));
    if (i ? blank || line.u.s->n : first) GA_TRY(ga_jj_put_str(run, &buf, unit));
    GA_TRY(ga_jj_put_str(run, &buf, line));
  }
  return ga_jj_buf_str(run, &buf, out);
}

JJ_BUILTIN(filter_replace) {
  jj_val old, new_;
  jj_str *s;
  int64_t count;
  GA_TRY(ga_jj_self_str(run, call, &s));
  GA_TRY(ga_jj_to_str(run, call->v[0], &old));
  GA_TRY(ga_jj_to_str(run, call->v[1], &new_));
  GA_TRY(ga_jj_param_int(call, 2, -1, &count));
  return ga_jj_replace(run, s, old.u.s, new_.u.s, count, out);
}

/* Python's round(f, n): to the nearest decimal, halves of the binary value to even, which is what printf does. */
static double round_decimal(double f, int64_t digits) {
  char text[400];
  if (!isfinite(f) || digits > 30) return f;
  if (digits < 0) {
    double scale = pow(10, (double)-digits);
    return isfinite(scale) ? nearbyint(f / scale) * scale : copysign(0, f);
  }
  (void)snprintf(text, sizeof text, "%.*f", (int)digits, f);
  return strtod(text, NULL);
}

JJ_BUILTIN(filter_round) {
  jj_val v = call->self;
  int64_t digits, i;
  jj_str *method;
  (void)run;
  GA_TRY(ga_jj_param_int(call, 0, 0, &digits));
  GA_TRY(ga_jj_param_str(call, 1, &method));
  GA_TRY(ga_jj_need_defined(v));
  if (!ga_jj_is_num(v)) return ga_fail(GA_ERR_FORMAT, "round: takes a number, not '%s'", ga_jj_type(v));
  bool common = !method || ga_jj_str_is(method, "common"), ceiling = method && ga_jj_str_is(method, "ceil");
  if (!common && !ceiling && !ga_jj_str_is(method, "floor"))
    return ga_fail(GA_ERR_FORMAT, "round: method '%.30s'; allowed are common, ceil, floor", method->p);
  double scale = pow(10, (double)digits), x = ga_jj_as_double(v) * scale;
  if (!common && (!isfinite(x) || scale <= 0)) return ga_fail(GA_ERR_FORMAT, "round: the number is not finite");
  if (!common)
    *out = ga_jj_float((ceiling ? ceil(x) : floor(x)) / scale);
  else if (ga_jj_as_int(v, &i) && digits >= 0)
    *out = ga_jj_int(i);
  else if (v.kind == JJ_BIG && digits >= 0)
    *out = v;
  else if (v.kind == JJ_BIG)
    return float_to_int(INFINITY, out);
  else if (ga_jj_as_int(v, &i))
    return float_to_int(round_decimal((double)i, digits), out);
  else
    *out = ga_jj_float(round_decimal(v.u.f, digits));
  return GA_OK;
}

JJ_BUILTIN(filter_string) { return ga_jj_to_str(run, call->self, out); }

JJ_BUILTIN(filter_trim) {
  jj_str *s, *chars;
  GA_TRY(ga_jj_self_str(run, call, &s));
  GA_TRY(ga_jj_param_str(call, 0, &chars));
  return ga_jj_strip_paid(run, s, chars, JJ_STRIP_LEFT | JJ_STRIP_RIGHT, out);
}

const jj_def ga_jj_filters_text[] = {
    {"abs", "", filter_abs},
    {"capitalize", "", filter_capitalize},
    {"center", "width?", filter_center},
    {"d", "default_value? boolean?", filter_default},
    {"default", "default_value? boolean?", filter_default},
    {"e", "", filter_escape},
    {"escape", "", filter_escape},
    {"float", "default?", filter_float},
    {"format", "*", filter_format},
    {"indent", "width? first? blank?", filter_indent},
    {"int", "default? base?", filter_int},
    {"lower", "", filter_lower},
    {"replace", "old new count?", filter_replace},
    {"round", "precision? method?", filter_round},
    {"safe", "", filter_string},
    {"string", "", filter_string},
    {"title", "", filter_title},
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", ga_jj_tojson},
    {"trim", "chars?", filter_trim},
    {"upper", "", filter_upper},
    {NULL, NULL, NULL},
};
