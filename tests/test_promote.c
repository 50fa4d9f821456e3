/* q4_0 and q5_0 as q8_0: every value is the same; those of types without kernels are nearly. Which weights become q8_0:
 * test_cuda_model. */
#include "base/half.h"
#include "base/mem.h"
#include "base/rng.h"
#include "model/promote.h"
#include "ref/ref.h"
#include "tests/gguf_files.h"

enum { ROWS = 3, COLS = 96, BLOCKS = ROWS * COLS / 32 };

/* Blocks of any codes; scales of f16 of all sizes, denormals too, but infinities and NaN. */
static void fill_type_blocks(ga_dtype type, uint8_t *to) {
  const size_t each = (size_t)ga_dtype_info(type)->block_bytes;
  ga_rng rng;
  ga_rng_seed(&rng, 3 + (uint64_t)type);
  for (size_t i = 0; i < BLOCKS * each; i++) to[i] = (uint8_t)ga_rng_u64(&rng);
  for (int b = 0; b < BLOCKS; b++) {
    uint8_t *high = to + (size_t)b * each + 1;
    if ((*high & 0x7c) == 0x7c) *high = (uint8_t)(*high & 0x83);
  }
}

static void same_values(ga_dtype type) {
  static uint8_t blocks[BLOCKS * 34];
  ga_gguf_writer *w = new_writer(3, 0);
  void *wide;
  uint64_t bytes;
  fill_type_blocks(type, blocks);
  const ga_tensor t = ga_tensor_make(blocks, type, 2, (int64_t[]){ROWS, COLS});
  ga_gguf_put_text(w, "general.architecture", "llama");
  ga_gguf_put_tensor(w, "w", &t);
  finish_file(w, "promote.gguf");
  ga_model_file *f = open_file("promote.gguf");
  assert_int_equal(ga_promote_q8_0(NULL, f, ga_model_file_find(f, "w"), &wide, &bytes), GA_OK);
  assert_int_equal(bytes, BLOCKS * 34);
  for (int i = 0; i < BLOCKS * 32; i++) {
    const double want = ga_ref_load_block(type, blocks + i / 32 * ga_dtype_info(type)->block_bytes, i % 32);
    assert_true(ga_ref_load_block(GA_Q8_0, (const uint8_t *)wide + i / 32 * 34, i % 32) == want);
  }
  ga_mem_free(wide);
  ga_model_file_destroy(f);
}

static void test_q4_0(void **state) {
  (void)state;
  same_values(GA_Q4_0);
}
static void test_q5_0(void **state) {
  (void)state;
  same_values(GA_Q5_0);
}

/* --- types without kernels: what one scale of f16 for 32 elements costs --- */

static void near_values(ga_dtype type, int scale_at, double slack) {
  static uint8_t blocks[BLOCKS * 110];
  const size_t each = (size_t)ga_dtype_info(type)->block_bytes;
  const int n_blocks = 3;
  void *wide;
  uint64_t bytes;
  ga_rng rng;
  ga_rng_seed(&rng, 11 + (uint64_t)type);
  for (size_t i = 0; i < (size_t)n_blocks * each; i++) blocks[i] = (uint8_t)ga_rng_u64(&rng);
  for (int b = 0; b < n_blocks; b++) {
    const ga_f16 scale = ga_f32_to_f16(0.01f * (float)(b + 1));
    memcpy(blocks + (size_t)b * each + scale_at, &scale, sizeof scale);
  }
  ga_gguf_writer *w = new_writer(3, 0);
  const ga_tensor t = ga_tensor_make(blocks, type, 2, (int64_t[]){n_blocks, 256});
  ga_gguf_put_text(w, "general.architecture", "llama");
  ga_gguf_put_tensor(w, "w", &t);
  finish_file(w, "promote.gguf");
  ga_model_file *f = open_file("promote.gguf");
  assert_int_equal(ga_promote_q8_0(NULL, f, ga_model_file_find(f, "w"), &wide, &bytes), GA_OK);
  assert_int_equal(bytes, n_blocks * 8 * 34);
  for (int i = 0; i < n_blocks * 256; i += 32) {
    double most = 0;
    for (int e = i; e < i + 32; e++) most = fmax(most, fabs(ga_ref_load(type, blocks, e)));
    for (int e = i; e < i + 32; e++)
      assert_true(fabs(ga_ref_load(GA_Q8_0, wide, e) - ga_ref_load(type, blocks, e)) <= slack * most);
  }
  ga_mem_free(wide);
  ga_model_file_destroy(f);
}

static void test_types_without_kernels(void **state) {
  (void)state;
  near_values(GA_IQ2_XXS, 0, 0x1p-11);
  near_values(GA_IQ2_XS, 0, 1.001 / 254 + 0x1p-11);
  near_values(GA_IQ2_S, 0, 1.001 / 254 + 0x1p-11);
  near_values(GA_IQ3_XXS, 0, 0x1p-11);
  near_values(GA_IQ3_S, 0, 0x1p-11);
  near_values(GA_TQ1_0, 52, 0);
  near_values(GA_TQ2_0, 64, 0);
}

/* --- e4m3: rows and columns of more than a block of 128, neither a multiple --- */

enum { N = 130, K = 200, DOWN = 2, ALONG = 2 };

static const char *const header = "{\"w\":{\"dtype\":\"F8_E4M3\",\"shape\":[130,200],\"data_offsets\":[0,26000]}%s}";

/* A file of w and, if `name`, of scales of that shape; index: which scale an element has. */
static void same_scaled_by(ga_pool *pool, const char *name, const char *shape, int n, int (*index)(int r, int c),
                           ga_status want) {
  static uint8_t bytes[N * K + 4 * N], file[sizeof bytes + 512];
  float scales[N];
  char more[160] = "", json[320];
  void *wide;
  uint64_t size;
  for (int i = 0; i < N * K; i++)
    bytes[i] = (uint8_t)(i * 7 % 254 < 127 ? i * 7 % 254 : 128 + i * 7 % 127); /* no NaN */
  for (int i = 0; i < n; i++) scales[i] = 0.011f * (float)(i + 1);
  memcpy(bytes + N * K, scales, 4 * (size_t)n);
  if (name)
    (void)snprintf(more, sizeof more, ",\"%s\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[26000,%d]}", name,
                   shape, N * K + 4 * n);
  (void)snprintf(json, sizeof json, header, more);
  const size_t head = strlen(json), data = (size_t)(N * K + 4 * n);
  ga_store_le(file, 8, head);
  memcpy(file + 8, json, head);
  memcpy(file + 8 + head, bytes, data);
  put_file_bytes("scaled.safetensors", file, 8 + head + data);
  ga_model_file *f = open_file("scaled.safetensors");
  const ga_status status = ga_promote_e4m3(pool, f, ga_model_file_find(f, "w"), N, K, GA_BF16, &wide, &size);
  assert_int_equal(status, want);
  if (status == GA_OK) {
    assert_int_equal(size, 2 * N * K);
    for (int r = 0; r < N; r++)
      for (int c = 0; c < K; c++) {
        const float scale = name ? scales[index(r, c)] : 1;
        assert_int_equal(((const ga_bf16 *)wide)[r * K + c], ga_f32_to_bf16(ga_e4m3_to_f32(bytes[r * K + c]) * scale));
      }
    ga_mem_free(wide);
  }
  ga_model_file_destroy(f);
}

/* By one thread, and by three. */
static void same_scaled(const char *name, const char *shape, int n, int (*index)(int r, int c), ga_status want) {
  ga_pool *pool;
  assert_ok(ga_pool_create(3, &pool));
  same_scaled_by(NULL, name, shape, n, index, want);
  same_scaled_by(pool, name, shape, n, index, want);
  ga_pool_destroy(pool);
}

static int one(int r, int c) { return 0 * (r + c); }
static int of_row(int r, int c) { return r + 0 * c; }
static int of_block(int r, int c) { return r / 128 * ALONG + c / 128; }

static void test_e4m3(void **state) {
  (void)state;
  same_scaled(NULL, "", 0, one, GA_OK);
  same_scaled("w_scale", "[]", 1, one, GA_OK);
  same_scaled("w_scale", "[1]", 1, one, GA_OK);
  same_scaled("w_scale", "[130,1]", N, of_row, GA_OK);
  same_scaled("w_scale_inv", "[2,2]", DOWN * ALONG, of_block, GA_OK);
  same_scaled("w_scale_inv", "[3]", 3, one, GA_ERR_SHAPE);
  same_scaled("w_scale_inv", "[1,2]", 2, one, GA_ERR_SHAPE);
}

/* Scales that no checkpoint should have do what the formula says, in both forms: -0.5, 0, infinity, NaN. */
static void test_odd_scales(void **state) {
  enum { ROWS_ODD = 4, COLS_ODD = 128, ALL = ROWS_ODD * COLS_ODD };
  static const float scales[ROWS_ODD] = {-0.5f, 0, INFINITY, NAN};
  static const ga_dtype forms[] = {GA_BF16, GA_E4M3_128};
  uint8_t codes[ALL], file[ALL + 512];
  const char json[] = "{\"w\":{\"dtype\":\"F8_E4M3\",\"shape\":[4,128],\"data_offsets\":[0,512]},"
                      "\"w_scale\":{\"dtype\":\"F32\",\"shape\":[4,1],\"data_offsets\":[512,528]}}";
  const size_t head = sizeof json - 1;
  (void)state;
  for (int i = 0; i < ALL; i++) codes[i] = (uint8_t)(i % 127 | i % 3 << 7);
  ga_store_le(file, 8, head);
  memcpy(file + 8, json, head);
  memcpy(file + 8 + head, codes, ALL);
  memcpy(file + 8 + head + ALL, scales, sizeof scales);
  put_file_bytes("odd.safetensors", file, 8 + head + ALL + sizeof scales);
  ga_model_file *f = open_file("odd.safetensors");
  for (int k = 0; k < 2; k++) {
    void *p;
    uint64_t size;
    assert_ok(ga_promote_e4m3(NULL, f, ga_model_file_find(f, "w"), ROWS_ODD, COLS_ODD, forms[k], &p, &size));
    for (int i = 0; i < ALL; i++) {
      const float want = ga_e4m3_to_f32(codes[i]) * scales[i / COLS_ODD];
      const double have = ga_ref_load(forms[k], p, i);
      assert_true(isnan(want) ? isnan(have) : have == (double)want && !signbit(have) == !signbit(want));
    }
    ga_mem_free(p);
  }
  ga_model_file_destroy(f);
}

/* --- e4m3 that keeps its codes: 130 rows of 256, one code of which is NaN --- */

enum { KEPT_K = 256, KEPT_SCALES = N, KEPT_NAN = 7 * KEPT_K + 131 };

static void same_kept(const char *name, const char *shape, int n, int (*index)(int r, int c)) {
  static uint8_t file[N * KEPT_K + 4 * KEPT_SCALES + 512], codes[N * KEPT_K];
  float scales[KEPT_SCALES];
  char json[320];
  void *kept;
  uint64_t size;
  ga_pool *pool;
  for (int i = 0; i < N * KEPT_K; i++) codes[i] = (uint8_t)(i * 7 % 254 < 127 ? i * 7 % 254 : 128 + i * 7 % 127);
  codes[KEPT_NAN] = 0xff;
  for (int i = 0; i < n; i++) scales[i] = 0.011f * (float)(i + 1);
  (void)snprintf(json, sizeof json,
                 "{\"w\":{\"dtype\":\"F8_E4M3\",\"shape\":[130,256],\"data_offsets\":[0,33280]},"
                 "\"%s\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[33280,%d]}}",
                 name, shape, N * KEPT_K + 4 * n);
  const size_t head = strlen(json);
  ga_store_le(file, 8, head);
  memcpy(file + 8, json, head);
  memcpy(file + 8 + head, codes, sizeof codes);
  memcpy(file + 8 + head + sizeof codes, scales, 4 * (size_t)n);
  put_file_bytes("kept.safetensors", file, 8 + head + sizeof codes + 4 * (size_t)n);
  ga_model_file *f = open_file("kept.safetensors");
  assert_ok(ga_pool_create(3, &pool));
  assert_ok(ga_promote_e4m3(pool, f, ga_model_file_find(f, "w"), N, KEPT_K, GA_E4M3_128, &kept, &size));
  assert_int_equal(size, N * KEPT_K / 128 * 132);
  for (int i = 0; i < N * KEPT_K; i++) {
    const double have = ga_ref_load(GA_E4M3_128, kept, i);
    if (i / 128 == KEPT_NAN / 128)
      assert_true(isnan(have)); /* and so are all results of the row */
    else
      assert_true(have == (double)scales[index(i / KEPT_K, i % KEPT_K)] * (double)ga_e4m3_to_f32(codes[i]));
  }
  ga_mem_free(kept);
  ga_pool_destroy(pool);
  ga_model_file_destroy(f);
}

static void test_e4m3_kept(void **state) {
  (void)state;
  same_kept("w_scale", "[1]", 1, one);
  same_kept("w_scale", "[130]", N, of_row);
  same_kept("w_scale_inv", "[2,2]", DOWN * ALONG, of_block);
}

/* --- threads --- */

/* A tensor of `rows` rows of 256 elements of any codes, by one thread and by five: the same bytes. */
static void same_by_threads(ga_dtype type, int rows) {
  enum { MOST = 999 * 256 };
  static uint8_t codes[MOST];
  const ga_dtype_traits *traits = ga_dtype_info(type);
  ga_rng rng;
  ga_pool *pool;
  void *one_thread, *five;
  uint64_t size, again;
  ga_rng_seed(&rng, (uint64_t)type);
  for (size_t i = 0; i < MOST; i++) codes[i] = (uint8_t)ga_rng_u64(&rng);
  ga_gguf_writer *w = new_writer(3, 0);
  const ga_tensor t = ga_tensor_make(codes, type, 2, (int64_t[]){rows, 256});
  assert_true(rows * (int64_t)(256 / traits->block_elems) * traits->block_bytes <= MOST);
  ga_gguf_put_text(w, "general.architecture", "llama");
  ga_gguf_put_tensor(w, "w", &t);
  finish_file(w, "promote.gguf");
  ga_model_file *f = open_file("promote.gguf");
  assert_ok(ga_pool_create(5, &pool));
  assert_ok(ga_promote_q8_0(NULL, f, ga_model_file_find(f, "w"), &one_thread, &size));
  assert_ok(ga_promote_q8_0(pool, f, ga_model_file_find(f, "w"), &five, &again));
  assert_int_equal(size, again);
  assert_memory_equal(one_thread, five, size);
  ga_mem_free(one_thread);
  ga_mem_free(five);
  ga_pool_destroy(pool);
  ga_model_file_destroy(f);
}

static void test_same_by_threads(void **state) {
  static const ga_dtype types[] = {GA_IQ2_XXS, GA_IQ2_XS, GA_IQ2_S, GA_IQ3_XXS, GA_IQ3_S,
                                   GA_TQ1_0,   GA_TQ2_0,  GA_Q4_0,  GA_Q5_0};
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(types); i++) {
    same_by_threads(types[i], 1);
    same_by_threads(types[i], 999);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_q4_0),
                                     cmocka_unit_test(test_q5_0),
                                     cmocka_unit_test(test_types_without_kernels),
                                     cmocka_unit_test(test_e4m3),
                                     cmocka_unit_test(test_odd_scales),
                                     cmocka_unit_test(test_e4m3_kept),
                                     cmocka_unit_test(test_same_by_threads)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
