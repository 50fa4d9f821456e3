/* Ranks as processes of one host: the memory that they share, and one rank's end of it. */
#ifndef GA_COMM_COMM_PROCESSES_H
#define GA_COMM_COMM_PROCESSES_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/comm.h"

/* --- shared memory: head, ranks, links, then an arena for each rank; offsets count from its begin, 0 = none --- */

typedef struct shared_rank {
  _Alignas(64) _Atomic uint32_t bell; /* a futex: changed at each event that this rank may wait for */
  _Atomic uint32_t beats;             /* counts on while its watchdog runs */
  _Atomic uint32_t has_joined, has_left;
  _Atomic int32_t pid;
  _Atomic uint64_t meetings;  /* number of barriers that it has reached */
  _Atomic uint64_t values[2]; /* its value in barrier n, at n mod 2: ranks are never more than one barrier apart */
} shared_rank;

/* Messages from one rank to another, in the order in which they were sent: a list in the sender's arena. */
typedef struct shared_link {
  _Atomic uint64_t first; /* message */
  _Atomic uint64_t taken; /* how many the receiver has copied */
} shared_link;

typedef struct shared_message {
  _Alignas(64) _Atomic uint64_t next;
  uint64_t bytes; /* of what follows */
} shared_message;

enum { MOST_PROCESSES = 256 };

enum { FAILED_NOT, FAILED_WRITING, FAILED_SAID };

typedef struct shared_head {
  _Atomic uint32_t failed; /* how far the first failure has been written down */
  int32_t status;
  char text[768];
} shared_head;

/* --- one rank --- */

/* A block of the rank's own arena: a message, or its header, which stays until the receiver has read the next one. */
typedef struct arena_block {
  uint64_t offset, bytes, turn;
  int32_t to;
} arena_block;

typedef struct wanted_message {
  struct wanted_message *next;
  void *data;
  size_t bytes;
} wanted_message;

/* A rank's end of the messages with one other rank. */
typedef struct process_link {
  uint64_t sent, wanted, taken;  /* numbers of sends and receives begun so far, and of messages copied */
  uint64_t cursor;               /* last message copied, 0 = none */
  uint64_t tail;                 /* last message sent, 0 = none */
  wanted_message *first, **last; /* receives posted, oldest first */
} process_link;

typedef struct process_comm {
  ga_comm comm;
  uint32_t flags;
  double timeout;
  uint64_t run_id; /* hash of the run's name */
  int fd;          /* of the memory, opened by this process itself: its lock says that the process lives */
  unsigned char *memory;
  uint64_t bytes, arena_bytes;
  shared_head *head;
  shared_rank *ranks;
  shared_link *shared; /* [from x ranks + to] */
  process_link *links; /* [ranks] */
  arena_block *blocks; /* by offset */
  int64_t n_blocks, block_room;
  uint64_t high; /* bytes of the arena that the system has given */
  uint64_t meetings;
  bool has_cpus; /* the machine has at least one CPU for each rank */
  pthread_t watchdog;
  bool is_watched;
  atomic_bool must_end;
} process_comm;

/* Opens the shared memory, and sets fd, memory and the pointers into it. Waits for all ranks; if one does not come,
 * each gets the same error. */
GA_NODISCARD ga_status comm_rendezvous(process_comm *c, const char *run, double seconds);
uint64_t comm_arena_begin(const process_comm *c, int32_t rank);

/* Records a failure for all ranks, unless there is one already, and wakes every rank that waits. */
void comm_fail_world(process_comm *c, ga_status status, const char *fmt, ...) GA_PRINTF(3, 4);
/* Returns the recorded failure, or GA_OK. */
GA_NODISCARD ga_status comm_world_status(process_comm *c);
void comm_ring(process_comm *c, int32_t rank);
/* Sleeps until the rank's own bell differs from `seen`, at most `seconds`. */
void comm_sleep(process_comm *c, uint32_t seen, double seconds);

/* Starts a thread that ends the run for all ranks when one has died or hangs. */
GA_NODISCARD ga_status comm_watch(process_comm *c);
void comm_unwatch(process_comm *c);
/* Marks this rank as alive for as long as the process holds c->fd. */
GA_NODISCARD ga_status comm_mark_alive(process_comm *c);

#endif
