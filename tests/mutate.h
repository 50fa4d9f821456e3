/* Mutation of model files by structure: a walk over a valid file notes where its counts, types, sizes, names and values
 * stand; a mutant has some of them changed. */
#ifndef GA_TESTS_MUTATE_H
#define GA_TESTS_MUTATE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "file/byte_reader.h"

typedef struct blob {
  uint8_t *data;
  size_t n;
} blob;

typedef enum spot_kind { SPOT_COUNT, SPOT_TYPE, SPOT_SIZE, SPOT_VALUE, SPOT_TEXT, SPOT_DATA, SPOT_KINDS } spot_kind;

/* `n` bytes at `at`. A text's size is the 8 bytes before it. */
typedef struct spot {
  size_t at, n;
} spot;

enum { SPOTS_MAX = 4096 };

typedef struct spots {
  spot of[SPOT_KINDS][SPOTS_MAX];
  size_t n[SPOT_KINDS];
} spots;

static inline uint64_t draw_below(ga_rng *rng, uint64_t n) { return n ? ga_rng_below(rng, n) : 0; }

static inline void blob_copy(blob *to, const blob *from) {
  *to = (blob){malloc(from->n + 1), from->n};
  if (!to->data) abort();
  memcpy(to->data, from->data, from->n);
}

/* `cut` bytes at `at` become the n of `with`. */
static inline void blob_splice(blob *b, size_t at, size_t cut, const void *with, size_t n) {
  uint8_t *made = malloc(b->n - cut + n + 1);
  if (!made) abort();
  memcpy(made, b->data, at);
  memcpy(made + at, with, n);
  memcpy(made + at + n, b->data + at + cut, b->n - at - cut);
  free(b->data);
  *b = (blob){made, b->n - cut + n};
}

static inline uint64_t blob_le(const blob *b, size_t at, int n) {
  uint64_t v = 0;
  for (int i = n - 1; i >= 0; i--) v = v << 8 | b->data[at + (size_t)i];
  return v;
}

/* --- GGUF --- */

static inline size_t note(spots *s, spot_kind kind, size_t at, size_t n) {
  if (s->n[kind] < SPOTS_MAX) s->of[kind][s->n[kind]++] = (spot){at, n};
  return at + n;
}

static inline size_t note_text(const blob *b, spots *s, size_t at) {
  const size_t n = (size_t)blob_le(b, at, 8);
  (void)note(s, SPOT_SIZE, at, 8);
  return note(s, SPOT_TEXT, at + 8, n);
}

static inline size_t note_value(const blob *b, spots *s, size_t at, uint64_t type) {
  static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  if (type == 8) return note_text(b, s, at);
  if (type != 9) return note(s, SPOT_VALUE, at, bytes[type]);
  const uint64_t elem = blob_le(b, at, 4), n = blob_le(b, at + 4, 8);
  at = note(s, SPOT_TYPE, at, 4);
  at = note(s, SPOT_COUNT, at, 8);
  for (uint64_t i = 0; i < n; i++) at = note_value(b, s, at, elem);
  return at;
}

/* Of a valid file. */
static inline void note_gguf(const blob *b, spots *s) {
  size_t at = note(s, SPOT_TYPE, 4, 4);
  const uint64_t tensors = blob_le(b, 8, 8), keys = blob_le(b, 16, 8);
  at = note(s, SPOT_COUNT, at, 8);
  at = note(s, SPOT_COUNT, at, 8);
  for (uint64_t i = 0; i < keys; i++) {
    at = note_text(b, s, at);
    const uint64_t type = blob_le(b, at, 4);
    at = note_value(b, s, note(s, SPOT_TYPE, at, 4), type);
  }
  for (uint64_t i = 0; i < tensors; i++) {
    at = note_text(b, s, at);
    const uint64_t dims = blob_le(b, at, 4);
    at = note(s, SPOT_COUNT, at, 4);
    for (uint64_t d = 0; d < dims; d++) at = note(s, SPOT_SIZE, at, 8);
    at = note(s, SPOT_TYPE, at, 4);
    at = note(s, SPOT_SIZE, at, 8);
  }
  for (size_t data = at; data + 4 <= b->n; data += 997) (void)note(s, SPOT_DATA, data, 4);
}

/* Near what is there, and at the borders of types. */
static inline uint64_t odd_number(ga_rng *rng, uint64_t old) {
  const uint64_t near[] = {old + 1, old - 1, old * 2, old / 2, old + 32, (uint64_t)0 - old};
  if (draw_below(rng, 3) == 0) return near[draw_below(rng, sizeof near / sizeof near[0])];
  if (draw_below(rng, 3) == 0) return draw_below(rng, 40);
  const uint64_t power = (uint64_t)1 << draw_below(rng, 64);
  return draw_below(rng, 8) ? power - 1 + draw_below(rng, 3) : ga_rng_u64(rng);
}

static inline uint32_t odd_float(ga_rng *rng) {
  static const uint32_t bits[] = {0x7fc00000, 0x7f800000, 0xff800000, 0x7f7fffff, 1, 0x80000000, 0xbf800000, 0};
  return bits[draw_below(rng, sizeof bits / sizeof bits[0])];
}

/* A text with its size: another of the file, a long one, broken UTF-8, control bytes, or the same but for a byte. */
static inline void change_text(blob *b, const spots *s, const spot *at, ga_rng *rng) {
  static const char *const odd[] = {"",    "\xff\xfe", "a\x1b]52;c;AA\a", "\xe2\x80\xae", "%s%n", "../../x",
                                    "<s>", "llama"};
  char text[1024];
  size_t n = at->n < sizeof text ? at->n : sizeof text;
  memcpy(text, b->data + at->at, n);
  if (draw_below(rng, 3) == 0) {
    const char *t = odd[draw_below(rng, sizeof odd / sizeof odd[0])];
    n = strlen(t);
    memcpy(text, t, n);
  } else if (draw_below(rng, 3) == 0) {
    const spot *other = &s->of[SPOT_TEXT][draw_below(rng, s->n[SPOT_TEXT])];
    n = other->n < sizeof text ? other->n : sizeof text;
    if (other->at + n <= b->n) memcpy(text, b->data + other->at, n);
  } else if (draw_below(rng, 8) == 0) {
    n = sizeof text;
    memset(text, 'a' + (int)draw_below(rng, 2), n);
  } else if (n) {
    text[draw_below(rng, n)] = (char)draw_below(rng, 256);
  }
  uint8_t size[8];
  ga_store_le(size, 8, n);
  blob_splice(b, at->at, at->n, text, n);
  memcpy(b->data + at->at - 8, size, 8);
}

static inline void mutate_gguf(blob *b, const spots *s, ga_rng *rng) {
  const spot_kind kind = (spot_kind)draw_below(rng, SPOT_KINDS);
  if (!s->n[kind]) return;
  const spot *at = &s->of[kind][draw_below(rng, s->n[kind])];
  if (at->at + at->n > b->n) return; /* cut off before */
  if (draw_below(rng, 24) == 0) {
    b->n = at->at + draw_below(rng, at->n + 1);
    return;
  }
  if (draw_below(rng, 24) == 0) { /* a stretch twice, or not at all */
    const size_t n =
        draw_below(rng, 200) < b->n - at->at ? (size_t)draw_below(rng, b->n - at->at < 200 ? b->n - at->at : 200) : 0;
    uint8_t copy[200];
    memcpy(copy, b->data + at->at, n);
    blob_splice(b, at->at, draw_below(rng, 2) ? n : 0, copy, draw_below(rng, 2) ? n : 0);
    return;
  }
  if (kind == SPOT_TEXT && at->at >= 8) {
    change_text(b, s, at, rng);
  } else if (at->n <= 8) {
    uint64_t v = odd_number(rng, blob_le(b, at->at, (int)at->n));
    if (kind == SPOT_TYPE && draw_below(rng, 4)) v = draw_below(rng, 42);
    if (at->n == 4 && (kind == SPOT_DATA || kind == SPOT_VALUE) && draw_below(rng, 2)) v = odd_float(rng);
    ga_store_le(b->data + at->at, (int)at->n, v);
  }
}

/* --- JSON --- */

/* Values, names and signs of JSON text, found without understanding it: a mutant may be any text. */
static inline void note_json(const blob *b, size_t from, size_t end, spots *s) {
  for (size_t i = from; i < end;) {
    const size_t begin = i;
    const uint8_t c = b->data[i++];
    if (c == '"') {
      while (i < end && b->data[i] != '"') i += b->data[i] == '\\' ? 2 : 1;
      i = i < end ? i + 1 : end;
      (void)note(s, SPOT_TEXT, begin, i - begin);
    } else if (c == '-' || (c >= '0' && c <= '9')) {
      while (i < end && strchr("+-.eE0123456789", b->data[i]) && b->data[i]) i++;
      (void)note(s, SPOT_VALUE, begin, i - begin);
    } else if (c >= 'a' && c <= 'z') {
      while (i < end && b->data[i] >= 'a' && b->data[i] <= 'z') i++;
      (void)note(s, SPOT_TYPE, begin, i - begin);
    } else if (strchr("{}[]:,", c) && c) {
      (void)note(s, SPOT_COUNT, begin, 1);
    }
  }
}

static inline void mutate_json(blob *b, const spots *s, ga_rng *rng) {
  static const char *const odd[] = {"0",
                                    "-1",
                                    "1",
                                    "2147483648",
                                    "9007199254740993",
                                    "1e308",
                                    "-0.5",
                                    "1e-320",
                                    "null",
                                    "true",
                                    "[]",
                                    "{}",
                                    "\"\"",
                                    "\"x\"",
                                    "false",
                                    "7",
                                    "64",
                                    "\"\\ud800\"",
                                    "\"\\u0000\"",
                                    "[[[[[[[[1]]]]]]]]",
                                    "99999999999999999999",
                                    "[1,2]",
                                    "{\"type\":\"BPE\"}"};
  const spot_kind kind = (spot_kind)draw_below(rng, SPOT_KINDS);
  if (!s->n[kind]) return;
  const spot *at = &s->of[kind][draw_below(rng, s->n[kind])];
  const spot_kind from = (spot_kind)draw_below(rng, SPOT_KINDS);
  if (at->at + at->n > b->n) return;
  if (kind == SPOT_COUNT && draw_below(rng, 2)) {
    const char sign = "{}[]:,"[draw_below(rng, 6)];
    blob_splice(b, at->at, draw_below(rng, 2), &sign, draw_below(rng, 2));
  } else if (draw_below(rng, 24) == 0) {
    b->n = at->at;
  } else if (s->n[from] && draw_below(rng, 3) == 0) { /* what stands elsewhere */
    const spot *other = &s->of[from][draw_below(rng, s->n[from])];
    char text[256];
    const size_t n = other->n < sizeof text ? other->n : sizeof text;
    if (other->at + n > b->n) return;
    memcpy(text, b->data + other->at, n);
    blob_splice(b, at->at, at->n, text, n);
  } else {
    const char *t = odd[draw_below(rng, sizeof odd / sizeof odd[0])];
    blob_splice(b, at->at, at->n, t, strlen(t));
  }
}

/* --- safetensors: 8 bytes of size, a header in JSON, data --- */

static inline void mutate_safetensors(blob *b, const spots *s, ga_rng *rng) {
  const size_t header = (size_t)blob_le(b, 0, 8), before = b->n;
  if (draw_below(rng, 16) == 0) {
    ga_store_le(b->data, 8, odd_number(rng, header));
    return;
  }
  mutate_json(b, s, rng);
  if (draw_below(rng, 8) && header + b->n > before) ga_store_le(b->data, 8, header + b->n - before);
}

#endif
