/* Launch side of the attention kernels over the mock driver: what a row refuses, what errors name, what a launch
 * passes. */
#include <math.h>

#include "cuda/kern/attn/attn_fwd_sm90a.h"
#include "cuda/kern/attn/attn_fwd_sm90a_args.h"
#include "cuda/rt/costs.h"
#include "tests/mock_device.h"

#define ADD "add_f32_rows_sm80_256x4"
#define ID  "attn_fwd_bf16_d128v128_causal_sm90a_128x128x2_test"

static const unsigned char image[] = "an image";
static const cuda_image images[] = {{ADD, image, image + 8}, {ID, image, image + 8}, {0}};

static cuda_attn_variant variant;
static ga_kernel row;
static ga_ctx *ctx;
static ga_attn_desc desc;
static ga_attn_io io;
static void *memory;

#define ELEMS ((size_t)1 << 20)

/* The row as the device has it: only such ones, and rows of the build, are launched. */
static const ga_kernel *own_row(void) { return &((const cuda_device *)ctx->device)->rows[0]; }

static int setup(void **state) {
  (void)state;
  mock_begin(images);
  mockcu.args_bytes = sizeof(ga_kargs_attn_fwd);
  variant = (cuda_attn_variant){.base = {.params = "", .threads = 384, .shared_bytes = 196896},
                                .d = 128,
                                .dv = 128,
                                .bm = 128,
                                .bn = 128,
                                .stages = 2,
                                .blocks = 1,
                                .mask = CUDA_ATTN_MASK_CAUSAL};
  row = (ga_kernel){.id = ID,
                    .source = "none",
                    .op = GA_OP_attn,
                    .isa = GA_ISA_sm90a,
                    .dtype = {GA_BF16, GA_BF16, GA_BF16},
                    .align = 16,
                    .speed = 100,
                    .launch = cuda_attn_fwd,
                    .ok = cuda_attn_fwd_ok,
                    .impl = &variant};
  if (open_as("cuda:0", &ctx) != GA_OK || ga_buffer_alloc(ctx, ELEMS * 8, &memory) != GA_OK) return 1;
  ((cuda_device *)ctx->device)->rows[0] = row; /* in place of add */
  desc = (ga_attn_desc)GA_ATTN_DESC_INIT;
  desc.batch = 2;
  desc.max_q = 300;
  desc.max_kv = 500;
  desc.q_heads = 6;
  desc.kv_heads = 3;
  desc.head_dim = 96;
  desc.v_dim = 64;
  desc.q_dtype = desc.kv_dtype = desc.o_dtype = GA_BF16;
  desc.flags = GA_ATTN_CAUSAL | GA_ATTN_LSE;
  desc.scale = 0.125f;
  char *at = memory;
  io = (ga_attn_io){
      .q = at, .k = at + ELEMS, .v = at + 2 * ELEMS, .o = at + 3 * ELEMS, .lse = (float *)(void *)(at + 4 * ELEMS)};
  io.q_stride = (ga_attn_strides){.batch = 300 * 576, .token = 576, .head = 96};
  io.k_stride = (ga_attn_strides){.batch = 500 * 288, .token = 288, .head = 96};
  io.v_stride = (ga_attn_strides){.batch = 500 * 192, .token = 192, .head = 64};
  io.o_stride = (ga_attn_strides){.batch = 300 * 384, .token = 384, .head = 64};
  return 0;
}

static int teardown(void **state) {
  (void)state;
  ga_buffer_free(ctx, memory);
  ga_ctx_destroy(ctx);
  return mock_end();
}

static const char *why_refused(void) { return cuda_attn_fwd_ok(&row, &desc, &ctx->device->caps); }

static void attn_refuses(void **state) {
  (void)state;
  const ga_attn_desc good = desc;
  assert_null(why_refused());
#define REFUSED(change, reason)                 \
  do {                                          \
    change;                                     \
    assert_string_equal(why_refused(), reason); \
    desc = good;                                \
  } while (0)
  REFUSED(desc.o_dtype = GA_F32, "q, kv and o must be of its dtype");
  REFUSED(desc.head_dim = 136, "head_dim or v_dim is larger than its own");
  REFUSED(desc.v_dim = 60, "head_dim and v_dim must be multiples of 8");
  REFUSED(desc.scale = -1, "scale must be positive");
  REFUSED(desc.max_q = (int64_t)1 << 40,
          "too many rows: at most 2^28 of q, of kv, of batch * q_heads, of 64-row tiles");
  REFUSED(desc.batch = (int64_t)1 << 40,
          "too many rows: at most 2^28 of q, of kv, of batch * q_heads, of 64-row tiles");
  REFUSED(desc.flags = 0, "compiled for another mask");
  REFUSED(desc.window = 5, "compiled for another mask");
  REFUSED((desc.flags |= GA_ATTN_PAGED, desc.page_size = 12), "page_size must be a multiple of 8");
  REFUSED((desc.flags |= GA_ATTN_PAGED, desc.page_size = 16), "compiled without pages");
  REFUSED(desc.flags |= GA_ATTN_VARLEN, "compiled without packed sequences");
  REFUSED(desc.flags |= GA_ATTN_SINKS, "compiled without sinks");
  REFUSED(desc.flags |= GA_ATTN_ALIBI, "compiled without ALiBi");
  REFUSED(desc.softcap = 30, "compiled without soft-cap");
  REFUSED(desc.flags |= GA_ATTN_STATE_OUT, "compiled without carried state");
  REFUSED(desc.kv_segments = 2, "compiled without KV segments");
  REFUSED(desc.q_stretches = desc.kv_stretches = 1, "compiled without stretches");
  desc.max_kv = 0;
  assert_null(why_refused());
  desc = good;
  variant.kv_resident = 1;
  assert_string_equal(why_refused(), "max_kv is too long to stay in shared memory");
}

/* Per cent that the row is expected to be slower than the fastest of its head. */
static int slowdown_of(int64_t keys, int64_t heads) {
  const ga_caps caps = {.sms = 132, .rates = &cuda_costs_of_chip("")->rates};
  desc.max_kv = keys;
  desc.q_heads = (int32_t)heads;
  const double best = cuda_attn_us(&desc, variant.d, variant.dv, &caps);
  return (int)(100 * (cuda_attn_fwd_cost(&row, &desc, &caps) - caps.rates->call_us) / best + 0.5) - 100;
}

static void fits_where_it_was_measured(void **state) {
  (void)state;
  desc.batch = 1;
  desc.max_q = 256;
  variant.keys_from = 100;
  variant.keys_to = 200;
  variant.max_waves = 1;
  assert_int_equal(slowdown_of(100, 4), 0);
  assert_int_equal(slowdown_of(200, 66), 0); /* two tiles a head */
  assert_int_equal(slowdown_of(200, 67), 6);
  assert_int_equal(slowdown_of(99, 4), 6);
  assert_int_equal(slowdown_of(201, 4), 6);
  variant.mask = CUDA_ATTN_MASK_WINDOW;
  assert_int_equal(slowdown_of(150, 4), 4);
}

static void expect_error_text(const char *text) {
  assert_int_equal(cuda_attn_fwd(own_row(), &desc, &io, NULL, ctx->stream), GA_ERR_ARG);
  if (!strstr(ga_error_text(), text)) fail_msg("'%s' lacks '%s'", ga_error_text(), text);
  assert_int_equal(mockcu.launches, 0);
}

static void errors_name_the_argument(void **state) {
  (void)state;
  const ga_attn_io good = io;
  float host[4];
  io.k = (const char *)io.k + 8;
  expect_error_text(ID ": k is at ");
  expect_error_text("must be a multiple of 16 bytes");
  io = good;
  io.o_stride.head = 65;
  expect_error_text(ID ": o_stride.head is 65; must be a multiple of 8");
  io = good;
  io.v_stride.token = -192;
  expect_error_text("v_stride.token is -192");
  io = good;
  io.lse = host;
  expect_error_text("lse is at ");
  expect_error_text("which is no memory of cuda:0");
  io = good;
  desc.flags |= GA_ATTN_VARLEN;
  io.q_tokens = -1;
  expect_error_text(ID ": q_tokens is -1; must be 0 to 2^28");
  io.q_tokens = 5;
  io.kv_tokens = (int64_t)1 << 40;
  expect_error_text(ID ": kv_tokens is 1099511627776; must be 0 to 2^28");
  io = good;
  desc.flags &= ~(uint32_t)GA_ATTN_VARLEN;
  desc.kv_segments = 1;
  io.kv_segments[0] = (ga_attn_kv_segment){.k = (const char *)io.k + 4, .v = io.v, .kv = 3};
  expect_error_text(ID ": k of a KV segment is at ");
  desc.window = (1 << 28) + 100;
  io.kv_segments[0] = (ga_attn_kv_segment){.k = io.k, .v = io.v, .kv = 3, .shift = (1 << 28) + 1};
  expect_error_text(ID
                    ": kv_segments[0].shift is 268435457; with a window of 268435556 it must be at most 2^28, or mask "
                    "the whole segment");
}

/* Through the public calls, which refuse before anything is enqueued. */
static void public_call(ga_status want, const char *text) {
  assert_int_equal(ga_attn(ctx, &desc, &io, NULL), want);
  if (!strstr(ga_error_text(), text)) fail_msg("'%s' lacks '%s'", ga_error_text(), text);
  assert_int_equal(mockcu.launches, 0);
}

static void public_calls_name_what_is_wrong(void **state) {
  (void)state;
  const ga_attn_io good = io;
  const ga_attn_desc whole = desc;
  desc.head_dim = 136;
  public_call(GA_ERR_UNSUPPORTED, ID ": head_dim or v_dim is larger than its own");
  desc = whole;
  desc.kv_segments = 5;
  public_call(GA_ERR_ARG, "attn: kv_segments is 5; must be 0 to 4");
  desc.kv_segments = 1;
  desc.flags |= GA_ATTN_PAGED;
  desc.page_size = 16;
  public_call(GA_ERR_ARG, "attn: kv_segments is 1; must be 0 with VARLEN or PAGED");
  desc = whole;
  io.o = (char *)memory + 2; /* inside of q */
  public_call(GA_ERR_ARG, "overlaps q at");
  io.o = (char *)memory + 3 * ELEMS - 64; /* its head lies on v's tail */
  io.v = (char *)memory + 2 * ELEMS + 800000;
  public_call(GA_ERR_ARG, "overlaps v at");
  io = good;
  io.q = NULL;
  public_call(GA_ERR_ARG, "q is null");
  io = good;
  io.lse = NULL;
  public_call(GA_ERR_ARG, "lse is null");
  io = good;
  assert_int_equal(ga_attn(ctx, &desc, &io, NULL), GA_OK);
  assert_int_equal(mockcu.launches, 1);
}

/* A plan that needs workspace refuses to run without. */
static uint64_t needs_4k(const ga_kernel *k, const void *d, const ga_caps *caps) {
  (void)k, (void)d, (void)caps;
  return 4096;
}
static void workspace_and_stream_are_checked(void **state) {
  (void)state;
  ga_plan *plan;
  ga_ctx *other;
  ga_stream *stream;
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  ((cuda_device *)ctx->device)->rows[0].workspace = needs_4k;
  assert_int_equal(ga_attn_plan(ctx, &desc, &plan), GA_OK);
  assert_int_equal(ga_attn_run(plan, &io, NULL, NULL), GA_ERR_ARG);
  if (!strstr(ga_error_text(), "attn: workspace is null; 4096 bytes needed")) fail_msg("'%s'", ga_error_text());
  o.device = "cuda:0";
  assert_int_equal(ga_ctx_create(&o, &other), GA_OK);
  assert_int_equal(ga_stream_create(other, &stream), GA_OK);
  assert_int_equal(ga_attn_run(plan, &io, memory, stream), GA_ERR_ARG);
  if (!strstr(ga_error_text(), "attn: ")) fail_msg("'%s'", ga_error_text());
  assert_int_equal(mockcu.launches, 0);
  ga_stream_destroy(stream);
  ga_ctx_destroy(other);
  ga_plan_destroy(plan);
}

static const ga_kargs_attn_fwd *launched(void) {
  static ga_kargs_attn_fwd a;
  if (cuda_attn_fwd(own_row(), &desc, &io, NULL, ctx->stream) != GA_OK) fail_msg("%s", ga_error_text());
  memcpy(&a, mockcu.last.args, sizeof a);
  return &a;
}

static void passes_what_the_kernel_needs(void **state) {
  (void)state;
  const ga_kargs_attn_fwd *a = launched();
  const mock_launch *l = &mockcu.last;
  assert_string_equal(l->id, ID);
  assert_int_equal(l->block[0], 384);
  assert_int_equal(l->shared_bytes, variant.base.shared_bytes);
  assert_int_equal(l->grid[0], 4); /* persistent: one block a multiprocessor */
  assert_int_equal(a->tiles_per_head, 3);
  assert_int_equal(a->tiles, 3 * 12);
  assert_int_equal(a->heads_total, 12);
  assert_int_equal(a->group, 2);
  assert_int_equal(a->heads_per_section, 12);
  assert_int_equal(a->rows_q, 300);
  assert_int_equal(a->rows_k, 500);
  assert_ptr_equal(a->lse, io.lse);
  assert_int_equal(a->lse_stride_batch, 6 * 300);
  assert_int_equal(a->cols_v, 64);
  assert_true(fabsf(a->scale_log2 - 0.125f * 1.4426950f) < 1e-6f);
  assert_int_equal(mockcu_extent(a->counter) >= 8, 1);
  assert_int_equal(a->counter[0] | a->counter[1], 0);
  assert_int_equal(a->q.word[0], 0x7a7a7a7a7a7a7a7a); /* encoded */
  desc.flags &= ~(uint32_t)GA_ATTN_LSE;
  assert_null(launched()->lse);
}

static void one_element_dimensions_take_any_stride(void **state) {
  (void)state;
  desc.batch = 1;
  desc.q_heads = desc.kv_heads = 1;
  io.q_stride.batch = io.k_stride.head = 0;
  (void)launched();
  assert_int_equal(mockcu.misuse[0], 0);
}

static void windows_and_features(void **state) {
  (void)state;
  variant.mask = CUDA_ATTN_MASK_WINDOW;
  variant.features = ATTN_FWD_SM90A_EXTRAS;
  desc.window = 17;
  desc.softcap = 30;
  desc.flags |= GA_ATTN_ALIBI | GA_ATTN_SINKS;
  io.alibi = io.sinks = io.lse;
  assert_null(why_refused());
  const ga_kargs_attn_fwd *a = launched();
  assert_int_equal(a->window_left, 16);
  assert_int_equal(a->window_right, 0);
  assert_int_equal(a->features, GA_KATTN_SOFTCAP | GA_KATTN_ALIBI | GA_KATTN_SINK);
  assert_true(fabs((double)a->ln_hi + (double)a->ln_lo - 30 / (double)a->softcap_out) < 1e-12);
  desc.flags = 0;
  assert_null(why_refused());
  assert_true(launched()->window_right >= 800);
}

/* 6 heads, 3 of K and V, rows of 160 elements: 32 MiB of K and V, or 64 MiB of Q, K, V and O. */
static void sections_by_length(void **state) {
  (void)state;
  static const struct {
    int64_t batch, kv;
    int32_t heads;
  } want[] = {{40, 512, 102}, {40, 2048, 102}, {40, 8191, 25}, {40, 8192, 46}, {40, 16384, 24}, {40, 60000, 6},
              {40, 65536, 3}, {1, 8191, 6},    {1, 16384, 6},  {1, 65536, 3},  {1, 262144, 1}};
  for (size_t i = 0; i < GA_COUNT_OF(want); i++) {
    desc.batch = want[i].batch;
    desc.max_kv = want[i].kv;
    assert_int_equal(launched()->heads_per_section, want[i].heads);
  }
}

static void pages_and_parts(void **state) {
  (void)state;
  variant.mask = CUDA_ATTN_MASK_WINDOW;
  variant.features = ATTN_FWD_SM90A_EXTRAS | ATTN_FWD_SM90A_CARRY | ATTN_FWD_SM90A_PAGES;
  desc.flags |= GA_ATTN_PAGED | GA_ATTN_VARLEN;
  desc.page_size = 48;
  io.kv_len = io.q_start = io.page_table = (const int32_t *)(const void *)io.lse;
  io.q_tokens = 400;
  assert_null(why_refused());
  assert_int_equal(launched()->page_box, 16); /* divides 48 and 128 */
  assert_int_equal(launched()->features, GA_KATTN_VARLEN | GA_KATTN_PAGED);
  desc.flags = GA_ATTN_CAUSAL | GA_ATTN_STATE_IN | GA_ATTN_STATE_OUT;
  desc.page_size = 0;
  desc.kv_segments = 3;
  io.state_o = io.state_m = io.state_l = io.lse;
  io.kv_segments[0] = (ga_attn_kv_segment){.kv = 0}; /* left out */
  io.kv_segments[1] = (ga_attn_kv_segment){.k = io.k, .v = io.v, .kv = 100, .shift = 7};
  io.kv_segments[2] = (ga_attn_kv_segment){.k = io.k, .v = io.v, .kv = 500, .shift = (int64_t)1 << 50};
  assert_null(why_refused());
  const ga_kargs_attn_fwd *a = launched();
  assert_int_equal(a->chunks, 2);
  assert_int_equal(a->rows_k, 100);
  assert_int_equal(a->shift, 7);
  assert_int_equal(a->more[0].rows, 500);
  assert_int_equal(a->more[0].diagonal, 200 + (1 << 28));
  desc.window = 5000; /* more than max_q + max_kv, but less than a shift may be */
  io.kv_segments[2].shift = 5298;
  assert_int_equal(launched()->chunks, 2);
  assert_int_equal(launched()->window_left, 4999);
  io.kv_segments[2].shift = 5299; /* the first query, at column 5499, does not see column 499 */
  assert_int_equal(launched()->chunks, 1);
  desc.window = 0;
  io.kv_segments[1].kv = io.kv_segments[2].kv = 0;
  assert_int_equal(launched()->chunks, 1);
  assert_int_equal(launched()->rows_k, 0);
}

/* Lengths reach a kernel where the description asks for them; the place of q's is that of pages. */
static void packed_by_lengths(void **state) {
  (void)state;
  const int32_t *const numbers = (const int32_t *)(const void *)io.lse;
  variant.mask = CUDA_ATTN_MASK_WINDOW;
  variant.features = ATTN_FWD_SM90A_EXTRAS | ATTN_FWD_SM90A_CARRY | ATTN_FWD_SM90A_PAGES;
  desc.flags |= GA_ATTN_VARLEN;
  io.q_start = numbers, io.kv_start = numbers + 8, io.q_len = numbers + 16, io.kv_len = numbers + 24;
  io.q_tokens = 400, io.kv_tokens = 700;
  assert_null(launched()->q_len);
  assert_null(launched()->kv_len);
  assert_int_equal(launched()->lse_stride_head, 300);
  assert_int_equal(launched()->lse_stride_batch, 1800);
  desc.flags |= GA_ATTN_LENGTHS;
  desc.lse_stride = 450;
  const ga_kargs_attn_fwd *a = launched();
  assert_ptr_equal(a->q_len, io.q_len);
  assert_ptr_equal(a->kv_len, io.kv_len);
  assert_int_equal(a->lse_stride_head, 450);
  assert_int_equal(a->lse_stride_batch, 0);
}

/* A replay may run beside work of the stream it was recorded on. */
static void graphs_have_their_own_counters(void **state) {
  (void)state;
  ga_graph *graph;
  const int32_t *own = launched()->counter;
  assert_int_equal(ga_graph_begin(ctx, NULL), GA_OK);
  assert_ptr_not_equal(launched()->counter, own);
  assert_int_equal(ga_graph_end(ctx, NULL, &graph), GA_OK);
  assert_ptr_equal(launched()->counter, own);
  ga_graph_destroy(graph);
}

static void nothing_to_do(void **state) {
  (void)state;
  desc.max_q = 0;
  assert_int_equal(cuda_attn_fwd(own_row(), &desc, &io, NULL, ctx->stream), GA_OK);
  assert_int_equal(mockcu.launches, 0);
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      T(attn_refuses),
      T(errors_name_the_argument),
      T(fits_where_it_was_measured),
      T(public_calls_name_what_is_wrong),
      T(workspace_and_stream_are_checked),
      T(sections_by_length),
      T(pages_and_parts),
      T(packed_by_lengths),
      T(packed_by_lengths),
      T(passes_what_the_kernel_needs),
      T(one_element_dimensions_take_any_stride),
      T(windows_and_features),
      T(graphs_have_their_own_counters),
      T(nothing_to_do),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
