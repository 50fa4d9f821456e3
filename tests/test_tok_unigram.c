/* Unigram: which cut is the best, what normalisers do, what files may say, and vocabularies made to be slow. Ids of the
 * whole corpus are compared with those of Hugging Face: tests/refs/make_unigram.py. */
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "base/filemap.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/rng.h"
#include "ga/tokenizer.h"
#include "tests/model_bytes.h"
#include "tests/tok_vocabs.h"
#include "token/tok_charsmap.h"
#include "token/tok_load.h"

/* 0 <unk>, 1 <s>, 2 </s>, then the pieces below. */
enum { U_MARK = 3, U_A, U_B, U_AB, U_MARK_A, U_BC, U_C, U_ABC, U_MARK_AB, U_BYTES };

static small_vocab vocab;

static void make_unigram(bool with_bytes) {
  static const struct {
    const char *text;
    float score;
  } pieces[] = {{MARK, -3}, {"a", -4}, {"b", -4},   {"ab", -5},     {MARK "a", -5},
                {"bc", -5}, {"c", -4}, {"abc", -9}, {MARK "ab", -9}};
  start_vocab(&vocab, GA_TOK_UGM);
  vocab.v.unk = add_token(&vocab, "<unk>", GA_TOK_UNKNOWN, 0);
  vocab.v.bos = add_token(&vocab, "<s>", GA_TOK_CONTROL, 0);
  vocab.v.eos = add_token(&vocab, "</s>", GA_TOK_CONTROL, 0);
  for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
    (void)add_token(&vocab, pieces[i].text, GA_TOK_NORMAL, pieces[i].score);
  for (int b = 0; b < 256 && with_bytes; b++) {
    (void)snprintf(vocab.byte_text[b], sizeof vocab.byte_text[b], "<0x%02X>", (unsigned)b);
    (void)add_token(&vocab, vocab.byte_text[b], GA_TOK_BYTE, 0);
  }
}

static ga_tokenizer *make_unigram_tokenizer(void) {
  ga_tokenizer *tok;
  if (ga_tokenizer_create(&vocab.v, &tok) != GA_OK) fail_msg("%s", ga_error_text());
  return tok;
}

static void expect_unigram(const ga_tokenizer *tok, uint32_t flags, const char *text, const int32_t *want) {
  int32_t ids[64];
  size_t n, count = 0;
  while (want[count] >= 0) count++;
  assert_int_equal(ga_tokenize(tok, text, strlen(text), flags, ids, 64, &n), GA_OK);
  bool same = n == count;
  for (size_t i = 0; i < n && same; i++) same = ids[i] == want[i];
  if (!same) fail_msg("'%s': %zu ids, first %d; wanted %zu, first %d", text, n, n ? ids[0] : -1, count, want[0]);
}

#define CHECK(tok, flags, text, ...) expect_unigram((tok), (flags), (text), (const int32_t[]){__VA_ARGS__, -1})

static void test_best_cut(void **state) {
  (void)state;
  make_unigram(false);
  vocab.v.add_bos = vocab.v.add_eos = true;
  ga_tokenizer *tok = make_unigram_tokenizer();
  assert_int_equal(ga_tokenizer_kind(tok), GA_TOK_UGM);
  CHECK(tok, 0, "abc", U_ABC);        /* -9; a bc and ab c have as much, but come later */
  CHECK(tok, 0, "ab", U_AB);          /* -5 before a b with -8 */
  CHECK(tok, 0, " ab", U_MARK, U_AB); /* -8 before -9 */
  CHECK(tok, 0, MARK "a", U_MARK_A);  /* the mark is a space */
  CHECK(tok, 0, "xyab", 0, U_AB);     /* unknown characters in a row are one */
  CHECK(tok, 0, "xay", 0, U_A, 0);    /* and not across a piece */
  CHECK(tok, 0, "\xFF", 0);           /* broken text is U+FFFD */
  CHECK(tok, 0, "<s>", 0);            /* text cannot become a control token */
  CHECK(tok, GA_TOK_PARSE_SPECIAL, "<s>a", 1, U_A);
  CHECK(tok, GA_TOK_ADD_SPECIAL, "", 1, 2);
  CHECK(tok, GA_TOK_ADD_SPECIAL, "a", 1, U_A, 2);
  expect_unigram(tok, 0, "", (const int32_t[]){-1});
  ga_tokenizer_destroy(tok);
}

/* An unknown character has the lowest score of all pieces less 10: here -50, so that p and qr come to -51. */
static void test_unknown_score(void **state) {
  (void)state;
  make_unigram(false);
  const int32_t pq = add_token(&vocab, "pq", GA_TOK_NORMAL, -40), r = add_token(&vocab, "r", GA_TOK_NORMAL, -5);
  (void)add_token(&vocab, "qr", GA_TOK_NORMAL, -1);
  ga_tokenizer *tok = make_unigram_tokenizer();
  CHECK(tok, 0, "pqr", pq, r);
  ga_tokenizer_destroy(tok);
}

static void test_byte_pieces(void **state) {
  (void)state;
  make_unigram(true);
  vocab.v.unigram = GA_TOK_UGM_BYTES;
  ga_tokenizer *tok = make_unigram_tokenizer();
  CHECK(tok, 0, "a\xC3\xA9", U_A, U_BYTES + 0xC3, U_BYTES + 0xA9);
  CHECK(tok, 0, "<0x41>", U_BYTES + '<', U_BYTES + '0', U_BYTES + 'x', U_BYTES + '4', U_BYTES + '1', U_BYTES + '>');
  ga_tokenizer_destroy(tok);
  vocab.v.unigram = 0;
  tok = make_unigram_tokenizer();
  CHECK(tok, 0, "a\xC3\xA9", U_A, 0);
  ga_tokenizer_destroy(tok);
}

static void check_flags(uint32_t flags, bool prefix, const char *text, const int32_t *want) {
  make_unigram(false);
  vocab.v.unigram = flags;
  vocab.v.add_space_prefix = prefix;
  ga_tokenizer *tok = make_unigram_tokenizer();
  expect_unigram(tok, GA_TOK_PARSE_SPECIAL, text, want);
  ga_tokenizer_destroy(tok);
}

#define FLAGS(flags, prefix, text, ...) check_flags((flags), (prefix), (text), (const int32_t[]){__VA_ARGS__, -1})

static void test_spaces(void **state) {
  (void)state;
  FLAGS(0, true, "b", U_MARK, U_B);
  FLAGS(0, true, " b", U_MARK, U_MARK, U_B);
  FLAGS(GA_TOK_UGM_MISSING, true, " b", U_MARK, U_B);
  FLAGS(0, true, "b<s>b", U_MARK, U_B, 1, U_MARK, U_B);
  FLAGS(GA_TOK_UGM_FIRST, true, "b<s>b", U_MARK, U_B, 1, U_B);
  FLAGS(GA_TOK_UGM_FIRST, true, "<s>b", 1, U_B);
  FLAGS(GA_TOK_UGM_STRIP_LEFT, false, "\t\xE3\x80\x80 b ", U_B, U_MARK);
  FLAGS(GA_TOK_UGM_STRIP_RIGHT, false, " b\xC2\xA0\n", U_MARK, U_B);
  FLAGS(GA_TOK_UGM_SQUEEZE, false, "  b   b", U_MARK, U_B, U_MARK, U_B);
  FLAGS(GA_TOK_UGM_SPLIT, true, " b\n\nb\t", U_MARK, U_B, U_MARK, U_B);
  FLAGS(GA_TOK_UGM_SPLIT, false, " b \n b", U_B, U_B);
  FLAGS(GA_TOK_UGM_SPLIT | GA_TOK_UGM_MISSING | GA_TOK_UGM_WORDS, true, MARK "b" MARK "b", U_MARK, U_B, U_MARK, U_B);
  make_unigram(false);
  vocab.v.remove_extra_whitespaces = true;
  ga_tokenizer *tok = make_unigram_tokenizer();
  CHECK(tok, 0, "  b  b  ", U_B, U_MARK, U_B);
  expect_unigram(tok, 0, "   ", (const int32_t[]){-1});
  ga_tokenizer_destroy(tok);
}

/* "c a" is a piece: WORDS keeps it from being found. */
static void test_words(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    make_unigram(false);
    const int32_t across = add_token(&vocab, "c" MARK "a", GA_TOK_NORMAL, -1);
    vocab.v.unigram = i ? GA_TOK_UGM_WORDS : 0;
    ga_tokenizer *tok = make_unigram_tokenizer();
    if (i)
      CHECK(tok, 0, "c a", U_C, U_MARK_A);
    else
      CHECK(tok, 0, "c a", across);
    ga_tokenizer_destroy(tok);
  }
}

/* --- charsmaps --- */

static void put_unit(uint8_t *p, uint32_t v) {
  for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> 8 * i);
}

/* "x" becomes "a", x with an acute (3 bytes) becomes "bc", "z" nothing. A root at 0 whose children lie at 256 ^ byte; x
 * has its value at 512, its child at 512 ^ 0xCC, and below that 768 ^ 0x81, with its value at 896; z has its at 640. */
enum { UNITS = 1024, MAP_BYTES = 4 + 4 * UNITS + 6 };
static uint8_t charsmap[MAP_BYTES];

static void make_charsmap(void) {
  static const char texts[6] = "a\0bc\0";
  memset(charsmap, 0, sizeof charsmap);
  put_unit(charsmap, 4 * UNITS);
  uint8_t *unit = charsmap + 4;
  put_unit(unit, 256u << 10);
  const uint32_t x = 256 ^ 'x', mark = 512 ^ 0xCC, acute = 768 ^ 0x81, z = 256 ^ 'z';
  put_unit(unit + 4 * x, (x ^ 512) << 10 | 1 << 8 | 'x');
  put_unit(unit + 4 * (size_t)512, 0x80000000u | 0);
  put_unit(unit + 4 * mark, (mark ^ 768) << 10 | 0xCC);
  put_unit(unit + 4 * acute, (acute ^ 896) << 10 | 1 << 8 | 0x81);
  put_unit(unit + 4 * (size_t)896, 0x80000000u | 2);
  put_unit(unit + 4 * z, (z ^ 640) << 10 | 1 << 8 | 'z');
  put_unit(unit + 4 * (size_t)640, 0x80000000u | 1);
  memcpy(charsmap + 4 + 4 * UNITS, texts, sizeof texts);
  make_unigram(false);
  vocab.v.charsmap = charsmap;
  vocab.v.charsmap_bytes = sizeof charsmap;
}

#define ACUTE "\xCC\x81"

static void test_charsmap(void **state) {
  (void)state;
  make_charsmap();
  ga_tokenizer *tok = make_unigram_tokenizer();
  CHECK(tok, 0, "x", U_A);
  CHECK(tok, 0, "x" ACUTE, U_BC); /* the longest entry */
  CHECK(tok, 0, "ax" ACUTE "zb", U_ABC, U_B);
  CHECK(tok, 0, "xa" ACUTE, U_A, U_A, 0);
  ga_tokenizer_destroy(tok);
  vocab.v.unigram = GA_TOK_UGM_CLUSTERS;
  tok = make_unigram_tokenizer();
  CHECK(tok, 0, "x" ACUTE, U_A);                /* a small cluster becomes what its first entry is */
  CHECK(tok, 0, "xa" ACUTE, U_A, U_A, 0);       /* clusters without an entry stay */
  CHECK(tok, 0, "x" ACUTE ACUTE ACUTE, U_A, 0); /* 7 bytes: character by character */
  ga_tokenizer_destroy(tok);
}

/* 'a' leads back to where it is looked for, so that each letter makes the key longer: no key has more than 64 bytes. */
static void test_charsmap_in_a_circle(void **state) {
  (void)state;
  char text[1000];
  ga_text out;
  tok_charsmap map;
  ga_arena arena;
  ga_arena_init(&arena, 1 << 20);
  make_charsmap();
  uint8_t *unit = charsmap + 4;
  put_unit(unit + 4 * (size_t)(256 ^ 'a'), (uint32_t)'a' << 10 | 1 << 8 | 'a');
  put_unit(unit + 4 * (size_t)256, 0x80000000u | 0);
  memset(text, 'a', sizeof text);
  assert_int_equal(tok_charsmap_init(&map, &arena, charsmap, sizeof charsmap), GA_OK);
  assert_int_equal(tok_charsmap_find(&map, text, sizeof text, true, &out), 64);
  ga_arena_free(&arena);
}

static void refuse_unigram(ga_status want, const char *part) {
  ga_tokenizer *tok;
  assert_int_equal(ga_tokenizer_create(&vocab.v, &tok), want);
  assert_null(tok);
  if (!strstr(ga_error_text(), part)) fail_msg("'%s' is not in '%s'", part, ga_error_text());
}

static void test_bad_charsmaps(void **state) {
  (void)state;
  make_charsmap();
  vocab.v.charsmap_bytes = 3;
  refuse_unigram(GA_ERR_FORMAT, "a charsmap of 3 bytes; must be 4 to");
  make_charsmap();
  put_unit(charsmap, 4 * UNITS + 2);
  refuse_unigram(GA_ERR_FORMAT, "trie has 4098 bytes; must be a multiple of 4");
  put_unit(charsmap, MAP_BYTES);
  refuse_unigram(GA_ERR_FORMAT, "at most");
  make_charsmap();
  charsmap[MAP_BYTES - 1] = 'b';
  refuse_unigram(GA_ERR_FORMAT, "last text has no end");
  static uint8_t large[4 + 300];
  memset(large + 4, 'a', 299);
  make_charsmap();
  vocab.v.charsmap = large;
  vocab.v.charsmap_bytes = sizeof large;
  refuse_unigram(GA_ERR_FORMAT, "a text of the charsmap has 299 bytes; at most 256");
}

/* Each byte becomes 200: more than any text of Unicode grows. */
static void test_growing_text(void **state) {
  static uint8_t large[MAP_BYTES + 201];
  static char text[10000];
  (void)state;
  make_charsmap();
  memcpy(large, charsmap, MAP_BYTES);
  memset(large + MAP_BYTES, 'a', 200);
  put_unit(large + 4 + 4 * (size_t)512, 0x80000000u | 6);
  vocab.v.charsmap = large;
  vocab.v.charsmap_bytes = sizeof large;
  ga_tokenizer *tok = make_unigram_tokenizer();
  int32_t ids[2000];
  size_t n;
  memset(text, 'x', sizeof text);
  assert_int_equal(ga_tokenize(tok, text, 5, 0, ids, 2000, &n), GA_OK);
  assert_int_equal(n, 1000);
  assert_int_equal(ga_tokenize(tok, text, sizeof text, 0, ids, 2000, &n), GA_ERR_SHAPE);
  assert_int_equal(n, 0);
  assert_string_equal(ga_error_text(), "tokenize: a text of more than 164096 bytes when normalised");
  ga_tokenizer_destroy(tok);
}

/* Whatever the units say, looking up stays within them. */
static void test_random_charsmaps(void **state) {
  (void)state;
  ga_rng rng;
  ga_rng_seed(&rng, 5);
  for (int round = 0; round < 300; round++) {
    make_charsmap();
    for (int i = 0; i < 400; i++) charsmap[4 + ga_rng_below(&rng, 4 * UNITS)] = (uint8_t)ga_rng_below(&rng, 256);
    vocab.v.unigram = round % 2 ? GA_TOK_UGM_CLUSTERS : 0;
    ga_tokenizer *tok = make_unigram_tokenizer();
    char text[256];
    int32_t ids[4096];
    size_t n;
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)ga_rng_below(&rng, 256);
    assert_int_equal(ga_tokenize(tok, text, sizeof text, 0, ids, 4096, &n), GA_OK);
    ga_tokenizer_destroy(tok);
  }
}

/* --- refusals --- */

static void test_refused_vocabularies(void **state) {
  (void)state;
  make_unigram(false);
  vocab.v.unk = GA_TOK_NONE;
  refuse_unigram(GA_ERR_FORMAT, "Unigram without an unknown token");
  make_unigram(false);
  vocab.scores[U_A] = NAN;
  refuse_unigram(GA_ERR_FORMAT, "token 4 has the score nan; must be finite");
  make_unigram(false);
  vocab.v.unigram = 512;
  refuse_unigram(GA_ERR_ARG, "unigram flags 0x200; must be below 0x200");
  make_unigram(false);
  vocab.v.unigram = GA_TOK_UGM_BYTES;
  refuse_unigram(GA_ERR_FORMAT, "byte fallback without a token <0x00>");
  static char name[1026];
  memset(name, 'a', 1025);
  make_unigram(false);
  (void)add_token(&vocab, name, GA_TOK_NORMAL, -1);
  refuse_unigram(GA_ERR_SHAPE, "a piece of 1025 bytes; Unigram has at most 1024");
}

/* --- slow vocabularies --- */

static double seconds_of_cpu(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* a, aa, aaa, ... up to 1024: at each letter all of them match. The ways reach over the whole text. */
static void test_nested_pieces(void **state) {
  (void)state;
  enum { PIECES = 1024, LETTERS = 100000 };
  static char name[PIECES], text[LETTERS];
  static ga_text tokens[PIECES + 1];
  static float scores[PIECES + 1];
  static int32_t types[PIECES + 1], ids[LETTERS];
  memset(name, 'a', sizeof name);
  memset(text, 'a', sizeof text);
  tokens[0] = (ga_text){"?", 1};
  types[0] = GA_TOK_UNKNOWN;
  for (int i = 1; i <= PIECES; i++) {
    tokens[i] = (ga_text){name, (size_t)i};
    types[i] = GA_TOK_NORMAL;
    scores[i] = i == 1000 ? -1.0f : -2.0f;
  }
  ga_vocab v = GA_VOCAB_INIT;
  v.kind = GA_TOK_UGM;
  v.n_tokens = PIECES + 1;
  v.tokens = tokens;
  v.types = types;
  v.scores = scores;
  v.unk = 0;
  const double start = seconds_of_cpu();
  ga_tokenizer *tok;
  size_t n;
  assert_int_equal(ga_tokenizer_create(&v, &tok), GA_OK);
  assert_int_equal(ga_tokenize(tok, text, LETTERS, 0, ids, LETTERS, &n), GA_OK);
  assert_int_equal(n, LETTERS / 1000);
  for (size_t i = 0; i < n; i++) assert_int_equal(ids[i], 1000);
  assert_true(seconds_of_cpu() - start < 20);
  ga_tokenizer_destroy(tok);
}

/* --- tokenizer.json --- */

static ga_status from_text(const char *json, ga_tokenizer **out) {
  json_t *root;
  tok_load load;
  *out = NULL;
  tok_load_init(&load);
  assert_int_equal(ga_json_parse("tokenizer.json", json, strlen(json), &root), GA_OK);
  ga_status status = tok_load_json(&load, &(tok_files){.root = root}, NULL);
  if (status == GA_OK) status = tok_create(&load.vocab, &load.extra, out);
  json_decref(root);
  ga_arena_free(&load.arena);
  return status;
}

#define PIECES "[[\"<unk>\",0],[\"<s>\",0],[\"</s>\",0],[\"\u2581\",-3],[\"a\",-4.5],[\"b\",-4]]"
#define MODEL  "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":" PIECES "}"
#define ADDED                                                                                    \
  "\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"special\":true},{\"id\":2,\"content\":\"</" \
  "s>\",\"special\":true}]"
#define METASPACE                "{\"type\":\"Metaspace\",\"replacement\":\"\u2581\",\"prepend_scheme\":\"always\"}"
#define TOKEN(s)                 "{\"SpecialToken\":{\"id\":\"" s "\"}}"
#define TEXT                     "{\"Sequence\":{\"id\":\"A\"}}"
#define POST(s)                  "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[" s "]}"
#define FILE_OF(norm, pre, post) "{" MODEL "," ADDED ",\"normalizer\":" norm ",\"pre_tokenizer\":" pre "," post "}"
#define BOTH                     POST(TOKEN("<s>") "," TEXT "," TOKEN("</s>"))

static void test_unigram_json(void **state) {
  (void)state;
  ga_tokenizer *tok;
  assert_int_equal(from_text(FILE_OF("null", METASPACE, BOTH), &tok), GA_OK);
  CHECK(tok, GA_TOK_ADD_SPECIAL, "a b?", 1, 3, 4, 3, 5, 0, 2);
  ga_tokenizer_destroy(tok);
  assert_int_equal(
      from_text(FILE_OF("{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":false}",
                        "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"WhitespaceSplit\"}," METASPACE "]}",
                        POST(TEXT "," TOKEN("</s>"))),
                &tok),
      GA_OK);
  CHECK(tok, GA_TOK_ADD_SPECIAL, " a\tb", 3, 4, 3, 5, 2);
  ga_tokenizer_destroy(tok);
  assert_int_equal(from_text(FILE_OF("null", METASPACE, POST(TEXT "," TOKEN("</s>") "," TOKEN("<s>"))), &tok), GA_OK);
  CHECK(tok, GA_TOK_ADD_SPECIAL, "a", 3, 4, 2, 1); /* two tokens after a text */
  ga_tokenizer_destroy(tok);
}

static void test_bad_json(void **state) {
  (void)state;
#define NORM(type) FILE_OF("{\"type\":\"" type "\"}", METASPACE, BOTH)
#define PRE(pre)   FILE_OF("null", pre, BOTH)
  static const struct {
    ga_status status;
    const char *file, *part;
  } cases[] = {
      {GA_ERR_UNSUPPORTED, NORM("NFKC"), "normalizer 'NFKC'; with Unigram GA has Precompiled"},
      {GA_ERR_UNSUPPORTED, NORM("Lowercase"), "normalizer 'Lowercase'"},
      {GA_ERR_UNSUPPORTED,
       FILE_OF("{\"type\":\"Replace\",\"pattern\":{\"String\":\"x\"},\"content\":\"y\"}", METASPACE, BOTH),
       "normalizer 'Replace'"},
      {GA_ERR_UNSUPPORTED,
       FILE_OF("{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Strip\"},{\"type\":\"Precompiled\",\"precompiled_"
               "charsmap\":null}]}",
               METASPACE, BOTH),
       "'Precompiled' stands behind another"},
      {GA_ERR_FORMAT, FILE_OF("{\"type\":\"Precompiled\",\"precompiled_charsmap\":[1]}", METASPACE, BOTH),
       "precompiled_charsmap is an array; must be a text or null"},
      {GA_ERR_FORMAT, FILE_OF("{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AA!A\"}", METASPACE, BOTH),
       "no base64 at 2"},
      {GA_ERR_UNSUPPORTED, PRE("null"), "pre_tokenizer ''"},
      {GA_ERR_UNSUPPORTED, PRE("{\"type\":\"ByteLevel\"}"), "pre_tokenizer 'ByteLevel'; with Unigram GA has Metaspace"},
      {GA_ERR_UNSUPPORTED, PRE("{\"type\":\"Metaspace\",\"replacement\":\"_\"}"),
       "the replacement '_'; must be U+2581"},
      {GA_ERR_UNSUPPORTED, PRE("{\"type\":\"Sequence\",\"pretokenizers\":[" METASPACE "," METASPACE "]}"),
       "2 pre_tokenizers, the first 'Metaspace'"},
      {GA_ERR_FORMAT, PRE("{\"type\":\"Metaspace\",\"replacement\":\"\u2581\",\"prepend_scheme\":\"last\"}"),
       "prepend_scheme 'last'; must be always, first or never"},
      {GA_ERR_UNSUPPORTED,
       PRE("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"WhitespaceSplit\"},{\"type\":\"Metaspace\","
           "\"replacement\":\"\u2581\",\"prepend_scheme\":\"first\"}]}"),
       "'first' behind WhitespaceSplit"},
      {GA_ERR_UNSUPPORTED, FILE_OF("null", METASPACE, POST(TEXT "," TEXT)), "has 2 texts; GA has one"},
      {GA_ERR_FORMAT, FILE_OF("null", METASPACE, POST(TOKEN("<s>"))), "has no text"},
      {GA_ERR_UNSUPPORTED, FILE_OF("null", METASPACE, "\"post_processor\":{\"type\":\"Wrap\"}"),
       "post_processor 'Wrap'; GA has Sequence, TemplateProcessing"},
      {GA_ERR_FORMAT, "{\"model\":{\"type\":\"Unigram\",\"vocab\":{}}}",
       "model.vocab is an object; Unigram has an array"},
      {GA_ERR_FORMAT,
       "{\"model\":{\"type\":\"Unigram\",\"unk_id\":1,\"vocab\":[[\"a\",-1]]},\"pre_tokenizer\":" METASPACE "}",
       "model.unk_id is 1 of 1 pieces"},
      {GA_ERR_FORMAT, "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",-1]]},\"pre_tokenizer\":" METASPACE "}",
       "id of 'model.unk_id'"},
      {GA_ERR_FORMAT,
       "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\",\"b\"]]},\"pre_tokenizer\":" METASPACE "}",
       "model.vocab[0] is an array; must be a text and a number"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ga_tokenizer *tok;
    const ga_status status = from_text(cases[i].file, &tok);
    if (status != cases[i].status || !strstr(ga_error_text(), cases[i].part))
      fail_msg("case %zu: status %d, '%s'; wanted %d, '%s'", i, (int)status, ga_error_text(), (int)cases[i].status,
               cases[i].part);
    assert_null(tok);
  }
}

/* --- GGUF --- */

static void put_array_head(raw_bytes *b, const char *key, uint32_t type, size_t n) {
  raw_text(b, key);
  raw_le(b, 4, 9);
  raw_le(b, 4, type);
  raw_le(b, 8, n);
}

/* The vocabulary above as a file, with its charsmap. */
static ga_status unigram_from_gguf(bool bad_byte, ga_tokenizer **out) {
  raw_bytes b;
  ga_model_file *file;
  raw_gguf(&b, 3, 0, 8);
  raw_text(&b, "tokenizer.ggml.model");
  raw_le(&b, 4, 8);
  raw_text(&b, "t5");
  put_array_head(&b, "tokenizer.ggml.tokens", 8, vocab.v.n_tokens);
  for (size_t i = 0; i < vocab.v.n_tokens; i++) raw_text(&b, vocab.tokens[i].data);
  put_array_head(&b, "tokenizer.ggml.token_type", 5, vocab.v.n_tokens);
  for (size_t i = 0; i < vocab.v.n_tokens; i++) raw_le(&b, 4, (uint32_t)vocab.types[i]);
  put_array_head(&b, "tokenizer.ggml.scores", 6, vocab.v.n_tokens);
  for (size_t i = 0; i < vocab.v.n_tokens; i++) {
    uint32_t bits;
    memcpy(&bits, &vocab.scores[i], 4);
    raw_le(&b, 4, bits);
  }
  if (!bad_byte) put_array_head(&b, "tokenizer.ggml.precompiled_charsmap", 1, sizeof charsmap); /* i8 */
  for (size_t i = 0; i < sizeof charsmap && !bad_byte; i++) raw_le(&b, 1, charsmap[i]);
  if (bad_byte) put_array_head(&b, "tokenizer.ggml.precompiled_charsmap", 5, 10); /* i32 */
  for (size_t i = 0; i < 10 && bad_byte; i++) raw_le(&b, 4, i == 9 ? 256 : 0);
  raw_u32_key(&b, "tokenizer.ggml.unknown_token_id", 0);
  raw_u32_key(&b, "tokenizer.ggml.bos_token_id", 1);
  raw_u32_key(&b, "tokenizer.ggml.eos_token_id", 2);
  raw_pad(&b, 32);
  assert_int_equal(ga_model_file_parse("test", b.data, b.n, &file), GA_OK);
  *out = NULL;
  const ga_status status = ga_tokenizer_from_model(file, out);
  ga_model_file_destroy(file);
  return status;
}

static void test_unigram_gguf(void **state) {
  (void)state;
  ga_tokenizer *tok;
  make_charsmap();
  assert_int_equal(unigram_from_gguf(false, &tok), GA_OK);
  assert_int_equal(ga_tokenizer_kind(tok), GA_TOK_UGM);
  CHECK(tok, GA_TOK_ADD_SPECIAL, "x" ACUTE, U_MARK, U_BC,
        2); /* a space in front and </s> behind, unless the file says no */
  ga_tokenizer_destroy(tok);
  assert_int_equal(unigram_from_gguf(true, &tok), GA_ERR_FORMAT);
  assert_non_null(strstr(ga_error_text(), "element 9 is 256; must be a byte"));
}

/* --- the corpus --- */

static ga_filemap open_data(const char *name) {
  char path[1024];
  ga_filemap map;
  (void)snprintf(path, sizeof path, "%s/%s", GA_TEST_DATA, name);
  if (ga_filemap_open(path, &map) != GA_OK) fail_msg("%s", ga_error_text());
  return map;
}

static uint32_t corpus_u32(const uint8_t *p) {
  uint32_t x;
  memcpy(&x, p, 4);
  return x;
}

static void test_corpus(void **state) {
  (void)state;
  static int32_t ids[65536];
  ga_filemap corpus = open_data("corpus.bin"), want = open_data("ids-unigram-special.bin");
  const uint32_t lines = corpus_u32(corpus.data + 8);
  ga_tokenizer *tok;
  size_t at = 12, n, bad = 0;
  char path[1024];
  (void)snprintf(path, sizeof path, "%s/unigram/tokenizer.json", GA_TEST_DATA);
  if (ga_tokenizer_from_json(path, NULL, &tok) != GA_OK) fail_msg("%s", ga_error_text());
  assert_int_equal(lines, corpus_u32(want.data + 8));
  for (uint32_t i = 0; i < lines; i++) {
    const uint32_t bytes = corpus_u32(corpus.data + at);
    const char *text = (const char *)corpus.data + at + 4;
    const uint8_t *row = want.data + 16 + 12 * (size_t)i;
    uint64_t hash;
    at += 4 + bytes;
    assert_int_equal(
        ga_tokenize(tok, text, bytes, GA_TOK_ADD_SPECIAL | GA_TOK_PARSE_SPECIAL, ids, sizeof ids / sizeof *ids, &n),
        GA_OK);
    memcpy(&hash, row + 4, 8);
    bad += corpus_u32(row) != n || hash != ga_fnv64(GA_FNV64_START, ids, n * sizeof(int32_t));
  }
  if (bad) fail_msg("%zu of %u lines differ", bad, lines);
  ga_tokenizer_destroy(tok);
  ga_filemap_close(&corpus);
  ga_filemap_close(&want);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_best_cut),
      cmocka_unit_test(test_byte_pieces),
      cmocka_unit_test(test_unknown_score),
      cmocka_unit_test(test_spaces),
      cmocka_unit_test(test_words),
      cmocka_unit_test(test_charsmap),
      cmocka_unit_test(test_charsmap_in_a_circle),
      cmocka_unit_test(test_bad_charsmaps),
      cmocka_unit_test(test_random_charsmaps),
      cmocka_unit_test(test_growing_text),
      cmocka_unit_test(test_refused_vocabularies),
      cmocka_unit_test(test_nested_pieces),
      cmocka_unit_test(test_unigram_json),
      cmocka_unit_test(test_bad_json),
      cmocka_unit_test(test_unigram_gguf),
      cmocka_unit_test(test_corpus),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
