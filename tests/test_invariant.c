/* Batch-invariant rows: a row of the result has the same bits whatever else the call has. Each instruction set of this
 * machine, by leaving the better ones out. Usage: test_invariant [DEVICE [TEST]], such as cuda:0 'test_orders_*';
 * in tests/emu by CUDA rows on a CPU. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "ga/attn.h"
#include "ga/gemm.h"
#include "ga/layer.h"
#include "tests/gemm_data.h"

#ifdef GA_TEST_DEVICE
enum { FEW = 1 }; /* the emulator is some hundred times slower */
#else
#define GA_TEST_DEVICE "cpu"
enum { FEW = 0 };
#endif

static const char *device = GA_TEST_DEVICE;

static bool on_cpu(void) { return !strcmp(device, "cpu"); }

/* Kernels left out, so that rows of all instruction sets have their turn. */
static const char *const of_cpu[] = {NULL, "*amx*", "*amx*,*avx512*", "*amx*,*avx512*,*avx2*,*neon*"};
static const char *const of_gpu[] = {NULL, "*sm90a*", "*sm90a*,*packed*"};

static int n_sets(void) { return (int)(on_cpu() ? GA_COUNT_OF(of_cpu) : GA_COUNT_OF(of_gpu)); }

static ga_ctx *open_without(const char *kernels) {
  ga_ctx *ctx;
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = device;
  o.threads = 2;
  o.disable_kernels = kernels;
  if (ga_ctx_create(&o, &ctx) != GA_OK) fail_msg("%s", ga_error_text());
  return ctx;
}
static ga_ctx *open_set(int i) { return open_without(on_cpu() ? of_cpu[i] : of_gpu[i]); }

/* --- memory of the device --- */

/* Anything, where from is NULL. */
static void *to_device(ga_ctx *ctx, const void *from, size_t bytes) {
  void *p;
  if (ga_buffer_alloc(ctx, bytes, &p) != GA_OK) fail_msg("%s", ga_error_text());
  if (from && ga_copy_to_device(ctx, p, from, bytes, NULL) != GA_OK) fail_msg("%s", ga_error_text());
  return p;
}

static void from_device(ga_ctx *ctx, void *to, const void *from, size_t bytes) {
  if (ga_copy_to_host(ctx, to, from, bytes, NULL) != GA_OK) fail_msg("%s", ga_error_text());
}

/* --- products --- */

enum { MOST_ROWS = 300, MOST_OUT = 392, MOST_IN = 2048 };

/* Of X and of W, and k: on a GPU enough for several tiles, whose k is cut. */
static int n_x = 41, n_out = 72, n_in = 512;

typedef struct product {
  ga_ctx *ctx;
  ga_dtype type;
  ga_layout layout;
  uint32_t flags;
  const void *w;
  float *x, *y; /* [n_x, n_in], [n_x, n_out], of the device */
} product;

/* Rows [first, first + m) of X. */
static void one_product(const product *p, int first, int m, float *y) {
  ga_gemm_desc d = GA_GEMM_DESC_INIT;
  d.m = m;
  d.n = n_out;
  d.k = n_in;
  d.w_dtype = (int32_t)p->type;
  d.w_layout = (int32_t)p->layout;
  d.flags = p->flags;
  if (ga_gemm(p->ctx, &d, &(ga_gemm_io){.x = p->x + first * n_in, .w = p->w, .y = p->y}, NULL) != GA_OK)
    fail_msg("%s: %s", ga_dtype_name(p->type), ga_error_text());
  from_device(p->ctx, y, p->y, (size_t)(m * n_out) * sizeof(float));
}

/* Rows that differ, in calls of some rows, from those of one of all. */
static int rows_that_differ(const product *p) {
  static const int all_sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 11, 16, 25, 39, 64, 65, 128, 129, 200, 256, 257};
  static const int few_sizes[] = {1, 2, 8, 9, 64, 66, 129};
  const int *sizes = FEW ? few_sizes : all_sizes;
  const int n = (int)(FEW ? GA_COUNT_OF(few_sizes) : GA_COUNT_OF(all_sizes));
  static float all[MOST_ROWS * MOST_OUT], some[MOST_ROWS * MOST_OUT];
  int differ = 0;
  one_product(p, 0, n_x, all);
  for (int i = 0; i < n; i++)
    for (int m = sizes[i], at = 0; at + m <= n_x; at += FEW ? 47 : 19) {
      one_product(p, at, m, some);
      for (int r = 0; r < m; r++) {
        if (!memcmp(some + r * n_out, all + (at + r) * n_out, (size_t)n_out * sizeof(float))) continue;
        if (!differ++ && p->flags)
          print_error("%s, layout %d: row %d of %d differs from row %d of %d\n", ga_dtype_name(p->type), (int)p->layout,
                      r, m, at + r, n_x);
      }
    }
  return differ;
}

/* The layout of packed weights, and the bytes of it; on a GPU what it chooses with all its rows. */
static ga_layout packed_layout(ga_ctx *ctx, ga_dtype t, uint64_t *bytes) {
  ga_layout layout;
  ga_ctx *own = on_cpu() ? NULL : open_set(0);
  assert_int_equal(ga_pack_choose(own ? own : ctx, t, n_out, n_in, &layout, bytes), GA_OK);
  ga_ctx_destroy(own);
  assert_true(on_cpu() || t == GA_F32 || layout != GA_LAYOUT_NATIVE);
  return layout;
}

static void with_product(ga_ctx *ctx, ga_dtype t, bool packed, uint32_t flags, void (*look)(const product *)) {
  static float x[MOST_ROWS * MOST_IN];
  uint64_t bytes, packed_bytes;
  const ga_layout layout = packed_layout(ctx, t, &packed_bytes);
  ga_rng rng;
  ga_rng_seed(&rng, (uint64_t)t);
  for (int i = 0; i < n_x * n_in; i++) x[i] = (float)ga_rng_normal(&rng);
  assert_int_equal(ga_dtype_bytes(t, (uint64_t)(n_out * n_in), &bytes), GA_OK);
  if (packed && layout == GA_LAYOUT_NATIVE) return;
  uint8_t *w = malloc(bytes);
  for (uint64_t at = 0; at < bytes; at += (uint64_t)ga_dtype_info(t)->block_bytes) gemm_data_random(&rng, t, w + at);
  void *own = to_device(ctx, w, bytes), *p = NULL;
  free(w);
  product one = {.ctx = ctx, .type = t, .flags = flags, .w = own};
  if (packed) {
    ga_pack_desc d = GA_PACK_DESC_INIT;
    d.n = n_out;
    d.k = n_in;
    d.w_dtype = (int32_t)t;
    d.w_layout = (int32_t)layout;
    p = to_device(ctx, NULL, packed_bytes);
    if (ga_pack(ctx, &d, own, p, NULL) != GA_OK) fail_msg("%s", ga_error_text());
    one.layout = layout;
    one.w = p;
  }
  one.x = to_device(ctx, x, (size_t)(n_x * n_in) * sizeof(float));
  one.y = to_device(ctx, NULL, (size_t)(n_x * n_out) * sizeof(float));
  /* Products may read weights before the launch ahead of them has ended: that must not be the one that packs. */
  ga_add_desc d = GA_ADD_DESC_INIT;
  d.rows = 1;
  d.width = n_out;
  if (ga_add(ctx, &d, &(ga_add_io){.x = one.x, .b = one.x, .y = one.y}, NULL) != GA_OK) fail_msg("%s", ga_error_text());
  look(&one);
  ga_buffer_free(ctx, one.x);
  ga_buffer_free(ctx, one.y);
  ga_buffer_free(ctx, own);
  ga_buffer_free(ctx, p);
}

static void expect_alike(const product *p) { assert_int_equal(rows_that_differ(p), 0); }

static void test_invariant_gemm(void **state) {
  (void)state;
  static const ga_dtype all[] = {GA_F32,  GA_F16,  GA_BF16, GA_Q4_0, GA_Q4_1, GA_Q5_0, GA_Q5_1,
                                 GA_Q8_0, GA_Q2_K, GA_Q3_K, GA_Q4_K, GA_Q5_K, GA_Q6_K, GA_IQ4_NL};
  static const ga_dtype few[] = {GA_BF16, GA_F16, GA_Q8_0, GA_Q4_K};
  const ga_dtype *types = FEW ? few : all;
  for (int s = 0; s < n_sets(); s++) {
    ga_ctx *ctx = open_set(s);
    for (size_t i = 0; i < (FEW ? GA_COUNT_OF(few) : GA_COUNT_OF(all)); i++) {
      const bool native = !FEW || (s == 0 && i == 0), packed = on_cpu() || s < 2;
      if (native) with_product(ctx, types[i], false, GA_GEMM_INVARIANT, expect_alike);
      if (packed) with_product(ctx, types[i], true, GA_GEMM_INVARIANT, expect_alike);
    }
    ga_ctx_destroy(ctx);
  }
}

static void expect_differ(const product *p) {
  if (p->flags || on_cpu()) return;
  assert_true(rows_that_differ(p) > 0);
}

/* What the comparison above is for: rows of the table that a GPU takes without the flag differ from size to size. */
static void test_other_rows_differ(void **state) {
  (void)state;
  ga_ctx *ctx = open_set(0);
  with_product(ctx, GA_Q8_0, true, 0, expect_differ);
  ga_ctx_destroy(ctx);
}

static float of_first_tile[MOST_ROWS * MOST_OUT];
static bool has_first_tile;

static void expect_as_first(const product *p) {
  static float y[MOST_ROWS * MOST_OUT];
  one_product(p, 0, n_x, has_first_tile ? y : of_first_tile);
  for (int i = 0; has_first_tile && i < n_x * n_out; i++)
    if (memcmp(&y[i], &of_first_tile[i], sizeof y[i]))
      fail_msg("%s: element %d is %.9g, by the first tile %.9g", ga_dtype_name(p->type), i, (double)y[i],
               (double)of_first_tile[i]);
  has_first_tile = true;
}

/* Rows of 16-bit weights add up in one order, whatever their tile (GA_GEMM_ROW_ONE_ORDER): each of them by itself. */
static void test_tiles_alike(void **state) {
  (void)state;
  static const char *const others[] = {"gemm_*_mma_packed_sm80*,gemm_*_128x128,gemm_*_128x256",
                                       "gemm_*_mma_packed_sm80*,gemm_*_128x64,gemm_*_128x256",
                                       "gemm_*_mma_packed_sm80*,gemm_*_128x64,gemm_*_128x128"};
  for (int t = 0; t < 2 && !on_cpu(); t++) {
    has_first_tile = false;
    for (size_t i = 0; i < GA_COUNT_OF(others); i++) {
      ga_ctx *ctx = open_without(others[i]);
      with_product(ctx, t ? GA_F16 : GA_BF16, true, GA_GEMM_INVARIANT, expect_as_first);
      ga_ctx_destroy(ctx);
    }
  }
}

/* So do those that multiply codes of e4m3 by codes, and either of them whatever the number of rows. */
static void test_rounded_x_alike(void **state) {
  (void)state;
  static const char *const others[] = {NULL, "gemm_*_128x128", "gemm_*_128x256"};
  has_first_tile = false;
  for (size_t i = 0; i < GA_COUNT_OF(others) && !on_cpu(); i++) {
    ga_ctx *ctx = open_without(others[i]);
    with_product(ctx, GA_E4M3_128, true, GA_GEMM_INVARIANT | GA_GEMM_X_E4M3, expect_as_first);
    if (!i) with_product(ctx, GA_E4M3_128, true, GA_GEMM_INVARIANT | GA_GEMM_X_E4M3, expect_alike);
    ga_ctx_destroy(ctx);
  }
}

/* Kernels of another id than one with `part` in it fail. */
static void expect_kernel(const product *p, int m, const char *part) {
  ga_gemm_desc d = GA_GEMM_DESC_INIT;
  ga_plan *plan;
  d.m = m;
  d.n = n_out;
  d.k = n_in;
  d.w_dtype = (int32_t)p->type;
  d.w_layout = (int32_t)p->layout;
  d.flags = p->flags;
  if (ga_gemm_plan(p->ctx, &d, &plan) != GA_OK) fail_msg("%s", ga_error_text());
  if (!strstr(ga_plan_kernel_id(plan), part))
    fail_msg("%d rows are taken by %s, not by one of %s", m, ga_plan_kernel_id(plan), part);
  ga_plan_destroy(plan);
}

static const char *only; /* in the id of the kernel that has its turn */
static int most_rows;    /* that it takes at once */

/* Rows of X, in calls of each number that is asked of this kernel, as the tiles of 64 have them. */
static void expect_pieces_as_first(const product *p) {
  static const int all_sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 64, 65, 128, 129, 257, MOST_ROWS};
  static const int few_sizes[] = {1, 3, 8, 9, 130};
  static float some[MOST_ROWS * MOST_OUT];
  const int *sizes = FEW ? few_sizes : all_sizes, n = (int)(FEW ? GA_COUNT_OF(few_sizes) : GA_COUNT_OF(all_sizes));
  if (!has_first_tile) expect_as_first(p);
  for (int i = 0; i < n && most_rows; i++) {
    if (sizes[i] > n_x || sizes[i] > most_rows) continue;
    expect_kernel(p, sizes[i], only);
    for (int at = 0; at + sizes[i] <= n_x; at += FEW ? 67 : 37) {
      one_product(p, at, sizes[i], some);
      if (memcmp(some, of_first_tile + at * n_out, (size_t)(sizes[i] * n_out) * sizeof(float)))
        fail_msg("%s: %s has other bits than tiles of 64: rows %d to %d", ga_dtype_name(p->type), only, at,
                 at + sizes[i]);
    }
  }
}

/* By quantised weights: tiles of 64, of 128 for prompts, and the row for up to 8 rows of X. */
static void test_orders_alike(void **state) {
  (void)state;
  static const struct {
    const char *others, *only;
    int most_rows;
  } turns[] = {{"gemm_*_mma_packed_sm80*,gemm_*_ordered_*,gemm_*_few_*", "_prefill_", 0},
               {"gemm_*_mma_packed_sm80*,gemm_*_prefill_*,gemm_*_few_*", "_ordered_", MOST_ROWS},
               {"gemm_*_mma_packed_sm80*,gemm_*_prefill_*", "_few_", 8}};
  static const ga_dtype all[] = {GA_Q4_0, GA_Q4_1, GA_Q5_0,   GA_Q5_1,   GA_Q8_0,  GA_Q2_K,  GA_Q3_K,    GA_Q4_K,
                                 GA_Q5_K, GA_Q6_K, GA_IQ4_NL, GA_IQ4_XS, GA_MXFP4, GA_NVFP4, GA_E4M3_128};
  static const ga_dtype few[] = {GA_Q8_0, GA_Q4_K};
  static const int widths[] = {512, 1536, MOST_IN}; /* parts of few units, of odd numbers of them, of several */
  const int n_in_before = n_in;
  for (size_t t = 0; t < (FEW ? GA_COUNT_OF(few) : GA_COUNT_OF(all)) && !on_cpu(); t++)
    for (size_t w = FEW ? 1 : 0; w < (FEW ? 2 : GA_COUNT_OF(widths)); w++) {
      n_in = widths[w];
      has_first_tile = false;
      for (size_t i = 0; i < GA_COUNT_OF(turns); i++) {
        ga_ctx *ctx = open_without(turns[i].others);
        only = turns[i].only;
        most_rows = turns[i].most_rows;
        with_product(ctx, FEW ? few[t] : all[t], true, GA_GEMM_INVARIANT, expect_pieces_as_first);
        ga_ctx_destroy(ctx);
      }
    }
  n_in = n_in_before;
}

/* --- attention over pages --- */

enum {
  TOKENS = FEW ? 190 : 340,
  PAGE = 64,
  PAGES = 9,
  HEADS = 6,
  KV_HEADS = 2,
  DIM = 64,
  ROW = KV_HEADS * DIM,
  SLOTS = PAGES * PAGE
};

static const int32_t table[] = {5, 2, 7, 0, 3, 8, 1};

typedef struct attn_case {
  ga_dtype kv;
  int32_t window;
  void *k, *v;  /* [PAGES, PAGE, KV_HEADS, DIM], in e4m3 with scales behind; all pointers are of the device */
  float *q, *o; /* [TOKENS, HEADS, DIM] */
  int32_t *table, *lengths; /* lengths: starts of 2 sequences, their end, their keys */
} attn_case;

static void one_attention(ga_ctx *ctx, const attn_case *c, int first, int n, int max_kv, float *o) {
  const int32_t lengths[5] = {0, n, n, first + n, 0};
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  if (ga_copy_to_device(ctx, c->lengths, lengths, sizeof lengths, NULL) != GA_OK) fail_msg("%s", ga_error_text());
  d.batch = 2; /* the other one is empty */
  d.max_q = n + first % 3;
  d.max_kv = max_kv;
  d.q_heads = HEADS;
  d.kv_heads = KV_HEADS;
  d.head_dim = d.v_dim = DIM;
  d.kv_dtype = (int32_t)c->kv;
  d.kv_scale_tokens = c->kv == GA_E4M3;
  d.flags = GA_ATTN_CAUSAL | GA_ATTN_VARLEN | GA_ATTN_PAGED | GA_ATTN_INVARIANT;
  d.page_size = PAGE;
  d.window = c->window;
  ga_attn_io io = {.q = c->q + first * HEADS * DIM,
                   .k = c->k,
                   .v = c->v,
                   .o = c->o,
                   .q_start = c->lengths,
                   .kv_len = c->lengths + 3,
                   .page_table = c->table,
                   .q_tokens = n,
                   .page_table_stride = GA_COUNT_OF(table)};
  io.k_scale = io.v_scale = (ga_attn_scale){.batch = PAGE, .head = SLOTS, .block = 1};
  io.k_scale.data = (const float *)(const void *)((const uint8_t *)c->k + SLOTS * ROW);
  io.v_scale.data = (const float *)(const void *)((const uint8_t *)c->v + SLOTS * ROW);
  if (ga_attn(ctx, &d, &io, NULL) != GA_OK) fail_msg("%s", ga_error_text());
  from_device(ctx, o, c->o, (size_t)n * HEADS * DIM * sizeof(float));
}

/* Queries [at, at + n) in a call of their own. */
static void expect_queries(ga_ctx *ctx, const attn_case *c, int at, int n, const float *all) {
  static float some[TOKENS * HEADS * DIM];
  one_attention(ctx, c, at, n, at % 2 ? at + n : 2048, some);
  if (memcmp(some, all + at * HEADS * DIM, (size_t)n * HEADS * DIM * sizeof(float)))
    fail_msg("%s, window %d: queries %d to %d differ from those of all at once", ga_dtype_name(c->kv), c->window, at,
             at + n);
}

static void all_queries_alike(ga_ctx *ctx, const attn_case *c) {
  static float all[TOKENS * HEADS * DIM];
  static const int sizes[] = {1, 2, 3, 7, 8, 9, 33, 64, 100};
  one_attention(ctx, c, 0, TOKENS, 1024, all);
  for (int i = 0; i < TOKENS * HEADS * DIM; i++) assert_true(isfinite(all[i])); /* of the written pages alone */
  for (int at = 0; at < 14; at++) expect_queries(ctx, c, at, 1, all); /* each that shares a tile with the next one */
  for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
    for (int at = 0; at < TOKENS; at += sizes[s] * (sizes[s] < 8 ? 11 : 1) * (FEW ? 3 : 1))
      expect_queries(ctx, c, at, sizes[s] < TOKENS - at ? sizes[s] : TOKENS - at, all);
}

static void fill_cache(ga_ctx *ctx, attn_case *c) {
  static float k[TOKENS * ROW], v[TOKENS * ROW];
  static int32_t slots[TOKENS];
  uint64_t bytes;
  ga_rng rng;
  ga_rng_seed(&rng, 9);
  /* Scales of e4m3 may differ by any factor: values of each seventh key are so much larger. */
  for (int i = 0; i < TOKENS * ROW; i++) {
    k[i] = (float)ga_rng_normal(&rng);
    v[i] = (float)ga_rng_normal(&rng) * (c->kv == GA_E4M3 && i / ROW % 7 == 6 ? 0x1p30f : 1.0f);
  }
  for (int i = 0; i < TOKENS; i++) slots[i] = table[i / PAGE] * PAGE + i % PAGE;
  assert_int_equal(ga_dtype_bytes(c->kv, SLOTS * ROW, &bytes), GA_OK);
  bytes += SLOTS * KV_HEADS * sizeof(float);
  void *anything = malloc(bytes), *own_k = to_device(ctx, k, sizeof k), *own_v = to_device(ctx, v, sizeof v),
       *own_slots = to_device(ctx, slots, sizeof slots);
  memset(anything, 0xff, bytes); /* pages of others */
  c->k = to_device(ctx, anything, bytes);
  c->v = to_device(ctx, anything, bytes);
  free(anything);
  ga_kv_store_desc d = GA_KV_STORE_DESC_INIT;
  d.tokens = TOKENS;
  d.slots = SLOTS;
  d.heads = KV_HEADS;
  d.head_dim = d.v_dim = DIM;
  d.kv_dtype = (int32_t)c->kv;
  ga_kv_store_io io = {.k = own_k, .v = own_v, .slot = own_slots, .k_cache = c->k, .v_cache = c->v};
  if (c->kv == GA_E4M3) io.k_scale = (float *)(void *)((uint8_t *)c->k + SLOTS * ROW);
  if (c->kv == GA_E4M3) io.v_scale = (float *)(void *)((uint8_t *)c->v + SLOTS * ROW);
  if (ga_kv_store(ctx, &d, &io, NULL) != GA_OK) fail_msg("%s", ga_error_text());
  if (ga_stream_sync(ctx, NULL) != GA_OK) fail_msg("%s", ga_error_text());
  ga_buffer_free(ctx, own_k);
  ga_buffer_free(ctx, own_v);
  ga_buffer_free(ctx, own_slots);
}

static void attention_of(ga_ctx *ctx, ga_dtype kv) {
  static const int32_t windows[] = {0, 1, 50, 64, 130};
  static float q[TOKENS * HEADS * DIM];
  attn_case c = {.kv = kv};
  ga_rng rng;
  ga_rng_seed(&rng, 3);
  for (int i = 0; i < TOKENS * HEADS * DIM; i++) q[i] = 3 * (float)ga_rng_normal(&rng);
  fill_cache(ctx, &c);
  c.q = to_device(ctx, q, sizeof q);
  c.o = to_device(ctx, NULL, sizeof q);
  int32_t tables[2][GA_COUNT_OF(table)] = {{0}}; /* the other sequence is empty */
  memcpy(tables[0], table, sizeof table);
  c.table = to_device(ctx, tables, sizeof tables);
  c.lengths = to_device(ctx, NULL, 5 * sizeof(int32_t));
  for (int w = 0; w < 5; w += FEW ? 2 : 1) {
    c.window = windows[w];
    all_queries_alike(ctx, &c);
  }
  void *const all[] = {c.k, c.v, c.q, c.o, c.table, c.lengths};
  for (size_t i = 0; i < GA_COUNT_OF(all); i++) ga_buffer_free(ctx, all[i]);
}

static void test_invariant_attn(void **state) {
  (void)state;
  static const ga_dtype types[] = {GA_F16, GA_E4M3, GA_BF16, GA_F32, GA_Q8_0, GA_Q4_0};
  const int n = on_cpu() ? 4 : 6;
  for (int s = 0; s < (on_cpu() ? n_sets() : 2); s++) {
    ga_ctx *ctx = open_set(s);
    for (int i = 0; i < (s || FEW ? 2 : n); i++) attention_of(ctx, types[i]);
    ga_ctx_destroy(ctx);
  }
}

/* Rows that do not keep it are refused. */
static void test_variant_rows_refused(void **state) {
  (void)state;
  ga_ctx *ctx;
  ga_plan *plan;
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = "cpu";
  o.disable_kernels = "gemm_f32_any*";
  assert_int_equal(ga_ctx_create(&o, &ctx), GA_OK);
  ga_gemm_desc d = GA_GEMM_DESC_INIT;
  d.m = d.n = d.k = 64;
  assert_int_equal(ga_gemm_plan(ctx, &d, &plan), GA_OK);
  ga_plan_destroy(plan);
  d.flags = GA_GEMM_INVARIANT;
  assert_int_equal(ga_gemm_plan(ctx, &d, &plan), GA_ERR_UNSUPPORTED);
  assert_non_null(strstr(ga_error_text(), "not batch-invariant"));
  ga_ctx_destroy(ctx);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_invariant_gemm),       cmocka_unit_test(test_other_rows_differ),
      cmocka_unit_test(test_tiles_alike),          cmocka_unit_test(test_orders_alike),
      cmocka_unit_test(test_rounded_x_alike),      cmocka_unit_test(test_invariant_attn),
      cmocka_unit_test(test_variant_rows_refused),
  };
  if (argc > 1) device = argv[1];
  if (argc > 2) cmocka_set_test_filter(argv[2]);
  if (FEW) n_x = 140, n_in = 1536; /* parts of k of several units */
  if (!FEW && !on_cpu()) n_x = MOST_ROWS, n_out = MOST_OUT, n_in = MOST_IN;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
