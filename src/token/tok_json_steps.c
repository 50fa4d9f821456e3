/* The normalizer of tokenizer.json, as steps of tok_norm.h. Unigram models have a reader of their own
 * (tok_json_unigram.c). */
#include <stdio.h>

#include "base/json.h"
#include "base/status.h"
#include "token/tok_json.h"
#include "token/tok_parts.h"

#define NESTED_MOST 8 /* sequences in sequences */

static ga_status append_step(tok_load *load, tok_step step) {
  void *p;
  if (!load->steps) {
    GA_TRY(ga_arena_alloc(&load->arena, TOK_STEPS_MOST * sizeof(tok_step), &p));
    load->steps = p;
  }
  GA_REQUIRE(load->extra.steps.count < TOK_STEPS_MOST, GA_ERR_UNSUPPORTED,
             "tokenizer.json: normalizer has more than %d steps", TOK_STEPS_MOST);
  load->steps[load->extra.steps.count++] = step;
  load->extra.steps.list = load->steps;
  return GA_OK;
}

static ga_status add_kind(tok_load *load, tok_step_kind kind) { return append_step(load, (tok_step){.kind = kind}); }

static ga_text text_at(const json_t *step, const char *path) {
  const json_t *value = ga_json_at(step, path);
  return (ga_text){json_string_value(value), json_string_length(value)};
}

/* --- BertNormalizer --- */

static ga_status read_flag(const json_t *step, const char *name, bool fallback, bool *out) {
  const json_t *value = ga_json_at(step, name);
  *out = fallback;
  GA_REQUIRE(!value || json_is_boolean(value), GA_ERR_FORMAT,
             "tokenizer.json: '%s' of '%s' is %s; must be true or false", name, tok_json_text(step, "type"),
             ga_json_type_name(value));
  if (value) *out = json_is_true(value);
  return GA_OK;
}

static ga_status bert_flags(const json_t *step, uint32_t *flags) {
  bool clean, cjk, strip, lower;
  GA_TRY(read_flag(step, "clean_text", true, &clean));
  GA_TRY(read_flag(step, "handle_chinese_chars", true, &cjk));
  GA_TRY(read_flag(step, "lowercase", true, &lower));
  GA_TRY(read_flag(step, "strip_accents", lower, &strip));
  *flags =
      (clean ? TOK_WPM_CLEAN : 0) | (cjk ? TOK_WPM_CJK : 0) | (strip ? TOK_WPM_STRIP : 0) | (lower ? TOK_WPM_LOWER : 0);
  return GA_OK;
}

static ga_status add_bert(tok_load *load, uint32_t flags) {
  if (flags & TOK_WPM_CLEAN) GA_TRY(add_kind(load, TOK_STEP_CLEAN));
  if (flags & TOK_WPM_CJK) GA_TRY(add_kind(load, TOK_STEP_CJK));
  if (flags & TOK_WPM_STRIP) GA_TRY(add_kind(load, TOK_STEP_NFD));
  if (flags & TOK_WPM_STRIP) GA_TRY(add_kind(load, TOK_STEP_STRIP_NONSPACING));
  return flags & TOK_WPM_LOWER ? add_kind(load, TOK_STEP_LOWER) : GA_OK;
}

/* --- Replace --- */

/* A space or \s, then nothing, + or {n,}. Returns whether the pattern is that. */
static bool read_runs(const char *pattern, tok_step *step) {
  const bool white = !strncmp(pattern, "\\s", 2);
  int least = 1, used = -1;
  if (!white && *pattern != ' ') return false;
  pattern += white ? 2 : 1;
  if (sscanf(pattern, "{%d,}%n", &least, &used) == 1 && used > 0 && least >= 1 && least <= 9)
    pattern += used;
  else if (*pattern == '+')
    pattern++;
  else
    return false;
  step->kind = white ? TOK_STEP_SPACES : TOK_STEP_RUNS;
  step->from = (ga_text){" ", 1};
  step->least = (uint32_t)least;
  return !*pattern;
}

static ga_status add_replace(tok_load *load, const json_t *step) {
  tok_step made = {.kind = TOK_STEP_REPLACE, .from = text_at(step, "pattern.String"), .to = text_at(step, "content")};
  const json_t *regex = ga_json_at(step, "pattern.Regex");
  GA_REQUIRE(made.to.data, GA_ERR_FORMAT, "tokenizer.json: 'content' of 'Replace' is %s; must be a text",
             ga_json_type_name(ga_json_at(step, "content")));
  if (made.from.bytes) return append_step(load, made);
  GA_REQUIRE(json_is_string(regex), GA_ERR_UNSUPPORTED,
             "tokenizer.json: 'pattern' of 'Replace' is no text; must be a 'String' that is not empty, or a 'Regex'");
  GA_REQUIRE(read_runs(json_string_value(regex), &made), GA_ERR_UNSUPPORTED,
             "tokenizer.json: 'Replace' with the Regex '%s'; GA has ' ' and '\\s' with '+' or '{n,}'",
             ga_quote(json_string_value(regex), json_string_length(regex)).text);
  return append_step(load, made);
}

/* --- all --- */

static const struct {
  const char *type;
  tok_step_kind kind;
} plain_steps[] = {{"Lowercase", TOK_STEP_LOWER}, {"NFC", TOK_STEP_NFC},   {"NFD", TOK_STEP_NFD},
                   {"NFKC", TOK_STEP_NFKC},       {"NFKD", TOK_STEP_NFKD}, {"StripAccents", TOK_STEP_STRIP_MARKS},
                   {"Nmt", TOK_STEP_NMT}};

/* A BertNormalizer waits until it is known whether it is the last step. */
typedef struct step_reader {
  tok_load *load;
  bool has_bert;
  uint32_t bert;
  int depth;
} step_reader;

static ga_status take_strip(tok_load *load, const json_t *step) {
  bool left, right;
  GA_TRY(read_flag(step, "strip_left", true, &left));
  GA_TRY(read_flag(step, "strip_right", true, &right));
  if (left) GA_TRY(add_kind(load, TOK_STEP_STRIP_LEFT));
  return right ? add_kind(load, TOK_STEP_STRIP_RIGHT) : GA_OK;
}

static ga_status take_prepend(tok_load *load, const json_t *step) {
  const tok_step made = {.kind = TOK_STEP_PREPEND, .to = text_at(step, "prepend")};
  GA_REQUIRE(made.to.data, GA_ERR_FORMAT, "tokenizer.json: 'prepend' of 'Prepend' is %s; must be a text",
             ga_json_type_name(ga_json_at(step, "prepend")));
  return append_step(load, made);
}

static ga_status take_known(tok_load *load, const json_t *step) {
  for (size_t i = 0; i < GA_COUNT_OF(plain_steps); i++)
    if (tok_json_is(step, plain_steps[i].type)) return add_kind(load, plain_steps[i].kind);
  if (tok_json_is(step, "Strip")) return take_strip(load, step);
  if (tok_json_is(step, "Prepend")) return take_prepend(load, step);
  GA_REQUIRE(tok_json_is(step, "Replace"), GA_ERR_UNSUPPORTED,
             "tokenizer.json: normalizer '%s'; GA has it with Unigram alone", tok_json_text(step, "type"));
  return add_replace(load, step);
}

static ga_status take_normalizer_of(step_reader *r, const json_t *step) {
  size_t i;
  const json_t *inner;
  GA_TRY(tok_parts_check_step("normalizer", step));
  if (tok_json_is(step, "Sequence")) {
    GA_REQUIRE(++r->depth <= NESTED_MOST, GA_ERR_UNSUPPORTED,
               "tokenizer.json: normalizer: more than %d nested sequences", NESTED_MOST);
    json_array_foreach(ga_json_at(step, "normalizers"), i, inner) GA_TRY(take_normalizer_of(r, inner));
    r->depth--;
    return GA_OK;
  }
  if (r->has_bert) GA_TRY(add_bert(r->load, r->bert));
  r->has_bert = tok_json_is(step, "BertNormalizer");
  return r->has_bert ? bert_flags(step, &r->bert) : take_known(r->load, step);
}

ga_status tok_json_steps(tok_load *load, const json_t *normalizer) {
  step_reader r = {.load = load};
  if (normalizer) GA_TRY(take_normalizer_of(&r, normalizer));
  if (load->vocab.kind == GA_TOK_WPM) {
    load->extra.wpm |= r.has_bert ? r.bert : 0;
    return GA_OK;
  }
  return r.has_bert ? add_bert(load, r.bert) : GA_OK;
}
