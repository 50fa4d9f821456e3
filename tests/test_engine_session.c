/* What a session promises: the same numbers whichever way tokens came in, whatever the KV cache is made of; and how
 * generation ends. On the tiny models of tests/data/arch. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/session.h"
#include "model/model.h"
#include "tests/tiny_model.h"

enum { TOKENS = 40 };

static const char *const archs[] = {"llama", "qwen2", "qwen3", "gemma3", "gpt2"};
enum { ARCHS = sizeof archs / sizeof archs[0] };

static int32_t ids[TOKENS];

typedef struct opened {
  ga_ctx *ctx;
  ga_model *model;
} opened;

static opened open_tiny(const char *arch, int n_tokens) {
  opened o;
  for (int i = 0; i < TOKENS; i++) ids[i] = (i * 37 + 5) % (TINY_VOCAB - 4) + 4;
  if (tiny_make(arch, n_tokens) != GA_OK) fail_msg("%s: %s", arch, ga_error_text());
  assert_int_equal(ga_ctx_create(&(ga_ctx_options){.struct_size = sizeof(ga_ctx_options), .device = "cpu"}, &o.ctx),
                   GA_OK);
  if (ga_model_load(o.ctx, tiny_path, NULL, &o.model) != GA_OK) fail_msg("%s: %s", arch, ga_error_text());
  return o;
}

static void close_tiny(opened *o) {
  ga_model_destroy(o->model);
  ga_ctx_destroy(o->ctx);
}

static ga_session *open_session(const opened *o, ga_dtype kv, int32_t batch) {
  ga_session *s;
  ga_session_options so = GA_SESSION_OPTIONS_INIT;
  so.kv_dtype = (int32_t)kv;
  so.batch = batch;
  if (ga_session_create(o->model, &so, &s) != GA_OK) fail_msg("%s", ga_error_text());
  return s;
}

static void eval(ga_session *s, int from, int to, float *rows) {
  if (ga_session_eval(s, ids + from, to - from, rows, rows ? to - from : 0, NULL, NULL) != GA_OK)
    fail_msg("%s", ga_error_text());
}

/* Root mean square of the difference relative to that of `want`. */
static double distance(const float *got, const float *want, int rows) {
  double diff = 0, size = 0;
  for (int i = 0; i < rows * TINY_VOCAB; i++) {
    diff += pow((double)got[i] - (double)want[i], 2);
    size += pow((double)want[i], 2);
  }
  return sqrt(diff / size);
}

static float want[TOKENS * TINY_VOCAB], got[TOKENS * TINY_VOCAB];

/* Batches smaller than the prompt, as large, and larger: sums are split differently, so only nearly equal. */
static void test_batches_agree(void **state) {
  (void)state;
  for (int a = 0; a < ARCHS; a++) {
    opened o = open_tiny(archs[a], TINY_VOCAB);
    static const int32_t batches[] = {512, 1, 7};
    for (int i = 0; i < 3; i++) {
      ga_session *s = open_session(&o, GA_F32, batches[i]);
      eval(s, 0, TOKENS, i ? got : want);
      ga_session_destroy(s);
      if (i && !(distance(got, want, TOKENS) < 2e-5))
        fail_msg("%s, batch %d: %g", archs[a], batches[i], distance(got, want, TOKENS));
    }
    close_tiny(&o);
  }
}

/* Errors of the types: f16 2^-11, bf16 2^-8, e4m3 2^-4, q8_0 2^-8 and q4_0 2^-4 of the largest of 32, some layers deep.
 * */
static void test_kv_types_agree(void **state) {
  (void)state;
  static const struct {
    ga_dtype dtype;
    double bound;
  } types[] = {{GA_F16, 1e-3}, {GA_BF16, 1e-2}, {GA_E4M3, 0.15}, {GA_Q8_0, 2.5e-2}, {GA_Q4_0, 0.4}};
  for (int a = 0; a < ARCHS; a++) {
    opened o = open_tiny(archs[a], TINY_VOCAB);
    ga_session *s = open_session(&o, GA_F32, 512);
    eval(s, 0, TOKENS, want);
    ga_session_destroy(s);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
      s = open_session(&o, types[i].dtype, 7);
      eval(s, 0, TOKENS, got);
      const double d = distance(got, want, TOKENS);
      if (!(d < types[i].bound && d > 0))
        fail_msg("%s, kv %s: %g, allowed %g", archs[a], ga_dtype_name(types[i].dtype), d, types[i].bound);
      ga_session_destroy(s);
    }
    close_tiny(&o);
  }
}

/* Rewind, then other tokens, then rewind again to the first ones: nothing of what was forgotten is seen. */
static void test_rewind_forgets(void **state) {
  (void)state;
  for (int a = 0; a < ARCHS; a++) {
    opened o = open_tiny(archs[a], TINY_VOCAB);
    ga_session *fresh = open_session(&o, GA_F16, 512), *s = open_session(&o, GA_F16, 512);
    eval(fresh, 0, 10, NULL);
    eval(fresh, 10, TOKENS, want);
    eval(s, 20, TOKENS, NULL); /* something else altogether */
    eval(s, 0, TOKENS, NULL);
    assert_int_equal(ga_session_rewind(s, 0), GA_OK);
    eval(s, 0, 10, NULL);
    eval(s, 0, 25, NULL);
    assert_int_equal(ga_session_rewind(s, 10), GA_OK);
    assert_int_equal(ga_session_length(s), 10);
    eval(s, 10, TOKENS, got);
    assert_memory_equal(got, want, (TOKENS - 10) * TINY_VOCAB * sizeof(float));
    assert_int_equal(ga_session_rewind(s, TOKENS + 1), GA_ERR_ARG);
    assert_int_equal(ga_session_rewind(s, -1), GA_ERR_ARG);
    ga_session_destroy(fresh);
    ga_session_destroy(s);
    close_tiny(&o);
  }
}

/* Gives the session's layers a state besides, of which the model's ops know nothing: the session keeps its snapshots,
 * and evaluates again what lies between one of them and the length that it goes back to. */
static void add_state(ga_session *s) {
  layer_memory_options o = {.page_tokens = GA_KV_PAGE, .n_kinds = s->kv.kinds.n + 1};
  for (int32_t kind = 0; kind < o.n_kinds - 1; kind++) {
    o.kinds[kind] = s->kv.kinds.kind[kind];
    o.n_units[kind] = s->n_pages;
  }
  o.kinds[o.n_kinds - 1].name = "state";
  o.n_units[o.n_kinds - 1] = 4;
  runner_destroy(s->runner);
  layer_memory_release(s->memory, 0, &s->sequence, NULL, 0);
  layer_memory_destroy(s->memory);
  assert_int_equal(layer_memory_create(&o, &s->memory), GA_OK);
  assert_int_equal(layer_memory_extend(s->memory, &s->sequence, s->sizes.context), GA_OK);
  assert_int_equal(session_create_runner(s), GA_OK);
}

static void eval_long(ga_session *s, const int32_t *list, int from, int to, float *row) {
  if (ga_session_eval(s, list + from, to - from, row, 1, NULL, NULL) != GA_OK) fail_msg("%s", ga_error_text());
}

static void test_states_go_back_to_a_snapshot(void **state) {
  (void)state;
  int32_t list[GA_KV_PAGE + 50];
  const int n = (int)GA_COUNT_OF(list), back = GA_KV_PAGE - 10;
  for (int i = 0; i < n; i++) list[i] = (i * 7 + 3) % TINY_VOCAB;
  opened o = open_tiny("llama", TINY_VOCAB);
  ga_session *fresh = open_session(&o, GA_F32, 512), *s = open_session(&o, GA_F32, 512);
  add_state(s);
  eval_long(fresh, list, 0, GA_KV_PAGE, want); /* in steps that end as those of the other session */
  eval_long(fresh, list, GA_KV_PAGE, n, want);
  eval_long(s, list, 0, n, got);
  assert_memory_equal(got, want, TINY_VOCAB * sizeof(float));
  assert_int_equal(s->sequence.n_snapshots, 1);
  assert_int_equal(s->sequence.snapshots[0].n_tokens, GA_KV_PAGE);
  assert_int_equal(ga_session_rewind(s, n - 5), GA_OK); /* from the snapshot, 45 tokens are evaluated again */
  assert_int_equal(ga_session_length(s), n - 5);
  assert_int_equal(s->n_evaluated, n);
  eval_long(s, list, n - 5, n, got);
  if (!(distance(got, want, 1) < 2e-5)) fail_msg("%g", distance(got, want, 1));
  assert_int_equal(ga_session_rewind(s, back), GA_OK); /* from the beginning */
  assert_int_equal(s->n_evaluated, n);
  eval_long(s, list, back, n, got);
  if (!(distance(got, want, 1) < 2e-5)) fail_msg("%g", distance(got, want, 1));
  assert_int_equal(s->sequence.snapshots[0].n_tokens, GA_KV_PAGE);
  assert_int_equal(s->n_evaluated, n);
  ga_session_destroy(fresh);
  ga_session_destroy(s);
  close_tiny(&o);
}

/* --- generation --- */

typedef struct sink {
  int32_t ids[256];
  int n, stop_after;
} sink;

static int on_text(void *user, int32_t id, const char *text, size_t bytes) {
  (void)text, (void)bytes;
  sink *k = user;
  if (id != GA_TOK_NONE) k->ids[k->n++] = id;
  return k->stop_after && k->n >= k->stop_after;
}

static ga_generate_options options_for(sink *k) {
  ga_generate_options o = GA_GENERATE_OPTIONS_INIT;
  *k = (sink){0};
  o.text = on_text;
  o.user = k;
  o.ignore_eog = true;
  return o;
}

static void test_ways_to_end(void **state) {
  (void)state;
  opened o = open_tiny("llama", TINY_VOCAB);
  ga_session *s = open_session(&o, GA_F16, 512);
  ga_generate_result r = GA_GENERATE_RESULT_INIT;
  sink k;
  ga_generate_options g = options_for(&k);
  g.max_tokens = 5;
  assert_int_equal(ga_generate(s, ids, 4, &g, &r), GA_OK);
  assert_int_equal(r.finish, GA_FINISH_LENGTH);
  assert_int_equal(k.n, 5);
  assert_int_equal(ga_session_length(s), 8); /* the last one has nothing after it */
  g = options_for(&k);
  g.max_tokens = 1000;
  assert_int_equal(ga_generate(s, ids, 4, &g, &r), GA_OK);
  assert_int_equal(r.finish, GA_FINISH_CONTEXT);
  assert_int_equal(ga_session_length(s), ga_session_context(s));
  assert_int_equal(k.n, ga_session_context(s) - 12 + 1);
  assert_int_equal(ga_generate(s, ids, 1, &g, &r), GA_ERR_SHAPE); /* full */
  assert_int_equal(ga_session_rewind(s, 0), GA_OK);
  g = options_for(&k);
  k.stop_after = 3;
  assert_int_equal(ga_generate(s, ids, 4, &g, &r), GA_OK);
  assert_int_equal(r.finish, GA_FINISH_STOPPED);
  assert_int_equal(r.n_generated, 3);
  assert_int_equal(ga_session_rewind(s, 0), GA_OK);
  static const ga_logit_bias end[] = {{2, 1e6f}};
  g = options_for(&k);
  g.ignore_eog = false;
  g.bias = end;
  g.n_bias = 1;
  assert_int_equal(ga_generate(s, ids, 4, &g, &r), GA_OK);
  assert_int_equal(r.finish, GA_FINISH_EOG);
  assert_int_equal(k.n, 0);
  assert_int_equal(ga_session_length(s), 5); /* the end of a turn belongs to it */
  ga_session_destroy(s);
  close_tiny(&o);
}

/* An answer in two calls, by way of rewind, is the answer in one. */
static void test_greedy_goes_on(void **state) {
  (void)state;
  for (int a = 0; a < ARCHS; a++) {
    opened o = open_tiny(archs[a], TINY_VOCAB);
    ga_session *s = open_session(&o, GA_F16, 512);
    ga_generate_result r = GA_GENERATE_RESULT_INIT;
    sink whole, part;
    ga_generate_options g = options_for(&whole);
    g.max_tokens = 20;
    assert_int_equal(ga_generate(s, ids, 6, &g, &r), GA_OK);
    assert_int_equal(ga_session_rewind(s, 6 + 9), GA_OK);
    g = options_for(&part);
    g.max_tokens = 10;
    assert_int_equal(ga_generate(s, &whole.ids[9], 1, &g, &r), GA_OK);
    assert_memory_equal(part.ids, whole.ids + 10, 10 * sizeof(int32_t));
    ga_session_destroy(s);
    close_tiny(&o);
  }
}

/* Rows of the head beyond the tokenizer have no text: they are never drawn, not even when they are the largest. */
static void test_padded_vocabulary(void **state) {
  (void)state;
  opened o = open_tiny("llama", 40);
  ga_session *s = open_session(&o, GA_F16, 512);
  ga_generate_result r = GA_GENERATE_RESULT_INIT;
  sink k;
  ga_generate_options g = options_for(&k);
  g.max_tokens = 100;
  ga_sample_desc hot = GA_SAMPLE_DESC_INIT;
  hot.temperature = 5;
  g.sample = &hot;
  static const ga_logit_bias high[] = {{41, 1e6f}, {95, 1e6f}};
  g.bias = high;
  g.n_bias = 2;
  if (ga_generate(s, ids, 4, &g, &r) != GA_OK) fail_msg("%s", ga_error_text());
  for (int i = 0; i < k.n; i++) assert_in_range(k.ids[i], 0, 39);
  ga_session_destroy(s);
  close_tiny(&o);
}

static int stop_at_second(void *user, uint64_t done, uint64_t total) {
  int *calls = user;
  assert_int_equal(total, TOKENS);
  assert_int_equal(done, 7 * (uint64_t)++ * calls);
  return *calls == 2;
}

/* Scores as the logits give them; stopped between two batches, the session is as before. */
static void test_score(void **state) {
  (void)state;
  opened o = open_tiny("llama", TINY_VOCAB);
  ga_session *s = open_session(&o, GA_F32, 7);
  double logprobs[TOKENS];
  int calls = 0;
  assert_int_equal(ga_session_score(s, ids, TOKENS, 0, logprobs, stop_at_second, &calls), GA_ERR_CANCELLED);
  assert_int_equal(calls, 2);
  assert_int_equal(ga_session_length(s), 0);
  if (ga_session_score(s, ids, TOKENS, 10, logprobs, NULL, NULL) != GA_OK) fail_msg("%s", ga_error_text());
  assert_int_equal(ga_session_rewind(s, 0), GA_OK);
  eval(s, 0, TOKENS, want);
  for (int t = 10; t < TOKENS - 1; t++) {
    double sum = 0;
    for (int i = 0; i < TINY_VOCAB; i++) sum += exp((double)want[t * TINY_VOCAB + i]);
    const double exact = (double)want[t * TINY_VOCAB + ids[t + 1]] - log(sum);
    assert_true(fabs(logprobs[t - 10] - exact) < 1e-5);
  }
  ga_session_destroy(s);
  close_tiny(&o);
}

static void test_no_number_left(void **state) {
  (void)state;
  opened o = open_tiny("llama", TINY_VOCAB);
  ga_session *s = open_session(&o, GA_F16, 512);
  ga_generate_result r = GA_GENERATE_RESULT_INIT;
  sink k;
  ga_generate_options g = options_for(&k);
  static ga_logit_bias ban[TINY_VOCAB];
  for (int i = 0; i < TINY_VOCAB; i++) ban[i] = (ga_logit_bias){i, -INFINITY};
  g.bias = ban;
  g.n_bias = TINY_VOCAB - 1; /* one is left: it is drawn */
  g.max_tokens = 3;
  assert_int_equal(ga_generate(s, ids, 4, &g, &r), GA_OK);
  assert_int_equal(k.ids[2], TINY_VOCAB - 1);
  ga_sample_desc sample = GA_SAMPLE_DESC_INIT;
  sample.temperature = 1;
  sample.top_k = 1 << 30; /* more than there are */
  g.sample = &sample;
  assert_int_equal(ga_generate(s, ids, 4, &g, &r), GA_OK);
  assert_int_equal(k.ids[5], TINY_VOCAB - 1);
  g.n_bias = TINY_VOCAB; /* none is left: token 0 is no answer */
  k.n = 0;
  for (int greedy = 0; greedy < 2; greedy++) {
    sample.temperature = greedy ? 0 : 1;
    assert_int_equal(ga_generate(s, ids, 4, &g, &r), GA_ERR_STATE);
    assert_non_null(strstr(ga_error_text(), "ban every"));
    assert_int_equal(k.n, 0);
  }
  g.n_bias = TINY_VOCAB - 1; /* token 0 itself may be the one that is left */
  for (int i = 0; i < TINY_VOCAB - 1; i++) ban[i].id = i + 1;
  assert_int_equal(ga_generate(s, ids, 4, &g, &r), GA_OK);
  assert_int_equal(k.ids[0], 0);
  ga_session_destroy(s);
  close_tiny(&o);
}

typedef struct beside {
  ga_session *session;
  float row[TINY_VOCAB];
} beside;

static void *eval_beside(void *arg) {
  beside *b = arg;
  for (int i = 0; i < 20; i++)
    if (ga_session_rewind(b->session, 0) != GA_OK ||
        ga_session_eval(b->session, ids, TOKENS, b->row, 1, NULL, NULL) != GA_OK)
      return NULL;
  return b;
}

/* One copy of the weights for two contexts, each with its thread: the logits of one. */
static void test_shared_weights(void **state) {
  (void)state;
  opened o = open_tiny("llama", TINY_VOCAB), more;
  const ga_ctx_options cpu = {.struct_size = sizeof cpu, .device = "cpu", .threads = 1};
  assert_int_equal(ga_ctx_create(&cpu, &more.ctx), GA_OK);
  assert_int_equal(ga_model_share(o.model, more.ctx, &more.model), GA_OK);
  assert_ptr_equal(more.model->weights, o.model->weights);
  assert_ptr_not_equal(more.model->ctx, o.model->ctx);
  assert_ptr_equal(ga_model_tokenizer(more.model), ga_model_tokenizer(o.model));
  ga_session *s = open_session(&o, GA_F32, 512);
  beside b = {.session = open_session(&more, GA_F32, 512)};
  pthread_t thread;
  void *done = NULL;
  assert_int_equal(pthread_create(&thread, NULL, eval_beside, &b), 0);
  for (int i = 0; i < 20; i++) {
    assert_int_equal(ga_session_rewind(s, 0), GA_OK);
    assert_int_equal(ga_session_eval(s, ids, TOKENS, want, 1, NULL, NULL), GA_OK);
  }
  assert_int_equal(pthread_join(thread, &done), 0);
  assert_ptr_equal(done, &b);
  assert_memory_equal(b.row, want, sizeof b.row);
  ga_session_destroy(b.session);
  ga_model_destroy(more.model); /* the weights stay */
  ga_ctx_destroy(more.ctx);
  assert_int_equal(ga_session_rewind(s, 0), GA_OK);
  assert_int_equal(ga_session_eval(s, ids, TOKENS, got, 1, NULL, NULL), GA_OK);
  assert_memory_equal(got, want, sizeof b.row);
  ga_session_destroy(s);
  close_tiny(&o);
}

static void test_share_refuses(void **state) {
  (void)state;
  opened o = open_tiny("llama", TINY_VOCAB);
  const ga_ctx_options ref = {.struct_size = sizeof ref, .device = "ref"};
  ga_ctx *other;
  ga_model *model = o.model;
  assert_int_equal(ga_ctx_create(&ref, &other), GA_OK);
  assert_int_equal(ga_model_share(o.model, other, &model), GA_ERR_ARG);
  assert_string_equal(ga_error_text(), "model_share: the context is on ref; the model is on cpu");
  assert_null(model);
  assert_int_equal(ga_model_share(NULL, other, &model), GA_ERR_ARG);
  assert_int_equal(ga_model_share(o.model, NULL, &model), GA_ERR_ARG);
  assert_int_equal(ga_model_share(o.model, other, NULL), GA_ERR_ARG);
  ga_ctx_destroy(other);
  close_tiny(&o);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_batches_agree),     cmocka_unit_test(test_kv_types_agree),
      cmocka_unit_test(test_rewind_forgets),    cmocka_unit_test(test_states_go_back_to_a_snapshot),
      cmocka_unit_test(test_ways_to_end),       cmocka_unit_test(test_greedy_goes_on),
      cmocka_unit_test(test_padded_vocabulary), cmocka_unit_test(test_score),
      cmocka_unit_test(test_no_number_left),    cmocka_unit_test(test_shared_weights),
      cmocka_unit_test(test_share_refuses),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  tiny_remove();
  return failed;
}
