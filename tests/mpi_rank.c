/* One of two ranks under mpirun, for program_dist_ranks.py: what goes wrong between ranks, as ga dist run never does.
 * Usage: mpi_rank lengths | aborted | silent | foreign. Ends with status 1 after an error, which it says on stdout. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "comm/mpi_api.h"
#include "ga/comm.h"

#define LARGE ((size_t)8 << 20) /* bytes: MPI does not copy such messages, and reads them when they are wanted */

enum { TAG_OF_LIBRARY = 1, THREADS_FUNNELED = 1 };

static void rest(double seconds) {
  const struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  (void)nanosleep(&t, NULL);
}

static ga_status open_comm(ga_comm **comm) {
  ga_comm_mpi_options o = GA_COMM_MPI_OPTIONS_INIT;
  o.timeout = 2;
  return ga_comm_mpi_create(&o, comm);
}

/* One end of a gathering has more bytes than the other. What was not written is as it was. */
static ga_status gather_lengths(ga_comm *comm) {
  const unsigned char mine[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  unsigned char all[16];
  return ga_comm_all_gather(comm, mine, ga_comm_rank(comm) ? 8 : 4, all);
}

/* Rank 0 gathers from one that gives up, or says nothing. Its memory is unmapped as soon as it may be. */
static ga_status gather_alone(ga_comm *comm, bool is_silent) {
  if (ga_comm_rank(comm)) {
    rest(is_silent ? 60 : 0.2);
    ga_comm_abort(comm, "a test");
    return ga_comm_meet(comm, "nothing", 0);
  }
  unsigned char *p = mmap(NULL, 3 * LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return GA_ERR_NOMEM;
  const ga_status status = ga_comm_all_gather(comm, p, LARGE, p + LARGE);
  (void)munmap(p, 3 * LARGE);
  rest(0.5);
  return status;
}

static void *open_elsewhere(void *out) {
  ga_comm *comm = NULL;
  *(ga_status *)out = open_comm(&comm);
  return NULL;
}

/* MPI that the program has begun, for its main thread, and with a message of its own under way. */
static ga_status run_in_foreign(const mpi_api *api) {
  ga_status elsewhere = GA_OK;
  pthread_t thread;
  mpi_handle request = NULL;
  int level = 0, rank = 0, own = 7, values[2] = {0}, done = 0;
  if (api->Init_thread(NULL, NULL, THREADS_FUNNELED, &level) || api->Comm_rank(api->world, &rank)) return GA_ERR_COMM;
  if (pthread_create(&thread, NULL, open_elsewhere, &elsewhere)) return GA_ERR_DEVICE;
  (void)pthread_join(thread, NULL);
  if (elsewhere != (level < MPI_THREADS_SERIAL ? GA_ERR_STATE : GA_OK)) return GA_ERR_INTERNAL;
  ga_comm *comm = NULL;
  const ga_status status = open_comm(&comm);
  if (status != GA_OK) return status;
  if (rank == 0) (void)api->Isend(&own, sizeof own, api->byte, 1, TAG_OF_LIBRARY, api->world, &request);
  const int mine = 100 + rank;
  ga_status gathered = ga_comm_meet(comm, "after the message", 0);
  if (gathered == GA_OK) gathered = ga_comm_all_gather(comm, &mine, sizeof mine, values);
  ga_comm_destroy(comm);
  if (gathered != GA_OK) return gathered;
  own = 0;
  if (rank == 1 && api->Recv(&own, sizeof own, api->byte, 0, TAG_OF_LIBRARY, api->world, &(mpi_status){0}))
    return GA_ERR_COMM;
  while (rank == 0 && !done) (void)api->Test(&request, &done, &(mpi_status){0});
  if (rank == 1 && own != 7) return GA_ERR_INTERNAL;
  return values[0] == 100 && values[1] == 101 && api->Finalize() == 0 ? GA_OK : GA_ERR_INTERNAL;
}

static void print_library_text(void *user, ga_log_level level, const char *text) {
  (void)user, (void)level;
  (void)fprintf(stderr, "%s\n", text);
}

int main(int argc, char **argv) {
  ga_log_set(print_library_text, NULL, GA_LOG_ERROR);
  const char *what = argc == 2 ? argv[1] : "";
  const mpi_api *api;
  ga_comm *comm = NULL;
  ga_status status = mpi_api_load(&api);
  const bool is_foreign = !strcmp(what, "foreign");
  if (status == GA_OK) status = is_foreign ? run_in_foreign(api) : open_comm(&comm);
  const int32_t rank = ga_comm_rank(comm);
  if (status == GA_OK && !strcmp(what, "lengths")) status = gather_lengths(comm);
  if (status == GA_OK && !is_foreign && strcmp(what, "lengths") != 0)
    status = gather_alone(comm, !strcmp(what, "silent"));
  printf("rank %d: status %d: %s\n", rank, (int)status, status == GA_OK ? "" : ga_error_text());
  (void)fflush(stdout);
  rest(status == GA_OK ? 0 : 2); /* mpirun ends the others as soon as one has failed; they speak first */
  ga_comm_destroy(comm);
  return status == GA_OK ? 0 : 1;
}
