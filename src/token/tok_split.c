/* The regular expressions, in PCRE syntax; all end in |\s+ for white space at the end or before a word.
 *
 * gpt-2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)
 * smollm   every \p{N} on its own; what lies between by gpt-2, as if it were the whole text
 * llama3   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+
 *          |\s+(?!\S)
 * qwen2    llama3 with \p{N} for \p{N}{1,3}
 * qwen35   qwen2 with [\p{L}\p{M}]+ for \p{L}+ and [^\s\p{L}\p{M}\p{N}]+ for symbols
 * tekken   P?U*W+|P?U+W*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)
 *          with P = [^\r\n\p{L}\p{N}], U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], W = [\p{Ll}\p{Lm}\p{Lo}\p{M}]
 * gpt-4o   tekken with (?i:'s|'t|'re|'ve|'m|'ll|'d)? after each of the first two, and \p{N}{1,3} for \p{N}
 *
 * (?i:) follows Unicode, where U+017F folds to s. Bailing has \s*[\r\n] for qwen2's \s*[\r\n]+, which ends at the same
 * place: \s* takes line ends, too.
 */
#include "token/tok_split.h"

#include <string.h>

#include "token/unicode.h"

typedef enum split_family {
  FAMILY_GPT2,
  FAMILY_LLAMA3,
  FAMILY_TEKKEN, /* words end where lower case turns to upper */
} split_family;

struct tok_split_rule {
  const char *names; /* separated and ended by one space each */
  split_family family;
  bool lone_digits;  /* gpt-2: first isolate numbers (smollm) */
  bool contractions; /* tekken: 's and the like belong to the word before them */
  int max_digits;    /* llama3, tekken: \p{N}{1,max} */
  uint32_t letters;  /* llama3: classes of a word, L, or L and M */
};

static const tok_split_rule rules[] = {
    /* Files that name no pre-splitter get GPT-2's, which is what a bare ByteLevel pre-tokenizer means. */
    {.names = "default gpt-2 gpt2 phi-2 mpt olmo jais roberta-bpe jina-es jina-de jina-v1-en jina-v2-es jina-v2-de "
              "jina-v2-code mellum modern-bert gigachat a.x-4.0 trillion granite-docling exaone4 ",
     .family = FAMILY_GPT2},
    {.names = "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2 ",
     .family = FAMILY_GPT2,
     .lone_digits = true},
    {.names = "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano smaug-bpe dbrx glm4 "
              "chatglm-bpe ",
     .family = FAMILY_LLAMA3,
     .max_digits = 3,
     .letters = GA_UC_LETTER},
    {.names = "qwen2 deepseek-r1-qwen stablelm2 hunyuan megrez kormo f2llmv2 solar-open grok-2 bailingmoe bailingmoe2 "
              "llada-moe ",
     .family = FAMILY_LLAMA3,
     .max_digits = 1,
     .letters = GA_UC_LETTER},
    {.names = "qwen35 ", .family = FAMILY_LLAMA3, .max_digits = 1, .letters = GA_UC_LETTER | GA_UC_MARK},
    {.names = "tekken ", .family = FAMILY_TEKKEN, .max_digits = 1},
    {.names = "gpt-4o llama4 kanana2 talkie minimax-m2 ",
     .family = FAMILY_TEKKEN,
     .contractions = true,
     .max_digits = 3},
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
#define CLASS_WORD          (GA_UC_LETTER | GA_UC_MARK) /* tekken's words */

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

/* Symbols after at most one space, with the line ends behind them (and slashes where `slashes`), else white space. */
static size_t symbols_or_spaces_end(const tok_split *sp, size_t at, uint32_t no_symbol, bool slashes) {
  size_t word = at + (sp->text[at] == ' ');
  int n;
  if (!(class_at(sp, word, &n) & (no_symbol | CLASS_END))) {
    size_t end = run_without(sp, word, no_symbol);
    while (end < sp->stop && (is_newline(sp->text[end]) || (slashes && sp->text[end] == '/'))) end++;
    return end;
  }
  size_t end = lines_end(sp, at);
  return end > at ? end : spaces_end(sp, at);
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
  return symbols_or_spaces_end(sp, at, letters | CLASS_WORD_OR_SPACE, false);
}

/* U*W+|U+W* : `at` when neither is there. U* takes all it can: up to a lower-case letter, where W+ goes on. Without one
 * it gives back up to the last character that is in W as well; when there is none, all are upper case: U+. */
static size_t cased_end(const tok_split *sp, size_t at) {
  size_t end = at, last_in_both = at;
  for (int len;; end += (size_t)len) {
    uint32_t class = class_at(sp, end, &len);
    if (!(class & CLASS_WORD)) return last_in_both > at ? last_in_both : end;
    if (class & GA_UC_LOWER) break;
    if (!(class & GA_UC_UPPER)) last_in_both = end + (size_t)len;
  }
  for (int len;; end += (size_t)len) {
    uint32_t class = class_at(sp, end, &len);
    if (!(class & CLASS_WORD) || (class & GA_UC_UPPER)) return end;
  }
}

/* A mark is in P, U and W: whether P? takes it or not, the word ends at the same place. */
static size_t tekken_end(const tok_split *sp) {
  size_t at = sp->at;
  int n;
  uint32_t class = class_at(sp, at, &n);
  if (class & GA_UC_NUMBER) return digits_end(sp, at, sp->rule->max_digits);
  bool before_word = !(class & CLASS_WORD) && !is_newline(sp->text[at]);
  size_t word = before_word ? at + (size_t)n : at, end = cased_end(sp, word);
  if (end == word) return symbols_or_spaces_end(sp, at, CLASS_WORD_OR_SPACE, true);
  if (sp->rule->contractions && end < sp->stop && sp->text[end] == '\'') end += contraction(sp, end, true);
  return end;
}

static size_t word_end(const tok_split *sp) {
  if (sp->rule->family == FAMILY_TEKKEN) return tekken_end(sp);
  return sp->rule->family == FAMILY_LLAMA3 ? llama_end(sp) : gpt2_end(sp);
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
  *end = sp->at = word_end(sp);
  return true;
}
