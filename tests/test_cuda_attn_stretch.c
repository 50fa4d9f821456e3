/* Launch side of attention over stretches over the mock driver: what a row refuses, and what a launch passes. */
#include "cuda/kern/attn/attn_fwd_sm90a.h"
#include "cuda/kern/attn/attn_stretch_args.h"
#include "tests/mock_device.h"

#define ADD "add_f32_rows_sm80_256x4"
#define ID  "attn_fwd_stretch_bf16_d128v128_window_sm90a_128x128x2_test"

enum { TOKENS = 1000, BLOCK = 128 };

static const unsigned char image[] = "an image";
static const cuda_image images[] = {{ADD, image, image + 8}, {ID, image, image + 8}, {0}};

static cuda_attn_variant variant;
static ga_ctx *ctx;
static ga_attn_desc desc;
static ga_attn_io io;
static ga_attn_stretch q[3], kv[5];
static void *memory;

/* The row as the device has it: only such ones, and rows of the build, are launched. */
static const ga_kernel *the_row(void) { return &((const cuda_device *)ctx->device)->rows[0]; }

static int setup(void **state) {
  (void)state;
  mock_begin(images);
  mockcu.args_bytes = sizeof(ga_kargs_attn_stretch);
  variant = (cuda_attn_variant){.base = {.params = "", .threads = 384, .shared_bytes = 164144},
                                .d = 128,
                                .dv = 128,
                                .bm = BLOCK,
                                .bn = BLOCK,
                                .stages = 2,
                                .blocks = 1,
                                .features = ATTN_FWD_SM90A_STRETCHES,
                                .mask = CUDA_ATTN_MASK_WINDOW};
  const size_t bytes = (size_t)TOKENS * 2 * 128 * 2;
  if (open_as("cuda:0", &ctx) != GA_OK || ga_buffer_alloc(ctx, 5 * bytes, &memory) != GA_OK) return 1;
  ((cuda_device *)ctx->device)->rows[0] = (ga_kernel){.id = ID,
                                                      .source = "none",
                                                      .op = GA_OP_attn,
                                                      .isa = GA_ISA_sm90a,
                                                      .dtype = {GA_BF16, GA_BF16, GA_BF16},
                                                      .align = 16,
                                                      .speed = 100,
                                                      .launch = cuda_attn_fwd,
                                                      .ok = cuda_attn_fwd_ok,
                                                      .impl = &variant};
  desc = (ga_attn_desc)GA_ATTN_DESC_INIT;
  desc.max_q = desc.max_kv = TOKENS;
  desc.q_heads = 2, desc.kv_heads = 1, desc.head_dim = desc.v_dim = 128;
  desc.q_dtype = desc.kv_dtype = desc.o_dtype = GA_BF16;
  desc.flags = GA_ATTN_CAUSAL;
  desc.scale = 0.125f;
  desc.q_stretches = 3, desc.kv_stretches = 5;
  char *at = memory;
  io = (ga_attn_io){.q = at, .k = at + bytes, .v = at + 2 * bytes, .o = at + 3 * bytes};
  io.q_stride = io.o_stride = (ga_attn_strides){.batch = TOKENS * 256, .token = 256, .head = 128};
  io.k_stride = io.v_stride = (ga_attn_strides){.batch = TOKENS * 128, .token = 128, .head = 128};
  io.q_stretches = q, io.kv_stretches = kv;
  memset(q, 0, sizeof q);
  memset(kv, 0, sizeof kv);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  ga_buffer_free(ctx, memory);
  ga_ctx_destroy(ctx);
  return mock_end();
}

static void takes_stretches_alone(void **state) {
  (void)state;
  const ga_caps *caps = &ctx->device->caps;
  assert_null(cuda_attn_fwd_ok(the_row(), &desc, caps));
  desc.flags = 0; /* its masks are of any kind */
  desc.window = 7;
  assert_null(cuda_attn_fwd_ok(the_row(), &desc, caps));
  desc.q_stretches = desc.kv_stretches = 0;
  assert_string_equal(cuda_attn_fwd_ok(the_row(), &desc, caps), "it takes stretches alone");
}

static const ga_kargs_attn_stretch *launched_stretches(void) {
  static ga_kargs_attn_stretch a;
  if (cuda_attn_fwd(the_row(), &desc, &io, NULL, ctx->stream) != GA_OK) fail_msg("%s", ga_error_text());
  memcpy(&a, mockcu.last.args, sizeof a);
  return &a;
}

static void expect_keys(const ga_kattn_kv_stretch *s, int32_t first, int32_t rows, int32_t position, int32_t block) {
  assert_int_equal(s->first, first);
  assert_int_equal(s->rows, rows);
  assert_int_equal(s->position, position);
  assert_int_equal(s->block, block);
}

/* What goes on in memory and in position is one; each begins a block; positions count from the document's first key. */
static void joins_keys(void **state) {
  (void)state;
  q[0] = (ga_attn_stretch){.rows = 10, .document = 2};
  kv[0] = (ga_attn_stretch){.first = 500, .rows = 100, .position = 4000, .document = 2};
  kv[1] = (ga_attn_stretch){.first = 600, .rows = 30, .position = 4100, .document = 2};
  kv[2] = (ga_attn_stretch){.first = 0, .rows = 70, .position = 4200, .document = 2};
  kv[3] = (ga_attn_stretch){.first = 70, .rows = 0, .position = 0, .document = 3};
  kv[4] = (ga_attn_stretch){.first = 70, .rows = 200, .position = 9, .document = 3};
  const ga_kargs_attn_stretch *a = launched_stretches();
  assert_int_equal(a->q[0].documents, 0 | 2 << 16);
  expect_keys(&a->kv[0], 500, 130, 0, 0);
  expect_keys(&a->kv[1], 0, 70, 200, 2);
  expect_keys(&a->kv[2], 70, 200, 0, 3);
  expect_keys(&a->kv[GA_KATTN_STRETCHES], 0, 0, 0, 0);
  kv[0].ready_word = kv[1].ready_word = 3;
  kv[1].ready = 5; /* comes later than the first: on its own */
  uint32_t *words = (uint32_t *)memory;
  io.ready = words, io.ready_error = (int32_t *)memory + 1;
  a = launched_stretches();
  assert_int_equal(a->q[0].documents, 0 | 3 << 16);
  expect_keys(&a->kv[1], 600, 30, 100, 1);
  assert_int_equal(a->kv[1].ready, 5);
  assert_int_equal(a->kv[1].ready_word, 3 | 1 << 16);
  assert_ptr_equal(a->ready, words);
  assert_int_equal(a->ready_polls, 1 << 22);
}

/* Those that see the most come first; documents tell which stretches of keys. */
static void orders_queries(void **state) {
  (void)state;
  ga_kargs_attn_fwd fwd;
  kv[0] = (ga_attn_stretch){.first = 0, .rows = 600, .position = 100, .document = 0};
  kv[1] = (ga_attn_stretch){.first = 600, .rows = 400, .position = 0, .document = 1};
  q[0] = (ga_attn_stretch){.first = 0, .rows = 129, .position = 120, .document = 0};
  q[1] = (ga_attn_stretch){.first = 200, .rows = 300, .position = 400, .document = 0};
  q[2] = (ga_attn_stretch){.first = 600, .rows = 10, .position = 7, .document = 5};
  for (int i = 2; i < 5; i++) kv[i] = (ga_attn_stretch){.document = 1, .position = 400};
  const ga_kargs_attn_stretch *a = launched_stretches();
  memcpy(&fwd, a->fwd, sizeof a->fwd);
  assert_int_equal(a->q[0].first, 200);
  assert_int_equal(a->q[0].position, 300);
  assert_int_equal(a->q[0].documents, 0 | 1 << 16);
  assert_int_equal(a->q[1].first, 0);
  assert_int_equal(a->q[1].position, 20);
  /* no keys of document 5 */
  assert_int_equal(a->q[2].documents, GA_KATTN_STRETCHES | (GA_KATTN_STRETCHES + 1) << 16);
  assert_int_equal(fwd.tiles_per_head, 3 + 2 + 1);
  assert_int_equal(fwd.tiles, 2 * 6);
  assert_int_equal(fwd.window_right, 0);
  assert_true(fwd.window_left == 1 << 29);
  assert_int_equal(mockcu.last.grid[0], ctx->device->caps.sms);
  desc.window = 50;
  memcpy(&fwd, launched_stretches()->fwd, sizeof a->fwd);
  assert_int_equal(fwd.window_left, 49);
}

static void launches_nothing_for_no_rows(void **state) {
  (void)state;
  assert_int_equal(cuda_attn_fwd(the_row(), &desc, &io, NULL, ctx->stream), GA_OK);
  assert_int_equal(mockcu.launches, 0);
}

static void names_what_is_too_far(void **state) {
  (void)state;
  float on_host[4];
  kv[0] = (ga_attn_stretch){.first = 0, .rows = 10, .position = 5};
  kv[1] = (ga_attn_stretch){.first = 10, .rows = 10, .position = (int64_t)1 << 30};
  for (int i = 2; i < 5; i++) kv[i].position = (int64_t)1 << 31;
  assert_int_equal(cuda_attn_fwd(the_row(), &desc, &io, NULL, ctx->stream), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), ID ": kv_stretches[1] ends at position 1073741834"));
  kv[1].position = 20;
  q[1] = (ga_attn_stretch){.first = 0, .rows = 10, .position = (int64_t)1 << 30};
  assert_int_equal(cuda_attn_fwd(the_row(), &desc, &io, NULL, ctx->stream), GA_ERR_ARG);
  assert_non_null(
      strstr(ga_error_text(), ID ": q_stretches[1] begins 1073741819 positions behind its document's first key"));
  q[1].position = 0;
  io.ready = (const uint32_t *)(const void *)on_host;
  assert_int_equal(cuda_attn_fwd(the_row(), &desc, &io, NULL, ctx->stream), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "ready is at "));
  assert_int_equal(mockcu.launches, 0);
}

/* Each stretch of Q has tiles of its own: 64 of one row are 64 for a head. 2^26 heads have 2^32. */
static void names_too_many_tiles(void **state) {
  (void)state;
  ga_attn_stretch rows[GA_ATTN_MAX_STRETCHES];
  memset(rows, 0, sizeof rows);
  for (int i = 0; i < GA_ATTN_MAX_STRETCHES; i++) rows[i].first = i, rows[i].rows = 1;
  desc.batch = 1 << 25, desc.max_q = desc.q_stretches = GA_ATTN_MAX_STRETCHES;
  io.q_stretches = rows;
  kv[0].rows = 10;
  for (int i = 1; i < 5; i++) kv[i].position = 10;
  assert_null(cuda_attn_fwd_ok(the_row(), &desc, &ctx->device->caps));
  assert_int_equal(cuda_attn_fwd(the_row(), &desc, &io, NULL, ctx->stream), GA_ERR_SHAPE);
  assert_string_equal(ga_error_text(), ID ": 64 tiles of Q for each of 67108864 heads; at most 2^30 in all");
  assert_int_equal(mockcu.launches, 0);
}

/* A box lies within a page and a block, and stretches begin with one. */
static void cuts_pages_into_boxes(void **state) {
  static const struct {
    int32_t page_size;
    int64_t first;
    int32_t box;
  } all[] = {{256, 0, 128}, {64, 256, 64}, {48, 0, 16}, {256, 96, 32}, {16, 1000, 8}};
  (void)state;
  ga_kargs_attn_fwd fwd;
  desc.flags |= GA_ATTN_PAGED;
  io.page_table = (const int32_t *)memory;
  q[0] = (ga_attn_stretch){.rows = 10};
  for (size_t i = 0; i < GA_COUNT_OF(all); i++) {
    desc.page_size = all[i].page_size;
    kv[0] = (ga_attn_stretch){.first = all[i].first, .rows = 17};
    for (int k = 1; k < 5; k++) kv[k] = (ga_attn_stretch){.first = 3, .position = 17}; /* no rows: anywhere */
    assert_null(cuda_attn_fwd_ok(the_row(), &desc, &ctx->device->caps));
    memcpy(&fwd, launched_stretches()->fwd, sizeof launched_stretches()->fwd);
    assert_int_equal(fwd.page_size, all[i].page_size);
    assert_int_equal(fwd.page_box, all[i].box);
  }
  const int launches = mockcu.launches;
  kv[0].first = 1004;
  assert_int_equal(cuda_attn_fwd(the_row(), &desc, &io, NULL, ctx->stream), GA_ERR_ARG);
  assert_string_equal(ga_error_text(), ID ": kv_stretches[0].first is 1004; with pages it must be a multiple of 8");
  assert_int_equal(mockcu.launches, launches);
  desc.page_size = 20;
  assert_string_equal(cuda_attn_fwd_ok(the_row(), &desc, &ctx->device->caps), "page_size must be a multiple of 8");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {TEST(takes_stretches_alone), TEST(joins_keys),
                                     TEST(orders_queries),        TEST(launches_nothing_for_no_rows),
                                     TEST(names_what_is_too_far), TEST(names_too_many_tiles),
                                     TEST(cuts_pages_into_boxes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
