/* Tokens of a template, with white space control. Follows jinja2/lexer.py 3.1 in what it accepts. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

#include "jinja/jinja_parse.h"

#define MAX_OPEN 256 /* brackets open at once */

typedef struct lexer {
  jj_parser *parser;
  const char *p; /* the source */
  size_t n, at;
  bool line_start; /* the last token ended with a newline, or there was none */
} lexer;

void ga_jj_where(const ga_template *tpl, size_t pos, unsigned *line, unsigned *column) {
  *line = *column = 1;
  for (size_t i = 0; i < pos && i < tpl->n; i++) {
    if (tpl->source[i] == '\n') {
      ++*line;
      *column = 1;
    } else if ((tpl->source[i] & 0xc0) != 0x80) {
      ++*column;
    }
  }
}

ga_status ga_jj_fail_at(const jj_parser *parser, size_t pos, ga_status status, const char *fmt, ...) {
  char text[768];
  unsigned line, column;
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  ga_jj_where(parser->tpl, pos, &line, &column);
  return ga_fail(status, "chat template, line %u, column %u: %s", line, column, text);
}

static size_t name_slot(const jj_parser *parser, const char *p, size_t n) {
  size_t mask = parser->cap_names - 1, i = (size_t)ga_fnv64(GA_FNV64_START, p, n) & mask;
  while (parser->names[i] && (parser->names[i]->n != n || memcmp(parser->names[i]->p, p, n))) i = (i + 1) & mask;
  return i;
}

static ga_status grow_names(jj_parser *parser) {
  jj_str **old = parser->names;
  size_t n_old = parser->cap_names;
  void *bigger;
  GA_TRY(ga_arena_alloc(&parser->scratch, (n_old ? 2 * n_old : 64) * sizeof *old, &bigger));
  parser->names = bigger;
  parser->cap_names = n_old ? 2 * n_old : 64;
  for (size_t i = 0; i < n_old; i++)
    if (old[i]) parser->names[name_slot(parser, old[i]->p, old[i]->n)] = old[i];
  return GA_OK;
}

static ga_status new_str(jj_parser *parser, const char *p, size_t n, jj_str **out) {
  void *s;
  char *copy;
  GA_TRY(ga_arena_alloc(&parser->tpl->arena, sizeof(jj_str), &s));
  GA_TRY(ga_arena_strndup(&parser->tpl->arena, p, n, &copy));
  *out = s;
  **out = (jj_str){copy, n, ga_jj_points(copy, n), NULL};
  return GA_OK;
}

ga_status ga_jj_intern(jj_parser *parser, const char *p, size_t n, jj_str **out) {
  if (2 * parser->n_names >= parser->cap_names) GA_TRY(grow_names(parser));
  size_t slot = name_slot(parser, p, n);
  if (!parser->names[slot]) {
    GA_TRY(new_str(parser, p, n, &parser->names[slot]));
    parser->n_names++;
  }
  *out = parser->names[slot];
  return GA_OK;
}

static ga_status push_tok(lexer *lx, jj_tok_kind kind, size_t pos, size_t end, jj_tok **out) {
  jj_parser *parser = lx->parser;
  if (parser->n_tok == parser->cap_tok) {
    size_t cap = parser->cap_tok ? 2 * parser->cap_tok : 256;
    void *bigger;
    GA_TRY(ga_arena_alloc(&parser->scratch, cap * sizeof(jj_tok), &bigger));
    if (parser->n_tok) memcpy(bigger, parser->tok, parser->n_tok * sizeof(jj_tok));
    parser->tok = bigger;
    parser->cap_tok = cap;
  }
  jj_tok *tok = &parser->tok[parser->n_tok++];
  *tok = (jj_tok){.kind = kind, .pos = (uint32_t)pos, .end = (uint32_t)end};
  if (out) *out = tok;
  return GA_OK;
}

static ga_status push_data(lexer *lx, size_t begin, size_t end) {
  if (begin == end) return GA_OK;
  jj_str *s;
  jj_tok *tok;
  GA_TRY(new_str(lx->parser, lx->p + begin, end - begin, &s));
  GA_TRY(push_tok(lx, JT_DATA, begin, end, &tok));
  tok->u.s = s;
  return GA_OK;
}

static bool looking_at(const lexer *lx, size_t at, const char *what) {
  size_t n = strlen(what);
  return lx->n - at >= n && !memcmp(lx->p + at, what, n);
}

static size_t after_space(const lexer *lx, size_t at) {
  for (size_t len; at < lx->n; at += len)
    if (!ga_jj_is_space(ga_jj_decode(lx->p + at, lx->p + lx->n, &len))) break;
  return at;
}

/* End of the text before a tag: `-` strips white space, else lstrip_blocks strips the indentation of a block alone on
 * its line. */
static size_t text_end(const lexer *lx, size_t begin, size_t end, char sign, bool variable) {
  if (sign == '-') {
    jj_str text = {lx->p + begin, end - begin, JJ_POINTS_UNKNOWN, NULL};
    return begin + ga_jj_strip(&text, NULL, JJ_STRIP_RIGHT).n;
  }
  if (sign == '+' || variable) return end;
  size_t line = end;
  while (line > begin && lx->p[line - 1] != '\n') line--;
  if (line == begin && !lx->line_start) return end;
  return after_space(lx, line) >= end ? line : end;
}

/* Passes the end of a tag whose closing mark is `mark` at `at` (a `-` or `+` may stand before it): `-` eats white
 * space, else one newline goes when `trim` (trim_blocks). */
static void close_tag(lexer *lx, size_t at, const char *mark, bool trim) {
  char sign = lx->p[at];
  size_t end = at + (sign == '-' || sign == '+') + strlen(mark);
  if (sign == '-')
    end = after_space(lx, end);
  else if (sign != '+' && trim && end < lx->n && lx->p[end] == '\n')
    end++;
  lx->line_start = lx->p[end - 1] == '\n';
  lx->at = end;
}

/* At the closing mark of the open tag, with its sign? */
static bool at_close(const lexer *lx, const char *mark, bool plus) {
  if (looking_at(lx, lx->at, mark)) return true;
  char sign = lx->at < lx->n ? lx->p[lx->at] : 0;
  return (sign == '-' || (plus && sign == '+')) && looking_at(lx, lx->at + 1, mark);
}

static ga_status lex_comment(lexer *lx, size_t tag) {
  for (size_t at = lx->at; at + 1 < lx->n; at++) {
    if (!looking_at(lx, at, "#}")) continue;
    bool sign = at > lx->at && (lx->p[at - 1] == '-' || lx->p[at - 1] == '+');
    close_tag(lx, at - sign, "#}", true);
    return GA_OK;
  }
  return ga_jj_fail_at(lx->parser, tag, GA_ERR_FORMAT, "comment: '{#' without '#}'");
}

/* Byte after "{%[-+] word [-+]%}" without its closing mark, or 0. */
static size_t match_word_tag(const lexer *lx, size_t at, const char *word) {
  if (!looking_at(lx, at, "{%")) return 0;
  at += 2;
  if (at < lx->n && (lx->p[at] == '-' || lx->p[at] == '+')) at++;
  at = after_space(lx, at);
  if (!looking_at(lx, at, word)) return 0;
  at = after_space(lx, at + strlen(word));
  if (looking_at(lx, at, "%}") || looking_at(lx, at, "-%}") || looking_at(lx, at, "+%}")) return at;
  return 0;
}

static ga_status lex_raw(lexer *lx, size_t tag, size_t close) {
  close_tag(lx, close, "%}", false);
  size_t begin = lx->at;
  for (size_t at = begin; at < lx->n; at++) {
    if (lx->p[at] != '{') continue;
    size_t end = match_word_tag(lx, at, "endraw");
    if (!end) continue;
    GA_TRY(push_data(lx, begin, text_end(lx, begin, at, lx->p[at + 2], false)));
    close_tag(lx, end, "%}", true);
    return GA_OK;
  }
  return ga_jj_fail_at(lx->parser, tag, GA_ERR_FORMAT, "raw: '{%% raw %%}' without '{%% endraw %%}'");
}

static bool is_digit(char c, int base) {
  if (base == 16) return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f');
  return c >= '0' && c < '0' + base;
}

/* Passes digits with single underscores between them; 0 when there is none at `at`. */
static size_t digits(const lexer *lx, size_t at, int base) {
  size_t begin = at;
  while (at < lx->n) {
    if (is_digit(lx->p[at], base))
      at++;
    else if (at > begin && lx->p[at] == '_' && at + 1 < lx->n && is_digit(lx->p[at + 1], base))
      at++;
    else
      break;
  }
  return at - begin;
}

static size_t float_length(const lexer *lx) {
  if (lx->at && lx->p[lx->at - 1] == '.') return 0; /* a.1.2 is two subscripts */
  size_t at = lx->at + digits(lx, lx->at, 10), fraction = 0, whole = at;
  if (at < lx->n && lx->p[at] == '.') fraction = digits(lx, at + 1, 10);
  if (fraction) at += 1 + fraction;
  if (at < lx->n && (lx->p[at] | 32) == 'e') {
    size_t e = at + 1;
    if (e < lx->n && (lx->p[e] == '+' || lx->p[e] == '-')) e++;
    size_t exponent = digits(lx, e, 10);
    if (exponent) at = e + exponent;
  }
  return at > whole ? at - lx->at : 0;
}

static ga_status lex_float(lexer *lx, size_t n) {
  char text[128];
  size_t used = 0;
  GA_REQUIRE(n < sizeof text, GA_ERR_UNSUPPORTED, "chat template: number of %zu characters; at most 127", n);
  for (size_t i = 0; i < n; i++)
    if (lx->p[lx->at + i] != '_') text[used++] = lx->p[lx->at + i];
  jj_tok *tok;
  GA_TRY(push_tok(lx, JT_FLOAT, lx->at, lx->at + n, &tok));
  if (!ga_jj_read_float(text, used, &tok->u.f))
    return ga_jj_fail_at(lx->parser, lx->at, GA_ERR_FORMAT, "number '%.*s' cannot be read", (int)used, text);
  lx->at += n;
  return GA_OK;
}

static ga_status lex_int(lexer *lx) {
  size_t at = lx->at, n;
  int base = 10;
  int64_t value = 0;
  if (lx->p[at] == '0' && at + 1 < lx->n) {
    char c = (char)(lx->p[at + 1] | 32);
    base = c == 'b' ? 2 : c == 'o' ? 8 : c == 'x' ? 16 : 10;
    if (base != 10 && digits(lx, at + 2, base))
      at += 2;
    else
      base = 10;
  }
  n = digits(lx, at, lx->p[at] == '0' && base == 10 ? 1 : base); /* 007 is 00 and then 7, as in Python: an error */
  for (size_t i = at; i < at + n; i++) {
    char c = lx->p[i];
    if (c == '_') continue;
    int digit = c <= '9' ? c - '0' : (c | 32) - 'a' + 10;
    if (value > (INT64_MAX - digit) / base)
      return ga_jj_fail_at(lx->parser, lx->at, GA_ERR_UNSUPPORTED, "integer beyond 64 bits");
    value = value * base + digit;
  }
  jj_tok *tok;
  GA_TRY(push_tok(lx, JT_INT, lx->at, at + n, &tok));
  tok->u.i = value;
  lx->at = at + n;
  return GA_OK;
}

/* One escape after the backslash at `at`: appends to out, returns the bytes it took. 0 = none that Python knows. */
static size_t lex_escape(const lexer *lx, size_t at, char *out, size_t *n) {
  static const char letters[] = "n\nt\tr\r\\\\'\'\"\"a\ab\bf\fv\v";
  char c = lx->p[at];
  if (c == '\n') return 1;
  for (size_t i = 0; i + 1 < sizeof letters; i += 2)
    if (letters[i] == c) {
      out[(*n)++] = letters[i + 1];
      return 1;
    }
  size_t width = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0, begin = width ? 1 : 0, i;
  int base = width ? 16 : 8;
  int64_t point = 0;
  if (!width) width = 3;
  for (i = 0; i < width && at + begin + i < lx->n && is_digit(lx->p[at + begin + i], base); i++) {
    char d = lx->p[at + begin + i];
    point = point * base + (d <= '9' ? d - '0' : (d | 32) - 'a' + 10);
  }
  if (!i || (base == 16 && i < width)) return 0;
  if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return 0;
  *n += ga_jj_encode((int32_t)point, out + *n);
  return begin + i;
}

static ga_status lex_string(lexer *lx) {
  char quote = lx->p[lx->at];
  size_t end = lx->at + 1, n = 0;
  while (end < lx->n && lx->p[end] != quote) end += lx->p[end] == '\\' ? 2 : 1;
  if (end >= lx->n) return ga_jj_fail_at(lx->parser, lx->at, GA_ERR_FORMAT, "string without its closing %c", quote);
  void *buf;
  GA_TRY(ga_arena_alloc(&lx->parser->tpl->arena, end - lx->at + sizeof(jj_str), &buf));
  jj_str *s = buf;
  char *text = (char *)(s + 1); /* escapes never make text longer: \x80 is 4 bytes for 2 */
  for (size_t i = lx->at + 1; i < end;) {
    if (lx->p[i] != '\\') {
      text[n++] = lx->p[i++];
      continue;
    }
    size_t took = lex_escape(lx, i + 1, text, &n);
    if (!took && lx->p[i + 1] && strchr("xuUN", lx->p[i + 1]))
      return ga_jj_fail_at(lx->parser, i, GA_ERR_FORMAT,
                           "escape '\\%c': allowed are \\xHH, \\uHHHH and \\UHHHHHHHH of characters", lx->p[i + 1]);
    if (!took) text[n++] = '\\'; /* Python keeps what it does not know */
    i += 1 + took;
  }
  *s = (jj_str){text, n, ga_jj_points(text, n), NULL};
  jj_tok *tok;
  GA_TRY(push_tok(lx, JT_STR, lx->at, end + 1, &tok));
  tok->u.s = s;
  lx->at = end + 1;
  return GA_OK;
}

/* Bytes of the letters, digits and underscores at `at`. */
static size_t name_length(const lexer *lx, size_t at) {
  size_t begin = at, len;
  for (; at < lx->n; at += len)
    if (!ga_jj_is_word(ga_jj_decode(lx->p + at, lx->p + lx->n, &len))) break;
  return at - begin;
}

static ga_status lex_name(lexer *lx, size_t n) {
  jj_str *name;
  jj_tok *tok;
  GA_TRY(ga_jj_intern(lx->parser, lx->p + lx->at, n, &name));
  GA_TRY(push_tok(lx, JT_NAME, lx->at, lx->at + n, &tok));
  tok->u.s = name;
  lx->at += n;
  return GA_OK;
}

static ga_status balance(lexer *lx, char op, char *open, size_t *n_open) {
  char want = op == '(' ? ')' : op == '[' ? ']' : op == '{' ? '}' : 0;
  if (want) {
    if (*n_open == MAX_OPEN)
      return ga_jj_fail_at(lx->parser, lx->at, GA_ERR_TIMEOUT, "more than %d brackets open", MAX_OPEN);
    open[(*n_open)++] = want;
  } else if (op == ')' || op == ']' || op == '}') {
    if (!*n_open) return ga_jj_fail_at(lx->parser, lx->at, GA_ERR_FORMAT, "'%c' closes nothing", op);
    if (open[--*n_open] != op)
      return ga_jj_fail_at(lx->parser, lx->at, GA_ERR_FORMAT, "found '%c'; expected '%c'", op, open[*n_open]);
  }
  return GA_OK;
}

static ga_status lex_op(lexer *lx, char *open, size_t *n_open) {
  static const struct {
    char text[3], op;
  } pairs[] = {{"//", JO_FLOORDIV}, {"**", JO_POW}, {"==", JO_EQ}, {"!=", JO_NE}, {">=", JO_GE}, {"<=", JO_LE}};
  char op = lx->p[lx->at];
  size_t n = 1;
  for (size_t i = 0; i < GA_COUNT_OF(pairs); i++)
    if (looking_at(lx, lx->at, pairs[i].text)) {
      op = pairs[i].op;
      n = 2;
    }
  if (n == 1 && (!op || !strchr("+-*/%~<>=()[]{}.:,|;", op))) {
    (void)ga_jj_decode(lx->p + lx->at, lx->p + lx->n, &n);
    return ga_jj_fail_at(lx->parser, lx->at, GA_ERR_FORMAT,
                         "character '%.*s' has no meaning here; strings go in ' or \"", (int)n, lx->p + lx->at);
  }
  if (n == 1) GA_TRY(balance(lx, op, open, n_open));
  jj_tok *tok;
  GA_TRY(push_tok(lx, JT_OP, lx->at, lx->at + n, &tok));
  tok->op = op;
  lx->at += n;
  return GA_OK;
}

/* Inside {{ }} or {% %}, up to and with the closing mark. */
static ga_status lex_tag(lexer *lx, size_t tag, bool variable) {
  const char *mark = variable ? "}}" : "%}";
  char open[MAX_OPEN];
  size_t n_open = 0, n;
  GA_TRY(push_tok(lx, variable ? JT_VAR_BEGIN : JT_BLOCK_BEGIN, tag, lx->at, NULL));
  for (;;) {
    lx->at = after_space(lx, lx->at);
    if (lx->at >= lx->n)
      return ga_jj_fail_at(lx->parser, tag, GA_ERR_FORMAT, "'%s' without '%s'", variable ? "{{" : "{%", mark);
    if (!n_open && at_close(lx, mark, !variable)) {
      GA_TRY(push_tok(lx, variable ? JT_VAR_END : JT_BLOCK_END, lx->at, lx->at + 2, NULL));
      close_tag(lx, lx->at, mark, !variable);
      return GA_OK;
    }
    char c = lx->p[lx->at];
    if (c >= '0' && c <= '9')
      GA_TRY((n = float_length(lx)) ? lex_float(lx, n) : lex_int(lx));
    else if ((n = name_length(lx, lx->at)))
      GA_TRY(lex_name(lx, n));
    else if (c == '"' || c == '\'')
      GA_TRY(lex_string(lx));
    else
      GA_TRY(lex_op(lx, open, &n_open));
  }
}

static ga_status lex_one(lexer *lx) {
  size_t begin = lx->at, tag = begin;
  while (tag < lx->n && !(lx->p[tag] == '{' && tag + 1 < lx->n && strchr("{%#", lx->p[tag + 1]) && lx->p[tag + 1]))
    tag++;
  if (tag >= lx->n) {
    lx->at = lx->n;
    return push_data(lx, begin, lx->n);
  }
  char kind = lx->p[tag + 1], sign = tag + 2 < lx->n ? lx->p[tag + 2] : 0;
  GA_TRY(push_data(lx, begin, text_end(lx, begin, tag, sign, kind == '{')));
  size_t raw = match_word_tag(lx, tag, "raw");
  lx->at = tag + 2 + (sign == '-' || sign == '+');
  if (raw && lx->p[raw] != '+') return lex_raw(lx, tag, raw);
  if (kind == '#') return lex_comment(lx, tag);
  return lex_tag(lx, tag, kind == '{');
}

ga_status ga_jj_lex(jj_parser *parser) {
  lexer lx = {parser, parser->tpl->source, parser->tpl->n, 0, true};
  while (lx.at < lx.n) GA_TRY(lex_one(&lx));
  return push_tok(&lx, JT_EOF, lx.n, lx.n, NULL);
}
