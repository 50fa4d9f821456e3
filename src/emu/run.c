/* Runs a grid, cluster after cluster: builds the blocks, lets threads and the copy engine take turns, and checks what
 * they leave. When no thread is ready and the copy engine has nothing left to do, the blocks are dead. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "emu/fiber.h"
#include "emu/shadow.h"

static uint32_t eras; /* runs so far */

/* --- deadlock --- */

static const char *state_name(emu_state s) {
  return s == EMU_READY          ? "ready"
         : s == EMU_AT_WARP      ? "waiting for its warp"
         : s == EMU_AT_REGISTERS ? "waiting for registers"
         : s == EMU_DONE         ? "done"
                                 : "waiting";
}

/* "0-31 64" */
static void print_threads(const emu_block *b, const char *what, emu_site at, emu_state state) {
  for (int i = 0; i < b->n_threads; i++) {
    const emu_thread *t = &b->threads[i];
    if (t->state != state || t->what != what || t->at.line != at.line || t->at.file != at.file) continue;
    int j = i;
    for (; j + 1 < b->n_threads; j++) {
      const emu_thread *u = &b->threads[j + 1];
      if (u->state != state || u->what != what || u->at.line != at.line || u->at.file != at.file) break;
    }
    if (j > i)
      emu_report_more(" %d-%d", i, j);
    else
      emu_report_more(" %d", i);
    i = j;
  }
}

static void dump_block(const emu_block *b) {
  emu_report_more("\n  block %d: %d of %d threads have ended", b->index, b->n_done, b->n_threads);
  for (int i = 0; i < b->n_threads; i++) {
    const emu_thread *t = &b->threads[i];
    if (t->state == EMU_DONE) continue;
    bool first = true;
    for (int j = 0; j < i && first; j++) {
      const emu_thread *u = &b->threads[j];
      first = !(u->state == t->state && u->what == t->what && u->at.line == t->at.line && u->at.file == t->at.file);
    }
    if (!first) continue;
    emu_report_more("\n    %s at %s, %s: threads", t->what, emu_site_text(t->at), state_name(t->state));
    print_threads(b, t->what, t->at, t->state);
  }
}

/* A warp in which some lanes wait for lanes that went another way. */
static void check_split_warps(const emu_block *b) {
  for (int w = 0; w < b->n_warps; w++) {
    const emu_warp *warp = &b->warps[w];
    if (warp->here) {
      emu_report(EMU_RULE_DIVERGENT, warp->at, "%s of block %d warp %d was reached by lanes %#x only", warp->op,
                 b->index, w, warp->here);
    }
  }
}

static void deadlock(void) {
  emu_site at = {NULL, 0};
  for (int b = 0; b < emu_now.n_blocks && !at.file; b++)
    for (int i = 0; i < emu_now.blocks[b].n_threads && !at.file; i++)
      if (emu_now.blocks[b].threads[i].state != EMU_DONE) at = emu_now.blocks[b].threads[i].at;
  emu_report(EMU_RULE_DEADLOCK, at, "nobody can go on; seed %llu", (unsigned long long)emu_opt.seed);
  for (int b = 0; b < emu_now.n_blocks; b++) dump_block(&emu_now.blocks[b]);
  emu_dump_barriers();
  for (int b = 0; b < emu_now.n_blocks; b++) {
    check_split_warps(&emu_now.blocks[b]);
    emu_wgmma_uneven(&emu_now.blocks[b]);
  }
  emu_named_check();
  emu_now.abort = true;
}

/* --- running --- */

#define NAP_NS     20000
#define NAP_CYCLES 40000 /* at 2 GHz */
static void nap_for_peers(void) {
  (void)nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
  emu_clock_advance(NAP_CYCLES);
  emu_now.looks_at_peers = false;
  emu_now.idle = 0;
}

static void thread_main(void) {
  emu_now.launch->kernel->run(emu_now.launch->args);
  emu_me->state = EMU_DONE;
  if (emu_opt.checks) emu_gather_add(&emu_me->block->at_end, emu_me->seen);
  if (++emu_me->block->n_done == emu_me->block->n_threads) emu_remote_exit(emu_me->block);
  emu_now.n_live--;
  void *nowhere;
  emu_give_way(&nowhere);
}

static void run_threads(void) {
  emu_now.idle = 0;
  emu_now.slice_spun = false;
  emu_now.looks_at_peers = false;
  while (emu_now.n_live && !emu_now.abort) {
    size_t bulk = emu_now.n_bulk, cp = emu_now.n_cp;
    if (bulk + cp && (emu_is_stuck() || (emu_opt.when == EMU_MIXED && !emu_random(16)))) {
      if (emu_random((uint32_t)(bulk + cp)) < bulk)
        emu_bulk_step();
      else
        emu_cp_step();
      emu_now.idle = 0;
    } else if (emu_now.looks_at_peers && emu_now.idle > 2 * emu_now.n_ready) {
      nap_for_peers();
    } else if (emu_is_dead()) {
      deadlock();
    } else {
      emu_run_slices();
    }
  }
}

/* --- building blocks --- */

static char *stack_of(int i) {
  static char *stacks[EMU_MAX_THREADS * EMU_MAX_CLUSTER];
  if (!stacks[i]) {
    void *p = mmap(NULL, EMU_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) abort();
    stacks[i] = p;
  }
  return stacks[i];
}

static void *zeroed(size_t n, size_t size) {
  void *p = calloc(n ? n : 1, size);
  if (!p) abort();
  return p;
}

static void build_threads(emu_block *b, int first) {
  for (int i = 0; i < b->n_threads; i++) {
    emu_thread *t = &b->threads[i];
    t->block = b;
    t->tid = i;
    t->lane = i % EMU_LANES;
    t->warp = &b->warps[i / EMU_LANES];
    t->group = i / 128 < b->n_groups ? &b->groups[i / 128] : NULL;
    t->agent = (uint16_t)(b->agent0 + i);
    t->own = 1;
    t->what = "start";
    t->seen = emu_clocks_zero();
    t->stack = stack_of(first + i);
    /* Tops are staggered: equal low address bits of all stacks would compete for the same cache lines. */
    t->sp = emu_fiber_make(t->stack + EMU_STACK - 64 * (i % 61 + 1), thread_main);
    emu_wake(t);
  }
}

static int launch_registers(const emu_kernel *k) {
  uint32_t each = 65536 / ((k->threads + 127) / 128 * 128) / k->blocks_per_sm / 8 * 8;
  return (int)(each > 255 ? 255 : each);
}

static void build_block(emu_block *b, int index, int rank) {
  const emu_launch *l = emu_now.launch;
  b->index = index;
  b->rank = rank;
  b->n_threads = (int)l->block[0];
  b->n_warps = (b->n_threads + EMU_LANES - 1) / EMU_LANES;
  b->n_groups = b->n_threads / 128;
  b->agent0 = (uint16_t)(rank * b->n_threads);
  b->smem_end = EMU_SMEM_BASE + l->shared_bytes;
  b->threads = zeroed((size_t)b->n_threads, sizeof *b->threads);
  b->warps = zeroed((size_t)b->n_warps, sizeof *b->warps);
  b->groups = zeroed((size_t)b->n_groups, sizeof *b->groups);
  b->smem = aligned_alloc(1024, (b->smem_end + 1023) / 1024 * 1024);
  if (!b->smem) abort();
  memset(b->smem, 0xff, b->smem_end); /* NaN in every float type */
  if (emu_opt.checks) b->cells = zeroed(b->smem_end / 16 + 1, sizeof *b->cells);
  b->bars = zeroed(EMU_SMEM_MAX / 512, sizeof *b->bars);
  b->bar_at = zeroed(b->smem_end / 8 + 1, sizeof *b->bar_at);
  int each = launch_registers(l->kernel);
  b->free_registers = 65536 / (int)l->kernel->blocks_per_sm - each * b->n_warps * EMU_LANES;
  for (int w = 0; w < b->n_warps; w++) {
    b->warps[w].block = b;
    b->warps[w].lane = &b->threads[w * EMU_LANES];
  }
  for (int g = 0; g < b->n_groups; g++) {
    b->groups[g].block = b;
    b->groups[g].first = &b->threads[g * 128];
    b->groups[g].agent = (uint16_t)(emu_now.n_blocks * b->n_threads + rank * b->n_groups + g);
  }
  build_threads(b, rank * b->n_threads);
  for (int i = 0; i < b->n_threads; i++) b->threads[i].registers = each;
}

static void drop_block(emu_block *b) {
  emu_wgmma_reset(b);
  emu_cp_forget(b);
  for (int i = 0; i < b->n_threads; i++) {
    emu_clocks_drop(b->threads[i].seen);
    emu_clocks_drop(b->threads[i].at_fence);
  }
  for (int i = 0; i < EMU_NAMED; i++) emu_named_drop(&b->named[i]);
  for (int i = 0; i < b->n_bars; i++) {
    emu_gather_drop(&b->bars[i].gather);
    emu_clocks_drop(b->bars[i].out);
  }
  if (b->cells) emu_cells_end(b->cells, b->smem_end / 16 + 1);
  free(b->threads);
  free(b->warps);
  free(b->groups);
  free(b->smem);
  free(b->cells);
  free(b->bars);
  free(b->bar_at);
  free(b->remote);
  emu_gather_drop(&b->at_end);
}

static void run_cluster(int first, int n) {
  const emu_launch *l = emu_now.launch;
  int threads = (int)l->block[0];
  emu_now.n_blocks = n;
  emu_now.copy0 = (uint16_t)(n * threads + n * (threads / 128));
  emu_now.prior = (uint16_t)(emu_now.copy0 + EMU_COPIES);
  for (int i = 0; i < EMU_MARKS; i++) emu_now.mark0[i] = emu_now.prior + 1u + (uint32_t)(i * n * threads);
  emu_now.n_agents = emu_now.prior + 1u + (uint32_t)(EMU_MARKS * n * threads);
  emu_clocks_size(emu_now.n_agents, emu_opt.checks);
  emu_now.era = ++eras;
  emu_now.n_ready = 0;
  emu_now.n_live = n * threads;
  emu_now.ready = zeroed((size_t)(n * threads), sizeof(emu_thread *));
  emu_now.blocks = zeroed((size_t)n, sizeof(emu_block));
  for (int i = 0; i < n; i++) build_block(&emu_now.blocks[i], first + i, i);
  emu_static_reset();
  emu_order_begin_run();
  run_threads();
  if (!emu_now.abort)
    for (int i = 0; i < n; i++) {
      emu_wgmma_exit(&emu_now.blocks[i]);
      emu_wgmma_uneven(&emu_now.blocks[i]);
      emu_cp_exit(&emu_now.blocks[i]);
    }
  if (emu_now.abort)
    emu_bulk_forget();
  else
    emu_bulk_exit();
  for (int i = 0; i < n && !emu_now.abort; i++) emu_bars_at_exit(&emu_now.blocks[i]);
  for (int i = 0; i < n; i++) drop_block(&emu_now.blocks[i]);
  emu_named_drop(&emu_now.cluster);
  free(emu_now.blocks);
  free(emu_now.ready);
  emu_now.n_blocks = 0;
}

/* --- launching --- */

static bool launch_ok(const emu_launch *l, uint32_t cluster) {
  const emu_site host = {NULL, 0};
  const emu_kernel *k = l->kernel;
  uint32_t per_sm = k->blocks_per_sm * (l->shared_bytes + EMU_SMEM_BASE);
  if (l->shared_bytes > EMU_SMEM_MAX || per_sm > EMU_SMEM_MAX + EMU_SMEM_BASE) {
    emu_report(EMU_RULE_SMEM_BUDGET, host,
               "%u bytes of shared memory, %u blocks per multiprocessor; a block may have %d, a multiprocessor has %d",
               l->shared_bytes, k->blocks_per_sm, EMU_SMEM_MAX, EMU_SMEM_MAX + EMU_SMEM_BASE);
    return false;
  }
  if (!l->grid[0] || l->grid[1] != 1 || l->grid[2] != 1 || l->block[1] != 1 || l->block[2] != 1 ||
      l->block[0] % EMU_LANES || !l->block[0] || l->block[0] > k->threads || cluster > EMU_MAX_CLUSTER ||
      l->grid[0] % cluster) {
    emu_report(
        EMU_RULE_LAUNCH, host,
        "grid %u x %u x %u, block %u x %u x %u, cluster %u: one-dimensional grids of whole warps, at most %u threads",
        l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2], cluster, k->threads);
    return false;
  }
  return true;
}

int emu_run_launch(const emu_launch *l) {
  static uint32_t last_launch_era, launches;
  size_t before = emu_n_reports();
  uint32_t cluster = l->cluster[0] ? l->cluster[0] : 1;
  memset(&emu_now, 0, sizeof emu_now);
  emu_now.launch = l;
  emu_now.rng = (emu_settings()->seed + ++launches) * 0x9E3779B97F4A7C15u | 1;
  emu_now.launch_era = eras + 1;
  emu_now.prior_era = l->dependent ? last_launch_era : 0;
  last_launch_era = emu_now.launch_era;
  if (launch_ok(l, cluster)) {
    uint32_t n = l->grid[0] / cluster, start = emu_opt.in_order ? 0 : emu_random(n); /* blocks come in any order */
    emu_order_begin_grid(n);
    emu_tmap_forget();
    for (uint32_t i = 0; i < n && !emu_now.abort; i++) run_cluster((int)((i + start) % n * cluster), (int)cluster);
    emu_order_end_grid();
  }
  emu_now.launch = NULL;
  return (int)(emu_n_reports() - before);
}
