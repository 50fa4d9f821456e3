/* Launch side of the attention backward kernels over the mock driver: what a row refuses, what errors name, what is
 * launched. */
#include <math.h>

#include "cuda/kern/attn_bwd/attn_bwd_sm90a.h"
#include "cuda/rt/costs.h"
#include "tests/mock_device.h"

#define FREE          "attn_bwd_bf16_d128_causal_sm90a_64x128x2_atomic"
#define FREE_64       "attn_bwd_bf16_d64_causal_sm90a_128x128x2_atomic"
#define POST_64       "attn_bwd_post_bf16_d64_step_sm90a_256"
#define DETERMINISTIC "attn_bwd_bf16_d128_causal_sm90a_64x128x2_det"
#define KV_RESIDENT   "attn_bwd_bf16_d64_causal_sm90a_128x128x2_kv_resident"
#define PRE           "attn_bwd_pre_bf16_d0_step_sm90a_256"
#define POST          "attn_bwd_post_bf16_d128_step_sm90a_256"
#define SINK          "attn_bwd_sink_f32_d0_step_sm80_256"
#define ANY           "attn_bwd_bf16_d128_fallback_sm80_32x32w4"
#define ANY_PRE       "attn_bwd_pre_bf16_d0_step_sm80_256"
#define CLUSTER2      "attn_bwd_bf16_d256v256_causal_sm90a_64x128x2_cluster2"
#define POST_256      "attn_bwd_post_bf16_d256_step_sm90a_256"
#define ELEMS         ((size_t)1 << 20)

static const unsigned char image[] = "an image";
static const cuda_image images[] = {{FREE, image, image + 8},
                                    {FREE_64, image, image + 8},
                                    {POST_64, image, image + 8},
                                    {DETERMINISTIC, image, image + 8},
                                    {KV_RESIDENT, image, image + 8},
                                    {PRE, image, image + 8},
                                    {POST, image, image + 8},
                                    {SINK, image, image + 8},
                                    {ANY, image, image + 8},
                                    {ANY_PRE, image, image + 8},
                                    {CLUSTER2, image, image + 8},
                                    {POST_256, image, image + 8},
                                    {0}};

static ga_ctx *ctx;
static ga_attn_bwd_desc desc;
static ga_attn_bwd_io io;
static void *memory, *workspace;

static int setup(void **state) {
  (void)state;
  mock_begin(images);
  mockcu.args_bytes = sizeof(void *);
  if (open_as("cuda:0", &ctx) != GA_OK || ga_buffer_alloc(ctx, ELEMS * 8, &memory) != GA_OK ||
      ga_buffer_alloc(ctx, ELEMS * 8, &workspace) != GA_OK)
    return 1;
  desc = (ga_attn_bwd_desc)GA_ATTN_BWD_DESC_INIT;
  desc.batch = 2, desc.max_q = 300, desc.max_kv = 700, desc.q_heads = 4, desc.kv_heads = 2, desc.head_dim = 96,
  desc.v_dim = 64;
  desc.dtype = desc.grad_dtype = GA_BF16;
  desc.flags = GA_ATTN_CAUSAL;
  desc.scale = 0.125f;
  char *at = memory;
  io = (ga_attn_bwd_io){.q = at,
                        .k = at + ELEMS,
                        .v = at + 2 * ELEMS,
                        .o = at + 3 * ELEMS,
                        .dout = at + 4 * ELEMS,
                        .dq = at + 5 * ELEMS,
                        .dk = at + 6 * ELEMS,
                        .dv = at + 7 * ELEMS,
                        .lse = (float *)(void *)at};
  io.q_stride = io.dq_stride = (ga_attn_strides){300 * 384, 384, 96};
  io.k_stride = io.dk_stride = (ga_attn_strides){700 * 192, 192, 96};
  io.v_stride = io.dv_stride = (ga_attn_strides){700 * 128, 128, 64};
  io.o_stride = io.dout_stride = (ga_attn_strides){300 * 256, 256, 64};
  return 0;
}

static int teardown(void **state) {
  (void)state;
  ga_buffer_free(ctx, memory);
  ga_buffer_free(ctx, workspace);
  ga_ctx_destroy(ctx);
  return mock_end();
}

static void attn_bwd_refuses(void **state) {
  (void)state;
  const ga_attn_bwd_desc good = desc;
  const ga_kernel *k = row_by_id(ctx, FREE);
  assert_null(cuda_attn_bwd_ok(k, &desc, NULL));
#define REFUSED(change, reason)                                    \
  do {                                                             \
    change;                                                        \
    assert_string_equal(cuda_attn_bwd_ok(k, &desc, NULL), reason); \
    desc = good;                                                   \
  } while (0)
  REFUSED(desc.dtype = GA_F16, "dtype is another");
  REFUSED(desc.v_dim = 136, "head_dim or v_dim is larger");
  REFUSED(desc.head_dim = 60, "head_dim and v_dim must be multiples of 8");
  REFUSED(desc.scale = -1, "scale must be positive");
  REFUSED(desc.max_kv = (int64_t)1 << 40, "too many rows");
  REFUSED(desc.flags = 0, "compiled for another mask");
  REFUSED(desc.window = 5, "compiled for another mask");
  REFUSED(desc.flags |= GA_ATTN_VARLEN, "compiled without packed sequences");
  REFUSED(desc.flags |= GA_ATTN_ALIBI, "compiled without ALiBi");
  REFUSED(desc.softcap = 30, "compiled without soft-cap");
  REFUSED(desc.flags |= GA_ATTN_BWD_DETERMINISTIC, "adds dQ in no fixed order");
  desc.flags |= GA_ATTN_BWD_DETERMINISTIC;
  assert_null(cuda_attn_bwd_ok(row_by_id(ctx, DETERMINISTIC), &desc, NULL));
  assert_string_equal(cuda_step_ok(row_by_id(ctx, PRE), &desc, NULL), "a step of other rows");
}

static int plans(const ga_kernel *k, ga_plan_steps *steps) {
  return ga_plan_steps_fill(steps, ctx->device, NULL, k, &desc) == NULL;
}

static ga_status run(const ga_kernel *k) {
  ga_plan_steps steps;
  assert_true(plans(k, &steps));
  return ga_plan_steps_launch(&steps, &desc, &io, workspace, ctx->stream);
}

static uint64_t bytes_of(const ga_kernel *k) {
  ga_plan_steps steps;
  assert_true(plans(k, &steps));
  return steps.workspace_bytes;
}

static void bwd_errors_name_the_argument(void **state) {
  (void)state;
  const ga_attn_bwd_io good = io;
  float host[4];
  const ga_kernel *k = row_by_id(ctx, FREE);
#define EXPECT_ERROR(text)                                                                  \
  do {                                                                                      \
    assert_int_equal(run(k), GA_ERR_ARG);                                                   \
    if (!strstr(ga_error_text(), text)) fail_msg("'%s' lacks '%s'", ga_error_text(), text); \
    assert_int_equal(mockcu.launches, 0);                                                   \
    io = good;                                                                              \
  } while (0)
  io.dout = (const char *)io.dout + 2;
  EXPECT_ERROR(FREE ": dout is at ");
  io.dk_stride.token = 193;
  EXPECT_ERROR(FREE ": dk_stride.token is 193; must be a multiple of 8");
  io.lse = host;
  EXPECT_ERROR("which is no memory of cuda:0");
}

/* The last launch is post for the free form, the main kernel for the ordered one. */
static void launches_its_steps(void **state) {
  (void)state;
  const uint32_t pieces = 2 * 4 * 5,
                 tiles = 2 * 2 * 6; /* (batch, query head) of 5 blocks; (batch, KV head) of 6 tiles */
  assert_int_equal(run(row_by_id(ctx, FREE)), GA_OK);
  assert_int_equal(mockcu.launches, 3);
  assert_string_equal(mockcu.last.id, POST);
  assert_int_equal(mockcu.last.grid[0], pieces);
  assert_int_equal(run(row_by_id(ctx, DETERMINISTIC)), GA_OK);
  assert_int_equal(mockcu.launches, 5);
  assert_string_equal(mockcu.last.id, DETERMINISTIC);
  assert_int_equal(mockcu.last.grid[0], tiles);
  io.sinks = io.lse;
  io.dsinks = memory;
  desc.flags |= GA_ATTN_SINKS;
  assert_int_equal(run(row_by_id(ctx, FREE)), GA_OK);
  assert_int_equal(mockcu.launches, 9);
  desc.batch = 0; /* only the sinks' zeros */
  assert_int_equal(run(row_by_id(ctx, FREE)), GA_OK);
  assert_int_equal(mockcu.launches, 10);
}

/* stat, and dQ in f32 of the kernel's own head dim. */
static void workspace_holds_dq(void **state) {
  (void)state;
  const uint64_t rows = 2 * 4 * 320;
  assert_int_equal(bytes_of(row_by_id(ctx, FREE)), rows * 2 * 4 + rows * 128 * 4);
  assert_true(bytes_of(row_by_id(ctx, DETERMINISTIC)) > bytes_of(row_by_id(ctx, FREE)));
}
/* How much less time is predicted than for rows in no fixed order. */
static double gain(const ga_caps *caps) {
  return cuda_attn_bwd_cost(row_by_id(ctx, FREE_64), &desc, caps) /
         cuda_attn_bwd_cost(row_by_id(ctx, KV_RESIDENT), &desc, caps);
}

/* A block of threads a multiprocessor takes KV heads one after the other: sums of dQ of 4 KV heads at a time, of 2
 * query heads each and 384 rows, a ticket, and no step behind. */
static void kv_resident_takes_heads(void **state) {
  (void)state;
  ga_caps caps = {.sms = 3, .l2_bytes = 50 << 20, .rates = &cuda_costs_of_chip("")->rates};
  const ga_kernel *k = row_by_id(ctx, KV_RESIDENT);
  desc.head_dim = 64;
  const uint64_t stat = 2 * 4 * 384 * 2 * 4, sums = 4 * 2 * 384 * 64 * 4;
  assert_int_equal(bytes_of(k), stat + sums + 256);
  io.q_stride = io.dq_stride = (ga_attn_strides){300 * 256, 256, 64};
  io.k_stride = io.dk_stride = (ga_attn_strides){700 * 128, 128, 64};
  assert_int_equal(run(k), GA_OK);
  assert_int_equal(mockcu.launches, 2);
  assert_string_equal(mockcu.last.id, KV_RESIDENT);
  assert_int_equal(mockcu.last.grid[0], 4); /* of 4 multiprocessors; 4 KV heads */
  desc.batch = 66;
  assert_true(gain(&caps) > 1); /* 132 KV heads for 3 */
  caps.l2_bytes = 1 << 20;
  assert_true(gain(&caps) < 1);
  caps.sms = 131;
  desc.max_q = desc.max_kv = 2048; /* one of them twice as long */
  assert_true(gain(&caps) < 1);
}
/* Rows for every shape take what others refuse, but dtype and width; one launch has the tiles of keys and of queries.
 * */
static void fallback_takes_every_shape(void **state) {
  (void)state;
  const ga_kernel *k = row_by_id(ctx, ANY);
  const ga_caps caps = {.smem_bytes = 99 << 10};
  desc.flags |= GA_ATTN_VARLEN | GA_ATTN_ALIBI | GA_ATTN_BWD_DETERMINISTIC;
  desc.window = 5, desc.softcap = 30, desc.scale = -1, desc.head_dim = 61;
  assert_null(cuda_attn_bwd_fallback_ok(k, &desc, &caps));
  desc.dtype = GA_F16;
  assert_string_equal(cuda_attn_bwd_fallback_ok(k, &desc, &caps), "dtype is another");
  desc.dtype = GA_BF16, desc.v_dim = 129;
  assert_string_equal(cuda_attn_bwd_fallback_ok(k, &desc, &caps), "head_dim or v_dim is larger");
  desc.v_dim = 64, desc.max_q = (int64_t)1 << 29;
  assert_string_equal(cuda_attn_bwd_fallback_ok(k, &desc, &caps), "too many rows");
  desc.max_q = 300, desc.flags = GA_ATTN_CAUSAL;
  const uint32_t keys = 2 * 2 * 22, queries = 2 * 4 * 10; /* tiles of 32 rows */
  assert_int_equal(bytes_of(k), 2 * 4 * 320 * 2 * 4);
  assert_int_equal(run(k), GA_OK);
  assert_int_equal(mockcu.launches, 2);
  assert_string_equal(mockcu.last.id, ANY);
  assert_int_equal(mockcu.last.grid[0], keys + queries);
  io.q = (const char *)io.q + 1;
  assert_int_equal(run(k), GA_ERR_ARG);
  if (!strstr(ga_error_text(), ANY ": q is at ")) fail_msg("%s", ga_error_text());
  assert_int_equal(mockcu.launches, 2);
}
/* Two blocks a tile of keys. */
static void cluster2_takes_large_heads(void **state) {
  (void)state;
  const ga_kernel *k = row_by_id(ctx, CLUSTER2);
  desc.head_dim = desc.v_dim = 256;
  assert_null(cuda_attn_bwd_ok(k, &desc, NULL));
  assert_int_equal(bytes_of(k), 2 * 4 * 320 * (2 + 256) * 4);
  desc.v_dim = 264;
  assert_string_equal(cuda_attn_bwd_ok(k, &desc, NULL), "head_dim or v_dim is larger");
  desc.v_dim = 64, desc.head_dim = 96; /* those of the strides */
  const uint32_t blocks = 2 * 4 * 5;
  assert_int_equal(run(k), GA_OK);
  assert_int_equal(mockcu.launches, 3);
  assert_string_equal(mockcu.last.id, POST_256);
  assert_int_equal(mockcu.last.grid[0], blocks);
}

/* Steps are named when a plan is made: what the caller disables, or the build lacks, is refused there. */
static void plans_know_their_steps(void **state) {
  (void)state;
  ga_plan *plan;
  char text[4096];
  assert_int_equal(ga_attn_bwd_plan(ctx, &desc, &plan), GA_OK);
  assert_string_equal(ga_plan_kernel_id(plan), FREE);
  ga_plan_describe(plan, text, sizeof text);
  assert_non_null(strstr(text, "step 0: " PRE " (src/cuda/kern/attn_bwd/attn_bwd_pre_sm90a.cu, "));
  assert_non_null(strstr(text, "step 2: " POST));
  ga_plan_destroy(plan);
  ga_ctx *less;
  ga_ctx_options options = GA_CTX_OPTIONS_INIT;
  options.device = "cuda:0";
  options.disable_kernels = "attn_bwd_pre_bf16_d0_step_sm90a*";
  assert_int_equal(ga_ctx_create(&options, &less), GA_OK);
  assert_int_equal(ga_attn_bwd_plan(less, &desc, &plan), GA_OK);
  assert_string_equal(ga_plan_kernel_id(plan), ANY);
  ga_plan_destroy(plan);
  ga_ctx_destroy(less);
  options.disable_kernels = "attn_bwd_pre*";
  assert_int_equal(ga_ctx_create(&options, &less), GA_OK);
  assert_int_equal(ga_attn_bwd_plan(less, &desc, &plan), GA_ERR_UNSUPPORTED);
  assert_non_null(strstr(ga_error_text(), "a step of it is disabled"));
  ga_ctx_destroy(less);
}

static void rows_without_their_steps_cannot_run(void **state) {
  (void)state;
  static const cuda_image some[] = {{FREE, image, image + 8}, {PRE, image, image + 8},     {SINK, image, image + 8},
                                    {ANY, image, image + 8},  {ANY_PRE, image, image + 8}, {0}};
  ga_ctx *less;
  ga_plan *plan;
  cuda_replace_tables(some, no_sources);
  assert_int_equal(open_as("cuda:0", &less), GA_OK);
  assert_int_equal(less->device->n_kernels, 4 + rows_without_code()); /* all but FREE, which needs POST */
  assert_int_equal(ga_attn_bwd_plan(less, &desc, &plan), GA_OK);
  assert_string_equal(ga_plan_kernel_id(plan), ANY);
  ga_plan_destroy(plan);
  ga_ctx_destroy(less);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(attn_bwd_refuses, setup, teardown),
      cmocka_unit_test_setup_teardown(bwd_errors_name_the_argument, setup, teardown),
      cmocka_unit_test_setup_teardown(launches_its_steps, setup, teardown),
      cmocka_unit_test_setup_teardown(workspace_holds_dq, setup, teardown),
      cmocka_unit_test_setup_teardown(kv_resident_takes_heads, setup, teardown),
      cmocka_unit_test_setup_teardown(fallback_takes_every_shape, setup, teardown),
      cmocka_unit_test_setup_teardown(cluster2_takes_large_heads, setup, teardown),
      cmocka_unit_test_setup_teardown(plans_know_their_steps, setup, teardown),
      cmocka_unit_test_setup_teardown(rows_without_their_steps_cannot_run, setup, teardown)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
