#include "token/tok_norm.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/status.h"
#include "token/tok_run.h"
#include "token/unicode.h"

#define GROWS_TIMES 16   /* a normalised text has at most so many times the bytes of the text */
#define GROWS_MORE  4096 /* and so many more */

/* --- growing text --- */

static void norm_put(tok_run *run, tok_buffer *b, const char *s, size_t bytes) {
  if (run->status != GA_OK) return;
  if (bytes > run->norm_most - b->bytes) {
    run->status = ga_fail(GA_ERR_SHAPE, "tokenize: a text of more than %zu bytes when normalised", run->norm_most);
    return;
  }
  if (b->bytes + bytes > b->capacity) {
    const size_t room = 2 * (b->bytes + bytes);
    void *bigger;
    run->status = ga_mem_alloc(room, "normalised text", &bigger);
    if (run->status != GA_OK) return;
    if (b->bytes) memcpy(bigger, b->data, b->bytes);
    ga_mem_free(b->data);
    b->data = bigger;
    b->capacity = room;
  }
  if (bytes) memcpy(b->data + b->bytes, s, bytes);
  b->bytes += bytes;
}

static void norm_put_char(tok_run *run, tok_buffer *b, uint32_t cp) {
  uint8_t c[4];
  const int len = ga_utf8_encode(cp, c);
  norm_put(run, b, (const char *)c, (size_t)len);
}

/* --- characters --- */

/* The ranges of BertNormalizer. The last but two starts at U+2B820 in BERT itself; fast tokenizers, with which MiniLM
 * and its kin were trained, have U+2B920. */
bool tok_is_cjk(uint32_t cp) {
  return cp >= 0x3400 &&
         ((cp >= 0x4E00 && cp <= 0x9FFF) || cp <= 0x4DBF || (cp >= 0x20000 && cp <= 0x2A6DF) ||
          (cp >= 0x2A700 && cp <= 0x2B73F) || (cp >= 0x2B740 && cp <= 0x2B81F) || (cp >= 0x2B920 && cp <= 0x2CEAF) ||
          (cp >= 0xF900 && cp <= 0xFAFF) || (cp >= 0x2F800 && cp <= 0x2FA1F));
}

bool tok_is_dropped(uint32_t cp, uint32_t classes) {
  return cp == 0 || cp == GA_UC_REPLACEMENT || ((classes & GA_UC_OTHER) && cp != '\t' && cp != '\n' && cp != '\r');
}

static bool nmt_drops(uint32_t cp) {
  return (cp >= 1 && cp <= 8) || cp == 0x0B || (cp >= 0x0E && cp <= 0x1F) || cp == 0x7F || cp == 0x8F || cp == 0x9F;
}

static bool nmt_is_space(uint32_t cp) {
  return cp == '\t' || cp == '\n' || cp == 0x0C || cp == '\r' || cp == 0x1680 || (cp >= 0x200B && cp <= 0x200F) ||
         cp == 0x2028 || cp == 0x2029 || cp == 0x2581 || cp == 0xFEFF || cp == 0xFFFD;
}

/* U+0130 is the only character whose lower case is two characters, wherever it stands. */
static void norm_put_lower(tok_run *run, tok_buffer *out, uint32_t cp) {
  norm_put_char(run, out, cp == 0x130 ? 'i' : ga_uc_lower(cp));
  if (cp == 0x130) norm_put_char(run, out, 0x307);
}

static void norm_put_spaced(tok_run *run, tok_buffer *out, uint32_t cp) {
  const bool alone = tok_is_cjk(cp);
  if (alone) norm_put_char(run, out, ' ');
  norm_put_char(run, out, cp);
  if (alone) norm_put_char(run, out, ' ');
}

static void map_char(tok_run *run, tok_step_kind kind, uint32_t cp, tok_buffer *out) {
  const uint32_t classes = ga_uc_class(cp);
  switch (kind) {
  case TOK_STEP_LOWER: norm_put_lower(run, out, cp); return;
  case TOK_STEP_CJK: norm_put_spaced(run, out, cp); return;
  case TOK_STEP_STRIP_MARKS:
    if (classes & GA_UC_MARK) return;
    break;
  case TOK_STEP_STRIP_NONSPACING:
    if (classes & GA_UC_NONSPACING) return;
    break;
  case TOK_STEP_CLEAN:
    if (tok_is_dropped(cp, classes)) return;
    if (classes & GA_UC_SPACE) cp = ' ';
    break;
  case TOK_STEP_NMT:
    if (nmt_drops(cp)) return;
    if (nmt_is_space(cp)) cp = ' ';
    break;
  default: break;
  }
  norm_put_char(run, out, cp);
}

static void map_each(tok_run *run, tok_step_kind kind, const char *s, size_t n, tok_buffer *out) {
  int len;
  for (size_t i = 0; i < n && tok_run_goes_on(run); i += (size_t)len)
    map_char(run, kind, ga_utf8_next((const uint8_t *)s + i, n - i, &len), out);
}

/* --- normal forms --- */

static void compose_part(tok_run *run, utf8proc_option_t options, const char *s, size_t n, tok_buffer *out) {
  utf8proc_uint8_t *made = NULL;
  const utf8proc_ssize_t bytes = utf8proc_map((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)n, &made, options);
  if (bytes >= 0)
    norm_put(run, out, (const char *)made, (size_t)bytes);
  else if (run->status == GA_OK)
    run->status = bytes == UTF8PROC_ERROR_NOMEM
                      ? ga_fail_nomem("normal form of a text", n)
                      : ga_fail(GA_ERR_INTERNAL, "tokenize: normal form: %s", utf8proc_errmsg(bytes));
  free(made);
}

/* A character of ASCII never changes and never joins the text before it, so that parts which begin with one have their
 * normal forms by themselves. */
static void compose(tok_run *run, tok_step_kind kind, const char *s, size_t n, tok_buffer *out) {
  static const utf8proc_option_t forms[] = {[TOK_STEP_NFC] = UTF8PROC_COMPOSE,
                                            [TOK_STEP_NFD] = UTF8PROC_DECOMPOSE,
                                            [TOK_STEP_NFKC] = UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
                                            [TOK_STEP_NFKD] = UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT};
  const utf8proc_option_t options = forms[kind] | UTF8PROC_STABLE;
  for (size_t at = 0, end; at < n && tok_run_goes_on(run); at = end) {
    for (end = at; end < n && (uint8_t)s[end] < 0x80;) end++;
    if (end > at && end < n) end--; /* the last one may join the next character */
    if (end > at) {
      norm_put(run, out, s + at, end - at);
      continue;
    }
    for (end = at + 1; end < n && (uint8_t)s[end] >= 0x80;) end++;
    compose_part(run, options, s + at, end - at, out);
  }
}

/* --- parts of a text --- */

static bool is_white(const char *s, size_t n, int *len) {
  return (ga_uc_class(ga_utf8_next((const uint8_t *)s, n, len)) & GA_UC_SPACE) != 0;
}

static void strip_left(tok_run *run, const char *s, size_t n, tok_buffer *out) {
  size_t at = 0;
  for (int len; at < n && tok_run_goes_on(run) && is_white(s + at, n - at, &len);) at += (size_t)len;
  norm_put(run, out, s + at, n - at);
}

static void strip_right(tok_run *run, const char *s, size_t n, tok_buffer *out) {
  int len;
  while (n > 0 && tok_run_goes_on(run)) {
    size_t at = n - 1;
    while (at > 0 && n - at < 4 && ((uint8_t)s[at] & 0xC0) == 0x80) at--;
    if (!is_white(s + at, n - at, &len)) break;
    n = at;
  }
  norm_put(run, out, s, n);
}

static void replace_all(tok_run *run, const tok_step *step, const char *s, size_t n, tok_buffer *out) {
  const ga_text *from = &step->from;
  for (size_t at = 0; at < n && tok_run_goes_on(run);) {
    const char *found = memchr(s + at, from->data[0], n - at);
    const size_t next = found ? (size_t)(found - s) : n;
    norm_put(run, out, s + at, next - at);
    at = next;
    if (at == n) break;
    if (n - at >= from->bytes && !memcmp(s + at, from->data, from->bytes)) {
      norm_put(run, out, step->to.data, step->to.bytes);
      at += from->bytes;
    } else {
      norm_put(run, out, s + at++, 1);
    }
  }
}

/* Length of the character at s if it belongs to the step's runs, else 0. */
static size_t run_char(const tok_step *step, const char *s, size_t n) {
  int len;
  if (step->kind == TOK_STEP_SPACES) return is_white(s, n, &len) ? (size_t)len : 0;
  return n >= step->from.bytes && !memcmp(s, step->from.data, step->from.bytes) ? step->from.bytes : 0;
}

static void replace_runs(tok_run *run, const tok_step *step, const char *s, size_t n, tok_buffer *out) {
  for (size_t at = 0; at < n && tok_run_goes_on(run);) {
    size_t end = at, count = 0;
    for (size_t len; end < n && (len = run_char(step, s + end, n - end)) > 0; count++) end += len;
    if (count >= step->least) {
      norm_put(run, out, step->to.data, step->to.bytes);
    } else {
      if (end == at) end++;
      norm_put(run, out, s + at, end - at);
    }
    at = end;
  }
}

static void prepend(tok_run *run, const tok_step *step, const char *s, size_t n, tok_buffer *out) {
  if (n) norm_put(run, out, step->to.data, step->to.bytes);
  norm_put(run, out, s, n);
}

/* --- all steps --- */

static void run_step(tok_run *run, const tok_step *step, const char *s, size_t n, tok_buffer *out) {
  switch (step->kind) {
  case TOK_STEP_LOWER:
  case TOK_STEP_STRIP_MARKS:
  case TOK_STEP_STRIP_NONSPACING:
  case TOK_STEP_CLEAN:
  case TOK_STEP_CJK:
  case TOK_STEP_NMT: map_each(run, step->kind, s, n, out); return;
  case TOK_STEP_NFC:
  case TOK_STEP_NFD:
  case TOK_STEP_NFKC:
  case TOK_STEP_NFKD: compose(run, step->kind, s, n, out); return;
  case TOK_STEP_STRIP_LEFT: strip_left(run, s, n, out); return;
  case TOK_STEP_STRIP_RIGHT: strip_right(run, s, n, out); return;
  case TOK_STEP_REPLACE: replace_all(run, step, s, n, out); return;
  case TOK_STEP_RUNS:
  case TOK_STEP_SPACES: replace_runs(run, step, s, n, out); return;
  case TOK_STEP_PREPEND: prepend(run, step, s, n, out); return;
  }
}

void tok_normalize(tok_run *run, const tok_steps *steps, const char *text, size_t bytes, ga_text *out) {
  *out = (ga_text){text, bytes};
  run->norm_most = bytes < UINT32_MAX / 2 / GROWS_TIMES ? GROWS_TIMES * bytes + GROWS_MORE : UINT32_MAX / 2;
  for (size_t i = 0; i < steps->count && run->status == GA_OK; i++) {
    tok_buffer *to = &run->norm[i & 1];
    to->bytes = 0;
    run_step(run, &steps->list[i], out->data, out->bytes, to);
    *out = (ga_text){to->bytes ? to->data : "", to->bytes};
  }
  if (run->status != GA_OK) *out = (ga_text){"", 0};
}

ga_status tok_steps_copy(ga_arena *arena, const tok_steps *steps, tok_steps *out) {
  void *p;
  *out = (tok_steps){0};
  if (!steps->count) return GA_OK;
  GA_TRY(ga_arena_alloc(arena, steps->count * sizeof(tok_step), &p));
  tok_step *list = p;
  for (size_t i = 0; i < steps->count; i++) {
    const tok_step *from = &steps->list[i];
    char *a = NULL, *b = NULL;
    if (from->from.bytes) GA_TRY(ga_arena_strndup(arena, from->from.data, from->from.bytes, &a));
    if (from->to.bytes) GA_TRY(ga_arena_strndup(arena, from->to.data, from->to.bytes, &b));
    list[i] = *from;
    list[i].from.data = a;
    list[i].to.data = b ? b : "";
  }
  *out = (tok_steps){list, steps->count};
  return GA_OK;
}
