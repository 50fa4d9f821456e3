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
  const ga_hparams p = mixed(100), without = mixed(0);
  memory_kinds kinds;
  assert_int_equal(memory_kinds_of(&p, GA_F16, &kinds), GA_OK);
  assert_int_equal(kinds.n, 2);
  for (int32_t il = 0; il < LAYERS; il++) assert_int_equal(kinds.of_layer[il], p.is_local[il]);
  assert_int_equal(kinds.kind[0].window, 0);
  assert_int_equal(kinds.kind[1].window, 100);
  assert_int_equal(memory_kinds_of(&without, GA_F16, &kinds), GA_OK);
  assert_int_equal(kinds.n, 1); /* a kind without layers is not listed */
}

static const ga_dtype types[] = {GA_F32, GA_F16, GA_E4M3, GA_Q8_0, GA_Q4_0};

static void units_have_the_bytes_of_their_layers(void **state) {
  (void)state;
  const ga_hparams p = mixed(100);
  for (size_t i = 0; i < GA_COUNT_OF(types); i++) {
    memory_kinds kinds;
    uint64_t k, v;
    assert_int_equal(memory_kinds_of(&p, types[i], &kinds), GA_OK);
    assert_int_equal(ga_kv_bytes(&p, types[i], GA_KV_PAGE, &k, &v), GA_OK);
    assert_int_equal(kinds.kind[0].unit_bytes, 2 * (k + v));
    assert_int_equal(kinds.kind[1].unit_bytes, 5 * (k + v));
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
      assert_int_equal(kinds.type[kinds.of_layer[il]]->layout(&p, types[i], il, UNITS, &layout), GA_OK);
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
