/* Latent attention and the rows of its cache by hand: packed sequences, pages, causal rows, LSE, NaN that stays in its
 * sequence; descriptions and calls that are refused. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "ga/mla.h"
#include "tests/op_rig.h"

/* Rows of 3 elements, 2 of them values; pages of 2 tokens; 2 heads. */
enum { HEADS = 2, DIM = 3, VALUES = 2, PAGE = 2, QUERIES = 4, PAGES = 4 };

static ga_mla_desc desc_of_test(void) {
  ga_mla_desc d = GA_MLA_DESC_INIT;
  d.batch = 3, d.max_q = 3, d.max_kv = 3;
  d.q_heads = HEADS, d.head_dim = DIM, d.v_dim = VALUES;
  d.kv_dtype = GA_F32;
  d.page_size = PAGE;
  d.scale = 0.5f;
  return d;
}

/* Sequence 0 has three tokens in pages 3 and 1, and two queries; sequence 1 has no token and one query; sequence 2 has
 * one token in page 0 and one query. Page 2 is of no sequence. */
static const int32_t q_start[4] = {0, 2, 3, 4}, kv_len[3] = {3, 0, 1}, table[3][2] = {{3, 1}, {9, 9}, {0, 9}};

typedef struct tensors {
  float q[QUERIES][HEADS][DIM], cache[PAGES][PAGE][DIM], o[QUERIES][HEADS][VALUES], lse[HEADS][QUERIES];
} tensors;

static tensors tensors_of_test(void) {
  tensors t;
  for (int i = 0; i < QUERIES * HEADS * DIM; i++) (&t.q[0][0][0])[i] = (float)(i % 7) - 3;
  for (int i = 0; i < PAGES * PAGE * DIM; i++) (&t.cache[0][0][0])[i] = NAN;
  static const float first[3][DIM] = {{1, 2, -1}, {0.5f, -3, 2}, {-2, 1, 1}}, last[DIM] = {4, -8, 1};
  memcpy(t.cache[3], first, 2 * sizeof *first);
  memcpy(t.cache[1], first[2], sizeof *first);
  memcpy(t.cache[0], last, sizeof last);
  for (int i = 0; i < QUERIES * HEADS * VALUES; i++) (&t.o[0][0][0])[i] = 77;
  return t;
}

static ga_mla_io mla_io_of(tensors *t) {
  return (ga_mla_io){.q = t->q,
                     .cache = t->cache,
                     .o = t->o,
                     .lse = t->lse[0],
                     .q_start = q_start,
                     .kv_len = kv_len,
                     .page_table = table[0],
                     .page_table_stride = 2,
                     .q_tokens = QUERIES};
}

static void assert_as_by_hand(float got, double want, const char *what) {
  if (!(fabs((double)got - want) <= 2e-6 * fmax(1, fabs(want))))
    fail_msg("%s: %.9g, not %.9g", what, (double)got, want);
}

/* Query i and head h over the first n tokens of sequence 0. */
static void assert_row(const tensors *t, int i, int h, int n) {
  const float *rows[3] = {t->cache[3][0], t->cache[3][1], t->cache[1][0]};
  double sum = 0, o[VALUES] = {0};
  for (int j = 0; j < n; j++) {
    double x = 0;
    for (int c = 0; c < DIM; c++) x += 0.5 * (double)t->q[i][h][c] * (double)rows[j][c];
    sum += exp(x);
    for (int c = 0; c < VALUES; c++) o[c] += exp(x) * (double)rows[j][c];
  }
  for (int c = 0; c < VALUES; c++) assert_as_by_hand(t->o[i][h][c], o[c] / sum, "o");
  assert_as_by_hand(t->lse[h][i], log(sum), "lse");
}

static void packed_sequences(ga_ctx *ctx) {
  tensors t = tensors_of_test();
  ga_mla_desc d = desc_of_test();
  const ga_mla_io io = mla_io_of(&t);
  d.flags = GA_MLA_LSE, d.lse_stride = QUERIES;
  if (ga_mla(ctx, &d, &io, NULL) != GA_OK) fail_msg("%s", ga_error_text());
  for (int h = 0; h < HEADS; h++) {
    assert_row(&t, 0, h, 2);
    assert_row(&t, 1, h, 3);
    assert_true(t.o[2][h][0] == 0 && t.o[2][h][1] == 0 && t.lse[h][2] == -INFINITY);
    assert_true(t.o[3][h][0] == 4 && t.o[3][h][1] == -8); /* one token: its values */
  }
}

/* Only the last query of sequence 0 sees its third token. */
static void spoiled_token(ga_ctx *ctx) {
  tensors t = tensors_of_test();
  ga_mla_desc d = desc_of_test();
  const ga_mla_io io = mla_io_of(&t);
  t.cache[1][0][DIM - 1] = NAN;
  d.flags = GA_MLA_INVARIANT;
  if (ga_mla(ctx, &d, &io, NULL) != GA_OK) fail_msg("%s", ga_error_text());
  for (int h = 0; h < HEADS; h++) {
    assert_true(isfinite(t.o[0][h][0]) && isfinite(t.o[0][h][1]));
    assert_true(isnan(t.o[1][h][0]) && isnan(t.o[1][h][1]));
    assert_true(t.o[2][h][0] == 0 && t.o[3][h][0] == 4);
  }
}

static void refused_mla_plan(ga_ctx *ctx, ga_mla_desc d, ga_status want, const char *text) {
  ga_plan *plan;
  const ga_status got = ga_mla_plan(ctx, &d, &plan);
  assert_plan_refused(got, plan, want, text);
}

static void refused_mla_plans(ga_ctx *ctx) {
  ga_mla_desc d = desc_of_test();
  d.v_dim = 4;
  refused_mla_plan(ctx, d, GA_ERR_SHAPE, "mla: v_dim is 4; must be 1 to head_dim (3)");
  d.v_dim = 0;
  refused_mla_plan(ctx, d, GA_ERR_SHAPE, "mla: v_dim is 0; must be 1 to 1024");
  d.v_dim = 2, d.head_dim = 1025;
  refused_mla_plan(ctx, d, GA_ERR_SHAPE, "mla: head_dim is 1025; must be 1 to 1024");
  d.head_dim = 3, d.q_heads = 0;
  refused_mla_plan(ctx, d, GA_ERR_SHAPE, "mla: q_heads is 0; must be 1 to 65536");
  d.q_heads = 2, d.kv_dtype = GA_E4M3;
  refused_mla_plan(ctx, d, GA_ERR_SHAPE, "mla: v_dim is 2 and head_dim 3; an e4m3 cache needs a multiple of 128");
  d.v_dim = 128, d.head_dim = 129;
  refused_mla_plan(ctx, d, GA_ERR_SHAPE, "128, and an even number of further elements");
  d.v_dim = 2, d.head_dim = 3, d.kv_dtype = GA_Q8_0;
  refused_mla_plan(ctx, d, GA_ERR_DTYPE, "mla: kv_dtype is q8_0; allowed: f32, f16, bf16, e4m3");
  d.kv_dtype = GA_BF16, d.page_size = 0;
  refused_mla_plan(ctx, d, GA_ERR_SHAPE, "mla: page_size is 0; must be 1 to 2^24");
  d.page_size = 64, d.flags = GA_MLA_LSE;
  refused_mla_plan(ctx, d, GA_ERR_ARG, "mla: lse_stride is 0; must be at least 1 with LSE");
  d.flags = 0, d.lse_stride = 4;
  refused_mla_plan(ctx, d, GA_ERR_ARG, "mla: lse_stride is 4; must be 0 without LSE");
  d.lse_stride = 0, d.q_stride = 5;
  refused_mla_plan(ctx, d, GA_ERR_SHAPE, "mla: q_stride is 5; must be 0, or 6 to 2^40");
  d.q_stride = 0, d.scale = INFINITY;
  refused_mla_plan(ctx, d, GA_ERR_ARG, "mla: scale is inf; must be finite");
  d.scale = 1, d.flags = 4;
  refused_mla_plan(ctx, d, GA_ERR_ARG, "mla: flags");
  d.flags = 0, d.reserved = 1;
  refused_mla_plan(ctx, d, GA_ERR_ARG, "mla: reserved is 1; must be 0");
}

static void refused_mla_call(ga_ctx *ctx, const ga_mla_desc *d, ga_mla_io io, const char *text) {
  assert_int_equal(ga_mla(ctx, d, &io, NULL), GA_ERR_ARG);
  if (!strstr(ga_error_text(), text)) fail_msg("'%s' is not in '%s'", text, ga_error_text());
}

static void refused_mla_calls(ga_ctx *ctx) {
  tensors t = tensors_of_test();
  ga_mla_desc d = desc_of_test();
  const ga_mla_io good = mla_io_of(&t);
  ga_mla_io io = good;
  io.q = NULL;
  refused_mla_call(ctx, &d, io, "mla: q is null");
  io = good, io.cache = NULL;
  refused_mla_call(ctx, &d, io, "mla: cache is null");
  io = good, io.page_table = NULL;
  refused_mla_call(ctx, &d, io, "mla: page_table is null");
  io = good, io.o = t.q;
  refused_mla_call(ctx, &d, io, "overlaps q");
  io = good, io.page_table_stride = -1;
  refused_mla_call(ctx, &d, io, "mla: page_table_stride is -1; must be 0 to 2^40");
  d.flags = GA_MLA_LSE, d.lse_stride = 3;
  refused_mla_call(ctx, &d, good, "mla: lse_stride is 3; must be at least q_tokens, 4");
  d.lse_stride = 4, io = good, io.lse = NULL;
  refused_mla_call(ctx, &d, io, "mla: lse is null");
}

static void look_at_latents(ga_ctx *ctx) {
  packed_sequences(ctx);
  spoiled_token(ctx);
  refused_mla_plans(ctx);
  refused_mla_calls(ctx);
}

static void test_latent_attention(void **state) {
  (void)state;
  on_ref_and_cpu(look_at_latents);
}

/* CPU contexts alone refuse page numbers and lengths out of range, which lie in arrays. */
static void test_lengths_are_checked(void **state) {
  (void)state;
  ga_ctx *ctx = open_op_device("cpu");
  tensors t = tensors_of_test();
  ga_mla_desc d = desc_of_test();
  static const int32_t backwards[4] = {2, 1, 3, 4}, before[4] = {-1, 2, 3, 4}, long_kv[3] = {4, 0, 1};
  ga_mla_io io = mla_io_of(&t);
  io.q_start = backwards;
  refused_mla_call(ctx, &d, io, "sequence 0 has -1 queries, 3 cached tokens; must be 0 to 3, 0 to 3");
  io.q_start = before;
  refused_mla_call(ctx, &d, io, "sequence 0 has queries -1 to 2; must begin at 0 or later");
  io.q_start = q_start, io.kv_len = long_kv;
  refused_mla_call(ctx, &d, io, "sequence 0 has 2 queries, 4 cached tokens; must be 0 to 3, 0 to 3");
  assert_true(t.o[0][0][0] == 77); /* nothing is written */
  ga_ctx_destroy(ctx);
}

/* --- rows of the cache --- */

static ga_mla_store_desc store_desc_of_test(void) {
  ga_mla_store_desc d = GA_MLA_STORE_DESC_INIT;
  d.tokens = 2, d.slots = 3;
  d.v_dim = 2, d.rot_dim = 4;
  d.kv_dtype = GA_F32;
  d.magnitude = 2;
  return d;
}

static void refused_store(ga_ctx *ctx, ga_mla_store_desc d, ga_status want, const char *text) {
  ga_plan *plan;
  const ga_status got = ga_mla_store_plan(ctx, &d, &plan);
  assert_plan_refused(got, plan, want, text);
}

static void stored_rows(ga_ctx *ctx) {
  static const float x[2][6] = {{3, 4, 1, 2, 3, 4}, {9, 9, 9, 9, 9, 9}}, norm[2] = {10, -1};
  static const float freq[2] = {1.57079632679f, 0};
  static const int32_t slots[2] = {1, -1}, positions[2] = {1, 0};
  float cache[3][6];
  for (int i = 0; i < 18; i++) (&cache[0][0])[i] = 7;
  ga_mla_store_desc d = store_desc_of_test();
  ga_mla_store_io io = {.x = x, .norm = norm, .slot = slots, .positions = positions, .inv_freq = freq, .cache = cache};
  if (ga_mla_store(ctx, &d, &io, NULL) != GA_OK) fail_msg("%s", ga_error_text());
  const double rms = sqrt(12.5);
  const double turned[6] = {30 / rms, -4 / rms, -4, 2, 6, 8}; /* a quarter turn of (1, 2), none of (3, 4) */
  for (int i = 0; i < 6; i++) {
    assert_as_by_hand(cache[1][i], turned[i], "cache");
    assert_true(cache[0][i] == 7 && cache[2][i] == 7);
  }
  d.pairs = GA_ROPE_NEOX, io.norm = NULL;
  if (ga_mla_store(ctx, &d, &io, NULL) != GA_OK) fail_msg("%s", ga_error_text());
  const double apart[6] = {3, 4, -6, 4, 2, 8}; /* (1, 3) and (2, 4) are pairs */
  for (int i = 0; i < 6; i++) assert_as_by_hand(cache[1][i], apart[i], "cache of neox");
}

/* The largest element of the only block is 896 = 448 * 2: the scale is 2. Then 1 has code 0x30, 0.5. */
static void stored_codes(ga_ctx *ctx) {
  enum { ROW = 128 + 4 + 2 * 2 };
  static const float freq[1] = {0};
  static const int32_t slots[1] = {1}, positions[1] = {0};
  float x[130];
  GA_ALIGNED(4) uint8_t cache[2][ROW];
  float scale;
  for (int i = 0; i < 130; i++) x[i] = 1;
  x[5] = -896, x[129] = 3;
  memset(cache, 7, sizeof cache);
  ga_mla_store_desc d = store_desc_of_test();
  d.tokens = 1, d.slots = 2, d.v_dim = 128, d.rot_dim = 2, d.kv_dtype = GA_E4M3, d.magnitude = 1;
  const ga_mla_store_io io = {.x = x, .slot = slots, .positions = positions, .inv_freq = freq, .cache = cache};
  if (ga_mla_store(ctx, &d, &io, NULL) != GA_OK) fail_msg("%s", ga_error_text());
  for (int i = 0; i < 128; i++) assert_int_equal(cache[1][i], i == 5 ? 0xfe : 0x30);
  memcpy(&scale, cache[1] + 128, sizeof scale);
  assert_true(scale == 2);
  assert_int_equal(cache[1][132] | cache[1][133] << 8, 0x3f80); /* 1 and 3 in bf16 */
  assert_int_equal(cache[1][134] | cache[1][135] << 8, 0x4040);
  for (int i = 0; i < ROW; i++) assert_int_equal(cache[0][i], 7);
}

static void refused_stores(ga_ctx *ctx) {
  ga_mla_store_desc d = store_desc_of_test();
  d.rot_dim = 3;
  refused_store(ctx, d, GA_ERR_SHAPE, "mla_store: rot_dim is 3 with v_dim 2; must be even, and their sum at most 1024");
  d.rot_dim = 4, d.v_dim = 1022;
  refused_store(ctx, d, GA_ERR_SHAPE, "mla_store: rot_dim is 4 with v_dim 1022; must be even");
  d.v_dim = 0;
  refused_store(ctx, d, GA_ERR_SHAPE, "mla_store: v_dim is 0; must be 1 to 1024");
  d.v_dim = 2, d.kv_dtype = GA_Q8_0;
  refused_store(ctx, d, GA_ERR_DTYPE, "mla_store: kv_dtype is q8_0; allowed: f32, f16, bf16, e4m3");
  d.kv_dtype = GA_E4M3;
  refused_store(ctx, d, GA_ERR_SHAPE, "mla_store: v_dim is 2; an e4m3 cache needs a multiple of 128");
  d.kv_dtype = GA_F32, d.norm_eps = -1;
  refused_store(ctx, d, GA_ERR_ARG, "mla_store: norm_eps is -1");
  d.norm_eps = 0;
  static const float x[12] = {0}, freq[2] = {0};
  static const int32_t slots[2] = {0, 3}, positions[2] = {0};
  float cache[18] = {7};
  ga_mla_store_io io = {.x = x, .slot = slots, .inv_freq = freq, .cache = cache};
  assert_int_equal(ga_mla_store(ctx, &d, &io, NULL), GA_ERR_ARG);
  assert_string_equal(ga_error_text(), "mla_store: positions is null");
  io.positions = positions;
  assert_int_equal(ga_mla_store(ctx, &d, &io, NULL), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "slot[1] is 3; must be -1 to 2"));
  assert_true(cache[0] == 7); /* nothing is written */
}

static void look_at_stores(ga_ctx *ctx) {
  stored_rows(ctx);
  stored_codes(ctx);
  refused_stores(ctx);
}

static void test_rows_are_stored(void **state) {
  (void)state;
  on_ref_and_cpu(look_at_stores);
}

/* --- the same bits alone and among others --- */

enum { LONG = 700, NEW = 20, WIDE = 40, WIDE_VALUES = 32 };

typedef struct long_text {
  float q[NEW][HEADS][WIDE], cache[LONG][WIDE];
  int32_t pages[LONG];
} long_text;

/* Fills o with the rows of n queries from `first` on, when the sequence has `length` tokens. */
static void rows_of_text(ga_ctx *ctx, const long_text *text, int first, int n, int length, float *o) {
  const int32_t start[2] = {0, n}, tokens = length;
  ga_mla_desc d = GA_MLA_DESC_INIT;
  d.max_q = n, d.max_kv = length;
  d.q_heads = HEADS, d.head_dim = WIDE, d.v_dim = WIDE_VALUES;
  d.kv_dtype = GA_F32, d.page_size = 1;
  d.scale = 0.2f;
  d.flags = GA_MLA_INVARIANT;
  const ga_mla_io io = {.q = text->q[first],
                        .cache = text->cache,
                        .o = o,
                        .q_start = start,
                        .kv_len = &tokens,
                        .page_table = text->pages,
                        .page_table_stride = LONG};
  if (ga_mla(ctx, &d, &io, NULL) != GA_OK) fail_msg("%s", ga_error_text());
}

static void test_rows_are_invariant(void **state) {
  (void)state;
  static long_text text;
  static float together[NEW][HEADS][WIDE_VALUES], alone[HEADS][WIDE_VALUES];
  ga_rng rng;
  ga_ctx *ctx = open_op_device("cpu");
  ga_rng_seed(&rng, 7);
  for (int i = 0; i < NEW * HEADS * WIDE; i++) (&text.q[0][0][0])[i] = (float)ga_rng_normal(&rng);
  for (int i = 0; i < LONG * WIDE; i++) (&text.cache[0][0])[i] = (float)ga_rng_normal(&rng);
  for (int i = 0; i < LONG; i++) text.pages[i] = i;
  rows_of_text(ctx, &text, 0, NEW, LONG, &together[0][0][0]);
  for (int i = 0; i < NEW; i++) {
    rows_of_text(ctx, &text, i, 1, LONG - NEW + 1 + i, &alone[0][0]);
    assert_memory_equal(alone, together[i], sizeof alone);
  }
  ga_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_latent_attention),
                                     cmocka_unit_test(test_lengths_are_checked), cmocka_unit_test(test_rows_are_stored),
                                     cmocka_unit_test(test_rows_are_invariant)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
