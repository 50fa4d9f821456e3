/* Ids back to text. Bytes go into a small buffer; what of it is settled comes out as valid UTF-8. */
#include "base/status.h"
#include "token/tok_vocab.h"
#include "token/unicode.h"

struct ga_detok {
  const ga_tokenizer *tok;
  uint32_t flags;
  bool strip;       /* the next visible text loses its first space */
  size_t held;      /* bytes of `raw` that may yet become a character: at most 3 */
  char *raw, *text; /* raw: held bytes and a piece; text: three times as much, as each may become U+FFFD */
};

static bool strips_first(const ga_tokenizer *tok, uint32_t flags) { return tok->strip && !(flags & GA_DETOK_CONTINUE); }

/* Moves valid UTF-8 from raw to text, U+FFFD for what is broken. With `more`, the start of a sequence that raw cuts
 * off stays: returns where. */
static size_t sanitise(const char *raw, size_t n, bool more, char *text, size_t *made) {
  size_t i = 0;
  while (i < n) {
    const uint8_t *s = (const uint8_t *)raw + i;
    int len = ga_utf8_length(s, n - i);
    if (len > 0) {
      memcpy(text + *made, s, (size_t)len);
      *made += (size_t)len;
      i += (size_t)len;
      continue;
    }
    if (more && ga_utf8_partial(s, n - i)) break;
    memcpy(text + *made, "\xEF\xBF\xBD", 3);
    *made += 3;
    i += (size_t)ga_utf8_broken(s, n - i);
  }
  return i;
}

ga_status ga_detok_create(const ga_tokenizer *tok, uint32_t flags, ga_detok **out) {
  GA_REQUIRE(tok && out, GA_ERR_ARG, "detok: null argument");
  *out = NULL;
  GA_REQUIRE(!(flags & ~(GA_DETOK_SPECIAL | GA_DETOK_CONTINUE)), GA_ERR_ARG, "detok: flags 0x%x not known", flags);
  size_t raw_bytes = tok->longest_any + 4;
  void *p;
  GA_TRY(ga_mem_zalloc(1, sizeof(ga_detok) + 4 * raw_bytes, "detokeniser", &p));
  ga_detok *detok = p;
  char *room = (char *)(detok + 1);
  *detok =
      (ga_detok){.tok = tok, .flags = flags, .strip = strips_first(tok, flags), .raw = room, .text = room + raw_bytes};
  *out = detok;
  return GA_OK;
}

void ga_detok_destroy(ga_detok *detok) { ga_mem_free(detok); }

/* What of the id is to be seen; a first space is stripped once something is. */
static const char *visible_piece(ga_detok *detok, int32_t id, size_t *bytes) {
  const ga_tokenizer *tok = detok->tok;
  uint32_t n;
  const char *s = tok_piece_text(tok, id, &n);
  bool hidden = tok->type[id] == GA_TOK_CONTROL || tok->type[id] == GA_TOK_UNKNOWN;
  if (hidden && !(detok->flags & GA_DETOK_SPECIAL)) n = 0;
  if (n && detok->strip) {
    detok->strip = false;
    if (!hidden && *s == ' ') {
      s++;
      n--;
    }
  }
  *bytes = n;
  return s;
}

ga_status ga_detok_push(ga_detok *detok, int32_t id, ga_text *text) {
  GA_REQUIRE(detok && text, GA_ERR_ARG, "detok: null argument");
  *text = (ga_text){"", 0};
  GA_REQUIRE(id >= 0 && id < detok->tok->n_tokens, GA_ERR_ARG, "detok: id %d; must be 0 to %d", id,
             detok->tok->n_tokens - 1);
  size_t n, made = 0;
  const char *s = visible_piece(detok, id, &n);
  if (n) memcpy(detok->raw + detok->held, s, n);
  n += detok->held;
  size_t used = sanitise(detok->raw, n, true, detok->text, &made);
  detok->held = n - used;
  memmove(detok->raw, detok->raw + used, detok->held);
  *text = (ga_text){detok->text, made};
  return GA_OK;
}

ga_text ga_detok_flush(ga_detok *detok) {
  size_t made = 0;
  if (!detok) return (ga_text){"", 0};
  (void)sanitise(detok->raw, detok->held, false, detok->text, &made);
  detok->held = 0;
  detok->strip = strips_first(detok->tok, detok->flags);
  return (ga_text){detok->text, made};
}

/* Counts always, copies as long as there is room. */
static void take_text(const ga_text *piece, char *text, size_t capacity, size_t *bytes) {
  if (text && *bytes <= capacity && piece->bytes <= capacity - *bytes) memcpy(text + *bytes, piece->data, piece->bytes);
  *bytes += piece->bytes;
}

static ga_status detokenize_pass(ga_detok *detok, const int32_t *ids, size_t n, char *text, size_t capacity,
                                 size_t *bytes) {
  ga_text piece;
  *bytes = 0;
  for (size_t i = 0; i < n; i++) {
    GA_TRY(ga_detok_push(detok, ids[i], &piece));
    take_text(&piece, text, capacity, bytes);
  }
  piece = ga_detok_flush(detok);
  take_text(&piece, text, capacity, bytes);
  return GA_OK;
}

ga_status ga_detokenize(const ga_tokenizer *tok, const int32_t *ids, size_t n, uint32_t flags, char *text,
                        size_t capacity, size_t *bytes) {
  GA_REQUIRE(bytes, GA_ERR_ARG, "detokenize: null bytes");
  *bytes = 0;
  GA_REQUIRE(tok && (ids || n == 0) && (text || capacity == 0), GA_ERR_ARG, "detokenize: null argument");
  ga_detok *detok;
  GA_TRY(ga_detok_create(tok, flags, &detok));
  /* Once to count, so that nothing is written when it fails; then for good. */
  size_t need = 0;
  ga_status status = detokenize_pass(detok, ids, n, NULL, 0, &need);
  if (status == GA_OK) {
    *bytes = need;
    if (need > capacity)
      status = ga_fail(GA_ERR_SHAPE, "detokenize: %zu bytes; there is room for %zu", need, capacity);
    else
      status = detokenize_pass(detok, ids, n, text, capacity, &need);
  }
  ga_detok_destroy(detok);
  return status;
}
