/* What every tokenizer target does with the tokenizer it made: text to ids and back. */
#ifndef GA_TESTS_FUZZ_FUZZ_ENCODE_H
#define GA_TESTS_FUZZ_FUZZ_ENCODE_H

#include <stdlib.h>
#include <string.h>

#include "ga/tokenizer.h"
#include "tests/fuzz/fuzz.h"

#define FUZZ_REQUIRE(cond) \
  do {                     \
    if (!(cond)) abort();  \
  } while (0)

/* Pushed one by one, the ids give the text of all at once. */
static void fuzz_stream(const ga_tokenizer *tok, const int32_t *ids, size_t n, uint32_t flags, const char *all,
                        size_t bytes) {
  ga_detok *detok;
  size_t at = 0;
  FUZZ_REQUIRE(ga_detok_create(tok, flags, &detok) == GA_OK);
  for (size_t i = 0; i <= n; i++) {
    ga_text text;
    if (i == n)
      text = ga_detok_flush(detok);
    else
      FUZZ_REQUIRE(ga_detok_push(detok, ids[i], &text) == GA_OK);
    FUZZ_REQUIRE(text.bytes <= bytes - at && !memcmp(all + at, text.data, text.bytes));
    at += text.bytes;
  }
  FUZZ_REQUIRE(at == bytes);
  ga_detok_destroy(detok);
}

/* Ids are in range, and what is said to be needed is. */
static void fuzz_encode(const ga_tokenizer *tok, const char *text, size_t bytes, uint32_t flags) {
  size_t n = 0, again = 0, need = 0, made = 0;
  ga_status status = ga_tokenize(tok, text, bytes, flags, NULL, 0, &n);
  if (status == GA_ERR_SHAPE && !n) return; /* a charsmap made the text too long */
  FUZZ_REQUIRE(status == (n ? GA_ERR_SHAPE : GA_OK));
  int32_t *ids = malloc((n + 1) * sizeof(int32_t));
  FUZZ_REQUIRE(ids && ga_tokenize(tok, text, bytes, flags, ids, n, &again) == GA_OK && again == n);
  for (size_t i = 0; i < n; i++) FUZZ_REQUIRE(ids[i] >= 0 && (size_t)ids[i] < ga_tokenizer_size(tok));
  status = ga_detokenize(tok, ids, n, flags & 1 ? GA_DETOK_SPECIAL : 0, NULL, 0, &need);
  FUZZ_REQUIRE(status == (need ? GA_ERR_SHAPE : GA_OK));
  char *all = malloc(need + 1);
  FUZZ_REQUIRE(all && ga_detokenize(tok, ids, n, flags & 1 ? GA_DETOK_SPECIAL : 0, all, need, &made) == GA_OK);
  FUZZ_REQUIRE(made == need);
  fuzz_stream(tok, ids, n, flags & 1 ? GA_DETOK_SPECIAL : 0, all, need);
  free(all);
  free(ids);
}

#endif
