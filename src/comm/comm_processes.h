/* Ranks as processes of one host: the memory that they share, and the state of one rank. */
#ifndef GA_COMM_COMM_PROCESSES_H
#define GA_COMM_COMM_PROCESSES_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/comm.h"

/* --- Shared memory: head, ranks, links, then an arena for each rank. Offsets count from the start of the shared
 * memory; 0: none. --- */

typedef struct shared_rank {
  /* A futex, changed at each event that this rank may wait for. */
  _Alignas(64) _Atomic uint32_t bell;
  /* A counter that grows while the rank's watchdog runs. */
  _Atomic uint32_t beats;
  _Atomic uint32_t has_joined, has_left;
  _Atomic int32_t pid;
  /* Number of barriers that the rank has reached. */
  _Atomic uint64_t meetings;
  /* The rank's value in barrier n, at index n mod 2. Ranks are never more than one barrier apart. */
  _Atomic uint64_t values[2];
} shared_rank;

/* Messages from one rank to another, in the order of the sends: a linked list in the sender's arena. */
typedef struct shared_link {
  /* Offset of the first message. */
  _Atomic uint64_t first;
  /* Number of messages that the receiver has copied. */
  _Atomic uint64_t taken;
} shared_link;

typedef struct shared_message {
  _Alignas(64) _Atomic uint64_t next;
  /* Bytes of the data that follows this header. */
  uint64_t bytes;
} shared_message;

enum { MOST_PROCESSES = 256 };

enum { FAILED_NOT, FAILED_WRITING, FAILED_SAID };

typedef struct shared_head {
  /* State of the first failure: FAILED_NOT, FAILED_WRITING or FAILED_SAID (text and status are complete). */
  _Atomic uint32_t failed;
  int32_t status;
  char text[768];
} shared_head;

/* --- one rank --- */

/* A block of the rank's own arena: a message, or only its header. A header stays until the receiver has read the next
 * one. */
typedef struct arena_block {
  uint64_t offset, bytes, turn;
  int32_t to;
} arena_block;

typedef struct wanted_message {
  struct wanted_message *next;
  void *data;
  size_t bytes;
} wanted_message;

/* A rank's state of the messages with one other rank. */
typedef struct process_link {
  /* Numbers of sends begun (sent), of receives begun (wanted), and of messages copied (taken). */
  uint64_t sent, wanted, taken;
  /* Offset of the last message copied; 0: none. */
  uint64_t cursor;
  /* Offset of the last message sent; 0: none. */
  uint64_t tail;
  wanted_message *first, **last; /* Receives in flight, oldest first. */
} process_link;

typedef struct process_comm {
  ga_comm comm;
  uint32_t flags;
  double timeout;
  uint64_t run_id; /* Hash of the run's name. */
  /* Descriptor of the shared memory, opened by this process itself. Its lock shows that the process lives. */
  int fd;
  unsigned char *memory;
  uint64_t bytes, arena_bytes;
  shared_head *head;
  shared_rank *ranks;
  shared_link *shared; /* Links of all pairs of ranks, [from x ranks + to]. */
  /* Messages with each other rank, [ranks]. */
  process_link *links;
  /* Blocks of the rank's arena, sorted by offset. */
  arena_block *blocks;
  int64_t n_blocks, block_room;
  /* Bytes of the arena that the system has allocated. */
  uint64_t high;
  uint64_t meetings;
  bool has_cpus; /* True when the machine has at least one CPU for each rank. */
  pthread_t watchdog;
  bool is_watched;
  atomic_bool must_end;
} process_comm;

/* Opens the shared memory, and sets fd, memory and the pointers into it. Waits for all ranks. If one does not come,
 * each gets the same error. */
GA_NODISCARD ga_status comm_rendezvous(process_comm *c, const char *run, double seconds);
uint64_t comm_arena_begin(const process_comm *c, int32_t rank);

/* Records a failure for all ranks, unless there is one already. Wakes every rank that waits. */
void comm_fail_world(process_comm *c, ga_status status, const char *fmt, ...) GA_PRINTF(3, 4);
/* Returns the recorded failure, or GA_OK. */
GA_NODISCARD ga_status comm_world_status(process_comm *c);
void comm_ring(process_comm *c, int32_t rank);
/* Sleeps until the rank's own bell differs from `seen`, at most `seconds` seconds. */
void comm_sleep(process_comm *c, uint32_t seen, double seconds);

/* Starts a thread that ends the run for all ranks when a rank has died or hangs. */
GA_NODISCARD ga_status comm_watch(process_comm *c);
void comm_unwatch(process_comm *c);
/* Marks this rank as alive for as long as the process holds c->fd. */
GA_NODISCARD ga_status comm_mark_alive(process_comm *c);

#endif
