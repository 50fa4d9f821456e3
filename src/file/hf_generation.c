#include "file/hf_generation.h"

#include "base/json.h"
#include "base/status.h"

#define BEAMS  "GA searches with one beam"
#define ASSIST "of a helper model, which the caller chooses"
#define OUTPUT "which results transformers returns"
#define CALLER "the caller says how many tokens there may be"

static const ga_part generation_rows[] = {
    {"eos_token_id", GA_PART_READ, "an id or several; an answer ends with any of them, and of config.json's", NULL},
    {"do_sample", GA_PART_READ, "by ga run, ga chat, ga serve and ga batch: false means a temperature of 0", NULL},
    {"temperature", GA_PART_READ, "by ga run, ga chat, ga serve and ga batch", NULL},
    {"top_k", GA_PART_READ, "by ga run, ga chat, ga serve and ga batch", NULL},
    {"top_p", GA_PART_READ, "by ga run, ga chat, ga serve and ga batch", NULL},
    {"min_p", GA_PART_READ, "by ga run, ga chat, ga serve and ga batch", NULL},
    {"repetition_penalty", GA_PART_READ, "by ga run, ga chat, ga serve and ga batch", NULL},
    {"bos_token_id", GA_PART_IGNORED, "the tokenizer says how a text begins", NULL},
    {"pad_token_id", GA_PART_IGNORED, "GA pads no texts", NULL},
    {"decoder_start_token_id", GA_PART_IGNORED, "of models with an encoder and a decoder", NULL},
    {"max_length", GA_PART_IGNORED, CALLER, NULL},
    {"max_new_tokens", GA_PART_IGNORED, CALLER, NULL},
    {"max_time", GA_PART_IGNORED, "the caller says how long an answer may take", NULL},
    {"transformers_version", GA_PART_IGNORED, "a note about the file", NULL},
    {"_from_model_config", GA_PART_IGNORED, "a note about the file", NULL},
    {"trust_remote_code", GA_PART_IGNORED, "GA runs no code of models", NULL},
    {"use_cache", GA_PART_IGNORED, "GA always has a KV cache", NULL},
    {"cache_implementation", GA_PART_IGNORED, "GA has a KV cache of its own", NULL},
    {"cache_config", GA_PART_IGNORED, "GA has a KV cache of its own", NULL},
    {"max_cache_len", GA_PART_IGNORED, "GA has a KV cache of its own", NULL},
    {"prefill_chunk_size", GA_PART_IGNORED, "GA chooses how prompts are cut", NULL},
    {"compile_config", GA_PART_IGNORED, "of PyTorch", NULL},
    {"disable_compile", GA_PART_IGNORED, "of PyTorch", NULL},
    {"continuous_batching_config", GA_PART_IGNORED, "of transformers' own server", NULL},
    {"low_memory", GA_PART_IGNORED, "of contrastive search", NULL},
    {"early_stopping", GA_PART_IGNORED, "of several beams", NULL},
    {"length_penalty", GA_PART_IGNORED, "of several beams", NULL},
    {"diversity_penalty", GA_PART_IGNORED, "of several groups of beams", NULL},
    {"renormalize_logits", GA_PART_IGNORED, "GA's probabilities always sum to 1", NULL},
    {"remove_invalid_values", GA_PART_IGNORED, "logits that are no numbers are an error in GA", NULL},
    {"output_attentions", GA_PART_IGNORED, OUTPUT, NULL},
    {"output_hidden_states", GA_PART_IGNORED, OUTPUT, NULL},
    {"output_logits", GA_PART_IGNORED, OUTPUT, NULL},
    {"output_scores", GA_PART_IGNORED, OUTPUT, NULL},
    {"return_dict_in_generate", GA_PART_IGNORED, OUTPUT, NULL},
    {"encoder_repetition_penalty", GA_PART_REFUSED, NULL, "[1]"},
    {"encoder_no_repeat_ngram_size", GA_PART_REFUSED, NULL, "[0]"},
    {"is_assistant", GA_PART_IGNORED, ASSIST, NULL},
    {"num_assistant_tokens", GA_PART_IGNORED, ASSIST, NULL},
    {"num_assistant_tokens_schedule", GA_PART_IGNORED, ASSIST, NULL},
    {"assistant_confidence_threshold", GA_PART_IGNORED, ASSIST, NULL},
    {"assistant_early_exit", GA_PART_IGNORED, ASSIST, NULL},
    {"assistant_ensemble_weight", GA_PART_IGNORED, ASSIST, NULL},
    {"assistant_lookbehind", GA_PART_IGNORED, ASSIST, NULL},
    {"target_lookbehind", GA_PART_IGNORED, ASSIST, NULL},
    {"prompt_lookup_num_tokens", GA_PART_IGNORED, ASSIST, NULL},
    {"max_matching_ngram_size", GA_PART_IGNORED, ASSIST, NULL},
    {"speculation_type", GA_PART_IGNORED, ASSIST, NULL},
    {"use_mtp", GA_PART_IGNORED, ASSIST, NULL},
    {"num_beams", GA_PART_REFUSED, BEAMS, "[1]"},
    {"num_beam_groups", GA_PART_REFUSED, BEAMS, "[1]"},
    {"num_return_sequences", GA_PART_REFUSED, "a request says how many answers it wants", "[1]"},
    {"min_length", GA_PART_REFUSED, NULL, "[0]"},
    {"min_new_tokens", GA_PART_REFUSED, NULL, "[0]"},
    {"stop_strings", GA_PART_REFUSED, NULL, NULL},
    {"typical_p", GA_PART_REFUSED, NULL, "[1]"},
    {"top_h", GA_PART_REFUSED, NULL, NULL},
    {"epsilon_cutoff", GA_PART_REFUSED, NULL, "[0]"},
    {"eta_cutoff", GA_PART_REFUSED, NULL, "[0]"},
    {"penalty_alpha", GA_PART_REFUSED, NULL, "[0]"},
    {"dola_layers", GA_PART_REFUSED, NULL, NULL},
    {"no_repeat_ngram_size", GA_PART_REFUSED, NULL, "[0]"},
    {"bad_words_ids", GA_PART_REFUSED, NULL, NULL},
    {"force_words_ids", GA_PART_REFUSED, NULL, NULL},
    {"constraints", GA_PART_REFUSED, NULL, NULL},
    {"forced_bos_token_id", GA_PART_REFUSED, NULL, NULL},
    {"forced_eos_token_id", GA_PART_REFUSED, NULL, NULL},
    {"exponential_decay_length_penalty", GA_PART_REFUSED, NULL, NULL},
    {"suppress_tokens", GA_PART_REFUSED, NULL, NULL},
    {"begin_suppress_tokens", GA_PART_REFUSED, NULL, NULL},
    {"sequence_bias", GA_PART_REFUSED, NULL, NULL},
    {"token_healing", GA_PART_REFUSED, NULL, NULL},
    {"guidance_scale", GA_PART_REFUSED, NULL, "[1]"},
    {"watermarking_config", GA_PART_REFUSED, NULL, NULL},
    {0}};
const ga_part_table ga_hf_generation_parts = {
    "generation_config.json", NULL, generation_rows,
    "transformers' GenerationConfig has no such field, so it does not change what is generated there either"};

/* Appends an id, or the ids of an array, to the list. */
static ga_status add_ids(json_t *ids, json_t *value) {
  const size_t n = json_is_array(value) ? json_array_size(value) : value && !json_is_null(value);
  for (size_t i = 0; i < n; i++) {
    json_t *id = json_is_array(value) ? json_array_get(value, i) : value;
    GA_REQUIRE(json_is_integer(id), GA_ERR_FORMAT, "'eos_token_id': is %s; must be an integer or an array of integers",
               ga_json_type_name(id));
    bool is_there = false;
    for (size_t k = 0; k < json_array_size(ids); k++) is_there = is_there || json_equal(json_array_get(ids, k), id);
    GA_REQUIRE(is_there || !json_array_append(ids, id), GA_ERR_NOMEM, "out of memory");
  }
  return GA_OK;
}

static ga_status merge_ends(const json_t *generation, json_t *config, const char *inside, json_t *ids) {
  json_t *own = json_object_get(config, "eos_token_id"), *more = json_object_get(generation, "eos_token_id");
  if (own && !json_is_null(own) && !json_is_integer(own) && !json_is_array(own)) return GA_OK; /* refused later */
  ga_status status = add_ids(ids, own);
  if (status) return ga_fail_in(status, "config.json");
  if (!json_array_size(ids) && inside)
    GA_TRY(add_ids(ids, json_object_get(json_object_get(config, inside), "eos_token_id")));
  status = add_ids(ids, more);
  if (status) return ga_fail_in(status, "generation_config.json");
  GA_REQUIRE(!json_array_size(ids) || !json_object_set(config, "eos_token_id", ids), GA_ERR_NOMEM, "out of memory");
  return GA_OK;
}

ga_status ga_hf_generation_apply(const json_t *generation, json_t *config, const char *inside) {
  GA_TRY(ga_parts_check(&ga_hf_generation_parts, NULL, generation));
  json_t *ids = json_array();
  GA_REQUIRE(ids, GA_ERR_NOMEM, "generation_config.json: out of memory");
  const ga_status status = merge_ends(generation, config, inside, ids);
  json_decref(ids);
  return status;
}
