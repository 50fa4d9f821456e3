/* The parts of tokenizer.json, each read by a file of its own: tok_json.c puts them together. */
#ifndef GA_TOKEN_TOK_JSON_H
#define GA_TOKEN_TOK_JSON_H

#include "token/tok_json_util.h"

/* Appends the steps of a normalizer to the load's list (tok_json_steps.c). With WordPiece a BertNormalizer at the end
 * becomes flags instead. */
GA_NODISCARD ga_status tok_json_steps(tok_load *load, const json_t *normalizer);

/* Reads the pre_tokenizer of BPE, byte-level or not, and of WordPiece (tok_json_pre.c). */
GA_NODISCARD ga_status tok_json_pre_bpe(tok_load *load, const json_t *pre_tokenizer);
GA_NODISCARD ga_status tok_json_pre_spm(tok_load *load, const json_t *pre_tokenizer);
GA_NODISCARD ga_status tok_json_pre_wpm(tok_load *load, const json_t *pre_tokenizer);

/* Read normalizer, pre_tokenizer and the model's settings of one kind of tokenizer, after its tokens (tok_json.c). */
GA_NODISCARD ga_status tok_json_spm_parts(tok_load *load, const json_t *root);
GA_NODISCARD ga_status tok_json_wpm_parts(tok_load *load, const json_t *root);
/* Sets what characters without a token become, by fuse_unk. */
void tok_json_unknown(tok_load *load, const json_t *model);

/* Reads the post_processor: the tokens before and after a text (tok_json_post.c). */
GA_NODISCARD ga_status tok_json_post(tok_load *load, const json_src *src);
/* Reads the decoder: whether it removes the first space (tok_json_post.c). */
GA_NODISCARD ga_status tok_json_decoder(tok_load *load, const json_t *decoder);

/* Sets the ids of special tokens from tokenizer_config.json, special_tokens_map.json and the template, and applies the
 * other settings of tokenizer_config.json (tok_json_special.c). */
GA_NODISCARD ga_status tok_json_specials(tok_load *load, const json_src *src);

#endif
