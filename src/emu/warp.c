/* Operations of a warp: each lane leaves its operands and waits; the last one acts for all. Lanes run on their own otherwise, in no order. */
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
    emu_report(EMU_RULE_DIVERGENT, t->at, "%s by lane %d while lanes %#x of its warp are at %s %s", op, t->lane, w->here, w->op,
               emu_site_text(w->at));
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
uint32_t emu_shfl_idx(uint32_t x, int lane, EMU_SITE) {
  emu_me->in[0] = x;
  emu_me->in[1] = (uint32_t)lane;
  return collect("shfl", false, act_shfl, file, line)->out[0];
}
uint32_t emu_shfl_xor(uint32_t x, int mask, EMU_SITE) {
  emu_me->in[0] = x;
  emu_me->in[1] = (uint32_t)(emu_me->lane ^ mask);
  return collect("shfl", false, act_shfl, file, line)->out[0];
}

static void act_any(emu_warp *w) {
  uint32_t any = 0;
  for (int i = 0; i < EMU_LANES; i++) any |= w->lane[i].in[0];
  for (int i = 0; i < EMU_LANES; i++) w->lane[i].out[0] = any != 0;
}
int emu_warp_any(int x, EMU_SITE) {
  emu_me->in[0] = x != 0;
  return (int)collect("vote.any", false, act_any, file, line)->out[0];
}

/* __syncwarp orders the memory accesses of its lanes. */
static void act_sync(emu_warp *w) {
  emu_gather g = {0};
  for (int i = 0; i < EMU_LANES; i++) emu_release_to(&g, &w->lane[i]);
  emu_clocks *c = emu_gather_take(&g);
  for (int i = 0; i < EMU_LANES; i++) emu_acquire(&w->lane[i], c);
  emu_clocks_drop(c);
}
void emu_warp_sync(EMU_SITE) { (void)collect("warp_sync", false, act_sync, file, line); }

/* --- matrix moves (PTX ISA 9.7.14.5.15): lane 8 i + r names row r of matrix i; lane l holds columns 2 (l % 4) of row l / 4 --- */

static uint16_t *row_of(emu_warp *w, int lane, emu_access access) {
  emu_thread *t = &w->lane[lane];
  emu_actor a = emu_actor_of(t);
  return emu_touch_shared(w->block, &a, t->in[0], 16, access) ? (uint16_t *)(void *)(w->block->smem + t->in[0]) : NULL;
}

static void act_ldmatrix(emu_warp *w) {
  for (int i = 0; i < 4; i++)
    for (int r = 0; r < 8; r++) {
      const uint16_t *row = row_of(w, 8 * i + r, EMU_READ);
      for (int q = 0; q < 4; q++) w->lane[4 * r + q].out[i] = row ? row[2 * q] | (uint32_t)row[2 * q + 1] << 16 : 0;
    }
}
void emu_ldmatrix_x4(uint32_t *r, uint32_t a, EMU_SITE) {
  emu_me->in[0] = a;
  emu_thread *t = collect("ldmatrix", true, act_ldmatrix, file, line);
  emu_register_write(r, 16);
  memcpy(r, t->out, 16);
}

static void act_stmatrix(emu_warp *w) {
  for (int i = 0; i < 4; i++)
    for (int r = 0; r < 8; r++) {
      uint16_t *row = row_of(w, 8 * i + r, EMU_WRITE);
      for (int q = 0; row && q < 4; q++) memcpy(row + 2 * q, &w->lane[4 * r + q].in[1 + i], 4);
    }
}
void emu_stmatrix_x4(uint32_t a, const uint32_t *r, EMU_SITE) {
  emu_me->in[0] = a;
  memcpy(emu_me->in + 1, r, 16);
  (void)collect("stmatrix", true, act_stmatrix, file, line);
}

/* --- mma.sync m16n8k16 (PTX ISA 9.7.14.5.8) --- */

static void unpack(int type, float *two, uint32_t u) {
  uint16_t h[2] = {(uint16_t)u, (uint16_t)(u >> 16)};
  emu_decode_16(type, two, h, 2, 1);
}

static void act_mma(emu_warp *w) {
  float a[16][16], b[16][8], two[2];
  for (int l = 0; l < EMU_LANES; l++) {
    const uint32_t *in = w->lane[l].in;
    int type = (int)w->lane[l].out[0], g = l / 4, q = l % 4;
    for (int i = 0; i < 4; i++) {
      unpack(type, two, in[i]);
      memcpy(&a[g + 8 * (i & 1)][2 * q + 8 * (i >> 1)], two, 8);
    }
    for (int i = 0; i < 2; i++) {
      unpack(type, two, in[4 + i]);
      b[2 * q + 8 * i][g] = two[0];
      b[2 * q + 1 + 8 * i][g] = two[1];
    }
  }
  for (int l = 0; l < EMU_LANES; l++) {
    float *d = w->lane[l].p;
    for (int i = 0; i < 4; i++) {
      int row = l / 4 + 8 * (i >> 1), column = 2 * (l % 4) + (i & 1);
      for (int k = 0; k < 16; k++) d[i] += a[row][k] * b[k][column];
    }
  }
}
void emu_mma_m16n8k16(int f16, float *d, const uint32_t *a, uint32_t b0, uint32_t b1, EMU_SITE) {
  emu_thread *t = emu_me;
  memcpy(t->in, a, 16);
  t->in[4] = b0;
  t->in[5] = b1;
  t->out[0] = f16 ? EMU_WGMMA_F16 : EMU_WGMMA_BF16;
  t->p = d;
  t->at = (emu_site){file, line};
  emu_register_write(d, 16);
  (void)collect("mma", true, act_mma, file, line);
}
