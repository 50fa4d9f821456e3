#include "token/tok_parts.h"

#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/json.h"
#include "base/status.h"

/* clang-format off */

#define READ    GA_PART_READ
#define REFUSED GA_PART_REFUSED
#define IGNORED GA_PART_IGNORED

#define OFFSETS      "changes the offsets of tokens alone, which GA does not have"
#define RESET        "transformers sets it anew with each call; "

/* --- tokenizer.json --- */

static const ga_part json_rows[] = {
    {"version",                        IGNORED, "all files say 1.0", NULL},
    {"truncation",                     IGNORED, RESET "GA refuses texts that exceed the context", NULL},
    {"padding",                        IGNORED, RESET "GA pads no texts", NULL},
    {"added_tokens",                   READ,    NULL, NULL},
    {"added_tokens.*.id",              READ,
     "ids beyond the rows of the embedding are left out, unless the token is a normal one", NULL},
    {"added_tokens.*.content",         READ,    NULL, NULL},
    {"added_tokens.*.special",         READ,    "true: a control token", NULL},
    {"added_tokens.*.normalized",      READ,
     "true: found in the normalised text; control tokens are always found in the raw text", NULL},
    {"added_tokens.*.single_word",     READ,    NULL, NULL},
    {"added_tokens.*.lstrip",          READ,    NULL, NULL},
    {"added_tokens.*.rstrip",          READ,    NULL, NULL},
    {"normalizer",                     READ,    "a step, or a Sequence of steps", NULL},
    {"pre_tokenizer",                  READ,    "a step, or a Sequence of steps", NULL},
    {"post_processor",                 READ,    "a step, or a Sequence of steps", NULL},
    {"decoder",                        READ,    "a step, or a Sequence of steps", NULL},
    {"model",                          READ,    "of type BPE, WordPiece or Unigram", NULL},
    {0}};
const ga_part_table tok_parts_json = {"tokenizer.json", NULL, json_rows, NULL};

static const ga_part bpe_rows[] = {
    {"type",                           READ,    NULL, NULL},
    {"vocab",                          READ,    NULL, NULL},
    {"merges",                         READ,    "texts \"left right\" or pairs of texts", NULL},
    {"unk_token",                      READ,    "for characters without a token", NULL},
    {"fuse_unk",                       READ,    NULL, NULL},
    {"byte_fallback",                  READ,    "true, without ByteLevel: SentencePiece's BPE", NULL},
    {"ignore_merges",                  READ,    "with ByteLevel alone", NULL},
    {"dropout",                        REFUSED, "ids would be random", "[0]"},
    {"continuing_subword_prefix",      REFUSED, "GA has no BPE with marks inside of words", NULL},
    {"end_of_word_suffix",             REFUSED, "GA has no BPE with marks at the ends of words", NULL},
    {"cache_capacity",                 IGNORED, "speed alone", NULL},
    {0}};
const ga_part_table tok_parts_bpe = {"tokenizer.json", "model of type BPE", bpe_rows, NULL};

static const ga_part wordpiece_rows[] = {
    {"type",                           READ,    NULL, NULL},
    {"vocab",                          READ,    NULL, NULL},
    {"unk_token",                      READ,    NULL, NULL},
    {"continuing_subword_prefix",      READ,    "any text; `##` where it is absent", NULL},
    {"max_input_chars_per_word",       READ,    "1 to 4096; 100 where it is absent", NULL},
    {0}};
const ga_part_table tok_parts_wordpiece = {"tokenizer.json", "model of type WordPiece", wordpiece_rows, NULL};

static const ga_part unigram_rows[] = {
    {"type",                           READ,    NULL, NULL},
    {"vocab",                          READ,    NULL, NULL},
    {"unk_id",                         READ,    NULL, NULL},
    {"byte_fallback",                  READ,    NULL, NULL},
    {0}};
const ga_part_table tok_parts_unigram = {"tokenizer.json", "model of type Unigram", unigram_rows, NULL};

/* --- steps; the first row of a table is its type --- */

#define STEP(name, list, type, ...) \
    static const ga_part name##_rows[] = {{"type", READ, NULL, NULL}, __VA_ARGS__ {0}}; \
    static const ga_part_table name = {"tokenizer.json", list " " type, name##_rows, NULL}

STEP(n_sequence, "normalizer", "Sequence", {"normalizers", READ, "at most 64 steps in all", NULL},);
STEP(n_bert, "normalizer", "BertNormalizer",
    {"clean_text",                     READ,    NULL, NULL},
    {"handle_chinese_chars",           READ,    NULL, NULL},
    {"strip_accents",                  READ,    "null: as lowercase", NULL},
    {"lowercase",                      READ,    NULL, NULL},);
STEP(n_lowercase, "normalizer", "Lowercase",);
STEP(n_nfc, "normalizer", "NFC",);
STEP(n_nfd, "normalizer", "NFD",);
STEP(n_nfkc, "normalizer", "NFKC",);
STEP(n_nfkd, "normalizer", "NFKD",);
STEP(n_nmt, "normalizer", "Nmt",);
STEP(n_accents, "normalizer", "StripAccents",);
STEP(n_strip, "normalizer", "Strip",
    {"strip_left",                     READ,    NULL, NULL},
    {"strip_right",                    READ,    NULL, NULL},);
STEP(n_prepend, "normalizer", "Prepend", {"prepend", READ, NULL, NULL},);
STEP(n_replace, "normalizer", "Replace",
    {"pattern.String",                 READ,    NULL, NULL},
    {"pattern.Regex",                  READ,    "a space or `\\s`, with `+` or `{n,}`; Unigram: ` {2,}`", NULL},
    {"content",                        READ,    NULL, NULL},);
STEP(n_precompiled, "normalizer", "Precompiled", {"precompiled_charsmap", READ, "with Unigram alone", NULL},);

STEP(p_sequence, "pre_tokenizer", "Sequence", {"pretokenizers", READ, NULL, NULL},);
STEP(p_bytes, "pre_tokenizer", "ByteLevel",
    {"add_prefix_space",               READ,    "true: as the only step", NULL},
    {"use_regex",                      READ,    NULL, NULL},
    {"trim_offsets",                   IGNORED, OFFSETS, NULL},);
STEP(p_split, "pre_tokenizer", "Split",
    {"pattern.Regex",                  READ,    "the pattern of a pre-splitter that GA has", NULL},
    {"pattern.String",                 READ,    "a space, where the normalizer leaves none", NULL},
    {"behavior",                       READ,    NULL, NULL},
    {"invert",                         READ,    NULL, NULL},);
STEP(p_digits, "pre_tokenizer", "Digits", {"individual_digits", READ, "true", NULL},);
STEP(p_metaspace, "pre_tokenizer", "Metaspace",
    {"replacement",                    READ,    "U+2581", NULL},
    {"prepend_scheme",                 READ,    "first, always or never", NULL},
    {"add_prefix_space",               READ,    "false: never", NULL},
    {"split",                          READ,    NULL, NULL},
    {"str_rep",                        IGNORED, "the replacement once more", NULL},);
STEP(p_bert, "pre_tokenizer", "BertPreTokenizer",);
STEP(p_white, "pre_tokenizer", "WhitespaceSplit",);
STEP(p_words, "pre_tokenizer", "Whitespace",);
STEP(p_punct, "pre_tokenizer", "Punctuation", {"behavior", READ, "Isolated", NULL},);

STEP(o_sequence, "post_processor", "Sequence", {"processors", READ, NULL, NULL},);
STEP(o_template, "post_processor", "TemplateProcessing",
    {"single",                         READ,    NULL, NULL},
    {"single.*.Sequence.id",           READ,    "`A`, once", NULL},
    {"single.*.Sequence.type_id",      REFUSED, "GA gives all tokens of a text the type 0", "[0]"},
    {"single.*.SpecialToken.id",       READ,    "any number of tokens on either side", NULL},
    {"single.*.SpecialToken.type_id",  REFUSED, "GA gives all tokens of a text the type 0", "[0]"},
    {"pair",                           IGNORED, "rerankers join two texts as their families do", NULL},
    {"special_tokens.*.id",            IGNORED, "the key once more", NULL},
    {"special_tokens.*.ids",           READ,    NULL, NULL},
    {"special_tokens.*.tokens",        IGNORED, "names of the ids", NULL},);
STEP(o_bert, "post_processor", "BertProcessing",
    {"cls",                            READ,    NULL, NULL},
    {"sep",                            READ,    NULL, NULL},);
STEP(o_roberta, "post_processor", "RobertaProcessing",
    {"cls",                            READ,    NULL, NULL},
    {"sep",                            READ,    NULL, NULL},
    {"trim_offsets",                   IGNORED, OFFSETS, NULL},
    {"add_prefix_space",               IGNORED, OFFSETS, NULL},);
STEP(o_bytes, "post_processor", "ByteLevel",
    {"add_prefix_space",               IGNORED, OFFSETS, NULL},
    {"trim_offsets",                   IGNORED, OFFSETS, NULL},
    {"use_regex",                      IGNORED, OFFSETS, NULL},);

STEP(d_sequence, "decoder", "Sequence", {"decoders", READ, NULL, NULL},);
STEP(d_bytes, "decoder", "ByteLevel",
    {"add_prefix_space",               IGNORED, "a decoder does not use it", NULL},
    {"trim_offsets",                   IGNORED, "a decoder does not use it", NULL},
    {"use_regex",                      IGNORED, "a decoder does not use it", NULL},);
STEP(d_replace, "decoder", "Replace",
    {"pattern.String",                 READ,    "U+2581", NULL},
    {"content",                        READ,    "a space", NULL},);
STEP(d_fallback, "decoder", "ByteFallback",);
STEP(d_fuse, "decoder", "Fuse",);
STEP(d_strip, "decoder", "Strip",
    {"content",                        READ,    "a space", NULL},
    {"start",                          READ,    "0 or 1", NULL},
    {"stop",                           REFUSED, "GA has no decoder that removes the end of a text", "[0]"},);
STEP(d_metaspace, "decoder", "Metaspace",
    {"replacement",                    READ,    "U+2581", NULL},
    {"prepend_scheme",                 READ,    "never: the first space stays", NULL},
    {"add_prefix_space",               READ,    "false: never", NULL},
    {"split",                          IGNORED, "a decoder does not use it", NULL},
    {"str_rep",                        IGNORED, "the replacement once more", NULL},);
STEP(d_wordpiece, "decoder", "WordPiece",
    {"prefix",                         IGNORED, "models with WordPiece write no text", NULL},
    {"cleanup",                        IGNORED, "models with WordPiece write no text", NULL},);

/* --- tokenizer_config.json --- */

#define MARKS_TOKEN "a text, or an object with `content`"
#define PADS        "GA pads and cuts no texts"

/* Rows that tokenizer_config.json and special_tokens_map.json share. */
#define MARK_ROWS \
    {"bos_token",                      READ,    MARKS_TOKEN, NULL}, \
    {"eos_token",                      READ,    MARKS_TOKEN, NULL}, \
    {"unk_token",                      READ,    MARKS_TOKEN, NULL}, \
    {"sep_token",                      READ,    MARKS_TOKEN, NULL}, \
    {"pad_token",                      READ,    MARKS_TOKEN, NULL}, \
    {"cls_token",                      READ,    MARKS_TOKEN, NULL}, \
    {"mask_token",                     READ,    MARKS_TOKEN, NULL}
#define SPECIAL_ROWS \
    {"additional_special_tokens",      READ,    "tokens of the vocabulary become control tokens", NULL}, \
    {"extra_special_tokens",           READ,    "tokens of the vocabulary become control tokens", NULL}

static const ga_part config_rows[] = {
    {"add_bos_token",                  READ,
     "true: the text begins with bos; false: bos of the template is left out", NULL},
    {"add_eos_token",                  READ,
     "true: the text ends with eos; false: eos of the template is left out", NULL},
    MARK_ROWS,
    {"added_tokens_decoder",           READ,    "id, then the fields of added_tokens, which it replaces", NULL},
    SPECIAL_ROWS,
    {"do_lower_case",                  READ,    "with BertTokenizer: replaces lowercase of BertNormalizer", NULL},
    {"strip_accents",                  READ,    "with BertTokenizer: replaces strip_accents of BertNormalizer", NULL},
    {"tokenize_chinese_chars",         READ,
     "with BertTokenizer: replaces handle_chinese_chars of BertNormalizer", NULL},
    {"tokenizer_class",                READ,
     "BertTokenizer and its kin alone; other classes leave tokenizer.json as it is", NULL},
    {"chat_template",                  READ,    "a text or a list of templates", NULL},
    {"add_prefix_space",               IGNORED, "tokenizer.json has it in its steps", NULL},
    {"legacy",                         IGNORED, "tokenizer.json has its effect in its steps", NULL},
    {"clean_up_tokenization_spaces",   IGNORED,
     "would change whole texts after decoding; GA writes each token as it is", NULL},
    {"spaces_between_special_tokens",  IGNORED, "used by transformers without tokenizer.json alone", NULL},
    {"split_special_tokens",           IGNORED, "a caller says whether texts may hold control tokens", NULL},
    {"model_max_length",               IGNORED, "the context is that of config.json", NULL},
    {"max_length",                     IGNORED, PADS, NULL},
    {"padding",                        IGNORED, PADS, NULL},
    {"padding_side",                   IGNORED, PADS, NULL},
    {"pad_to_multiple_of",             IGNORED, PADS, NULL},
    {"pad_token_type_id",              IGNORED, PADS, NULL},
    {"truncation",                     IGNORED, PADS, NULL},
    {"truncation_side",                IGNORED, PADS, NULL},
    {"truncation_strategy",            IGNORED, PADS, NULL},
    {"stride",                         IGNORED, PADS, NULL},
    {"errors",                         IGNORED, "GA always writes U+FFFD for broken bytes", NULL},
    {"sp_model_kwargs",                IGNORED, "used by transformers without tokenizer.json alone", NULL},
    {"do_basic_tokenize",              IGNORED, "used by transformers without tokenizer.json alone", NULL},
    {"never_split",                    IGNORED, "used by transformers without tokenizer.json alone", NULL},
    {"model_input_names",              IGNORED, "names of arrays in Python", NULL},
    {"auto_map",                       IGNORED, "Python code, which GA does not run", NULL},
    {0}};
const ga_part_table tok_parts_config = {"tokenizer_config.json", NULL, config_rows,
    "transformers keeps settings that a class does not know, without effect on ids"};

static const ga_part map_rows[] = {
    MARK_ROWS,
    SPECIAL_ROWS,
    {0}};
const ga_part_table tok_parts_map = {"special_tokens_map.json",
    "comes before tokenizer_config.json where that has no added_tokens_decoder", map_rows,
    "transformers keeps names of further tokens, without effect on ids"};

/* --- GGUF --- */

#define GGML(key)     "tokenizer.ggml." key
#define DEFAULT_ID    "-1: that of the model's kind"
#define OTHER_KINDS   "GA has the models llama, gpt2, bert and t5"

static const ga_part gguf_rows[] = {
    {GGML("model"),                    READ,    "llama, gpt2, bert, t5 or gemma4", NULL},
    {GGML("pre"),                      READ,    "a pre-splitter that GA has", NULL},
    {GGML("tokens"),                   READ,    NULL, NULL},
    {GGML("token_type"),               READ,    NULL, NULL},
    {GGML("scores"),                   READ,    "floats or integers", NULL},
    {GGML("merges"),                   READ,    "of gpt2 and gemma4; llama merges by scores", NULL},
    {GGML("bos_token_id"),             READ,    DEFAULT_ID, NULL},
    {GGML("eos_token_id"),             READ,    DEFAULT_ID, NULL},
    {GGML("eot_token_id"),             READ,    DEFAULT_ID, NULL},
    {GGML("eom_token_id"),             READ,    DEFAULT_ID, NULL},
    {GGML("unknown_token_id"),         READ,    DEFAULT_ID, NULL},
    {GGML("seperator_token_id"),       READ,    DEFAULT_ID, NULL},
    {GGML("padding_token_id"),         READ,    DEFAULT_ID, NULL},
    {GGML("cls_token_id"),             READ,    DEFAULT_ID, NULL},
    {GGML("mask_token_id"),            READ,    DEFAULT_ID, NULL},
    {GGML("fim_pre_token_id"),         READ,    DEFAULT_ID, NULL},
    {GGML("fim_suf_token_id"),         READ,    DEFAULT_ID, NULL},
    {GGML("fim_mid_token_id"),         READ,    DEFAULT_ID, NULL},
    {GGML("fim_pad_token_id"),         READ,    DEFAULT_ID, NULL},
    {GGML("fim_rep_token_id"),         READ,    DEFAULT_ID, NULL},
    {GGML("fim_sep_token_id"),         READ,    DEFAULT_ID, NULL},
    {GGML("prefix_token_id"),          READ,    "the older name of fim_pre_token_id", NULL},
    {GGML("suffix_token_id"),          READ,    "the older name of fim_suf_token_id", NULL},
    {GGML("middle_token_id"),          READ,    "the older name of fim_mid_token_id", NULL},
    {GGML("eos_token_ids"),            READ,    "further ids that end generation", NULL},
    {GGML("add_bos_token"),            READ,    "bert always adds cls", NULL},
    {GGML("add_eos_token"),            READ,    "bert always adds its separator", NULL},
    {GGML("add_sep_token"),            IGNORED,
     "bert always adds its separator; elsewhere it stands between two texts", NULL},
    {GGML("add_space_prefix"),         READ,    "llama and t5 alone", NULL},
    {GGML("remove_extra_whitespaces"), READ,    "llama and t5 alone", NULL},
    {GGML("precompiled_charsmap"),     READ,    "t5 alone", NULL},
    {GGML("normalizer.lowercase"),     READ,    "bert alone", NULL},
    {GGML("normalizer.strip_accents"), READ,    "bert alone; as normalizer.lowercase where it is absent", NULL},
    {GGML("normalizer.nfc"),           READ,    "gpt2 and llama alone", NULL},
    {GGML("added_tokens"),             REFUSED, "GA takes added tokens from tokens and token_type", NULL},
    {GGML("suppress_tokens"),          REFUSED,
     "GA has no list of tokens that are never drawn; `logit_bias` of a request bans them", NULL},
    {GGML("token_type_count"),         IGNORED, "the embedding of token types says how many there are", NULL},
    {GGML("seperator_token"),          IGNORED, "a text; the id counts", NULL},
    {"tokenizer.chat_template",        READ,    NULL, NULL},
    {"tokenizer.chat_template.*",      READ,    "templates by name", NULL},
    {"tokenizer.chat_templates",       READ,    "names of templates", NULL},
    {"tokenizer.huggingface.json",     IGNORED, "the same tokenizer once more, for other programs", NULL},
    {"ga.tokenizer.json",              READ,
     "by `ga convert`: parts of tokenizer.json that other keys cannot hold", NULL},
    {"ga.tokenizer.unigram",           READ,    "by `ga convert`: how t5 and llama treat spaces", NULL},
    {"ga.tokenizer.ignore_merges",     READ,    "by `ga convert`: whole words before merges", NULL},
    {"ga.tokenizer.cased",             READ,    "by older versions of GA: neither lowercase nor strip_accents", NULL},
    {"tokenizer.rwkv.world",           REFUSED, OTHER_KINDS, NULL},
    {0}};
const ga_part_table tok_parts_gguf = {"GGUF", "keys that begin with `tokenizer.` or `ga.tokenizer.`", gguf_rows, NULL};

#define STEP_TABLES \
    &n_sequence, &n_bert, &n_lowercase, &n_nfc, &n_nfd, &n_nfkc, &n_nfkd, &n_nmt, &n_accents, &n_strip, &n_prepend, \
    &n_replace, &n_precompiled, \
    &p_sequence, &p_bytes, &p_split, &p_digits, &p_metaspace, &p_bert, &p_white, &p_words, &p_punct, \
    &o_sequence, &o_template, &o_bert, &o_roberta, &o_bytes, \
    &d_sequence, &d_bytes, &d_replace, &d_fallback, &d_fuse, &d_strip, &d_metaspace, &d_wordpiece
static const ga_part_table *const step_tables[] = {STEP_TABLES};

/* clang-format on */

/* Returns the type of a table of steps of the list; NULL: the table is of another list. */
static const char *step_type(const ga_part_table *table, const char *list) {
  const size_t n = strlen(list);
  return !strncmp(table->what, list, n) && table->what[n] == ' ' ? table->what + n + 1 : NULL;
}

static ga_status refuse_type(const char *list, const json_t *step) {
  const json_t *type = ga_json_at(step, "type");
  char known[256] = "";
  for (size_t i = 0; i < GA_COUNT_OF(step_tables); i++) {
    const char *name = step_type(step_tables[i], list);
    if (name) (void)snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", *known ? ", " : "", name);
  }
  return ga_fail(GA_ERR_UNSUPPORTED, "tokenizer.json: %s '%s'; GA has %s", list,
                 json_is_string(type) ? ga_quote(json_string_value(type), json_string_length(type)).text
                                      : ga_json_type_name(type),
                 known);
}

ga_status tok_parts_check_step(const char *list, const json_t *step) {
  const char *type = json_string_value(ga_json_at(step, "type"));
  for (size_t i = 0; type && i < GA_COUNT_OF(step_tables); i++) {
    const char *name = step_type(step_tables[i], list);
    if (name && !strcmp(name, type)) return ga_parts_check(step_tables[i], step_tables[i]->what, step);
  }
  return refuse_type(list, step);
}

const ga_part_table *const *tok_part_tables(size_t *count) {
  static const ga_part_table *const tables[] = {&tok_parts_json,    &tok_parts_bpe, &tok_parts_wordpiece,
                                                &tok_parts_unigram, STEP_TABLES,    &tok_parts_config,
                                                &tok_parts_map,     &tok_parts_gguf};
  *count = GA_COUNT_OF(tables);
  return tables;
}
