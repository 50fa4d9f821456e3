/* Operations of a warp: each lane leaves its operands and waits; the last one acts for all. Lanes run on their own
 * otherwise, in no order. */
#include <string.h>

#include "emu/shadow.h"

typedef void (*act)(emu_warp *);

static uint32_t full(const emu_warp *w) {
  (void)w;
  return 0xffffffffu;
}

/* aligned: all lanes must execute the same instruction, so the same place. */
static emu_thread *collect(const char *op, bool aligned, act f, const char *file, int line) {
  emu_thread *t = emu_begin(op, file, line);
  emu_warp *w = t->warp;
  if (!w->here) {
    w->op = op;
    w->at = t->at;
  } else if (w->op != op || (aligned && (w->at.line != line || w->at.file != file))) {
    emu_report(EMU_RULE_DIVERGENT, t->at, "%s by lane %d while lanes %#x of its warp are at %s %s", op, t->lane,
               w->here, w->op, emu_site_text(w->at));
    emu_stop();
  }
  w->here |= 1u << t->lane;
  if (w->here != full(w)) {
    emu_block_here(EMU_AT_WARP);
    return t;
  }
  w->here = 0;
  f(w);
  for (int i = 0; i < EMU_LANES; i++)
    if (i != t->lane) emu_wake(&w->lane[i]);
  return t;
}

/* --- shuffles and votes: they order no memory --- */

static void act_shfl(emu_warp *w) {
  for (int i = 0; i < EMU_LANES; i++) w->lane[i].out[0] = w->lane[w->lane[i].in[1] % EMU_LANES].in[0];
}
uint32_t emu_shfl(uint32_t x, int from, int wrap, EMU_SITE) {
  emu_me->in[0] = x;
  emu_me->in[1] = (uint32_t)(wrap || (from >= 0 && from < EMU_LANES) ? from : emu_me->lane);
  return collect("shfl", false, act_shfl, file, line)->out[0];
}
uint32_t emu_shfl_xor(uint32_t x, int mask, EMU_SITE) { return emu_shfl(x, emu_me->lane ^ mask, 0, file, line); }

static void act_ballot(emu_warp *w) {
  uint32_t bits = 0;
  for (int i = 0; i < EMU_LANES; i++) bits |= w->lane[i].in[0] << i;
  for (int i = 0; i < EMU_LANES; i++) w->lane[i].out[0] = bits;
}
uint32_t emu_warp_ballot(int x, EMU_SITE) {
  emu_me->in[0] = x != 0;
  return collect("vote", false, act_ballot, file, line)->out[0];
}

static uint32_t reduce_pair(int op, bool is_signed, uint32_t a, uint32_t b) {
  bool less = is_signed ? (int32_t)a < (int32_t)b : a < b;
  switch (op) {
  case EMU_REDUX_ADD: return a + b;
  case EMU_REDUX_MIN: return less ? a : b;
  case EMU_REDUX_MAX: return less ? b : a;
  case EMU_REDUX_AND: return a & b;
  case EMU_REDUX_OR: return a | b;
  default: return a ^ b;
  }
}
static void act_redux(emu_warp *w) {
  uint32_t x = w->lane[0].in[0];
  for (int i = 1; i < EMU_LANES; i++) x = reduce_pair((int)w->lane[0].in[1], w->lane[0].in[2], x, w->lane[i].in[0]);
  for (int i = 0; i < EMU_LANES; i++) w->lane[i].out[0] = x;
}
uint32_t emu_redux(int op, int is_signed, uint32_t x, EMU_SITE) {
  emu_me->in[0] = x;
  emu_me->in[1] = (uint32_t)op;
  emu_me->in[2] = (uint32_t)is_signed;
  return collect("redux", true, act_redux, file, line)->out[0];
}

/* Any lane may be elected: the seed says which, for good. */
static void act_elect(emu_warp *w) {
  uint32_t one = (uint32_t)((emu_opt.seed * 0x9E3779B97F4A7C15u) >> 59);
  for (int i = 0; i < EMU_LANES; i++) w->lane[i].out[0] = (uint32_t)i == one;
}
int emu_elect(EMU_SITE) { return (int)collect("elect", true, act_elect, file, line)->out[0]; }

/* __syncwarp orders the memory accesses of its lanes. */
static void act_sync(emu_warp *w) {
  emu_gather g = {0};
  for (int i = 0; i < EMU_LANES; i++) emu_release_to(&g, &w->lane[i]);
  emu_clocks *c = emu_gather_take(&g);
  for (int i = 0; i < EMU_LANES; i++) emu_acquire(&w->lane[i], c);
  emu_clocks_drop(c);
}
void emu_warp_sync(EMU_SITE) { (void)collect("warp_sync", false, act_sync, file, line); }

/* --- matrix moves (PTX ISA 9.7.14.5.15): lane 8 i + r names row r of matrix i; lane l holds columns 2 (l % 4) of row l
 * / 4, or, transposed, rows 2 (l % 4) of column l / 4 --- */

static uint16_t *row_of_lane(emu_warp *w, int lane, emu_access access) {
  emu_thread *t = &w->lane[lane];
  const uint32_t a = emu_own_address(w->block, t->in[0]);
  return emu_thread_touch_shared(t, a, 16, access) ? (uint16_t *)(void *)(w->block->smem + a) : NULL;
}

/* Registers are moved as 8 x 8 halves between the lanes' and the shared rows; in[5]: matrices, out[0] of lane 0:
 * transposed. */
static void act_ldmatrix(emu_warp *w) {
  int n = (int)w->lane[0].in[5] & 7, trans = (int)w->lane[0].in[5] >> 3;
  for (int i = 0; i < n; i++)
    for (int r = 0; r < 8; r++) {
      const uint16_t *row = row_of_lane(w, 8 * i + r, EMU_READ);
      for (int c = 0; c < 8; c++) {
        int lane = trans ? 4 * c + r / 2 : 4 * r + c / 2, half = trans ? r & 1 : c & 1;
        uint32_t *out = &w->lane[lane].out[i];
        *out = (half ? *out & 0xffffu : 0) | (uint32_t)(row ? row[c] : 0) << (16 * half);
      }
    }
}
void emu_ldmatrix(uint32_t *r, uint32_t a, int n, int trans, EMU_SITE) {
  emu_me->in[0] = a;
  emu_me->in[5] = (uint32_t)(n | trans << 3);
  emu_thread *t = collect("ldmatrix", true, act_ldmatrix, file, line);
  emu_register_write(r, 4 * (size_t)n);
  memcpy(r, t->out, 4 * (size_t)n);
}

static void act_stmatrix(emu_warp *w) {
  int n = (int)w->lane[0].in[5] & 7, trans = (int)w->lane[0].in[5] >> 3;
  for (int i = 0; i < n; i++)
    for (int r = 0; r < 8; r++) {
      uint16_t *row = row_of_lane(w, 8 * i + r, EMU_WRITE);
      for (int c = 0; row && c < 8; c++) {
        int lane = trans ? 4 * c + r / 2 : 4 * r + c / 2, half = trans ? r & 1 : c & 1;
        row[c] = (uint16_t)(w->lane[lane].in[1 + i] >> (16 * half));
      }
    }
}
void emu_stmatrix(uint32_t a, const uint32_t *r, int n, int trans, EMU_SITE) {
  emu_me->in[0] = a;
  memcpy(emu_me->in + 1, r, 4 * (size_t)n);
  emu_me->in[5] = (uint32_t)(n | trans << 3);
  (void)collect("stmatrix", true, act_stmatrix, file, line);
}

/* --- mma.sync (PTX ISA 9.7.14.5): `e` values of neighbouring k a register --- */

static void act_mma(emu_warp *w) {
  float a[16 * 32], b[32 * 8 + 8] = {0}, c[16 * 8 + 8] = {0}; /* the sums read 8 more */
  int type = (int)w->lane[0].out[0], k = (int)w->lane[0].out[1], e = emu_k_of(type) / 8,
      halves = k / (4 * e); /* of k, 4 e each */
  for (int l = 0; l < EMU_LANES; l++) {
    const uint32_t *in = w->lane[l].in;
    int g = l / 4, q = l % 4;
    for (int i = 0; i < 2 * halves; i++)
      emu_decode(type, &a[(g + 8 * (i & 1)) * k + e * q + 4 * e * (i >> 1)], &in[i], e, 1);
    for (int i = 0; i < halves; i++) emu_decode(type, &b[(e * q + 4 * e * i) * 8 + g], &in[4 + i], e, 8);
    for (int i = 0; i < 2; i++) memcpy(&c[(g + 8 * i) * 8 + 2 * q], (float *)w->lane[l].p + 2 * i, 8);
  }
  emu_multiply_mma(type, k, c, a, b);
  for (int l = 0; l < EMU_LANES; l++)
    for (int i = 0; i < 2; i++) memcpy((float *)w->lane[l].p + 2 * i, &c[(l / 4 + 8 * i) * 8 + 2 * (l % 4)], 8);
}
void emu_mma(int type, int k, void *d, const uint32_t *a, const uint32_t *b, EMU_SITE) {
  emu_thread *t = emu_me;
  int halves = k * emu_bytes_of(type) / 16;
  memcpy(t->in, a, 8 * (size_t)halves);
  memcpy(t->in + 4, b, 4 * (size_t)halves);
  t->out[0] = (uint32_t)type;
  t->out[1] = (uint32_t)k;
  t->p = d;
  t->at = (emu_site){file, line};
  emu_register_write(d, 16);
  (void)collect("mma", true, act_mma, file, line);
}
