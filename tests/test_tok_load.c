/* Tokenizers from files: the keys of GGUF and what tokenizer.json says, right and wrong. */
#include "base/json.h"
#include "ga/tokenizer.h"
#include "tests/model_bytes.h"
#include "token/tok_load.h"

/* --- tokenizer.json ---------------------------------------------------------------------------------------------- */

static ga_status tokenizer_from_text(const char *json, const char *config, ga_tokenizer **out) {
  json_t *root, *settings = NULL;
  tok_load load;
  *out = NULL;
  tok_load_init(&load);
  assert_int_equal(ga_json_parse("tokenizer.json", json, strlen(json), &root), GA_OK);
  if (config) assert_int_equal(ga_json_parse("tokenizer_config.json", config, strlen(config), &settings), GA_OK);
  ga_status status = tok_load_json(&load, &(tok_files){root, settings, NULL}, NULL);
  if (status == GA_OK) status = tok_create(&load.vocab, &load.extra, out);
  json_decref(root);
  json_decref(settings);
  ga_arena_free(&load.arena);
  return status;
}

static void expect_ids(const ga_tokenizer *tok, uint32_t flags, const char *text, const int32_t *want) {
  int32_t ids[64];
  size_t n, count = 0;
  while (want[count] >= 0) count++;
  assert_int_equal(ga_tokenize(tok, text, strlen(text), flags, ids, 64, &n), GA_OK);
  assert_int_equal(n, count);
  assert_memory_equal(ids, want, n * sizeof(int32_t));
}

#define CHECK(tok, flags, text, ...) expect_ids((tok), (flags), (text), (const int32_t[]){__VA_ARGS__, -1})

#define VOCAB "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"1\":3,\"\u0120\":4,\"11\":5}"
#define BPE   "\"model\":{\"type\":\"BPE\"," VOCAB ",\"merges\":[\"a b\",[\"1\",\"1\"]]}"
#define ADDED                                                          \
  "\"added_tokens\":[{\"id\":7,\"content\":\"<x>\",\"special\":true}," \
  "{\"id\":8,\"content\":\"bb\"}]"
#define BYTE_LEVEL(regex)      "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":" regex "}"
#define SEQUENCE(first, regex) "{\"type\":\"Sequence\",\"pretokenizers\":[" first "," BYTE_LEVEL(regex) "]}"
#define DIGITS                 "{\"type\":\"Digits\",\"individual_digits\":true}"
#define SPLIT(regex) \
  "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex "\"},\"behavior\":\"Isolated\",\"invert\":false}"
#define HEAD         "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|"
#define TAIL         "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define FILE_OF(pre) "{" BPE "," ADDED ",\"pre_tokenizer\":" pre "}"

static void test_byte_level(void **state) {
  (void)state;
  ga_tokenizer *tok;
  assert_int_equal(tokenizer_from_text(FILE_OF(BYTE_LEVEL("true")), NULL, &tok), GA_OK);
  assert_int_equal(ga_tokenizer_kind(tok), GA_TOK_BPE);
  assert_int_equal(ga_tokenizer_size(tok), 9);
  assert_int_equal(ga_tokenizer_type(tok, 6), GA_TOK_UNUSED); /* an id that the file leaves out */
  CHECK(tok, 0, "ab 11", 2, 4, 5);
  CHECK(tok, 0, "abb", 0, 8); /* an added token that is not special: always cut out */
  CHECK(tok, GA_TOK_PARSE_SPECIAL, "a<x>b", 0, 7, 1);
  ga_tokenizer_destroy(tok);
  assert_int_equal(tokenizer_from_text(FILE_OF(SEQUENCE(DIGITS, "true")), NULL, &tok), GA_OK);
  CHECK(tok, 0, "a11", 0, 3, 3); /* smollm: digits alone */
  ga_tokenizer_destroy(tok);
  assert_int_equal(tokenizer_from_text(FILE_OF(SEQUENCE(SPLIT(HEAD "\\\\p{N}{1,3}" TAIL), "false")), NULL, &tok),
                   GA_OK);
  CHECK(tok, 0, "1111", 5, 3, 3); /* llama3: three and one */
  ga_tokenizer_destroy(tok);
  assert_int_equal(tokenizer_from_text(FILE_OF(SEQUENCE(SPLIT(HEAD "\\\\p{N}" TAIL), "false")), NULL, &tok), GA_OK);
  CHECK(tok, 0, "11", 3, 3); /* qwen2 */
  ga_tokenizer_destroy(tok);
}

#define P         "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?"
#define U         "[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]"
#define W         "[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]"
#define ENDING    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
#define SLASHES   "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define TEKKEN(n) P U "*" W "+|" P U "+" W "*|\\\\p{N}" n SLASHES
#define GPT4O     P U "*" W "+" ENDING "|" P U "+" W "*" ENDING "|\\\\p{N}{1,3}" SLASHES
#define BAILING                                                                                                  \
  "'(?i:[sdmt]|ll|ve|re)|" P "+\\\\p{L}+|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]++[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]|" \
  "\\\\s+(?!\\\\S)|\\\\s+"
#define SPLIT_AS(regex, behavior, invert) \
  "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex "\"},\"behavior\":\"" behavior "\",\"invert\":" invert "}"

/* name: of the pre-splitter, NULL when GA has none like it. */
static void expect_pre(const char *pre, const char *name) {
  json_t *root;
  assert_int_equal(ga_json_parse("tokenizer.json", pre, strlen(pre), &root), GA_OK);
  const char *found = tok_json_pre(root);
  if (name && found)
    assert_string_equal(found, name);
  else
    assert_true(!name && !found);
  json_decref(root);
}

static void test_split_patterns(void **state) {
  (void)state;
  expect_pre(SEQUENCE(SPLIT(TEKKEN("")), "false"), "tekken");
  expect_pre(SEQUENCE(SPLIT(TEKKEN("{1,3}")), "false"), NULL); /* one text of its own */
  expect_pre(SEQUENCE(SPLIT(GPT4O), "false"), "gpt-4o");
  expect_pre(SEQUENCE(SPLIT(GPT4O), "true"), NULL); /* split once more, as gpt-2 */
  expect_pre(SEQUENCE(SPLIT(BAILING), "false"), "qwen2");
  expect_pre(SEQUENCE(SPLIT_AS(GPT4O, "Removed", "true"), "false"), "gpt-4o");
  expect_pre(SEQUENCE(SPLIT_AS(GPT4O, "Removed", "false"), "false"), NULL);
  expect_pre(SEQUENCE(SPLIT_AS(GPT4O, "MergedWithNext", "true"), "false"), NULL);
}

static void test_unknown_pre_tokenizers(void **state) {
  (void)state;
  static const char *const files[] = {
      FILE_OF("null"),
      FILE_OF("{\"type\":\"Whitespace\"}"),
      FILE_OF("{\"type\":\"Sequence\",\"pretokenizers\":[" DIGITS ",{\"type\":\"ByteLevel\"}]}"),
      FILE_OF(BYTE_LEVEL("false")),
      FILE_OF("{\"type\":\"Sequence\",\"pretokenizers\":[]}"),
      FILE_OF(SEQUENCE(SPLIT("\\\\w+"), "false")),
      FILE_OF(SEQUENCE(DIGITS, "false")),
      FILE_OF(SEQUENCE(DIGITS "," DIGITS, "true")),
      "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{}}}",
  };
  ga_tokenizer *tok;
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
    assert_int_equal(tokenizer_from_text(files[i], NULL, &tok), GA_ERR_UNSUPPORTED);
}

static void test_broken_json(void **state) {
  (void)state;
  static const char *const files[] = {
      "{}",
      "{\"model\":{\"type\":\"WordPiece\",\"vocab\":[]}}",
      "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":-1}}}",
      "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":4194304}}}",
      "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":4194303}}}", /* a hundred megabytes for a token */
      "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}},\"added_tokens\":[{\"id\":65544,\"content\":\"b\"}]}",
      "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":\"0\"}}}",
      "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}},\"added_tokens\":[{\"id\":1}]}",
      "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}},\"added_tokens\":[{\"content\":\"x\"}]}",
      "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}},\"added_tokens\":[7]}",
      "{\"model\":{" VOCAB ",\"merges\":[[\"a\"]]},\"pre_tokenizer\":" BYTE_LEVEL("true") "}",
      "{\"model\":{" VOCAB ",\"merges\":[7]},\"pre_tokenizer\":" BYTE_LEVEL("true") "}",
  };
  ga_tokenizer *tok;
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    assert_int_equal(tokenizer_from_text(files[i], NULL, &tok), GA_ERR_FORMAT);
    assert_null(tok);
  }
}

#define SPM_VOCAB                                                                                  \
  "{\"<0xC3>\":0,\"<0xA9>\":1,\"\u2581\":2,\"a\":3,\"b\":4,\"ab\":5,\"\u2581a\":6,\"\u2581ab\":7," \
  "\"c\":8,\"bc\":9}"

#define MARK_SPACES "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\u2581\"}"

/* BPE with byte fallback is SentencePiece: the order of merges stands for the scores. */
static void test_byte_fallback(void **state) {
  (void)state;
  static const char bare[] = "{\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":" SPM_VOCAB
                             ",\"merges\":[\"\u2581 a\",\"a b\",\"\u2581 ab\",\"\u2581a b\",\"b c\"]}";
  char text[1024];
  ga_tokenizer *tok;
  (void)snprintf(text, sizeof text, "%s}", bare); /* spaces would be bytes */
  assert_int_equal(tokenizer_from_text(text, NULL, &tok), GA_ERR_UNSUPPORTED);
  (void)snprintf(text, sizeof text, "%s,\"normalizer\":" MARK_SPACES "}", bare);
  assert_int_equal(tokenizer_from_text(text, NULL, &tok), GA_OK);
  assert_int_equal(ga_tokenizer_kind(tok), GA_TOK_SPM);
  CHECK(tok, 0, "ab aba", 5, 7, 3);
  CHECK(tok, 0, "abc", 5, 8); /* a b comes before b c */
  CHECK(tok, 0, "\xC3\xA9", 0, 1);
  ga_tokenizer_destroy(tok);
  (void)snprintf(text, sizeof text,
                 "%s,\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"
                 "\"\u2581\"}," MARK_SPACES "]}}",
                 bare);
  assert_int_equal(tokenizer_from_text(text, NULL, &tok), GA_OK);
  CHECK(tok, 0, "ab", 7);
  ga_tokenizer_destroy(tok);
}

#define WORDS                                                                                                    \
  "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"C\":1,\"S\":2,\"un\":3,\"##a\":4," \
  "\"a\":5}}"
#define TEMPLATE                                                                                       \
  "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"C\"}}," \
  "{\"Sequence\":{\"id\":\"A\"}},{\"SpecialToken\":{\"id\":\"S\"}}]}"

#define BERT(lowercase)                                                                                   \
  "\"normalizer\":{\"type\":\"BertNormalizer\",\"lowercase\":" lowercase "},\"pre_tokenizer\":{\"type\":" \
  "\"BertPreTokenizer\"}"

static void test_word_piece(void **state) {
  (void)state;
  ga_tokenizer *tok;
  assert_int_equal(tokenizer_from_text("{" WORDS "," BERT("true") "," TEMPLATE "}", NULL, &tok), GA_OK);
  CHECK(tok, GA_TOK_ADD_SPECIAL, "UNa a x", 1, 3, 4, 5, 0, 2);
  ga_tokenizer_destroy(tok);
  assert_int_equal(
      tokenizer_from_text(
          "{" WORDS
          "," BERT("false") ","
                            "\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"C\",1],\"sep\":[\"S\",2]}}",
          NULL, &tok),
      GA_OK);
  CHECK(tok, GA_TOK_ADD_SPECIAL, "una UN", 1, 3, 4, 0, 2);
  ga_tokenizer_destroy(tok);
}

static void test_config(void **state) {
  (void)state;
  ga_tokenizer *tok;
  const char *config = "{\"bos_token\":{\"content\":\"<x>\"},\"eos_token\":\"bb\",\"pad_token\":null,"
                       "\"unk_token\":\"none such\",\"add_bos_token\":true}";
  assert_int_equal(tokenizer_from_text(FILE_OF(BYTE_LEVEL("true")), config, &tok), GA_OK);
  assert_int_equal(ga_tokenizer_special(tok, GA_TOK_BOS), 7);
  assert_int_equal(ga_tokenizer_special(tok, GA_TOK_EOS), 8);
  assert_int_equal(ga_tokenizer_special(tok, GA_TOK_PAD), GA_TOK_NONE);
  assert_int_equal(ga_tokenizer_special(tok, GA_TOK_UNK), GA_TOK_NONE);
  CHECK(tok, GA_TOK_ADD_SPECIAL, "a", 7, 0);
  ga_tokenizer_destroy(tok);
  assert_int_equal(ga_tokenizer_from_json("/nonexistent/tokenizer.json", NULL, &tok), GA_ERR_IO);
  assert_null(tok);
}

/* --- parts that are refused by their names --- */

#define WITH(part) "{" BPE ",\"pre_tokenizer\":" BYTE_LEVEL("true") "," part "}"
#define MODEL(field) \
  "{\"model\":{\"type\":\"BPE\"," VOCAB ",\"merges\":[]," field "},\"pre_tokenizer\":" BYTE_LEVEL("true") "}"
#define NORMALIZER(step) WITH("\"normalizer\":" step)
#define SPM(parts) \
  "{\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":" SPM_VOCAB ",\"merges\":[]}," parts "}"
#define WPM(model, rest) "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}" model "}" rest "}"
#define POST(single)     WITH("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[" single "]}")

static void expect_part_refused(const char *json, const char *config, const char *part) {
  ga_tokenizer *tok;
  const ga_status status = tokenizer_from_text(json, config, &tok);
  if ((status != GA_ERR_UNSUPPORTED && status != GA_ERR_FORMAT) || !strstr(ga_error_text(), part))
    fail_msg("status %d, '%s'; wanted '%s'", (int)status, status ? ga_error_text() : "", part);
  assert_null(tok);
}

static void test_refused_parts(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"{" WORDS "," BERT("true") ",\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"S\",2]}}",
       "'cls' of 'BertProcessing' is missing; must be a text and an id"},
      {"{" WORDS "," BERT("true") ",\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[7,1],\"sep\":[\"S\",2]}}",
       "'cls' of 'BertProcessing' is an array; must be a text and an id"},
      {WITH("\"lattice\":1"), "tokenizer.json: 'lattice' is not known; GA has added_tokens"},
      {WITH("\"added_tokens\":[{\"id\":0,\"content\":\"a\",\"upper\":true}]"), "'added_tokens.0.upper' is not known"},
      {MODEL("\"dropout\":0.1"), "'model.dropout' is 0.1; must be absent, empty or one of [0]: ids would be random"},
      {MODEL("\"continuing_subword_prefix\":\"##\""), "'model.continuing_subword_prefix' is '##'"},
      {MODEL("\"end_of_word_suffix\":\"</w>\""), "'model.end_of_word_suffix' is '</w>'"},
      {MODEL("\"fuse\":true"), "'model.fuse' is not known; GA has type, vocab, merges"},
      {NORMALIZER("{\"type\":\"ByteLevel\"}"), "normalizer 'ByteLevel'; GA has Sequence, BertNormalizer, Lowercase"},
      {NORMALIZER("{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AA==\"}"), "normalizer 'Precompiled'"},
      {NORMALIZER("{\"type\":\"Lowercase\",\"locale\":\"tr\"}"), "'normalizer Lowercase.locale' is not known"},
      {NORMALIZER("{\"type\":\"Strip\",\"strip_left\":1}"),
       "'strip_left' of 'Strip' is an integer; must be true or false"},
      {NORMALIZER("{\"type\":\"Prepend\"}"), "'prepend' of 'Prepend' is missing; must be a text"},
      {NORMALIZER("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"[0-9]\"},\"content\":\"\"}"),
       "the Regex '[0-9]'; GA has"},
      {NORMALIZER("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}?\"},\"content\":\"\"}"), "the Regex ' {2,}?'"},
      {NORMALIZER("{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"\"}"),
       "'pattern' of 'Replace' is no text"},
      {NORMALIZER("{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"}}"), "'content' of 'Replace' is missing"},
      {NORMALIZER("{}"), "normalizer 'missing'"},
      {POST(""), "the template of post_processor has no text"},
      {POST("{\"Sequence\":{\"id\":\"B\"}}"), "has the text 'B'; must be A"},
      {POST("{\"Sequence\":{\"id\":\"A\",\"type_id\":1}}"), "single.0.Sequence.type_id' is 1"},
      {POST("{\"SpecialToken\":{\"id\":\"none\"}},{\"Sequence\":{\"id\":\"A\"}}"), "names 'none'; it is no token"},
      {POST("{\"Sequence\":{\"id\":\"A\"}},{\"Text\":1}"),
       "'post_processor TemplateProcessing.single.1.Text' is not known"},
      {WITH("\"post_processor\":{\"type\":\"Wrap\"}"), "post_processor 'Wrap'; GA has Sequence, TemplateProcessing"},
      {WITH("\"decoder\":{\"type\":\"CTC\"}"), "decoder 'CTC'; GA has Sequence, ByteLevel"},
      {WITH("\"decoder\":{\"type\":\"Metaspace\"}"),
       "decoder 'Metaspace'; with this model and pre_tokenizer GA has ByteLevel"},
      {SPM("\"normalizer\":" MARK_SPACES ",\"decoder\":{\"type\":\"ByteLevel\"}"), "decoder 'ByteLevel'"},
      {SPM("\"normalizer\":" MARK_SPACES ",\"decoder\":{\"type\":\"Strip\",\"content\":\" \",\"start\":2}"),
       "decoder Strip of 2"},
      {SPM("\"normalizer\":" MARK_SPACES ",\"pre_tokenizer\":{\"type\":\"Whitespace\"}"),
       "pre_tokenizer 'Whitespace'; with byte_fallback"},
      {SPM("\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\"}"), "the replacement '_'; must be U+2581"},
      {SPM("\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\u2581\",\"prepend_scheme\":\"last\"}"),
       "'last'; must be always"},
      {SPM("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},\"behavior\":\"MergedWithPrevious\"}"),
       "pre_tokenizer 'Split'"},
      {WPM("", ""), "pre_tokenizer is missing or null; with WordPiece"},
      {WPM("", ",\"pre_tokenizer\":{\"type\":\"ByteLevel\"}"), "pre_tokenizer 'ByteLevel'; with WordPiece GA has"},
      {WPM("", ",\"pre_tokenizer\":{\"type\":\"Punctuation\"}"), "pre_tokenizer is 'Punctuation' alone"},
      {WPM(",\"max_input_chars_per_word\":0", ",\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}"),
       "an integer 0; must be an integer from 1"},
      {WPM(",\"max_input_chars_per_word\":5000", ",\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}"),
       "5000; must be"},
      {WPM(",\"max_chars\":9", ""), "'model.max_chars' is not known"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) expect_part_refused(cases[i][0], NULL, cases[i][1]);
}

/* --- tokenizer_config.json and special_tokens_map.json --- */

static void test_added_tokens_decoder(void **state) {
  (void)state;
  ga_tokenizer *tok;
  assert_int_equal(tokenizer_from_text(FILE_OF(BYTE_LEVEL("true")),
                                       "{\"added_tokens_decoder\":{\"8\":{\"content\":\"bb\",\"lstrip\":true},\"9\":{"
                                       "\"content\":\"<y>\",\"special\":true}},\"eos_token\":\"<y>\"}",
                                       &tok),
                   GA_OK);
  assert_int_equal(ga_tokenizer_size(tok), 10);
  assert_int_equal(ga_tokenizer_special(tok, GA_TOK_EOS), 9);
  CHECK(tok, GA_TOK_PARSE_SPECIAL, "a  bb<y>", 0, 8, 9);
  ga_tokenizer_destroy(tok);
  expect_part_refused(FILE_OF(BYTE_LEVEL("true")), "{\"added_tokens_decoder\":{\"8\":{\"content\":\"cc\"}}}",
                      "added_tokens_decoder names token 8 'cc'; tokenizer.json has 'bb'");
  expect_part_refused(FILE_OF(BYTE_LEVEL("true")), "{\"added_tokens_decoder\":{\"-1\":{\"content\":\"cc\"}}}",
                      "has the id '-1'; must be an integer");
}

static void test_additional_special_tokens(void **state) {
  (void)state;
  ga_tokenizer *tok;
  assert_int_equal(
      tokenizer_from_text(FILE_OF(BYTE_LEVEL("true")), "{\"additional_special_tokens\":[\"bb\",\"none\"]}", &tok),
      GA_OK);
  CHECK(tok, 0, "bb", 1, 1); /* a control token now: plain text does not make it */
  CHECK(tok, GA_TOK_PARSE_SPECIAL, "bb", 8);
  ga_tokenizer_destroy(tok);
}

/* Flags of tokenizer_config.json change the template's ends alone. */
static void test_add_flags(void **state) {
  (void)state;
  ga_tokenizer *tok;
  static const char file[] = "{" BPE "," ADDED ",\"pre_tokenizer\":" BYTE_LEVEL(
      "true") ",\"post_processor\":{\"type\":\"TemplateProcessing\","
              "\"single\":[{\"SpecialToken\":{\"id\":\"<x>\"}},{\"SpecialToken\":{\"id\":\"two\"}},{\"Sequence\":{"
              "\"id\":\"A\"}}],"
              "\"special_tokens\":{\"two\":{\"id\":\"two\",\"ids\":[1,3],\"tokens\":[\"b\",\"1\"]}}}}";
  assert_int_equal(tokenizer_from_text(file, "{\"bos_token\":\"<x>\",\"eos_token\":\"bb\"}", &tok), GA_OK);
  CHECK(tok, GA_TOK_ADD_SPECIAL, "a", 7, 1, 3, 0); /* one name, two tokens */
  assert_true(ga_tokenizer_adds_bos(tok) && !ga_tokenizer_adds_eos(tok));
  ga_tokenizer_destroy(tok);
  assert_int_equal(tokenizer_from_text(file,
                                       "{\"bos_token\":\"<x>\",\"eos_token\":\"bb\",\"add_bos_token\":false,"
                                       "\"add_eos_token\":true}",
                                       &tok),
                   GA_OK);
  CHECK(tok, GA_TOK_ADD_SPECIAL, "a", 1, 3, 0, 8);
  assert_true(!ga_tokenizer_adds_bos(tok) && ga_tokenizer_adds_eos(tok));
  ga_tokenizer_destroy(tok);
}

/* transformers' BertTokenizer makes its normalizer from tokenizer_config.json; other classes read tokenizer.json. */
static void test_bert_settings(void **state) {
  (void)state;
  ga_tokenizer *tok;
  static const char file[] = "{" WORDS "," BERT("false") "}", upper[] = "{" WORDS "," BERT("true") "}";
  assert_int_equal(tokenizer_from_text(file, "{\"tokenizer_class\":\"BertTokenizer\",\"do_lower_case\":true}", &tok),
                   GA_OK);
  CHECK(tok, 0, "UN\u00e0", 3, 4);
  ga_tokenizer_destroy(tok);
  assert_int_equal(tokenizer_from_text(file, "{\"tokenizer_class\":\"Other\",\"do_lower_case\":true}", &tok), GA_OK);
  CHECK(tok, 0, "UNa", 0);
  ga_tokenizer_destroy(tok);
  assert_int_equal(tokenizer_from_text(upper, "{\"do_lower_case\":true,\"strip_accents\":false}", &tok), GA_OK);
  CHECK(tok, 0, "UNa UN\u00e0", 3, 4, 0);
  ga_tokenizer_destroy(tok);
}

static void test_special_tokens_map(void **state) {
  (void)state;
  json_t *root, *map, *config;
  const char *json = FILE_OF(BYTE_LEVEL("true")), *text = "{\"pad_token\":{\"content\":\"<x>\"},\"eos_token\":\"bb\"}",
             *settings = "{\"eos_token\":\"<x>\"}";
  assert_int_equal(ga_json_parse("tokenizer.json", json, strlen(json), &root), GA_OK);
  assert_int_equal(ga_json_parse("map", text, strlen(text), &map), GA_OK);
  assert_int_equal(ga_json_parse("config", settings, strlen(settings), &config), GA_OK);
  tok_load load;
  tok_load_init(&load);
  assert_int_equal(tok_load_json(&load, &(tok_files){root, config, map}, NULL), GA_OK);
  assert_int_equal(load.vocab.pad, 7);
  assert_int_equal(load.vocab.eos, 8); /* it comes before tokenizer_config.json */
  ga_arena_free(&load.arena);
  json_decref(root);
  json_decref(map);
  json_decref(config);
}

/* The decoder says whether the first space of an output goes. */
static void test_first_space(void **state) {
  (void)state;
  static const struct {
    const char *decoder, *text;
  } cases[] = {{"null", "ab"},
               {"{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"\u2581\"},"
                "\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}]}",
                " ab"},
               {"{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \","
                "\"start\":1,\"stop\":0}]}",
                "ab"},
               {"{\"type\":\"Metaspace\",\"replacement\":\"\u2581\",\"prepend_scheme\":\"never\"}", " ab"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char json[1024], text[16];
    ga_tokenizer *tok;
    size_t n;
    (void)snprintf(json, sizeof json,
                   SPM("\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\","
                       "\"prepend\":\"\u2581\"}," MARK_SPACES "]},\"decoder\":%s"),
                   cases[i].decoder);
    assert_int_equal(tokenizer_from_text(json, NULL, &tok), GA_OK);
    assert_int_equal(ga_detokenize(tok, (const int32_t[]){7}, 1, 0, text, sizeof text, &n), GA_OK);
    assert_int_equal(n, strlen(cases[i].text));
    assert_memory_equal(text, cases[i].text, n);
    ga_tokenizer_destroy(tok);
  }
}

/* --- GGUF -------------------------------------------------------------------------------------------------------- */

static void put_text_key(raw_bytes *b, const char *key, const char *value) {
  raw_text(b, key);
  raw_le(b, 4, 8);
  raw_text(b, value);
}

static void put_texts(raw_bytes *b, const char *key, const char *const *list, size_t n) {
  raw_text(b, key);
  raw_le(b, 4, 9);
  raw_le(b, 4, 8);
  raw_le(b, 8, n);
  for (size_t i = 0; i < n; i++) raw_text(b, list[i]);
}

static void put_i32s(raw_bytes *b, const char *key, const int32_t *list, size_t n) {
  raw_text(b, key);
  raw_le(b, 4, 9);
  raw_le(b, 4, 5);
  raw_le(b, 8, n);
  for (size_t i = 0; i < n; i++) raw_le(b, 4, (uint32_t)list[i]);
}

static const char *const gguf_tokens[] = {"<s>", "</s>", "a", "b", "ab"};
static const int32_t gguf_types[] = {3, 3, 1, 1, 1};

/* A file of `keys` keys that begin with the model and five tokens; the caller adds the rest. */
static void start_gguf(raw_bytes *b, const char *model, uint64_t keys) {
  raw_gguf(b, 3, 0, keys);
  put_text_key(b, "tokenizer.ggml.model", model);
  put_texts(b, "tokenizer.ggml.tokens", gguf_tokens, 5);
}

static ga_status from_gguf(raw_bytes *b, ga_tokenizer **out) {
  ga_model_file *file;
  *out = NULL;
  raw_pad(b, 32);
  assert_int_equal(ga_model_file_parse("test", b->data, b->n, &file), GA_OK);
  ga_status status = ga_tokenizer_from_model(file, out);
  ga_model_file_destroy(file);
  return status;
}

static void test_gguf(void **state) {
  (void)state;
  static const char *const merges[] = {"a b"};
  raw_bytes b;
  ga_tokenizer *tok;
  start_gguf(&b, "gpt2", 6);
  put_texts(&b, "tokenizer.ggml.merges", merges, 1);
  put_i32s(&b, "tokenizer.ggml.token_type", gguf_types, 5);
  put_text_key(&b, "tokenizer.ggml.pre", "llama-bpe");
  raw_u32_key(&b, "tokenizer.ggml.bos_token_id", 0);
  assert_int_equal(from_gguf(&b, &tok), GA_OK);
  CHECK(tok, GA_TOK_ADD_SPECIAL, "ab", 0, 4); /* llama-bpe adds bos though no key says so */
  CHECK(tok, GA_TOK_PARSE_SPECIAL, "<s>a", 0, 2);
  ga_tokenizer_destroy(tok);
  start_gguf(&b, "gpt2", 4);
  put_text_key(&b, "tokenizer.ggml.pre", "tekken");
  raw_u32_key(&b, "tokenizer.ggml.bos_token_id", 0);
  assert_int_equal(from_gguf(&b, &tok), GA_OK);
  CHECK(tok, GA_TOK_ADD_SPECIAL, "ab", 0, 4); /* a whole word without merges, and bos */
  ga_tokenizer_destroy(tok);
  start_gguf(&b, "gpt2", 4);
  put_text_key(&b, "tokenizer.ggml.pre", "gpt-4o");
  raw_u32_key(&b, "tokenizer.ggml.bos_token_id", 0);
  assert_int_equal(from_gguf(&b, &tok), GA_OK);
  CHECK(tok, GA_TOK_ADD_SPECIAL, "ab", 2, 3);
  ga_tokenizer_destroy(tok);
  start_gguf(&b, "llama", 4);
  raw_u32_key(&b, "tokenizer.ggml.bos_token_id", 0);
  raw_u32_key(&b, "tokenizer.ggml.padding_token_id", 5); /* behind the vocabulary: none */
  assert_int_equal(from_gguf(&b, &tok), GA_OK);
  assert_int_equal(ga_tokenizer_special(tok, GA_TOK_PAD), GA_TOK_NONE);
  assert_true(ga_tokenizer_adds_bos(tok));
  ga_tokenizer_destroy(tok);
}

/* Gemma 4's files: SentencePiece's marks and bytes, and merges by a list. */
static void test_gguf_of_gemma4(void **state) {
  static const char *const tokens[] = {"<bos>",
                                       "a",
                                       "b",
                                       "c",
                                       "ab",
                                       "bc",
                                       "\xe2\x96\x81",
                                       "\xe2\x96\x81"
                                       "ab",
                                       "\n",
                                       "\n\n"};
  static const int32_t types[] = {3, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  static const char *const merges[] = {"b c", "a b", "\xe2\x96\x81 ab", "\n \n"};
  raw_bytes b;
  ga_tokenizer *tok;
  (void)state;
  for (int has_merges = 0; has_merges < 2; has_merges++) {
    raw_gguf(&b, 3, 0, has_merges ? 5 : 4);
    put_text_key(&b, "tokenizer.ggml.model", "gemma4");
    put_texts(&b, "tokenizer.ggml.tokens", tokens, 10);
    put_i32s(&b, "tokenizer.ggml.token_type", types, 10);
    raw_u32_key(&b, "tokenizer.ggml.bos_token_id", 0);
    if (has_merges) put_texts(&b, "tokenizer.ggml.merges", merges, 4);
    const ga_status status = from_gguf(&b, &tok);
    assert_int_equal(status, has_merges ? GA_OK : GA_ERR_FORMAT);
    if (!has_merges) assert_non_null(strstr(ga_error_text(), "model 'gemma4' without tokenizer.ggml.merges"));
  }
  CHECK(tok, GA_TOK_ADD_SPECIAL, "ab ab", 0, 4, 7); /* bos, though no key says so; no space before */
  CHECK(tok, 0, "abc\n\na", 1, 5, 9, 1);            /* the list's order: b c before a b */
  ga_tokenizer_destroy(tok);
}

/* Ids of -1 mean what an absent key means: the usual id of that kind of tokenizer, or none. */
static void test_gguf_ids_of_minus_1(void **state) {
  (void)state;
  raw_bytes b;
  ga_tokenizer *tok;
  start_gguf(&b, "llama", 5);
  raw_u32_key(&b, "tokenizer.ggml.bos_token_id", UINT32_MAX);
  raw_u32_key(&b, "tokenizer.ggml.unknown_token_id", UINT32_MAX);
  raw_u32_key(&b, "tokenizer.ggml.padding_token_id", UINT32_MAX);
  assert_int_equal(from_gguf(&b, &tok), GA_OK);
  assert_int_equal(ga_tokenizer_special(tok, GA_TOK_BOS), 1);
  assert_int_equal(ga_tokenizer_special(tok, GA_TOK_UNK), 0);
  assert_int_equal(ga_tokenizer_special(tok, GA_TOK_PAD), GA_TOK_NONE);
  ga_tokenizer_destroy(tok);
  start_gguf(&b, "gpt2", 3);
  raw_u32_key(&b, "tokenizer.ggml.eos_token_id", UINT32_MAX);
  assert_int_equal(from_gguf(&b, &tok), GA_OK);
  assert_int_equal(ga_tokenizer_special(tok, GA_TOK_EOS), GA_TOK_NONE);
  ga_tokenizer_destroy(tok);
}

/* Tokens whose text holds NUL, and what Python's JSON has beside. */
static void test_nul_in_vocabulary(void **state) {
  (void)state;
  ga_tokenizer *tok;
  static const char json[] =
      "{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"vocab\":{\"[UNK]\":0,\"\\u0000\":1,"
      "\"a\\u0000b\":2,\"a\":3,\"c\":9,\"c\":4}},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}}";
  assert_int_equal(tokenizer_from_text(
                       json, "{\"model_max_length\":1000000000000000019884624838656,\"max_length\":-Infinity}", &tok),
                   GA_OK);
  assert_int_equal(ga_tokenizer_size(tok), 5); /* of the equal keys the last counts */
  const ga_text nul = ga_tokenizer_piece(tok, 1), inside = ga_tokenizer_piece(tok, 2);
  assert_int_equal(nul.bytes, 2);
  assert_memory_equal(nul.data, " \0", 2); /* a space begins a word */
  assert_int_equal(inside.bytes, 4);
  assert_memory_equal(inside.data, " a\0b", 4);
  ga_tokenizer_destroy(tok);
}

static void refuse_gguf(raw_bytes *b, ga_status want) {
  ga_tokenizer *tok;
  assert_int_equal(from_gguf(b, &tok), want);
  assert_null(tok);
}

static void put_bool_key(raw_bytes *b, const char *key, bool value) {
  raw_text(b, key);
  raw_le(b, 4, 7);
  raw_le(b, 1, value);
}

/* -1 stands for the id that the model's kind has. */
static void test_ids_of_minus_one(void **state) {
  (void)state;
  static const uint32_t types[] = {4, 5, 10, 11}; /* u32, i32, u64, i64 */
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    raw_bytes b;
    ga_tokenizer *tok;
    start_gguf(&b, "llama", 4);
    for (int k = 0; k < 2; k++) {
      raw_text(&b, k ? "tokenizer.ggml.padding_token_id" : "tokenizer.ggml.bos_token_id");
      raw_le(&b, 4, types[i]);
      raw_le(&b, i < 2 ? 4 : 8, i < 2 ? UINT32_MAX : UINT64_MAX);
    }
    assert_int_equal(from_gguf(&b, &tok), GA_OK);
    assert_int_equal(ga_tokenizer_special(tok, GA_TOK_BOS), 1);
    assert_int_equal(ga_tokenizer_special(tok, GA_TOK_PAD), GA_TOK_NONE);
    ga_tokenizer_destroy(tok);
  }
}

static void test_gguf_keys(void **state) {
  (void)state;
  raw_bytes b;
  ga_tokenizer *tok;
  start_gguf(&b, "llama", 3);
  raw_u32_key(&b, "tokenizer.ggml.new_idea", 1);
  refuse_gguf(&b, GA_ERR_UNSUPPORTED);
  assert_non_null(strstr(ga_error_text(), "'tokenizer.ggml.new_idea' is not known"));
  start_gguf(&b, "llama", 3);
  put_i32s(&b, "tokenizer.ggml.suppress_tokens", (const int32_t[]){1}, 1);
  refuse_gguf(&b, GA_ERR_UNSUPPORTED);
  assert_non_null(strstr(ga_error_text(), "'tokenizer.ggml.suppress_tokens': must be absent"));
  start_gguf(&b, "llama", 4);
  put_i32s(&b, "tokenizer.ggml.suppress_tokens", NULL, 0);
  put_i32s(&b, "tokenizer.ggml.scores", (const int32_t[]){0, 0, -3, -2, -1}, 5); /* integers */
  assert_int_equal(from_gguf(&b, &tok), GA_OK);
  ga_tokenizer_destroy(tok);
  start_gguf(&b, "llama", 3);
  put_i32s(&b, "tokenizer.ggml.eos_token_ids", (const int32_t[]){1, 3}, 2);
  assert_int_equal(from_gguf(&b, &tok), GA_OK);
  assert_true(ga_tokenizer_is_eog(tok, 3));
  ga_tokenizer_destroy(tok);
}

/* What llama.cpp's converter writes of a BertNormalizer, and NFC of other programs. */
static void test_gguf_normalizer(void **state) {
  (void)state;
  static const char *const words[] = {"?", "\u2581aa", "\u2581AA", "\u2581\u00e0a", "\u2581a\u0300a"};
  static const int8_t flags[][2] = {{-1, -1}, {0, -1}, {1, 0}, {0, 1}}; /* lowercase, strip_accents; -1: no key */
  static const int32_t want[][3] = {{1, 1, -1}, {2, 3, -1}, {1, 3, -1}, {2, 1, -1}};
  raw_bytes b;
  ga_tokenizer *tok;
  for (size_t i = 0; i < 4; i++) {
    raw_gguf(&b, 3, 0, 3u + (flags[i][0] >= 0) + (flags[i][1] >= 0));
    put_text_key(&b, "tokenizer.ggml.model", "bert");
    put_texts(&b, "tokenizer.ggml.tokens", words, 5);
    raw_u32_key(&b, "tokenizer.ggml.unknown_token_id", 0);
    if (flags[i][0] >= 0) put_bool_key(&b, "tokenizer.ggml.normalizer.lowercase", flags[i][0]);
    if (flags[i][1] >= 0) put_bool_key(&b, "tokenizer.ggml.normalizer.strip_accents", flags[i][1]);
    assert_int_equal(from_gguf(&b, &tok), GA_OK);
    expect_ids(tok, 0, "AA \u00e0a", want[i]);
    ga_tokenizer_destroy(tok);
  }
  static const char *const pieces[] = {"\u00e0", "a", "\u0300", "?", "b"};
  raw_gguf(&b, 3, 0, 3);
  put_text_key(&b, "tokenizer.ggml.model", "llama");
  put_texts(&b, "tokenizer.ggml.tokens", pieces, 5);
  put_bool_key(&b, "tokenizer.ggml.normalizer.nfc", true);
  assert_int_equal(from_gguf(&b, &tok), GA_OK);
  int32_t ids[8];
  size_t n;
  assert_int_equal(ga_tokenize(tok, "ba\u0300", 4, 0, ids, 8, &n), GA_OK);
  assert_int_equal(ids[n - 1], 0); /* composed */
  ga_tokenizer_destroy(tok);
}

static void test_bad_gguf(void **state) {
  (void)state;
  raw_bytes b;
  start_gguf(&b, "rwkv", 2);
  refuse_gguf(&b, GA_ERR_UNSUPPORTED);
  start_gguf(&b, "gpt2", 3);
  put_text_key(&b, "tokenizer.ggml.pre", "no-such");
  refuse_gguf(&b, GA_ERR_UNSUPPORTED);
  start_gguf(&b, "gpt2", 3);
  raw_u32_key(&b, "tokenizer.ggml.eos_token_id", 5);
  refuse_gguf(&b, GA_ERR_FORMAT);
  start_gguf(&b, "gpt2", 3);
  put_i32s(&b, "tokenizer.ggml.token_type", gguf_types, 4); /* one too few */
  refuse_gguf(&b, GA_ERR_FORMAT);
  start_gguf(&b, "llama", 3);
  put_texts(&b, "tokenizer.ggml.scores", gguf_tokens, 5); /* texts where numbers belong */
  refuse_gguf(&b, GA_ERR_FORMAT);
  start_gguf(&b, "llama", 3);
  put_i32s(&b, "tokenizer.ggml.token_type", (const int32_t[]){1, 1, 1, 1, 7}, 5);
  refuse_gguf(&b, GA_ERR_FORMAT);
  raw_gguf(&b, 3, 0, 1);
  put_text_key(&b, "tokenizer.ggml.model", "gpt2"); /* no tokens */
  refuse_gguf(&b, GA_ERR_FORMAT);
  raw_gguf(&b, 3, 0, 1);
  put_text_key(&b, "general.name", "none"); /* no tokenizer at all */
  refuse_gguf(&b, GA_ERR_FORMAT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_byte_level),
      cmocka_unit_test(test_split_patterns),
      cmocka_unit_test(test_unknown_pre_tokenizers),
      cmocka_unit_test(test_broken_json),
      cmocka_unit_test(test_byte_fallback),
      cmocka_unit_test(test_word_piece),
      cmocka_unit_test(test_config),
      cmocka_unit_test(test_refused_parts),
      cmocka_unit_test(test_added_tokens_decoder),
      cmocka_unit_test(test_additional_special_tokens),
      cmocka_unit_test(test_add_flags),
      cmocka_unit_test(test_bert_settings),
      cmocka_unit_test(test_special_tokens_map),
      cmocka_unit_test(test_first_space),
      cmocka_unit_test(test_gguf),
      cmocka_unit_test(test_gguf_of_gemma4),
      cmocka_unit_test(test_gguf_ids_of_minus_1),
      cmocka_unit_test(test_ids_of_minus_one),
      cmocka_unit_test(test_gguf_keys),
      cmocka_unit_test(test_gguf_normalizer),
      cmocka_unit_test(test_nul_in_vocabulary),
      cmocka_unit_test(test_bad_gguf),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
