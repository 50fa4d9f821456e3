/* Copies of mla_decode_sm90a.cu, by the first warp of a warpgroup: blocks of the cache to shared memory. Block i is in
 * stage i % STAGES. */
#pragma once
#include "cuda/dev/ptx/bulk.h"
#include "cuda/kern/mla/mla_decode_shape.h"

/* Numbers of 32 pages from entry 32 held on, one in each lane. */
typedef struct {
  int held, page;
} pages;

/* Returns the row of the cache with token `token` of the block's sequence. All lanes of the warp call. Tokens after the
 * last page that is seen have its rows. */
GA_DEV int cache_row(args a, const mla_unit *u, pages *p, int token) {
  const int size = a->m.page_size, want = token / size, end = (u->to - 1) / size, entry = want < end ? want : end;
  if (entry / 32 != p->held) {
    const int own = entry / 32 * 32 + thread_index() % 32;
    p->held = entry / 32;
    p->page = ldg_i32(a->m.page_table + u->b * a->m.page_stride + (own < end ? own : end));
  }
  return (int)shfl_idx_u32((uint32_t)p->page, entry % 32) * size + token % size;
}

GA_DEV uint64_t cache_policy(args a) { return a->m.tiles > 1 ? L2_EVICT_LAST : L2_EVICT_FIRST; }

/* Copies half of V of block i. */
GA_DEV void copy_half(args a, uint32_t sb, const work *w, pages *p, int i, int half) {
  const uint32_t full = bar_at(sb, i, BAR_V + 8 * half), to = ring_at(sb, i) + (uint32_t)(half * HALF);
  if (warp_elect()) mbar_arrive_expect(full, HALF);
  warp_sync();
  GA_ROLL for (int b = 0; b < KEYS; b += a->box_rows) {
    const int row = cache_row(a, &w->u, p, w->first + i * KEYS + b);
    const uint32_t at = to + (uint32_t)(b * PANEL_ROW_BYTES);
    if (warp_elect()) {
      if (a->box_rows == KEYS)
        bulk_load_3d(at, &a->latent, full, 0, row, 4 * half, cache_policy(a));
      else
        GA_ROLL for (int c = 0; c < 4; c++)
            bulk_load_3d(at + (uint32_t)(c * PANEL), &a->rope, full, 0, row, 4 * half + c, cache_policy(a));
    }
    warp_sync();
  }
}

/* Copies the rotated parts of block i. */
GA_DEV void copy_rotated_parts(args a, uint32_t sb, const work *w, pages *p, int i) {
  const uint32_t full = bar_at(sb, i, BAR_R), to = ring_at(sb, i) + ROTATED;
  if (warp_elect()) mbar_arrive_expect(full, PANEL);
  warp_sync();
  GA_ROLL for (int b = 0; b < KEYS; b += a->box_rows) {
    const int row = cache_row(a, &w->u, p, w->first + i * KEYS + b);
    if (warp_elect()) bulk_load_3d(to + (uint32_t)(b * PANEL_ROW_BYTES), &a->rope, full, 0, row, 8, cache_policy(a));
    warp_sync();
  }
}
