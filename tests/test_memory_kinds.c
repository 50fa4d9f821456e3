/* Kinds of layer memory of models: which layers have which, bytes of units, and where units lie in tensors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/memory_kind.h"

enum { LAYERS = 7, UNITS = 5 };

/* Each third layer sees all tokens, the others a window, if there is one. */
static ga_hparams mixed(int32_t window) {
  ga_hparams p = {.n_layers = LAYERS, .n_heads = 4, .n_kv_heads = 2, .head_dim = 32, .v_dim = 64, .window = window};
  for (int32_t il = 0; il < LAYERS; il++) p.is_local[il] = il % 3 != 2;
  return p;
}

static void each_layer_has_one_kind(void **state) {
  (void)state;
  const ga_hparams without = mixed(0);
  ga_hparams p = mixed(100);
  memory_kinds kinds;
  assert_int_equal(memory_kinds_of(&p, GA_F16, &kinds), GA_OK);
  assert_int_equal(kinds.n, 2);
  for (int32_t il = 0; il < LAYERS; il++) {
    assert_int_equal(kinds.of_layer[il][MEMORY_PAGES], p.is_local[il]);
    assert_int_equal(kinds.of_layer[il][MEMORY_STATE], MEMORY_NONE);
    assert_true(memory_layer_has(&p, il, MEMORY_PAGES) && !memory_layer_has(&p, il, MEMORY_STATE));
  }
  assert_int_equal(kinds.kind[0].window, 0);
  assert_int_equal(kinds.kind[1].window, 100);
  assert_int_equal(memory_kinds_of(&without, GA_F16, &kinds), GA_OK);
  assert_int_equal(kinds.n, 1); /* a kind without layers is not listed */
  p.no_attention[1] = p.no_attention[2] = true;
  assert_int_equal(memory_kinds_of(&p, GA_F16, &kinds), GA_OK);
  for (int32_t il = 0; il < LAYERS; il++)
    assert_int_equal(kinds.of_layer[il][MEMORY_PAGES] == MEMORY_NONE, il == 1 || il == 2);
}

static const ga_dtype types[] = {GA_F32, GA_F16, GA_E4M3, GA_Q8_0, GA_Q4_0};

/* Bytes of a page of keys or values of `dim` elements, with the scales of e4m3. */
static uint64_t page_bytes(const ga_hparams *p, ga_dtype dtype, int32_t dim) {
  const uint64_t scales = dtype == GA_E4M3 ? (uint64_t)(GA_KV_PAGE * p->n_kv_heads) * sizeof(float) : 0;
  uint64_t codes;
  assert_int_equal(ga_dtype_bytes(dtype, (int64_t)GA_KV_PAGE * p->n_kv_heads * dim, &codes), GA_OK);
  return codes + scales;
}

static void units_have_the_bytes_of_their_layers(void **state) {
  (void)state;
  const ga_hparams p = mixed(100);
  for (size_t i = 0; i < GA_COUNT_OF(types); i++) {
    memory_kinds kinds;
    const uint64_t page = page_bytes(&p, types[i], p.head_dim) + page_bytes(&p, types[i], p.v_dim);
    assert_int_equal(memory_kinds_of(&p, types[i], &kinds), GA_OK);
    assert_int_equal(kinds.kind[0].unit_bytes, 2 * page);
    assert_int_equal(kinds.kind[1].unit_bytes, 5 * page);
    for (int32_t il = 0; il < LAYERS; il++) {
      memory_need need;
      assert_int_equal(memory_need_of(&p, types[i], il, &need), GA_OK);
      assert_int_equal(need.token * GA_KV_PAGE, page);
      assert_int_equal(need.sequence, 0);
    }
  }
}

/* Counts for each byte of a tensor the units whose it is. */
static void mark_units(const memory_tensor *tensor, uint8_t *owners) {
  for (int32_t s = 0; s < tensor->n_spans; s++)
    for (int64_t unit = 0; unit < UNITS; unit++)
      for (int64_t run = 0; run < tensor->spans[s].runs; run++)
        for (uint64_t b = 0; b < tensor->spans[s].bytes; b++) {
          const uint64_t at = memory_run_at(&tensor->spans[s], unit, run) + b;
          assert_true(at < tensor->bytes);
          owners[at]++;
        }
}

static void units_fill_their_tensors(void **state) {
  (void)state;
  const ga_hparams p = mixed(100);
  for (size_t i = 0; i < GA_COUNT_OF(types); i++) {
    memory_kinds kinds;
    assert_int_equal(memory_kinds_of(&p, types[i], &kinds), GA_OK);
    for (int32_t il = 0; il < LAYERS; il++) {
      memory_layout layout;
      assert_int_equal(kinds.type[kinds.of_layer[il][MEMORY_PAGES]]->layout(&p, types[i], il, UNITS, &layout), GA_OK);
      for (int32_t t = 0; t < layout.n_tensors; t++) {
        uint8_t *owners = calloc(layout.tensors[t].bytes, 1);
        assert_non_null(owners);
        mark_units(&layout.tensors[t], owners);
        for (uint64_t b = 0; b < layout.tensors[t].bytes; b++) assert_int_equal(owners[b], 1);
        free(owners);
      }
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_layer_has_one_kind),
      cmocka_unit_test(units_have_the_bytes_of_their_layers),
      cmocka_unit_test(units_fill_their_tensors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
