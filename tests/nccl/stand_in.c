/* A stand-in for NCCL: the functions that GA calls, over memory that the host can read, between threads and processes
 * of one host. A stream's work must have been done when it is enqueued, as the emulator does where no stream waits.
 *
 * Messages of a group begin when it ends, and those of one pair of ranks go in their order. As with NCCL's own
 * communicators that do not block, a group that is not done is "in progress" until somebody asks often enough.
 *
 * GA_STAND_IN="version=2804": what it says its version is. */
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, IN_PROGRESS = 7 };
enum { MOST_RANKS = 8, MOST_OPS = 256, BOX = 4000, ID = 128 };

/* Tells the emulated driver (tests/emu/emu_driver.h) that a message has been written to [p, p + bytes), so that kernels
 * may read it. NULL in programs without the emulator. */
extern void emu_mark_received(void *p, size_t bytes) __attribute__((weak));

/* From one rank to another. Bytes are in the box while filled is one ahead of emptied. */
typedef struct box {
  _Alignas(64) _Atomic uint64_t filled;
  _Alignas(64) _Atomic uint64_t emptied;
  uint64_t total, bytes; /* of the message; in the box */
  unsigned char data[BOX];
} box;

typedef struct world {
  _Atomic uint32_t joined;
  box boxes[MOST_RANKS][MOST_RANKS]; /* [from][to] */
} world;

typedef struct op {
  unsigned char *data;
  size_t n, done;
  int peer;
  bool is_send, has_begun, is_over;
} op;

typedef struct ncclComm {
  world *w;
  int rank, ranks, state;
  char name[ID];
  op ops[MOST_OPS];
  int n_ops;
} comm;

typedef struct id {
  char bytes[ID];
} id;

typedef struct config {
  size_t size;
  unsigned magic, version;
  int blocking;
} config;

static _Thread_local int depth; /* of groups */
static _Thread_local comm *grouped;
static _Thread_local char last_error[256];

static int say_error(int rc, const char *text) {
  (void)snprintf(last_error, sizeof last_error, "%s", text);
  return rc;
}

EXPORT int ncclGetVersion(int *version);
int ncclGetVersion(int *version) {
  const char *e = getenv("GA_STAND_IN"), *p = e ? strstr(e, "version=") : NULL;
  *version = p ? atoi(p + 8) : 22803;
  return SUCCESS;
}

EXPORT const char *ncclGetErrorString(int rc);
const char *ncclGetErrorString(int rc) { return rc == INVALID_USAGE ? "invalid usage" : "an error"; }

EXPORT const char *ncclGetLastError(const comm *c);
const char *ncclGetLastError(const comm *c) {
  (void)c;
  return last_error;
}

EXPORT int ncclGetUniqueId(id *out);
int ncclGetUniqueId(id *out) {
  struct timespec t;
  static _Atomic unsigned n;
  memset(out, 0, sizeof *out);
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  (void)snprintf(out->bytes, sizeof out->bytes, "/ga-stand-in-%d-%ld-%u", (int)getpid(), t.tv_nsec,
                 atomic_fetch_add(&n, 1));
  const int fd = shm_open(out->bytes, O_CREAT | O_EXCL | O_RDWR, 0600);
  const bool good = fd >= 0 && ftruncate(fd, sizeof(world)) == 0;
  if (fd >= 0) (void)close(fd);
  return good ? SUCCESS : say_error(SYSTEM_ERROR, "no shared memory");
}

/* Nobody else needs the name once all have come. */
static int join_world(comm *c) {
  const uint32_t joined = atomic_load(&c->w->joined);
  if (joined == (uint32_t)c->ranks && c->rank == 0) (void)shm_unlink(c->name);
  return joined == (uint32_t)c->ranks ? SUCCESS : IN_PROGRESS;
}

/* A rank that is refused joins no world: the name goes here. */
static int refuse_rank(const id *unique, int rc, const char *text) {
  (void)shm_unlink(unique->bytes);
  return say_error(rc, text);
}

EXPORT int ncclCommInitRankConfig(comm **out, int ranks, id unique, int rank, const config *how);
int ncclCommInitRankConfig(comm **out, int ranks, id unique, int rank, const config *how) {
  const char *nvls = getenv("NCCL_NVLS_ENABLE");
  *out = NULL;
  if (how->magic != 0xcafebeef || how->version != 21700 || how->size != 40 || how->blocking)
    return refuse_rank(&unique, INVALID_ARGUMENT, "the configuration is not of 2.17, or blocks");
  if (!nvls || strcmp(nvls, "0") != 0) return refuse_rank(&unique, INVALID_USAGE, "NCCL_NVLS_ENABLE is not 0");
  if (ranks > MOST_RANKS || rank < 0 || rank >= ranks) return refuse_rank(&unique, INVALID_ARGUMENT, "ranks");
  const int fd = shm_open(unique.bytes, O_RDWR, 0600);
  if (fd < 0) return say_error(INVALID_ARGUMENT, "no such id");
  void *p = mmap(NULL, sizeof(world), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  (void)close(fd);
  comm *c = calloc(1, sizeof *c);
  if (p == MAP_FAILED || !c) return say_error(SYSTEM_ERROR, "no memory");
  c->w = p, c->rank = rank, c->ranks = ranks;
  memcpy(c->name, unique.bytes, sizeof c->name);
  (void)atomic_fetch_add(&c->w->joined, 1);
  *out = c;
  return c->state = join_world(c);
}

/* --- messages --- */

static bool fill_box(op *o, box *b) {
  if (atomic_load(&b->filled) != atomic_load(&b->emptied)) return false;
  b->total = o->n;
  b->bytes = o->n - o->done < BOX ? o->n - o->done : BOX;
  memcpy(b->data, o->data + o->done, b->bytes);
  o->done += b->bytes;
  (void)atomic_fetch_add(&b->filled, 1);
  return true;
}

static bool empty_box(comm *c, op *o, box *b) {
  if (atomic_load(&b->filled) == atomic_load(&b->emptied)) return false;
  if (b->total != o->n || b->bytes > o->n - o->done) {
    c->state = say_error(INVALID_USAGE, "a message has another size than its receiver wants");
    return false;
  }
  memcpy(o->data + o->done, b->data, b->bytes);
  if (emu_mark_received) emu_mark_received(o->data + o->done, b->bytes);
  o->done += b->bytes;
  (void)atomic_fetch_add(&b->emptied, 1);
  return true;
}

/* One look at the first message of each pair and direction. */
static void move_ops(comm *c) {
  bool seen[2][MOST_RANKS] = {{false}};
  int left = 0;
  for (int i = 0; i < c->n_ops && c->state == IN_PROGRESS; i++) {
    op *o = &c->ops[i];
    if (o->is_over || seen[o->is_send][o->peer]) {
      left += !o->is_over;
      continue;
    }
    seen[o->is_send][o->peer] = true;
    while (o->done < o->n &&
           (o->is_send ? fill_box(o, &c->w->boxes[c->rank][o->peer]) : empty_box(c, o, &c->w->boxes[o->peer][c->rank])))
      continue;
    const box *b = &c->w->boxes[c->rank][o->peer]; /* a send is over when its receiver has taken all of it */
    o->is_over = o->done == o->n && (!o->is_send || atomic_load(&b->filled) == atomic_load(&b->emptied));
    left += !o->is_over;
  }
  if (!left && c->state == IN_PROGRESS) c->state = SUCCESS, c->n_ops = 0;
}

EXPORT int ncclCommGetAsyncError(comm *c, int *state);
int ncclCommGetAsyncError(comm *c, int *state) {
  if (c->state == IN_PROGRESS) {
    if (c->n_ops)
      move_ops(c);
    else
      c->state = join_world(c);
  }
  *state = c->state;
  return SUCCESS;
}

EXPORT int ncclGroupStart(void);
int ncclGroupStart(void) {
  depth++;
  grouped = NULL;
  return SUCCESS;
}

static int add_op(comm *c, unsigned char *data, size_t n, int type, int peer, bool is_send) {
  if (!depth || type != 0 || peer < 0 || peer >= c->ranks || peer == c->rank || c->n_ops == MOST_OPS)
    return say_error(INVALID_USAGE, "a message outside of a group, or to nobody");
  if (c->state != SUCCESS) return say_error(INVALID_USAGE, "a group while another is in progress");
  c->ops[c->n_ops++] = (op){.data = data, .n = n, .peer = peer, .is_send = is_send};
  grouped = c;
  return SUCCESS;
}

EXPORT int ncclRecv(void *data, size_t n, int type, int peer, comm *c, void *stream);
int ncclRecv(void *data, size_t n, int type, int peer, comm *c, void *stream) {
  (void)stream;
  return add_op(c, data, n, type, peer, false);
}

#ifndef GA_STAND_IN_WITHOUT_SEND
EXPORT int ncclSend(const void *data, size_t n, int type, int peer, comm *c, void *stream);
int ncclSend(const void *data, size_t n, int type, int peer, comm *c, void *stream) {
  unsigned char *p;
  (void)stream;
  memcpy(&p, &data, sizeof p);
  return add_op(c, p, n, type, peer, true);
}
#endif

EXPORT int ncclGroupEnd(void);
int ncclGroupEnd(void) {
  depth--;
  if (!grouped || !grouped->n_ops) return SUCCESS;
  grouped->state = IN_PROGRESS;
  move_ops(grouped);
  return grouped->state;
}

/* --- ends --- */

static void free_comm(comm *c) {
  (void)munmap(c->w, sizeof *c->w);
  free(c);
}

EXPORT int ncclCommFinalize(comm *c);
int ncclCommFinalize(comm *c) { return c->state; }

EXPORT int ncclCommDestroy(comm *c);
int ncclCommDestroy(comm *c) {
  free_comm(c);
  return SUCCESS;
}

EXPORT int ncclCommAbort(comm *c);
int ncclCommAbort(comm *c) {
  (void)shm_unlink(c->name);
  free_comm(c);
  return SUCCESS;
}
