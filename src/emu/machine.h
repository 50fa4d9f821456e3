/* Inside of the emulator: a set of blocks that run at the same time (a cluster, or one block), and their threads. */
#ifndef GA_EMU_MACHINE_H
#define GA_EMU_MACHINE_H

#include "core/emu_calls.h"
#include "emu/clock.h"
#include "emu/emu.h"

enum {
  EMU_LANES = 32,
  EMU_MAX_THREADS = 1024, /* of a block */
  EMU_MAX_CLUSTER = 16,   /* blocks; 8 is portable */
  EMU_SMEM_BASE = 1024,   /* the system's part of the window */
  EMU_SMEM_MAX = 232448,  /* sm_90: dynamic shared memory of a block */
  EMU_NAMED = 16,         /* barriers of a block */
  EMU_COPIES = 64,        /* agents of the copy engine, used in turn */
  EMU_STACK = 17 * 4096,  /* of a thread */
  EMU_MAX_LIVE = 64,      /* register ranges in flight of a thread */
  EMU_MAX_GROUPS = 64     /* uncompleted wgmma groups of a thread */
};

typedef struct emu_site {
  const char *file; /* NULL: line is a program counter */
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

/* Marks of a thread: the steps of its last fence.proxy.async of shared and of global memory. EMU_LOADED: the step up to
 * which its loads have returned. */
enum { EMU_FENCED_SHARED, EMU_FENCED_GLOBAL, EMU_LOADED, EMU_MARKS };

typedef struct emu_block emu_block;
typedef struct emu_warp emu_warp;
typedef struct emu_group emu_group;
typedef struct emu_acc emu_acc;
typedef struct emu_mbar emu_mbar;
typedef struct emu_cp emu_cp;

/* Registers that a wgmma product in flight reads or writes. */
typedef struct emu_live {
  char *lo, *hi;
  uint32_t last_op; /* number of the last product that uses them */
  emu_acc *acc;     /* accumulators; NULL: operand A */
} emu_live;

typedef struct emu_thread {
  void *sp;
  char *stack; /* lowest address */
  emu_block *block;
  emu_warp *warp;
  emu_group *group; /* warpgroup */
  int tid, lane;
  uint16_t agent;
  emu_state state;
  emu_site at;      /* instruction begun last */
  const char *what; /* its name */
  /* --- clocks --- */
  uint32_t own;             /* own step */
  uint32_t mark[EMU_MARKS]; /* by EMU_FENCED_SHARED and so on: steps of this thread */
  emu_clocks *seen;
  /* --- waiting --- */
  emu_mbar *bar;
  uint32_t parity;
  int named, spins;
  struct emu_thread *next; /* next in the emu_list where this thread waits */
  /* --- warp operations --- */
  uint32_t in[6], out[4];
  void *p;
  /* --- wgmma --- */
  uint32_t issued, commits;
  uint32_t group_end[EMU_MAX_GROUPS];
  int n_groups;
  emu_live live[EMU_MAX_LIVE];
  int n_live;
  char *live_lo, *live_hi;            /* bounds of all live ranges */
  uint64_t dirty[EMU_STACK / 4 / 64]; /* stack words written since the last wgmma.fence; kept from the first one on */
  bool ever_fenced;
  /* --- bulk stores --- */
  int bulk_open, bulk_reads, bulk_writes; /* not committed; reads, writes still to do */
  /* --- cp.async --- */
  emu_cp *cp; /* in flight, in order of issue */
  int n_cp, cp_capacity;
  uint32_t cp_first;                 /* number of the first one in flight */
  uint32_t cp_group[EMU_MAX_GROUPS]; /* ends of the groups not waited for */
  int n_cp_groups;
  /* --- tensor maps edited by kernels --- */
  const void *map_acquired; /* the last one */
  uint32_t map_number;      /* edits so far at that time */
  /* --- cluster barrier --- */
  bool cluster_arrived;
  uint32_t cluster_round;
  /* --- the rest --- */
  int registers;
  uint32_t resized;     /* setmaxnreg executed */
  emu_clocks *at_fence; /* clocks at this thread's last fence_device */
} emu_thread;

struct emu_warp {
  emu_block *block;
  uint32_t here;  /* lanes arrived at the warp operation under way */
  const char *op; /* its name */
  emu_site at;
  emu_thread *lane; /* 32 of them */
};

typedef struct emu_list {
  emu_thread *first;
} emu_list;

struct emu_mbar {
  uint32_t addr, count, pending, phase;
  int64_t tx;
  emu_gather gather;
  emu_clocks *out; /* clocks that the last completed phase released */
  emu_list waiters;
  uint16_t init_agent;
  uint32_t init_clock;
  bool init_fenced;
  emu_site init_at;
};

typedef struct emu_named {
  int n, count; /* threads wanted, arrived */
  uint32_t lanes[EMU_MAX_THREADS / EMU_LANES];
  emu_gather gather;
  emu_clocks *out;
  emu_list waiters;
  emu_site at;
} emu_named;

/* One product of a warpgroup. */
typedef struct emu_op {
  int type, n, trans_a, trans_b, accumulate;
  bool a_regs, done;
  uint64_t a, b;
  int seen; /* threads that have issued it */
  emu_acc *acc;
  emu_gather gather;
  emu_clocks *clocks; /* of the product, once done */
  emu_site at;
  uint32_t regs[128][4];
} emu_op;

struct emu_group {
  emu_block *block;
  emu_thread *first; /* 128 threads */
  uint16_t agent;
  uint32_t clock;
  emu_op *ops; /* ring */
  uint32_t n_ops, n_done, oldest;
  emu_list waiters;
  emu_gather release; /* joined clocks of the 128 threads as they issued the current product */
};

struct emu_block {
  int index, rank; /* in the grid; in the cluster */
  emu_thread *threads;
  emu_warp *warps;
  emu_group *groups;
  int n_threads, n_warps, n_groups, n_done;
  uint8_t *smem; /* the window, from address 0 */
  uint32_t smem_end;
  struct emu_cell *cells;
  emu_mbar *bars;
  uint16_t *bar_at; /* [address / 8]: index + 1 into bars */
  int n_bars;
  emu_named named[EMU_NAMED];
  int free_registers;
  emu_list register_waiters;
  uint16_t agent0; /* of thread 0 */
  struct emu_remote
      *remote; /* last access of each of the cluster's threads to this block's shared memory, by agent; NULL: none */
  emu_gather at_end; /* joined clocks of its threads when they ended */
};

typedef struct emu_run {
  const emu_launch *launch;
  uint32_t n_agents, mark0[EMU_MARKS]; /* entry mark0[i] + thread agent: its mark i */
  uint16_t copy0, prior;               /* first agent of the copy engine; agent of the previous grid */
  emu_block *blocks;
  int n_blocks;
  emu_thread **ready;
  int n_ready, n_live;
  int idle;            /* slices in a row that ended in a failed try_wait */
  bool slice_spun;     /* the slice under way has ended so */
  bool looks_at_peers; /* some slice has looked in vain for what another process writes */
  size_t n_bulk, n_cp; /* pending: steps of the copy engine; arrivals that wait for cp.async copies */
  emu_named cluster;
  uint32_t cluster_round;
  uint64_t rng;
  uint32_t era, launch_era; /* number of this run; of the first run of this launch */
  uint32_t prior_era;       /* first run of the launch that this one depends on; 0: none */
  bool abort;
  void *main_sp;
  uint32_t copy_clock[EMU_COPIES];
  int next_copy;
} emu_run;

extern emu_run emu_now;
extern emu_thread *emu_me; /* the thread that runs, NULL in the scheduler */
extern emu_options emu_opt;

/* --- sched.c --- */
uint32_t emu_random(uint32_t n);
void emu_block_here(emu_state state); /* suspends the thread until woken */
void emu_yield(void);                 /* suspends the thread, which stays ready */
void emu_maybe_yield(void);           /* yields at random, so that schedules differ */
void emu_wait_in(emu_list *list, emu_state state);
void emu_wake(emu_thread *t);
void emu_wake_all(emu_list *list);
_Noreturn void emu_stop(void); /* ends the thread, because the run cannot go on */
void emu_run_slices(void);     /* runs threads, one after the other, until something else than a thread comes next */
/* Saves the running thread's context in *sp and continues another thread, or the scheduler. */
void emu_give_way(void **sp);
static inline bool emu_is_stuck(void) { return !emu_now.n_ready || emu_now.idle > 2 * emu_now.n_ready; }
static inline bool emu_is_dead(void) { return !emu_now.n_ready || emu_now.idle > 64 * (emu_now.n_ready + 1); }
static inline emu_thread *emu_begin(const char *what, const char *file, int line) {
  emu_me->what = what;
  emu_me->at.file = file;
  emu_me->at.line = line;
  return emu_me;
}

/* --- cluster.c --- */
void emu_remote_access(emu_block *b, emu_thread *t); /* t touches shared memory of b */
void emu_remote_exit(emu_block *b);                  /* all threads of b have ended */

/* --- tensor_edit.c --- */
void emu_tmap_use(const void *map, const emu_thread *t);
void emu_tmap_forget(void);

/* --- report.c --- */
void emu_report(emu_rule rule, emu_site at, const char *format, ...) __attribute__((format(printf, 3, 4)));
void emu_report_more(const char *format, ...)
    __attribute__((format(printf, 1, 2))); /* adds a line to the last report, unless that was a repeat */
const char *emu_site_text(emu_site at);    /* "file:line"; two may be in use at a time */
const char *emu_agent_text(uint16_t agent);
uint16_t emu_site_id(emu_site at);
emu_site emu_site_of(uint16_t id);

/* --- clocks of threads (sched.c) --- */
void emu_release_to(emu_gather *g, emu_thread *t); /* joins t's clocks into g and begins t's next step */
void emu_acquire(emu_thread *t, emu_clocks *released);

/* --- memory.c --- */
void emu_static_reset(void);
/* The address in the block's own window, without the rank that cluster addresses have. */
static inline uint32_t emu_own_address(const emu_block *b, uint32_t address) {
  return address >> 24 == (uint32_t)b->rank + 1 ? address & 0xffffff : address;
}
/* The block of an address of emu_cluster_address; stops the run when there is none. */
emu_block *emu_cluster_block(uint32_t address, uint32_t *local, emu_site at);
void emu_combine(int op, void *p, const void *x, size_t bytes); /* p = op(p, x): EMU_STORE, EMU_ADD_* and so on */

/* --- grid_order.c --- */
void emu_order_begin_grid(uint32_t runs);
void emu_order_end_grid(void);
void emu_order_begin_run(void);
void emu_order_atomic(const void *p, emu_clocks *at_fence);
void emu_order_fence(emu_thread *t);
bool emu_order_seen(uint32_t era, uint16_t agent, uint32_t clock);

/* --- barrier.c --- */
emu_mbar *emu_mbar_of(emu_block *b, uint32_t addr, emu_site at);
void emu_mbar_check(const emu_mbar *bar, const emu_thread *t);
void emu_mbar_complete(emu_mbar *bar, int64_t bytes, const emu_clocks *clocks);
void emu_mbar_arrived(emu_mbar *bar, const emu_clocks *clocks, emu_site at);
void emu_named_check(void);
void emu_named_drop(emu_named *b);
void emu_dump_barriers(void);
void emu_bars_at_exit(emu_block *b);
void emu_clock_advance(int64_t cycles);

/* --- bulk.c --- */
void emu_bulk_step(void); /* performs one pending step of the copy engine */
void emu_bulk_exit(void); /* the blocks have ended */
void emu_bulk_forget(void);

/* --- cp_async.c --- */
void emu_cp_step(void); /* performs one arrival that waits for copies, with them */
void emu_cp_touched(const emu_thread *t, uint32_t addr, uint32_t bytes, bool write, emu_site at);
void emu_cp_exit(emu_block *b);
void emu_cp_forget(emu_block *b);

/* --- wgmma.c --- */
void emu_live_touched(const emu_thread *t, const char *p, size_t n, bool write, emu_site at);
static inline size_t emu_stack_word(const emu_thread *t, const char *p) { return (size_t)(p - t->stack) / 4; }
/* Called for every access to a variable of a kernel. */
static inline void emu_wgmma_hook(emu_thread *t, const char *p, size_t n, bool write, emu_site at) {
  if (p < t->stack || p + n > t->stack + EMU_STACK) return;
  if (write && t->ever_fenced)
    for (size_t w = emu_stack_word(t, p), end = emu_stack_word(t, p + n - 1); w <= end; w++)
      t->dirty[w / 64] |= (uint64_t)1 << (w % 64);
  if (p < t->live_hi && p + n > t->live_lo) emu_live_touched(t, p, n, write, at);
}
void emu_wgmma_exit(emu_block *b);
void emu_wgmma_uneven(emu_block *b); /* reports instructions of a warpgroup that only some of its threads executed */
void emu_wgmma_reset(emu_block *b);
/* Checks the write of an instruction's result to the thread's registers. */
static inline void emu_register_write(void *p, size_t n) { emu_wgmma_hook(emu_me, p, n, true, emu_me->at); }

/* --- wgmma_math.c --- */
int emu_bytes_of(int type);                                              /* of an element */
static inline int emu_k_of(int type) { return 32 / emu_bytes_of(type); } /* of a product */
void emu_decode(int type, float *out, const void *in, int n, int stride);
void emu_multiply(int type, float *c, const float *a, const float *b,
                  int n); /* c (64 x n) += a (64 x k) b (k x n); s8: c holds integers */
void emu_multiply_mma(int type, int k, float *c, const float *a,
                      const float *b); /* c (16 x 8) += a (16 x k) b (k x 8) */

#endif
