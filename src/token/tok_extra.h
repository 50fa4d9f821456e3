/* Properties of tokenizers that files have and ga_vocab has no field for. */
#ifndef GA_TOKEN_TOK_EXTRA_H
#define GA_TOKEN_TOK_EXTRA_H

#include "token/tok_norm.h"

/* Properties of an added token, by bits of tok_extra.added. */
#define TOK_ADDED_LSTRIP     1u  /* takes the white space before it */
#define TOK_ADDED_RSTRIP     2u  /* takes the white space after it */
#define TOK_ADDED_WORD       4u  /* found only where no letter, digit or mark stands beside it */
#define TOK_ADDED_NORMALIZED 8u  /* looked for in the normalised text; ignored for control tokens */
#define TOK_ADDED_ONLY       16u /* not in the model's own vocabulary: never made from pieces */
#define TOK_ADDED_PIECE      32u /* WPM: the token's text is a piece that starts a word; without its mark it is found */

/* How WordPiece reads a text, in this order, and cuts it into words. */
#define TOK_WPM_CLEAN      1u  /* control characters are removed; white space becomes a space */
#define TOK_WPM_CJK        2u  /* ideographs are words of their own */
#define TOK_WPM_STRIP      4u  /* canonical decomposition, without nonspacing marks */
#define TOK_WPM_LOWER      8u  /* lower case */
#define TOK_WPM_PUNCT      16u /* each punctuation character is a word of its own */
#define TOK_WPM_WORDS      32u /* runs of \w and runs of other characters are words */
#define TOK_WPM_BERT       (TOK_WPM_CLEAN | TOK_WPM_CJK | TOK_WPM_STRIP | TOK_WPM_LOWER | TOK_WPM_PUNCT)
#define TOK_WPM_WORD_CHARS 100  /* longer words are the unknown token, unless the file says otherwise */
#define TOK_WPM_MOST_CHARS 4096 /* the most characters that a file may allow to a word */

/* A character without a token, where a file of Hugging Face says what becomes of it. */
typedef enum tok_unknown {
  TOK_UNKNOWN_NONE = 0, /* BPE: nothing */
  TOK_UNKNOWN_CHARS,    /* the unknown token */
  TOK_UNKNOWN_FUSED     /* one unknown token for several characters in a row */
} tok_unknown;

typedef struct tok_extra {
  tok_steps steps;      /* normaliser; runs before all that the kind of tokenizer does by itself */
  const uint8_t *added; /* [n_tokens] TOK_ADDED_ bits; NULL: all 0 */
  /* Tokens that GA_TOK_ADD_SPECIAL adds, instead of bos, eos, cls and sep of the vocabulary, if has_template. */
  bool has_template;
  const int32_t *before, *after;
  size_t n_before, n_after;
  bool has_wpm;       /* wpm and word_chars are set; else they follow from ga_vocab.cased */
  uint32_t wpm;       /* TOK_WPM_ bits */
  int32_t word_chars; /* the most characters of a word */
  tok_unknown unknown;
  bool has_merges;       /* SPM: the vocabulary has merges, by which pieces merge where scores would not do */
  bool bpe_prefix;       /* BPE: a space before each stretch of text that begins with none */
  bool has_strip, strip; /* has_strip: `strip` says whether the first space of an output is removed */
} tok_extra;

/* Returns whether an SPM tokenizer merges pieces by the merges of its vocabulary, not by scores. */
bool tok_merges_by_list(const ga_tokenizer *tok);

/* Makes a tokenizer as ga_tokenizer_create does, with further properties; extra NULL: none. All is copied. */
GA_NODISCARD ga_status tok_create(const ga_vocab *vocab, const tok_extra *extra, ga_tokenizer **out);

#endif
