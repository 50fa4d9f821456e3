/* Models that ranks share by tensors: two CPU contexts in two threads, against the references in f64 of tests/data/arch
 * and against one device; what cannot be split; ranks that disagree or leave. GA_TEST_GPUS=2: ranks have GPUs. */
#include <math.h>
#include <pthread.h>

#include "ga/comm.h"
#include "model/model.h"
#include "tests/gguf_files.h"

enum { TOKENS = 40, VOCAB = 96, MOST_RANKS = 4 };

typedef struct rank_job {
  const char *path;
  ga_comm *comm;
  int32_t ids[TOKENS];
  int32_t n;   /* ids that it evaluates */
  bool leaves; /* destroys its end instead */
  float logits[TOKENS * VOCAB];
  int32_t drawn[8]; /* tokens of highest logit that follow */
  uint64_t weight_bytes;
  ga_status status;
  char text[512];
} rank_job;

static int32_t best_of(const float *x) {
  int32_t best = 0;
  for (int32_t i = 1; i < VOCAB; i++) best = x[i] > x[best] ? i : best;
  return best;
}

/* The prompt in two chunks, then tokens one by one. */
static ga_status evaluate(rank_job *j, ga_model *model) {
  ga_session *session;
  ga_session_options so = GA_SESSION_OPTIONS_INIT;
  float last[VOCAB];
  const int32_t first = j->n / 3 + 1;
  so.kv_dtype = GA_F32;
  so.context = TOKENS + 8;
  ga_status status = ga_session_create(model, &so, &session);
  if (status != GA_OK) return status;
  status = ga_session_eval(session, j->ids, first, j->logits, first, NULL, NULL);
  if (status == GA_OK)
    status =
        ga_session_eval(session, j->ids + first, j->n - first, j->logits + first * VOCAB, j->n - first, NULL, NULL);
  memcpy(last, j->logits + (j->n - 1) * VOCAB, sizeof last);
  for (int i = 0; i < 8 && status == GA_OK; i++) {
    j->drawn[i] = best_of(last);
    status = ga_session_eval(session, &j->drawn[i], 1, last, 1, NULL, NULL);
  }
  ga_session_destroy(session);
  return status;
}

static int n_gpus(void) { return getenv("GA_TEST_GPUS") ? atoi(getenv("GA_TEST_GPUS")) : 0; }

static void *run_tp_rank(void *arg) {
  rank_job *j = arg;
  ga_ctx *ctx = NULL;
  ga_model *model = NULL;
  ga_ctx_options co = GA_CTX_OPTIONS_INIT;
  ga_model_options mo = GA_MODEL_OPTIONS_INIT;
  char gpu[16];
  (void)snprintf(gpu, sizeof gpu, "cuda:%d", j->comm ? ga_comm_rank(j->comm) : 0);
  co.device = n_gpus() ? gpu : "cpu";
  co.threads = 1;
  mo.comm = j->comm;
  j->status = ga_ctx_create(&co, &ctx);
  if (j->status == GA_OK) j->status = ga_model_load(ctx, j->path, &mo, &model);
  if (j->status == GA_OK) j->weight_bytes = ga_model_get_info(model)->weight_bytes;
  if (j->status == GA_OK && !j->leaves) j->status = evaluate(j, model);
  if (j->status != GA_OK) (void)snprintf(j->text, sizeof j->text, "%s", ga_error_text());
  ga_model_destroy(model);
  ga_ctx_destroy(ctx);
  ga_comm_destroy(j->comm);
  j->comm = NULL;
  return NULL;
}

static void run_tp_ranks(rank_job *jobs, int32_t ranks) {
  pthread_t threads[MOST_RANKS];
  ga_comm *comms[MOST_RANKS] = {NULL};
  ga_comm_threads_options o = GA_COMM_THREADS_OPTIONS_INIT;
  o.ranks = ranks;
  o.timeout = 60;
  if (ranks > 1) assert_ok(ga_comm_threads_create(&o, comms));
  for (int32_t r = 0; r < ranks; r++) {
    jobs[r].comm = comms[r];
    assert_int_equal(pthread_create(&threads[r], NULL, run_tp_rank, &jobs[r]), 0);
  }
  for (int32_t r = 0; r < ranks; r++) assert_int_equal(pthread_join(threads[r], NULL), 0);
}

/* Fills in the path, the ids and the expected logits of tests/data/arch/<name>. */
static void read_case(const char *name, char path[600], int32_t ids[TOKENS], double (*rows)[VOCAB]) {
  char file[700], word[16];
  (void)snprintf(path, 600, "%s/arch/%s", GA_TEST_DATA, name);
  (void)snprintf(file, sizeof file, "%s/expected.txt", path);
  FILE *f = fopen(file, "r");
  assert_non_null(f);
  while (getc(f) != '\n') {
  }
  assert_int_equal(fscanf(f, "%15s %*d", word), 1);
  for (int i = 0; i < TOKENS; i++) assert_int_equal(fscanf(f, "%d", &ids[i]), 1);
  for (int r = 0; r < TOKENS; r++) {
    assert_int_equal(fscanf(f, "%15s", word), 1);
    for (int c = 0; c < VOCAB; c++) assert_int_equal(fscanf(f, "%lf", &rows[r][c]), 1);
  }
  (void)fclose(f);
}

static double tp_error(double (*want)[VOCAB], const float *got) {
  double worst = 0, sum = 0;
  for (int r = 0; r < TOKENS; r++)
    for (int c = 0; c < VOCAB; c++) {
      worst = fmax(worst, fabs((double)got[r * VOCAB + c] - want[r][c]));
      sum += want[r][c] * want[r][c];
    }
  return worst / sqrt(sum / TOKENS / VOCAB);
}

static rank_job jobs[MOST_RANKS], alone;

static void make_jobs(const char *path, const int32_t *ids, int32_t ranks) {
  memset(jobs, 0, sizeof jobs);
  for (int32_t r = 0; r < ranks; r++) {
    jobs[r].path = path;
    jobs[r].n = TOKENS;
    memcpy(jobs[r].ids, ids, sizeof jobs[r].ids);
  }
}

static void tp_shared(const char *name, int32_t ranks) {
  static double want[TOKENS][VOCAB];
  char path[600];
  int32_t ids[TOKENS];
  read_case(name, path, ids, want);
  make_jobs(path, ids, 1);
  run_tp_ranks(jobs, 1);
  alone = jobs[0];
  if (alone.status != GA_OK) fail_msg("%s: %s", name, alone.text);
  make_jobs(path, ids, ranks);
  run_tp_ranks(jobs, ranks);
  for (int32_t r = 0; r < ranks; r++) {
    if (jobs[r].status != GA_OK) fail_msg("%s, rank %d: %s", name, r, jobs[r].text);
    assert_memory_equal(jobs[r].logits, jobs[0].logits, sizeof alone.logits);
    if (!n_gpus()) assert_memory_equal(jobs[r].drawn, alone.drawn, sizeof alone.drawn);
    assert_true(jobs[r].weight_bytes < alone.weight_bytes);
  }
  const double error = tp_error(want, jobs[0].logits);
  if (!(error < (n_gpus() ? 1e-2 : 1e-5))) /* GPUs round X and W of products to bf16 or split them */
    fail_msg("%s over %d ranks: error %g of the reference", name, ranks, error);
}

static void test_tp_shared(void **state) {
  static const char *const two[] = {"llama",      "llama3",   "mistral", "qwen2",   "qwen3",
                                    "gemma",      "gemma2",   "gemma3",  "granite", "smollm3",
                                    "starcoder2", "nemotron", "cohere2", "phi2",    "command_r"};
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(two); i++) tp_shared(two[i], 2);
  if (n_gpus()) return;
  tp_shared("llama", 4); /* ranks share KV heads */
  tp_shared("qwen3", 4);
}

static void tp_refused(const char *name, int32_t ranks, ga_status status, const char *why) {
  static double want[TOKENS][VOCAB];
  char path[600];
  int32_t ids[TOKENS];
  read_case(name, path, ids, want);
  make_jobs(path, ids, ranks);
  run_tp_ranks(jobs, ranks);
  for (int32_t r = 0; r < ranks; r++) {
    assert_int_equal(jobs[r].status, status);
    if (!strstr(jobs[r].text, why)) fail_msg("'%s' does not say '%s'", jobs[r].text, why);
  }
}

static void test_tp_refused(void **state) {
  (void)state;
  tp_refused("llama", 3, GA_ERR_SHAPE, "4 heads over 3 ranks; must divide");
  tp_refused("phi3", 2, GA_ERR_UNSUPPORTED, "phi3 has one matrix over several parts (attn_qkv.weight)");
  tp_refused("olmo2", 2, GA_ERR_UNSUPPORTED, "olmo2 has a norm over several parts (attn_q_norm.weight)");
}

/* Ranks that evaluate different ids are told apart; nobody waits for one that leaves. */
static void test_apart(void **state) {
  static double want[TOKENS][VOCAB];
  char path[600];
  int32_t ids[TOKENS];
  (void)state;
  read_case("llama", path, ids, want);
  make_jobs(path, ids, 2);
  jobs[1].ids[0] ^= 1;
  run_tp_ranks(jobs, 2);
  for (int r = 0; r < 2; r++) {
    assert_int_equal(jobs[r].status, GA_ERR_COMM);
    assert_non_null(strstr(jobs[r].text, "ids that a session evaluates"));
  }
  make_jobs(path, ids, 2);
  jobs[1].leaves = true;
  run_tp_ranks(jobs, 2);
  assert_int_equal(jobs[0].status, GA_ERR_COMM);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_tp_shared), cmocka_unit_test(test_tp_refused),
                                     cmocka_unit_test(test_apart)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
