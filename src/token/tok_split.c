/* The regular expressions, in PCRE syntax; all end in |\s+ for white space at the end or before a word.
 *
 * gpt-2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)
 * smollm   every \p{N} on its own; what lies between by gpt-2, as if it were the whole text
 * llama3   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+
 *          |\s+(?!\S)
 * qwen2    llama3 with \p{N} for \p{N}{1,3}
 * qwen35   qwen2 with [\p{L}\p{M}]+ for \p{L}+ and [^\s\p{L}\p{M}\p{N}]+ for symbols
 *
 * (?i:) follows Unicode, where U+017F folds to s.
 */
#include "token/tok_split.h"

#include <string.h>

#include "token/unicode.h"

struct tok_split_rule {
  const char *names; /* separated and ended by one space each */
  bool llama;        /* the llama3 family, else gpt-2 */
  bool lone_digits;  /* gpt-2: first isolate numbers (smollm) */
  int max_digits;    /* llama3: \p{N}{1,max} */
  uint32_t letters;  /* classes of a word: L, or L and M */
};

static const tok_split_rule rules[] = {
    /* Files that name no pre-splitter get GPT-2's, which is what a bare ByteLevel pre-tokenizer means. */
    {"default gpt-2 gpt2 phi-2 mpt olmo jais roberta-bpe jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code "
     "mellum modern-bert gigachat a.x-4.0 trillion granite-docling exaone4 ",
     false, false, 0, GA_UC_LETTER},
    {"smollm starcoder refact command-r codeshell exaone minerva-7b mellum2 ", false, true, 0, GA_UC_LETTER},
    {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 smaug-bpe dbrx glm4 chatglm-bpe ", true, false,
     3, GA_UC_LETTER},
    {"qwen2 deepseek-r1-qwen stablelm2 hunyuan megrez kormo solar-open grok-2 ", true, false, 1, GA_UC_LETTER},
    {"qwen35 ", true, false, 1, GA_UC_LETTER | GA_UC_MARK},
};

const tok_split_rule *ga_tok_split_find(const char *name) {
  if (!name) name = "default";
  size_t n = strlen(name);
  if (n == 0 || strchr(name, ' ')) return NULL;
  for (size_t r = 0; r < GA_COUNT_OF(rules); r++) {
    for (const char *p = rules[r].names; *p; p = strchr(p, ' ') + 1)
      if (!strncmp(p, name, n) && p[n] == ' ') return &rules[r];
  }
  return NULL;
}

#define CLASS_END           0x80000000u /* the class of what lies behind the text: none of the others */
#define CLASS_WORD_OR_SPACE (GA_UC_LETTER | GA_UC_NUMBER | GA_UC_SPACE)

/* Class of the character at `at` and its length, CLASS_END and 0 at `stop`. */
GA_INLINE uint32_t class_at(const tok_split *sp, size_t at, int *len) {
  *len = 0;
  if (at >= sp->stop) return CLASS_END;
  return ga_uc_class(ga_utf8_next(sp->text + at, sp->stop - at, len));
}

/* End of the run of characters from `at` with a class in `any`. */
static size_t run_of(const tok_split *sp, size_t at, uint32_t any) {
  for (int len;; at += (size_t)len)
    if (!(class_at(sp, at, &len) & any)) return at;
}

/* End of the run without a class in `none`. */
static size_t run_without(const tok_split *sp, size_t at, uint32_t none) {
  for (int len;; at += (size_t)len)
    if (class_at(sp, at, &len) & (none | CLASS_END)) return at;
}

/* 's 't 're 've 'm 'll 'd after the apostrophe at `at`: length with it, 0 when there is none. */
static size_t contraction(const tok_split *sp, size_t at, bool any_case) {
  uint8_t c[2] = {0, 0};
  size_t left = sp->stop - at - 1;
  for (size_t i = 0; i < 2 && i < left; i++) {
    c[i] = sp->text[at + 1 + i];
    if (any_case && c[i] >= 'A' && c[i] <= 'Z') c[i] = (uint8_t)(c[i] + 32);
  }
  if (c[0] == 's' || c[0] == 't' || c[0] == 'm' || c[0] == 'd') return 2;
  if ((c[0] == 'r' || c[0] == 'v') && c[1] == 'e') return 3;
  if (c[0] == 'l' && c[1] == 'l') return 3;
  return any_case && c[0] == 0xC5 && c[1] == 0xBF ? 3 : 0; /* U+017F, long s */
}

/* \s+(?!\S)|\s+ : a run of white space leaves its last character to the word behind it, unless it is alone. */
static size_t spaces_end(const tok_split *sp, size_t at) {
  size_t last = at, end = at;
  for (int len; class_at(sp, end, &len) & GA_UC_SPACE; end += (size_t)len) last = end;
  return end >= sp->stop || last == at ? end : last;
}

static size_t gpt2_end(const tok_split *sp) {
  size_t at = sp->at, len;
  if (sp->text[at] == '\'' && (len = contraction(sp, at, false)) > 0) return at + len;
  int n;
  size_t word = at + (sp->text[at] == ' ');
  uint32_t class = class_at(sp, word, &n);
  if (class & GA_UC_LETTER) return run_of(sp, word, GA_UC_LETTER);
  if (class & GA_UC_NUMBER) return run_of(sp, word, GA_UC_NUMBER);
  if (!(class & (GA_UC_SPACE | CLASS_END))) return run_without(sp, word, CLASS_WORD_OR_SPACE);
  return spaces_end(sp, at);
}

static bool is_newline(uint8_t c) { return c == '\r' || c == '\n'; }

/* \s*[\r\n]+ : through the last line end of the run of white space; `at` when it has none. */
static size_t lines_end(const tok_split *sp, size_t at) {
  size_t end = at;
  for (int len; class_at(sp, at, &len) & GA_UC_SPACE; at += (size_t)len)
    if (is_newline(sp->text[at])) end = at + 1;
  return end;
}

static size_t digits_end(const tok_split *sp, size_t at, int most) {
  for (int len; most > 0 && (class_at(sp, at, &len) & GA_UC_NUMBER); most--) at += (size_t)len;
  return at;
}

static size_t llama_end(const tok_split *sp) {
  size_t at = sp->at, len;
  uint32_t letters = sp->rule->letters;
  uint8_t first = sp->text[at];
  if (first == '\'' && (len = contraction(sp, at, true)) > 0) return at + len;
  int n, n2;
  uint32_t class = class_at(sp, at, &n), next = class_at(sp, at + (size_t)n, &n2);
  if (class & letters) return run_of(sp, at, letters);
  if (class & GA_UC_NUMBER) return digits_end(sp, at, sp->rule->max_digits);
  if ((next & letters) && !is_newline(first)) return run_of(sp, at + (size_t)n, letters);
  uint32_t no_symbol = letters | CLASS_WORD_OR_SPACE;
  size_t word = at + (first == ' ');
  if (!((first == ' ' ? next : class) & (no_symbol | CLASS_END))) {
    size_t end = run_without(sp, word, no_symbol);
    while (end < sp->stop && is_newline(sp->text[end])) end++;
    return end;
  }
  size_t end = lines_end(sp, at);
  return end > at ? end : spaces_end(sp, at);
}

tok_split ga_tok_split_start(const tok_split_rule *rule, const char *text, size_t bytes) {
  return (tok_split){
      .rule = rule, .text = (const uint8_t *)text, .bytes = bytes, .stop = rule->lone_digits ? 0 : bytes};
}

bool ga_tok_split_next(tok_split *sp, size_t *begin, size_t *end) {
  if (sp->at >= sp->bytes) return false;
  *begin = sp->at;
  if (sp->at >= sp->stop) { /* only with lone_digits: a number, or the stretch up to the next one */
    sp->stop = sp->bytes;
    int len;
    if (class_at(sp, sp->at, &len) & GA_UC_NUMBER)
      sp->stop = sp->at + (size_t)len;
    else
      sp->stop = run_without(sp, sp->at, GA_UC_NUMBER);
  }
  *end = sp->at = sp->rule->llama ? llama_end(sp) : gpt2_end(sp);
  return true;
}
