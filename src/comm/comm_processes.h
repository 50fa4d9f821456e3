/* Ranks that are processes of one host: the memory that they share, and the state of one rank. */
#ifndef GA_COMM_COMM_PROCESSES_H
#define GA_COMM_COMM_PROCESSES_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/comm.h"

/* --- Shared memory: a head, ranks, links, and for each rank an arena (memory for its messages). Offsets count from its
 * start; 0: none. --- */

typedef struct shared_rank {
  /* A futex on which the rank sleeps. It is changed at each event that the rank may wait for. */
  _Alignas(64) _Atomic uint32_t bell;
  /* A counter that grows as long as the rank's watchdog thread runs. */
  _Atomic uint32_t beats;
  _Atomic uint32_t has_joined, has_left;
  _Atomic int32_t pid;
  /* Number of barriers that the rank has reached. */
  _Atomic uint64_t meetings;
  /* The value that the rank compares in barrier number n (ga_comm_meet), at index n mod 2. Ranks are never more than
   * one barrier apart. */
  _Atomic uint64_t values[2];
} shared_rank;

/* Messages from one rank to another, in the order of the sends: a linked list in the sender's arena. */
typedef struct shared_link {
  /* Offset of the first message in the shared memory. */
  _Atomic uint64_t first;
  /* Number of messages that the receiver has copied out. */
  _Atomic uint64_t taken;
} shared_link;

typedef struct shared_message {
  _Alignas(64) _Atomic uint64_t next;
  /* Bytes of the data that follows this struct. */
  uint64_t bytes;
} shared_message;

enum { MOST_PROCESSES = 256 };

enum { FAILED_NOT, FAILED_WRITING, FAILED_SAID };

typedef struct shared_head {
  /* State of the first failure: FAILED_NOT (none), FAILED_WRITING, or FAILED_SAID (text and status are complete). */
  _Atomic uint32_t failed;
  int32_t status;
  char text[768];
} shared_head;

/* --- one rank --- */

/* A used block of the rank's own arena: message number `turn` to rank `to`. Of a received message only the header
 * (shared_message) is left, until the next one is received. */
typedef struct arena_block {
  uint64_t offset, bytes, turn;
  int32_t to;
} arena_block;

/* A receive that has begun: `data` is the memory for the message. */
typedef struct wanted_message {
  struct wanted_message *next;
  void *data;
  size_t bytes;
} wanted_message;

/* One rank's state of its messages with one other rank. */
typedef struct process_link {
  /* Numbers of sends begun (sent), of receives begun (wanted), and of received messages that have been copied
   * (taken). */
  uint64_t sent, wanted, taken;
  /* Offset of the received message that was copied last; 0: none. */
  uint64_t cursor;
  /* Offset of the message that was sent last; 0: none. */
  uint64_t tail;
  /* List of the receives that have begun and not ended, oldest first; *last is its end, NULL. */
  wanted_message *first, **last;
} process_link;

typedef struct process_comm {
  ga_comm comm;
  uint32_t flags;
  double timeout;
  uint64_t run_id; /* Hash of the name of the run (the group of processes). */
  /* Descriptor of the shared memory, opened by this process itself. A lock on it shows that the process lives. */
  int fd;
  unsigned char *memory;
  uint64_t bytes, arena_bytes;
  shared_head *head;
  shared_rank *ranks;
  shared_link *shared; /* Links of all pairs of ranks. The link between two ranks has index from x ranks + to. */
  /* State of the messages with each other rank, [ranks]. */
  process_link *links;
  /* Blocks of the rank's arena, sorted by offset. */
  arena_block *blocks;
  int64_t n_blocks, block_room;
  /* Number of bytes of the rank's arena, from its start, for which the system has allocated memory. */
  uint64_t high;
  uint64_t meetings;
  bool has_cpus; /* True when the machine has at least one CPU for each rank. */
  pthread_t watchdog;
  bool is_watched;
  atomic_bool must_end;
} process_comm;

/* Opens the shared memory and sets fd, memory and the pointers into it. Waits up to `seconds` seconds for all ranks. If
 * a rank does not come, all ranks get the same error. */
GA_NODISCARD ga_status comm_rendezvous(process_comm *c, const char *run, double seconds);
uint64_t comm_arena_begin(const process_comm *c, int32_t rank);

/* Records a failure that all ranks see, unless one is recorded already. Wakes every rank that waits. */
void comm_fail_world(process_comm *c, ga_status status, const char *fmt, ...) GA_PRINTF(3, 4);
/* Returns the failure that some rank has recorded, or GA_OK. */
GA_NODISCARD ga_status comm_world_status(process_comm *c);
void comm_ring(process_comm *c, int32_t rank);
/* Sleeps until the futex `bell` of this rank differs from `seen`, at most `seconds` seconds. */
void comm_sleep(process_comm *c, uint32_t seen, double seconds);

/* Starts the watchdog: a thread that ends the run for all ranks when a rank has died or hangs. */
GA_NODISCARD ga_status comm_watch(process_comm *c);
void comm_unwatch(process_comm *c);
/* Takes a lock that shows other ranks that this process lives. The lock ends with the process, or when c->fd is
 * closed. */
GA_NODISCARD ga_status comm_mark_alive(process_comm *c);

#endif
