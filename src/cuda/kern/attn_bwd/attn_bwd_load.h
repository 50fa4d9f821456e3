/* Loads of the producer in attn_bwd_sm90a.cu and attn_bwd_kv_resident_sm90a.cu, and the ring of stages of Q and dO. */
#pragma once
#include "cuda/dev/ptx/barrier.h"
#include "cuda/dev/ptx/bulk.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/kern/attn_bwd/attn_bwd_tiles.h"

/* Initialises the mbarriers of the ring of Q and dO. */
GA_DEV void init_ring(uint32_t sb) {
  for (int i = 0; i < ST; i++) {
    mbar_init(sb + OFF_QF + 8 * i, 1);
    mbar_init(sb + OFF_QE + 8 * i, WGS);
    mbar_init(sb + OFF_OF + 8 * i, 1);
    mbar_init(sb + OFF_OE + 8 * i, WGS);
  }
}
GA_DEV void load_panels(uint32_t dst, const ga_tmap *map, uint32_t bar, int row, int head, int batch, uint64_t policy) {
  GA_UNROLL for (int i = 0; i < PANELS * BOXES; i++) bulk_load_4d(dst + i * BOX_BYTES, map, bar, i / BOXES * PANEL_COLS,
                                                                  row + i % BOXES * GA_KBWD_ROWS, head, batch, policy);
}
/* Loads the 128 rows of K or V of the tile in `record` to shared address dst: two boxes for each panel of 64
 * columns. */
GA_DEV void load_kv(uint32_t record, uint32_t dst, const ga_tmap *map, uint32_t bar, int packed) {
  const tile t = tile_get(record);
  mbar_arrive_expect(bar, K_BYTES);
  GA_UNROLL for (int i = 0; i < 2 * PANELS; i++)
      bulk_load_4d(dst + i * BOX_BYTES, map, bar, i / 2 * PANEL_COLS, t.start_k + t.n * BN + i % 2 * GA_KBWD_ROWS,
                   t.head, packed ? 0 : t.batch, L2_EVICT_FIRST);
}
/* Loads V of tile number i of this thread block, once the buffer of V is free. */
GA_DEV void load_v(args a, uint32_t sb, uint32_t i) {
  wait_v_room(sb, i);
  load_kv(record_of(sb, i), sb + OFF_V, &a->v, sb + OFF_VF, is_packed(a));
}
/* Position of the producer in the ring of Q and dO: stage and mbarrier parity. */
typedef struct {
  int stage, parity;
} stages;
/* Loads the Q and dO of tile number i, by blocks of queries within a query head, and V after the first Q. The tile's
 * record is read again for every block, because the producer has few registers. */
GA_DEV void feed(args a, uint32_t sb, uint32_t i, stages *at) {
  const uint32_t record = record_of(sb, i);
  const ga_i4 start = lds_i4(record);
  int head = start.y * a->group, m = start.w, stage = at->stage, parity = at->parity;
  GA_ROLL for (int first = 1;; first = 0) {
    const uint32_t qf = sb + OFF_QF + 8 * stage, of = sb + OFF_OF + 8 * stage;
    mbar_wait(sb + OFF_QE + 8 * stage, parity);
    const int batch = lds_i4(record).z, row = EXTRAS ? lds_i4(record + 32).y + m * BM : m * BM;
    mbar_arrive_expect(qf, Q_BYTES + STAT_BYTES);
    load_panels(sb + OFF_Q + stage * Q_BYTES, &a->q, qf, row, head, is_packed(a) ? 0 : batch, L2_EVICT_LAST);
    GA_UNROLL for (int b = 0; b < BOXES; b++)
        bulk_load_4d(sb + OFF_STAT + stage * STAT_BYTES + b * STAT_BOX_BYTES, &a->stat, qf, m * BM + b * GA_KBWD_ROWS,
                     0, head, batch, L2_EVICT_LAST);
    if (first) load_v(a, sb, i);
    mbar_wait(sb + OFF_OE + 8 * stage, parity);
    mbar_arrive_expect(of, Q_BYTES);
    load_panels(sb + OFF_O + stage * Q_BYTES, &a->dout, of, row, head, is_packed(a) ? 0 : batch, L2_EVICT_LAST);
    if (++stage == ST) {
      stage = 0;
      parity ^= 1;
    }
    if (++m < lds_i4(record + 16).x) continue;
    m = lds_i4(record).w;
    if (++head == (lds_i4(record).y + 1) * a->group) break;
  }
  at->stage = stage;
  at->parity = parity;
}
