/* wgmma (PTX ISA 9.7.15). The 128 threads issue a product one by one; it is carried out when a wait needs it (late) or
 * when the last thread has issued it (early). Until then its accumulators hold NaN, and the hooks report whoever
 * touches them or the registers of A. The warpgroup's products are one agent: a wait by one warp stands for all, as
 * kernels release stages by one arrival a warpgroup. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "emu/shadow.h"

enum { OPS = 128 }; /* products in flight of a warpgroup */

/* Accumulators in flight: 64 x n. Every thread leaves its registers here with its first product and takes them back
 * after the wait. */
struct emu_acc {
  int n, holders; /* threads whose registers are here */
  uint32_t last_op;
  float x[64 * 256 + 8];
};

static double flops;
double emu_wgmma_flops(void) { return flops; }

static emu_op *queued_product(emu_group *g, uint32_t i) { return &g->ops[i % OPS]; }

/* --- registers in flight --- */

static void bound_live(emu_thread *t) {
  t->live_lo = t->live_hi = NULL;
  for (int i = 0; i < t->n_live; i++) {
    if (!i || t->live[i].lo < t->live_lo) t->live_lo = t->live[i].lo;
    if (!i || t->live[i].hi > t->live_hi) t->live_hi = t->live[i].hi;
  }
}

void emu_live_touched(const emu_thread *t, const char *p, size_t n, bool write, emu_site at) {
  for (int i = 0; i < t->n_live; i++) {
    const emu_live *l = &t->live[i];
    if (p >= l->hi || p + n <= l->lo || (!write && !l->acc)) continue; /* operands may be read */
    const emu_op *o = queued_product(t->group, l->last_op);
    emu_report(EMU_RULE_REGISTERS, at, "%s of %s register %d of a product in flight, issued at %s",
               write ? "write" : "read", l->acc ? "accumulator" : "operand", p > l->lo ? (int)((p - l->lo) / 4) : 0,
               emu_site_text(o->at));
  }
}

static bool written_since_fence(const emu_thread *t, const void *p, size_t bytes) {
  const char *c = p;
  if (c < t->stack || c + bytes > t->stack + EMU_STACK) return false;
  if (!t->ever_fenced) return true;
  for (size_t w = emu_stack_word(t, c), end = emu_stack_word(t, c + bytes - 1); w <= end; w++)
    if (t->dirty[w / 64] >> (w % 64) & 1) return true;
  return false;
}

void emu_wgmma_fence(EMU_SITE) {
  emu_thread *t = emu_begin("wgmma.fence", file, line);
  if (emu_opt.checks) memset(t->dirty, 0, sizeof t->dirty);
  t->ever_fenced = true;
}

static void add_live(emu_thread *t, void *p, size_t bytes, emu_acc *acc, uint32_t op) {
  char *lo = p;
  const uint32_t group = t->n_groups ? t->group_end[t->n_groups - 1] : 0; /* first product of the open group */
  for (int i = 0; !acc && i < t->n_live; i++) { /* A of the steps of one group lies in a row */
    emu_live *l = &t->live[i];
    if (l->acc || l->hi != lo || l->last_op < group) continue;
    l->hi += bytes;
    l->last_op = op;
    bound_live(t);
    return;
  }
  if (t->n_live == EMU_MAX_LIVE) {
    emu_report(EMU_RULE_WGMMA_ARGS, t->at, "more than %d register ranges in flight", EMU_MAX_LIVE);
    emu_stop();
  }
  t->live[t->n_live++] = (emu_live){lo, lo + bytes, op, acc};
  bound_live(t);
}

/* --- fragments: register 4 j + 2 h + e of a lane is row 16 warp + lane / 4 + 8 h, column 8 j + 2 (lane % 4) + e --- */

static void exchange_registers(emu_thread *t, emu_acc *acc, void *regs, bool take) {
  float *d = regs; /* or integers: bits are moved */
  int row = (t->tid % 128) / 32 * 16 + t->lane / 4, column = 2 * (t->lane % 4);
  for (int i = 0; i < acc->n / 2; i += 2) {
    float *x = &acc->x[(row + 8 * (i / 2 % 2)) * acc->n + 8 * (i / 4) + column];
    if (take)
      memcpy(d + i, x, 8);
    else
      memcpy(x, d + i, 8);
  }
}

static void close_acc(emu_thread *t, emu_live *l) {
  emu_acc *acc = l->acc;
  exchange_registers(t, acc, l->lo, true);
  if (!--acc->holders) free(acc);
}

/* --- operands in shared memory --- */

typedef struct tile_reader {
  emu_block *block;
  const emu_actor *actor;
  uint32_t start, lead, stride,
      mask; /* lead: bytes between outer (or k) groups; stride: between groups of 8; mask: of the swizzle */
  int span; /* bytes of a swizzled row, 16 without */
} tile_reader;

/* The matrix descriptor (PTX ISA 9.7.15.5.1). */
static tile_reader reader_of(emu_block *b, uint64_t desc, const emu_actor *actor) {
  static const uint8_t spans[] = {16, 128, 64, 32};
  tile_reader r = {.block = b, .actor = actor};
  r.start = (uint32_t)(desc & 0x3fff) << 4;
  r.lead = (uint32_t)(desc >> 16 & 0x3fff) << 4;
  r.stride = (uint32_t)(desc >> 32 & 0x3fff) << 4;
  r.span = spans[desc >> 62];
  r.mask = (uint32_t)r.span / 16 - 1;
  if (desc >> 49 & 7)
    emu_report(EMU_RULE_WGMMA_ARGS, actor->at, "descriptor %#llx: base offset %u; tiles start on a swizzle period here",
               (unsigned long long)desc, (unsigned)(desc >> 49 & 7));
  return r;
}

/* Chunk of 16 bytes: `inner` chunks along the contiguous dimension, line `outer` of the other one. */
static const uint8_t *chunk(const tile_reader *r, uint32_t inner, uint32_t outer, bool transposed) {
  uint32_t a, per = (uint32_t)r->span / 16;
  if (!transposed && r->span == 16)
    a = r->start + inner * r->lead + outer / 8 * r->stride + outer % 8 * 16;
  else if (!transposed)
    a = r->start + inner * 16 + outer / 8 * r->stride + outer % 8 * (uint32_t)r->span;
  else if (r->span == 16)
    a = r->start + inner * r->stride + outer / 8 * r->lead + outer % 8 * 16;
  else
    a = r->start + inner / per * r->lead + inner % per * 16 + outer / 8 * r->stride + outer % 8 * (uint32_t)r->span;
  a ^= (a >> 7 & r->mask) << 4;
  if (!emu_touch_shared(r->block, r->actor, a, 16, EMU_READ)) return NULL;
  return r->block->smem + a;
}

/* out[line][k] of `lines` rows with k contiguous, or of k by lines when transposed. by_k: out is [k][lines] instead. */
static void read_tile(const tile_reader *r, int type, int lines, bool transposed, bool by_k, float *out) {
  static const uint8_t zeros[16];
  int per = 16 / emu_bytes_of(type), ks = emu_k_of(type), outer_n = transposed ? ks : lines,
      inner_n = (transposed ? lines : ks) / per;
  for (int o = 0; o < outer_n; o++)
    for (int i = 0; i < inner_n; i++) {
      const uint8_t *p = chunk(r, (uint32_t)i, (uint32_t)o, transposed);
      int line = transposed ? per * i : o, k = transposed ? o : per * i;
      float *at = by_k ? out + k * lines + line : out + line * ks + k;
      bool along_line = transposed == by_k; /* is the chunk contiguous in out? */
      emu_decode(type, at, p ? p : zeros, per, along_line ? 1 : by_k ? lines : ks);
    }
}

static void read_regs(const emu_op *o, float *out) {
  int ks = emu_k_of(o->type), per = ks / 8; /* values a register */
  for (int t = 0; t < 128; t++)
    for (int i = 0; i < 4; i++) {
      int row = t / 32 * 16 + t % 32 / 4 + 8 * (i & 1), k = per * (t % 4) + 4 * per * (i >> 1);
      emu_decode(o->type, out + row * ks + k, &o->regs[t][i], per, 1);
    }
}

static void carry_out_product(emu_group *g, emu_op *o) {
  static float a[64 * 32], b[32 * 256 + 8];
  emu_gather_step(&o->gather, g->agent, ++g->clock);
  o->clocks = emu_gather_take(&o->gather);
  emu_actor actor = {.agent = g->agent, .async = true, .clock = g->clock, .seen = o->clocks, .at = o->at};
  if (o->a_regs) {
    read_regs(o, a);
  } else {
    tile_reader r = reader_of(g->block, o->a, &actor);
    read_tile(&r, o->type, 64, o->trans_a, false, a);
  }
  tile_reader r = reader_of(g->block, o->b, &actor);
  read_tile(&r, o->type, o->n, o->trans_b, true, b);
  if (!o->accumulate) memset(o->acc->x, 0, sizeof(float) * 64 * (size_t)o->n);
  emu_multiply(o->type, o->acc->x, a, b, o->n);
  flops += 2.0 * 64 * emu_k_of(o->type) * o->n;
  o->done = true;
}

/* --- issue --- */

static void check_same_product(const emu_op *o, const emu_thread *t, int type, int n, bool regs, uint64_t a, uint64_t b,
                               int acc) {
  if (o->type == type && o->n == n && o->a_regs == regs && o->a == a && o->b == b && o->accumulate == (acc != 0) &&
      o->at.line == t->at.line && o->at.file == t->at.file)
    return;
  emu_report(EMU_RULE_DIVERGENT, t->at,
             "the product differs within the warpgroup: n %d, a %#llx, b %#llx, accumulate %d here; n %d, a %#llx, b "
             "%#llx, %d at %s",
             n, (unsigned long long)a, (unsigned long long)b, acc != 0, o->n, (unsigned long long)o->a,
             (unsigned long long)o->b, o->accumulate, emu_site_text(o->at));
  emu_stop();
}

static emu_op *new_op(emu_group *g, emu_thread *t) {
  if (!g->ops) {
    g->ops = calloc(OPS, sizeof *g->ops);
    if (!g->ops) abort();
  }
  if (g->n_ops - g->n_done >= OPS - 8) {
    emu_report(EMU_RULE_WGMMA_ARGS, t->at, "more than %d products in flight", OPS - 8);
    emu_stop();
  }
  emu_op *o = queued_product(g, g->n_ops++);
  emu_clocks_drop(o->clocks);
  memset(o, 0, sizeof *o);
  o->at = t->at;
  return o;
}

static emu_live *live_acc(emu_thread *t, const void *d, int n) {
  char *lo = (char *)(uintptr_t)d, *hi = lo + 2 * n;
  for (int i = 0; i < t->n_live; i++) {
    emu_live *l = &t->live[i];
    if (l->acc && l->lo == lo && l->hi == hi) return l;
    if (lo < l->hi && hi > l->lo)
      emu_report(EMU_RULE_REGISTERS, t->at, "accumulators overlap other registers of a product in flight");
  }
  return NULL;
}

static emu_acc *new_acc(int n) {
  emu_acc *acc = malloc(sizeof *acc);
  if (!acc) abort();
  acc->n = n;
  acc->holders = 0;
  return acc;
}

/* This thread's part in the product's accumulators. */
static void join_acc(emu_thread *t, emu_op *o, void *d, uint32_t number) {
  emu_live *l = live_acc(t, d, o->n);
  if (emu_opt.checks && !l && (o->accumulate || t->ever_fenced) && written_since_fence(t, d, 2 * (size_t)o->n))
    emu_report(EMU_RULE_WGMMA_FENCE, t->at, "accumulators were written after the last wgmma.fence");
  if (o->seen == 0) o->acc = l ? l->acc : new_acc(o->n);
  if (l && l->acc != o->acc) {
    emu_report(EMU_RULE_DIVERGENT, t->at, "the accumulators differ within the warpgroup");
    emu_stop();
  }
  if (l) {
    l->last_op = number;
    return;
  }
  o->acc->holders++;
  if (o->accumulate) exchange_registers(t, o->acc, d, false);
  for (int i = 0; i < o->n / 2; i++) memcpy((char *)d + 4 * i, &(float){NAN}, 4);
  add_live(t, d, 2 * (size_t)o->n, o->acc, number);
}

static void join_regs(emu_thread *t, emu_op *o, const uint32_t *a, uint32_t number) {
  if (emu_opt.checks && written_since_fence(t, a, 16))
    emu_report(EMU_RULE_WGMMA_FENCE, t->at, "registers of A were written after the last wgmma.fence");
  memcpy(o->regs[t->tid % 128], a, 16);
  add_live(t, (void *)(uintptr_t)a, 16, NULL, number);
}

/* All that the 128 threads did before they issued is ordered before the product. */
static void join_clocks(emu_thread *t, emu_op *o) { emu_release_to(&o->gather, t); }

static void carry_out_until(emu_group *g, uint32_t end) {
  for (; g->n_done < end; g->n_done++) carry_out_product(g, queued_product(g, g->n_done));
}

void emu_wgmma(int type, int n, void *d, const uint32_t *a_regs, uint64_t a, uint64_t b, int trans_a, int trans_b,
               int acc, EMU_SITE) {
  emu_thread *t = emu_begin("wgmma", file, line);
  emu_group *g = t->group;
  if (!g) {
    emu_report(EMU_RULE_DIVERGENT, t->at, "thread %d is in no whole warpgroup", t->tid);
    emu_stop();
  }
  if (!t->ever_fenced) emu_report(EMU_RULE_WGMMA_FENCE, t->at, "no wgmma.fence before the first product");
  uint32_t number = t->issued++;
  bool first = number == g->n_ops;
  emu_op *o = first ? new_op(g, t) : queued_product(g, number);
  if (first) {
    o->type = type;
    o->n = n;
    o->a = a;
    o->b = b;
    o->trans_a = trans_a;
    o->trans_b = trans_b;
    o->a_regs = a_regs != NULL;
    o->accumulate = acc != 0;
  } else {
    check_same_product(o, t, type, n, a_regs != NULL, a, b, acc);
  }
  join_acc(t, o, d, number);
  if (a_regs) join_regs(t, o, a_regs, number);
  join_clocks(t, o);
  if (++o->seen < 128) return;
  emu_wake_all(&g->waiters);
  if (emu_opt.when == EMU_EARLY) carry_out_until(g, number + 1);
}

/* --- commit and wait --- */

void emu_wgmma_commit(EMU_SITE) {
  emu_thread *t = emu_begin("wgmma.commit_group", file, line);
  t->commits++;
  if (t->n_groups == EMU_MAX_GROUPS) {
    memmove(t->group_end, t->group_end + 1, sizeof t->group_end - sizeof t->group_end[0]);
    t->n_groups--;
  }
  t->group_end[t->n_groups++] = t->issued;
}

static void close_until(emu_thread *t, uint32_t end) {
  for (int i = 0; i < t->n_live;) {
    emu_live *l = &t->live[i];
    if (l->last_op >= end) {
      i++;
      continue;
    }
    if (l->acc) close_acc(t, l);
    t->live[i] = t->live[--t->n_live];
  }
  bound_live(t);
}

static bool all_issued(const emu_group *g, uint32_t end) {
  return g->n_ops >= end && (g->n_done >= end || g->ops[(end - 1) % OPS].seen == 128);
}

void emu_wgmma_wait(int n, EMU_SITE) {
  emu_thread *t = emu_begin("wgmma.wait_group", file, line);
  if (t->n_groups <= n) return;
  uint32_t end = t->group_end[t->n_groups - 1 - n];
  emu_group *g = t->group;
  if (!end) return;
  while (!all_issued(g, end)) emu_wait_in(&g->waiters, EMU_AT_WGMMA);
  carry_out_until(g, end);
  close_until(t, end);
  if (g->n_ops - end < OPS) emu_acquire(t, queued_product(g, end - 1)->clocks);
  memmove(t->group_end, t->group_end + (t->n_groups - n), (size_t)n * sizeof t->group_end[0]);
  t->n_groups = n;
}

/* --- the end --- */

void emu_wgmma_exit(emu_block *b) {
  for (int i = 0; i < b->n_groups; i++) {
    const emu_group *g = &b->groups[i];
    for (int t = 0; t < 128; t++)
      if (g->first[t].n_live) {
        emu_report(EMU_RULE_EXIT, queued_product(&b->groups[i], g->first[t].live[0].last_op)->at,
                   "block %d has ended; thread %d never waited for this product", b->index, g->first[t].tid);
        break;
      }
  }
}

void emu_wgmma_uneven(emu_block *b) {
  for (int i = 0; i < b->n_groups; i++) {
    const emu_thread *first = b->groups[i].first;
    for (int t = 1; t < 128; t++) {
      const emu_thread *u = &first[t];
      const char *what = u->issued != first->issued     ? "products"
                         : u->commits != first->commits ? "wgmma.commit_group"
                         : u->resized != first->resized ? "setmaxnreg"
                                                        : NULL;
      if (!what) continue;
      emu_report(EMU_RULE_DIVERGENT, first->at,
                 "%s: threads %d and %d of warpgroup %d of block %d have not executed them alike", what, first->tid,
                 u->tid, i, b->index);
      break;
    }
  }
}

void emu_wgmma_reset(emu_block *b) {
  for (int i = 0; i < b->n_groups; i++) {
    emu_group *g = &b->groups[i];
    for (int t = 0; t < 128; t++)
      for (int l = 0; l < g->first[t].n_live; l++) {
        emu_acc *acc = g->first[t].live[l].acc;
        if (acc && !--acc->holders) free(acc);
      }
    for (uint32_t k = 0; g->ops && k < OPS; k++) {
      emu_clocks_drop(g->ops[k].clocks);
      emu_gather_drop(&g->ops[k].gather);
    }
    free(g->ops);
  }
}
