/* Which pre-splitter a pre_tokenizer of tokenizer.json is. Only those that we have by hand are known: the regular
 * expression must be the very text of one of ours. */
#include "base/json.h"
#include "token/tok_load.h"

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

static const char *text_at(const json_t *object, const char *path) {
  const char *s = json_string_value(ga_json_at(object, path));
  return s ? s : "";
}

static bool flag_at(const json_t *object, const char *path, bool fallback) {
  const json_t *value = ga_json_at(object, path);
  return json_is_boolean(value) ? json_boolean_value(value) : fallback;
}

static bool is_type(const json_t *step, const char *type) { return !strcmp(text_at(step, "type"), type); }

/* Words are the matches, and as the patterns leave no gap it is the same to remove what does not match. */
static bool keeps_matches(const json_t *step) {
  const char *behavior = text_at(step, "behavior");
  return flag_at(step, "invert", false) ? !strcmp(behavior, "Removed") : !strcmp(behavior, "Isolated");
}

static const char *split_pattern_name(const json_t *step) {
  const char *pattern = text_at(step, "pattern.Regex");
  if (!keeps_matches(step)) return NULL;
  for (size_t i = 0; i < GA_COUNT_OF(known_patterns); i++)
    if (!strcmp(pattern, known_patterns[i].pattern)) return known_patterns[i].name;
  return NULL;
}

/* A step before ByteLevel and whether ByteLevel splits too, as one pre-splitter. */
static const char *two_steps(const json_t *first, bool byte_level_splits) {
  if (is_type(first, "Digits"))
    return flag_at(first, "individual_digits", false) && byte_level_splits ? "smollm" : NULL;
  return is_type(first, "Split") && !byte_level_splits ? split_pattern_name(first) : NULL;
}

const char *tok_json_pre(const json_t *pre) {
  const json_t *steps = ga_json_at(pre, "pretokenizers");
  bool sequence = pre && is_type(pre, "Sequence") && json_is_array(steps);
  size_t n = sequence ? json_array_size(steps) : 1;
  const json_t *last = sequence ? json_array_get(steps, n - 1) : pre;
  if (!last || !is_type(last, "ByteLevel") || flag_at(last, "add_prefix_space", true)) return NULL;
  bool splits = flag_at(last, "use_regex", true);
  if (n == 1) return splits ? "gpt-2" : NULL;
  return n == 2 ? two_steps(json_array_get(steps, 0), splits) : NULL;
}
