/* Products of attn_fp8_sm90a.cu: S = Q K^T, and parts of P V. */
#pragma once
#include "cuda/kern/attn_fp8/attn_fp8_warpgroup.h"

/* Issues S = Q K^T with the current stage of K. */
GA_DEV void issue_qk(const warpgroup *c, float *s) {
  const uint64_t dk = desc_rows(c->desc_k + c->stage_k * (K_BYTES >> 4)), dq = desc_rows(c->desc_q);
  enum { STEPS = ROW_BYTES / 32 }; /* number of steps of 32 along k in a panel */
  pin_f32(s, NS);
  wgmma_fence();
  QK0(s, dq, dk);
  GA_UNROLL for (int k = 1; k < D / 32; k++) QK(s, dq + (uint64_t)((k / STEPS) * (Q_PANEL >> 4) + 2 * (k % STEPS)),
                                                dk + (uint64_t)((k / STEPS) * (K_PANEL >> 4) + 2 * (k % STEPS)), 1);
  wgmma_commit();
}
/* Issues S of 64 keys in the current stage of K, from key 64 h on. The result is half h of s. */
GA_DEV void issue_half(const warpgroup *c, float *s, int h) {
  const uint64_t dk = desc_rows(c->desc_k + c->stage_k * (K_BYTES >> 4) + (uint32_t)h * (64 * ROW_BYTES >> 4)),
                 dq = desc_rows(c->desc_q);
  enum { STEPS = ROW_BYTES / 32 }; /* number of steps of 32 along k in a panel */
  float *d = s + h * (NS / 2);
  wgmma_fence();
  QK_HALF_NEW(d, dq, dk);
  GA_UNROLL for (int k = 1; k < D / 32; k++) QK_HALF(d, dq + (uint64_t)((k / STEPS) * (Q_PANEL >> 4) + 2 * (k % STEPS)),
                                                     dk + (uint64_t)((k / STEPS) * (K_PANEL >> 4) + 2 * (k % STEPS)));
  wgmma_commit();
}
GA_DEV int part_regs(int i) { return i == PARTS - 1 ? LAST_REGS : NPART; }
/* Issues part i of the columns of P V, over steps [from, to) of 32 keys each, with the current stage of V. Sums begin
 * at zero. The last part includes rows of ones that follow V; their products are the rows' sums of weights. */
GA_DEV void issue_pv(const warpgroup *c, float *part, uint32_t *p, int i, int from, int to) {
  const uint64_t dv = desc(c->desc_v + stage_v(c) * (V_STAGE >> 4) + (uint32_t)(i * PART) * (BN >> 4));
  pin_u32(p, NP);
  pin_f32(part, part_regs(i));
  wgmma_fence();
  GA_UNROLL for (int k = from; k < to; k++) {
    const uint64_t d = dv + (uint64_t)(2 * k);
    if (DV64 && i == PARTS - 1) {
      if (k == from)
        PV_ONES0(part, p + 4 * k, d);
      else
        PV_ONES(part, p + 4 * k, d, 1);
    } else {
      if (k == from)
        PV0(part, p + 4 * k, d);
      else
        PV(part, p + 4 * k, d, 1);
    }
  }
  wgmma_commit();
}
