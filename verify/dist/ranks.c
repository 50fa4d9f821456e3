#include "verify/dist/ranks.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "cmdline/interrupt.h"
#include "verify/dist/words.h"

ga_status dist_find_rank(dist_ranks *r) {
  static const char *const transports[] = {"threads", "processes", "mpi"};
  ga_comm_place place = GA_COMM_PLACE_INIT;
  GA_REQUIRE(dist_word_index(transports, GA_COUNT_OF(transports), r->transport) >= 0, GA_ERR_ARG,
             "--transport '%.100s': must be threads, processes or mpi", r->transport);
  r->rank = -1;
  if (strcmp(r->transport, "threads") != 0) GA_TRY(ga_comm_place_find(&place));
  GA_REQUIRE(*place.launcher || strcmp(r->transport, "mpi") != 0, GA_ERR_ARG,
             "--transport mpi: no launcher's variables are set; it is started by mpirun");
  if (!*place.launcher) {
    if (!r->n) r->n = DIST_DEFAULT_RANKS;
    return GA_OK;
  }
  GA_REQUIRE(!r->n || r->n == place.ranks, GA_ERR_ARG, "--ranks %lld: %s has started %d", (long long)r->n,
             place.launcher, place.ranks);
  r->n = place.ranks, r->rank = place.rank;
  return GA_OK;
}

bool dist_needs_launch(const dist_ranks *r) { return r->rank < 0 && !strcmp(r->transport, "processes"); }
bool dist_is_first(const dist_ranks *r) { return r->rank <= 0; }

/* --- communicators --- */

/* Opens MPI. Under a launcher that MPI does not know each process is a world of one rank, which is refused. */
static ga_status open_mpi(const dist_ranks *r, const ga_comm_place *place, ga_comm **out) {
  ga_comm_mpi_options mpi = GA_COMM_MPI_OPTIONS_INIT;
  mpi.flags = r->buffered ? GA_COMM_BUFFERED : 0u, mpi.timeout = r->timeout;
  GA_TRY(ga_comm_mpi_create(&mpi, out));
  const int32_t ranks = ga_comm_size(*out);
  if (ranks == place->ranks) return GA_OK;
  ga_comm_destroy(*out);
  *out = NULL;
  return ga_error_set(GA_ERR_UNSUPPORTED,
                      "%s has started %d ranks, of which MPI sees %d; start them by mpirun, or by srun --mpi=pmix",
                      place->launcher, place->ranks, ranks);
}

ga_status dist_open_comm(const dist_ranks *r, ga_comm **out) {
  ga_comm_place place = GA_COMM_PLACE_INIT;
  *out = NULL;
  if (!strcmp(r->transport, "threads")) return GA_OK;
  GA_TRY(ga_comm_place_find(&place));
  if (!strcmp(r->transport, "mpi")) return open_mpi(r, &place, out);
  GA_REQUIRE(!place.host_ranks || place.host_ranks == place.ranks, GA_ERR_UNSUPPORTED,
             "%d of %d ranks are on this host; --transport processes is for one host", place.host_ranks, place.ranks);
  ga_comm_process_options o = GA_COMM_PROCESS_OPTIONS_INIT;
  o.rank = place.rank, o.ranks = place.ranks, o.run = *place.run ? place.run : place.launcher;
  o.flags = r->buffered ? GA_COMM_BUFFERED : 0u, o.timeout = r->timeout;
  return ga_comm_processes_create(&o, out);
}

/* --- ranks at work --- */

typedef struct rank_job {
  const dist_ranks *of;
  ga_comm *comm;
  dist_rank_fn fn;
  void *arg, *result;
  ga_status status;
  char text[512];
} rank_job;

static ga_status live_rank(rank_job *j) {
  ga_ctx_options options = GA_CTX_OPTIONS_INIT;
  char name[DIST_DEVICE_BYTES];
  options.device = "cpu", options.threads = 1;
  ga_ctx *host = NULL, *ctx = NULL;
  ga_status status = ga_ctx_create(&options, &host);
  dist_device_of(j->of->device, ga_comm_rank(j->comm), name);
  options.device = name;
  if (status == GA_OK && !dist_is_on_host(j->of->device)) status = ga_ctx_create(&options, &ctx);
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
  const dist_ranks *r = like->of;
  const int32_t ranks = (int32_t)r->n;
  options.ranks = ranks, options.seed = (uint64_t)r->seed, options.timeout = r->timeout;
  options.flags = r->buffered ? GA_COMM_BUFFERED : 0u;
  GA_TRY(ga_comm_threads_create(&options, comms));
  int32_t started = 0;
  for (; started < ranks; started++) {
    jobs[started] = *like;
    jobs[started].comm = comms[started];
    jobs[started].result = results + (size_t)started * bytes;
    if (pthread_create(&threads[started], NULL, rank_main, &jobs[started])) break;
  }
  for (int32_t i = started; i < ranks; i++) ga_comm_destroy(comms[i]);
  for (int32_t i = 0; i < started; i++) (void)pthread_join(threads[i], NULL);
  GA_REQUIRE(started == ranks, GA_ERR_DEVICE, "the system starts %d threads of %d", started, ranks);
  for (int32_t i = 0; i < ranks; i++)
    if (jobs[i].status != GA_OK) return ga_error_set(jobs[i].status, "%s", jobs[i].text);
  return GA_OK;
}

ga_status dist_on_ranks(const dist_ranks *r, ga_comm *comm, dist_rank_fn fn, void *arg, size_t bytes, void *results) {
  rank_job j = {.of = r, .comm = comm, .fn = fn, .arg = arg, .status = GA_OK};
  memset(results, 0, bytes * (size_t)r->n);
  if (!comm) return run_as_threads(&j, bytes, results);
  j.result = calloc(1, bytes);
  if (!j.result) return ga_fail_nomem("results", bytes);
  ga_status status = live_rank(&j);
  if (status == GA_OK) status = ga_comm_all_gather(comm, j.result, bytes, results);
  free(j.result);
  return status;
}

ga_status dist_meet_and_run(const dist_ranks *r, dist_rank_fn fn, void *arg, size_t bytes, void *results) {
  ga_comm *comm = NULL;
  ga_status status = dist_open_comm(r, &comm);
  if (status == GA_OK) status = dist_on_ranks(r, comm, fn, arg, bytes, results);
  if (status != GA_OK) ga_comm_abort(comm, ga_error_text());
  ga_comm_destroy(comm);
  return status;
}
