/* Models with latent attention (deepseek2): their pages in sessions that go back, in engines that share prefixes,
 * preempt and swap; the placement's bytes; types of the cache that are refused; matrices in block types. */
#include "ga/gemm.h"
#include "ga/quantize.h"
#include "model/kv_cache.h"
#include "model/weight_spec.h"
#include "tests/hybrid_rig.h"

#define assert_ok(call) \
  if ((call) != GA_OK) fail_msg("%s", ga_error_text())

enum { LATENT_ROW = 48 + 8, LAYERS = 2 }; /* of tests/refs/arch_latent.py */

static void test_kind_of_pages(void **state) {
  (void)state;
  rig r = open_hybrid();
  memory_kinds kinds;
  assert_ok(memory_kinds_of(&r.model->hparams, GA_BF16, &kinds));
  assert_int_equal(kinds.n, 1);
  assert_string_equal(kinds.kind[0].name, "latent_pages");
  assert_int_equal(kinds.kind[0].unit_bytes, LAYERS * GA_KV_PAGE * LATENT_ROW * 2);
  assert_true(kinds.kind[0].is_shared && !kinds.kind[0].window);
  const ga_model_placement *plan = &r.model->placements[0].plan;
  assert_int_equal(plan->kv_token, LAYERS * LATENT_ROW * 2); /* f16 */
  assert_int_equal(plan->kv, (uint64_t)CONTEXT * LAYERS * LATENT_ROW * 2);
  assert_int_equal(memory_kinds_of(&r.model->hparams, GA_E4M3, &kinds), GA_ERR_DTYPE);
  ga_hparams wide = r.model->hparams;
  wide.kv_latent = 128;
  assert_ok(memory_kinds_of(&wide, GA_E4M3, &kinds)); /* codes, a scale, and bf16 */
  assert_int_equal(kinds.kind[0].unit_bytes, LAYERS * GA_KV_PAGE * (128 + 4 + 2 * wide.rot_dim));
  close_hybrid(&r);
}

static void test_cache_types(void **state) {
  static const struct {
    ga_dtype type;
    const char *text;
  } refused[] = {{GA_E4M3, "kv cache of e4m3 needs latent vectors in multiples of 128; this model's have "},
                 {GA_Q8_0, "allowed for models with latent attention: f16, f32, bf16, e4m3"},
                 {GA_Q4_0, "allowed for models with latent attention: f16, f32, bf16, e4m3"}};
  (void)state;
  rig r = open_hybrid();
  for (size_t i = 0; i < GA_COUNT_OF(refused); i++) {
    ga_session *s;
    ga_session_options so = GA_SESSION_OPTIONS_INIT;
    so.kv_dtype = (int32_t)refused[i].type;
    assert_int_equal(ga_session_create(r.model, &so, &s), GA_ERR_DTYPE);
    if (!strstr(ga_error_text(), refused[i].text)) fail_msg("%s", ga_error_text());
  }
  close_hybrid(&r);
}

/* A prompt takes whole pages and, by a copy, the beginning of the next one. */
static void test_pages_are_shared(void **state) {
  (void)state;
  enum { LONG = 3 * PAGE + 20, SAME = 2 * PAGE + 7 };
  static answer first, again, other, alone;
  int32_t ids[LONG];
  rig r = open_hybrid();
  ga_engine *e = hybrid_engine(&r, 40, 0, 0, 4);
  hybrid_ids(ids, LONG, 5);
  hybrid_read(hybrid_submit(e, ids, LONG, 1), &first);
  assert_int_equal(first.n_cached, 0);
  hybrid_read(hybrid_submit(e, ids, LONG, 1), &again);
  hybrid_same(&again, &first, "again", 0);
  assert_int_equal(again.n_cached, LONG - 1);
  hybrid_ids(ids + SAME, LONG - SAME, 6);
  hybrid_read(hybrid_submit(e, ids, LONG, 20), &other);
  assert_int_equal(other.n_cached, SAME);
  ga_engine_destroy(e);
  e = hybrid_engine(&r, 40, 0, GA_ENGINE_NO_PREFIX_CACHE, 1);
  hybrid_read(hybrid_submit(e, ids, LONG, 20), &alone);
  hybrid_same(&other, &alone, "another end", 0);
  ga_engine_destroy(e);
  close_hybrid(&r);
}

/* --- matrices of heads in block types --- */

static void write_types(const char *name, const char *type, const char *to) {
  char path[ARCH_PATH_BYTES];
  ga_quantize_options o = GA_QUANTIZE_OPTIONS_INIT;
  o.type = type;
  o.n_threads = 1;
  o.overwrite = true;
  o.pure = true;
  assert_ok(ga_quantize_file(arch_model_path(name, path), to, &o));
}

enum { TOKENS = 24 };

/* Logits of TOKENS tokens, `step` at a time. Returns the type and layout of the keys' matrices. */
static ga_weight latent_logits(const char *path, const char *device, int step, float *logits) {
  ga_ctx *ctx;
  ga_model *model;
  ga_session *session;
  int32_t ids[TOKENS];
  for (int i = 0; i < TOKENS; i++) ids[i] = (i * 37 + 5) % TINY_VOCAB;
  assert_ok(ga_ctx_create(&(ga_ctx_options){.struct_size = sizeof(ga_ctx_options), .device = device}, &ctx));
  assert_ok(ga_model_load(ctx, path, NULL, &model));
  assert_ok(ga_session_create(model, NULL, &session));
  for (int at = 0; at < TOKENS; at += step)
    assert_ok(ga_session_eval(session, ids + at, step, logits + at * TINY_VOCAB, step, NULL, NULL));
  const ga_weight keys = *ga_weight_slot(model, W_K_UP, 0);
  ga_session_destroy(session);
  ga_model_destroy(model);
  ga_ctx_destroy(ctx);
  return keys;
}

static double error_of_last(const float *got, const float *want) {
  double off = 0, all = 0;
  for (int i = (TOKENS - 1) * TINY_VOCAB; i < TOKENS * TINY_VOCAB; i++) {
    off += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
    all += (double)want[i] * (double)want[i];
  }
  return sqrt(off / all);
}

static void check_split_types(const char *name, const char *type, ga_dtype keys, bool is_packed) {
  static float want[TOKENS * TINY_VOCAB], got[TOKENS * TINY_VOCAB];
  char path[] = "/tmp/ga-latent-XXXXXX";
  const int fd = mkstemp(path);
  assert_true(fd >= 0);
  (void)close(fd);
  write_types(name, type, path);
  assert_int_equal(latent_logits(path, "ref", TOKENS, want).dtype, keys);
  for (int step = 1; step <= TOKENS; step += TOKENS - 1) {
    const ga_weight w = latent_logits(path, "cpu", step, got);
    assert_int_equal(w.dtype, keys);
    assert_int_equal(w.layout != GA_LAYOUT_NATIVE, is_packed);
    const double error = error_of_last(got, want);
    if (!(error < 3e-2)) fail_msg("%s in %s, %d at a time: error %g", name, type, step, error);
  }
  (void)unlink(path);
}

/* Rows of 16 elements are no blocks: quantising leaves them as they are. Unsplit keys of a block type become f32. */
static void test_types_of_heads(void **state) {
  (void)state;
  check_split_types("deepseek2", "bf16", GA_BF16, true);
  check_split_types("deepseek2_old", "f16", GA_F16, true);
  check_split_types("deepseek2_old", "q8_0", GA_F32, true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_kind_of_pages),         cmocka_unit_test(test_cache_types),
      cmocka_unit_test(test_types_of_heads),        cmocka_unit_test(test_sessions_go_back),
      cmocka_unit_test(test_engine_gives_the_same), cmocka_unit_test(test_pages_are_shared),
  };
  hybrid_folder = "deepseek2";
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  tiny_remove();
  return failed;
}
