/* The pre_tokenizer of tokenizer.json. For byte-level BPE only the pre-splitters that we have by hand are known: the
 * regular expression must be the very text of one of ours. Unigram models have a reader of their own
 * (tok_json_unigram.c). */
#include "base/json.h"
#include "base/status.h"
#include "token/tok_json.h"
#include "token/tok_parts.h"

#define HEAD "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?"
#define TAIL "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
/* Parts of tekken and gpt-4o: tok_split.c. */
#define P           "[^\\r\\n\\p{L}\\p{N}]"
#define U           "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define W           "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define ENDING      "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
#define TEKKEN_TAIL "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct {
  const char *pattern, *name;
} known_patterns[] = {
    {HEAD "\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+" TAIL, "llama3"},
    {HEAD "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+" TAIL, "qwen2"},
    {HEAD "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+" TAIL, "qwen35"},
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", "gpt-2"},
    {P "?" U "*" W "+|" P "?" U "+" W "*|\\p{N}" TEKKEN_TAIL, "tekken"},
    {P "?" U "*" W "+" ENDING "|" P "?" U "+" W "*" ENDING "|\\p{N}{1,3}" TEKKEN_TAIL, "gpt-4o"},
    {"'(?i:[sdmt]|ll|ve|re)|" P "?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
     "qwen2"},
};

static bool flag_at(const json_t *object, const char *path, bool fallback) {
  const json_t *value = ga_json_at(object, path);
  return json_is_boolean(value) ? json_boolean_value(value) : fallback;
}

/* Words are the matches, and as the patterns leave no gap it is the same to remove what does not match. */
static bool keeps_matches(const json_t *step) {
  const char *behavior = tok_json_text(step, "behavior");
  return flag_at(step, "invert", false) ? !strcmp(behavior, "Removed") : !strcmp(behavior, "Isolated");
}

static const char *split_pattern_name(const json_t *step) {
  const char *pattern = tok_json_text(step, "pattern.Regex");
  if (!keeps_matches(step)) return NULL;
  for (size_t i = 0; i < GA_COUNT_OF(known_patterns); i++)
    if (!strcmp(pattern, known_patterns[i].pattern)) return known_patterns[i].name;
  return NULL;
}

/* A step before ByteLevel and whether ByteLevel splits too, as one pre-splitter. */
static const char *two_steps(const json_t *first, bool byte_level_splits) {
  if (tok_json_is(first, "Digits"))
    return flag_at(first, "individual_digits", false) && byte_level_splits ? "smollm" : NULL;
  return tok_json_is(first, "Split") && !byte_level_splits ? split_pattern_name(first) : NULL;
}

const char *tok_json_pre(const json_t *pre) {
  const json_t *steps = ga_json_at(pre, "pretokenizers");
  bool sequence = pre && tok_json_is(pre, "Sequence") && json_is_array(steps);
  size_t n = sequence ? json_array_size(steps) : 1;
  const json_t *last = sequence ? json_array_get(steps, n - 1) : pre;
  if (!last || !tok_json_is(last, "ByteLevel") || flag_at(last, "add_prefix_space", true)) return NULL;
  bool splits = flag_at(last, "use_regex", true);
  if (n == 1) return splits ? "gpt-2" : NULL;
  return n == 2 ? two_steps(json_array_get(steps, 0), splits) : NULL;
}

/* --- checks --- */

#define MARK "\xE2\x96\x81" /* U+2581 */

static ga_status check_steps(const json_t *pre) {
  size_t i;
  const json_t *step;
  if (!pre) return GA_OK;
  GA_TRY(tok_parts_check_step("pre_tokenizer", pre));
  json_array_foreach(ga_json_at(pre, "pretokenizers"), i, step) GA_TRY(tok_parts_check_step("pre_tokenizer", step));
  return GA_OK;
}

/* The steps of a Sequence, or the one step. */
static size_t count_steps(const json_t *pre) {
  const json_t *list = ga_json_at(pre, "pretokenizers");
  return !pre ? 0 : json_is_array(list) ? json_array_size(list) : 1;
}

static const json_t *pre_step_at(const json_t *pre, size_t i) {
  const json_t *list = ga_json_at(pre, "pretokenizers");
  return json_is_array(list) ? json_array_get(list, i) : pre;
}

/* --- byte-level BPE --- */

/* A ByteLevel as the only step may put a space before the text. */
static bool puts_space_first(const json_t *pre) {
  const json_t *step = pre_step_at(pre, 0);
  return count_steps(pre) == 1 && tok_json_is(step, "ByteLevel") && flag_at(step, "add_prefix_space", true) &&
         flag_at(step, "use_regex", true);
}

ga_status tok_json_pre_bpe(tok_load *load, const json_t *pre) {
  ga_vocab *v = &load->vocab;
  const char *regex = "";
  GA_TRY(check_steps(pre));
  v->pre = tok_json_pre(pre);
  load->extra.bpe_prefix = !v->pre && puts_space_first(pre);
  if (load->extra.bpe_prefix) v->pre = "gpt-2";
  if (v->pre) return GA_OK;
  for (size_t i = 0; i < count_steps(pre); i++)
    if (*tok_json_text(pre_step_at(pre, i), "pattern.Regex"))
      regex = tok_json_text(pre_step_at(pre, i), "pattern.Regex");
  return ga_fail(GA_ERR_UNSUPPORTED,
                 "tokenizer.json: its pre_tokenizer, %zu steps, the first '%s'%s%s, is none of those of gpt-2, smollm, "
                 "llama3, qwen2, qwen35, tekken, gpt-4o",
                 count_steps(pre), tok_json_text(pre_step_at(pre, 0), "type"), *regex ? ", the Regex " : "",
                 ga_quote(regex, strlen(regex)).text);
}

/* --- SentencePiece's BPE --- */

static bool is_space_to_mark(const tok_step *step) {
  return step->kind == TOK_STEP_REPLACE && step->from.bytes == 1 && *step->from.data == ' ' &&
         step->to.bytes == strlen(MARK) && !memcmp(step->to.data, MARK, strlen(MARK));
}

/* Returns whether the normalizer leaves no space in a text. */
static bool marks_spaces(const tok_load *load) {
  const tok_steps *steps = &load->extra.steps;
  bool marked = false;
  for (size_t i = 0; i < steps->count; i++) {
    const tok_step *step = &steps->list[i];
    if (is_space_to_mark(step))
      marked = true;
    else if (step->to.bytes && memchr(step->to.data, ' ', step->to.bytes))
      marked = false;
    else if (step->kind == TOK_STEP_CLEAN || step->kind == TOK_STEP_CJK || step->kind == TOK_STEP_NMT ||
             step->kind == TOK_STEP_NFKC || step->kind == TOK_STEP_NFKD)
      marked = false; /* these may make spaces */
  }
  return marked;
}

static ga_status take_metaspace_of_bpe(tok_load *load, const json_t *step) {
  ga_vocab *v = &load->vocab;
  const json_t *prefix = ga_json_at(step, "add_prefix_space");
  const char *scheme = json_string_value(ga_json_at(step, "prepend_scheme"));
  if (!scheme) scheme = json_is_false(prefix) ? "never" : "always";
  GA_REQUIRE(!strcmp(tok_json_text(step, "replacement"), MARK), GA_ERR_UNSUPPORTED,
             "tokenizer.json: Metaspace with the replacement '%s'; must be U+2581",
             ga_quote(tok_json_text(step, "replacement"), strlen(tok_json_text(step, "replacement"))).text);
  GA_REQUIRE(!strcmp(scheme, "always") || !strcmp(scheme, "first") || !strcmp(scheme, "never"), GA_ERR_FORMAT,
             "tokenizer.json: prepend_scheme '%s'; must be always, first or never",
             ga_quote(scheme, strlen(scheme)).text);
  GA_REQUIRE(!json_is_false(prefix) || !strcmp(scheme, "never"), GA_ERR_FORMAT,
             "tokenizer.json: Metaspace with add_prefix_space false and prepend_scheme '%s'; must be never", scheme);
  v->add_space_prefix = strcmp(scheme, "never") != 0;
  v->unigram |= GA_TOK_UGM_MISSING | (!strcmp(scheme, "first") ? GA_TOK_UGM_FIRST : 0) |
                (flag_at(step, "split", true) ? GA_TOK_UGM_WORDS : 0);
  return GA_OK;
}

/* Splits at spaces, of which the normalizer has left none (Gemma). */
static bool splits_nothing(const tok_load *load, const json_t *step) {
  return tok_json_is(step, "Split") && !strcmp(tok_json_text(step, "pattern.String"), " ") &&
         !flag_at(step, "invert", false) && marks_spaces(load);
}

ga_status tok_json_pre_spm(tok_load *load, const json_t *pre) {
  bool metaspace = false;
  GA_TRY(check_steps(pre));
  for (size_t i = 0; i < count_steps(pre); i++) {
    const json_t *step = pre_step_at(pre, i);
    if (splits_nothing(load, step)) continue;
    GA_REQUIRE(tok_json_is(step, "Metaspace") && !metaspace, GA_ERR_UNSUPPORTED,
               "tokenizer.json: pre_tokenizer '%s'; with byte_fallback GA has one Metaspace, and Split at the String "
               "' ' where the normalizer has replaced all spaces",
               tok_json_text(step, "type"));
    metaspace = true;
    GA_TRY(take_metaspace_of_bpe(load, step));
  }
  GA_REQUIRE(metaspace || marks_spaces(load), GA_ERR_UNSUPPORTED,
             "tokenizer.json: neither normalizer nor pre_tokenizer replaces ' ' by U+2581 at its end; with "
             "byte_fallback one of them must");
  return GA_OK;
}

/* --- WordPiece --- */

ga_status tok_json_pre_wpm(tok_load *load, const json_t *pre) {
  bool white = false;
  GA_TRY(check_steps(pre));
  for (size_t i = 0; i < count_steps(pre); i++) {
    const json_t *step = pre_step_at(pre, i);
    const bool bert = tok_json_is(step, "BertPreTokenizer"), words = tok_json_is(step, "Whitespace"),
               punct = tok_json_is(step, "Punctuation"), split = tok_json_is(step, "WhitespaceSplit");
    const char *behavior = tok_json_text(step, "behavior");
    GA_REQUIRE(
        bert || words || punct || split, GA_ERR_UNSUPPORTED,
        "tokenizer.json: pre_tokenizer '%s'; with WordPiece GA has BertPreTokenizer, Whitespace, WhitespaceSplit "
        "and Punctuation",
        tok_json_text(step, "type"));
    GA_REQUIRE(!punct || !*behavior || !strcmp(behavior, "Isolated"), GA_ERR_UNSUPPORTED,
               "tokenizer.json: Punctuation with the behavior '%s'; must be Isolated",
               ga_quote(behavior, strlen(behavior)).text);
    load->extra.wpm |= (bert || punct ? TOK_WPM_PUNCT : 0) | (words ? TOK_WPM_WORDS : 0);
    white = white || !punct;
  }
  GA_REQUIRE(white, GA_ERR_UNSUPPORTED,
             "tokenizer.json: pre_tokenizer is %s; with WordPiece it must split at white space, as BertPreTokenizer "
             "does",
             pre ? "'Punctuation' alone" : "missing or null");
  return GA_OK;
}
