/* Models as graphs: texts of each architecture's graph and programs against tests/data/graph (GA_UPDATE=1 writes them),
 * what builders refuse, which launches a device without fused rows gets, and that no value is overwritten early. */
#include <math.h>

#include "ga/gemm.h"
#include "model/arch/arch.h"
#include "model/attachment.h"
#include "model/graph_op.h"
#include "model/pass/fuse.h"
#include "model/pass/memory.h"
#include "model/pass/shard.h"
#include "tests/arch_model.h"
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
  char path[ARCH_PATH_BYTES];
  ga_model *model;
  if (ga_model_load(ctx, arch_model_path(name, path), NULL, &model) != GA_OK) fail_msg("%s", ga_error_text());
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
    {W_TOKEN_EMBD, REQUIRED}, {W_ATTN_NORM, REQUIRED}, {W_Q, REQUIRED}, {W_DOWN, REQUIRED}, {W_UP_EXPERTS, REQUIRED}};

static bool no_down_in_layer_0(const ga_hparams *p, weight_id id, int32_t layer) {
  (void)p;
  return id != W_DOWN || layer != 0;
}

static void graph_refused(void (*build)(graph_builder *b), const char *why) {
  const ga_arch_desc arch = {.name = "wrong",
                             .weights = some_weights,
                             .n_weights = GA_COUNT_OF(some_weights),
                             .has_weight = no_down_in_layer_0,
                             .build = build};
  static ga_model model;
  ga_model_graph *graph;
  model.hparams = (ga_hparams){.arch = &arch, .n_layers = 1, .width = 8, .ff_width = 16, .vocab = 32, .context = 64};
  model.hparams.n_heads = model.hparams.n_kv_heads = 2;
  model.hparams.head_dim = model.hparams.v_dim = 4;
  assert_int_equal(graph_create(&model, &graph), GA_ERR_INTERNAL);
  assert_null(graph);
  if (!strstr(ga_error_text(), why)) fail_msg("'%s' does not say '%s'", ga_error_text(), why);
}

static void reads_no_value(graph_builder *b) {
  const value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1);
  build_result(b, build_linear(b, x + 1, W_Q, W_NONE), POOL_NONE);
}
static void has_no_such_weight(graph_builder *b) {
  const value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1);
  build_result(b, build_linear(b, x, W_K, W_NONE), POOL_NONE);
}
static void has_no_such_weight_here(graph_builder *b) {
  const value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1);
  b->layer = 0;
  build_result(b, build_linear(b, x, W_DOWN, W_NONE), POOL_NONE);
}
static void multiplies_by_a_stack(graph_builder *b) {
  const value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1);
  b->layer = 0;
  build_result(b, build_linear(b, x, W_UP_EXPERTS, W_NONE), POOL_NONE);
}
static void has_other_columns(graph_builder *b) {
  const value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1);
  build_result(b, build_linear(b, x, W_DOWN, W_NONE), POOL_NONE);
}
static void adds_other_rows(graph_builder *b) {
  const value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1);
  build_result(b, build_add(b, x, build_wanted(b, x)), POOL_NONE);
}
static void slices_too_much(graph_builder *b) {
  const value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1);
  build_result(b, build_slice(b, x, 4, 5), POOL_NONE);
}
static void has_no_state(graph_builder *b) {
  static const graph_op op = {.name = "op", .n_inputs = 1, .has_memory = true, .memory = MEMORY_STATE};
  const value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1);
  b->layer = 0;
  build_result(b, build_op(b, &op, &x, NULL, 8), POOL_NONE);
}
static void has_an_op_of_the_head(graph_builder *b) {
  static const graph_op op = {.name = "op", .n_inputs = 1};
  const value_id x = build_wanted(b, build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1));
  build_result(b, build_op(b, &op, &x, NULL, 8), POOL_NONE);
}
static void has_no_result(graph_builder *b) { (void)build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1); }

static void test_graph_refused(void **state) {
  (void)state;
  graph_refused(reads_no_value, "reads no value");
  graph_refused(has_no_such_weight, "has a weight that the architecture does not list");
  graph_refused(has_no_such_weight_here, "has a weight that the architecture does not list");
  graph_refused(multiplies_by_a_stack, "has a stack of matrices, which ops alone take");
  graph_refused(has_other_columns, "has a weight of other columns than its input");
  graph_refused(adds_other_rows, "adds rows of two shapes");
  graph_refused(slices_too_much, "slices too much");
  graph_refused(has_no_state, "has an op with a state, and the layer has none");
  graph_refused(has_an_op_of_the_head, "has an op on some rows alone");
  graph_refused(has_no_result, "has no result");
}

/* --- programs --- */

/* A letter for each launch: embed, add, norm (+ what it adds), product, activation, rope, store, attention. */
static char letter_of(const launch *l) {
  static const char letters[] = "eanpcrstw";
  if (l->kind == LAUNCH_NORM && l->as.norm.residual != NO_VALUE) return 'N';
  if (l->kind == LAUNCH_PRODUCT && l->as.product.residual != NO_VALUE) return 'P';
  return letters[l->kind];
}

static ga_program *program_of(const ga_model *model, const fuse_planner *planner, int32_t tokens) {
  static const ga_dtype kv = GA_F16;
  ga_program *program;
  memory_pins pins;
  fuse_target target = {.model = model,
                        .planner = planner,
                        .kv = model->info.is_encoder ? NULL : &kv,
                        .tokens = fused_class(tokens),
                        .wanted = 1};
  graph_range(model->graph, -1, model->hparams.n_layers + 1, &target.first, &target.end);
  assert_int_equal(fuse(&target, &program), GA_OK);
  assert_ok(memory_pin_values(model->graph, target.first, target.end, (memory_rows){32, 4}, &pins));
  assert_ok(memory_plan(model->graph, &pins, (memory_rows){tokens, 1}, program));
  return program;
}

static void has_launches(const char *name, int32_t tokens, const char *want) {
  ga_model *model = open_arch(name);
  const fuse_planner planner = fuse_planner_of(model->ctx);
  ga_program *program = program_of(model, &planner, tokens);
  char got[64];
  int n = 0;
  /* what stands before the layers, the first layer, and the head */
  for (int32_t i = 0; i < program->n_launches && n < 62; i++) {
    if (i == program->n_body) got[n++] = '|';
    if (program->launches[i].layer < 1 || i >= program->n_body) got[n++] = letter_of(&program->launches[i]);
  }
  got[n] = 0;
  assert_string_equal(got, want);
  program_destroy(program);
  ga_model_destroy(model);
}

static void test_programs(void **state) {
  (void)state;
  for (int32_t tokens = 1; tokens < 20; tokens += 9) {
    has_launches("llama", tokens, "enppprrstPnppP|wnp");
    has_launches("qwen3", tokens, "enpppnnrrstPnppP|wnp");
    has_launches("gpt2", tokens, "eeanpstPnpP|wnp");
    has_launches("bert", tokens, "eeaeanppptPnpPn");
  }
  has_launches("gemma2", 1, "enppprrstpNnpppN|wnpca"); /* the soft-cap of logits: tanh, and a factor */
  has_launches("phi3", 1, "enprrstPnpcP|wnp");
  has_launches("granite", 1, "enppprrstPnppP|wnp");
  has_launches("nemotron", 1, "enppprrstPnpcP|wnp"); /* no product has relu^2 */
  has_launches("cohere2", 1, "enppprrstPppP|wnp");
  has_launches("gptneox", 1, "enprrnstPpP|wnp");
  has_launches("gemma3", 1, "enpppnnrrstpNnpppN|wnp"); /* the last layer's sum waits for the head */
  has_launches("gemma3", 10, "enpppnnrrstpNnpppN|wnp");
}

/* Takes whatever it is asked. */
static ga_status takes_any_product(void *user, const ga_gemm_fused_desc *desc, bool *taken) {
  (void)user;
  *taken = desc->plain.m > 0;
  return GA_OK;
}
static ga_status takes_any_store(void *user, const ga_kv_store_fused_desc *desc, bool *taken) {
  (void)user;
  *taken = desc->rot_dim > 0;
  return GA_OK;
}
static const fuse_planner takes_all = {.takes_product = takes_any_product, .takes_store = takes_any_store};

/* The texts of a model's two programs go to tests/data/graph/<name>.programs.txt. */
static void same_programs(const ga_model *model, const char *name) {
  char *plain_text, *fused_text, file[64];
  static char both[1 << 17];
  ga_program *plain = program_of(model, NULL, 10), *fused = program_of(model, &takes_all, 1);
  assert_ok(program_text(plain, &plain_text));
  assert_ok(program_text(fused, &fused_text));
  (void)snprintf(both, sizeof both, "10 tokens, nothing joined:\n%s\n1 token, all joined:\n%s", plain_text, fused_text);
  (void)snprintf(file, sizeof file, "%s.programs", name);
  same_as_file(file, both);
  ga_mem_free(plain_text);
  ga_mem_free(fused_text);
  program_destroy(plain);
  program_destroy(fused);
}

/* Programs of ten tokens without rows for more than one node, and of one token with rows for all that is asked. */
static void test_program_texts(void **state) {
  (void)state;
  for (const ga_arch_desc *const *arch = ga_archs; *arch; arch++) {
    ga_model *model = open_arch((*arch)->name);
    same_programs(model, (*arch)->name);
    ga_model_destroy(model);
  }
}

static void memory_is_sound(const ga_model *model, const fuse_planner *planner, int32_t tokens);

/* The graph of one rank of two: local sizes, and sums put in. */
static void test_shard_texts(void **state) {
  static const char *const names[] = {"llama", "qwen2", "gemma3", "starcoder2"};
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(names); i++) {
    ga_model *whole = open_arch(names[i]);
    char name[64], *text;
    ga_model rank = *whole;
    assert_ok(shard_sizes(&whole->hparams, 1, 2, &rank.hparams));
    assert_ok(graph_create(&rank, &rank.graph));
    assert_ok(shard_graph(&whole->hparams, &rank.hparams, 1, 2, &rank.graph));
    assert_ok(graph_text(rank.graph, &text));
    (void)snprintf(name, sizeof name, "%s.rank1of2", names[i]);
    same_as_file(name, text);
    for (int32_t tokens = 1; tokens < 20; tokens += 9) memory_is_sound(&rank, &takes_all, tokens);
    ga_mem_free(text);
    graph_destroy(rank.graph);
    ga_model_destroy(whole);
  }
}

/* --- memory: each read finds what was written last --- */

typedef struct memory_model {
  const ga_model *model;
  const ga_program *program;
  int32_t tokens;
  value_id *owner; /* [bytes / 4] the value whose element is there; -1: none */
} memory_model;

static int64_t owner_index(const memory_model *m, value_id v, int64_t row, int64_t col) {
  const value_place p = m->program->places[v];
  if (p.offset < 0) fail_msg("value %d has no place", v);
  return p.offset / 4 + row * p.stride + col;
}

static int64_t rows_in(const memory_model *m, value_id v) {
  return m->model->graph->values[v].rows == ROWS_TOKENS ? m->tokens : 1;
}

static void expect_there(const memory_model *m, value_id v) {
  const ga_value *value = &m->model->graph->values[v];
  const ga_node *maker = &m->model->graph->nodes[m->model->graph->values[value->root].producer];
  if (maker->kind == NODE_WANTED) expect_there(m, maker->as.wanted.x); /* it may be read as a part of that */
  for (int64_t r = 0; r < rows_in(m, v); r++)
    for (int64_t c = 0; c < value->cols; c++)
      if (m->owner[owner_index(m, v, r, c)] != value->root)
        fail_msg("value %d at row %lld, column %lld: value %d is there", v, (long long)r, (long long)c,
                 m->owner[owner_index(m, v, r, c)]);
}

static void write_value(const memory_model *m, value_id v) {
  for (int64_t r = 0; r < rows_in(m, v); r++)
    for (int64_t c = 0; c < m->model->graph->values[v].cols; c++) {
      const int64_t at = owner_index(m, v, r, c);
      assert_true(at * 4 < (int64_t)m->program->bytes);
      m->owner[at] = v;
    }
}

static bool lies_on(const memory_model *m, int64_t element, value_id x) {
  const value_place p = m->program->places[x];
  const int64_t from = element - p.offset / 4;
  return from >= 0 && from / p.stride < rows_in(m, x) && from % p.stride < m->model->graph->values[x].cols;
}

/* y may lie on what its own launch reads only where the launch works in place. */
static void expect_apart(const memory_model *m, const launch *l, value_id y) {
  value_id in[LAUNCH_READS];
  const value_id same = launch_in_place(l, y);
  for (int32_t n = launch_reads(l, in); n > 0; n--) {
    const value_id x = in[n - 1];
    if (x == same && m->program->places[x].offset == m->program->places[y].offset) continue;
    for (int64_t r = 0; r < rows_in(m, y); r++)
      for (int64_t c = 0; c < m->model->graph->values[y].cols; c++)
        if (lies_on(m, owner_index(m, y, r, c), x))
          fail_msg("a launch writes value %d over value %d, which it reads", y, x);
  }
}

static void run_on_model(const memory_model *m, int32_t first, int32_t end) {
  value_id v[LAUNCH_READS > LAUNCH_WRITES ? LAUNCH_READS : LAUNCH_WRITES];
  for (int32_t i = first; i < end; i++) {
    const launch *l = &m->program->launches[i];
    for (int32_t n = launch_reads(l, v); n > 0; n--) expect_there(m, v[n - 1]);
    const int32_t n = launch_writes(l, v);
    for (int32_t j = 0; j < n; j++) expect_apart(m, l, v[j]);
    for (int32_t j = 0; j < n; j++) write_value(m, v[j]);
    for (int32_t j = 0; j < n; j++) expect_there(m, v[j]); /* two results of a launch lie apart */
  }
}

static void memory_is_sound(const ga_model *model, const fuse_planner *planner, int32_t tokens) {
  ga_program *program = program_of(model, planner, tokens);
  memory_model m = {.model = model, .program = program, .tokens = tokens};
  m.owner = test_malloc(program->bytes);
  for (uint64_t i = 0; i < program->bytes / 4; i++) m.owner[i] = -1;
  run_on_model(&m, 0, program->n_launches);
  run_on_model(&m, program->n_body, program->n_launches); /* the head runs again on the same body */
  expect_there(&m, model->graph->result);
  test_free(m.owner);
  program_destroy(program);
}

static void test_memory(void **state) {
  (void)state;
  for (const ga_arch_desc *const *arch = ga_archs; *arch; arch++) {
    ga_model *model = open_arch((*arch)->name);
    for (int32_t tokens = 1; tokens < 20; tokens += tokens < 3 ? 1 : 6) {
      memory_is_sound(model, NULL, tokens);
      memory_is_sound(model, &takes_all, tokens);
    }
    ga_model_destroy(model);
  }
}

/* Values are pure: a node may read what another one has rotated, scaled or added to. */
static void reads_all_again(graph_builder *b) {
  const value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1);
  b->layer = 0;
  const value_id q = build_linear(b, x, W_Q, W_NONE), rotated = build_rope(b, q, false);
  const value_id half = build_scale(b, q, 0.5f), act = build_act(b, GA_ACT_SILU, half);
  const value_id part = build_slice(b, rotated, 0, 4), other = build_rope(b, part, false);
  const value_id sum = build_add(b, build_add(b, rotated, q), build_add(b, half, act));
  b->layer = 1;
  build_result(b, build_add(b, sum, x), POOL_NONE);
  const value_id k = build_linear(b, x, W_Q, W_NONE);
  (void)build_act(b, GA_ACT_TANH, build_add(b, build_rope(b, k, false), k)); /* k is read by the very next launch */
  (void)build_act(b, GA_ACT_TANH, other);
}

static void test_values_stay(void **state) {
  (void)state;
  const ga_arch_desc arch = {
      .name = "pure", .weights = some_weights, .n_weights = GA_COUNT_OF(some_weights), .build = reads_all_again};
  static ga_model model;
  model.hparams = (ga_hparams){.arch = &arch, .n_layers = 1, .width = 8, .ff_width = 16, .vocab = 32, .context = 64};
  model.hparams.n_heads = model.hparams.n_kv_heads = 2;
  model.hparams.head_dim = model.hparams.v_dim = 4;
  assert_ok(graph_create(&model, &model.graph));
  for (int32_t tokens = 1; tokens < 20; tokens += 9) memory_is_sound(&model, &takes_all, tokens);
  graph_destroy(model.graph);
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

/* Adapters on a matrix that shares X with others, on one of a gated pair, on one that adds to the residual stream, and
 * on one that is cut into slices. */
static void test_attach_texts(void **state) {
  static const float zeros[256] = {0};
  static const struct {
    const char *arch;
    weight_id ids[3];
    int32_t n;
  } cases[] = {{"llama", {W_Q, W_GATE, W_DOWN}, 3}, {"phi3", {W_QKV, W_OUTPUT}, 2}};
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(cases); i++) {
    char name[64], *text;
    attachment_source list[3];
    ga_model *model = open_arch(cases[i].arch);
    for (int32_t k = 0; k < cases[i].n; k++)
      list[k] = (attachment_source){.id = cases[i].ids[k], .rank = 1, .a = zeros, .b = zeros, .scale = 0.5f};
    assert_ok(model_attach(model, list, cases[i].n));
    assert_ok(graph_text(model->graph, &text));
    (void)snprintf(name, sizeof name, "%s.adapters", cases[i].arch);
    same_as_file(name, text);
    same_programs(model, name);
    for (int32_t tokens = 1; tokens < 20; tokens += 9) memory_is_sound(model, &takes_all, tokens);
    ga_mem_free(text);
    ga_model_destroy(model);
  }
}

/* A line of 512 bytes and more is cut at 511. The next one follows it. */
static void test_long_lines(void **state) {
  (void)state;
  enum { MOST = 511 };
  const ga_value value = {.rows = ROWS_TOKENS, .cols = 1};
  for (int length = MOST - 40; length < MOST + 40; length++) {
    char name[MOST + 41], line[MOST + 100], *text;
    memset(name, 'a', (size_t)length);
    name[length] = 0;
    const graph_op ops[] = {{.name = name}, {.name = "short"}};
    const ga_node nodes[] = {{.kind = NODE_OP, .as.op.op = &ops[0]}, {.kind = NODE_OP, .as.op.op = &ops[1]}};
    ga_model_graph g = {0};
    ga_value values[] = {value};
    ga_node list[] = {nodes[0], nodes[1]};
    g.values = values, g.nodes = list, g.n_nodes = 2;
    (void)snprintf(line, sizeof line, "%%0 [T, 1] = %s()\n", name);
    assert_ok(graph_text(&g, &text));
    line[MOST] = 0;
    const size_t n = strlen(line);
    assert_memory_equal(text, line, n);
    assert_string_equal(text + n, "%0 [T, 1] = short()\n");
    ga_mem_free(text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_texts),       cmocka_unit_test(test_graph_refused),
                                     cmocka_unit_test(test_programs),    cmocka_unit_test(test_program_texts),
                                     cmocka_unit_test(test_shard_texts), cmocka_unit_test(test_attach_texts),
                                     cmocka_unit_test(test_memory),      cmocka_unit_test(test_values_stay),
                                     cmocka_unit_test(test_query_scale), cmocka_unit_test(test_long_lines)};
  return cmocka_run_group_tests(tests, open_cpu, close_cpu);
}
