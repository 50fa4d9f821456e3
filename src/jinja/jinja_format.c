/* "%5.2f" % x and "{:>5}".format(x). */
#include <ctype.h>
#include <math.h>
#include <stdio.h>

#include "jinja/jinja_builtin.h"

#define MAX_WIDTH     4096
#define MAX_PRECISION 100

typedef struct field {
  jj_str fill;          /* one code point */
  char align;           /* < > ^ = or 0: the default of the value */
  char sign;            /* + or space or 0 */
  int width, precision; /* precision -1: none */
  char type;            /* 0: none */
  bool alternate;
} field;

typedef struct formatter {
  jj_run *run;
  jj_buf buf;
  const jj_str *format;
  const char *p, *end; /* rest of the format */
} formatter;

static const jj_str space = {" ", 1, 1, NULL}, zero_fill = {"0", 1, 1, NULL};

/* [p, p + n) of the format. */
static jj_str of_format(const formatter *f, const char *p, size_t n) {
  return ga_jj_part(f->format, (size_t)(p - f->format->p), n);
}

static ga_status put_str(formatter *f, const jj_str *s) { return ga_jj_buf_part(f->run, &f->buf, s, 0, s->n); }

static ga_status bad_spec(const char *what) {
  return ga_fail(GA_ERR_FORMAT,
                 "format: %s; known are fill, align, sign, 0, width (up to %d), .precision (up to %d) and s r d i x X "
                 "o b c e f g %%",
                 what, MAX_WIDTH, MAX_PRECISION);
}

static ga_status read_number(formatter *f, int most, int *out) {
  for (*out = 0; f->p < f->end && isdigit((unsigned char)*f->p); f->p++) {
    *out = 10 * *out + (*f->p - '0');
    if (*out > most) return bad_spec("a number is too large");
  }
  return GA_OK;
}

/* Sign or prefix, then body, in a field. */
static ga_status put_field(formatter *f, const field *spec, const char *head, const jj_str *body, char align) {
  size_t head_n = strlen(head), have = head_n + ga_jj_points(body->p, body->n), width = (size_t)spec->width;
  size_t gap = width > have ? width - have : 0, before = 0, inside = 0;
  if (spec->align) align = spec->align;
  if (align == '>') before = gap;
  if (align == '^') before = gap / 2;
  if (align == '=') inside = gap;
  for (size_t i = 0; i < before; i++) GA_TRY(put_str(f, &spec->fill));
  GA_TRY(ga_jj_buf_put(f->run, &f->buf, head, head_n));
  for (size_t i = 0; i < inside; i++) GA_TRY(put_str(f, &spec->fill));
  GA_TRY(put_str(f, body));
  for (size_t i = before + inside; i < gap; i++) GA_TRY(put_str(f, &spec->fill));
  return ga_jj_step(f->run, gap / 16);
}

static ga_status put_number(formatter *f, const field *spec, const char *head, const char *digits, size_t n) {
  const jj_str body = {digits, n, JJ_POINTS_UNKNOWN, NULL};
  return put_field(f, spec, head, &body, '>');
}

static ga_status put_text(formatter *f, const field *spec, jj_val v, bool repr, char align) {
  jj_buf text = {0};
  jj_val s;
  if (repr)
    GA_TRY(ga_jj_put_repr(f->run, &text, v));
  else
    GA_TRY(ga_jj_put_str(f->run, &text, v));
  GA_TRY(ga_jj_buf_str(f->run, &text, &s));
  size_t n = spec->precision >= 0 ? ga_jj_offset(s.u.s, (size_t)spec->precision) : s.u.s->n;
  const jj_str body = ga_jj_part(s.u.s, 0, n);
  return put_field(f, spec, "", &body, align);
}

static void sign_of(const field *spec, bool negative, char head[4]) {
  size_t n = 0;
  if (negative)
    head[n++] = '-';
  else if (spec->sign)
    head[n++] = spec->sign;
  head[n] = 0;
}

/* A float cut to an integer, of any size. */
static ga_status put_whole(formatter *f, const field *spec, double x) {
  char text[MAX_PRECISION + 320], head[4]; /* 309 digits at most */
  if (!isfinite(x)) return bad_spec("the number is not finite");
  sign_of(spec, x <= -1, head);
  (void)memset(text, '0', MAX_PRECISION);
  int n = snprintf(text + MAX_PRECISION, sizeof text - MAX_PRECISION, "%.0f", fabs(trunc(x)));
  int zeros = spec->precision > n ? spec->precision - n : 0;
  return put_number(f, spec, head, text + MAX_PRECISION - zeros, (size_t)(n + zeros));
}

static ga_status put_int(formatter *f, const field *spec, int64_t i) {
  char digits[160], head[4];
  int base = spec->type == 'x' || spec->type == 'X' ? 16 : spec->type == 'o' ? 8 : spec->type == 'b' ? 2 : 10;
  uint64_t magnitude = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
  size_t at = sizeof digits;
  int least = spec->precision > 1 ? spec->precision : 1;
  do {
    digits[--at] = (spec->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[magnitude % (uint64_t)base];
    magnitude /= (uint64_t)base;
    least--;
  } while (magnitude || least > 0);
  sign_of(spec, i < 0, head);
  if (spec->alternate && base != 10) {
    size_t n = strlen(head);
    head[n] = '0';
    head[n + 1] = spec->type;
    head[n + 2] = 0;
  }
  return put_number(f, spec, head, digits + at, sizeof digits - at);
}

static ga_status put_float(formatter *f, const field *spec, double x) {
  char c_format[8] = "%.*", text[512], head[4], type[2] = {spec->type, 0};
  bool percent = spec->type == '%';
  if (!spec->type && spec->precision < 0) {
    jj_val magnitude = ga_jj_float(fabs(x));
    field plain = *spec;
    sign_of(spec, signbit(x), head);
    plain.precision = -1;
    size_t n = ga_jj_format_float(magnitude.u.f, text);
    return put_number(f, &plain, head, text, n);
  }
  if (!spec->type) return bad_spec("a precision needs a type such as f");
  if (percent) type[0] = 'f';
  int n = snprintf(text, sizeof text, strcat(c_format, type), spec->precision < 0 ? 6 : spec->precision,
                   fabs(percent ? x * 100 : x));
  if (n < 0 || (size_t)n >= sizeof text - 1) return bad_spec("the number is too long");
  if (percent) text[n++] = '%';
  sign_of(spec, signbit(x) && !isnan(x), head);
  return put_number(f, spec, head, text, (size_t)n);
}

static ga_status put_char(formatter *f, const field *spec, jj_val v) {
  static const uint8_t marks[4] = {1, 1, 1, 1}; /* a number of a message could spell anything */
  char bytes[4];
  int64_t i;
  if (v.kind == JJ_STR && ga_jj_str_points(v.u.s) == 1) return put_field(f, spec, "", v.u.s, '>');
  if (!ga_jj_as_int(v, &i) || i < 0 || i > 0x10ffff || (i >= 0xd800 && i < 0xe000))
    return bad_spec("%c takes a character or its number");
  const jj_str body = {bytes, ga_jj_encode((int32_t)i, bytes), 1, f->run->trace ? marks : NULL};
  return put_field(f, spec, "", &body, '>');
}

/* One value by its type letter; `align` is the default of text. */
static ga_status put_value(formatter *f, const field *spec, jj_val v, char align) {
  int64_t i;
  switch (spec->type) {
  case 's': return put_text(f, spec, v, false, align);
  case 'r':
  case 'a': return put_text(f, spec, v, true, align);
  case 'c': return put_char(f, spec, v);
  default: break;
  }
  GA_TRY(ga_jj_need_defined(v));
  if (!ga_jj_is_num(v))
    return ga_fail(GA_ERR_FORMAT, "format: '%c' takes a number, not '%s'", spec->type, ga_jj_type(v));
  bool as_int = strchr("diuxXob", spec->type) != NULL;
  if (as_int && v.kind == JJ_FLOAT) {
    if (!strchr("diu", spec->type)) return bad_spec("the number is no integer");
    return put_whole(f, spec, v.u.f);
  }
  if (as_int && v.kind == JJ_BIG) return ga_fail(GA_ERR_UNSUPPORTED, "format: integer beyond 64 bits");
  if (as_int && ga_jj_as_int(v, &i)) return put_int(f, spec, i);
  return put_float(f, spec, ga_jj_as_double(v));
}

/* Percent formats */

static ga_status percent_spec(formatter *f, field *spec) {
  bool zero = false;
  *spec = (field){.fill = space, .precision = -1};
  for (; f->p < f->end && strchr("-+ 0#", *f->p) && *f->p; f->p++) {
    if (*f->p == '-') spec->align = '<';
    if (*f->p == '+') spec->sign = '+';
    if (*f->p == ' ' && !spec->sign) spec->sign = ' ';
    if (*f->p == '0') zero = true;
    if (*f->p == '#') spec->alternate = true;
  }
  GA_TRY(read_number(f, MAX_WIDTH, &spec->width));
  if (f->p < f->end && *f->p == '.') {
    f->p++;
    GA_TRY(read_number(f, MAX_PRECISION, &spec->precision));
  }
  while (f->p < f->end && (*f->p == 'l' || *f->p == 'h' || *f->p == 'L')) f->p++;
  if (f->p == f->end || !*f->p || !strchr("srdiuxXoceEfFgGa%", *f->p)) return bad_spec("unknown % conversion");
  spec->type = *f->p++;
  if (zero && !spec->align && strchr("diuxXoeEfFgG", spec->type)) {
    spec->fill = zero_fill;
    spec->align = '=';
  }
  return GA_OK;
}

/* The value of one conversion: by name from a dict, else the next one. */
static ga_status percent_value(formatter *f, jj_val args, size_t *used, jj_val *out) {
  if (f->p < f->end && *f->p == '(') {
    const char *close = memchr(f->p, ')', (size_t)(f->end - f->p));
    jj_val *found, key;
    if (args.kind != JJ_DICT || !close) return ga_fail(GA_ERR_FORMAT, "format: %%(name) takes a dict");
    GA_TRY(ga_jj_str_part(f->run, f->format, (size_t)(f->p + 1 - f->format->p), (size_t)(close - f->p - 1), &key));
    GA_TRY(ga_jj_dict_find(f->run, args.u.d, key, &found));
    if (!found)
      return ga_fail(GA_ERR_FORMAT, "format: no key '%.*s'", (int)(close - f->p - 1 < 60 ? close - f->p - 1 : 60),
                     f->p + 1);
    f->p = close + 1;
    *out = *found;
    return GA_OK;
  }
  out->kind = JJ_MISSING; /* found once the conversion is known: %% takes none */
  (void)used;
  return GA_OK;
}

static ga_status next_value(jj_val args, size_t *used, jj_val *out) {
  bool tuple = args.kind == JJ_TUPLE;
  if (*used >= (tuple ? args.u.q->n : 1)) return ga_fail(GA_ERR_FORMAT, "format: not enough arguments");
  *out = tuple ? args.u.q->v[*used] : args;
  ++*used;
  return GA_OK;
}

ga_status ga_jj_percent(jj_run *run, const jj_str *format, jj_val args, jj_val *out) {
  formatter f = {.run = run, .format = format, .p = format->p, .end = format->p + format->n};
  size_t used = 0;
  while (f.p < f.end) {
    const char *percent = memchr(f.p, '%', (size_t)(f.end - f.p));
    field spec;
    jj_val v;
    if (!percent) percent = f.end;
    const jj_str literal = of_format(&f, f.p, (size_t)(percent - f.p));
    GA_TRY(put_str(&f, &literal));
    f.p = percent + 1;
    if (percent == f.end) break;
    GA_TRY(ga_jj_step(run, 1));
    GA_TRY(percent_value(&f, args, &used, &v));
    GA_TRY(percent_spec(&f, &spec));
    if (spec.type == '%') {
      GA_TRY(ga_jj_buf_put(run, &f.buf, "%", 1));
      continue;
    }
    if (v.kind == JJ_MISSING) GA_TRY(next_value(args, &used, &v));
    GA_TRY(put_value(&f, &spec, v, '>'));
  }
  /* What can be subscripted may stay unused, as if it were a mapping. */
  bool mapping = args.kind == JJ_DICT || args.kind == JJ_LIST || args.kind == JJ_RANGE || args.kind == JJ_UNDEF;
  bool all = args.kind == JJ_TUPLE ? used == args.u.q->n : used || mapping;
  if (!all) return ga_fail(GA_ERR_FORMAT, "format: not all arguments are used");
  return ga_jj_buf_str(run, &f.buf, out);
}

/* Brace formats */

static ga_status brace_spec(formatter *f, const char *end, field *spec) {
  size_t len = 1;
  *spec = (field){.fill = space, .precision = -1};
  if (f->p < end) (void)ga_jj_decode(f->p, end, &len);
  if (f->p + len < end && strchr("<>^=", f->p[len]) && f->p[len]) {
    spec->fill = of_format(f, f->p, len);
    spec->align = f->p[len];
    f->p += len + 1;
  } else if (f->p < end && strchr("<>^=", *f->p) && *f->p) {
    spec->align = *f->p++;
  }
  if (f->p < end && (*f->p == '+' || *f->p == '-' || *f->p == ' ')) spec->sign = *f->p == '-' ? 0 : *f->p;
  if (f->p < end && (*f->p == '+' || *f->p == '-' || *f->p == ' ')) f->p++;
  if (f->p < end && *f->p == '#') spec->alternate = f->p++ != NULL;
  if (f->p < end && *f->p == '0' && !spec->align) {
    spec->fill = zero_fill;
    spec->align = '=';
  }
  GA_TRY(read_number(f, MAX_WIDTH, &spec->width));
  if (f->p < end && *f->p == '.') {
    f->p++;
    GA_TRY(read_number(f, MAX_PRECISION, &spec->precision));
  }
  if (f->p < end && *f->p && strchr("srdxXoceEfFgGb%", *f->p)) spec->type = *f->p++;
  if (f->p != end) return bad_spec("unknown format specification");
  return GA_OK;
}

/* "name.attr[key]" of a replacement field, from the arguments of the call. */
static ga_status brace_value(formatter *f, const char *end, const jj_args *args, size_t *automatic, jj_val *out) {
  const char *p = f->p;
  while (p < end && *p != '.' && *p != '[') p++;
  size_t n = (size_t)(p - f->p), index = 0;
  bool numeric = true;
  for (size_t i = 0; i < n; i++) {
    numeric = numeric && isdigit((unsigned char)f->p[i]) && n < 9;
    index = 10 * index + (size_t)(f->p[i] - '0');
  }
  if (!n) index = (*automatic)++;
  const jj_kw *kw = NULL;
  for (size_t i = 0; !numeric && i < args->n_kw; i++)
    if (args->kw[i].name->n == n && !memcmp(args->kw[i].name->p, f->p, n)) kw = &args->kw[i];
  if (numeric ? index >= args->n_pos : !kw)
    return ga_fail(GA_ERR_FORMAT, "format: no argument '{%.*s}'", (int)(n < 60 ? n : 60), f->p);
  *out = numeric ? args->pos[index] : kw->value;
  while (p < end) {
    char kind = *p++;
    const char *stop = p;
    while (stop < end && (kind == '[' ? *stop != ']' : *stop != '.' && *stop != '[')) stop++;
    jj_val key;
    GA_TRY(ga_jj_step(f->run, 1));
    GA_TRY(ga_jj_str_part(f->run, f->format, (size_t)(p - f->format->p), (size_t)(stop - p), &key));
    if (kind == '[')
      GA_TRY(ga_jj_path(f->run, *out, key, ga_jj_none(), out));
    else
      GA_TRY(ga_jj_attr(f->run, *out, key.u.s, out));
    GA_TRY(ga_jj_need_defined(*out));
    p = kind == '[' && stop < end ? stop + 1 : stop;
  }
  return GA_OK;
}

static ga_status brace_field(formatter *f, const jj_args *args, size_t *automatic) {
  const char *close = memchr(f->p, '}', (size_t)(f->end - f->p)), *name_end = f->p;
  field spec;
  jj_val v;
  if (!close || memchr(f->p, '{', (size_t)(close - f->p))) return bad_spec("'{' without '}', or nested");
  while (name_end < close && *name_end != '!' && *name_end != ':') name_end++;
  GA_TRY(brace_value(f, name_end, args, automatic, &v));
  f->p = name_end;
  if (f->p + 1 < close && *f->p == '!') {
    if (f->p[1] != 'r' && f->p[1] != 's') return bad_spec("unknown conversion after '!'");
    if (f->p[1] == 's') GA_TRY(ga_jj_to_str(f->run, v, &v));
    jj_buf repr = {0};
    if (f->p[1] == 'r') GA_TRY(ga_jj_put_repr(f->run, &repr, v));
    if (f->p[1] == 'r') GA_TRY(ga_jj_buf_str(f->run, &repr, &v));
    f->p += 2;
  }
  if (f->p < close && *f->p == ':') f->p++;
  bool plain = f->p == close;
  GA_TRY(brace_spec(f, close, &spec));
  f->p = close + 1;
  bool number = ga_jj_is_num(v);
  if (plain) return ga_jj_put_str(f->run, &f->buf, v);
  if (v.kind != JJ_STR && !number)
    return ga_fail(GA_ERR_FORMAT, "format: a '%s' takes no format specification", ga_jj_type(v));
  if (number && spec.type == 's') return bad_spec("'s' takes a string");
  if (!spec.type && number && v.kind != JJ_FLOAT) spec.type = 'd';
  if (!spec.type && !number) spec.type = 's';
  return put_value(f, &spec, v, '<');
}

ga_status ga_jj_brace_format(jj_run *run, const jj_call *call, jj_val *out) {
  const jj_str *format = call->self.u.s;
  formatter f = {.run = run, .format = format, .p = format->p, .end = format->p + format->n};
  size_t automatic = 0;
  while (f.p < f.end) {
    char c = *f.p++;
    bool twice = f.p < f.end && *f.p == c;
    if (c == '{' && !twice) {
      GA_TRY(ga_jj_step(run, 1));
      GA_TRY(brace_field(&f, call->args, &automatic));
      continue;
    }
    if (c == '}' && !twice) return bad_spec("a lone '}'");
    f.p += c == '{' || c == '}';
    GA_TRY(ga_jj_buf_part(run, &f.buf, format, (size_t)(f.p - 1 - format->p), 1)); /* of two braces the second */
  }
  return ga_jj_buf_str(run, &f.buf, out);
}
