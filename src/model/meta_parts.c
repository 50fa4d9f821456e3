#include "model/meta_parts.h"

#include <string.h>

#include "base/compiler.h"
#include "base/json.h"
#include "base/status.h"

#define BY_RUN "by ga run, ga chat, ga serve and ga batch"

static const ga_part rope_rows[] = {
    {"*.rope.dimension_count", GA_PART_READ, NULL, NULL},
    {"*.rope.dimension_count_swa", GA_PART_READ, "of gemma4: of layers with a window", NULL},
    {"*.rope.freq_base", GA_PART_READ, NULL, NULL},
    {"*.rope.freq_base_swa", GA_PART_READ, "of layers with a window", NULL},
    {"*.rope.scaling.type", GA_PART_READ, "none, linear, yarn, longrope; absent with a factor: linear", NULL},
    {"*.rope.scaling.factor", GA_PART_READ, "0 is 1", NULL},
    {"*.rope.scale_linear", GA_PART_READ, "the older name of rope.scaling.factor", NULL},
    {"*.rope.scaling.original_context_length", GA_PART_READ,
     "a context of yarn or linear is at least this times the factor", NULL},
    {"*.rope.scaling.attn_factor", GA_PART_READ, NULL, NULL},
    {"*.rope.scaling.yarn_beta_fast", GA_PART_READ, NULL, NULL},
    {"*.rope.scaling.yarn_beta_slow", GA_PART_READ, NULL, NULL},
    {"*.rope.scaling.yarn_log_multiplier", GA_PART_READ, NULL, NULL},
    {"*.rope.scaling.low_freq_factor", GA_PART_READ, "of GA's own files, type llama3", NULL},
    {"*.rope.scaling.high_freq_factor", GA_PART_READ, "of GA's own files, type llama3", NULL},
    {"*.rope.scaling.yarn_ext_factor", GA_PART_REFUSED, "yarn extrapolates in full", "[1, -1]"},
    {"*.rope.scaling.yarn_attn_factor", GA_PART_READ, "of yarn: the whole magnitude (attention_factor); 1: not stated",
     NULL},
    {"*.rope.scaling.finetuned", GA_PART_IGNORED, "a note about the training", NULL},
    {0}};
const ga_part_table meta_parts_rope = {"GGUF", "keys *.rope.*", rope_rows, NULL};

static const ga_part pooling_rows[] = {
    {"*.pooling_type", GA_PART_READ, "of encoders: 1 (mean), 2 (CLS token), 3 (last token), 4 (rank: CLS token)", NULL},
    {0}};
const ga_part_table meta_parts_pooling = {"GGUF", "keys *.pooling*", pooling_rows, NULL};

static const ga_part sampling_rows[] = {
    {"general.sampling.temp", GA_PART_READ, BY_RUN, NULL},
    {"general.sampling.top_k", GA_PART_READ, BY_RUN, NULL},
    {"general.sampling.top_p", GA_PART_READ, BY_RUN, NULL},
    {"general.sampling.min_p", GA_PART_READ, BY_RUN, NULL},
    {"general.sampling.penalty_repeat", GA_PART_READ, BY_RUN, NULL},
    {"general.sampling.penalty_last_n", GA_PART_REFUSED, "penalties count the last 64 tokens", "[64]"},
    {"general.sampling.xtc_probability", GA_PART_REFUSED, "GA has no XTC sampler", "[0]"},
    {"general.sampling.xtc_threshold", GA_PART_IGNORED, "of XTC, which must be off", NULL},
    {"general.sampling.mirostat", GA_PART_REFUSED, "GA has no mirostat", "[0]"},
    {"general.sampling.mirostat_tau", GA_PART_IGNORED, "of mirostat, which must be off", NULL},
    {"general.sampling.mirostat_eta", GA_PART_IGNORED, "of mirostat, which must be off", NULL},
    {"general.sampling.sequence", GA_PART_REFUSED, "GA has one order of samplers", NULL},
    {0}};
const ga_part_table meta_parts_sampling = {"GGUF", "keys general.sampling.*", sampling_rows, NULL};

const ga_part_table *const *meta_part_tables(size_t *count) {
  static const ga_part_table *const tables[] = {&meta_parts_rope, &meta_parts_pooling, &meta_parts_sampling};
  *count = GA_COUNT_OF(tables);
  return tables;
}

static ga_status element_json(const ga_meta *meta, int64_t i, json_t **out) {
  int64_t n = 0;
  double x = 0;
  bool b = false;
  ga_text text = {0};
  switch (ga_meta_elem_type(meta)) {
  case GA_META_F32:
  case GA_META_F64: GA_TRY(ga_meta_float(meta, i, &x)); break;
  case GA_META_BOOL: GA_TRY(ga_meta_bool(meta, i, &b)); break;
  case GA_META_TEXT: GA_TRY(ga_meta_text(meta, i, &text)); break;
  default: GA_TRY(ga_meta_int(meta, i, &n)); break;
  }
  const ga_meta_type type = ga_meta_elem_type(meta);
  *out = type == GA_META_F32 || type == GA_META_F64 ? json_real(x)
         : type == GA_META_BOOL                     ? json_boolean(b)
         : type == GA_META_TEXT                     ? json_stringn(text.data, text.bytes)
                                                    : json_integer(n);
  GA_REQUIRE(*out, GA_ERR_FORMAT, "metadata '%s': no number, and no text in UTF-8", ga_meta_key(meta));
  return GA_OK;
}

static ga_status check_meta_row(const char *label, const ga_part *row, const ga_meta *meta) {
  json_t *value = NULL;
  bool allowed = false;
  if (row->use != GA_PART_REFUSED) return GA_OK;
  for (int64_t i = 0; i < ga_meta_count(meta); i++) {
    GA_TRY(element_json(meta, i, &value));
    const ga_status status = ga_part_allows(row, value, &allowed);
    json_decref(value);
    GA_TRY(status);
    GA_REQUIRE(allowed, GA_ERR_UNSUPPORTED,
               "%s: metadata '%s' has a value that GA does not have; must be absent%s%s%s%s", label, ga_meta_key(meta),
               row->allowed ? " or one of " : "", row->allowed ? row->allowed : "", row->note ? ": " : "",
               row->note ? row->note : "");
  }
  return GA_OK;
}

/* The table that a key belongs to; NULL: none of them. */
static const ga_part_table *parts_of_key(const char *key) {
  if (!strncmp(key, "general.sampling.", strlen("general.sampling."))) return &meta_parts_sampling;
  const char *dot = strchr(key, '.');
  if (!dot || !strncmp(key, "tokenizer.", strlen("tokenizer.")) || !strncmp(key, "general.", strlen("general.")))
    return NULL;
  if (!strncmp(dot, ".rope.", strlen(".rope."))) return &meta_parts_rope;
  return !strncmp(dot, ".pooling", strlen(".pooling")) ? &meta_parts_pooling : NULL;
}

ga_status meta_parts_check(const ga_model_file *file) {
  if (ga_model_file_format(file) != GA_MODEL_GGUF) return GA_OK;
  const char *label = ga_path_label(ga_model_file_shard_path(file, 0));
  for (int64_t i = 0; i < ga_model_file_meta_count(file); i++) {
    const ga_meta *meta = ga_model_file_meta_at(file, i);
    const char *key = ga_meta_key(meta);
    const ga_part_table *table = parts_of_key(key);
    const ga_part *row = table ? ga_parts_find(table, key) : NULL;
    GA_REQUIRE(!table || row, GA_ERR_UNSUPPORTED,
               "%s: metadata '%s' is not known; docs/reference/model-files.md has the %s that are", label, key,
               table ? table->what : "");
    if (row) GA_TRY(check_meta_row(label, row, meta));
  }
  return GA_OK;
}
