/* Pages that go to host memory and come back: what requests get is the same, to the bit. */
#include "tests/answers_rig.h"

static void swapped_as_alone(const char *arch, uint32_t flags, ga_dtype kv) {
  static answer want[N], got[N];
  rig r = answers_open(arch, 1);
  ga_engine *e = engine_of(&r, MANY_PAGES, 0, GA_ENGINE_DETERMINISTIC, kv);
  assert_int_equal(answer_all(e, want).preemptions, 0);
  ga_engine_destroy(e);
  e = engine_of(&r, FEW_PAGES, SWAP_BYTES, flags | GA_ENGINE_DETERMINISTIC, kv);
  const ga_engine_stats s = answer_all(e, got);
  assert_true(s.preemptions > 0 && s.swapped_out_bytes > 0 && s.swapped_in_bytes > 0);
  assert_true(s.swap_pages > 0 && s.swap_pages_used <= s.swap_pages);
  if (flags & GA_ENGINE_NO_PREFIX_CACHE) assert_true(s.prefix_hits == 0 && s.kv_pages_cached + s.swap_pages_used == 0);
  same_answers(got, want, arch, 1);
  ga_engine_destroy(e);
  answers_close(&r);
}

static void test_swapped_as_alone(void **state) {
  (void)state;
  swapped_as_alone("llama", 0, GA_F16);
  if (FEW) return;
  swapped_as_alone("llama", 0, GA_E4M3); /* scales lie behind the codes */
  swapped_as_alone("gemma3", 0, GA_Q8_0);
  swapped_as_alone("llama", GA_ENGINE_NO_PREFIX_CACHE, GA_F32);
  swapped_as_alone("gemma3", GA_ENGINE_OFFLOAD_PREFIXES, GA_BF16);
}

/* Tokens of the prompt that were found kept. */
static int32_t n_found_of(ga_engine *e, const int32_t *ids, int n, int32_t *id) {
  ga_request *r;
  ga_request_output out = GA_REQUEST_OUTPUT_INIT;
  ga_request_info info = GA_REQUEST_INFO_INIT;
  ga_request_options o = GA_REQUEST_OPTIONS_INIT;
  o.ids = ids;
  o.n_ids = n;
  o.max_tokens = 1;
  o.ignore_eog = true;
  assert_int_equal(ga_engine_submit(e, &o, &r), GA_OK);
  assert_int_equal(ga_request_poll(r, POLL_MS, &out), GA_OK);
  assert_int_equal(out.event, GA_REQUEST_TOKEN);
  *id = out.id;
  assert_int_equal(ga_request_poll(r, POLL_MS, &out), GA_OK);
  assert_int_equal(out.event, GA_REQUEST_END);
  assert_int_equal(ga_request_get_info(r, &info), GA_OK);
  ga_request_destroy(r);
  return info.n_cached;
}

/* Three prompts, in a cache that holds one or two of them. */
static void prefixes_come_back(const char *arch, bool offloads) {
  enum { LONG = (FEW ? 2 : 3) * PAGE - 10, PROMPTS = 3 };
  static int32_t ids[PROMPTS][LONG];
  int32_t first[PROMPTS], again;
  rig r = answers_open(arch, 1);
  ga_engine *e =
      engine_of(&r, 4, SWAP_BYTES, GA_ENGINE_DETERMINISTIC | (offloads ? GA_ENGINE_OFFLOAD_PREFIXES : 0), GA_F16);
  for (int i = 0; i < PROMPTS; i++) {
    fill_seeded(ids[i], LONG, (uint64_t)i + 20);
    assert_int_equal(n_found_of(e, ids[i], LONG, &first[i]), 0);
  }
  assert_int_equal(idle_stats(e).swapped_in_bytes, 0);
  const int32_t found = n_found_of(e, ids[0], LONG, &again);
  assert_int_equal(again, first[0]);
  assert_int_equal(found, offloads ? LONG - 1 : 0);
  assert_int_equal(idle_stats(e).swapped_in_bytes > 0, offloads);
  assert_int_equal(idle_stats(e).preemptions, 0);
  ga_engine_destroy(e);
  answers_close(&r);
}

static void test_prefixes_come_back(void **state) {
  (void)state;
  prefixes_come_back("llama", true);
  if (FEW) return;
  prefixes_come_back("gemma3", true);
  prefixes_come_back("llama", false);
}

static void test_swap_options(void **state) {
  (void)state;
  rig r = answers_open("llama", 1);
  ga_engine *e;
  ga_engine_options o = GA_ENGINE_OPTIONS_INIT;
  o.kv_tokens = 4 * PAGE; /* not most of the memory, which the emulator fills anew for each engine */
  o.swap_bytes = 1;
  assert_int_equal(ga_engine_create(r.model, &o, &e), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "swap_bytes is 1; a page of"));
  o.swap_bytes = -1;
  assert_int_equal(ga_engine_create(r.model, &o, &e), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "swap_bytes is -1"));
  o.swap_bytes = 0;
  o.flags = GA_ENGINE_OFFLOAD_PREFIXES;
  assert_int_equal(ga_engine_create(r.model, &o, &e), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "needs swap_bytes"));
  o.swap_bytes = SWAP_BYTES;
  ga_engine_destroy(engine_after_failures(&r, &o));
  answers_close(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_swapped_as_alone),
      cmocka_unit_test(test_prefixes_come_back),
      cmocka_unit_test(test_swap_options),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  tiny_remove();
  return failed;
}
