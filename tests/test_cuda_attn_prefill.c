/* f32 queries over 16-bit K and V: three steps, of which the planner chooses the row in the middle. */
#include "core/ctx.h"
#include "ga/attn.h"
#include "tests/mock_device.h"

#define PREFILL "attn_bf16_prefill_f32_sm90a_256"
#define FLAT    "attn_fwd_bf16_d128v128_causal_sm90a_128x128x2_q_reg"
#define WINDOW  "attn_fwd_bf16_d128v128_window_sm90a_128x128x2_q_smem"
#define EXT     "attn_fwd_ext_bf16_d128v128_window_sm90a_128x128x2_q_smem"
#define ELEMS   ((size_t)1 << 20)

static const unsigned char image[] = "an image";
static const cuda_image images[] = {
    {PREFILL, image, image + 8}, {FLAT, image, image + 8}, {WINDOW, image, image + 8}, {EXT, image, image + 8}, {0}};

static ga_ctx *ctx;
static ga_attn_desc desc;

static int setup(void **state) {
  (void)state;
  mock_begin(images);
  mockcu.args_bytes = sizeof(void *);
  desc = (ga_attn_desc)GA_ATTN_DESC_INIT;
  desc.batch = 1, desc.max_q = desc.max_kv = 300, desc.q_heads = desc.kv_heads = 2, desc.head_dim = desc.v_dim = 128;
  desc.q_dtype = desc.o_dtype = GA_F32, desc.kv_dtype = GA_BF16;
  desc.flags = GA_ATTN_CAUSAL;
  desc.scale = 0.125f;
  return open_as("cuda:0", &ctx) == GA_OK ? 0 : 1;
}

static int teardown(void **state) {
  (void)state;
  ga_ctx_destroy(ctx);
  return mock_end();
}

static ga_status plan_without(const char *disabled, char *text, size_t capacity) {
  ga_plan *plan = NULL;
  ga_ctx *less;
  ga_ctx_options options = GA_CTX_OPTIONS_INIT;
  options.device = "cuda:0";
  options.disable_kernels = disabled;
  assert_int_equal(ga_ctx_create(&options, &less), GA_OK);
  const ga_status status = ga_attn_plan(less, &desc, &plan);
  if (status == GA_OK) ga_plan_describe(plan, text, capacity);
  ga_plan_destroy(plan);
  ga_ctx_destroy(less);
  return status;
}

static void the_planner_chooses_the_row_between(void **state) {
  (void)state;
  char text[4096];
  assert_int_equal(plan_without(NULL, text, sizeof text), GA_OK);
  assert_non_null(strstr(text, "step 0: " PREFILL));
  assert_non_null(strstr(text, "step 1: " FLAT));
  assert_non_null(strstr(text, "step 2: " PREFILL));
  assert_int_equal(plan_without(FLAT, text, sizeof text), GA_OK);
  assert_non_null(strstr(text, "step 1: " WINDOW));
  assert_int_equal(plan_without("attn_fwd*", text, sizeof text), GA_ERR_UNSUPPORTED);
  assert_non_null(strstr(ga_error_text(), PREFILL ": no row takes 16-bit q and o of this shape"));
}

/* The casts know of no cap: the row between has it, or none is chosen. */
static void a_soft_cap_is_of_the_row_between(void **state) {
  (void)state;
  char text[4096];
  desc.softcap = 30;
  assert_int_equal(plan_without(NULL, text, sizeof text), GA_OK);
  assert_non_null(strstr(text, "step 1: " EXT));
  assert_int_equal(plan_without("attn_fwd_ext*", text, sizeof text), GA_ERR_UNSUPPORTED);
  assert_non_null(strstr(ga_error_text(), PREFILL ": no row takes 16-bit q and o of this shape"));
}

static void steps_run_in_order(void **state) {
  (void)state;
  void *memory, *workspace;
  ga_plan *plan;
  assert_int_equal(ga_attn_plan(ctx, &desc, &plan), GA_OK);
  assert_int_equal(mockcu.loads, 2); /* the code of all steps: the first run may be recorded */
  assert_int_equal(ga_buffer_alloc(ctx, 4 * ELEMS, &memory), GA_OK);
  assert_int_equal(ga_buffer_alloc(ctx, ga_plan_workspace_bytes(plan), &workspace), GA_OK);
  char *at = memory;
  ga_attn_io io = {.q = at, .k = at + ELEMS, .v = at + 2 * ELEMS, .o = at + 3 * ELEMS};
  assert_int_equal(ga_attn_run(plan, &io, workspace, NULL), GA_OK);
  assert_int_equal(mockcu.launches, 3);
  assert_string_equal(mockcu.last.id, PREFILL);
  io.q = at + 2; /* refused before anything is launched */
  assert_int_equal(ga_attn_run(plan, &io, workspace, NULL), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "q is at "));
  assert_int_equal(mockcu.launches, 3);
  ga_buffer_free(ctx, workspace);
  ga_buffer_free(ctx, memory);
  ga_plan_destroy(plan);
}

/* Work of two streams may overlap: each has a workspace of its own, which goes with it. */
static void streams_have_their_own_workspace(void **state) {
  (void)state;
  void *memory;
  ga_stream *one, *two;
  assert_int_equal(ga_buffer_alloc(ctx, 4 * ELEMS, &memory), GA_OK);
  char *at = memory;
  const ga_attn_io io = {.q = at, .k = at + ELEMS, .v = at + 2 * ELEMS, .o = at + 3 * ELEMS};
  assert_int_equal(ga_stream_create(ctx, &one), GA_OK);
  assert_int_equal(ga_stream_create(ctx, &two), GA_OK);
  assert_int_equal(ga_attn(ctx, &desc, &io, one), GA_OK);
  assert_null(two->workspace.data);
  assert_int_equal(ga_attn(ctx, &desc, &io, two), GA_OK);
  assert_non_null(one->workspace.data);
  assert_non_null(two->workspace.data);
  assert_ptr_not_equal(one->workspace.data, two->workspace.data);
  assert_null(ctx->stream->workspace.data);
  const uint64_t before = two->workspace.bytes;
  desc.max_q = 400;
  assert_int_equal(ga_attn(ctx, &desc, &io, one), GA_OK);
  assert_true(one->workspace.bytes > before);
  assert_int_equal(two->workspace.bytes, before);
  ga_stream_destroy(one);
  ga_stream_destroy(two);
  ga_buffer_free(ctx, memory);
}

/* A graph keeps what its launches hold: replays outlive the stream, and may run beside its own work. */
static void graphs_have_their_own_workspace(void **state) {
  (void)state;
  void *memory;
  ga_stream *stream;
  ga_graph *graph;
  assert_int_equal(ga_buffer_alloc(ctx, 4 * ELEMS, &memory), GA_OK);
  char *at = memory;
  const ga_attn_io io = {.q = at, .k = at + ELEMS, .v = at + 2 * ELEMS, .o = at + 3 * ELEMS};
  assert_int_equal(ga_stream_create(ctx, &stream), GA_OK);
  assert_int_equal(ga_attn(ctx, &desc, &io, stream), GA_OK);
  const ga_workspace eager = stream->workspace;
  assert_int_equal(ga_graph_begin(ctx, stream), GA_OK);
  assert_int_equal(ga_attn(ctx, &desc, &io, stream), GA_OK);
  desc.max_q = 400; /* grows while launches hold the first */
  assert_int_equal(ga_attn(ctx, &desc, &io, stream), GA_OK);
  assert_int_equal(ga_graph_end(ctx, stream, &graph), GA_OK);
  assert_int_equal(graph->workspace.n_outgrown, 1);
  assert_ptr_not_equal(graph->workspace.data, eager.data);
  assert_ptr_not_equal(graph->workspace.outgrown[0], eager.data);
  assert_ptr_equal(stream->workspace.data, eager.data);
  assert_null(stream->recording.data);
  ga_stream_destroy(stream);
  assert_int_equal(ga_graph_launch(ctx, graph, NULL), GA_OK);
  const long live = mockcu.live;
  ga_graph_destroy(graph);
  assert_true(mockcu.live <= live - 3); /* the graph, and two workspaces */
  ga_buffer_free(ctx, memory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(the_planner_chooses_the_row_between, setup, teardown),
      cmocka_unit_test_setup_teardown(a_soft_cap_is_of_the_row_between, setup, teardown),
      cmocka_unit_test_setup_teardown(steps_run_in_order, setup, teardown),
      cmocka_unit_test_setup_teardown(streams_have_their_own_workspace, setup, teardown),
      cmocka_unit_test_setup_teardown(graphs_have_their_own_workspace, setup, teardown)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
