/* State of one call of ga_tokenize: the ids found so far, working memory, and a cache of words. Only the files
 * src/token/tok_*.c include this header. */
#ifndef GA_TOKEN_TOK_RUN_H
#define GA_TOKEN_TOK_RUN_H

#include "token/tok_vocab.h"

/* The symbols of one word, as a doubly linked list in arrays. For each symbol, rank and made describe its merge with
 * the next symbol. */
typedef struct tok_symbols {
  uint32_t *start; /* [n + 1] offset in bytes of each symbol in the word */
  uint32_t *next, *prev;
  uint32_t *rank; /* rank of the merge with the next symbol; TOK_RANK_NONE: they do not merge */
  int32_t *made;  /* token that results from the merge with the next symbol */
  int32_t *id;
  uint64_t *heap; /* [2 n] heap of rank << 32 | symbol; entries whose rank is out of date are skipped */
  uint32_t capacity;
} tok_symbols;

/* The cache of words and their ids: a hash table of words of up to 32 bytes and 7 ids. Text repeats itself, so most
 * words are found here. A slot is one cache line. */
#define TOK_CACHE_KEY   32
#define TOK_CACHE_IDS   7
#define TOK_CACHE_SLOTS 8192 /* number of slots; the cache has 512 KiB */
/* least bytes of a text for which the cache is used; for shorter texts, clearing it would cost more than it saves */
#define TOK_CACHE_LEAST 2048

typedef struct tok_cache_slot {
  uint8_t bytes, n_ids; /* bytes of the word and number of its ids; bytes 0: the slot is empty */
  uint16_t reserved;
  int32_t ids[TOK_CACHE_IDS];
  char key[TOK_CACHE_KEY]; /* the word, followed by zeros */
} tok_cache_slot;

/* Unigram tokenizers: the best segmentation of the text up to an offset. It has the sum of scores, and start and id of
 * the last piece. */
typedef struct tok_way {
  double score;
  uint32_t begin;
  int32_t id;
} tok_way;

typedef struct tok_lattice {
  tok_way *ways;
  size_t capacity;
} tok_lattice;

/* A growing text (tok_norm.c). */
typedef struct tok_buffer {
  char *data;
  size_t bytes, capacity;
} tok_buffer;

typedef struct tok_run {
  const ga_tokenizer *tok;
  ga_status status; /* status of the first failure; after it the steps do nothing */
  int32_t *ids;
  size_t n_ids, capacity;
  tok_symbols symbols;
  void *symbols_memory;
  tok_cache_slot *cache; /* cache of words; NULL for short texts */
  char *buffer;          /* text after normalisation */
  size_t buffer_bytes;
  tok_buffer norm[2];  /* texts before and after a step of the normaliser, which change roles */
  size_t norm_most;    /* largest number of bytes of a text in `norm` */
  bool after_unknown;  /* BPE: the last token was the unknown one */
  bool at_start;       /* the current part of the text is its beginning; special tokens separate parts */
  size_t normal_most;  /* UGM (Unigram) tokenizers: largest number of bytes of normalised text */
  tok_lattice lattice; /* used by UGM (Unigram) tokenizers only */
  uint32_t steps;      /* steps of work since the last call of the abort callback */
} tok_run;

#define TOK_POLL_STEPS 8192u /* steps of work between two calls of the abort callback; a step takes at most 1 us */

void tok_run_poll(tok_run *run);

/* Counts a step of work. Returns false if the run has failed, or the caller's abort callback has ended it. */
GA_INLINE bool tok_run_goes_on(tok_run *run) {
  if (GA_UNLIKELY(++run->steps >= TOK_POLL_STEPS)) tok_run_poll(run);
  return run->status == GA_OK;
}

void tok_run_grow(tok_run *run);

GA_INLINE void tok_emit(tok_run *run, int32_t id) {
  if (GA_UNLIKELY(run->n_ids == run->capacity)) tok_run_grow(run);
  if (GA_LIKELY(run->status == GA_OK)) run->ids[run->n_ids++] = id;
}

/* Frees all memory of a run. */
void tok_run_free(tok_run *run);

/* Makes room for n symbols. Returns false if memory is short; run->status is then set. */
bool tok_run_symbols(tok_run *run, size_t n);
/* Makes run->buffer at least n bytes long; its contents are lost. Returns false if memory is short; run->status is then
 * set. */
bool tok_run_buffer(tok_run *run, size_t n);

/* A word that is being encoded, and its place in the cache. */
typedef struct tok_word {
  const char *text;
  size_t bytes;
  tok_cache_slot *slot; /* slot of the cache for the word; NULL: the word is too long for the cache */
  size_t first_id;
  char key[TOK_CACHE_KEY];
} tok_word;

/* Appends the ids of a word to run->ids if the cache has it. Returns false if it does not. The caller then encodes the
 * word and calls tok_word_keep. */
bool tok_word_known(tok_run *run, const char *text, size_t bytes, tok_word *word);
void tok_word_keep(tok_run *run, const tok_word *word);

/* Encode a part of the text without special tokens by each kind of tokenizer. Failures are kept in run->status. */
void tok_bpe_encode(tok_run *run, const char *text, size_t bytes);
void tok_spm_encode(tok_run *run, const char *text, size_t bytes);
void tok_wpm_encode(tok_run *run, const char *text, size_t bytes);
void tok_ugm_encode(tok_run *run, const char *text, size_t bytes);

#endif
