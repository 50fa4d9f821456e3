#include "token/tok_run.h"

#include "base/abort.h"
#include "base/status.h"

void tok_run_poll(tok_run *run) {
  run->steps = 0;
  if (run->status == GA_OK) run->status = ga_abort_poll("tokenize");
}

void tok_run_grow(tok_run *run) {
  if (run->status != GA_OK) return;
  size_t capacity = run->capacity ? 2 * run->capacity : 256;
  void *ids;
  run->status = ga_mem_alloc(capacity * sizeof(int32_t), "token ids", &ids);
  if (run->status != GA_OK) return;
  if (run->n_ids) memcpy(ids, run->ids, run->n_ids * sizeof(int32_t));
  ga_mem_free(run->ids);
  run->ids = ids;
  run->capacity = capacity;
}

void tok_run_free(tok_run *run) {
  ga_mem_free(run->cache);
  ga_mem_free(run->ids);
  ga_mem_free(run->symbols_memory);
  ga_mem_free(run->buffer);
  ga_mem_free(run->norm[0].data);
  ga_mem_free(run->norm[1].data);
  ga_mem_free(run->lattice.ways);
}

bool tok_run_symbols(tok_run *run, size_t n) {
  tok_symbols *sym = &run->symbols;
  if (run->status != GA_OK) return false;
  if (n <= sym->capacity) return true;
  size_t capacity = n < 192 ? 256 : n + n / 3, each = 6 * sizeof(uint32_t) + 2 * sizeof(uint64_t);
  ga_mem_free(run->symbols_memory);
  *sym = (tok_symbols){0};
  run->status = ga_mem_alloc((capacity + 1) * each, "symbols of a word", &run->symbols_memory);
  if (run->status != GA_OK) return false;
  size_t stride = capacity + 1;
  uint64_t *heap = run->symbols_memory;
  uint32_t *words = (uint32_t *)(heap + 2 * stride);
  int32_t *ids = (int32_t *)(words + 4 * stride);
  *sym = (tok_symbols){.heap = heap,
                       .start = words,
                       .next = words + stride,
                       .prev = words + 2 * stride,
                       .rank = words + 3 * stride,
                       .made = ids,
                       .id = ids + stride,
                       .capacity = (uint32_t)capacity};
  return true;
}

bool tok_run_buffer(tok_run *run, size_t n) {
  if (run->status != GA_OK) return false;
  if (n <= run->buffer_bytes) return true;
  ga_mem_free(run->buffer);
  run->buffer = NULL;
  run->buffer_bytes = 0;
  void *p;
  run->status = ga_mem_alloc(n, "normalised text", &p);
  if (run->status != GA_OK) return false;
  run->buffer = p;
  run->buffer_bytes = n;
  return true;
}

bool tok_word_known(tok_run *run, const char *text, size_t bytes, tok_word *word) {
  *word = (tok_word){.text = text, .bytes = bytes, .first_id = run->n_ids};
  if (!run->cache || bytes > TOK_CACHE_KEY) return false;
  memcpy(word->key, text, bytes);
  uint64_t h = bytes, part[4];
  memcpy(part, word->key, sizeof part);
  h = tok_mix(tok_mix(h ^ part[0]) ^ part[1]);
  if (bytes > 16) h = tok_mix(tok_mix(h ^ part[2]) ^ part[3]);
  tok_cache_slot *slot = &run->cache[h >> 32 & (TOK_CACHE_SLOTS - 1)];
  word->slot = slot;
  if (slot->bytes != bytes || memcmp(slot->key, word->key, TOK_CACHE_KEY) != 0) return false;
  for (int i = 0; i < slot->n_ids; i++) tok_emit(run, slot->ids[i]);
  return true;
}

void tok_word_keep(tok_run *run, const tok_word *word) {
  size_t n = run->n_ids - word->first_id;
  if (!word->slot || run->status != GA_OK || n > TOK_CACHE_IDS) return;
  tok_cache_slot *slot = word->slot;
  slot->bytes = (uint8_t)word->bytes;
  slot->n_ids = (uint8_t)n;
  for (size_t i = 0; i < n; i++) slot->ids[i] = run->ids[word->first_id + i];
  memcpy(slot->key, word->key, TOK_CACHE_KEY);
}
