/* Products of one token that go out together (ga_join_begin): bit by bit what single launches give, for every pair of types, with links that wait
 * for one another and links that do not, links that add to a stream first, items of one unit and of two; and what a stream refuses meanwhile. On
 * a GPU, and as emu_join on the emulator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/ctx.h"
#include "core/kargs_gemm_chain.h"
#include "cuda/cuda.h"
#include "tests/gemm_data.h"

#ifndef GA_TEST_DEVICE
#define GA_TEST_DEVICE "cuda:0"
#endif

enum { X = 768, FF = 1280, KV = 128, FLOATS = 2 * X + FF + X + 2 * KV + 2 * X };

typedef struct matrix {
  int32_t dtype, layout;
  int64_t n, k;
  void *data;
} matrix;

/* What a layer has between two attentions. */
typedef struct layer {
  ga_ctx *ctx;
  ga_dtype type, other; /* of o, gate, up, q, k; of down and v */
  int64_t x_k;          /* width of the attention's result: with an odd number of units of 128 */
  matrix o, gate, up, down, q, k, v;
  float *norm;          /* [X] on the device */
  float *all;           /* attention's result [X], x [X], up [FF], q [X], k [KV], v [KV]; two more [X] */
  float start[FLOATS];
} layer;

static void ok(ga_status status) {
  if (status != GA_OK) fail_msg("%s", ga_error_text());
}

static matrix make_matrix(ga_ctx *ctx, ga_rng *rng, ga_dtype t, int64_t n, int64_t k) {
  matrix m = {.dtype = (int32_t)t, .n = n, .k = k};
  ga_layout layout;
  uint64_t bytes, native;
  const ga_dtype_traits *traits = ga_dtype_info(t);
  void *src;
  ok(ga_pack_choose(ctx, t, n, k, &layout, &bytes));
  ok(ga_dtype_bytes(t, n * k, &native));
  assert_int_equal(layout, GA_LAYOUT_T16);
  m.layout = (int32_t)layout;
  uint8_t *host = malloc(native);
  for (uint64_t i = 0; i < native; i += (uint64_t)traits->block_bytes) gemm_data_random(rng, t, host + i);
  ok(ga_buffer_alloc(ctx, native, &src));
  ok(ga_copy_to_device(ctx, src, host, native, NULL));
  ok(ga_buffer_alloc(ctx, bytes, &m.data));
  ga_pack_desc d = GA_PACK_DESC_INIT;
  d.n = n;
  d.k = k;
  d.w_dtype = m.dtype;
  d.w_layout = m.layout;
  ok(ga_pack(ctx, &d, src, m.data, NULL));
  ok(ga_stream_sync(ctx, NULL));
  ga_buffer_free(ctx, src);
  free(host);
  return m;
}

static void make_layer(layer *l, ga_ctx *ctx, ga_dtype type, ga_dtype other) {
  ga_rng rng;
  void *p;
  float norm[X];
  ga_rng_seed(&rng, 7 + (uint64_t)type);
  *l = (layer){.ctx = ctx, .type = type, .other = other, .x_k = ga_dtype_info(type)->block_elems == 256 ? 512 : 640};
  l->o = make_matrix(ctx, &rng, type, X, l->x_k);
  l->gate = make_matrix(ctx, &rng, type, FF, X);
  l->up = make_matrix(ctx, &rng, type, FF, X);
  l->down = make_matrix(ctx, &rng, other, X, FF);
  l->q = make_matrix(ctx, &rng, type, X, X);
  l->k = make_matrix(ctx, &rng, type, KV, X);
  l->v = make_matrix(ctx, &rng, other, 24, X); /* fewer tiles than blocks, the last not full */
  for (int i = 0; i < FLOATS; i++) l->start[i] = (float)ga_rng_normal(&rng);
  for (int i = 0; i < X; i++) norm[i] = 1 + 0.1f * (float)ga_rng_normal(&rng);
  ok(ga_buffer_alloc(ctx, sizeof norm, &p));
  ok(ga_copy_to_device(ctx, p, norm, sizeof norm, NULL));
  l->norm = p;
  ok(ga_buffer_alloc(ctx, sizeof l->start, &p));
  l->all = p;
}

static void drop_layer(layer *l) {
  matrix *const all[] = {&l->o, &l->gate, &l->up, &l->down, &l->q, &l->k, &l->v};
  for (size_t i = 0; i < GA_COUNT_OF(all); i++) ga_buffer_free(l->ctx, all[i]->data);
  ga_buffer_free(l->ctx, l->norm);
  ga_buffer_free(l->ctx, l->all);
}

static ga_gemm_desc desc_of(const matrix *m, uint32_t flags) {
  ga_gemm_desc d = GA_GEMM_DESC_INIT;
  d.m = 1;
  d.n = m->n;
  d.k = m->k;
  d.w_dtype = m->dtype;
  d.w_layout = m->layout;
  d.flags = flags;
  if (flags & GA_GEMM_NORM) d.norm_eps = 1e-5f;
  return d;
}

static void run_layer(const layer *l) {
  float *a = l->all, *x = a + X, *up = x + X, *q = up + FF, *k = q + X, *v = k + KV;
  ga_gemm_desc d = desc_of(&l->o, GA_GEMM_RESIDUAL);
  ok(ga_gemm(l->ctx, &d, &(ga_gemm_io){.x = a, .w = l->o.data, .y = x, .residual = x}, NULL));
  d = desc_of(&l->up, GA_GEMM_NORM | GA_GEMM_GATED);
  d.act = GA_ACT_SILU;
  ok(ga_gemm(l->ctx, &d, &(ga_gemm_io){.x = x, .w = l->up.data, .y = up, .norm = l->norm, .w_more = {l->gate.data}}, NULL));
  d = desc_of(&l->down, GA_GEMM_RESIDUAL);
  ok(ga_gemm(l->ctx, &d, &(ga_gemm_io){.x = up, .w = l->down.data, .y = x, .residual = x}, NULL));
  d = desc_of(&l->q, GA_GEMM_NORM);
  d.n_more[0] = KV;
  ok(ga_gemm(l->ctx, &d, &(ga_gemm_io){.x = x, .w = l->q.data, .y = q, .norm = l->norm, .w_more = {l->k.data}, .y_more = {k}}, NULL));
  d = desc_of(&l->v, GA_GEMM_NORM); /* reads x, too, and waits for nobody */
  ok(ga_gemm(l->ctx, &d, &(ga_gemm_io){.x = x, .w = l->v.data, .y = v, .norm = l->norm}, NULL));
}

static const char *last_id(ga_ctx *ctx) { return ((const cuda_device *)ctx->device)->last_id; }

static void results(const layer *l, bool joined, float *out) {
  ok(ga_copy_to_device(l->ctx, l->all, l->start, sizeof l->start, NULL));
  if (joined) ok(ga_join_begin(l->ctx, NULL));
  run_layer(l);
  if (joined) ok(ga_join_end(l->ctx, NULL));
  ok(ga_copy_to_host(l->ctx, out, l->all, sizeof l->start, NULL));
}

/* The stream's counts, which each launch leaves zero. */
static void counts_are_zero(ga_ctx *ctx) {
  int32_t count[GA_CHAIN_LINKS + 1];
  ok(ga_copy_to_host(ctx, count, (const void *)(uintptr_t)cuda_counters_of(ctx->stream), sizeof count, NULL));
  for (size_t i = 0; i < GA_COUNT_OF(count); i++) assert_int_equal(count[i], 0);
}

static ga_ctx *open_device(void) {
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  ga_ctx *ctx;
  o.device = GA_TEST_DEVICE;
  ok(ga_ctx_create(&o, &ctx));
  return ctx;
}

static void pair(ga_dtype type, ga_dtype other, const char *id) {
  static float single[FLOATS], joined[FLOATS];
  ga_ctx *ctx = open_device();
  layer l;
  make_layer(&l, ctx, type, other);
  results(&l, false, single);
  assert_null(strstr(last_id(ctx), "chain"));
  for (int i = 0; i < 2; i++) { /* counts are zero again after the first */
    results(&l, true, joined);
    assert_string_equal(last_id(ctx), id);
    assert_memory_equal(single, joined, sizeof single);
    counts_are_zero(ctx);
  }
  drop_layer(&l);
  ga_ctx_destroy(ctx);
}

static void test_q4_k(void **state) {
  (void)state;
  pair(GA_Q4_K, GA_Q6_K, "gemm_q4_k_q6_k_chain_sm90a_16");
}
static void test_q5_k(void **state) {
  (void)state;
  pair(GA_Q6_K, GA_Q5_K, "gemm_q5_k_q6_k_chain_sm90a_16");
}
static void test_q8_0(void **state) {
  (void)state;
  pair(GA_Q5_0, GA_Q8_0, "gemm_q8_0_q5_0_chain_sm90a_16");
}
static void test_q4_0(void **state) {
  (void)state;
  pair(GA_Q4_0, GA_Q4_1, "gemm_q4_0_q4_1_chain_sm90a_16");
}
static void test_mxfp4(void **state) {
  (void)state;
  pair(GA_MXFP4, GA_Q8_0, "gemm_mxfp4_q8_0_chain_sm90a_16");
}

/* Norms behind each block, as in Gemma 3: what the stream is, every product adds up for itself. */
static void run_summed(const layer *l, bool joined, float *out) {
  float *a = l->all, *x = a + X, *up = x + X, *q = up + FF, *k = q + X, *v = k + KV, *h = v + KV, *other = h + X;
  ok(ga_copy_to_device(l->ctx, l->all, l->start, sizeof l->start, NULL));
  if (joined) ok(ga_join_begin(l->ctx, NULL));
  ga_gemm_desc d = desc_of(&l->o, 0);
  ok(ga_gemm(l->ctx, &d, &(ga_gemm_io){.x = a, .w = l->o.data, .y = h}, NULL));
  d = desc_of(&l->up, GA_GEMM_NORM | GA_GEMM_GATED | GA_GEMM_ADD_NORM);
  d.act = GA_ACT_GELU_TANH;
  ga_gemm_io io = {.x = h, .w = l->up.data, .y = up, .norm = l->norm, .w_more = {l->gate.data}, .add = x, .add_norm = l->norm, .sum = other};
  ok(ga_gemm(l->ctx, &d, &io, NULL));
  d = desc_of(&l->down, 0);
  ok(ga_gemm(l->ctx, &d, &(ga_gemm_io){.x = up, .w = l->down.data, .y = h}, NULL));
  d = desc_of(&l->q, GA_GEMM_NORM | GA_GEMM_ADD_NORM);
  d.n_more[0] = KV;
  io = (ga_gemm_io){.x = h, .w = l->q.data, .y = q, .norm = l->norm, .w_more = {l->k.data}, .y_more = {k}};
  io.add = other;
  io.add_norm = l->norm;
  io.sum = x;
  ok(ga_gemm(l->ctx, &d, &io, NULL));
  d = desc_of(&l->v, GA_GEMM_NORM | GA_GEMM_ADD_NORM); /* of the new stream, which it works out for itself and waits for nobody */
  io = (ga_gemm_io){.x = h, .w = l->v.data, .y = v, .norm = l->norm, .add = other, .add_norm = l->norm};
  ok(ga_gemm(l->ctx, &d, &io, NULL));
  if (joined) ok(ga_join_end(l->ctx, NULL));
  ok(ga_copy_to_host(l->ctx, out, l->all, sizeof l->start, NULL));
}

static void test_sums(void **state) {
  static float single[FLOATS], joined[FLOATS];
  (void)state;
  ga_ctx *ctx = open_device();
  layer l;
  make_layer(&l, ctx, GA_Q5_0, GA_Q8_0);
  run_summed(&l, false, single);
  assert_null(strstr(last_id(ctx), "chain"));
  for (int i = 0; i < 2; i++) {
    run_summed(&l, true, joined);
    assert_non_null(strstr(last_id(ctx), "chain"));
    assert_memory_equal(single, joined, sizeof single);
    counts_are_zero(ctx);
  }
  for (int i = 0; i < X; i++) assert_true(single[X + i] != l.start[X + i]);
  drop_layer(&l);
  ga_ctx_destroy(ctx);
}

static void refused(const layer *l, const ga_gemm_desc *d, const ga_gemm_io *io, const char *why) {
  assert_int_equal(ga_gemm(l->ctx, d, io, NULL), GA_ERR_ARG);
  if (!strstr(ga_error_text(), why)) fail_msg("'%s' instead of '%s'", ga_error_text(), why);
}

static void test_sum_arguments(void **state) {
  (void)state;
  ga_ctx *ctx = open_device();
  layer l;
  make_layer(&l, ctx, GA_Q5_0, GA_Q8_0);
  float *x = l.all + X, *h = x + X + FF + X + 2 * KV, *other = h + X;
  ga_gemm_desc d = desc_of(&l.q, GA_GEMM_NORM | GA_GEMM_ADD_NORM);
  const ga_gemm_io good = {.x = h, .w = l.q.data, .y = x + X, .norm = l.norm, .add = x, .add_norm = l.norm, .sum = other};
  ga_gemm_io io = good;
  ok(ga_gemm(ctx, &d, &io, NULL));
  io.sum = x;
  refused(&l, &d, &io, "sum overlaps add");
  io = good;
  io.y = x;
  refused(&l, &d, &io, "y overlaps add");
  io = good;
  io.sum = io.y;
  refused(&l, &d, &io, "sum overlaps y");
  io = good;
  io.add = NULL;
  assert_int_not_equal(ga_gemm(ctx, &d, &io, NULL), GA_OK);
  d.flags = GA_GEMM_ADD_NORM;
  d.norm_eps = 0;
  refused(&l, &d, &good, "ADD_NORM goes with NORM");
  d = desc_of(&l.q, GA_GEMM_NORM | GA_GEMM_ADD_NORM);
  d.m = 2;
  assert_int_equal(ga_gemm(ctx, &d, &good, NULL), GA_ERR_UNSUPPORTED);
  drop_layer(&l);
  ga_ctx_destroy(ctx);
}

/* Nine rows: eight, and one that lies in shared memory as several do, which no chain takes. Then a product of one row. */
enum { NINE = 9, REST_FLOATS = NINE * KV + KV };
static void run_rest(const layer *l, float *x, bool joined, float *out) {
  float *y = x + NINE * X;
  if (joined) ok(ga_join_begin(l->ctx, NULL));
  ga_gemm_desc d = desc_of(&l->k, 0);
  d.m = NINE;
  ok(ga_gemm(l->ctx, &d, &(ga_gemm_io){.x = x, .w = l->k.data, .y = y}, NULL));
  d = desc_of(&l->v, 0);
  ok(ga_gemm(l->ctx, &d, &(ga_gemm_io){.x = x, .w = l->v.data, .y = y + NINE * KV}, NULL));
  if (joined) ok(ga_join_end(l->ctx, NULL));
  ok(ga_copy_to_host(l->ctx, out, y, REST_FLOATS * sizeof *out, NULL));
}

static void test_rest_of_rows(void **state) {
  static float x[NINE * X + REST_FLOATS], single[REST_FLOATS], joined[REST_FLOATS];
  (void)state;
  ga_ctx *ctx = open_device();
  ga_rng rng;
  void *p;
  layer l;
  ga_rng_seed(&rng, 11);
  for (int i = 0; i < NINE * X; i++) x[i] = (float)ga_rng_normal(&rng);
  make_layer(&l, ctx, GA_Q4_K, GA_Q6_K);
  ok(ga_buffer_alloc(ctx, sizeof x, &p));
  ok(ga_copy_to_device(ctx, p, x, sizeof x, NULL));
  run_rest(&l, p, false, single);
  run_rest(&l, p, true, joined);
  assert_memory_equal(single, joined, sizeof single);
  ga_buffer_free(ctx, p);
  drop_layer(&l);
  ga_ctx_destroy(ctx);
}

/* A bias that the product before writes, in other blocks: x += o a; k = W a + x as far as it goes. */
static void run_biased(const layer *l, bool joined, float *out) {
  float *a = l->all, *x = a + X, *k = x + X + FF + X;
  ok(ga_copy_to_device(l->ctx, l->all, l->start, sizeof l->start, NULL));
  if (joined) ok(ga_join_begin(l->ctx, NULL));
  ga_gemm_desc d = desc_of(&l->o, GA_GEMM_RESIDUAL);
  ok(ga_gemm(l->ctx, &d, &(ga_gemm_io){.x = a, .w = l->o.data, .y = x, .residual = x}, NULL));
  d = desc_of(&l->k, GA_GEMM_BIAS);
  ok(ga_gemm(l->ctx, &d, &(ga_gemm_io){.x = a, .w = l->k.data, .y = k, .bias = x}, NULL));
  if (joined) ok(ga_join_end(l->ctx, NULL));
  ok(ga_copy_to_host(l->ctx, out, l->all, sizeof l->start, NULL));
}

static void test_bias(void **state) {
  static float single[FLOATS], joined[FLOATS];
  (void)state;
  ga_ctx *ctx = open_device();
  layer l;
  make_layer(&l, ctx, GA_Q4_K, GA_Q6_K);
  run_biased(&l, false, single);
  run_biased(&l, true, joined);
  assert_non_null(strstr(last_id(ctx), "chain"));
  assert_memory_equal(single, joined, sizeof single);
  drop_layer(&l);
  ga_ctx_destroy(ctx);
}

/* A buffer given back, and a stream that goes, while products are held back: those come first. */
static void test_given_back(void **state) {
  (void)state;
  ga_ctx *ctx = open_device();
  ga_stream *s;
  layer l;
  make_layer(&l, ctx, GA_Q4_K, GA_Q6_K);
  ok(ga_copy_to_device(ctx, l.all, l.start, sizeof l.start, NULL));
  ok(ga_join_begin(ctx, NULL));
  run_layer(&l);
  drop_layer(&l);
  assert_string_equal(last_id(ctx), "gemm_q4_k_q6_k_chain_sm90a_16");
  ok(ga_join_end(ctx, NULL));
  ok(ga_stream_create(ctx, &s));
  ok(ga_join_begin(ctx, s));
  ga_stream_destroy(s);
  ga_ctx_destroy(ctx);
}

/* Types that no kernel takes together, another op between, and a stream that joins twice. */
static void test_edges(void **state) {
  static float single[FLOATS], joined[FLOATS];
  (void)state;
  ga_ctx *ctx = open_device();
  layer l;
  make_layer(&l, ctx, GA_Q4_K, GA_Q3_K);
  results(&l, false, single);
  results(&l, true, joined);
  assert_memory_equal(single, joined, sizeof single);
  ok(ga_copy_to_device(ctx, l.all, l.start, sizeof l.start, NULL));
  ok(ga_join_begin(ctx, NULL));
  assert_int_equal(ga_join_begin(ctx, NULL), GA_ERR_STATE);
  run_layer(&l);
  ga_add_desc d = GA_ADD_DESC_INIT;
  d.rows = 1;
  d.width = X;
  ok(ga_add(ctx, &d, &(ga_add_io){.x = l.all + X, .b = l.all + X, .y = l.all + X}, NULL)); /* sees all that was held back */
  assert_string_equal(last_id(ctx), "add_f32_rows_sm80_256x4");
  assert_int_equal(ga_copy_to_host(ctx, joined, l.all, sizeof joined, NULL), GA_ERR_STATE);
  assert_int_equal(ga_stream_sync(ctx, NULL), GA_ERR_STATE);
  ok(ga_join_end(ctx, NULL));
  assert_int_equal(ga_join_end(ctx, NULL), GA_ERR_STATE);
  assert_string_equal(last_id(ctx), "add_f32_rows_sm80_256x4"); /* nothing was left */
  ok(ga_copy_to_host(ctx, joined, l.all, sizeof joined, NULL));
  for (int i = X; i < 2 * X; i++) assert_true(joined[i] == 2 * single[i]);
  drop_layer(&l);
  ga_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_q4_k),  cmocka_unit_test(test_q5_k),  cmocka_unit_test(test_q8_0),
      cmocka_unit_test(test_q4_0),  cmocka_unit_test(test_mxfp4), cmocka_unit_test(test_bias),
      cmocka_unit_test(test_edges), cmocka_unit_test(test_given_back), cmocka_unit_test(test_sums),
      cmocka_unit_test(test_rest_of_rows),
      cmocka_unit_test(test_sum_arguments),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
