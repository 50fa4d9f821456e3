/* Output of a model. Input: a byte that chooses the parser, a byte that seeds the cuts, then the text. However the text
 * is cut, the same comes out; without calls, that is the text; arguments are objects of JSON. */
#include <jansson.h>

#include "tests/fuzz/fuzz.h"
#include "tests/output_record.h"

enum { CUT_NEVER, CUT_ALWAYS, CUT_SEEDED };

/* Bytes of the next piece. */
static size_t next_piece(int cut, uint32_t *seed, size_t left) {
  if (cut == CUT_NEVER) return left;
  if (cut == CUT_ALWAYS) return 1;
  *seed = *seed * 1664525 + 1013904223;
  const size_t want = *seed >> 28;
  return want < left ? want : left;
}

static void arguments_are_json(void *user, size_t index, const char *json, size_t bytes) {
  json_t *tree = json_loadb(json, bytes, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
  record_require(json_is_object(tree));
  json_decref(tree);
  record_arguments(user, index, json, bytes);
}

static bool name_is_odd(void *user, const char *function, const char *parameter) {
  (void)user;
  return (function[0] ^ parameter[0]) & 1;
}

static void run_tools(tool_format format, bool typed, const char *text, size_t n, int cut, uint32_t seed,
                      output_record *out) {
  const tool_sink sink = {
      out, record_content, record_begin, arguments_are_json, record_end, typed ? name_is_odd : NULL};
  tool_parser *parser;
  record_require(tool_parser_create(format, &parser) == GA_OK);
  for (size_t at = 0, piece; at < n; at += piece) {
    piece = next_piece(cut, &seed, n - at);
    record_require(tool_parser_push(parser, text + at, piece, &sink) == GA_OK);
  }
  tool_parser_finish(parser, &sink);
  tool_parser_destroy(parser);
  record_require(out->calls || (out->bytes == n && (!n || !memcmp(out->text, text, n))));
}

static void run_reasoning(bool inside, const char *text, size_t n, int cut, uint32_t seed, output_record *out) {
  const reasoning_sink sink = {out, record_reasoning, record_content};
  reasoning_splitter *splitter;
  record_require(reasoning_create(inside, &splitter) == GA_OK);
  for (size_t at = 0, piece; at < n; at += piece) {
    piece = next_piece(cut, &seed, n - at);
    record_require(reasoning_push(splitter, text + at, piece, &sink) == GA_OK);
  }
  reasoning_finish(splitter, &sink);
  reasoning_destroy(splitter);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2) return 0;
  const char *text = (const char *)data + 2;
  const size_t n = size - 2;
  output_record out[3] = {{0}};
  for (int cut = 0; cut < 3; cut++) {
    if (data[0] % 8 < 5)
      run_tools((tool_format)(data[0] % 8), data[0] & 8, text, n, cut, data[1], &out[cut]);
    else
      run_reasoning(data[0] & 1, text, n, cut, data[1], &out[cut]);
    record_require(out[cut].bytes == out[0].bytes &&
                   (!out[0].bytes || !memcmp(out[cut].text, out[0].text, out[0].bytes)));
  }
  for (int cut = 0; cut < 3; cut++) record_clear(&out[cut]);
  return 0;
}
