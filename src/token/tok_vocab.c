/* Copies the texts of a vocabulary's tokens, and makes the map that finds tokens by their text. */
#include "token/tok_vocab.h"

#include "base/status.h"
#include "token/unicode.h"

#define MAX_TEXT_BYTES ((size_t)1 << 30)

/* Bytes 33-126, 161-172 and 174-255 stand for themselves; the other 68 are U+0100 and on, in order. */
static int byte_of_char(uint32_t cp) {
  if ((cp >= 33 && cp <= 126) || (cp >= 161 && cp <= 172) || (cp >= 174 && cp <= 255)) return (int)cp;
  if (cp < 0x100 || cp >= 0x100 + 68) return -1;
  uint32_t k = cp - 0x100;
  return k < 33 ? (int)k : k < 67 ? (int)(k - 33 + 127) : 173;
}

bool tok_byte_decode(const char *s, size_t n, char *out, size_t *n_out) {
  size_t made = 0;
  for (size_t i = 0; i < n;) {
    int len, byte = byte_of_char(ga_utf8_next((const uint8_t *)s + i, n - i, &len));
    if (byte < 0) return false;
    out[made++] = (char)byte;
    i += (size_t)len;
  }
  *n_out = made;
  return true;
}

size_t tok_unmark_spaces(const char *s, size_t n, char *out) {
  size_t made = 0;
  for (size_t i = 0; i < n; made++) {
    bool mark = n - i >= 3 && !memcmp(s + i, "\xE2\x96\x81", 3);
    out[made] = mark ? ' ' : s[i];
    i += mark ? 3 : 1;
  }
  return made;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* "<0x41>" to 0x41, -1 for anything else. */
static int byte_token_value(const ga_text *p) {
  if (p->bytes != 6 || memcmp(p->data, "<0x", 3) != 0 || p->data[5] != '>') return -1;
  int high = hex_digit(p->data[3]), low = hex_digit(p->data[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* What the token stands for, into out, which has room for its text. */
static size_t decode_piece(ga_tok_kind kind, uint8_t type, const ga_text *p, char *out) {
  size_t n;
  int byte;
  bool plain = type == GA_TOK_NORMAL || type == GA_TOK_UNUSED;
  if (kind == GA_TOK_BPE && plain && tok_byte_decode(p->data, p->bytes, out, &n)) return n;
  if ((kind == GA_TOK_SPM || kind == GA_TOK_UGM) && type == GA_TOK_BYTE && (byte = byte_token_value(p)) >= 0) {
    out[0] = (char)byte;
    return 1;
  }
  if (kind != GA_TOK_BPE && (plain || type == GA_TOK_USER)) return tok_unmark_spaces(p->data, p->bytes, out);
  if (p->bytes) memcpy(out, p->data, p->bytes);
  return p->bytes;
}

static ga_status check_type(const ga_vocab *vocab, size_t id, uint8_t *type) {
  int32_t t = vocab->types ? vocab->types[id] : GA_TOK_NORMAL;
  if (t == 0) t = GA_TOK_UNUSED; /* "undefined" in some files */
  GA_REQUIRE(t >= GA_TOK_NORMAL && t <= GA_TOK_BYTE, GA_ERR_FORMAT, "tokenizer: token %zu has type %d; must be 1 to 6",
             id, t);
  *type = (uint8_t)t;
  return GA_OK;
}

static ga_status total_text(const ga_vocab *vocab, size_t *total) {
  *total = 0;
  for (size_t i = 0; i < vocab->n_tokens; i++) {
    const ga_text *p = &vocab->tokens[i];
    GA_REQUIRE(p->data || p->bytes == 0, GA_ERR_ARG, "tokenizer: token %zu has no text but %zu bytes", i, p->bytes);
    GA_REQUIRE(p->bytes <= MAX_TEXT_BYTES - *total, GA_ERR_SHAPE, "tokenizer: tokens of more than %zu bytes",
               MAX_TEXT_BYTES);
    *total += p->bytes;
  }
  return GA_OK;
}

ga_status tok_build_pieces(ga_tokenizer *tok, const ga_vocab *vocab) {
  size_t total, n = vocab->n_tokens;
  void *text, *start, *type, *mark;
  GA_TRY(total_text(vocab, &total));
  GA_TRY(ga_arena_alloc(&tok->arena, total, &text));
  GA_TRY(ga_arena_alloc(&tok->arena, (n + 1) * sizeof(uint32_t), &start));
  GA_TRY(ga_arena_alloc(&tok->arena, n, &type));
  GA_TRY(ga_arena_alloc(&tok->arena, n, &mark));
  tok->text = text;
  tok->start = start;
  tok->type = type;
  tok->mark = mark;
  size_t at = 0;
  for (size_t i = 0; i < n; i++) {
    GA_TRY(check_type(vocab, i, &tok->type[i]));
    size_t made = decode_piece(tok->kind, tok->type[i], &vocab->tokens[i], tok->text + at);
    if (made > tok->longest_any) tok->longest_any = (uint32_t)made;
    tok->start[i] = (uint32_t)at;
    at += made;
  }
  tok->start[n] = (uint32_t)at;
  return GA_OK;
}

/* Returns how many there are. In SPM and UGM text each space is U+2581 by the time tokens are looked for: one with a
 * true space is only ever cut out. */
static uint32_t mark_plain(ga_tokenizer *tok, const ga_vocab *vocab, const uint8_t *added) {
  const bool marks_spaces = tok->kind == GA_TOK_SPM || tok->kind == GA_TOK_UGM;
  uint32_t n = 0;
  for (int32_t id = 0; id < tok->n_tokens; id++) {
    uint8_t type = tok->type[id];
    const ga_text *p = &vocab->tokens[id];
    if (type != GA_TOK_NORMAL && type != GA_TOK_USER && type != GA_TOK_UNUSED) continue;
    if (added && added[id] & TOK_ADDED_ONLY) continue;
    if (p->bytes == 0 || (marks_spaces && memchr(p->data, ' ', p->bytes))) continue;
    tok->mark[id] |= TOK_MARK_PLAIN;
    n++;
  }
  return n;
}

/* One id into the map; a later one with the same bytes takes the place of an earlier. */
static void map_insert(ga_tokenizer *tok, int32_t id) {
  uint32_t bytes, other;
  const char *s = tok_piece_text(tok, id, &bytes);
  if (bytes > tok->longest) tok->longest = bytes;
  uint32_t hash = tok_hash(tok->key, s, bytes), at = hash & tok->map.mask;
  for (; tok->map.slots[at].id >= 0; at = (at + 1) & tok->map.mask) {
    if (tok->map.slots[at].hash != hash) continue;
    const char *t = tok_piece_text(tok, tok->map.slots[at].id, &other);
    if (other == bytes && !memcmp(s, t, bytes)) break;
  }
  tok->map.slots[at] = (tok_slot){hash, id};
}

static void map_insert_all(ga_tokenizer *tok, bool normal) {
  for (int32_t id = 0; id < tok->n_tokens; id++)
    if ((tok->mark[id] & TOK_MARK_PLAIN) && (tok->type[id] == GA_TOK_NORMAL) == normal) map_insert(tok, id);
}

ga_status tok_build_map(ga_tokenizer *tok, const ga_vocab *vocab, const uint8_t *added) {
  const uint32_t plain = mark_plain(tok, vocab, added);
  uint32_t size = 16;
  while (size < 2 * plain) size *= 2;
  void *slots;
  GA_TRY(ga_arena_alloc(&tok->arena, size * sizeof(tok_slot), &slots));
  memset(slots, 0xFF, size * sizeof(tok_slot));
  tok->map = (tok_map){slots, size - 1};
  map_insert_all(tok, false);
  map_insert_all(tok, true);
  for (int b = 0; b < 256; b++) {
    char c = (char)b;
    tok->byte_id[b] = tok_map_find(tok, &c, 1);
  }
  for (int32_t id = 0; id < tok->n_tokens; id++) {
    uint32_t bytes;
    const char *s = tok_piece_text(tok, id, &bytes);
    if (tok->type[id] == GA_TOK_BYTE && bytes == 1) tok->byte_id[(uint8_t)*s] = id;
  }
  return GA_OK;
}
