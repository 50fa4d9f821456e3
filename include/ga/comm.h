/* GA, communicators: a number of ranks that exchange messages. Threads, processes of a host, or MPI ranks.
 *
 * A ga_comm is one rank's end. It is used by one thread at a time; each rank has a thread or process of its own.
 * A wait that takes longer than the timeout, a rank that is gone and ga_comm_abort end the communicator for all ranks:
 * every call then gives GA_ERR_COMM or GA_ERR_TIMEOUT with one text that says what happened first.
 */
#ifndef GA_COMM_H
#define GA_COMM_H

#include "ga/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ga_comm ga_comm;

typedef enum ga_comm_flags {
  GA_COMM_BUFFERED = 1 /* a send is done when it is posted; else when its receiver has taken the message */
} ga_comm_flags;

/* Abilities of a communicator's ranks besides messages: ga_comm_reach. */
typedef enum ga_comm_reaches {
  GA_COMM_SAME_MEMORY = 1 /* ranks are threads of one process and read each other's host memory */
} ga_comm_reaches;

typedef struct ga_comm_threads_options {
  size_t struct_size;
  int32_t ranks;  /* 1 to 4096 */
  uint32_t flags; /* ga_comm_flags */
  uint64_t seed;  /* 0 = messages arrive as soon as both sides are ready; else in a random order that follows from it */
  double timeout; /* seconds, 0.01 to 86400; 0 = 5 */
} ga_comm_threads_options;
#define GA_COMM_THREADS_OPTIONS_INIT \
  { sizeof(ga_comm_threads_options), 1, 0, 0, 0.0 }

/* Ranks as threads of this process: out[ranks]. */
GA_API GA_NODISCARD ga_status ga_comm_threads_create(const ga_comm_threads_options *options, ga_comm **out);
typedef struct ga_comm_process_options {
  size_t struct_size;
  int32_t rank, ranks;  /* of this process; 1 to 256 */
  const char *run;      /* a name that the processes of this run have, and those of no other run of this user */
  uint32_t flags;       /* ga_comm_flags */
  int32_t reserved;     /* 0 */
  double timeout;       /* seconds, 0.01 to 86400; 0 = 5 */
  double start_timeout; /* the same, until all ranks have come; 0 = 30 */
  uint64_t
      message_bytes; /* of a rank's messages under way, 4096 to 2^40; 0 = 2^34. Addresses: memory as it is needed */
} ga_comm_process_options;
#define GA_COMM_PROCESS_OPTIONS_INIT \
  { sizeof(ga_comm_process_options), 0, 1, NULL, 0, 0, 0.0, 0.0, 0 }

/* Ranks as processes of one host and one user, through shared memory; each calls it. A watchdog ends the communicator
 * for all of them within 5 s when a rank has died or is stopped. Nothing in a file system is used. */
GA_API GA_NODISCARD ga_status ga_comm_processes_create(const ga_comm_process_options *options, ga_comm **out);

typedef struct ga_comm_mpi_options {
  size_t struct_size;
  uint32_t flags;   /* ga_comm_flags; without, a send is done when the receiver has begun to take it */
  int32_t reserved; /* 0 */
  double timeout;   /* seconds, 0.01 to 86400; 0 = 5 */
} ga_comm_mpi_options;
#define GA_COMM_MPI_OPTIONS_INIT \
  { sizeof(ga_comm_mpi_options), 0, 0, 0.0 }

/* Ranks of an MPI run, on any hosts: a copy of OpenMPI's MPI_COMM_WORLD, once in a process. libmpi is loaded at run
 * time: GA_ERR_UNSUPPORTED where it is missing. MPI is begun and ended here, unless the program has begun it; then this
 * must be its main thread, or its MPI take calls of any (GA_ERR_STATE). After a failure MPI is not ended, so that
 * mpirun ends the run. A rank that dies is found by mpirun. One that takes no part for the timeout, at least 5 s, while
 * messages to it are under way, or for 30 s at the end, is ended with all others by MPI_Abort. */
GA_API GA_NODISCARD ga_status ga_comm_mpi_create(const ga_comm_mpi_options *options, ga_comm **out);

/* Which rank this process is, by the variables of the program that started it. */
typedef struct ga_comm_place {
  size_t struct_size;
  int32_t rank, ranks; /* 0, 1 without such variables */
  int32_t host_ranks;  /* ranks on this host; 0 = not known */
  int32_t reserved;
  char launcher[16]; /* "ga", "torchrun", "mpirun", "srun"; "" = none */
  char run[128];     /* for ga_comm_process_options; a hash of it if longer; "" when the launcher names none */
} ga_comm_place;
#define GA_COMM_PLACE_INIT \
  { sizeof(ga_comm_place), 0, 1, 0, 0, "", "" }
/* Reads GA_RANK and GA_RANKS (ga dist run), RANK and WORLD_SIZE (torchrun), OMPI_COMM_WORLD_RANK and _SIZE (mpirun),
 * SLURM_PROCID and SLURM_NTASKS (srun). GA_ERR_ARG when several launchers have set theirs, or one of a pair is missing;
 * GA_LAUNCHER=<name> says which counts. */
GA_API GA_NODISCARD ga_status ga_comm_place_find(ga_comm_place *place);

/* Each rank releases its own end. Ranks that still wait for it get GA_ERR_COMM. NULL is fine. */
GA_API void ga_comm_destroy(ga_comm *comm);
/* Rank and number of ranks; -1 and 0 for NULL. */
GA_API int32_t ga_comm_rank(const ga_comm *comm);
GA_API int32_t ga_comm_size(const ga_comm *comm);
/* ga_comm_reaches, equal on all ranks; 0 for NULL. */
GA_API uint32_t ga_comm_reach(const ga_comm *comm);
/* Ends the communicator for all ranks, with a text that they see. The first call counts. */
GA_API void ga_comm_abort(ga_comm *comm, const char *why);
/* Returns when all ranks have called it. value is compared: GA_ERR_COMM names the ranks whose values differ, and what
 * of them is compared. */
GA_API GA_NODISCARD ga_status ga_comm_meet(ga_comm *comm, const char *what, uint64_t value);

/* Collectives: all ranks call them with the same sizes. Sums are made in double, in the order of ranks, and rounded
 * once: all ranks get the same bits. */

/* all[ranks x bytes]: what each rank gave. It does not overlap mine, but may hold it in its place. */
GA_API GA_NODISCARD ga_status ga_comm_all_gather(ga_comm *comm, const void *mine, size_t bytes, void *all);
/* part: elements n rank / ranks to n (rank + 1) / ranks (rounded down) of the sum of all x. */
GA_API GA_NODISCARD ga_status ga_comm_reduce_scatter(ga_comm *comm, const float *x, int64_t n, float *part);
/* x becomes the sum. */
GA_API GA_NODISCARD ga_status ga_comm_all_reduce(ga_comm *comm, float *x, int64_t n);

#ifdef __cplusplus
}
#endif
#endif
