/* One call of ga_tokenize: the ids made so far, working memory, and a cache of words. tok_*.c only. */
#ifndef GA_TOKEN_TOK_RUN_H
#define GA_TOKEN_TOK_RUN_H

#include "token/tok_vocab.h"

/* Symbols of one word: a doubly linked list in arrays, and for each the merge with its right neighbour. */
typedef struct tok_symbols {
  uint32_t *start; /* [n + 1] offset in the word */
  uint32_t *next, *prev;
  uint32_t *rank; /* rank of the merge with the next symbol; TOK_RANK_NONE when there is none */
  int32_t *made;  /* token of that merge */
  int32_t *id;
  uint64_t *heap; /* [2 n] rank << 32 | symbol; stale entries are skipped when they come up */
  uint32_t capacity;
} tok_symbols;

/* The cache of words: up to 32 bytes and 7 ids each, by hash. Text repeats itself, so most words are found here. A slot
 * is one cache line. */
#define TOK_CACHE_KEY   32
#define TOK_CACHE_IDS   7
#define TOK_CACHE_SLOTS 8192 /* 512 KiB */
#define TOK_CACHE_LEAST 2048 /* bytes of text below which clearing the cache costs more than it saves */

typedef struct tok_cache_slot {
  uint8_t bytes, n_ids; /* bytes 0 is empty */
  uint16_t reserved;
  int32_t ids[TOK_CACHE_IDS];
  char key[TOK_CACHE_KEY]; /* zeros after the word */
} tok_cache_slot;

/* Unigram tokenizers: the best segmentation of the text up to an offset, described by its last piece. */
typedef struct tok_way {
  double score;
  uint32_t begin;
  int32_t id;
} tok_way;

typedef struct tok_lattice {
  tok_way *ways;
  size_t capacity;
} tok_lattice;

typedef struct tok_run {
  const ga_tokenizer *tok;
  ga_status status; /* of the first failure; later steps do nothing */
  int32_t *ids;
  size_t n_ids, capacity;
  tok_symbols symbols;
  void *symbols_memory;
  tok_cache_slot *cache; /* NULL for short texts */
  char *buffer;          /* normalised text */
  size_t buffer_bytes;
  bool at_start;       /* this stretch of plain text is the first of the text */
  size_t normal_most;  /* UGM: bytes of normalised text, at most */
  tok_lattice lattice; /* UGM */
  uint32_t steps;      /* since the abort callback was called */
} tok_run;

#define TOK_POLL_STEPS 8192u /* each 1 us at most */

void tok_run_poll(tok_run *run);

/* Counts a step of work. False: the run has failed, or the caller asked to stop. */
GA_INLINE bool tok_run_goes_on(tok_run *run) {
  if (GA_UNLIKELY(++run->steps >= TOK_POLL_STEPS)) tok_run_poll(run);
  return run->status == GA_OK;
}

void tok_run_grow(tok_run *run);

GA_INLINE void tok_emit(tok_run *run, int32_t id) {
  if (GA_UNLIKELY(run->n_ids == run->capacity)) tok_run_grow(run);
  if (GA_LIKELY(run->status == GA_OK)) run->ids[run->n_ids++] = id;
}

/* Makes room for n symbols. False, with run->status set: no memory. */
bool tok_run_symbols(tok_run *run, size_t n);
/* Makes run->buffer at least n bytes; its contents are lost. */
bool tok_run_buffer(tok_run *run, size_t n);

/* A word and its place in the cache. */
typedef struct tok_word {
  const char *text;
  size_t bytes;
  tok_cache_slot *slot; /* NULL: not to be cached */
  size_t first_id;
  char key[TOK_CACHE_KEY];
} tok_word;

/* Emits the ids of a word that the cache has. False: it has not; encode the word and call tok_word_keep. */
bool tok_word_known(tok_run *run, const char *text, size_t bytes, tok_word *word);
void tok_word_keep(tok_run *run, const tok_word *word);

/* Encoders of a stretch of plain text; failures go to run->status. */
void tok_bpe_encode(tok_run *run, const char *text, size_t bytes);
void tok_spm_encode(tok_run *run, const char *text, size_t bytes);
void tok_wpm_encode(tok_run *run, const char *text, size_t bytes);
void tok_ugm_encode(tok_run *run, const char *text, size_t bytes);

#endif
