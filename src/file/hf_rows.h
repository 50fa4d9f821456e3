/* Rows that the tables of several model types have in common (hf_tables.c, hf_experts.c).
 * Sources: the configuration classes and checkpoints of transformers 4.x and 5.x; llama.cpp, gguf-py tensor_mapping. */
#ifndef GA_FILE_HF_ROWS_H
#define GA_FILE_HF_ROWS_H

#include "file/hf.h"

/* Keys of decoders that rotate whole heads, and of decoders that rotate a part of each (hf_tables.c). */
extern const ga_hf_key ga_hf_rope_keys[], ga_hf_rope_part_keys[];
/* Names of Llama's tensors, and of Qwen3's, which has norms of heads, too. */
extern const ga_hf_name ga_hf_llama_names[], ga_hf_qwen3_names[];

/* Returns table number `at` of model types with experts, counted from 0; NULL past the last (hf_experts.c). */
const ga_hf_arch *ga_hf_expert_arch_at(int at);

/* clang-format off */

/* ROPE lists the keys of every decoder with rotary embedding. transformers 5 moved rope_theta and rope_scaling into
 * rope_parameters; hf_rope.c gathers both as "rope". */
#define ROPE \
    {"rope_theta",                                  ".rope.freq_base",                         GA_HF_FLOAT, NULL}, \
    {"rope_parameters.rope_theta",                  ".rope.freq_base",                         GA_HF_FLOAT, NULL}, \
    {"rope_parameters.full_attention.rope_theta",   ".rope.freq_base",                         GA_HF_FLOAT, "10000"}, \
    {"rope.rope_type",                              ".rope.scaling.type",                      GA_HF_ROPE_TYPE, NULL}, \
    {"rope.factor",                                 ".rope.scaling.factor",                    GA_HF_FLOAT, NULL}, \
    {"original_max_position_embeddings",      ".rope.scaling.original_context_length",         GA_HF_INT,   NULL}, \
    {"rope.original_max_position_embeddings", ".rope.scaling.original_context_length",         GA_HF_INT,   NULL}, \
    {"rope.low_freq_factor",                        ".rope.scaling.low_freq_factor",           GA_HF_FLOAT, NULL}, \
    {"rope.high_freq_factor",                       ".rope.scaling.high_freq_factor",          GA_HF_FLOAT, NULL}, \
    {"rope.beta_fast",                              ".rope.scaling.yarn_beta_fast",            GA_HF_FLOAT, NULL}, \
    {"rope.beta_slow",                              ".rope.scaling.yarn_beta_slow",            GA_HF_FLOAT, NULL}, \
    {"rope.truncate",                               "ga.rope_truncate",                        GA_HF_BOOL, NULL}, \
    {"rope.short_factor",                           "ga.rope_short_factors",                   GA_HF_FLOATS, NULL}, \
    {"rope.long_factor",                            "ga.rope_long_factors",                    GA_HF_FLOATS, NULL}
#define NO_MSCALE \
    {"rope.mscale",                                 NULL,                                      GA_HF_REFUSED, NULL}, \
    {"rope.mscale_all_dim",                         NULL,                                      GA_HF_REFUSED, NULL}
/* Rows of decoders, with the context that a config.json need not state. */
#define SIZES \
    {"hidden_size",             ".embedding_length",                 GA_HF_INT,   GA_HF_REQUIRED}, \
    {"num_hidden_layers",       ".block_count",                      GA_HF_INT,   GA_HF_REQUIRED}, \
    {"intermediate_size",       ".feed_forward_length",              GA_HF_INT,   GA_HF_REQUIRED}, \
    {"num_attention_heads",     ".attention.head_count",             GA_HF_INT,   GA_HF_REQUIRED}
#define DECODER(context) \
    SIZES, \
    {"num_key_value_heads",     ".attention.head_count_kv",          GA_HF_INT,   NULL}, \
    {"head_dim",                ".attention.key_length",             GA_HF_INT,   NULL}, \
    {"head_dim",                ".attention.value_length",           GA_HF_INT,   NULL}, \
    {"rms_norm_eps",            ".attention.layer_norm_rms_epsilon", GA_HF_FLOAT, "1e-6"}, \
    {"max_position_embeddings", ".context_length",                   GA_HF_INT,   context}, \
    {"vocab_size",              ".vocab_size",                       GA_HF_INT,   GA_HF_REQUIRED}, \
    {"hidden_act",              "ga.activation",                     GA_HF_TEXT,  "\"silu\""}, \
    {"hidden_act",              NULL,                                GA_HF_ONLY,  "\"silu\""}
#define DECODER_NAMES \
    {"embed_tokens",                      "token_embd"}, \
    {"norm",                              "output_norm"}, \
    {"lm_head",                           "output"}, \
    {"layers.%.input_layernorm",          "blk.%.attn_norm"}, \
    {"layers.%.self_attn.q_proj",         "blk.%.attn_q"}, \
    {"layers.%.self_attn.k_proj",         "blk.%.attn_k"}, \
    {"layers.%.self_attn.v_proj",         "blk.%.attn_v"}, \
    {"layers.%.self_attn.o_proj",         "blk.%.attn_output"}, \
    {"layers.%.mlp.gate_proj",            "blk.%.ffn_gate"}, \
    {"layers.%.mlp.up_proj",              "blk.%.ffn_up"}, \
    {"layers.%.mlp.down_proj",            "blk.%.ffn_down"}
#define QK_NORM_NAMES \
    {"layers.%.self_attn.q_norm",         "blk.%.attn_q_norm"}, \
    {"layers.%.self_attn.k_norm",         "blk.%.attn_k_norm"}
/* clang-format on */

#endif
