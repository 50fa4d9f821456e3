/* GA, communicators: groups of ranks that exchange messages. Ranks are threads, processes of a host, or MPI ranks.
 *
 * A ga_comm is one rank's end. It is used by one thread at a time; each rank has a thread or process of its own. A wait
 * that takes longer than the timeout, a rank that is gone and ga_comm_abort end the communicator for all ranks: every
 * later call returns GA_ERR_COMM or GA_ERR_TIMEOUT, with one text for all ranks that says what happened first.
 */
#ifndef GA_COMM_H
#define GA_COMM_H

#include "ga/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ga_comm ga_comm;

typedef enum ga_comm_flags {
  /* a send is complete when it is posted; without the flag, when its receiver has taken the message */
  GA_COMM_BUFFERED = 1
} ga_comm_flags;

/* Abilities of a communicator's ranks besides messages, as ga_comm_reach returns them. */
typedef enum ga_comm_reaches {
  GA_COMM_SAME_MEMORY = 1 /* ranks are threads of one process and read each other's host memory */
} ga_comm_reaches;

typedef struct ga_comm_threads_options {
  size_t struct_size;
  int32_t ranks;  /* number of ranks, 1 to 4096 */
  uint32_t flags; /* ga_comm_flags */
  /* 0 = messages arrive as soon as both sides are ready; else they arrive in a random order that the seed determines */
  uint64_t seed;
  double timeout; /* seconds that a call waits for other ranks, 0.01 to 86400; 0 = 5 */
} ga_comm_threads_options;
#define GA_COMM_THREADS_OPTIONS_INIT \
  { sizeof(ga_comm_threads_options), 1, 0, 0, 0.0 }

/* Creates a communicator whose ranks are threads of this process. out[ranks] gets one end for each thread. */
GA_API GA_NODISCARD ga_status ga_comm_threads_create(const ga_comm_threads_options *options, ga_comm **out);
typedef struct ga_comm_process_options {
  size_t struct_size;
  int32_t rank;  /* number of this process, from 0 to ranks - 1 */
  int32_t ranks; /* number of processes, 1 to 256 */
  /* name of the run: the same in all of its processes, and different from the names of this user's other runs */
  const char *run;
  uint32_t flags;       /* ga_comm_flags */
  int32_t reserved;     /* must be 0 */
  double timeout;       /* seconds that a call waits for other ranks, 0.01 to 86400; 0 = 5 */
  double start_timeout; /* seconds that the creation waits for all ranks, 0.01 to 86400; 0 = 30 */
  /* largest sum of bytes of one rank's messages in flight, 4096 to 2^40; 0 = 2^34. Only address space is reserved;
   * memory is allocated when it is used */
  uint64_t message_bytes;
} ga_comm_process_options;
#define GA_COMM_PROCESS_OPTIONS_INIT \
  { sizeof(ga_comm_process_options), 0, 1, NULL, 0, 0, 0.0, 0.0, 0 }

/* Creates this process's end of a communicator of processes of one host and one user, through shared memory. Each
 * process calls it. If a rank dies or is stopped, a watchdog ends the communicator for all ranks within 5 s. No file
 * is used. */
GA_API GA_NODISCARD ga_status ga_comm_processes_create(const ga_comm_process_options *options, ga_comm **out);

typedef struct ga_comm_mpi_options {
  size_t struct_size;
  /* ga_comm_flags. Without GA_COMM_BUFFERED, a send is complete when the receiver has begun to take the message */
  uint32_t flags;
  int32_t reserved; /* must be 0 */
  double timeout;   /* seconds that a call waits for other ranks, 0.01 to 86400; 0 = 5 */
} ga_comm_mpi_options;
#define GA_COMM_MPI_OPTIONS_INIT \
  { sizeof(ga_comm_mpi_options), 0, 0, 0.0 }

/* Creates this process's end of a communicator of the ranks of an MPI run, on any hosts. The communicator uses a
 * duplicate of OpenMPI's MPI_COMM_WORLD. A process can call this function once (else GA_ERR_STATE). libmpi is loaded at
 * run time; GA_ERR_UNSUPPORTED: libmpi is missing. The call starts MPI and ga_comm_destroy ends MPI, unless the program
 * has already started MPI. In that case the caller must be the program's main thread, or MPI must run at level
 * MPI_THREAD_SERIALIZED or above (GA_ERR_STATE). After a failure MPI is not ended, so that mpirun ends the run. mpirun
 * finds a rank that dies. After a failure a rank waits for its messages in flight, for the timeout but at least 5 s.
 * ga_comm_destroy waits for all ranks, for the timeout but at least 30 s. If such a wait fails, MPI_Abort ends all
 * ranks. */
GA_API GA_NODISCARD ga_status ga_comm_mpi_create(const ga_comm_mpi_options *options, ga_comm **out);

/* The rank of this process, read from the environment variables of the program that started it. */
typedef struct ga_comm_place {
  size_t struct_size;
  int32_t rank, ranks; /* rank and number of ranks; 0 and 1 if there are no such variables */
  int32_t host_ranks;  /* number of ranks on this host; 0 = not known */
  int32_t reserved;
  char launcher[16]; /* program that started the ranks: "ga", "torchrun", "mpirun", "srun"; "" = none */
  /* name of the run for ga_comm_process_options, or a hash of a longer name; "" if the launcher gives no name */
  char run[128];
} ga_comm_place;
#define GA_COMM_PLACE_INIT \
  { sizeof(ga_comm_place), 0, 1, 0, 0, "", "" }
/* Reads GA_RANK and GA_RANKS (ga dist run), RANK and WORLD_SIZE (torchrun), OMPI_COMM_WORLD_RANK and _SIZE (mpirun),
 * SLURM_PROCID and SLURM_NTASKS (srun). GA_ERR_ARG: variables of several launchers are set, or one of a pair is
 * missing. GA_LAUNCHER=<name> selects one launcher. */
GA_API GA_NODISCARD ga_status ga_comm_place_find(ga_comm_place *place);

/* Releases this rank's end; each rank calls it. Ranks that still wait for this rank get GA_ERR_COMM. NULL is fine. */
GA_API void ga_comm_destroy(ga_comm *comm);
/* Returns this end's rank; -1 for NULL. */
GA_API int32_t ga_comm_rank(const ga_comm *comm);
/* Returns the number of ranks; 0 for NULL. */
GA_API int32_t ga_comm_size(const ga_comm *comm);
/* Returns the ga_comm_reaches of the communicator as a bit mask, equal on all ranks; 0 for NULL. */
GA_API uint32_t ga_comm_reach(const ga_comm *comm);
/* Ends the communicator for all ranks. Their calls fail with the text `why` of the first ga_comm_abort. */
GA_API void ga_comm_abort(ga_comm *comm, const char *why);
/* Waits until all ranks have called this function, and compares their values. GA_ERR_COMM names the ranks whose values
 * differ, and `what`, the name of the value. */
GA_API GA_NODISCARD ga_status ga_comm_meet(ga_comm *comm, const char *what, uint64_t value);

/* Collectives: all ranks call them with the same sizes. Sums are made in double, in the order of ranks, and rounded
 * once: all ranks get the same bits. */

/* Gathers the `bytes` bytes at `mine` of each rank into all[ranks x bytes], in the order of ranks. `mine` must not
 * overlap `all`, unless it is the rank's own place in `all`. */
GA_API GA_NODISCARD ga_status ga_comm_all_gather(ga_comm *comm, const void *mine, size_t bytes, void *all);
/* Adds all ranks' x[n] and writes this rank's part of the sum. The part is elements [n rank / ranks, n (rank + 1) /
 * ranks), both bounds rounded down. */
GA_API GA_NODISCARD ga_status ga_comm_reduce_scatter(ga_comm *comm, const float *x, int64_t n, float *part);
/* Replaces x[n] by the sum of all ranks' x. */
GA_API GA_NODISCARD ga_status ga_comm_all_reduce(ga_comm *comm, float *x, int64_t n);

#ifdef __cplusplus
}
#endif
#endif
