/* Properties of tokenizers that files state and for which ga_vocab has no field. */
#ifndef GA_TOKEN_TOK_EXTRA_H
#define GA_TOKEN_TOK_EXTRA_H

#include "token/tok_norm.h"

/* Properties of an added token, by bits of tok_extra.added. */
#define TOK_ADDED_LSTRIP     1u  /* the token takes the white space before it */
#define TOK_ADDED_RSTRIP     2u  /* the token takes the white space after it */
#define TOK_ADDED_WORD       4u  /* the token is found only where no letter, digit or mark is next to it */
#define TOK_ADDED_NORMALIZED 8u  /* the token is looked for in the normalised text; ignored for control tokens */
#define TOK_ADDED_ONLY       16u /* the token is not in the model's own vocabulary, so it is never made from pieces */
#define TOK_ADDED_PIECE      32u /* WPM: the token's text is a piece that starts a word; without its mark it is found */

/* Flags of the steps in which WordPiece normalises a text and cuts it into words, in the order of the steps. */
#define TOK_WPM_CLEAN 1u  /* control characters are removed; white space becomes a space */
#define TOK_WPM_CJK   2u  /* ideographs are words of their own */
#define TOK_WPM_STRIP 4u  /* canonical decomposition, without nonspacing marks */
#define TOK_WPM_LOWER 8u  /* lower case */
#define TOK_WPM_PUNCT 16u /* each punctuation character is a word of its own */
#define TOK_WPM_WORDS 32u /* runs of \w and runs of other characters are words */
#define TOK_WPM_BERT  (TOK_WPM_CLEAN | TOK_WPM_CJK | TOK_WPM_STRIP | TOK_WPM_LOWER | TOK_WPM_PUNCT)
/* largest number of characters of a word, unless the file states one; longer words are the unknown token */
#define TOK_WPM_WORD_CHARS 100
#define TOK_WPM_MOST_CHARS 4096 /* largest number of characters of a word that a file may state */

/* The tokens that a character without a token of its own becomes, as a tokenizer.json states. */
typedef enum tok_unknown {
  TOK_UNKNOWN_NONE = 0, /* BPE: nothing */
  TOK_UNKNOWN_CHARS,    /* the unknown token */
  TOK_UNKNOWN_FUSED     /* one unknown token for several characters in a row */
} tok_unknown;

typedef struct tok_extra {
  tok_steps steps;      /* steps of the normaliser, which run before the steps of the kind of tokenizer */
  const uint8_t *added; /* [n_tokens] TOK_ADDED_ bits; NULL: all 0 */
  /* Tokens that GA_TOK_ADD_SPECIAL adds, instead of bos, eos, cls and sep of the vocabulary, if has_template. */
  bool has_template;
  const int32_t *before, *after;
  size_t n_before, n_after;
  bool has_wpm;       /* true: wpm and word_chars are set; false: their values follow from ga_vocab.cased */
  uint32_t wpm;       /* TOK_WPM_ bits */
  int32_t word_chars; /* largest number of characters of a word */
  tok_unknown unknown;
  bool has_merges;       /* SPM: pieces merge by the merges of the vocabulary if these do not follow from scores */
  bool bpe_prefix;       /* BPE: a space is put before each part of the text that begins without one */
  bool has_strip, strip; /* has_strip: `strip` says whether the first space of an output is removed */
} tok_extra;

/* Returns whether an SPM tokenizer merges pieces by the merges of its vocabulary, not by scores. */
bool tok_merges_by_list(const ga_tokenizer *tok);

/* Makes a tokenizer as ga_tokenizer_create does, with the properties of `extra`; NULL: none. Both structs are copied
 * with their arrays. */
GA_NODISCARD ga_status tok_create(const ga_vocab *vocab, const tok_extra *extra, ga_tokenizer **out);

#endif
