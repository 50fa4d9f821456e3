#include "token/tok_charsmap.h"

#include <string.h>

#include "base/status.h"

static uint32_t u32_of(const uint8_t *p) {
  return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* A hostile file could make of each character a text as long as itself. */
static ga_status check_charsmap_texts(const char *texts, size_t bytes) {
  GA_REQUIRE(bytes == 0 || texts[bytes - 1] == 0, GA_ERR_FORMAT, "tokenizer: the charsmap's last text has no end");
  for (size_t at = 0; at < bytes;) {
    const size_t n = strlen(texts + at);
    GA_REQUIRE(n <= TOK_CHARSMAP_TEXT_MOST, GA_ERR_FORMAT,
               "tokenizer: a text of the charsmap has %zu bytes; at most %d", n, TOK_CHARSMAP_TEXT_MOST);
    at += n + 1;
  }
  return GA_OK;
}

ga_status tok_charsmap_init(tok_charsmap *map, ga_arena *arena, const void *data, size_t bytes) {
  void *p;
  *map = (tok_charsmap){0};
  if (bytes == 0) return GA_OK;
  GA_REQUIRE(data, GA_ERR_ARG, "tokenizer: no charsmap but %zu bytes", bytes);
  GA_REQUIRE(bytes >= 4 && bytes <= TOK_CHARSMAP_MOST, GA_ERR_FORMAT,
             "tokenizer: a charsmap of %zu bytes; must be 4 to %zu", bytes, TOK_CHARSMAP_MOST);
  GA_TRY(ga_arena_alloc(arena, bytes, &p));
  memcpy(p, data, bytes);
  const uint8_t *all = p;
  const uint32_t trie = u32_of(all);
  GA_REQUIRE(trie % 4 == 0 && trie <= bytes - 4, GA_ERR_FORMAT,
             "tokenizer: the charsmap's trie has %u bytes; must be a multiple of 4, at most %zu", trie, bytes - 4);
  *map = (tok_charsmap){.units = all + 4,
                        .n_units = trie / 4,
                        .texts = (const char *)all + 4 + trie,
                        .texts_bytes = (uint32_t)(bytes - 4 - trie)};
  return check_charsmap_texts(map->texts, map->texts_bytes);
}

/* Unit `at`; one that is not there has no children: its label is no byte. */
static uint32_t charsmap_unit(const tok_charsmap *map, uint32_t at) {
  return at < map->n_units ? u32_of(map->units + 4 * (size_t)at) : 0x80000000u;
}

static uint32_t unit_offset(uint32_t unit) { return unit >> 10 << ((unit & 0x200u) >> 6); }

/* Bytes of a key that are looked at: NFKC's have some 20. Units may lead back to themselves in a hostile map. */
#define KEY_MOST 64

size_t tok_charsmap_find(const tok_charsmap *map, const char *s, size_t n, bool longest, ga_text *out) {
  if (!map->n_units) return 0;
  if (n > KEY_MOST) n = KEY_MOST;
  uint32_t at = unit_offset(charsmap_unit(map, 0));
  size_t found = 0;
  for (size_t i = 0; i < n; i++) {
    const uint8_t byte = (uint8_t)s[i];
    at ^= byte;
    const uint32_t unit = charsmap_unit(map, at);
    if ((unit & 0x800000FFu) != byte) break;
    at ^= unit_offset(unit);
    if (!(unit & 0x100u)) continue;
    const uint32_t text = charsmap_unit(map, at) & 0x7FFFFFFFu;
    if (text >= map->texts_bytes) break;
    *out = (ga_text){map->texts + text, strlen(map->texts + text)};
    found = i + 1;
    if (!longest) break;
  }
  return found;
}
