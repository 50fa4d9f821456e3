/* config.json and tensor names of architectures with experts, in GGUF's vocabulary. Matrices of experts that have a
 * tensor each get the names of older GGUF files, by which made_find.c joins them to stacks; forms are of checkpoints
 * that join them in other ways. */
#include "base/compiler.h"
#include "file/hf_rows.h"

/* clang-format off */

/* --- experts: a tensor for each, by the names of older GGUF files --- */
#define EXPERT_NAMES \
    {"layers.%.mlp.gate",                 "blk.%.ffn_gate_inp"}, \
    {"layers.%.mlp.experts.%.gate_proj",  "blk.%.ffn_gate.%"}, \
    {"layers.%.mlp.experts.%.up_proj",    "blk.%.ffn_up.%"}, \
    {"layers.%.mlp.experts.%.down_proj",  "blk.%.ffn_down.%"}
#define BLOCK_SPARSE_NAMES \
    {"layers.%.block_sparse_moe.gate",          "blk.%.ffn_gate_inp"}, \
    {"layers.%.block_sparse_moe.experts.%.w1",  "blk.%.ffn_gate.%"}, \
    {"layers.%.block_sparse_moe.experts.%.w3",  "blk.%.ffn_up.%"}, \
    {"layers.%.block_sparse_moe.experts.%.w2",  "blk.%.ffn_down.%"}
static const ga_hf_key qwen3_moe_keys[] = {
    DECODER("32768"),
    {"layer_types",             NULL,                                GA_HF_FULL_LAYERS, NULL},
    {"use_sliding_window",      NULL,                                GA_HF_REFUSED, NULL},
    {"attention_bias",          NULL,                                GA_HF_REFUSED, NULL},
    {"num_local_experts",       ".expert_count",                     GA_HF_INT,   NULL}, /* of transformers 5 */
    {"num_experts",             ".expert_count",                     GA_HF_INT,   "128"},
    {"num_experts_per_tok",     ".expert_used_count",                GA_HF_INT,   "8"},
    {"moe_intermediate_size",   ".expert_feed_forward_length",       GA_HF_INT,   "768"},
    {"norm_topk_prob",          ".expert_weights_norm",              GA_HF_BOOL,  "false"},
    {"decoder_sparse_step",     ".interleave_moe_layer_step",        GA_HF_INT,   "1"},
    {"mlp_only_layers",         "ga.dense_layers",                   GA_HF_INTS,  NULL},
    {0}};
static const ga_hf_name qwen3_moe_names[] = {
    DECODER_NAMES,
    QK_NORM_NAMES,
    EXPERT_NAMES,
    {"layers.%.post_attention_layernorm", "blk.%.ffn_norm"},
    {0}};
static const ga_hf_key mixtral_keys[] = {
    {"num_key_value_heads",     ".attention.head_count_kv",          GA_HF_INT_OR_NONE, "8"},
    {"rms_norm_eps",            ".attention.layer_norm_rms_epsilon", GA_HF_FLOAT, "1e-5"},
    DECODER("131072"),
    {"sliding_window",          ".attention.sliding_window",         GA_HF_INT_OR_NULL, "0"},
    {"num_local_experts",       ".expert_count",                     GA_HF_INT,   "8"},
    {"num_experts_per_tok",     ".expert_used_count",                GA_HF_INT,   "2"},
    {0}};
static const ga_hf_name mixtral_names[] = {
    DECODER_NAMES,
    {"layers.%.post_attention_layernorm",       "blk.%.ffn_norm"},
    BLOCK_SPARSE_NAMES,
    {0}};
static const ga_hf_key olmoe_keys[] = {
    {"rms_norm_eps",            ".attention.layer_norm_rms_epsilon", GA_HF_FLOAT, "1e-5"},
    DECODER("4096"),
    {"attention_bias",          NULL,                                GA_HF_REFUSED, NULL},
    {"clip_qkv",                NULL,                                GA_HF_REFUSED, NULL},
    {"num_experts",             ".expert_count",                     GA_HF_INT,   "64"},
    {"num_experts_per_tok",     ".expert_used_count",                GA_HF_INT,   "8"},
    {"norm_topk_prob",          ".expert_weights_norm",              GA_HF_BOOL,  "false"},
    {0}};

/* Beside the experts of Qwen 2, GLM and others. Biases have a part in the choice alone. */
#define SHARED_NAMES(shared) \
    {"layers.%.mlp." shared ".gate_proj", "blk.%.ffn_gate_shexp"}, \
    {"layers.%.mlp." shared ".up_proj",   "blk.%.ffn_up_shexp"}, \
    {"layers.%.mlp." shared ".down_proj", "blk.%.ffn_down_shexp"}
#define SIGMOID_SCORES \
    {"scoring_func",            NULL,                                GA_HF_ONLY,  "\"sigmoid\""}

/* --- qwen2_moe: experts beside a feed-forward that all tokens take, by a gate --- */
static const ga_hf_key qwen2_moe_keys[] = {
    DECODER("32768"),
    {"layer_types",             NULL,                                GA_HF_FULL_LAYERS, NULL},
    {"use_sliding_window",      NULL,                                GA_HF_REFUSED, NULL},
    {"num_experts",             ".expert_count",                     GA_HF_INT,   "60"},
    {"num_experts_per_tok",     ".expert_used_count",                GA_HF_INT,   "4"},
    {"moe_intermediate_size",   ".expert_feed_forward_length",       GA_HF_INT,   "1408"},
    {"shared_expert_intermediate_size", ".expert_shared_feed_forward_length", GA_HF_INT, "5632"},
    {"norm_topk_prob",          ".expert_weights_norm",              GA_HF_BOOL,  "false"},
    {"decoder_sparse_step",     ".interleave_moe_layer_step",        GA_HF_INT,   "1"},
    {"mlp_only_layers",         "ga.dense_layers",                   GA_HF_INTS,  NULL},
    {0}};
static const ga_hf_name qwen2_moe_names[] = {
    DECODER_NAMES,
    EXPERT_NAMES,
    SHARED_NAMES("shared_expert"),
    {"layers.%.post_attention_layernorm", "blk.%.ffn_norm"},
    {0}};
static const ga_hf_form qwen2_moe_forms[] = {
    {"layers.%.mlp.shared_expert_gate.weight", "blk.%.ffn_gate_inp_shexp.weight", GA_HF_TAKE_FLAT},
    {0}};

/* --- gpt-oss: gate and up in rows of turns, in MXFP4, or in bf16 with columns first --- */
static const ga_hf_key gpt_oss_keys[] = {
    {"rms_norm_eps",            ".attention.layer_norm_rms_epsilon", GA_HF_FLOAT, "1e-5"},
    {"head_dim",                ".attention.key_length",             GA_HF_INT,   "64"},
    {"head_dim",                ".attention.value_length",           GA_HF_INT,   "64"},
    {"num_key_value_heads",     ".attention.head_count_kv",          GA_HF_INT_OR_NONE, "8"},
    DECODER("131072"),
    {"rope_theta",              ".rope.freq_base",                   GA_HF_FLOAT, NULL},
    {"rope_parameters.rope_theta", ".rope.freq_base",                GA_HF_FLOAT, "150000"},
    {"rope.rope_type",          ".rope.scaling.type",                GA_HF_ROPE_TYPE, GA_HF_REQUIRED},
    {"intermediate_size",       ".expert_feed_forward_length",       GA_HF_INT,   GA_HF_REQUIRED},
    {"num_local_experts",       ".expert_count",                     GA_HF_INT,   NULL},
    {"num_experts",             ".expert_count",                     GA_HF_INT,   GA_HF_REQUIRED},
    {"num_experts_per_tok",     ".expert_used_count",                GA_HF_INT,   NULL},
    {"experts_per_token",       ".expert_used_count",                GA_HF_INT,   "4"},
    {"sliding_window",          ".attention.sliding_window",         GA_HF_INT_OR_NULL, "128"},
    {"layer_types",             ".attention.sliding_window_pattern", GA_HF_LAYER_TYPES, NULL},
    {"attention_bias",          NULL,                                GA_HF_ONLY,  "true"},
    {"swiglu_alpha",            NULL,                                GA_HF_ONLY,  "1.702"},
    {"swiglu_limit",            NULL,                                GA_HF_ONLY,  "7"},
    {0}};
static const ga_hf_name gpt_oss_names[] = {
    DECODER_NAMES,
    {"layers.%.mlp.router",               "blk.%.ffn_gate_inp"},
    {"layers.%.post_attention_layernorm", "blk.%.post_attention_norm"},
    {0}};
#define GATE_MX (GA_HF_TAKE_EVEN | GA_HF_TAKE_MXFP4)
#define UP_MX (GA_HF_TAKE_ODD | GA_HF_TAKE_MXFP4)
#define GATE_COLUMNS (GA_HF_TAKE_EVEN | GA_HF_TAKE_COLUMNS)
#define UP_COLUMNS (GA_HF_TAKE_ODD | GA_HF_TAKE_COLUMNS)
static const ga_hf_form gpt_oss_forms[] = {
    {"layers.%.self_attn.sinks",                 "blk.%.attn_sinks.weight",     GA_HF_TAKE_ALL},
    {"layers.%.mlp.experts.gate_up_proj_blocks", "blk.%.ffn_gate_exps.weight",  GATE_MX},
    {"layers.%.mlp.experts.gate_up_proj_blocks", "blk.%.ffn_up_exps.weight",    UP_MX},
    {"layers.%.mlp.experts.gate_up_proj_scales", NULL,                          GA_HF_TAKE_ALL},
    {"layers.%.mlp.experts.down_proj_blocks",    "blk.%.ffn_down_exps.weight",  GA_HF_TAKE_MXFP4},
    {"layers.%.mlp.experts.down_proj_scales",    NULL,                          GA_HF_TAKE_ALL},
    {"layers.%.mlp.experts.gate_up_proj",        "blk.%.ffn_gate_exps.weight",  GATE_COLUMNS},
    {"layers.%.mlp.experts.gate_up_proj",        "blk.%.ffn_up_exps.weight",    UP_COLUMNS},
    {"layers.%.mlp.experts.down_proj",           "blk.%.ffn_down_exps.weight",  GA_HF_TAKE_COLUMNS},
    {"layers.%.mlp.experts.gate_up_proj_bias",   "blk.%.ffn_gate_exps.bias",    GA_HF_TAKE_EVEN},
    {"layers.%.mlp.experts.gate_up_proj_bias",   "blk.%.ffn_up_exps.bias",      GA_HF_TAKE_ODD},
    {"layers.%.mlp.experts.down_proj_bias",      "blk.%.ffn_down_exps.bias",    GA_HF_TAKE_ALL},
    {0}};

/* --- granitemoe: granite with experts, gate and up one after the other; granitemoeshared: beside a feed-forward that
 * all tokens take --- */
#define GRANITEMOE \
    DECODER("2048"), \
    {"embedding_multiplier",    ".embedding_scale",                  GA_HF_FLOAT, "1"}, \
    {"residual_multiplier",     ".residual_scale",                   GA_HF_FLOAT, "1"}, \
    {"attention_multiplier",    ".attention.scale",                  GA_HF_FLOAT, "1"}, \
    {"logits_scaling",          ".logit_scale",                      GA_HF_FLOAT, "1"}, \
    {"attention_bias",          NULL,                                GA_HF_REFUSED, NULL}, \
    {"intermediate_size",       ".expert_feed_forward_length",       GA_HF_INT,   GA_HF_REQUIRED}, \
    {"num_local_experts",       ".expert_count",                     GA_HF_INT,   "8"}, \
    {"num_experts_per_tok",     ".expert_used_count",                GA_HF_INT,   "2"}
static const ga_hf_key granitemoe_keys[] = {
    GRANITEMOE,
    {0}};
static const ga_hf_key granitemoeshared_keys[] = {
    {"shared_intermediate_size", ".expert_shared_feed_forward_length", GA_HF_INT, "1024"},
    GRANITEMOE,
    {0}};
static const ga_hf_name granitemoe_names[] = {
    DECODER_NAMES,
    {"layers.%.post_attention_layernorm",       "blk.%.ffn_norm"},
    {"layers.%.block_sparse_moe.router.layer",  "blk.%.ffn_gate_inp"},
    {0}};
#define FIRST_OF_MATRIX  (GA_HF_TAKE_MATRIX | GA_HF_TAKE_FIRST)
#define SECOND_OF_MATRIX (GA_HF_TAKE_MATRIX | GA_HF_TAKE_SECOND)
static const ga_hf_form granitemoe_forms[] = {
    {"layers.%.block_sparse_moe.input_linear.weight",  "blk.%.ffn_gate_exps.weight", GA_HF_TAKE_FIRST},
    {"layers.%.block_sparse_moe.input_linear.weight",  "blk.%.ffn_up_exps.weight",   GA_HF_TAKE_SECOND},
    {"layers.%.block_sparse_moe.output_linear.weight", "blk.%.ffn_down_exps.weight", GA_HF_TAKE_ALL},
    {"layers.%.shared_mlp.input_linear.weight",        "blk.%.ffn_gate_shexp.weight", FIRST_OF_MATRIX},
    {"layers.%.shared_mlp.input_linear.weight",        "blk.%.ffn_up_shexp.weight", SECOND_OF_MATRIX},
    {"layers.%.shared_mlp.output_linear.weight",       "blk.%.ffn_down_shexp.weight", GA_HF_TAKE_ALL},
    {0}};

/* --- glm4_moe, dots1: dense layers first, then experts beside a feed-forward that tokens share --- */
#define ROUTED(experts, chosen, width) \
    {"n_routed_experts",        ".expert_count",                     GA_HF_INT,   experts}, \
    {"num_experts_per_tok",     ".expert_used_count",                GA_HF_INT,   chosen}, \
    {"moe_intermediate_size",   ".expert_feed_forward_length",       GA_HF_INT,   width}, \
    {"routed_scaling_factor",   ".expert_weights_scale",             GA_HF_FLOAT, "1"}, \
    {"n_group",                 ".expert_group_count",               GA_HF_INT_OR_NONE, "1"}, \
    {"topk_group",              ".expert_group_used_count",          GA_HF_INT_OR_NONE, "1"}, \
    {"topk_method",             NULL,                                GA_HF_ONLY,  "\"noaux_tc\""}, \
    SIGMOID_SCORES
static const ga_hf_key glm4_moe_keys[] = {
    {"rms_norm_eps",            ".attention.layer_norm_rms_epsilon", GA_HF_FLOAT, "1e-5"},
    {"num_key_value_heads",     ".attention.head_count_kv",          GA_HF_INT_OR_NONE, "8"},
    DECODER("131072"),
    {"partial_rotary_factor",   "ga.rope_fraction",                  GA_HF_FRACTION, NULL},
    {"rope_parameters.partial_rotary_factor", "ga.rope_fraction",    GA_HF_FRACTION, "0.5"},
    ROUTED("128", "8", "1408"),
    {"n_shared_experts",        ".expert_shared_count",              GA_HF_INT,   "1"},
    {"first_k_dense_replace",   ".leading_dense_block_count",        GA_HF_INT,   "1"},
    {"norm_topk_prob",          ".expert_weights_norm",              GA_HF_BOOL,  "true"},
    {0}};
static const ga_hf_name glm4_moe_names[] = {
    DECODER_NAMES,
    QK_NORM_NAMES,
    EXPERT_NAMES,
    SHARED_NAMES("shared_experts"),
    {"layers.%.post_attention_layernorm", "blk.%.post_attention_norm"},
    {0}};
static const ga_hf_form choice_bias_forms[] = {
    {"layers.%.mlp.gate.e_score_correction_bias", "blk.%.exp_probs_b.bias", GA_HF_TAKE_ALL},
    {0}};
static const ga_hf_key dots1_keys[] = {
    {"num_key_value_heads",     ".attention.head_count_kv",          GA_HF_INT_OR_NONE, "32"},
    DECODER("2048"),
    {"layer_types",             NULL,                                GA_HF_FULL_LAYERS, NULL},
    {"use_sliding_window",      NULL,                                GA_HF_REFUSED, NULL},
    {"attention_bias",          NULL,                                GA_HF_REFUSED, NULL},
    ROUTED(GA_HF_REQUIRED, GA_HF_REQUIRED, "1408"),
    {"n_shared_experts",        ".expert_shared_count",              GA_HF_INT_OR_NULL, "0"},
    {"first_k_dense_replace",   ".leading_dense_block_count",        GA_HF_INT_OR_NULL, "0"},
    {"norm_topk_prob",          ".expert_weights_norm",              GA_HF_BOOL,  "false"},
    {0}};
static const ga_hf_name dots1_names[] = {
    DECODER_NAMES,
    QK_NORM_NAMES,
    EXPERT_NAMES,
    SHARED_NAMES("shared_experts"),
    {"layers.%.post_attention_layernorm", "blk.%.ffn_norm"},
    {0}};

/* --- ernie4_5_moe: dense layers first, then experts in every n-th layer; heads turn in GGUF's pairs --- */
static const ga_hf_key ernie4_5_moe_keys[] = {
    {"rms_norm_eps",            ".attention.layer_norm_rms_epsilon", GA_HF_FLOAT, "1e-5"},
    {"num_key_value_heads",     ".attention.head_count_kv",          GA_HF_INT_OR_NONE, "4"},
    DECODER("131072"),
    {"rope_theta",              ".rope.freq_base",                   GA_HF_FLOAT, NULL},
    {"rope_parameters.rope_theta", ".rope.freq_base",                GA_HF_FLOAT, "500000"},
    {"moe_num_experts",         ".expert_count",                     GA_HF_INT,   "64"},
    {"moe_k",                   ".expert_used_count",                GA_HF_INT,   "6"},
    {"moe_intermediate_size",   ".expert_feed_forward_length",       GA_HF_INT,   "1536"},
    {"moe_num_shared_experts",  ".expert_shared_count",              GA_HF_INT_OR_NULL, "2"},
    {"moe_layer_start_index",   ".leading_dense_block_count",        GA_HF_INT,   "1"},
    {"moe_layer_interval",      ".interleave_moe_layer_step",        GA_HF_INT,   "1"},
    {"moe_layer_end_index",     NULL,                                GA_HF_LAST_LAYER, NULL},
    {"moe_norm_min",            NULL,                                GA_HF_ONLY,  "1e-12"},
    {0}};
static const ga_hf_form ernie4_5_moe_forms[] = {
    {"layers.%.mlp.moe_statics.e_score_correction_bias", "blk.%.exp_probs_b.bias", GA_HF_TAKE_FLAT},
    {0}};

/* --- hunyuan_v1_moe: a feed-forward that all tokens share in each layer --- */
static const ga_hf_key hunyuan_moe_keys[] = {
    {"rms_norm_eps",            ".attention.layer_norm_rms_epsilon", GA_HF_FLOAT, "1e-5"},
    {"intermediate_size",       ".feed_forward_length",              GA_HF_INT,   GA_HF_REQUIRED},
    DECODER("2048"),
    ROPE,
    {"rope.mscale",             NULL,                                GA_HF_ONLY,  "1"},
    {"rope.mscale_all_dim",     NULL,                                GA_HF_ONLY,  "1"},
    {"attention_bias",          NULL,                                GA_HF_REFUSED, NULL},
    {"num_experts",             ".expert_count",                     GA_HF_INT,   GA_HF_REQUIRED},
    {"moe_topk",                ".expert_used_count",                GA_HF_INT,   GA_HF_REQUIRED},
    {"moe_intermediate_size",   ".expert_feed_forward_length",       GA_HF_INT,   NULL},
    {"intermediate_size",       ".expert_feed_forward_length",       GA_HF_INT,   GA_HF_REQUIRED},
    {"intermediate_size",       ".expert_shared_feed_forward_length", GA_HF_INT,  GA_HF_REQUIRED},
    {"num_shared_expert",       NULL,                                GA_HF_ONLY,  "1"},
    {"moe_layer_num_skipped",   NULL,                                GA_HF_ONLY,  "0"},
    {"use_mixed_mlp_moe",       NULL,                                GA_HF_ONLY,  "true"},
    {"use_qk_norm",             NULL,                                GA_HF_ONLY,  "true"},
    {"norm_topk_prob",          NULL,                                GA_HF_ONLY,  "true"},
    {"use_cla",                 NULL,                                GA_HF_REFUSED, NULL},
    {0}};
static const ga_hf_name hunyuan_moe_names[] = {
    DECODER_NAMES,
    {"layers.%.self_attn.query_layernorm", "blk.%.attn_q_norm"},
    {"layers.%.self_attn.key_layernorm",   "blk.%.attn_k_norm"},
    {"layers.%.mlp.gate.wg",               "blk.%.ffn_gate_inp"},
    EXPERT_NAMES,
    SHARED_NAMES("shared_mlp"),
    {"layers.%.post_attention_layernorm",  "blk.%.ffn_norm"},
    {0}};

/* --- minimax_m2: norms of whole rows of q and k, of which a part of each head turns --- */
static const ga_hf_key minimax_m2_keys[] = {
    {"num_key_value_heads",     ".attention.head_count_kv",          GA_HF_INT_OR_NONE, "8"},
    {"head_dim",                ".attention.key_length",             GA_HF_INT,   "128"},
    {"head_dim",                ".attention.value_length",           GA_HF_INT,   "128"},
    DECODER("196608"),
    {"rope_theta",              ".rope.freq_base",                   GA_HF_FLOAT, NULL},
    {"rope_parameters.rope_theta", ".rope.freq_base",                GA_HF_FLOAT, "5000000"},
    {"rotary_dim",              ".rope.dimension_count",             GA_HF_INT,   NULL},
    {"intermediate_size",       ".expert_feed_forward_length",       GA_HF_INT,   GA_HF_REQUIRED},
    {"num_local_experts",       ".expert_count",                     GA_HF_INT,   "256"},
    {"num_experts_per_tok",     ".expert_used_count",                GA_HF_INT,   "8"},
    SIGMOID_SCORES,
    {"use_qk_norm",             NULL,                                GA_HF_ONLY,  "true"},
    {"qk_norm_type",            NULL,                                GA_HF_ONLY,  "\"per_layer\""},
    {"use_routing_bias",        NULL,                                GA_HF_ONLY,  "true"},
    {"shared_intermediate_size", NULL,                               GA_HF_ONLY,  "0"},
    {0}};
static const ga_hf_name minimax_m2_names[] = {
    DECODER_NAMES,
    QK_NORM_NAMES,
    {"layers.%.post_attention_layernorm",       "blk.%.ffn_norm"},
    BLOCK_SPARSE_NAMES,
    {0}};
static const ga_hf_form minimax_m2_forms[] = {
    {"layers.%.block_sparse_moe.e_score_correction_bias", "blk.%.exp_probs_b.bias", GA_HF_TAKE_ALL},
    {0}};

/* --- llama4, text: chunks of attention, and factors of queries by position --- */
static const ga_hf_key llama4_keys[] = {
    {"hidden_size",             ".embedding_length",                 GA_HF_INT,   "5120"},
    {"num_hidden_layers",       ".block_count",                      GA_HF_INT,   "48"},
    {"intermediate_size_mlp",   ".feed_forward_length",              GA_HF_INT,   "16384"},
    {"intermediate_size",       ".expert_feed_forward_length",       GA_HF_INT,   "8192"},
    {"intermediate_size",       ".expert_shared_feed_forward_length", GA_HF_INT,  "8192"},
    {"num_attention_heads",     ".attention.head_count",             GA_HF_INT,   "40"},
    {"num_key_value_heads",     ".attention.head_count_kv",          GA_HF_INT_OR_NONE, "8"},
    {"head_dim",                ".attention.key_length",             GA_HF_INT,   "128"},
    {"head_dim",                ".attention.value_length",           GA_HF_INT,   "128"},
    {"rms_norm_eps",            ".attention.layer_norm_rms_epsilon", GA_HF_FLOAT, "1e-5"},
    {"max_position_embeddings", ".context_length",                   GA_HF_INT,   "131072"},
    {"vocab_size",              ".vocab_size",                       GA_HF_INT,   "202048"},
    {"hidden_act",              NULL,                                GA_HF_ONLY,  "\"silu\""},
    {"rope_theta",              ".rope.freq_base",                   GA_HF_FLOAT, NULL},
    {"rope_parameters.rope_theta", ".rope.freq_base",                GA_HF_FLOAT, "500000"},
    {"num_local_experts",       ".expert_count",                     GA_HF_INT,   "16"},
    {"num_experts_per_tok",     ".expert_used_count",                GA_HF_INT,   "1"},
    {"interleave_moe_layer_step", ".interleave_moe_layer_step",      GA_HF_INT,   "1"},
    {"no_rope_layers",          "ga.rope_layers",                    GA_HF_INTS,  NULL},
    {"no_rope_layer_interval",  "ga.no_rope_every",                  GA_HF_INT,   "4"},
    {"use_qk_norm",             "ga.head_norms",                     GA_HF_BOOL,  "true"},
    {"attention_bias",          NULL,                                GA_HF_REFUSED, NULL},
    {"attention_chunk_size",    ".attention.sliding_window",         GA_HF_INT_OR_NULL, "8192"},
    {"attn_temperature_tuning", NULL,                                GA_HF_BY_CODE, NULL},
    {"attn_scale",              ".attention.temperature_scale",      GA_HF_FLOAT, "0.1"},
    {"floor_scale",             ".attention.temperature_length",     GA_HF_INT,   "8192"},
    {0}};
static const ga_hf_name llama4_names[] = {
    {"embed_tokens",                          "token_embd"},
    {"norm",                                  "output_norm"},
    {"lm_head",                               "output"},
    {"layers.%.input_layernorm",              "blk.%.attn_norm"},
    {"layers.%.self_attn.q_proj",             "blk.%.attn_q"},
    {"layers.%.self_attn.k_proj",             "blk.%.attn_k"},
    {"layers.%.self_attn.v_proj",             "blk.%.attn_v"},
    {"layers.%.self_attn.o_proj",             "blk.%.attn_output"},
    {"layers.%.post_attention_layernorm",     "blk.%.ffn_norm"},
    {"layers.%.feed_forward.gate_proj",       "blk.%.ffn_gate"},
    {"layers.%.feed_forward.up_proj",         "blk.%.ffn_up"},
    {"layers.%.feed_forward.down_proj",       "blk.%.ffn_down"},
    {"layers.%.feed_forward.router",          "blk.%.ffn_gate_inp"},
    {"layers.%.feed_forward.shared_expert.gate_proj", "blk.%.ffn_gate_shexp"},
    {"layers.%.feed_forward.shared_expert.up_proj",   "blk.%.ffn_up_shexp"},
    {"layers.%.feed_forward.shared_expert.down_proj", "blk.%.ffn_down_shexp"},
    {0}};
#define FIRST_COLUMNS (GA_HF_TAKE_FIRST | GA_HF_TAKE_COLUMNS)
#define SECOND_COLUMNS (GA_HF_TAKE_SECOND | GA_HF_TAKE_COLUMNS)
static const ga_hf_form llama4_forms[] = {
    {"layers.%.feed_forward.experts.gate_up_proj", "blk.%.ffn_gate_exps.weight", FIRST_COLUMNS},
    {"layers.%.feed_forward.experts.gate_up_proj", "blk.%.ffn_up_exps.weight",   SECOND_COLUMNS},
    {"layers.%.feed_forward.experts.down_proj",    "blk.%.ffn_down_exps.weight", GA_HF_TAKE_COLUMNS},
    {0}};

/* --- deepseek_v2, deepseek_v3: latent attention. Both mscales of yarn are read; absent ones are 1 and 0. Layers that
 * predict further tokens follow num_hidden_layers others, and are left out. --- */
#define DEEPSEEK(context, scores, renorm, scale) \
    SIZES, \
    {"rms_norm_eps",            ".attention.layer_norm_rms_epsilon", GA_HF_FLOAT, "1e-6"}, \
    {"max_position_embeddings", ".context_length",                   GA_HF_INT,   context}, \
    {"vocab_size",              ".vocab_size",                       GA_HF_INT,   GA_HF_REQUIRED}, \
    {"hidden_act",              NULL,                                GA_HF_ONLY,  "\"silu\""}, \
    {"attention_bias",          NULL,                                GA_HF_REFUSED, NULL}, \
    {"mlp_bias",                NULL,                                GA_HF_REFUSED, NULL}, \
    {"num_key_value_heads",     ".attention.head_count_kv",          GA_HF_INT,   NULL}, \
    {"q_lora_rank",             ".attention.q_lora_rank",            GA_HF_INT_OR_NONE, "1536"}, \
    {"kv_lora_rank",            ".attention.kv_lora_rank",           GA_HF_INT,   "512"}, \
    {"qk_nope_head_dim",        "ga.qk_nope_head_dim",               GA_HF_INT,   "128"}, \
    {"qk_rope_head_dim",        ".rope.dimension_count",             GA_HF_INT,   "64"}, \
    {"v_head_dim",              ".attention.value_length",           GA_HF_INT,   "128"}, \
    {"n_routed_experts",        ".expert_count",                     GA_HF_INT_OR_NONE, NULL}, \
    {"num_experts_per_tok",     ".expert_used_count",                GA_HF_INT_OR_NONE, NULL}, \
    {"moe_intermediate_size",   ".expert_feed_forward_length",       GA_HF_INT,   NULL}, \
    {"n_shared_experts",        ".expert_shared_count",              GA_HF_INT_OR_NONE, NULL}, \
    {"first_k_dense_replace",   ".leading_dense_block_count",        GA_HF_INT,   "0"}, \
    {"moe_layer_freq",          NULL,                                GA_HF_ONLY,  "1"}, \
    {"n_group",                 ".expert_group_count",               GA_HF_INT_OR_NONE, NULL}, \
    {"topk_group",              ".expert_group_used_count",          GA_HF_INT_OR_NONE, NULL}, \
    {"norm_topk_prob",          ".expert_weights_norm",              GA_HF_BOOL,  renorm}, \
    {"routed_scaling_factor",   ".expert_weights_scale",             GA_HF_FLOAT, scale}, \
    {"scoring_func",            "ga.scoring_func",                   GA_HF_TEXT,  scores}, \
    {"scoring_func",            NULL,                                GA_HF_ONLY,  scores}, \
    ROPE, \
    {"rope.mscale",             "ga.mscale",                         GA_HF_FLOAT, "1"}, \
    {"rope.mscale_all_dim",     "ga.mscale_all_dim",                 GA_HF_FLOAT, "0"}
static const ga_hf_key deepseek_v2_keys[] = {
    DEEPSEEK("2048", "\"softmax\"", "false", "1"),
    {"topk_method",             "ga.topk_method",                    GA_HF_TEXT,  "\"greedy\""},
    {"topk_method",             NULL,                                GA_HF_ONLY,
                                "[\"greedy\", \"group_limited_greedy\"]"},
    {0}};
static const ga_hf_key deepseek_v3_keys[] = {
    DEEPSEEK("4096", "\"sigmoid\"", "true", "2.5"),
    {"topk_method",             NULL,                                GA_HF_ONLY,  "\"noaux_tc\""},
    {"rope_interleave",         "ga.rope_interleave",                GA_HF_BOOL,  "true"},
    {0}};
/* --- mistral4: deepseek_v3 with other scores, experts in stacks, and factors of queries by position --- */
static const ga_hf_key mistral4_keys[] = {
    {"q_lora_rank",             ".attention.q_lora_rank",            GA_HF_INT_OR_NONE, "1024"},
    {"kv_lora_rank",            ".attention.kv_lora_rank",           GA_HF_INT,   "256"},
    {"qk_nope_head_dim",        "ga.qk_nope_head_dim",               GA_HF_INT,   "64"},
    {"head_dim",                ".attention.key_length",             GA_HF_INT,   NULL},
    {"n_routed_experts",        ".expert_count",                     GA_HF_INT,   "128"},
    {"num_experts_per_tok",     ".expert_used_count",                GA_HF_INT,   "4"},
    {"moe_intermediate_size",   ".expert_feed_forward_length",       GA_HF_INT,   "2048"},
    {"n_shared_experts",        ".expert_shared_count",              GA_HF_INT,   "1"},
    {"rope.rope_type",          ".rope.scaling.type",                GA_HF_ROPE_TYPE, GA_HF_REQUIRED},
    {"rope.original_max_position_embeddings", ".rope.scaling.original_context_length", GA_HF_INT, GA_HF_REQUIRED},
    {"rope_parameters.llama_4_scaling_beta", ".attention.temperature_scale", GA_HF_FLOAT, GA_HF_REQUIRED},
    {"rope_parameters.partial_rotary_factor", "ga.rope_fraction",    GA_HF_FRACTION, NULL},
    DEEPSEEK("1048576", "\"softmax\"", "true", "1"),
    {"rope_interleave",         "ga.rope_interleave",                GA_HF_BOOL,  "true"},
    {0}};
static const ga_hf_form mistral4_forms[] = {
    {"layers.%.mlp.experts.gate_up_proj", "blk.%.ffn_gate_exps.weight", GA_HF_TAKE_FIRST},
    {"layers.%.mlp.experts.gate_up_proj", "blk.%.ffn_up_exps.weight",   GA_HF_TAKE_SECOND},
    {"layers.%.mlp.experts.down_proj",    "blk.%.ffn_down_exps.weight", GA_HF_TAKE_ALL},
    {0}};
/* --- glm4_moe_lite: deepseek_v3 with a list of the layers that have experts --- */
static const ga_hf_key glm4_moe_lite_keys[] = {
    {"rms_norm_eps",            ".attention.layer_norm_rms_epsilon", GA_HF_FLOAT, "1e-5"},
    {"q_lora_rank",             ".attention.q_lora_rank",            GA_HF_INT_OR_NONE, "768"},
    {"qk_nope_head_dim",        "ga.qk_nope_head_dim",               GA_HF_INT,   "192"},
    {"v_head_dim",              ".attention.value_length",           GA_HF_INT,   "256"},
    {"n_routed_experts",        ".expert_count",                     GA_HF_INT,   "64"},
    {"num_experts_per_tok",     ".expert_used_count",                GA_HF_INT,   "4"},
    {"moe_intermediate_size",   ".expert_feed_forward_length",       GA_HF_INT,   "1536"},
    {"n_shared_experts",        ".expert_shared_count",              GA_HF_INT,   "1"},
    {"mlp_layer_types",         ".leading_dense_block_count",        GA_HF_DENSE_FIRST, "1"},
    DEEPSEEK("202752", "\"sigmoid\"", "true", "1.8"),
    {"topk_method",             NULL,                                GA_HF_ONLY,  "\"noaux_tc\""},
    {"rope_interleave",         "ga.rope_interleave",                GA_HF_BOOL,  "true"},
    {"partial_rotary_factor",   NULL,                                GA_HF_ONLY,  "1"},
    {"rope_parameters.partial_rotary_factor", NULL,                  GA_HF_ONLY,  "1"},
    {0}};
static const ga_hf_name deepseek_names[] = {
    DECODER_NAMES,
    EXPERT_NAMES,
    {"layers.%.self_attn.q_a_proj",                "blk.%.attn_q_a"},
    {"layers.%.self_attn.q_a_layernorm",           "blk.%.attn_q_a_norm"},
    {"layers.%.self_attn.q_b_proj",                "blk.%.attn_q_b"},
    {"layers.%.self_attn.kv_a_proj_with_mqa",      "blk.%.attn_kv_a_mqa"},
    {"layers.%.self_attn.kv_a_layernorm",          "blk.%.attn_kv_a_norm"},
    {"layers.%.self_attn.kv_b_proj",               "blk.%.attn_kv_b"},
    {"layers.%.mlp.shared_experts.gate_proj",      "blk.%.ffn_gate_shexp"},
    {"layers.%.mlp.shared_experts.up_proj",        "blk.%.ffn_up_shexp"},
    {"layers.%.mlp.shared_experts.down_proj",      "blk.%.ffn_down_shexp"},
    {"layers.%.post_attention_layernorm",          "blk.%.ffn_norm"},
    {0}};

/* --- gemma4, text: heads of global layers, embeddings of layers, experts beside a feed-forward --- */
static const ga_hf_key gemma4_keys[] = {
    {"hidden_size",             ".embedding_length",                 GA_HF_INT,   "2304"},
    {"num_hidden_layers",       ".block_count",                      GA_HF_INT,   "30"},
    {"intermediate_size",       NULL,                                GA_HF_BY_CODE, NULL},
    {"num_attention_heads",     ".attention.head_count",             GA_HF_INT,   "8"},
    {"num_key_value_heads",     NULL,                                GA_HF_BY_CODE, NULL},
    {"head_dim",                NULL,                                GA_HF_BY_CODE, NULL},
    {"global_head_dim",         NULL,                                GA_HF_BY_CODE, NULL},
    {"num_global_key_value_heads", NULL,                             GA_HF_BY_CODE, NULL},
    {"per_layer_config",        NULL,                                GA_HF_BY_CODE, NULL},
    {"use_double_wide_mlp",     NULL,                                GA_HF_BY_CODE, NULL},
    {"enable_moe_block",        NULL,                                GA_HF_BY_CODE, NULL},
    {"vocab_size_per_layer_input", NULL,                             GA_HF_BY_CODE, NULL},
    {"attention_k_eq_v",        "ga.keys_are_values",                GA_HF_BOOL,  "false"},
    {"num_kv_shared_layers",    ".attention.shared_kv_layers",       GA_HF_INT,   "0"},
    {"hidden_size_per_layer_input", ".embedding_length_per_layer_input", GA_HF_INT_OR_NULL, "256"},
    {"rms_norm_eps",            ".attention.layer_norm_rms_epsilon", GA_HF_FLOAT, "1e-6"},
    {"max_position_embeddings", ".context_length",                   GA_HF_INT,   "131072"},
    {"vocab_size",              ".vocab_size",                       GA_HF_INT,   "262144"},
    {"sliding_window",          ".attention.sliding_window",         GA_HF_INT,   "512"},
    {"layer_types",             ".attention.sliding_window_pattern", GA_HF_LAYER_TYPES, NULL},
    {"rope_parameters.full_attention.rope_theta", ".rope.freq_base", GA_HF_FLOAT, "1000000"},
    {"rope_parameters.full_attention.partial_rotary_factor", "ga.rope_proportion", GA_HF_FRACTION, GA_HF_REQUIRED},
    {"rope_parameters.full_attention.rope_type", NULL,               GA_HF_ONLY,  "\"proportional\""},
    {"rope_parameters.full_attention.factor", NULL,                  GA_HF_ONLY,  "1"},
    {"rope_parameters.sliding_attention.rope_theta", ".rope.freq_base_swa", GA_HF_FLOAT, "10000"},
    {"rope_parameters.sliding_attention.partial_rotary_factor", NULL, GA_HF_ONLY, "1"},
    {"num_experts",             ".expert_count",                     GA_HF_INT_OR_NONE, NULL},
    {"top_k_experts",           ".expert_used_count",                GA_HF_INT_OR_NONE, NULL},
    {"moe_intermediate_size",   ".expert_feed_forward_length",       GA_HF_INT_OR_NONE, NULL},
    {"final_logit_softcapping", ".final_logit_softcapping",          GA_HF_FLOAT_OR_NULL, "0"},
    {"hidden_activation",       NULL,                                GA_HF_ONLY,  "\"gelu_pytorch_tanh\""},
    {"attention_bias",          NULL,                                GA_HF_REFUSED, NULL},
    {"use_bidirectional_attention", NULL,                            GA_HF_ONLY,  "\"vision\""},
    {0}};
static const ga_hf_name gemma4_names[] = {
    DECODER_NAMES,
    QK_NORM_NAMES,
    {"layers.%.post_attention_layernorm",     "blk.%.post_attention_norm"},
    {"layers.%.pre_feedforward_layernorm",    "blk.%.ffn_norm"},
    {"layers.%.post_feedforward_layernorm",   "blk.%.post_ffw_norm"},
    {"layers.%.pre_feedforward_layernorm_2",  "blk.%.pre_ffw_norm_2"},
    {"layers.%.post_feedforward_layernorm_1", "blk.%.post_ffw_norm_1"},
    {"layers.%.post_feedforward_layernorm_2", "blk.%.post_ffw_norm_2"},
    {"layers.%.router.proj",                  "blk.%.ffn_gate_inp"},
    {"layers.%.router.scale",                 "blk.%.ffn_gate_inp.scale"},
    {"layers.%.router.per_expert_scale",      "blk.%.ffn_down_exps.scale"},
    {"layers.%.layer_scalar",                 "blk.%.layer_output_scale.weight"},
    {"embed_tokens_per_layer",                "per_layer_token_embd"},
    {"per_layer_model_projection",            "per_layer_model_proj"},
    {"per_layer_projection_norm",             "per_layer_proj_norm"},
    {"layers.%.per_layer_input_gate",         "blk.%.inp_gate"},
    {"layers.%.per_layer_projection",         "blk.%.proj"},
    {"layers.%.post_per_layer_input_norm",    "blk.%.post_norm"},
    {0}};
static const ga_hf_form gemma4_forms[] = {
    {"layers.%.experts.gate_up_proj", "blk.%.ffn_gate_exps.weight", GA_HF_TAKE_FIRST},
    {"layers.%.experts.gate_up_proj", "blk.%.ffn_up_exps.weight",   GA_HF_TAKE_SECOND},
    {"layers.%.experts.down_proj",    "blk.%.ffn_down_exps.weight", GA_HF_TAKE_ALL},
    {0}};

#define WHOLE ga_hf_rope_keys
#define PART ga_hf_rope_part_keys
#define NEOX_SIGMOID (GA_HF_NEOX | GA_HF_SIGMOID)
#define NEOX_BY_LAYER (GA_HF_NEOX | GA_HF_BY_LAYER)
#define NEOX_NTK (GA_HF_NEOX | GA_HF_NTK_ALPHA)
static const ga_hf_arch archs[] = {
    {"mixtral", "llama", NULL, GA_HF_NEOX, mixtral_keys, WHOLE, mixtral_names, NULL},
    {"qwen2_moe", "qwen2moe", NULL, GA_HF_NEOX, qwen2_moe_keys, WHOLE, qwen2_moe_names, qwen2_moe_forms},
    {"qwen3_moe", "qwen3moe", NULL, GA_HF_NEOX, qwen3_moe_keys, WHOLE, qwen3_moe_names, NULL},
    {"olmoe", "olmoe", NULL, GA_HF_NEOX, olmoe_keys, WHOLE, qwen3_moe_names, NULL},
    {"gpt_oss", "gpt-oss", NULL, GA_HF_NEOX, gpt_oss_keys, WHOLE, gpt_oss_names, gpt_oss_forms},
    {"granitemoe", "granitemoe", NULL, GA_HF_NEOX, granitemoe_keys, WHOLE, granitemoe_names, granitemoe_forms},
    {"granitemoeshared", "granitemoe", NULL, GA_HF_NEOX, granitemoeshared_keys, WHOLE, granitemoe_names,
     granitemoe_forms},
    {"glm4_moe", "glm4moe", NULL, NEOX_SIGMOID, glm4_moe_keys, PART, glm4_moe_names, choice_bias_forms},
    {"dots1", "dots1", NULL, NEOX_SIGMOID, dots1_keys, WHOLE, dots1_names, choice_bias_forms},
    {"ernie4_5_moe", "ernie4_5-moe", NULL, 0, ernie4_5_moe_keys, WHOLE, dots1_names, ernie4_5_moe_forms},
    {"hunyuan_v1_moe", "hunyuan-moe", NULL, NEOX_NTK, hunyuan_moe_keys, NULL, hunyuan_moe_names, NULL},
    {"llama4_text", "llama4", NULL, 0, llama4_keys, WHOLE, llama4_names, llama4_forms},
    {"llama4", "llama4", "text_config", 0, llama4_keys, WHOLE, llama4_names, llama4_forms},
    {"gemma4_text", "gemma4", NULL, NEOX_BY_LAYER, gemma4_keys, NULL, gemma4_names, gemma4_forms},
    {"gemma4", "gemma4", "text_config", NEOX_BY_LAYER, gemma4_keys, NULL, gemma4_names, gemma4_forms},
    {"minimax_m2", "minimax-m2", NULL, NEOX_SIGMOID, minimax_m2_keys, PART, minimax_m2_names, minimax_m2_forms},
    {"deepseek_v2", "deepseek2", NULL, 0, deepseek_v2_keys, NULL, deepseek_names, NULL},
    {"deepseek_v3", "deepseek2", NULL, 0, deepseek_v3_keys, NULL, deepseek_names, choice_bias_forms},
    {"mistral3 of mistral4", "mistral4", "text_config", 0, mistral4_keys, NULL, deepseek_names, mistral4_forms},
    {"mistral4", "mistral4", NULL, 0, mistral4_keys, NULL, deepseek_names, mistral4_forms},
    {"glm4_moe_lite", "deepseek2", NULL, 0, glm4_moe_lite_keys, NULL, deepseek_names, choice_bias_forms},
    {"kimi_k2", "deepseek2", NULL, 0, deepseek_v3_keys, NULL, deepseek_names, choice_bias_forms},
};
/* clang-format on */

const ga_hf_arch *ga_hf_expert_arch_at(int at) { return (size_t)at < GA_COUNT_OF(archs) ? &archs[at] : NULL; }
