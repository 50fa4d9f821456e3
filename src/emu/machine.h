/* Internals of the emulator: a set of blocks that run at the same time (a cluster, or one block), and their threads. */
#ifndef GA_EMU_MACHINE_H
#define GA_EMU_MACHINE_H

#include "core/emu_calls.h"
#include "emu/clock.h"
#include "emu/emu.h"

enum {
  EMU_LANES = 32,
  EMU_MAX_THREADS = 1024, /* largest number of threads of a block */
  EMU_MAX_CLUSTER = 16,   /* largest number of blocks of a cluster; all devices with clusters allow 8 */
  EMU_SMEM_BASE = 1024,   /* bytes at the start of the shared-memory window that belong to the system */
  EMU_SMEM_MAX = 232448,  /* bytes of dynamic shared memory of a block of sm_90 */
  EMU_NAMED = 16,         /* number of named barriers of a block */
  EMU_COPIES = 64,        /* number of agents (clock.h) of the copy engine, which are used in rotation */
  EMU_STACK = 17 * 4096,  /* bytes of the stack of a thread */
  EMU_MAX_LIVE = 64,      /* largest number of register ranges in flight of a thread */
  EMU_MAX_GROUPS = 64     /* largest number of uncompleted wgmma groups of a thread */
};

typedef struct emu_site {
  const char *file; /* Source file. NULL: `line` is a program counter. */
  intptr_t line;
} emu_site;

typedef enum emu_state {
  EMU_READY,
  EMU_AT_WARP,
  EMU_AT_MBAR,
  EMU_AT_NAMED,
  EMU_AT_CLUSTER,
  EMU_AT_WGMMA,
  EMU_AT_BULK,
  EMU_AT_REGISTERS,
  EMU_DONE
} emu_state;

/* Marks of a thread, which are steps of its clock. EMU_FENCED_SHARED and EMU_FENCED_GLOBAL: its last fence.proxy.async
 * of shared and of global memory. EMU_LOADED: all loads up to this step have returned. */
enum { EMU_FENCED_SHARED, EMU_FENCED_GLOBAL, EMU_LOADED, EMU_MARKS };

typedef struct emu_block emu_block;
typedef struct emu_warp emu_warp;
typedef struct emu_group emu_group;
typedef struct emu_acc emu_acc;
typedef struct emu_mbar emu_mbar;
typedef struct emu_cp emu_cp;

/* Registers that a wgmma product in flight reads or writes. In the emulator they are variables, at addresses [lo,
 * hi). */
typedef struct emu_live {
  char *lo, *hi;
  /* Number of the last product that uses the registers. */
  uint32_t last_op;
  emu_acc *acc; /* Accumulators of the product. NULL: the registers are operand A. */
} emu_live;

typedef struct emu_thread {
  void *sp;
  char *stack; /* Lowest address of the thread's stack. */
  emu_block *block;
  emu_warp *warp;
  emu_group *group; /* Warpgroup of the thread. */
  int tid, lane;
  uint16_t agent;
  emu_state state;
  emu_site at;      /* Place in the source of the instruction that the thread began last. */
  const char *what; /* Name of the instruction that the thread began last. */
  /* --- clocks (clock.h) --- */
  /* Current step of the thread. */
  uint32_t own;
  uint32_t mark[EMU_MARKS]; /* Steps of the marks EMU_FENCED_SHARED, EMU_FENCED_GLOBAL and EMU_LOADED. */
  emu_clocks *seen;
  /* --- the barrier or list where the thread waits --- */
  emu_mbar *bar;
  uint32_t parity;
  int named, spins;
  struct emu_thread *next; /* Next thread in the emu_list where this thread waits. */
  /* --- values exchanged in warp operations --- */
  uint32_t in[6], out[4];
  void *p;
  /* --- products by wgmma --- */
  uint32_t issued, commits;
  uint32_t group_end[EMU_MAX_GROUPS];
  int n_groups;
  emu_live live[EMU_MAX_LIVE];
  int n_live;
  /* Lowest and highest address of all ranges in `live`. */
  char *live_lo, *live_hi;
  /* A bit for each word of the stack, set if the word was written since the last wgmma.fence. Bits are recorded from
   * the first fence on. */
  uint64_t dirty[EMU_STACK / 4 / 64];
  bool ever_fenced;
  /* --- bulk stores --- */
  /* Numbers of bulk stores: not committed (bulk_open), with reads left to do (bulk_reads), with writes left to do
   * (bulk_writes). */
  int bulk_open, bulk_reads, bulk_writes;
  /* --- copies by cp.async --- */
  emu_cp *cp; /* Copies in flight, in order of issue. */
  int n_cp, cp_capacity;
  uint32_t cp_first; /* Number of the first copy in flight. */
  /* Numbers of the copies at which groups end, for groups that have not been waited for. */
  uint32_t cp_group[EMU_MAX_GROUPS];
  int n_cp_groups;
  /* --- tensor maps edited by kernels --- */
  const void *map_acquired; /* Tensor map that the thread has acquired last. */
  uint32_t map_number;      /* Number of edits of tensor maps when the thread acquired map_acquired. */
  /* --- cluster barrier --- */
  bool cluster_arrived;
  uint32_t cluster_round;
  /* --- other state --- */
  int registers;
  /* Number of setmaxnreg instructions executed. */
  uint32_t resized;
  emu_clocks *at_fence; /* Clocks at the thread's last fence_device. */
} emu_thread;

struct emu_warp {
  emu_block *block;
  /* Bits of the lanes that have arrived at the current warp operation. */
  uint32_t here;
  const char *op; /* Name of the current warp operation. */
  emu_site at;
  emu_thread *lane; /* The warp's 32 threads. */
};

typedef struct emu_list {
  emu_thread *first;
} emu_list;

struct emu_mbar {
  uint32_t addr, count, pending, phase;
  int64_t tx;
  emu_gather gather;
  /* Clocks that the last completed phase released. */
  emu_clocks *out;
  emu_list waiters;
  uint16_t init_agent;
  uint32_t init_clock;
  bool init_fenced;
  emu_site init_at;
};

typedef struct emu_named {
  int n, count; /* Number of threads that the barrier waits for (n), and that have arrived (count). */
  uint32_t lanes[EMU_MAX_THREADS / EMU_LANES];
  emu_gather gather;
  emu_clocks *out;
  emu_list waiters;
  emu_site at;
} emu_named;

/* One product (wgmma instruction) of a warpgroup. a and b are descriptors of its operands; with a_regs, A is in `regs`,
 * the registers of 128 threads. */
typedef struct emu_op {
  int type, n, trans_a, trans_b, accumulate;
  bool a_regs, done;
  uint64_t a, b;
  int seen; /* Number of threads that have issued the product. */
  emu_acc *acc;
  emu_gather gather;
  /* Clocks of the product, once it is done. */
  emu_clocks *clocks;
  emu_site at;
  uint32_t regs[128][4];
} emu_op;

struct emu_group {
  emu_block *block;
  /* First of the warpgroup's 128 threads. */
  emu_thread *first;
  uint16_t agent;
  uint32_t clock;
  /* Ring buffer of products. */
  emu_op *ops;
  uint32_t n_ops, n_done, oldest;
  emu_list waiters;
  emu_gather release; /* Joined clocks of the 128 threads when they issued the current product. */
};

struct emu_block {
  /* Index of the block in the grid (index), and in the cluster (rank). */
  int index, rank;
  emu_thread *threads;
  emu_warp *warps;
  emu_group *groups;
  int n_threads, n_warps, n_groups, n_done;
  uint8_t *smem; /* Memory of the block's window of shared addresses, from address 0. */
  uint32_t smem_end;
  struct emu_cell *cells;
  emu_mbar *bars;
  uint16_t *bar_at; /* Index + 1 into bars, at [address / 8]. 0: there is no mbarrier. */
  int n_bars;
  emu_named named[EMU_NAMED];
  int free_registers;
  emu_list register_waiters;
  uint16_t agent0; /* Agent of thread 0. */
  struct emu_remote
      /* for each agent, the last access of a thread of the cluster to this block's shared memory; NULL: none */
      *remote;
  emu_gather at_end; /* Joined clocks of the block's threads when they ended. */
};

typedef struct emu_run {
  const emu_launch *launch;
  /* n_agents is the number of agents (clock.h). In a clock set, mark i of a thread is entry mark0[i] + the thread's
   * agent. */
  uint32_t n_agents, mark0[EMU_MARKS];
  /* copy0 is the first agent of the copy engine. prior is the agent that stands for the previous grid. */
  uint16_t copy0, prior;
  emu_block *blocks;
  int n_blocks;
  emu_thread **ready;
  int n_ready, n_live;
  /* Number of consecutive slices that ended in a failed try_wait. A slice is the execution of a thread until it is
   * suspended. */
  int idle;
  bool slice_spun;     /* True: the current slice has ended in a failed try_wait. */
  bool looks_at_peers; /* True: some thread has looked in vain for data that another process writes. */
  /* Pending work: steps of the copy engine (n_bulk), and mbarrier arrivals that wait for cp.async copies (n_cp). */
  size_t n_bulk, n_cp;
  emu_named cluster;
  uint32_t cluster_round;
  uint64_t rng;
  /* A run is the execution of a cluster, or of one block. era is the number of the current run, launch_era the number
   * of the launch's first run. */
  uint32_t era, launch_era;
  uint32_t prior_era; /* Number of the first run of the launch that this launch depends on. 0: none. */
  bool abort;
  void *main_sp;
  uint32_t copy_clock[EMU_COPIES];
  int next_copy;
} emu_run;

extern emu_run emu_now;
extern emu_thread *emu_me; /* thread that is running; NULL in the scheduler */
extern emu_options emu_opt;

/* --- functions of sched.c --- */
uint32_t emu_random(uint32_t n);
void emu_block_here(emu_state state); /* suspends the thread in this state until it is woken */
void emu_yield(void);                 /* suspends the thread, which stays ready to run */
void emu_maybe_yield(void);           /* yields at random, so that schedules differ */
void emu_wait_in(emu_list *list, emu_state state);
void emu_wake(emu_thread *t);
void emu_wake_all(emu_list *list);
_Noreturn void emu_stop(void); /* ends the thread, because the run cannot continue */
/* runs threads one after the other, until the scheduler chooses other work than a thread */
void emu_run_slices(void);
/* Saves the running thread's context in *sp and switches to another thread, or to the scheduler. */
void emu_give_way(void **sp);
static inline bool emu_is_stuck(void) { return !emu_now.n_ready || emu_now.idle > 2 * emu_now.n_ready; }
static inline bool emu_is_dead(void) { return !emu_now.n_ready || emu_now.idle > 64 * (emu_now.n_ready + 1); }
static inline emu_thread *emu_begin(const char *what, const char *file, int line) {
  emu_me->what = what;
  emu_me->at.file = file;
  emu_me->at.line = line;
  return emu_me;
}

/* --- functions of cluster.c --- */
void emu_remote_access(emu_block *b, emu_thread *t); /* records an access of t to the shared memory of b */
void emu_remote_exit(emu_block *b);                  /* handles the end of all threads of b */

/* --- functions of tensor_edit.c --- */
void emu_tmap_use(const void *map, const emu_thread *t);
void emu_tmap_forget(void);

/* --- functions of report.c --- */
void emu_report(emu_rule rule, emu_site at, const char *format, ...) __attribute__((format(printf, 3, 4)));
void emu_report_more(const char *format, ...)
    __attribute__((format(printf, 1, 2))); /* adds a line to the last report, unless that report was a repeat */
const char *emu_site_text(emu_site at);    /* returns "file:line"; two results may be in use at a time */
const char *emu_agent_text(uint16_t agent);
uint16_t emu_site_id(emu_site at);
emu_site emu_site_of(uint16_t id);

/* --- functions of sched.c for the clocks of threads --- */
void emu_release_to(emu_gather *g, emu_thread *t); /* adds t's clocks to g and begins t's next step */
void emu_acquire(emu_thread *t, emu_clocks *released);

/* --- functions of memory.c --- */
void emu_static_reset(void);
/* Returns the address in the block's own window, without the rank that cluster addresses contain. */
static inline uint32_t emu_own_address(const emu_block *b, uint32_t address) {
  return address >> 24 == (uint32_t)b->rank + 1 ? address & 0xffffff : address;
}
/* Returns the block of a cluster address (emu_cluster_address), and sets *local to the address in its window. Stops the
 * run when there is no such block. */
emu_block *emu_cluster_block(uint32_t address, uint32_t *local, emu_site at);
/* Computes p = op(p, x) on `bytes` bytes, element by element. op is EMU_STORE, EMU_ADD_* and so on. */
void emu_combine(int op, void *p, const void *x, size_t bytes);

/* --- functions of grid_order.c --- */
void emu_order_begin_grid(uint32_t runs);
void emu_order_end_grid(void);
void emu_order_begin_run(void);
void emu_order_atomic(const void *p, emu_clocks *at_fence);
void emu_order_fence(emu_thread *t);
bool emu_order_seen(uint32_t era, uint16_t agent, uint32_t clock);

/* --- functions of barrier.c --- */
emu_mbar *emu_mbar_of(emu_block *b, uint32_t addr, emu_site at);
void emu_mbar_check(const emu_mbar *bar, const emu_thread *t);
void emu_mbar_complete(emu_mbar *bar, int64_t bytes, const emu_clocks *clocks);
void emu_mbar_arrived(emu_mbar *bar, const emu_clocks *clocks, emu_site at);
void emu_named_check(void);
void emu_named_drop(emu_named *b);
void emu_dump_barriers(void);
void emu_bars_at_exit(emu_block *b);
void emu_clock_advance(int64_t cycles);

/* --- functions of bulk.c --- */
void emu_bulk_step(void); /* performs one pending step of the copy engine */
void emu_bulk_exit(void); /* checks for copies in flight when the blocks end */
void emu_bulk_forget(void);

/* --- functions of cp_async.c --- */
void emu_cp_step(void); /* performs the copies that one pending arrival waits for, then the arrival */
void emu_cp_touched(const emu_thread *t, uint32_t addr, uint32_t bytes, bool write, emu_site at);
void emu_cp_exit(emu_block *b);
void emu_cp_forget(emu_block *b);

/* --- functions of wgmma.c --- */
void emu_live_touched(const emu_thread *t, const char *p, size_t n, bool write, emu_site at);
static inline size_t emu_stack_word(const emu_thread *t, const char *p) { return (size_t)(p - t->stack) / 4; }
/* Checks an access to a variable of a kernel, which may be a register of a wgmma in flight. It is called for every such
 * access. */
static inline void emu_wgmma_hook(emu_thread *t, const char *p, size_t n, bool write, emu_site at) {
  if (p < t->stack || p + n > t->stack + EMU_STACK) return;
  if (write && t->ever_fenced)
    for (size_t w = emu_stack_word(t, p), end = emu_stack_word(t, p + n - 1); w <= end; w++)
      t->dirty[w / 64] |= (uint64_t)1 << (w % 64);
  if (p < t->live_hi && p + n > t->live_lo) emu_live_touched(t, p, n, write, at);
}
void emu_wgmma_exit(emu_block *b);
/* reports instructions of a warpgroup that only some of its threads have executed */
void emu_wgmma_uneven(emu_block *b);
void emu_wgmma_reset(emu_block *b);
/* Checks the write of an instruction's result to the thread's registers. */
static inline void emu_register_write(void *p, size_t n) { emu_wgmma_hook(emu_me, p, n, true, emu_me->at); }

/* --- functions of wgmma_math.c --- */
/* returns the number of bytes of an element of this type */
int emu_bytes_of(int type);
/* returns k, the inner dimension of a wgmma product of this type */
static inline int emu_k_of(int type) { return 32 / emu_bytes_of(type); }
void emu_decode(int type, float *out, const void *in, int n, int stride);
void emu_multiply(int type, float *c, const float *a, const float *b,
                  int n); /* computes c (64 x n) += a (64 x k) b (k x n); for s8, c holds integers */
void emu_multiply_mma(int type, int k, float *c, const float *a,
                      const float *b); /* computes c (16 x 8) += a (16 x k) b (k x 8) */

#endif
