/* config.json and tensor names of each architecture, in GGUF's vocabulary.
 * Sources: the configuration classes and checkpoints of transformers 4.x and 5.x; llama.cpp, gguf-py tensor_mapping. */
#include "base/compiler.h"
#include "file/hf.h"

/* clang-format off */

/* What every decoder with rotary embedding has. transformers 5 moved rope_theta and rope_scaling into rope_parameters.
 * */
#define IN_BOTH(field, key, kind) {"rope_scaling." field, key, kind, NULL}, {"rope_parameters." field, key, kind, NULL}
static const ga_hf_key rope_keys[] = {
    {"rope_theta",                                     ".rope.freq_base",                       GA_HF_FLOAT, NULL},
    {"rope_parameters.rope_theta",                     ".rope.freq_base",                       GA_HF_FLOAT, NULL},
    {"rope_parameters.full_attention.rope_theta",      ".rope.freq_base",                       GA_HF_FLOAT, "10000"},
    {"rope_scaling.rope_type",                         ".rope.scaling.type",                    GA_HF_ROPE_TYPE, NULL},
    {"rope_scaling.type",                              ".rope.scaling.type",                    GA_HF_ROPE_TYPE, NULL},
    {"rope_parameters.rope_type",                      ".rope.scaling.type",                    GA_HF_ROPE_TYPE, NULL},
    {"rope_parameters.full_attention.rope_type",       ".rope.scaling.type",                    GA_HF_ROPE_TYPE, NULL},
    {"rope_scaling.factor",                            ".rope.scaling.factor",                  GA_HF_FLOAT, NULL},
    {"rope_parameters.factor",                         ".rope.scaling.factor",                  GA_HF_FLOAT, NULL},
    {"rope_parameters.full_attention.factor",          ".rope.scaling.factor",                  GA_HF_FLOAT, NULL},
    IN_BOTH("original_max_position_embeddings",  ".rope.scaling.original_context_length",   GA_HF_INT),
    IN_BOTH("low_freq_factor",                   ".rope.scaling.low_freq_factor",           GA_HF_FLOAT),
    IN_BOTH("high_freq_factor",                  ".rope.scaling.high_freq_factor",          GA_HF_FLOAT),
    IN_BOTH("beta_fast",                         ".rope.scaling.yarn_beta_fast",            GA_HF_FLOAT),
    IN_BOTH("beta_slow",                         ".rope.scaling.yarn_beta_slow",            GA_HF_FLOAT),
    {"rope_scaling.mscale",                            NULL,                                    GA_HF_REFUSED, NULL},
    {"partial_rotary_factor",                          NULL,                                    GA_HF_ONLY,  "1"},
    {"rope_parameters.partial_rotary_factor",          NULL,                                    GA_HF_ONLY,  "1"},
    {0}};

/* What several architectures have in common. */
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

/* --- llama 2 and 3 --- */
static const ga_hf_key llama_keys[] = {DECODER("2048"), {0}};
static const ga_hf_name llama_names[] = {
    DECODER_NAMES,
    {"layers.%.post_attention_layernorm", "blk.%.ffn_norm"},
    {0}};

/* --- qwen2, 2.5: names as llama, with biases on q, k, v --- */
static const ga_hf_key qwen_keys[] = {
    DECODER("32768"),
    {"use_sliding_window",      NULL,                                GA_HF_REFUSED, NULL},
    {0}};

/* --- qwen3: qwen2 with norms of q and k in place of the biases --- */
static const ga_hf_name qwen3_names[] = {
    DECODER_NAMES,
    QK_NORM_NAMES,
    {"layers.%.post_attention_layernorm", "blk.%.ffn_norm"},
    {0}};

/* --- gemma3, text. The files of the larger models leave out what equals the class's default. --- */
static const ga_hf_key gemma3_keys[] = {
    {"hidden_size",              ".embedding_length",                   GA_HF_INT,   "2304"},
    {"num_hidden_layers",        ".block_count",                        GA_HF_INT,   "26"},
    {"intermediate_size",        ".feed_forward_length",                GA_HF_INT,   "9216"},
    {"num_attention_heads",      ".attention.head_count",               GA_HF_INT,   "8"},
    {"num_key_value_heads",      ".attention.head_count_kv",            GA_HF_INT,   "4"},
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
    {"num_key_value_heads",     ".attention.head_count_kv",          GA_HF_INT,   "2"},
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

static const ga_hf_arch archs[] = {
    {"llama",       "llama",  NULL,          llama_keys,  rope_keys, llama_names},
    {"qwen2",       "qwen2",  NULL,          qwen_keys,   rope_keys, llama_names},
    {"qwen3",       "qwen3",  NULL,          qwen_keys,   rope_keys, qwen3_names},
    {"gemma3_text", "gemma3", NULL,          gemma3_keys, rope_keys, gemma3_names},
    {"gemma3",      "gemma3", "text_config", gemma3_keys, rope_keys, gemma3_names},
    {"olmo2",       "olmo2",  NULL,          olmo2_keys,  rope_keys, olmo2_names},
    {"olmo3",       "olmo2",  NULL,          olmo3_keys,  rope_keys, olmo2_names},
    {"starcoder2",  "starcoder2", NULL,      starcoder2_keys, rope_keys, starcoder2_names},
    {"gpt2",        "gpt2",   NULL,          gpt2_keys,   NULL,      gpt2_names},
    {"bert",        "bert",   NULL,          bert_keys,   NULL,      bert_names},
};
/* clang-format on */

const ga_hf_arch *ga_hf_arch_at(int at) { return at >= 0 && (size_t)at < GA_COUNT_OF(archs) ? &archs[at] : NULL; }
