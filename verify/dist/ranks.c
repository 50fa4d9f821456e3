/* ga dist run, bench: ranks as threads of this process, or this process as one of them. */
#include "verify/dist/ranks.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmdline/error.h"
#include "cmdline/interrupt.h"

typedef struct rank_job {
  const dist_args *a;
  ga_comm *comm;
  dist_rank_fn fn;
  void *arg, *result;
  ga_status status;
  char text[512];
} rank_job;

double dist_seconds(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void dist_prepare_devices(const dist_args *a) {
  if (dist_is_on_host(a)) return;
  /* Streams that wait must not share a queue of the device with others, and no code may be loaded meanwhile. */
  (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  (void)setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

static ga_status live_rank(rank_job *j) {
  ga_ctx_options options = GA_CTX_OPTIONS_INIT;
  char name[64];
  options.device = "cpu", options.threads = 1;
  ga_ctx *host = NULL, *ctx = NULL;
  ga_status status = ga_ctx_create(&options, &host);
  dist_device_of(j->a, ga_comm_rank(j->comm), name, sizeof name);
  options.device = name;
  if (status == GA_OK && !dist_is_on_host(j->a)) status = ga_ctx_create(&options, &ctx);
  const dist_rank rank = {j->comm, host, ctx ? ctx : host};
  if (status == GA_OK) status = j->fn(&rank, j->arg, j->result);
  if (status != GA_OK) {
    (void)snprintf(j->text, sizeof j->text, "%s", ga_error_text());
    ga_comm_abort(j->comm, j->text);
  }
  ga_ctx_destroy(ctx);
  ga_ctx_destroy(host);
  return status == GA_OK ? GA_OK : ga_error_set(status, "%s", j->text);
}

static void *rank_main(void *arg) {
  rank_job *j = arg;
  stop_when_interrupted();
  j->status = live_rank(j);
  ga_comm_destroy(j->comm);
  return NULL;
}

static ga_status run_as_threads(const rank_job *like, size_t bytes, char *results) {
  ga_comm *comms[DIST_MOST_RUN_RANKS] = {NULL};
  pthread_t threads[DIST_MOST_RUN_RANKS];
  rank_job jobs[DIST_MOST_RUN_RANKS];
  ga_comm_threads_options options = GA_COMM_THREADS_OPTIONS_INIT;
  const dist_args *a = like->a;
  const int32_t ranks = (int32_t)a->ranks;
  options.ranks = ranks, options.seed = (uint64_t)a->seed, options.timeout = a->timeout;
  options.flags = a->buffered ? GA_COMM_BUFFERED : 0u;
  TRY(ga_comm_threads_create(&options, comms));
  int32_t started = 0;
  for (; started < ranks; started++) {
    jobs[started] = *like;
    jobs[started].comm = comms[started];
    jobs[started].result = results + (size_t)started * bytes;
    if (pthread_create(&threads[started], NULL, rank_main, &jobs[started])) break;
  }
  for (int32_t r = started; r < ranks; r++) ga_comm_destroy(comms[r]);
  for (int32_t r = 0; r < started; r++) (void)pthread_join(threads[r], NULL);
  REQUIRE(started == ranks, GA_ERR_DEVICE, "the system starts %d threads of %d", started, ranks);
  for (int32_t r = 0; r < ranks; r++)
    if (jobs[r].status != GA_OK) return ga_error_set(jobs[r].status, "%s", jobs[r].text);
  return GA_OK;
}

ga_status dist_on_ranks(const dist_args *a, ga_comm *comm, dist_rank_fn fn, void *arg, size_t bytes, void *results) {
  rank_job j = {.a = a, .comm = comm, .fn = fn, .arg = arg, .status = GA_OK};
  memset(results, 0, bytes * (size_t)a->ranks);
  if (!comm) return run_as_threads(&j, bytes, results);
  j.result = calloc(1, bytes);
  if (!j.result) return fail_nomem("results", bytes);
  ga_status status = live_rank(&j);
  if (status == GA_OK) status = ga_comm_all_gather(comm, j.result, bytes, results);
  free(j.result);
  return status;
}

ga_status dist_meet_and_run(const dist_args *a, dist_rank_fn fn, void *arg, size_t bytes, void *results) {
  ga_comm *comm = NULL;
  ga_status status = strcmp(a->transport, "threads") != 0 ? dist_open_comm(a, &comm) : GA_OK;
  if (status == GA_OK) status = dist_on_ranks(a, comm, fn, arg, bytes, results);
  if (status != GA_OK) ga_comm_abort(comm, ga_error_text());
  ga_comm_destroy(comm);
  return status;
}
