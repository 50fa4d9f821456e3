/* Readers of the parts of tokenizer.json. Each part has a source file of its own, and tok_json.c calls the readers. */
#ifndef GA_TOKEN_TOK_JSON_H
#define GA_TOKEN_TOK_JSON_H

#include "token/tok_json_util.h"

/* Appends the steps of a normalizer to load->steps (tok_json_steps.c). For WordPiece a BertNormalizer at the end
 * becomes flags in load->extra.wpm instead. */
GA_NODISCARD ga_status tok_json_steps(tok_load *load, const json_t *normalizer);

/* Reads the pre_tokenizer of BPE, byte-level or not, and of WordPiece (tok_json_pre.c). */
GA_NODISCARD ga_status tok_json_pre_bpe(tok_load *load, const json_t *pre_tokenizer);
GA_NODISCARD ga_status tok_json_pre_spm(tok_load *load, const json_t *pre_tokenizer);
GA_NODISCARD ga_status tok_json_pre_wpm(tok_load *load, const json_t *pre_tokenizer);

/* Read normalizer, pre_tokenizer and the model's settings of one kind of tokenizer, after its tokens (tok_json.c). */
GA_NODISCARD ga_status tok_json_spm_parts(tok_load *load, const json_t *root);
GA_NODISCARD ga_status tok_json_wpm_parts(tok_load *load, const json_t *root);
/* Sets load->extra.unknown, the tokens that characters without a token become, from the model's field fuse_unk. */
void tok_json_unknown(tok_load *load, const json_t *model);

/* Reads the post_processor: the tokens before and after a text (tok_json_post.c). */
GA_NODISCARD ga_status tok_json_post(tok_load *load, const json_src *src);
/* Reads from the decoder whether the first space of an output is removed (tok_json_post.c). */
GA_NODISCARD ga_status tok_json_decoder(tok_load *load, const json_t *decoder);

/* Sets the ids of special tokens from tokenizer_config.json, special_tokens_map.json and the post_processor. Also
 * applies the other settings of tokenizer_config.json (tok_json_special.c). */
GA_NODISCARD ga_status tok_json_specials(tok_load *load, const json_src *src);

#endif
