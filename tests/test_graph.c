/* Models as graphs: each architecture's text against tests/data/graph (GA_UPDATE=1 writes it), what builders refuse,
 * and what becomes of a graph on a device without fused rows. */
#include <math.h>

#include "ga/gemm.h"
#include "model/arch/arch.h"
#include "model/fuse.h"
#include "tests/gguf_files.h"

static ga_ctx *ctx;

static int open_cpu(void **state) {
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  (void)make_folder(state);
  o.device = "cpu";
  return ga_ctx_create(&o, &ctx) != GA_OK;
}
static int close_cpu(void **state) {
  ga_ctx_destroy(ctx);
  return remove_folder(state);
}

static ga_model *open_arch(const char *name) {
  char path[512];
  ga_model *model;
  (void)snprintf(path, sizeof path, "%s/arch/%s", GA_TEST_DATA, name);
  for (char *at = strrchr(path, '/'); at && *at; at++)
    if (*at == '-') *at = '_'; /* nomic-bert lies in nomic_bert */
  if (ga_model_load(ctx, path, NULL, &model) != GA_OK) fail_msg("%s", ga_error_text());
  return model;
}

/* --- texts --- */

static void same_as_file(const char *name, const char *text) {
  char path[512];
  static char want[1 << 16];
  const bool update = getenv("GA_UPDATE") != NULL;
  (void)snprintf(path, sizeof path, "%s/graph/%s.txt", GA_TEST_DATA, name);
  FILE *f = fopen(path, update ? "w" : "r");
  assert_non_null(f);
  if (update) {
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    return;
  }
  want[fread(want, 1, sizeof want - 1, f)] = 0;
  (void)fclose(f);
  assert_string_equal(text, want);
}

static void test_texts(void **state) {
  (void)state;
  for (const ga_arch_desc *const *arch = ga_archs; *arch; arch++) {
    char *text;
    ga_model *model = open_arch((*arch)->name);
    assert_int_equal(graph_text(model->graph, &text), GA_OK);
    same_as_file((*arch)->name, text);
    ga_mem_free(text);
    ga_model_destroy(model);
  }
}

/* --- what builders refuse --- */

static const weight_use some_weights[] = {
    {W_TOKEN_EMBD, REQUIRED}, {W_ATTN_NORM, REQUIRED}, {W_Q, REQUIRED}, {W_DOWN, REQUIRED}};

static void graph_refused(void (*build)(graph_builder *b), const char *why) {
  const ga_arch_desc arch = {"wrong", false, some_weights, GA_COUNT_OF(some_weights), NULL, build};
  static ga_model model;
  ga_model_graph *graph;
  model.hparams = (ga_hparams){.arch = &arch, .n_layers = 1, .width = 8, .ff_width = 16, .vocab = 32, .context = 64};
  model.hparams.n_heads = model.hparams.n_kv_heads = 2;
  model.hparams.head_dim = model.hparams.v_dim = 4;
  assert_int_equal(graph_create(&model, &graph), GA_ERR_INTERNAL);
  assert_null(graph);
  if (!strstr(ga_error_text(), why)) fail_msg("'%s' does not say '%s'", ga_error_text(), why);
}

static void reads_overwritten(graph_builder *b) {
  const ga_value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1, BUF_X);
  const ga_value_id h = build_rms_norm(b, x, W_ATTN_NORM, BUF_H);
  (void)build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1, BUF_H);
  build_result(b, build_linear(b, h, W_Q, W_NONE, BUF_Q), POOL_NONE);
}
static void reads_rotated(graph_builder *b) {
  const ga_value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1, BUF_X);
  const ga_value_id q = build_linear(b, x, W_Q, W_NONE, BUF_Q);
  (void)build_rope(b, q, false);
  build_result(b, build_attention(b, q, 0), POOL_NONE);
}
static void has_no_such_weight(graph_builder *b) {
  const ga_value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1, BUF_X);
  build_result(b, build_linear(b, x, W_K, W_NONE, BUF_K), POOL_NONE);
}
static void has_other_columns(graph_builder *b) {
  const ga_value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1, BUF_X);
  build_result(b, build_linear(b, x, W_DOWN, W_NONE, BUF_H), POOL_NONE);
}
static void writes_over_input(graph_builder *b) {
  const ga_value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1, BUF_X);
  build_result(b, build_linear(b, x, W_Q, W_NONE, BUF_X), POOL_NONE);
}
static void has_no_result(graph_builder *b) { (void)build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1, BUF_X); }

static void test_graph_refused(void **state) {
  (void)state;
  graph_refused(reads_overwritten, "reads a value that was overwritten");
  graph_refused(reads_rotated, "reads a value that was overwritten");
  graph_refused(has_no_such_weight, "has a weight that the architecture does not list");
  graph_refused(has_other_columns, "has a weight of other columns than its input");
  graph_refused(writes_over_input, "writes over its input");
  graph_refused(has_no_result, "has no result");
}

/* --- programs --- */

/* A letter for each launch: embed, add, norm (+ what it adds), product, activation, rope, store, attention. */
static char letter_of(const fused_op *op) {
  static const char letters[] = "eanpcrst";
  if (op->kind == FUSED_NORM && op->residual.is_set) return 'N';
  if (op->kind == FUSED_PRODUCT && op->residual.is_set) return 'P';
  return letters[op->kind];
}

static void has_launches(const char *name, int32_t tokens, const char *want) {
  const ga_dtype kv = GA_F16;
  ga_model *model = open_arch(name);
  const fuse_target target = {.model = model,
                              .placement = model->placements,
                              .kv = model->info.is_encoder ? NULL : &kv,
                              .tokens = fused_class(tokens),
                              .out = 1};
  fused_program *program;
  char got[64];
  int n = 0;
  assert_int_equal(fuse(&target, &program), GA_OK);
  /* what stands before the layers, the first layer, and the head */
  for (int32_t i = 0; i < program->n_ops && n < 62; i++) {
    if (i == program->n_body) got[n++] = '|';
    if (program->ops[i].layer < 1 || i >= program->n_body) got[n++] = letter_of(&program->ops[i]);
  }
  got[n] = 0;
  assert_string_equal(got, want);
  fused_destroy(program);
  ga_model_destroy(model);
}

static void test_programs(void **state) {
  (void)state;
  for (int32_t tokens = 1; tokens < 20; tokens += 9) {
    has_launches("llama", tokens, "enppprrstPnppP|np");
    has_launches("qwen3", tokens, "enpppnnrrstPnppP|np");
    has_launches("gpt2", tokens, "eeanpstPnpP|np");
    has_launches("bert", tokens, "eeaeanppptPnpPn");
  }
  has_launches("gemma2", 1, "enppprrstpNnpppN|Nnpca"); /* the soft-cap of logits: tanh, and a factor */
  has_launches("phi3", 1, "enprrstPnpcP|np");
  has_launches("granite", 1, "enppprrstPnppP|np");
  has_launches("nemotron", 1, "enppprrstPnpcP|np"); /* no product has relu^2 */
  has_launches("cohere2", 1, "enppprrstPppP|np");
  has_launches("gptneox", 1, "enprrstnPpP|np");
  has_launches("gemma3", 1, "enpppnnrrstpNnpppN|Nnp"); /* the last layer's sum waits for the head */
  has_launches("gemma3", 10, "enpppnnrrstpNnpppN|np");
}

/* --- what readers know of sizes --- */

static float query_scale(int layers, int width, int heads, int head_dim) {
  ga_gguf_writer *w = new_writer(3, 0);
  const ga_tensor table = ga_tensor_make(weights, GA_F16, 2, (int64_t[]){1, width});
  ga_hparams p;
  ga_gguf_put_text(w, "general.architecture", "gemma3");
  ga_gguf_put_int(w, "gemma3.block_count", GA_META_U32, layers);
  ga_gguf_put_int(w, "gemma3.embedding_length", GA_META_U32, width);
  ga_gguf_put_int(w, "gemma3.feed_forward_length", GA_META_U32, 4 * width);
  ga_gguf_put_int(w, "gemma3.context_length", GA_META_U32, 64);
  ga_gguf_put_int(w, "gemma3.attention.head_count", GA_META_U32, heads);
  ga_gguf_put_int(w, "gemma3.attention.key_length", GA_META_U32, head_dim);
  ga_gguf_put_tensor(w, "token_embd.weight", &table);
  finish_file(w, "sizes.gguf");
  ga_model_file *file = open_file("sizes.gguf");
  assert_ok(ga_hparams_read(file, &p));
  ga_model_file_destroy(file);
  return p.attn_scale;
}

/* Gemma 3 27B alone scales queries by d / Hq (query_pre_attn_scalar 168). */
static void test_query_scale(void **state) {
  (void)state;
  assert_true(query_scale(62, 5376, 32, 128) == 1 / sqrtf(168));
  assert_true(query_scale(62, 2560, 8, 256) == 1 / sqrtf(256));
  assert_true(query_scale(48, 3840, 16, 256) == 1 / sqrtf(256)); /* 12B */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_texts), cmocka_unit_test(test_graph_refused),
                                     cmocka_unit_test(test_programs), cmocka_unit_test(test_query_scale)};
  return cmocka_run_group_tests(tests, open_cpu, close_cpu);
}
