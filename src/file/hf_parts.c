#include "file/hf_parts.h"

#include "base/compiler.h"
#include "file/hf_generation.h"
#include "file/hf_modules.h"
#include "file/hf_rope.h"

#define TRAINING "of training alone"
#define RESULTS  "which results transformers returns"
#define HEADS    "of heads that GA does not compute"
#define NOTE     "a note about the file"

static const ga_part config_rows[] = {
    {"model_type", GA_PART_READ, "one of the next table", NULL},
    {"_name_or_path", GA_PART_READ, "the model's name", NULL},
    {"tie_word_embeddings", GA_PART_READ, NULL, NULL},
    {"bos_token_id", GA_PART_READ, "an id or several, of which the first counts; below 0: none", NULL},
    {"eos_token_id", GA_PART_READ, "an id or several; below 0: none", NULL},
    {"pad_token_id", GA_PART_READ, "below 0: none", NULL},
    {"max_position_embeddings", GA_PART_READ, NULL, NULL},
    {"quantization_config", GA_PART_READ, "of method fp8 with e4m3, of gpt_oss also mxfp4; else refused", NULL},
    {"rope_scaling", GA_PART_READ, "see below; with rope_parameters its fields come first", NULL},
    {"rope_parameters", GA_PART_READ, "see below; of full_attention, where layers have several", NULL},
    {"is_encoder_decoder", GA_PART_REFUSED, NULL, NULL},
    {"pruned_heads", GA_PART_REFUSED, NULL, NULL},
    {"cross_attention_hidden_size", GA_PART_REFUSED, NULL, NULL},
    {"tie_encoder_decoder", GA_PART_REFUSED, NULL, NULL},
    {"architectures", GA_PART_IGNORED, "model_type says the same", NULL},
    {"auto_map", GA_PART_IGNORED, "GA runs no code of models", NULL},
    {"dtype", GA_PART_IGNORED, "each tensor states its type", NULL},
    {"torch_dtype", GA_PART_IGNORED, "each tensor states its type", NULL},
    {"transformers_version", GA_PART_IGNORED, NOTE, NULL},
    {"_attn_implementation", GA_PART_IGNORED, NOTE, NULL},
    {"_attn_implementation_autoset", GA_PART_IGNORED, NOTE, NULL},
    {"use_cache", GA_PART_IGNORED, "GA always has a KV cache", NULL},
    {"cache_implementation", GA_PART_IGNORED, "GA has a KV cache of its own", NULL},
    {"chunk_size_feed_forward", GA_PART_IGNORED, "how transformers saves memory", NULL},
    {"pretraining_tp", GA_PART_IGNORED, "in how many parts the same products are computed", NULL},
    {"reorder_and_upcast_attn", GA_PART_IGNORED, "in which type transformers computes attention", NULL},
    {"max_window_layers", GA_PART_IGNORED, "of windows, which use_sliding_window turns on", NULL},
    {"attention_bias", GA_PART_IGNORED, "where the next table has none: biases are there if their tensors are", NULL},
    {"mlp_bias", GA_PART_IGNORED, "where the next table has none: biases are there if their tensors are", NULL},
    {"use_bias", GA_PART_IGNORED, "biases are there if their tensors are", NULL},
    {"use_qkv_bias", GA_PART_IGNORED, "biases are there if their tensors are", NULL},
    {"initializer_range", GA_PART_IGNORED, TRAINING, NULL},
    {"initializer_cutoff_factor", GA_PART_IGNORED, TRAINING, NULL},
    {"attention_dropout", GA_PART_IGNORED, TRAINING, NULL},
    {"attention_probs_dropout_prob", GA_PART_IGNORED, TRAINING, NULL},
    {"hidden_dropout", GA_PART_IGNORED, TRAINING, NULL},
    {"hidden_dropout_prob", GA_PART_IGNORED, TRAINING, NULL},
    {"embedding_dropout", GA_PART_IGNORED, TRAINING, NULL},
    {"mlp_dropout", GA_PART_IGNORED, TRAINING, NULL},
    {"residual_dropout", GA_PART_IGNORED, TRAINING, NULL},
    {"attn_pdrop", GA_PART_IGNORED, TRAINING, NULL},
    {"embd_pdrop", GA_PART_IGNORED, TRAINING, NULL},
    {"resid_pdrop", GA_PART_IGNORED, TRAINING, NULL},
    {"classifier_dropout", GA_PART_IGNORED, HEADS, NULL},
    {"classifier_pooling", GA_PART_IGNORED, HEADS, NULL},
    {"classifier_bias", GA_PART_IGNORED, HEADS, NULL},
    {"classifier_activation", GA_PART_IGNORED, HEADS, NULL},
    {"decoder_bias", GA_PART_IGNORED, HEADS, NULL},
    {"sparse_prediction", GA_PART_IGNORED, HEADS, NULL},
    {"id2label", GA_PART_IGNORED, "names of results", NULL},
    {"label2id", GA_PART_IGNORED, "names of results", NULL},
    {"problem_type", GA_PART_IGNORED, HEADS, NULL},
    {"task_specific_params", GA_PART_IGNORED, "of transformers' pipelines", NULL},
    {"output_attentions", GA_PART_IGNORED, RESULTS, NULL},
    {"output_hidden_states", GA_PART_IGNORED, RESULTS, NULL},
    {"return_dict", GA_PART_IGNORED, RESULTS, NULL},
    {0}};
const ga_part_table ga_hf_config_parts = {
    "config.json", "fields of all model types", config_rows,
    "read or refused if the next table has it for the model type; else transformers' class of the model has no such "
    "field either"};

const ga_part_table *const *ga_hf_part_tables(size_t *count) {
  static const ga_part_table *const tables[] = {&ga_hf_config_parts, &ga_hf_rope_parts,     &ga_hf_generation_parts,
                                                &ga_hf_module_parts, &ga_hf_sentence_parts, &ga_hf_pooling_parts,
                                                &ga_hf_dense_parts};
  *count = GA_COUNT_OF(tables);
  return tables;
}
