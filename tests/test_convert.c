/* Folders of safetensors as GGUF: every architecture of tests/data/arch gives what transformers gave for the folder,
 * the tokenizer gives the same ids, and what cannot be written is refused. */
#include <math.h>

#include "base/text.h"
#include "ga/quantize.h"
#include "tests/model_bytes.h"

enum { TOKENS = 40, VOCAB = 96, WIDTH = 64 };

static double want[TOKENS][VOCAB];
static int32_t ids[TOKENS];
static float got[TOKENS * VOCAB];

/* --- folders ----------------------------------------------------------------------------------------------------- */

/* Bytes a to z, some merges of them, a control token: fewer than the embedding's 96 rows. */
#define LETTERS                                                                                                        \
  "\"a\":0,\"b\":1,\"c\":2,\"d\":3,\"e\":4,\"f\":5,\"g\":6,\"h\":7,\"i\":8,\"j\":9,\"k\":10,\"l\":11,\"m\":12,"        \
  "\"n\":13,\"o\":14,\"p\":15,\"q\":16,\"r\":17,\"s\":18,\"t\":19,\"u\":20,\"v\":21,\"w\":22,\"x\":23,\"y\":24,\"z\":" \
  "25"
#define ADDED                                                                                                       \
  "\"added_tokens\":[{\"id\":60,\"content\":\"<end>\",\"special\":true},{\"id\":61,\"content\":\"<<\",\"special\":" \
  "false}]"

static const char bpe_tokens[] =
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{" LETTERS ",\"\xC4\xA0\":26,\"th\":27,\"the\":28,\"\xC4\xA0the\":29},"
    "\"merges\":[\"t h\",\"th e\",\"\xC4\xA0 the\"]},"
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}," ADDED "}";
static const char spm_tokens[] =
    "{\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"unk_token\":\"<unk>\",\"vocab\":{" LETTERS
    ",\"\xE2\x96\x81\":26,\"th\":27,\"the\":28,\"\xE2\x96\x81the\":29,\"<unk>\":30,\"<0x21>\":31},"
    "\"merges\":[\"t h\",\"th e\",\"\xE2\x96\x81 the\"]},"
    "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\xE2\x96\x81\"}," ADDED "}";
static const char wpm_tokens[] =
    "{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"vocab\":{" LETTERS
    ",\"the\":26,\"##m\":27,\"##n\":28,\"[UNK]\":30,\"[CLS]\":31,\"[SEP]\":32}},"
    "\"normalizer\":{\"type\":\"BertNormalizer\",\"lowercase\":true},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
    "\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"[CLS]\",31],\"sep\":[\"[SEP]\",32]}," ADDED "}";
#define UGM_PIECE(s) ",[\"" s "\",-3]"
static const char ugm_tokens[] =
    "{\"model\":{\"type\":\"Unigram\",\"unk_id\":3,\"vocab\":[[\"<s>\",0],[\"<pad>\",0],[\"</s>\",0],[\"<unk>\",0]"
    ",[\"\xE2\x96\x81\",-2],[\"\xE2\x96\x81the\",-5]" UGM_PIECE("t") UGM_PIECE("h") UGM_PIECE("e") UGM_PIECE("n")
        UGM_PIECE("he") "]},\"normalizer\":{\"type\":\"Strip\",\"strip_left\":false,\"strip_right\":true},"
                        "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\",\"prepend_scheme\":"
                        "\"always\"},"
                        "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<"
                        "s>\"}},{\"Sequence\":"
                        "{\"id\":\"A\"}},{\"SpecialToken\":{\"id\":\"</s>\"}}]}," ADDED "}";
static const char settings[] = "{\"eos_token\":\"<end>\",\"add_bos_token\":false,\"chat_template\":"
                               "\"{% for m in messages %}{{ m.content }}{% endfor %}\"}";

static void link_file(const char *arch, const char *name) {
  char path[600];
  (void)snprintf(path, sizeof path, "%s/arch/%s/%s", GA_TEST_DATA, arch, name);
  (void)unlink(in_folder(name));
  assert_int_equal(symlink(path, in_folder(name)), 0);
}

static const char *tokens_for(const char *arch) {
  if (!strcmp(arch, "xlm_roberta")) return ugm_tokens;
  if (!strcmp(arch, "bert") || !strcmp(arch, "jina_bert_v2")) return wpm_tokens;
  return !strcmp(arch, "gemma3") ? spm_tokens : bpe_tokens;
}

static void fill_folder(const char *arch) {
  link_file(arch, "config.json");
  link_file(arch, "model.safetensors");
  put_file_text("tokenizer.json", tokens_for(arch));
  put_file_text("tokenizer_config.json", settings);
}

static ga_status convert(const char *type) {
  ga_quantize_options o = GA_QUANTIZE_OPTIONS_INIT;
  o.type = type;
  o.overwrite = true;
  o.n_threads = 2;
  char out[512];
  (void)snprintf(out, sizeof out, "%s", in_folder("out.gguf"));
  return ga_quantize_file(test_folder, out, &o);
}

static void must_convert(const char *type) {
  if (convert(type) != GA_OK) fail_msg("%s", ga_error_text());
}

/* --- what it computes -------------------------------------------------------------------------------------------- */

static void read_wanted(const char *arch, bool is_encoder) {
  char path[600], word[16];
  (void)snprintf(path, sizeof path, "%s/arch/%s/expected.txt", GA_TEST_DATA, arch);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  while (getc(f) != '\n') {
  }
  assert_int_equal(fscanf(f, "%15s %*d", word), 1);
  for (int i = 0; i < TOKENS; i++) assert_int_equal(fscanf(f, "%d", &ids[i]), 1);
  for (int r = 0; r < (is_encoder ? 1 : TOKENS); r++) {
    assert_int_equal(fscanf(f, "%15s", word), 1);
    for (int c = 0; c < (is_encoder ? WIDTH : VOCAB); c++) assert_int_equal(fscanf(f, "%lf", &want[r][c]), 1);
  }
  (void)fclose(f);
}

static double worst_error(int rows, int width) {
  double worst = 0, sum = 0;
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < width; c++) {
      worst = fmax(worst, fabs((double)got[r * width + c] - want[r][c]));
      sum += want[r][c] * want[r][c];
    }
  return worst / sqrt(sum / rows / width);
}

static double run_file(const char *arch) {
  ga_ctx *ctx;
  ga_model *model;
  ga_session *session;
  assert_int_equal(ga_ctx_create(&(ga_ctx_options){.struct_size = sizeof(ga_ctx_options), .device = "cpu"}, &ctx),
                   GA_OK);
  if (ga_model_load(ctx, in_folder("out.gguf"), NULL, &model) != GA_OK) fail_msg("%s: %s", arch, ga_error_text());
  const bool is_encoder = ga_model_get_info(model)->is_encoder;
  read_wanted(arch, is_encoder);
  ga_session_options so = GA_SESSION_OPTIONS_INIT;
  so.kv_dtype = GA_F32;
  if (is_encoder) {
    assert_int_equal(ga_embed_ids(model, ids, TOKENS, got), GA_OK);
  } else {
    assert_int_equal(ga_session_create(model, &so, &session), GA_OK);
    assert_int_equal(ga_session_eval(session, ids, TOKENS, got, TOKENS, NULL, NULL), GA_OK);
    ga_session_destroy(session);
  }
  ga_model_destroy(model);
  ga_ctx_destroy(ctx);
  return is_encoder ? worst_error(1, WIDTH) : worst_error(TOKENS, VOCAB);
}

static void same_tokens(const char *arch) {
  static const char *const texts[] = {"the them <end> << ab", "", "  the!  The\nthen", "<<the<end>z"};
  ga_model_file *folder, *file;
  ga_tokenizer *a, *b;
  assert_ok(ga_model_file_open(test_folder, &folder));
  assert_ok(ga_model_file_open(in_folder("out.gguf"), &file));
  assert_ok(ga_tokenizer_from_model(folder, &a));
  assert_ok(ga_tokenizer_from_model(file, &b));
  assert_int_equal(ga_tokenizer_size(b), VOCAB);
  for (size_t i = 0; i < GA_COUNT_OF(texts); i++)
    for (uint32_t flags = 0; flags < 4; flags++) {
      int32_t x[64], y[64];
      size_t nx, ny;
      assert_ok(ga_tokenize(a, texts[i], strlen(texts[i]), flags, x, 64, &nx));
      assert_ok(ga_tokenize(b, texts[i], strlen(texts[i]), flags, y, 64, &ny));
      if (nx != ny || memcmp(x, y, nx * sizeof *x)) fail_msg("%s: other ids for '%s'", arch, texts[i]);
    }
  for (int s = GA_TOK_BOS; s <= GA_TOK_MASK; s++)
    if (ga_tokenizer_special(a, (ga_tok_special)s) != GA_TOK_NONE)
      assert_int_equal(ga_tokenizer_special(a, (ga_tok_special)s), ga_tokenizer_special(b, (ga_tok_special)s));
  ga_text text;
  assert_ok(ga_model_file_text(file, "tokenizer.chat_template", &text));
  assert_memory_equal(text.data, "{% for m in", 11);
  ga_tokenizer_destroy(a);
  ga_tokenizer_destroy(b);
  ga_model_file_destroy(folder);
  ga_model_file_destroy(file);
}

static bool is_in_fp8(const char *arch) { return ga_ends_with(arch, "_fp8"); }

static void check_convert(const char *arch) {
  fill_folder(arch);
  if (is_in_fp8(arch)) {
    assert_error(convert("f32"), GA_ERR_UNSUPPORTED, "weights in FP8 are not converted");
    return;
  }
  must_convert("f32");
  const double error = run_file(arch), bound = strcmp(arch, "phi3") ? 1e-5 : 2e-5; /* as in test_arch.c */
  if (!(error < bound)) fail_msg("%s: error %g, allowed %g", arch, error, bound);
  same_tokens(arch);
}

#define X(name)                                \
  static void test_arch_##name(void **state) { \
    (void)state;                               \
    check_convert(#name);                      \
  }
GA_TEST_ARCHS
#undef X

/* Codes and scales of MXFP4, which the folder has in another order, are copied. */
static void test_mxfp4_is_copied(void **state) {
  static const char *const names[] = {"blk.0.ffn_gate_exps.weight", "blk.1.ffn_up_exps.weight",
                                      "blk.1.ffn_down_exps.weight"};
  static uint8_t from[1 << 16], to[1 << 16];
  ga_model_file *folder, *file;
  (void)state;
  fill_folder("gpt_oss_mxfp4");
  must_convert("copy");
  assert_ok(ga_model_file_open(test_folder, &folder));
  assert_ok(ga_model_file_open(in_folder("out.gguf"), &file));
  for (size_t i = 0; i < GA_COUNT_OF(names); i++) {
    const ga_model_tensor *a = ga_model_file_find(folder, names[i]), *b = ga_model_file_find(file, names[i]);
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(b->view.dtype, GA_MXFP4);
    assert_true(a->bytes == b->bytes && a->bytes <= sizeof from);
    assert_ok(ga_model_file_read(folder, a, 0, from, a->bytes));
    assert_ok(ga_model_file_read(file, b, 0, to, b->bytes));
    assert_memory_equal(from, to, a->bytes);
  }
  ga_model_file_destroy(folder);
  ga_model_file_destroy(file);
}

/* --- what llama.cpp looks for ------------------------------------------------------------------------------------ */

static void expect_type(const ga_model_file *f, const char *key, ga_meta_type type) {
  const ga_meta *meta = ga_model_file_meta(f, key);
  if (!meta) fail_msg("%s is missing", key);
  assert_int_equal(ga_meta_type_of(meta), type);
}

static void test_converted_keys(void **state) {
  static const char *const counts[] = {
      "llama.block_count",          "llama.embedding_length", "llama.feed_forward_length",
      "llama.attention.head_count", "llama.context_length",   "llama.vocab_size",
      "llama.rope.dimension_count", "general.file_type",      "tokenizer.ggml.eos_token_id"};
  int64_t type;
  ga_model_file *f;
  (void)state;
  fill_folder("llama");
  must_convert("Q8_0");
  assert_ok(ga_model_file_open(in_folder("out.gguf"), &f));
  for (size_t i = 0; i < GA_COUNT_OF(counts); i++) expect_type(f, counts[i], GA_META_U32);
  expect_type(f, "llama.rope.freq_base", GA_META_F32);
  expect_type(f, "llama.attention.layer_norm_rms_epsilon", GA_META_F32);
  expect_type(f, "tokenizer.ggml.add_bos_token", GA_META_BOOL);
  expect_type(f, "general.name", GA_META_TEXT);
  for (int64_t i = 0; i < ga_model_file_meta_count(f); i++) {
    const char *key = ga_meta_key(ga_model_file_meta_at(f, i));
    assert_null(strstr(key, "rope_layout"));
    assert_null(strstr(key, "safetensors."));
  }
  assert_ok(ga_model_file_int(f, "general.file_type", 0, 99, &type));
  assert_int_equal(type, 7);
  assert_ok(ga_model_file_int(f, "general.quantization_version", 0, 99, &type));
  assert_int_equal(type, 2);
  assert_int_equal(ga_model_file_find(f, "blk.0.attn_q.weight")->view.dtype, GA_Q8_0);
  assert_int_equal(ga_model_file_find(f, "blk.0.attn_norm.weight")->view.dtype, GA_F32);
  ga_model_file_destroy(f);
}

/* Llama 3.1's frequencies become a tensor, and the keys that said so go. */
static void test_frequencies_of_llama3(void **state) {
  ga_model_file *f;
  (void)state;
  fill_folder("llama3");
  must_convert("f32");
  assert_ok(ga_model_file_open(in_folder("out.gguf"), &f));
  assert_non_null(ga_model_file_find(f, "rope_freqs.weight"));
  assert_null(ga_model_file_meta(f, "llama.rope.scaling.type"));
  assert_null(ga_model_file_meta(f, "llama.rope.scaling.low_freq_factor"));
  ga_model_file_destroy(f);
}

static void divisors_with(const char *rope, float *out) {
  char config[700];
  ga_model_file *f;
  assert_int_equal(unlink(in_folder("config.json")), 0);
  (void)snprintf(config, sizeof config,
                 "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":2,\"intermediate_size\":96,"
                 "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":16,\"vocab_size\":96,"
                 "\"rms_norm_eps\":1e-6,\"max_position_embeddings\":128,\"tie_word_embeddings\":true,"
                 "\"rope_scaling\":{\"rope_type\":\"llama3\"%s},\"rope_theta\":10000.0}",
                 rope);
  put_file_text("config.json", config);
  must_convert("f32");
  assert_ok(ga_model_file_open(in_folder("out.gguf"), &f));
  const ga_model_tensor *t = ga_model_file_find(f, "rope_freqs.weight");
  assert_non_null(t);
  assert_int_equal(t->bytes, 8 * sizeof(float));
  memcpy(out, t->view.data, t->bytes);
  ga_model_file_destroy(f);
}

/* What config.json does not state is what the loader of folders takes. */
static void test_frequencies_not_stated(void **state) {
  float stated[8], left[8];
  (void)state;
  fill_folder("llama3");
  divisors_with(",\"factor\":8.0,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
                "\"original_max_position_embeddings\":128",
                stated);
  divisors_with(",\"factor\":8.0", left);
  assert_memory_equal(left, stated, sizeof left);
  assert_true(left[0] == 1 && left[7] == 8);
  divisors_with("", left);
  for (int i = 0; i < 8; i++) assert_true(left[i] == 1);
}

/* Flags of layers become a number where every n-th is global. */
static void test_window_pattern(void **state) {
  static const struct {
    const char *types;
    int64_t every; /* 0: an array of flags */
  } cases[] = {{"\"sliding_attention\",\"full_attention\"", 2},
               {"\"full_attention\",\"full_attention\"", 1},
               {"\"full_attention\",\"sliding_attention\"", 0}};
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(cases); i++) {
    char config[900], out[256];
    ga_model_file *f;
    fill_folder("gemma3");
    assert_int_equal(unlink(in_folder("config.json")), 0);
    (void)snprintf(
        config, sizeof config,
        "{\"model_type\":\"gemma3_text\",\"hidden_size\":64,\"num_hidden_layers\":2,\"intermediate_size\":128,"
        "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":16,\"vocab_size\":96,"
        "\"sliding_window\":8,\"layer_types\":[%s]}",
        cases[i].types);
    put_file_text("config.json", config);
    (void)snprintf(out, sizeof out, "%s", in_folder("out.gguf"));
    must_convert("f32");
    assert_ok(ga_model_file_open(out, &f));
    const ga_meta *meta = ga_model_file_meta(f, "gemma3.attention.sliding_window_pattern");
    assert_non_null(meta);
    int64_t every = 0;
    if (ga_meta_type_of(meta) != GA_META_ARRAY) assert_ok(ga_meta_int(meta, 0, &every));
    assert_int_equal(every, cases[i].every);
    ga_model_file_destroy(f);
  }
}

/* An added token behind the embedding is left out, as gemma3's image token is. */
static void test_token_behind(void **state) {
  ga_model_file *f;
  ga_tokenizer *tok;
  (void)state;
  fill_folder("llama");
  put_file_text("tokenizer.json",
                "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]},"
                "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true},"
                "\"added_tokens\":[{\"id\":96,\"content\":\"<image>\",\"special\":true}]}");
  put_file_text("tokenizer_config.json", "{\"pad_token\":\"<image>\"}");
  must_convert("f32");
  assert_ok(ga_model_file_open(in_folder("out.gguf"), &f));
  assert_ok(ga_tokenizer_from_model(f, &tok));
  assert_int_equal(ga_tokenizer_size(tok), VOCAB);
  assert_int_equal(ga_tokenizer_special(tok, GA_TOK_PAD), GA_TOK_NONE);
  ga_tokenizer_destroy(tok);
  ga_model_file_destroy(f);
}

static void refuse_convert(const char *type, ga_status status, const char *part) {
  (void)unlink(in_folder("out.gguf"));
  assert_error(convert(type), status, part);
  assert_int_equal(access(in_folder("out.gguf"), F_OK), -1);
}

static void test_convert_refuses(void **state) {
  (void)state;
  fill_folder("llama");
  refuse_convert("q4", GA_ERR_ARG, "type 'q4' is not known; allowed: f32, f16");
  assert_int_equal(unlink(in_folder("tokenizer.json")), 0);
  refuse_convert("f32", GA_ERR_UNSUPPORTED, "no tokenizer.json beside the weights; must be there");
  put_file_text("tokenizer.json", "{");
  refuse_convert("f32", GA_ERR_FORMAT, "tokenizer.json");
  put_file_text("tokenizer.json", "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{}}}");
  refuse_convert("f32", GA_ERR_UNSUPPORTED, "model type WordLevel; must be BPE, WordPiece or Unigram");
  put_file_text("tokenizer.json",
                "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":96},\"merges\":[]},"
                "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}}");
  refuse_convert("f32", GA_ERR_FORMAT, "tokenizer: token 96 is 'b'; the embedding has 96");
  assert_error(ga_quantize_file("/nowhere", in_folder("out.gguf"), &(ga_quantize_options)GA_QUANTIZE_OPTIONS_INIT),
               GA_ERR_IO, "nowhere");
}

static void test_tensor_types_refused(void **state) {
  static const char *const bad[] = {"attn_v", "=q8_0", "attn_v=", "attn_v=q9_0", "attn_v=i32", "attn_v=Q8_0x", ""};
  (void)state;
  fill_folder("llama");
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char said[80];
    ga_quantize_options o = GA_QUANTIZE_OPTIONS_INIT;
    o.type = "f32";
    o.tensor_types = &bad[i], o.n_tensor_types = 1;
    (void)snprintf(said, sizeof said, "tensor type '%s'", bad[i]);
    assert_error(ga_quantize_file(test_folder, in_folder("types.gguf"), &o), GA_ERR_ARG, said);
    assert_int_equal(access(in_folder("types.gguf"), F_OK), -1);
  }
}

/* Rows of queries and of keys turn in pairs; heads of an odd number of rows have a row without one. */
static void test_rows_without_a_pair(void **state) {
  static const struct {
    int heads, kv_heads;
    const char *said;
  } cases[] = {{64, 32, "attn_k.weight': 32 rows of 32 heads; must be pairs of rows in each"},
               {3, 2, "attn_q.weight': 64 rows of 3 heads; must be pairs of rows in each"},
               {4, 3, "attn_k.weight': 32 rows of 3 heads; must be pairs of rows in each"},
               {4, 32, "attn_k.weight': 32 rows of 32 heads; must be pairs of rows in each"}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char config[600];
    fill_folder("llama");
    (void)snprintf(config, sizeof config,
                   "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":2,\"intermediate_size\":96,"
                   "\"num_attention_heads\":%d,\"num_key_value_heads\":%d,\"vocab_size\":96,\"rms_norm_eps\":1e-6,"
                   "\"max_position_embeddings\":128,\"rope_theta\":10000}",
                   cases[i].heads, cases[i].kv_heads);
    assert_int_equal(unlink(in_folder("config.json")), 0); /* a link to the test's data */
    put_file_text("config.json", config);
    refuse_convert("f32", GA_ERR_SHAPE, cases[i].said);
  }
}

/* Named templates: the new file has the one that the folder is used with. */
static void test_named_templates(void **state) {
  static const struct {
    const char *list, *want; /* want "": none */
  } cases[] = {{"[{\"name\":\"tool_use\",\"template\":\"A\"},{\"name\":\"default\",\"template\":\"B\"}]", "B"},
               {"[{\"name\":\"tool_use\",\"template\":\"A\"},{\"name\":\"rag\",\"template\":\"C\"}]", "A"},
               {"[{\"name\":\"default\"},{\"name\":\"rag\",\"template\":\"C\"}]", "C"},
               {"[]", ""},
               {"null", ""}};
  char config[256];
  (void)state;
  fill_folder("llama");
  for (size_t i = 0; i < GA_COUNT_OF(cases); i++) {
    ga_model_file *f;
    ga_text text;
    (void)snprintf(config, sizeof config, "{\"chat_template\":%s}", cases[i].list);
    put_file_text("tokenizer_config.json", config);
    must_convert("f32");
    assert_ok(ga_model_file_open(in_folder("out.gguf"), &f));
    assert_ok(ga_model_file_text_or(f, "tokenizer.chat_template", "", &text));
    if (text.bytes != strlen(cases[i].want) || memcmp(text.data, cases[i].want, text.bytes))
      fail_msg("%s: '%.*s'; must be '%s'", cases[i].list, (int)text.bytes, text.data, cases[i].want);
    ga_model_file_destroy(f);
  }
  put_file_text("tokenizer_config.json", "{\"chat_template\":7}");
  refuse_convert("f32", GA_ERR_FORMAT, "chat_template is an integer; must be a text");
}

/* Called while the file is written: another program makes one of that name. */
static int make_meanwhile(void *user, uint64_t done, uint64_t total) {
  (void)user, (void)done, (void)total;
  put_file_text("out.gguf", "theirs");
  return 0;
}

static void test_file_that_appears_meanwhile(void **state) {
  ga_quantize_options o = GA_QUANTIZE_OPTIONS_INIT;
  char out[512], text[8] = "";
  (void)state;
  fill_folder("llama");
  (void)unlink(in_folder("out.gguf"));
  (void)snprintf(out, sizeof out, "%s", in_folder("out.gguf"));
  o.type = "f32";
  o.progress = make_meanwhile;
  assert_error(ga_quantize_file(test_folder, out, &o), GA_ERR_ARG, "out.gguf: exists; give another name");
  FILE *f = fopen(out, "r");
  assert_non_null(f);
  assert_int_equal(fread(text, 1, sizeof text, f), 6);
  (void)fclose(f);
  assert_string_equal(text, "theirs");
  assert_int_equal(unlink(out), 0);
  o.progress = NULL;
  assert_ok(ga_quantize_file(test_folder, out, &o));
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define X(name) cmocka_unit_test(test_arch_##name),
      GA_TEST_ARCHS
#undef X
          cmocka_unit_test(test_mxfp4_is_copied),
      cmocka_unit_test(test_converted_keys),
      cmocka_unit_test(test_frequencies_of_llama3),
      cmocka_unit_test(test_frequencies_not_stated),
      cmocka_unit_test(test_window_pattern),
      cmocka_unit_test(test_token_behind),
      cmocka_unit_test(test_convert_refuses),
      cmocka_unit_test(test_tensor_types_refused),
      cmocka_unit_test(test_rows_without_a_pair),
      cmocka_unit_test(test_named_templates),
      cmocka_unit_test(test_file_that_appears_meanwhile),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
