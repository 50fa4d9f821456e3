/* GA, tokenizers: text to token ids and back.
 *
 * Four kinds, each as its makers define it:
 *   SPM  SentencePiece BPE by score with byte fallback (Kudo and Richardson, 2018): Llama 2, Gemma
 *   BPE  byte-level BPE by merge rank after a pre-splitter (Radford et al., 2019): GPT-2, Llama 3, Qwen, SmolLM
 *   WPM  WordPiece, longest match first (Devlin et al., 2018): BERT, MiniLM
 *   UGM  SentencePiece Unigram: the pieces whose scores add up to the most (Kudo, arXiv 1804.10959): XLM-R, T5
 *
 * A tokenizer is immutable once made: any number of threads may use it at once. A ga_detok belongs to one thread.
 */
#ifndef GA_TOKENIZER_H
#define GA_TOKENIZER_H

#include "ga/model_file.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of tokenizers. Their values never change. */
typedef enum ga_tok_kind { GA_TOK_SPM = 1, GA_TOK_BPE = 2, GA_TOK_WPM = 3, GA_TOK_UGM = 4 } ga_tok_kind;

/* Kinds of tokens. The values are those of the GGUF key tokenizer.ggml.token_type. */
typedef enum ga_tok_type {
  GA_TOK_NORMAL = 1,
  GA_TOK_UNKNOWN = 2, /* stands for text that has no token */
  GA_TOK_CONTROL = 3, /* its text becomes this token only with GA_TOK_PARSE_SPECIAL */
  GA_TOK_USER = 4,    /* user-defined: its text always becomes this token, before anything else */
  GA_TOK_UNUSED = 5,
  GA_TOK_BYTE = 6 /* SPM: "<0x41>" stands for the byte 0x41 */
} ga_tok_type;

#define GA_TOK_NONE (-1) /* stands for a token id where there is no such token */

/* UGM: how a text is normalised before it is cut into pieces. Without flags: as SentencePiece does it. SPM knows
 * GA_TOK_UGM_WORDS, GA_TOK_UGM_MISSING and GA_TOK_UGM_FIRST. */
typedef enum ga_tok_unigram {
  /* ga_vocab.charsmap is applied to whole grapheme clusters below 6 bytes, then to characters. If several of its
   * entries match, the shortest is used, as in Hugging Face. Without this flag the longest is used. */
  GA_TOK_UGM_CLUSTERS = 1,
  GA_TOK_UGM_STRIP_LEFT = 2,  /* white space at the start is removed */
  GA_TOK_UGM_STRIP_RIGHT = 4, /* white space at the end is removed */
  GA_TOK_UGM_SQUEEZE = 8,     /* runs of spaces become one */
  /* the text is cut into words at white space, which is removed; each word gets the space prefix */
  GA_TOK_UGM_SPLIT = 16,
  GA_TOK_UGM_WORDS = 32,   /* a space begins a word, and no piece extends over two words */
  GA_TOK_UGM_MISSING = 64, /* add_space_prefix: a space is added only where the text does not begin with one */
  GA_TOK_UGM_FIRST = 128,  /* add_space_prefix: a space is added only at the start of the whole text */
  GA_TOK_UGM_BYTES = 256   /* a character without a piece becomes its byte tokens; the vocabulary must have all 256 */
} ga_tok_unigram;

/* The parts of which a tokenizer is made. Start from GA_VOCAB_INIT. All arrays and texts are copied. */
typedef struct ga_vocab {
  size_t struct_size;
  ga_tok_kind kind;
  const char *pre;       /* BPE: name of the pre-splitter, see ga_tokenizer_pre_known; NULL = "default" */
  size_t n_tokens;       /* number of tokens, 1 to 2^22 */
  const ga_text *tokens; /* [n_tokens] texts of the tokens */
  /* [n_tokens] SPM: pairs with higher scores are merged first. UGM: log-probabilities. NULL = all 0 */
  const float *scores;
  const int32_t *types;                                 /* [n_tokens] ga_tok_type of each token; NULL = all normal */
  size_t n_merges;                                      /* BPE: number of merges, at most 2^22 */
  const ga_text *merges;                                /* [n_merges] texts "left right", in the order of rank */
  int32_t bos, eos, eot, eom, unk, sep, pad, cls, mask; /* ids of special tokens, or GA_TOK_NONE */
  /* whether GA_TOK_ADD_SPECIAL adds bos and eos. WPM always adds cls (else bos) and sep (else eos) */
  bool add_bos, add_eos;
  bool add_space_prefix; /* SPM, UGM: true: a space is added before the text and after each special token */
  /* SPM, UGM: true: runs of spaces become one space, and spaces at both ends are removed */
  bool remove_extra_whitespaces;
  /* BPE: true: a pre-split word that is itself a token becomes that token, without merging */
  bool ignore_merges;
  /* WPM: true: case and accents are kept; false: text is made lower-case and loses its accents */
  bool cased;
  size_t n_eog;          /* number of further ids that end generation, besides eos, eot, eom and known names */
  const int32_t *eog;    /* [n_eog] further ids that end generation */
  uint32_t unigram;      /* UGM, SPM: a combination of ga_tok_unigram */
  size_t charsmap_bytes; /* UGM: bytes of charsmap, at most 2^24; 0 = none */
  const void *charsmap;  /* UGM: SentencePiece's precompiled_charsmap, with replacements of characters */
  /* [6] ids of GA_TOK_FIM_PREFIX to GA_TOK_FIM_FILE. A GA_TOK_NONE is replaced by a token with a known name, if
   * there is one; NULL = all six GA_TOK_NONE */
  const int32_t *fim;
} ga_vocab;

#define GA_VOCAB_INIT                                                                                            \
  {                                                                                                              \
    sizeof(ga_vocab), GA_TOK_BPE, NULL, 0, NULL, NULL, NULL, 0, NULL, -1, -1, -1, -1, -1, -1, -1, -1, -1, false, \
        false, false, false, false, false, 0, NULL, 0, 0, NULL, NULL                                             \
  }

typedef struct ga_tokenizer ga_tokenizer;

/* Makes a tokenizer; *out is NULL on failure. Release it with ga_tokenizer_destroy. GA_ERR_ARG: null or contradicting
 * arguments, a special id that is no token. GA_ERR_UNSUPPORTED: kind or pre-splitter not known. GA_ERR_SHAPE: too many
 * tokens or too much text; UGM: a piece of more than 1024 bytes. GA_ERR_FORMAT: an unknown type, a merge without a
 * space; UGM: no unk, a score that is not finite, a broken charsmap. A merge is ignored if its parts or its result are
 * not tokens. */
GA_API GA_NODISCARD ga_status ga_tokenizer_create(const ga_vocab *vocab, ga_tokenizer **out);
GA_API void ga_tokenizer_destroy(ga_tokenizer *tok); /* NULL is fine */

/* Makes the tokenizer of a model file: from GGUF's tokenizer.ggml.* keys, or from tokenizer.json and
 * tokenizer_config.json in the folder of safetensors. GA_ERR_UNSUPPORTED: a model or a pre-tokenizer that GA does not
 * have. GA_ERR_FORMAT: keys that are missing or contradict each other. */
GA_API GA_NODISCARD ga_status ga_tokenizer_from_model(const ga_model_file *file, ga_tokenizer **out);
/* Makes a tokenizer from a tokenizer.json by its path; `config` is the path of tokenizer_config.json or NULL. */
GA_API GA_NODISCARD ga_status ga_tokenizer_from_json(const char *path, const char *config, ga_tokenizer **out);

/* Returns whether GA has a pre-splitter of this name. */
GA_API bool ga_tokenizer_pre_known(const char *name);

/* Adds the model's tokens before and after a text: those of the template of tokenizer.json; else bos and eos, for WPM
 * cls and sep. */
#define GA_TOK_ADD_SPECIAL   1u
#define GA_TOK_PARSE_SPECIAL 2u /* the text of a control token becomes that token. Never use it for untrusted text */

/* Writes the ids of `text`, which has at most 2^30 bytes of any values; NUL is an ordinary character. Broken UTF-8 is
 * repaired first, as W3C and Unicode advise, by U+FFFD for each maximal ill-formed part. *n_ids is the number of ids of
 * the text. If `capacity` is smaller, the call fails with GA_ERR_SHAPE, *n_ids is still set, and ids is unchanged; ids
 * may be NULL if capacity is 0. After any other failure *n_ids is 0. If special tokens overlap in the text, the
 * leftmost is taken, then the longest. In the worst case, one word of n letters, time grows as n log n; UGM: as n, with
 * at most 1024 steps a character. Memory is at most 64 bytes for each byte of the longest word and 12 for each byte of
 * text. A charsmap may lengthen a text to 16 times its bytes and 4 KiB, up to 2^31 bytes; GA_ERR_SHAPE beyond that. */
GA_API GA_NODISCARD ga_status ga_tokenize(const ga_tokenizer *tok, const char *text, size_t bytes, uint32_t flags,
                                          int32_t *ids, size_t capacity, size_t *n_ids);

/* Returns the number of tokens. The functions below return an empty piece, type 0 or false for an id outside of
 * [0, size). */
GA_API size_t ga_tokenizer_size(const ga_tokenizer *tok);
GA_API ga_tok_kind ga_tokenizer_kind(const ga_tokenizer *tok);
/* Returns the bytes of a token; for a control token its name. They may be broken UTF-8. Owned by the tokenizer. */
GA_API ga_text ga_tokenizer_piece(const ga_tokenizer *tok, int32_t id);
GA_API int32_t ga_tokenizer_type(const ga_tokenizer *tok, int32_t id);
/* Returns the id of the token whose ga_tokenizer_piece has these bytes; GA_TOK_NONE if there is none. If there are
 * several, normal tokens are preferred to control and byte tokens, then higher ids to lower ones. WPM: pieces that
 * start a word begin with a space. */
GA_API int32_t ga_tokenizer_find(const ga_tokenizer *tok, const char *piece, size_t bytes);

typedef enum ga_tok_special {
  GA_TOK_BOS = 0,
  GA_TOK_EOS = 1,
  GA_TOK_EOT = 2, /* end of turn */
  GA_TOK_EOM = 3, /* end of message */
  GA_TOK_UNK = 4,
  GA_TOK_SEP = 5,
  GA_TOK_PAD = 6,
  GA_TOK_CLS = 7,
  GA_TOK_MASK = 8,
  GA_TOK_FIM_PREFIX = 9,  /* fill in the middle: precedes the text before the gap */
  GA_TOK_FIM_SUFFIX = 10, /* fill in the middle: precedes the text after the gap */
  GA_TOK_FIM_MIDDLE = 11, /* fill in the middle: precedes the text that fills the gap */
  GA_TOK_FIM_PAD = 12,    /* fill in the middle: padding */
  GA_TOK_FIM_REPO = 13,   /* fill in the middle: precedes the name of a repository */
  GA_TOK_FIM_FILE = 14    /* fill in the middle: precedes a file of a repository */
} ga_tok_special;

/* Returns the id of a special token; GA_TOK_NONE if the model has none. */
GA_API int32_t ga_tokenizer_special(const ga_tokenizer *tok, ga_tok_special which);
GA_API bool ga_tokenizer_adds_bos(const ga_tokenizer *tok);
GA_API bool ga_tokenizer_adds_eos(const ga_tokenizer *tok);
/* Returns whether the id ends generation: eos, eot, eom, and tokens whose names are known to end a turn
 * ("<|im_end|>"). */
GA_API bool ga_tokenizer_is_eog(const ga_tokenizer *tok, int32_t id);

/* A streaming detokeniser: it takes ids one by one and returns text in whole UTF-8 characters. */
typedef struct ga_detok ga_detok;

#define GA_DETOK_SPECIAL  1u /* show control and unknown tokens by name; without the flag they are hidden */
#define GA_DETOK_CONTINUE 2u /* the ids continue an earlier text: the first space that SPM or WPM adds is kept */

/* Creates a detokeniser of `tok`, which must outlive *out. Release it with ga_detok_destroy. */
GA_API GA_NODISCARD ga_status ga_detok_create(const ga_tokenizer *tok, uint32_t flags, ga_detok **out);
GA_API void ga_detok_destroy(ga_detok *detok); /* NULL is fine */
/* Takes one id and returns the text that it completes, possibly none. The text is valid UTF-8, owned by `detok`
 * until its next call. Bytes that may still become a character are pending; bytes that cannot are returned as
 * U+FFFD. GA_ERR_ARG: no such id; nothing changes. */
GA_API GA_NODISCARD ga_status ga_detok_push(ga_detok *detok, int32_t id, ga_text *text);
/* Returns pending bytes as U+FFFD and resets the detokeniser. Never fails. */
GA_API ga_text ga_detok_flush(ga_detok *detok);

/* Writes the text of n ids, without a NUL. *bytes is its length; capacity and errors are as for ga_tokenize. */
GA_API GA_NODISCARD ga_status ga_detokenize(const ga_tokenizer *tok, const int32_t *ids, size_t n, uint32_t flags,
                                            char *text, size_t capacity, size_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
