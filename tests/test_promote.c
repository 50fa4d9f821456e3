/* q4_0 and q5_0 as q8_0: every value is the same. Which weights get that, test_cuda_model counts launches of. */
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
  assert_int_equal(ga_promote_q8_0(f, ga_model_file_find(f, "w"), &wide, &bytes), GA_OK);
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

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_q4_0), cmocka_unit_test(test_q5_0)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
