/* Normalizer and pre_tokenizer of a Unigram model's tokenizer.json. SentencePiece's own files have become
 *   normalizer     Precompiled, then Strip, then Replace of runs of spaces: each may be absent, none may come earlier
 *   pre_tokenizer  Metaspace, with WhitespaceSplit before it or without
 * and nothing else is taken, as it would cut texts otherwise. */
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"
#include "token/tok_charsmap.h"
#include "token/tok_json.h"
#include "token/tok_parts.h"

#define MARK "\xE2\x96\x81" /* U+2581 */

#define SHOWN(s) ga_quote(s, strlen(s)).text

/* --- normalizer --- */

static int base64_digit(char c) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const char *at = c ? strchr(digits, c) : NULL;
  return at ? (int)(at - digits) : -1;
}

/* Base64 (RFC 4648, section 4), with '=' at its end or without. */
static ga_status decode_base64(const char *text, size_t n, uint8_t *out, size_t *made) {
  uint32_t bits = 0;
  int held = 0;
  *made = 0;
  while (n > 0 && text[n - 1] == '=') n--;
  for (size_t i = 0; i < n; i++) {
    const int digit = base64_digit(text[i]);
    GA_REQUIRE(digit >= 0, GA_ERR_FORMAT, "tokenizer.json: precompiled_charsmap is no base64 at %zu", i);
    bits = bits << 6 | (uint32_t)digit;
    held += 6;
    if (held < 8) continue;
    held -= 8;
    out[(*made)++] = (uint8_t)(bits >> held);
  }
  return GA_OK;
}

static ga_status take_charsmap(tok_load *load, const json_t *step) {
  const json_t *text = ga_json_at(step, "precompiled_charsmap");
  const size_t n = json_string_length(text);
  void *p;
  GA_REQUIRE(!text || json_is_string(text), GA_ERR_FORMAT,
             "tokenizer.json: precompiled_charsmap is %s; must be a text or null", ga_json_type_name(text));
  if (n == 0) return GA_OK;
  GA_REQUIRE(n <= 2 * TOK_CHARSMAP_MOST, GA_ERR_FORMAT, "tokenizer.json: precompiled_charsmap has %zu characters", n);
  GA_TRY(ga_arena_alloc(&load->arena, n, &p));
  GA_TRY(decode_base64(json_string_value(text), n, p, &load->vocab.charsmap_bytes));
  load->vocab.charsmap = p;
  load->vocab.unigram |= GA_TOK_UGM_CLUSTERS;
  return GA_OK;
}

/* Runs of spaces to one space; U+2581 is one by the end. */
static bool squeezes(const json_t *step) {
  const char *content = tok_json_text(step, "content");
  return !strcmp(tok_json_text(step, "pattern.Regex"), " {2,}") && (!strcmp(content, " ") || !strcmp(content, MARK));
}

/* *rank: of the steps before; they may only rise. */
static ga_status take_normalizer_step(tok_load *load, const json_t *step, int *rank) {
  const int last = *rank;
  GA_TRY(tok_parts_check_step("normalizer", step));
  if (tok_json_is(step, "Precompiled")) {
    *rank = 1;
    GA_TRY(take_charsmap(load, step));
  } else if (tok_json_is(step, "Strip")) {
    *rank = 2;
    if (!json_is_false(ga_json_at(step, "strip_left"))) load->vocab.unigram |= GA_TOK_UGM_STRIP_LEFT;
    if (!json_is_false(ga_json_at(step, "strip_right"))) load->vocab.unigram |= GA_TOK_UGM_STRIP_RIGHT;
  } else if (tok_json_is(step, "Replace") && squeezes(step)) {
    *rank = 3;
    load->vocab.unigram |= GA_TOK_UGM_SQUEEZE;
  } else {
    return ga_fail(GA_ERR_UNSUPPORTED,
                   "tokenizer.json: normalizer '%s'; with Unigram GA has Precompiled, Strip and Replace of ' {2,}'",
                   SHOWN(tok_json_text(step, "type")));
  }
  GA_REQUIRE(
      *rank > last, GA_ERR_UNSUPPORTED,
      "tokenizer.json: normalizer '%s' stands behind another; with Unigram the order is Precompiled, Strip, Replace",
      SHOWN(tok_json_text(step, "type")));
  return GA_OK;
}

static ga_status take_normalizer(tok_load *load, const json_t *normalizer) {
  size_t i;
  int rank = 0;
  const json_t *step;
  if (!normalizer) return GA_OK;
  if (tok_json_is(normalizer, "Sequence")) GA_TRY(tok_parts_check_step("normalizer", normalizer));
  if (!tok_json_is(normalizer, "Sequence")) return take_normalizer_step(load, normalizer, &rank);
  json_array_foreach(ga_json_at(normalizer, "normalizers"), i, step) GA_TRY(take_normalizer_step(load, step, &rank));
  return GA_OK;
}

/* --- pre_tokenizer --- */

static ga_status take_metaspace(tok_load *load, const json_t *step) {
  ga_vocab *v = &load->vocab;
  const json_t *prefix = ga_json_at(step, "add_prefix_space");
  const char *scheme = json_string_value(ga_json_at(step, "prepend_scheme"));
  if (!scheme) scheme = json_is_false(prefix) ? "never" : "always";
  GA_REQUIRE(
      tok_json_is(step, "Metaspace"), GA_ERR_UNSUPPORTED,
      "tokenizer.json: pre_tokenizer '%s'; with Unigram GA has Metaspace, with WhitespaceSplit before it or without",
      SHOWN(tok_json_text(step, "type")));
  GA_REQUIRE(!strcmp(tok_json_text(step, "replacement"), MARK), GA_ERR_UNSUPPORTED,
             "tokenizer.json: Metaspace with the replacement '%s'; must be U+2581",
             SHOWN(tok_json_text(step, "replacement")));
  GA_REQUIRE(!strcmp(scheme, "always") || !strcmp(scheme, "first") || !strcmp(scheme, "never"), GA_ERR_FORMAT,
             "tokenizer.json: prepend_scheme '%s'; must be always, first or never", SHOWN(scheme));
  v->add_space_prefix = strcmp(scheme, "never") != 0;
  v->unigram |= GA_TOK_UGM_MISSING;
  GA_REQUIRE(strcmp(scheme, "first") != 0 || !(v->unigram & GA_TOK_UGM_SPLIT), GA_ERR_UNSUPPORTED,
             "tokenizer.json: prepend_scheme 'first' behind WhitespaceSplit; GA has always and never there");
  if (!strcmp(scheme, "first")) v->unigram |= GA_TOK_UGM_FIRST;
  if (!json_is_false(ga_json_at(step, "split"))) v->unigram |= GA_TOK_UGM_WORDS;
  return GA_OK;
}

static ga_status take_pre_tokenizer(tok_load *load, const json_t *pre) {
  const json_t *steps = ga_json_at(pre, "pretokenizers");
  const bool sequence = pre && tok_json_is(pre, "Sequence") && json_is_array(steps);
  const size_t n = sequence ? json_array_size(steps) : 1;
  const json_t *first = sequence ? json_array_get(steps, 0) : pre;
  if (pre) GA_TRY(tok_parts_check_step("pre_tokenizer", pre));
  for (size_t i = 0; sequence && i < n; i++) GA_TRY(tok_parts_check_step("pre_tokenizer", json_array_get(steps, i)));
  if (n != 2 || !tok_json_is(first, "WhitespaceSplit")) {
    GA_REQUIRE(
        n == 1, GA_ERR_UNSUPPORTED,
        "tokenizer.json: %zu pre_tokenizers, the first '%s'; with Unigram GA has Metaspace, with WhitespaceSplit "
        "before it or without",
        n, SHOWN(tok_json_text(first, "type")));
    return take_metaspace(load, first);
  }
  load->vocab.unigram |= GA_TOK_UGM_SPLIT;
  return take_metaspace(load, json_array_get(steps, 1));
}

ga_status tok_json_unigram(tok_load *load, const json_t *root) {
  load->vocab.unigram = json_is_true(ga_json_at(root, "model.byte_fallback")) ? GA_TOK_UGM_BYTES : 0;
  GA_TRY(take_normalizer(load, ga_json_at(root, "normalizer")));
  return take_pre_tokenizer(load, ga_json_at(root, "pre_tokenizer"));
}
