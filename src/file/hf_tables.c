/* config.json and tensor names of each architecture, in GGUF's vocabulary.
 * Sources: the configuration classes and checkpoints of transformers 4.x and 5.x; llama.cpp, gguf-py tensor_mapping. */
#include "base/compiler.h"
#include "file/hf_rows.h"

/* clang-format off */

const ga_hf_key ga_hf_rope_keys[] = {
    ROPE,
    NO_MSCALE,
    {"partial_rotary_factor",                          NULL,                                    GA_HF_ONLY,  "1"},
    {"rope_parameters.partial_rotary_factor",          NULL,                                    GA_HF_ONLY,  "1"},
    {0}};
/* Of architectures that rotate a part of each head. */
const ga_hf_key ga_hf_rope_part_keys[] = {
    ROPE,
    NO_MSCALE,
    {"partial_rotary_factor",                          "ga.rope_fraction",                      GA_HF_FRACTION, NULL},
    {"rope_parameters.partial_rotary_factor",          "ga.rope_fraction",                      GA_HF_FRACTION, NULL},
    {0}};

/* --- llama 2 and 3 --- */
static const ga_hf_key llama_keys[] = {DECODER("2048"), {0}};
const ga_hf_name ga_hf_llama_names[] = {
    DECODER_NAMES,
    {"layers.%.post_attention_layernorm", "blk.%.ffn_norm"},
    {0}};

/* --- mistral: llama with a window in all layers --- */
static const ga_hf_key mistral_keys[] = {
    {"num_key_value_heads",     ".attention.head_count_kv",          GA_HF_INT_OR_NONE, "8"},
    DECODER("131072"),
    {"sliding_window",          ".attention.sliding_window",         GA_HF_INT_OR_NULL, "4096"},
    {0}};

/* --- ministral3: mistral with yarn that keeps sizes, which equal factors mscale and mscale_all_dim come to --- */
static const ga_hf_key ministral3_keys[] = {
    {"rms_norm_eps",            ".attention.layer_norm_rms_epsilon", GA_HF_FLOAT, "1e-5"},
    DECODER("262144"),
    ROPE,
    {"sliding_window",          ".attention.sliding_window",         GA_HF_INT_OR_NULL, "0"},
    {"rope_parameters.llama_4_scaling_beta", ".attention.temperature_scale", GA_HF_FLOAT, NULL},
    {"rope_parameters.mscale",  "ga.mscale",                         GA_HF_FLOAT, GA_HF_REQUIRED},
    {"rope_parameters.mscale",  NULL,                                GA_HF_ONLY,  "1"},
    {"rope_parameters.mscale_all_dim", "ga.mscale_all_dim",          GA_HF_FLOAT, GA_HF_REQUIRED},
    {"rope_parameters.mscale_all_dim", NULL,                         GA_HF_ONLY,  "1"},
    {0}};

/* --- granite: llama with factors --- */
static const ga_hf_key granite_keys[] = {
    DECODER("2048"),
    {"embedding_multiplier",    ".embedding_scale",                  GA_HF_FLOAT, "1"},
    {"residual_multiplier",     ".residual_scale",                   GA_HF_FLOAT, "1"},
    {"attention_multiplier",    ".attention.scale",                  GA_HF_FLOAT, "1"},
    {"logits_scaling",          ".logit_scale",                      GA_HF_FLOAT, "1"},
    {"attention_bias",          NULL,                                GA_HF_REFUSED, NULL},
    {"mlp_bias",                NULL,                                GA_HF_REFUSED, NULL},
    {0}};

/* --- smollm3: llama with layers that do not rotate --- */
static const ga_hf_key smollm3_keys[] = {
    {"num_key_value_heads",     ".attention.head_count_kv",          GA_HF_INT_OR_NONE, "4"},
    DECODER("32768"),
    {"rope_theta",              ".rope.freq_base",                   GA_HF_FLOAT, NULL},
    {"rope_parameters.rope_theta", ".rope.freq_base",                GA_HF_FLOAT, "2000000"},
    {"no_rope_layers",          "ga.rope_layers",                    GA_HF_INTS,  NULL},
    {"no_rope_layer_interval",  "ga.no_rope_every",                  GA_HF_INT,   "4"},
    {"use_sliding_window",      NULL,                                GA_HF_REFUSED, NULL},
    {"layer_types",             NULL,                                GA_HF_FULL_LAYERS, NULL},
    {"attention_bias",          NULL,                                GA_HF_REFUSED, NULL},
    {"mlp_bias",                NULL,                                GA_HF_REFUSED, NULL},
    {0}};

/* --- phi3, phi4: q, k, v in one matrix, gate and up in another --- */
static const ga_hf_key phi3_keys[] = {
    {"rms_norm_eps",            ".attention.layer_norm_rms_epsilon", GA_HF_FLOAT, "1e-5"},
    DECODER("4096"),
    {"sliding_window",          ".attention.sliding_window",         GA_HF_INT,   NULL},
    {"attention_bias",          NULL,                                GA_HF_REFUSED, NULL},
    {0}};
static const ga_hf_name phi3_names[] = {
    DECODER_NAMES,
    {"layers.%.self_attn.qkv_proj",       "blk.%.attn_qkv"},
    {"layers.%.mlp.gate_up_proj",         "blk.%.ffn_up"},
    {"layers.%.post_attention_layernorm", "blk.%.ffn_norm"},
    {0}};

/* --- cohere2: one norm for both blocks, windows with rotation, global layers without --- */
static const ga_hf_key cohere2_keys[] = {
    SIZES,
    {"num_key_value_heads",     ".attention.head_count_kv",          GA_HF_INT,   NULL},
    {"head_dim",                ".attention.key_length",             GA_HF_INT,   NULL},
    {"head_dim",                ".attention.value_length",           GA_HF_INT,   NULL},
    {"layer_norm_eps",          ".attention.layer_norm_epsilon",     GA_HF_FLOAT, "1e-5"},
    {"max_position_embeddings", ".context_length",                   GA_HF_INT,   "8192"},
    {"vocab_size",              ".vocab_size",                       GA_HF_INT,   "256000"},
    {"logit_scale",             ".logit_scale",                      GA_HF_FLOAT, "0.0625"},
    {"sliding_window",          ".attention.sliding_window",         GA_HF_INT_OR_NULL, "4096"},
    {"layer_types",             ".attention.sliding_window_pattern", GA_HF_LAYER_TYPES, NULL},
    {"sliding_window_pattern",  ".attention.sliding_window_pattern", GA_HF_INT,   NULL},
    {"_sliding_window_pattern", ".attention.sliding_window_pattern", GA_HF_INT,   "4"},
    {"hidden_act",              NULL,                                GA_HF_ONLY,  "\"silu\""},
    {"attention_bias",          NULL,                                GA_HF_REFUSED, NULL},
    {"use_qk_norm",             NULL,                                GA_HF_REFUSED, NULL},
    {0}};

/* --- command-r: cohere2 without windows. Of the two lengths in its first files the first row is the model's. --- */
static const ga_hf_key cohere_keys[] = {
    SIZES,
    {"model_max_length",        ".context_length",                   GA_HF_INT,   NULL},
    {"rope_theta",              ".rope.freq_base",                   GA_HF_FLOAT, NULL},
    {"rope_parameters.rope_theta", ".rope.freq_base",                GA_HF_FLOAT, "500000"},
    {"num_key_value_heads",     ".attention.head_count_kv",          GA_HF_INT,   NULL},
    {"layer_norm_eps",          ".attention.layer_norm_epsilon",     GA_HF_FLOAT, "1e-5"},
    {"max_position_embeddings", ".context_length",                   GA_HF_INT,   "8192"},
    {"vocab_size",              ".vocab_size",                       GA_HF_INT,   "256000"},
    {"logit_scale",             ".logit_scale",                      GA_HF_FLOAT, "0.0625"},
    {"hidden_act",              NULL,                                GA_HF_ONLY,  "\"silu\""},
    {"attention_bias",          NULL,                                GA_HF_REFUSED, NULL},
    {"use_qk_norm",             "ga.head_norms",                     GA_HF_BOOL,  "false"},
    {0}};

/* --- phi2: phi-1 to phi-2 --- */
static const ga_hf_key phi2_keys[] = {
    SIZES,
    {"num_key_value_heads",     ".attention.head_count_kv",          GA_HF_INT,   NULL},
    {"layer_norm_eps",          ".attention.layer_norm_epsilon",     GA_HF_FLOAT, "1e-5"},
    {"max_position_embeddings", ".context_length",                   GA_HF_INT,   "2048"},
    {"vocab_size",              ".vocab_size",                       GA_HF_INT,   "51200"},
    {"partial_rotary_factor",   "ga.rope_fraction",                  GA_HF_FRACTION, NULL},
    {"rope_parameters.partial_rotary_factor", "ga.rope_fraction",    GA_HF_FRACTION, "0.5"},
    {"hidden_act",              NULL, GA_HF_ONLY, "[\"gelu_new\", \"gelu_pytorch_tanh\"]"},
    {"qk_layernorm",            NULL,                                GA_HF_REFUSED, NULL},
    {0}};
static const ga_hf_name phi2_names[] = {
    {"embed_tokens",                 "token_embd"},
    {"final_layernorm",              "output_norm"},
    {"lm_head",                      "output"},
    {"layers.%.input_layernorm",     "blk.%.attn_norm"},
    {"layers.%.self_attn.q_proj",    "blk.%.attn_q"},
    {"layers.%.self_attn.k_proj",    "blk.%.attn_k"},
    {"layers.%.self_attn.v_proj",    "blk.%.attn_v"},
    {"layers.%.self_attn.dense",     "blk.%.attn_output"},
    {"layers.%.mlp.fc1",             "blk.%.ffn_up"},
    {"layers.%.mlp.fc2",             "blk.%.ffn_down"},
    {0}};

/* --- stablelm --- */
static const ga_hf_key stablelm_keys[] = {
    SIZES,
    {"num_key_value_heads",     ".attention.head_count_kv",          GA_HF_INT,   NULL},
    {"layer_norm_eps",          ".attention.layer_norm_epsilon",     GA_HF_FLOAT, "1e-5"},
    {"max_position_embeddings", ".context_length",                   GA_HF_INT,   "4096"},
    {"vocab_size",              ".vocab_size",                       GA_HF_INT,   "50304"},
    {"use_parallel_residual",   ".use_parallel_residual",            GA_HF_BOOL,  "false"},
    {"partial_rotary_factor",   "ga.rope_fraction",                  GA_HF_FRACTION, NULL},
    {"rope_parameters.partial_rotary_factor", "ga.rope_fraction",    GA_HF_FRACTION, "0.25"},
    {"hidden_act",              NULL,                                GA_HF_ONLY,  "\"silu\""},
    {"qk_layernorm",            "ga.head_norms",                     GA_HF_BOOL,  "false"},
    {0}};
static const ga_hf_name stablelm_names[] = {
    DECODER_NAMES,
    {"layers.%.self_attn.q_layernorm.norms.%", "blk.%.attn_q_norm.%"},
    {"layers.%.self_attn.k_layernorm.norms.%", "blk.%.attn_k_norm.%"},
    {"layers.%.post_attention_layernorm", "blk.%.ffn_norm"},
    {0}};

/* --- nemotron: norms hold w - 1, an ungated block with relu^2 --- */
static const ga_hf_key nemotron_keys[] = {
    SIZES,
    {"num_key_value_heads",     ".attention.head_count_kv",          GA_HF_INT,   NULL},
    {"head_dim",                ".attention.key_length",             GA_HF_INT,   NULL},
    {"head_dim",                ".attention.value_length",           GA_HF_INT,   NULL},
    {"norm_eps",                ".attention.layer_norm_epsilon",     GA_HF_FLOAT, "1e-5"},
    {"max_position_embeddings", ".context_length",                   GA_HF_INT,   "4096"},
    {"vocab_size",              ".vocab_size",                       GA_HF_INT,   "256000"},
    {"partial_rotary_factor",   "ga.rope_fraction",                  GA_HF_FRACTION, NULL},
    {"rope_parameters.partial_rotary_factor", "ga.rope_fraction",    GA_HF_FRACTION, "0.5"},
    {"hidden_act",              NULL,                                GA_HF_ONLY,  "\"relu2\""},
    {0}};

/* --- gptneox, pythia: q, k and v of a head side by side --- */
static const ga_hf_key gptneox_keys[] = {
    SIZES,
    {"layer_norm_eps",          ".attention.layer_norm_epsilon",     GA_HF_FLOAT, "1e-5"},
    {"max_position_embeddings", ".context_length",                   GA_HF_INT,   "2048"},
    {"vocab_size",              ".vocab_size",                       GA_HF_INT,   "50432"},
    {"use_parallel_residual",   ".use_parallel_residual",            GA_HF_BOOL,  "true"},
    {"rotary_emb_base",         ".rope.freq_base",                   GA_HF_FLOAT, NULL},
    {"rotary_pct",              "ga.rope_fraction",                  GA_HF_FRACTION, NULL},
    {"rope_parameters.partial_rotary_factor", "ga.rope_fraction",    GA_HF_FRACTION, "0.25"},
    {"hidden_act",              "ga.activation",                     GA_HF_TEXT,  "\"gelu\""},
    {"hidden_act",              NULL, GA_HF_ONLY, "[\"gelu\", \"gelu_fast\"]"},
    {0}};
static const ga_hf_name gptneox_names[] = {
    {"embed_in",                             "token_embd"},
    {"final_layer_norm",                     "output_norm"},
    {"embed_out",                            "output"},
    {"layers.%.input_layernorm",             "blk.%.attn_norm"},
    {"layers.%.attention.query_key_value",   "blk.%.attn_qkv"},
    {"layers.%.attention.dense",             "blk.%.attn_output"},
    {"layers.%.post_attention_layernorm",    "blk.%.ffn_norm"},
    {"layers.%.mlp.dense_h_to_4h",           "blk.%.ffn_up"},
    {"layers.%.mlp.dense_4h_to_h",           "blk.%.ffn_down"},
    {0}};

/* --- qwen2, 2.5: names as llama, with biases on q, k, v --- */
static const ga_hf_key qwen_keys[] = {
    DECODER("32768"),
    {"layer_types",             NULL,                                GA_HF_FULL_LAYERS, NULL},
    {"use_sliding_window",      NULL,                                GA_HF_REFUSED, NULL},
    {0}};

/* --- qwen3: qwen2 with norms of q and k in place of the biases --- */
const ga_hf_name ga_hf_qwen3_names[] = {
    DECODER_NAMES,
    QK_NORM_NAMES,
    {"layers.%.post_attention_layernorm", "blk.%.ffn_norm"},
    {0}};

/* --- gemma, gemma2. Both multiply by the tanh form of gelu, whatever hidden_act of the first files says. --- */
#define GEMMA(kv, context) \
    SIZES, \
    {"num_key_value_heads",      ".attention.head_count_kv",            GA_HF_INT_OR_NONE, kv}, \
    {"head_dim",                 ".attention.key_length",               GA_HF_INT,   "256"}, \
    {"head_dim",                 ".attention.value_length",             GA_HF_INT,   "256"}, \
    {"rms_norm_eps",             ".attention.layer_norm_rms_epsilon",   GA_HF_FLOAT, "1e-6"}, \
    {"max_position_embeddings",  ".context_length",                     GA_HF_INT,   context}, \
    {"vocab_size",               ".vocab_size",                         GA_HF_INT,   "256000"}, \
    {"hidden_activation",        NULL,                                  GA_HF_ONLY,  "\"gelu_pytorch_tanh\""}, \
    {"hidden_act",               NULL, GA_HF_ONLY, "[\"gelu\", \"gelu_pytorch_tanh\"]"}, \
    {"attention_bias",           NULL,                                  GA_HF_REFUSED, NULL}, \
    {"use_bidirectional_attention", NULL,                               GA_HF_REFUSED, NULL}
static const ga_hf_key gemma_keys[] = {GEMMA("16", "8192"), {0}};
static const ga_hf_key gemma2_keys[] = {
    GEMMA("4", "8192"),
    {"query_pre_attn_scalar",    ".attention.scale",                    GA_HF_RSQRT, "256"},
    {"sliding_window",           ".attention.sliding_window",           GA_HF_INT_OR_NULL, "4096"},
    {"layer_types",              ".attention.sliding_window_pattern",   GA_HF_LAYER_TYPES, NULL},
    {"attn_logit_softcapping",   ".attn_logit_softcapping",             GA_HF_FLOAT_OR_NULL, "50"},
    {"final_logit_softcapping",  ".final_logit_softcapping",            GA_HF_FLOAT_OR_NULL, "30"},
    {0}};
static const ga_hf_name gemma2_names[] = {
    DECODER_NAMES,
    {"layers.%.post_attention_layernorm",    "blk.%.post_attention_norm"},
    {"layers.%.pre_feedforward_layernorm",   "blk.%.ffn_norm"},
    {"layers.%.post_feedforward_layernorm",  "blk.%.post_ffw_norm"},
    {0}};

/* --- gemma3, text. The files of the larger models leave out what equals the class's default. --- */
static const ga_hf_key gemma3_keys[] = {
    {"hidden_size",              ".embedding_length",                   GA_HF_INT,   "2304"},
    {"num_hidden_layers",        ".block_count",                        GA_HF_INT,   "26"},
    {"intermediate_size",        ".feed_forward_length",                GA_HF_INT,   "9216"},
    {"num_attention_heads",      ".attention.head_count",               GA_HF_INT,   "8"},
    {"num_key_value_heads",      ".attention.head_count_kv",            GA_HF_INT_OR_NONE, "4"},
    {"head_dim",                 ".attention.key_length",               GA_HF_INT,   "256"},
    {"head_dim",                 ".attention.value_length",             GA_HF_INT,   "256"},
    {"query_pre_attn_scalar",    ".attention.scale",                    GA_HF_RSQRT, "256"},
    {"rms_norm_eps",             ".attention.layer_norm_rms_epsilon",   GA_HF_FLOAT, "1e-6"},
    {"max_position_embeddings",  ".context_length",                     GA_HF_INT,   "131072"},
    {"vocab_size",               ".vocab_size",                         GA_HF_INT,   "262208"},
    {"sliding_window",           ".attention.sliding_window",           GA_HF_INT,   "4096"},
    {"layer_types",              ".attention.sliding_window_pattern",   GA_HF_LAYER_TYPES, NULL},
    {"sliding_window_pattern",   ".attention.sliding_window_pattern",   GA_HF_INT,   NULL},
    {"_sliding_window_pattern",  ".attention.sliding_window_pattern",   GA_HF_INT,   "6"},
    {"rope_theta",               ".rope.freq_base",                     GA_HF_FLOAT, NULL},
    {"rope_parameters.full_attention.rope_theta",    ".rope.freq_base",     GA_HF_FLOAT, "1000000"},
    {"rope_local_base_freq",     ".rope.freq_base_swa",                 GA_HF_FLOAT, NULL},
    {"rope_parameters.sliding_attention.rope_theta", ".rope.freq_base_swa", GA_HF_FLOAT, "10000"},
    {"hidden_activation",        "ga.activation",                       GA_HF_TEXT,  "\"gelu_pytorch_tanh\""},
    {"hidden_activation",        NULL,                                  GA_HF_ONLY,  "\"gelu_pytorch_tanh\""},
    {"final_logit_softcapping",  NULL,                                  GA_HF_REFUSED, NULL},
    {"attn_logit_softcapping",   NULL,                                  GA_HF_REFUSED, NULL},
    {"use_bidirectional_attention", NULL,                               GA_HF_REFUSED, NULL},
    {0}};
static const ga_hf_name gemma3_names[] = {
    DECODER_NAMES,
    QK_NORM_NAMES,
    {"layers.%.post_attention_layernorm",    "blk.%.post_attention_norm"},
    {"layers.%.pre_feedforward_layernorm",   "blk.%.ffn_norm"},
    {"layers.%.post_feedforward_layernorm",  "blk.%.post_ffw_norm"},
    {0}};

/* --- olmo2, olmo3: norms behind the blocks; olmo3 has windows --- */
static const ga_hf_key olmo2_keys[] = {
    {"rms_norm_eps",            ".attention.layer_norm_rms_epsilon", GA_HF_FLOAT, "1e-5"},
    DECODER("2048"),
    {"attention_bias",          NULL,                                GA_HF_REFUSED, NULL},
    {0}};
static const ga_hf_key olmo3_keys[] = {
    {"rms_norm_eps",            ".attention.layer_norm_rms_epsilon", GA_HF_FLOAT, "1e-5"},
    DECODER("2048"),
    {"attention_bias",          NULL,                                GA_HF_REFUSED, NULL},
    {"sliding_window",          ".attention.sliding_window",         GA_HF_INT,     "4096"},
    {"layer_types",             ".attention.sliding_window_pattern", GA_HF_LAYER_TYPES, NULL},
    {0}};
static const ga_hf_name olmo2_names[] = {
    DECODER_NAMES,
    QK_NORM_NAMES,
    {"layers.%.post_attention_layernorm",    "blk.%.post_attention_norm"},
    {"layers.%.post_feedforward_layernorm",  "blk.%.post_ffw_norm"},
    {0}};

/* --- starcoder2 --- */
static const ga_hf_key starcoder2_keys[] = {
    SIZES,
    {"num_key_value_heads",     ".attention.head_count_kv",          GA_HF_INT_OR_NONE, "2"},
    {"norm_epsilon",            ".attention.layer_norm_epsilon",     GA_HF_FLOAT, "1e-5"},
    {"max_position_embeddings", ".context_length",                   GA_HF_INT,   "4096"},
    {"vocab_size",              ".vocab_size",                       GA_HF_INT,   "49152"},
    {"sliding_window",          ".attention.sliding_window",         GA_HF_INT,   NULL},
    {"hidden_act",              NULL,                                GA_HF_ONLY,  "\"gelu_pytorch_tanh\""},
    {"norm_type",               NULL,                                GA_HF_ONLY,  "\"layer_norm\""},
    {"mlp_type",                NULL,                                GA_HF_ONLY,  "\"default\""},
    {0}};
static const ga_hf_name starcoder2_names[] = {
    DECODER_NAMES,
    {"layers.%.post_attention_layernorm", "blk.%.ffn_norm"},
    {"layers.%.mlp.c_fc",                 "blk.%.ffn_up"},
    {"layers.%.mlp.c_proj",               "blk.%.ffn_down"},
    {0}};

/* --- gpt2. n_inner is null in every published file: 4 x n_embd, which hf_config.c fills in. --- */
static const ga_hf_key gpt2_keys[] = {
    {"n_embd",              ".embedding_length",             GA_HF_INT,   GA_HF_REQUIRED},
    {"n_layer",             ".block_count",                  GA_HF_INT,   GA_HF_REQUIRED},
    {"n_inner",             ".feed_forward_length",          GA_HF_INT,   NULL},
    {"n_head",              ".attention.head_count",         GA_HF_INT,   GA_HF_REQUIRED},
    {"layer_norm_epsilon",  ".attention.layer_norm_epsilon", GA_HF_FLOAT, "1e-5"},
    {"n_positions",         ".context_length",               GA_HF_INT,   "1024"},
    {"vocab_size",          ".vocab_size",                   GA_HF_INT,   GA_HF_REQUIRED},
    {"activation_function", "ga.activation",                 GA_HF_TEXT,  "\"gelu_new\""},
    {"activation_function", NULL,                            GA_HF_ONLY,  "\"gelu_new\""},
    {"scale_attn_weights",  NULL,                            GA_HF_ONLY,  "true"},
    {"scale_attn_by_inverse_layer_idx", NULL,                GA_HF_REFUSED, NULL},
    {"add_cross_attention", NULL,                            GA_HF_REFUSED, NULL},
    {0}};
static const ga_hf_name gpt2_names[] = {
    {"wte",             "token_embd"},
    {"wpe",             "position_embd"},
    {"ln_f",            "output_norm"},
    {"lm_head",         "output"},
    {"h.%.ln_1",        "blk.%.attn_norm"},
    {"h.%.attn.c_attn", "blk.%.attn_qkv"},
    {"h.%.attn.c_proj", "blk.%.attn_output"},
    {"h.%.ln_2",        "blk.%.ffn_norm"},
    {"h.%.mlp.c_fc",    "blk.%.ffn_up"},
    {"h.%.mlp.c_proj",  "blk.%.ffn_down"},
    {0}};

/* --- bert and MiniLM. The pooler and the heads keep their names: sentence embeddings do not use them. --- */
static const ga_hf_key bert_keys[] = {
    SIZES,
    {"layer_norm_eps",          ".attention.layer_norm_epsilon",    GA_HF_FLOAT, "1e-12"},
    {"max_position_embeddings", ".context_length",                  GA_HF_INT,   "512"},
    {"vocab_size",              ".vocab_size",                      GA_HF_INT,   GA_HF_REQUIRED},
    {"type_vocab_size",         "tokenizer.ggml.token_type_count",  GA_HF_INT,   "2"},
    {"hidden_act",              "ga.activation",                    GA_HF_TEXT,  "\"gelu\""},
    {"hidden_act",              NULL,                               GA_HF_ONLY,  "\"gelu\""},
    {"position_embedding_type", NULL,                               GA_HF_ONLY,  "\"absolute\""},
    {"is_decoder",              NULL,                               GA_HF_REFUSED, NULL},
    {"add_cross_attention",     NULL,                               GA_HF_REFUSED, NULL},
    {0}};
/* --- xlm-roberta: bert with positions that begin behind that of padding: hf_config.c --- */
static const ga_hf_key xlm_roberta_keys[] = {
    SIZES,
    {"layer_norm_eps",          ".attention.layer_norm_epsilon",    GA_HF_FLOAT, "1e-12"},
    {"vocab_size",              ".vocab_size",                      GA_HF_INT,   GA_HF_REQUIRED},
    {"type_vocab_size",         "tokenizer.ggml.token_type_count",  GA_HF_INT,   "2"},
    {"hidden_act",              "ga.activation",                    GA_HF_TEXT,  "\"gelu\""},
    {"hidden_act",              NULL,                               GA_HF_ONLY,  "\"gelu\""},
    {"position_embedding_type", NULL,                               GA_HF_ONLY,  "\"absolute\""},
    {"is_decoder",              NULL,                               GA_HF_REFUSED, NULL},
    {"add_cross_attention",     NULL,                               GA_HF_REFUSED, NULL},
    {"lora_adaptations",        NULL,                               GA_HF_REFUSED, NULL},
    {0}};
/* --- modern-bert: windows that look both ways; layers 0, n, 2 n ... see all --- */
static const ga_hf_key modern_bert_keys[] = {
    SIZES,
    {"norm_eps",                ".attention.layer_norm_epsilon",     GA_HF_FLOAT, "1e-5"},
    {"max_position_embeddings", ".context_length",                   GA_HF_INT,   "8192"},
    {"vocab_size",              ".vocab_size",                       GA_HF_INT,   "50368"},
    {"local_attention",         ".attention.sliding_window",         GA_HF_INT,   "128"},
    {"layer_types",             ".attention.sliding_window_pattern", GA_HF_LAYER_TYPES, NULL},
    {"global_attn_every_n_layers", ".attention.sliding_window_pattern", GA_HF_INT, "3"},
    {"global_rope_theta",       ".rope.freq_base",                   GA_HF_FLOAT, NULL},
    {"rope_parameters.full_attention.rope_theta", ".rope.freq_base", GA_HF_FLOAT, "160000"},
    {"local_rope_theta",        ".rope.freq_base_swa",               GA_HF_FLOAT, NULL},
    {"rope_parameters.sliding_attention.rope_theta", ".rope.freq_base_swa", GA_HF_FLOAT, "10000"},
    {"rope_parameters.full_attention.rope_type", NULL,               GA_HF_ONLY,  "\"default\""},
    {"rope_parameters.sliding_attention.rope_type", NULL,            GA_HF_ONLY,  "\"default\""},
    {"rope_scaling",            NULL,                                GA_HF_REFUSED, NULL},
    {"hidden_activation",       NULL,                                GA_HF_ONLY,  "\"gelu\""},
    {"position_embedding_type", NULL, GA_HF_ONLY, "[\"absolute\", \"sans_pos\", \"rotary\"]"},
    {"attention_bias",          NULL,                                GA_HF_REFUSED, NULL},
    {"mlp_bias",                NULL,                                GA_HF_REFUSED, NULL},
    {"norm_bias",               NULL,                                GA_HF_REFUSED, NULL},
    {0}};
static const ga_hf_name modern_bert_names[] = {
    {"embeddings.tok_embeddings",            "token_embd"},
    {"embeddings.norm",                      "token_embd_norm"},
    {"final_norm",                           "output_norm"},
    {"layers.%.attn_norm",                   "blk.%.attn_norm"},
    {"layers.%.attn.Wqkv",                   "blk.%.attn_qkv"},
    {"layers.%.attn.Wo",                     "blk.%.attn_output"},
    {"layers.%.mlp_norm",                    "blk.%.ffn_norm"},
    {"layers.%.mlp.Wi",                      "blk.%.ffn_up"},
    {"layers.%.mlp.Wo",                      "blk.%.ffn_down"},
    {0}};
/* --- jina-bert v2: bert with ALiBi and a gated block --- */
static const ga_hf_key jina_bert_keys[] = {
    SIZES,
    {"layer_norm_eps",          ".attention.layer_norm_epsilon",    GA_HF_FLOAT, "1e-12"},
    {"max_position_embeddings", ".context_length",                  GA_HF_INT,   "512"},
    {"vocab_size",              ".vocab_size",                      GA_HF_INT,   GA_HF_REQUIRED},
    {"type_vocab_size",         "tokenizer.ggml.token_type_count",  GA_HF_INT,   "2"},
    {"hidden_act",              NULL,                               GA_HF_ONLY,  "\"gelu\""},
    {"feed_forward_type",       "ga.activation",                    GA_HF_TEXT,  GA_HF_REQUIRED},
    {"feed_forward_type",       NULL,                               GA_HF_ONLY,  "\"geglu\""},
    {"position_embedding_type", NULL,                               GA_HF_ONLY,  "\"alibi\""},
    {"is_decoder",              NULL,                               GA_HF_REFUSED, NULL},
    {"add_cross_attention",     NULL,                               GA_HF_REFUSED, NULL},
    {0}};
static const ga_hf_name jina_bert_names[] = {
    {"embeddings.word_embeddings",                 "token_embd"},
    {"embeddings.token_type_embeddings",           "token_types"},
    {"embeddings.LayerNorm",                       "token_embd_norm"},
    {"encoder.layer.%.attention.self.query",       "blk.%.attn_q"},
    {"encoder.layer.%.attention.self.key",         "blk.%.attn_k"},
    {"encoder.layer.%.attention.self.value",       "blk.%.attn_v"},
    {"encoder.layer.%.attention.self.layer_norm_q", "blk.%.attn_q_norm"},
    {"encoder.layer.%.attention.self.layer_norm_k", "blk.%.attn_k_norm"},
    {"encoder.layer.%.attention.output.dense",     "blk.%.attn_output"},
    {"encoder.layer.%.attention.output.LayerNorm", "blk.%.attn_output_norm"},
    {"encoder.layer.%.layer_norm_1",               "blk.%.attn_norm_2"},
    {"encoder.layer.%.mlp.gated_layers",           "blk.%.ffn_up"},
    {"encoder.layer.%.mlp.wo",                     "blk.%.ffn_down"},
    {"encoder.layer.%.mlp.layernorm",              "blk.%.layer_output_norm"},
    {0}};
/* --- nomic-bert: the words of GPT-2 in the first files, those of BERT in transformers 5. Beyond the positions of
 * training the first files scale rotation by the text's length. --- */
static const ga_hf_key nomic_bert_keys[] = {
    {"hidden_size",             ".embedding_length",                GA_HF_INT,   NULL},
    {"n_embd",                  ".embedding_length",                GA_HF_INT,   GA_HF_REQUIRED},
    {"num_hidden_layers",       ".block_count",                     GA_HF_INT,   NULL},
    {"n_layer",                 ".block_count",                     GA_HF_INT,   GA_HF_REQUIRED},
    {"intermediate_size",       ".feed_forward_length",             GA_HF_INT,   NULL},
    {"n_inner",                 ".feed_forward_length",             GA_HF_INT,   GA_HF_REQUIRED},
    {"num_attention_heads",     ".attention.head_count",            GA_HF_INT,   NULL},
    {"n_head",                  ".attention.head_count",            GA_HF_INT,   GA_HF_REQUIRED},
    {"head_dim",                ".attention.key_length",            GA_HF_INT,   NULL},
    {"head_dim",                ".attention.value_length",          GA_HF_INT,   NULL},
    {"layer_norm_eps",          ".attention.layer_norm_epsilon",    GA_HF_FLOAT, NULL},
    {"layer_norm_epsilon",      ".attention.layer_norm_epsilon",    GA_HF_FLOAT, "1e-12"},
    {"max_trained_positions",   ".context_length",                  GA_HF_INT,   NULL},
    {"max_position_embeddings", ".context_length",                  GA_HF_INT,   NULL},
    {"n_positions",             ".context_length",                  GA_HF_INT,   "2048"},
    {"vocab_size",              ".vocab_size",                      GA_HF_INT,   GA_HF_REQUIRED},
    {"type_vocab_size",         "tokenizer.ggml.token_type_count",  GA_HF_INT,   "2"},
    {"rotary_emb_base",         ".rope.freq_base",                  GA_HF_FLOAT, NULL},
    {"rope_parameters.rope_theta", ".rope.freq_base",               GA_HF_FLOAT, "1000"},
    {"rotary_emb_fraction",     "ga.rope_fraction",                 GA_HF_FRACTION, NULL},
    {"hidden_act",              NULL,                               GA_HF_ONLY,  "\"silu\""},
    {"activation_function",     NULL,                               GA_HF_ONLY,  "\"swiglu\""},
    {"rotary_emb_interleaved",  NULL,                               GA_HF_REFUSED, NULL},
    {"qkv_proj_bias",           NULL,                               GA_HF_REFUSED, NULL},
    {"mlp_fc1_bias",            NULL,                               GA_HF_REFUSED, NULL},
    {"mlp_fc2_bias",            NULL,                               GA_HF_REFUSED, NULL},
    {"prenorm",                 NULL,                               GA_HF_REFUSED, NULL},
    {"use_rms_norm",            NULL,                               GA_HF_REFUSED, NULL},
    {"parallel_block",          NULL,                               GA_HF_REFUSED, NULL},
    {"num_experts",             NULL,                               GA_HF_ONLY,  "0"},
    {0}};
static const ga_hf_name nomic_bert_names[] = {
    {"embeddings.word_embeddings",           "token_embd"},
    {"embeddings.token_type_embeddings",     "token_types"},
    {"emb_ln",                               "token_embd_norm"},
    {"encoder.layers.%.attn.Wqkv",           "blk.%.attn_qkv"},
    {"encoder.layers.%.attn.out_proj",       "blk.%.attn_output"},
    {"encoder.layers.%.norm1",               "blk.%.attn_output_norm"},
    {"encoder.layers.%.mlp.fc11",            "blk.%.ffn_up"},
    {"encoder.layers.%.mlp.fc12",            "blk.%.ffn_gate"},
    {"encoder.layers.%.mlp.fc2",             "blk.%.ffn_down"},
    {"encoder.layers.%.norm2",               "blk.%.layer_output_norm"},
    {0}};
static const ga_hf_name bert_names[] = {
    {"embeddings.word_embeddings",                 "token_embd"},
    {"embeddings.position_embeddings",             "position_embd"},
    {"embeddings.token_type_embeddings",           "token_types"},
    {"embeddings.LayerNorm",                       "token_embd_norm"},
    {"encoder.layer.%.attention.self.query",       "blk.%.attn_q"},
    {"encoder.layer.%.attention.self.key",         "blk.%.attn_k"},
    {"encoder.layer.%.attention.self.value",       "blk.%.attn_v"},
    {"encoder.layer.%.attention.output.dense",     "blk.%.attn_output"},
    {"encoder.layer.%.attention.output.LayerNorm", "blk.%.attn_output_norm"},
    {"encoder.layer.%.intermediate.dense",         "blk.%.ffn_up"},
    {"encoder.layer.%.output.dense",               "blk.%.ffn_down"},
    {"encoder.layer.%.output.LayerNorm",           "blk.%.layer_output_norm"},
    {0}};

#define NEOX_PLUS_ONE (GA_HF_NEOX | GA_HF_NORM_PLUS_ONE)
#define NEOX_BY_HEAD  (GA_HF_NEOX | GA_HF_QKV_BY_HEAD)
#define NEOX_BOTH_WAYS (GA_HF_NEOX | GA_HF_BOTH_WAYS)
#define PADDED_BOTH_WAYS (GA_HF_BOTH_WAYS | GA_HF_PADDED_POSITIONS)
static const ga_hf_arch archs[] = {
    {"llama", "llama", NULL, GA_HF_NEOX, llama_keys, ga_hf_rope_keys, ga_hf_llama_names, NULL},
    {"ministral3", "mistral3", NULL, GA_HF_NEOX, ministral3_keys, NULL, ga_hf_llama_names, NULL},
    {"mistral3 of mistral", "llama", "text_config", GA_HF_NEOX, mistral_keys, ga_hf_rope_keys, ga_hf_llama_names, NULL},
    {"mistral3 of ministral3", "mistral3", "text_config", GA_HF_NEOX, ministral3_keys, NULL, ga_hf_llama_names, NULL},
    {"mistral", "llama", NULL, GA_HF_NEOX, mistral_keys, ga_hf_rope_keys, ga_hf_llama_names, NULL},
    {"qwen2", "qwen2", NULL, GA_HF_NEOX, qwen_keys, ga_hf_rope_keys, ga_hf_llama_names, NULL},
    {"qwen3", "qwen3", NULL, GA_HF_NEOX, qwen_keys, ga_hf_rope_keys, ga_hf_qwen3_names, NULL},
    {"gemma", "gemma", NULL, NEOX_PLUS_ONE, gemma_keys, ga_hf_rope_keys, ga_hf_llama_names, NULL},
    {"gemma2", "gemma2", NULL, NEOX_PLUS_ONE, gemma2_keys, ga_hf_rope_keys, gemma2_names, NULL},
    {"gemma3_text", "gemma3", NULL, NEOX_PLUS_ONE, gemma3_keys, ga_hf_rope_keys, gemma3_names, NULL},
    {"gemma3", "gemma3", "text_config", NEOX_PLUS_ONE, gemma3_keys, ga_hf_rope_keys, gemma3_names, NULL},
    {"phi3", "phi3", NULL, GA_HF_NEOX, phi3_keys, ga_hf_rope_part_keys, phi3_names, NULL},
    {"phi", "phi2", NULL, GA_HF_NEOX, phi2_keys, ga_hf_rope_part_keys, phi2_names, NULL},
    {"granite", "granite", NULL, GA_HF_NEOX, granite_keys, ga_hf_rope_keys, ga_hf_llama_names, NULL},
    {"smollm3", "smollm3", NULL, GA_HF_NEOX, smollm3_keys, ga_hf_rope_keys, ga_hf_llama_names, NULL},
    {"cohere", "command-r", NULL, 0, cohere_keys, ga_hf_rope_keys, ga_hf_qwen3_names, NULL},
    {"cohere2", "cohere2", NULL, 0, cohere2_keys, ga_hf_rope_keys, ga_hf_llama_names, NULL},
    {"olmo2", "olmo2", NULL, GA_HF_NEOX, olmo2_keys, ga_hf_rope_keys, olmo2_names, NULL},
    {"olmo3", "olmo2", NULL, GA_HF_NEOX, olmo3_keys, ga_hf_rope_keys, olmo2_names, NULL},
    {"starcoder2", "starcoder2", NULL, GA_HF_NEOX, starcoder2_keys, ga_hf_rope_keys, starcoder2_names, NULL},
    {"stablelm", "stablelm", NULL, GA_HF_NEOX, stablelm_keys, ga_hf_rope_part_keys, stablelm_names, NULL},
    {"nemotron", "nemotron", NULL, NEOX_PLUS_ONE, nemotron_keys, ga_hf_rope_part_keys, ga_hf_llama_names, NULL},
    {"gpt_neox", "gptneox", NULL, NEOX_BY_HEAD, gptneox_keys, ga_hf_rope_part_keys, gptneox_names, NULL},
    {"gpt2", "gpt2", NULL, GA_HF_TRANSPOSED, gpt2_keys, NULL, gpt2_names, NULL},
    {"nomic_bert", "nomic-bert", NULL, GA_HF_NEOX | GA_HF_BOTH_WAYS, nomic_bert_keys, NULL, nomic_bert_names, NULL},
    {"bert", "bert", NULL, GA_HF_BOTH_WAYS, bert_keys, NULL, bert_names, NULL},
    {"xlm-roberta", "bert", NULL, PADDED_BOTH_WAYS, xlm_roberta_keys, NULL, bert_names, NULL},
    {"modernbert", "modern-bert", NULL, NEOX_BOTH_WAYS, modern_bert_keys, NULL, modern_bert_names, NULL},
    {"jina_bert", "jina-bert-v2", NULL, GA_HF_BOTH_WAYS, jina_bert_keys, NULL, jina_bert_names, NULL},
};
/* clang-format on */

const ga_hf_arch *ga_hf_arch_at(int at) {
  const int n = (int)GA_COUNT_OF(archs);
  return at < 0 ? NULL : at < n ? &archs[at] : ga_hf_expert_arch_at(at - n);
}
