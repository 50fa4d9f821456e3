/* Launch side of the attention rows for every shape and of the ladder over the mock driver: refusals, errors, what a
 * launch passes. */

#include "core/cost.h"
#include "cuda/kern/ladder/ladder_args.h"
#include "cuda/kern/ladder/ladder_host.h"
#include "tests/mock_device.h"

#define ANY    "attn_fwd_bf16_d128_fallback_sm80_64x64w4"
#define LADDER "attn_ladder_bf16_d128_full_sm90a_08_pingpong"
#define ELEMS  ((size_t)1 << 20)

static const unsigned char image[] = "an image";
static const cuda_image images[] = {{ANY, image, image + 8}, {LADDER, image, image + 8}, {0}};

static ga_ctx *ctx;
static ga_attn_desc desc;
static ga_attn_io io;
static void *memory;

static int setup(void **state) {
  (void)state;
  mock_begin(images);
  if (open_as("cuda:0", &ctx) != GA_OK || ga_buffer_alloc(ctx, ELEMS * 8, &memory) != GA_OK) return 1;
  desc = (ga_attn_desc)GA_ATTN_DESC_INIT;
  desc.batch = 2;
  desc.max_q = 300;
  desc.max_kv = 500;
  desc.q_heads = 6;
  desc.kv_heads = 3;
  desc.head_dim = desc.v_dim = 128;
  desc.q_dtype = desc.kv_dtype = desc.o_dtype = GA_BF16;
  desc.scale = 0.125f;
  char *at = memory;
  io = (ga_attn_io){
      .q = at, .k = at + ELEMS, .v = at + 2 * ELEMS, .o = at + 3 * ELEMS, .lse = (float *)(void *)(at + 4 * ELEMS)};
  io.q_stride = io.o_stride = (ga_attn_strides){.batch = 300 * 768, .token = 768, .head = 128};
  io.k_stride = io.v_stride = (ga_attn_strides){.batch = 500 * 384, .token = 384, .head = 128};
  return 0;
}

static int teardown(void **state) {
  (void)state;
  ga_buffer_free(ctx, memory);
  ga_ctx_destroy(ctx);
  return mock_end();
}

static const char *why_not(const char *id) {
  const ga_kernel *k = row_by_id(ctx, id);
  return k->ok(k, &desc, &ctx->device->caps);
}

static void fallback_refuses(void **state) {
  (void)state;
  const ga_attn_desc good = desc;
  assert_null(why_not(ANY));
  assert_null(why_not(LADDER));
#define REFUSED(id, change, reason)           \
  do {                                        \
    change;                                   \
    assert_string_equal(why_not(id), reason); \
    desc = good;                              \
  } while (0)
  REFUSED(ANY, desc.o_dtype = GA_F32, "q, kv and o must be of its dtype");
  REFUSED(ANY, desc.head_dim = 129, "head_dim or v_dim is larger");
  REFUSED(ANY, desc.max_q = (int64_t)1 << 40, "too many rows");
  REFUSED(LADDER, desc.head_dim = 64, "head_dim and v_dim must be 128");
  REFUSED(LADDER, desc.flags = GA_ATTN_CAUSAL, "the ladder has no masks and no features");
  REFUSED(LADDER, desc.max_kv = 0, "max_kv is 0");
  REFUSED(LADDER, desc.scale = -1, "scale must be positive");
#undef REFUSED
  desc.head_dim = 7; /* odd widths, negative scales, no keys: any */
  desc.max_kv = 0;
  desc.scale = -1;
  assert_null(why_not(ANY));
}

static ga_status launch_row(const char *id, size_t args_bytes) {
  const ga_kernel *k = row_by_id(ctx, id);
  mockcu.args_bytes = args_bytes;
  return k->launch(k, &desc, &io, NULL, ctx->stream);
}

static ga_kargs_attn_fallback launched_fallback(void) {
  ga_kargs_attn_fallback a;
  assert_int_equal(launch_row(ANY, sizeof a), GA_OK);
  memcpy(&a, mockcu.last.args, sizeof a);
  return a;
}

static void fallback_launch(void **state) {
  (void)state;
  desc.flags = GA_ATTN_CAUSAL;
  desc.window = 2000000000; /* more than there is: cut, so that sums stay in 32 bits */
  ga_kargs_attn_fallback a = launched_fallback();
  assert_int_equal(mockcu.last.grid[0], 10 * 2 * 3); /* 300 tokens x 2 heads of a group, 64 a tile */
  assert_int_equal(mockcu.last.block[0], 128);
  assert_int_equal(a.vec16, 1);
  assert_int_equal(a.window, 800 + (1 << 28)); /* and of a part's shift */
  assert_null(a.lse);                          /* not asked for */
  io.k_stride.token = 385;
  assert_int_equal(launched_fallback().vec16, 0);
  io.k_stride.token = 384;
  io.q = (const char *)io.q + 2;
  assert_int_equal(launched_fallback().vec16, 0);
  io.q = (const char *)io.q + 1; /* not even an element's */
  assert_int_equal(launch_row(ANY, sizeof a), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), ": q is at"));
}

static void parts_and_state(void **state) {
  (void)state;
  desc.flags = GA_ATTN_CAUSAL | GA_ATTN_STATE_OUT;
  desc.window = 900;
  desc.kv_segments = 4;
  io.state_o = io.state_m = io.state_l = io.lse;
  io.kv_segments[0] = (ga_attn_kv_segment){.kv = 0}; /* left out */
  io.kv_segments[1] = (ga_attn_kv_segment){.k = io.k, .v = io.v, .kv = 100, .shift = 7};
  io.kv_segments[2] = (ga_attn_kv_segment){
      .k = io.k, .v = io.v, .kv = 100, .shift = 1199}; /* behind the window of the first of 300 queries */
  io.kv_segments[3] = (ga_attn_kv_segment){.k = io.v, .v = (const char *)io.k + 2, .kv = 500, .shift = 1198};
  const ga_kargs_attn_fallback a = launched_fallback();
  assert_int_equal(a.kv_segments, 2);
  assert_int_equal(a.part[0].shift, 7);
  assert_int_equal(a.part[1].rows, 500);
  assert_ptr_equal(a.part[1].k, io.v);
  assert_int_equal(a.vec16, 0);
  assert_int_equal(a.state_in, 0);
  assert_int_equal(a.state_out, 1);
  io.kv_segments[1].kv = io.kv_segments[3].kv = 0;
  assert_int_equal(launched_fallback().kv_segments, 1); /* rows are written all the same */
  assert_int_equal(launched_fallback().part[0].rows, 0);
  io.state_m = (float *)(void *)((char *)io.lse + 2);
  assert_int_equal(launch_row(ANY, sizeof a), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), ": state_m is at"));
}

static void ladder_launch(void **state) {
  (void)state;
  desc.flags = GA_ATTN_LSE;
  assert_int_equal(launch_row(LADDER, sizeof(ga_kargs_ladder)), GA_OK);
  ga_kargs_ladder a;
  memcpy(&a, mockcu.last.args, sizeof a);
  assert_int_equal(mockcu.last.grid[0], 3 * 2 * 6);
  assert_int_equal(mockcu.last.shared_bytes, 163912);
  assert_int_equal(a.group, 2);
  assert_ptr_equal(a.lse, io.lse);
  io.v_stride.head = 4;
  const int before = mockcu.launches;
  assert_int_equal(launch_row(LADDER, sizeof a), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "a stride of v is 4; must be a multiple of 8"));
  assert_int_equal(mockcu.launches, before);
}

static double cost(const char *id) {
  const ga_kernel *k = row_by_id(ctx, id);
  return ga_cost_us(k, &desc, &ctx->device->caps);
}

static void stands_behind(void **state) {
  (void)state;
  desc.max_q = 16;
  const double many = cost(ANY);
  desc.max_q = 1;
  assert_true(cost(ANY) > 2 * many); /* decode: left to the row kernels */
  assert_true(row_by_id(ctx, LADDER)->flags & GA_KERNEL_TEACHING);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(fallback_refuses, setup, teardown),
                                     cmocka_unit_test_setup_teardown(fallback_launch, setup, teardown),
                                     cmocka_unit_test_setup_teardown(parts_and_state, setup, teardown),
                                     cmocka_unit_test_setup_teardown(ladder_launch, setup, teardown),
                                     cmocka_unit_test_setup_teardown(stands_behind, setup, teardown)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
