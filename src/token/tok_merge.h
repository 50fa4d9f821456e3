/* The merging loop of the tokenizers SPM and BPE. It merges the pair of symbols with the lowest rank, the leftmost of
 * equals, until no pair can merge.
 *
 * The callback `pair` sets rank[i] and made[i] for symbol i and its next symbol. It is a constant at each call, so that
 * it is inlined. Words of few symbols are scanned for each merge. Words of many symbols use a binary heap, with time n
 * log n for any text. */
#ifndef GA_TOKEN_TOK_MERGE_H
#define GA_TOKEN_TOK_MERGE_H

#include "token/tok_run.h"

/* largest number of symbols of a word that is scanned; measured: for more symbols the heap is faster */
#define TOK_SCAN_MOST 48

typedef void (*tok_pair_fn)(const void *ctx, const tok_symbols *sym, uint32_t i, uint32_t n);

/* Merges symbol i with the next one, and updates the ranks of the two pairs that now have symbol i. Returns the index
 * of the symbol before i; n: there is none. */
GA_INLINE uint32_t tok_merge_at(tok_symbols *sym, uint32_t i, uint32_t n, tok_pair_fn pair, const void *ctx) {
  uint32_t gone = sym->next[i], after = sym->next[gone], before = sym->prev[i];
  sym->id[i] = sym->made[i];
  sym->next[i] = after;
  if (after < n) sym->prev[after] = i;
  sym->rank[gone] = TOK_RANK_NONE;
  pair(ctx, sym, i, n);
  if (before < n) pair(ctx, sym, before, n);
  return before;
}

GA_INLINE void tok_merge_scan(tok_symbols *sym, uint32_t n, tok_pair_fn pair, const void *ctx) {
  for (;;) {
    uint32_t best = TOK_RANK_NONE, where = 0;
    for (uint32_t i = 0; i < n; i++) {
      if (sym->rank[i] < best) {
        best = sym->rank[i];
        where = i;
      }
    }
    if (best == TOK_RANK_NONE) return;
    (void)tok_merge_at(sym, where, n, pair, ctx);
  }
}

GA_INLINE void tok_heap_push(uint64_t *heap, size_t *count, uint64_t key) {
  size_t at = (*count)++;
  while (at > 0 && heap[(at - 1) / 2] > key) {
    heap[at] = heap[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  heap[at] = key;
}

GA_INLINE uint64_t tok_heap_pop(uint64_t *heap, size_t *count) {
  uint64_t top = heap[0], last = heap[--*count];
  size_t at = 0, n = *count;
  for (size_t child; (child = 2 * at + 1) < n; at = child) {
    if (child + 1 < n && heap[child + 1] < heap[child]) child++;
    if (heap[child] >= last) break;
    heap[at] = heap[child];
  }
  heap[at] = last;
  return top;
}

/* Merges the symbols of a word by a heap. The heap has at most 2 n keys: n - 1 at first, and each of at most n - 1
 * merges adds one more. A key is valid while its symbol still has the key's rank. Other keys are skipped. */
GA_INLINE void tok_merge_heap(tok_run *run, uint32_t n, tok_pair_fn pair, const void *ctx) {
  tok_symbols *sym = &run->symbols;
  size_t count = 0;
  for (uint32_t i = 0; i < n && tok_run_goes_on(run); i++)
    if (sym->rank[i] != TOK_RANK_NONE) tok_heap_push(sym->heap, &count, (uint64_t)sym->rank[i] << 32 | i);
  while (count > 0 && tok_run_goes_on(run)) {
    uint64_t key = tok_heap_pop(sym->heap, &count);
    uint32_t i = (uint32_t)key;
    if (sym->rank[i] != key >> 32) continue;
    uint32_t before = tok_merge_at(sym, i, n, pair, ctx);
    if (sym->rank[i] != TOK_RANK_NONE) tok_heap_push(sym->heap, &count, (uint64_t)sym->rank[i] << 32 | i);
    if (before < n && sym->rank[before] != TOK_RANK_NONE)
      tok_heap_push(sym->heap, &count, (uint64_t)sym->rank[before] << 32 | before);
  }
}

/* Merges the n symbols of run->symbols, whose id[0, n) and start[0, n] the caller has set. The symbols that remain are
 * 0, next[0], next[next[0]] and so on, below n. */
GA_INLINE void tok_merge_all(tok_run *run, uint32_t n, tok_pair_fn pair, const void *ctx) {
  tok_symbols *sym = &run->symbols;
  for (uint32_t i = 0; i < n; i++) {
    sym->next[i] = i + 1;
    sym->prev[i] = i > 0 ? i - 1 : n;
    sym->made[i] = GA_TOK_NONE;
  }
  for (uint32_t i = 0; i < n && tok_run_goes_on(run); i++) pair(ctx, sym, i, n);
  if (n <= TOK_SCAN_MOST)
    tok_merge_scan(sym, n, pair, ctx);
  else
    tok_merge_heap(run, n, pair, ctx);
}

#endif
