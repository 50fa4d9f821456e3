#include "token/tok_parts.h"

#include "base/compiler.h"

static const ga_part json_rows[] = {
    {"version", GA_PART_IGNORED, "all files say 1.0", NULL},
    {"truncation", GA_PART_IGNORED, "transformers resets it with each call; GA refuses texts that exceed the context",
     NULL},
    {"padding", GA_PART_IGNORED, "transformers resets it with each call; GA pads no texts", NULL},
    {"added_tokens", GA_PART_READ, NULL, NULL},
    {"normalizer", GA_PART_READ, NULL, NULL},
    {"pre_tokenizer", GA_PART_READ, NULL, NULL},
    {"post_processor", GA_PART_READ, NULL, NULL},
    {"decoder", GA_PART_READ, NULL, NULL},
    {"model", GA_PART_READ, NULL, NULL},
    {0}};
const ga_part_table tok_parts_json = {"tokenizer.json", NULL, json_rows, NULL};

const ga_part_table *const *tok_part_tables(size_t *count) {
  static const ga_part_table *const tables[] = {&tok_parts_json};
  *count = GA_COUNT_OF(tables);
  return tables;
}
