/* Chunks of 64 columns of a unit of packed weights, read from shared memory one after the other. A lane so holds the
 * words of a chunk, not those of a unit. Scales are those of packed_bf16.h. t is the type of the weights; t and every
 * index except q are constants after unrolling. */
#pragma once
#include "cuda/kern/gemm/packed_bf16.h"

enum { PACKED_MOST_WS = 10 /* words of scales that a lane loads */ };

/* Returns whether a chunk of 64 columns has code word i. */
GA_DEV bool packed_chunk_has(int t, int chunk, int i) {
  const int chunks = PACKED_K(t) / 64, w4 = PACKED_W4(t) / chunks, w2 = PACKED_W2(t) / chunks,
            w1 = PACKED_W1(t) / chunks;
  if (i < PACKED_W4(t)) return i / w4 == chunk;
  if (i < PACKED_W4(t) + PACKED_W2(t)) return (i - PACKED_W4(t)) / w2 == chunk;
  return (i - PACKED_W4(t) - PACKED_W2(t)) / w1 == chunk;
}

/* Loads the lane's code words of a chunk from the unit at shared address `unit` to their places in w
 * [PACKED_CODES(t)]. */
GA_DEV void packed_fetch_chunk(int t, uint32_t *w, uint32_t unit, int chunk, int lane) {
  const int wide = PACKED_W1(t) == 2 ? PACKED_CODES(t) - 2 : PACKED_CODES(t);
  GA_UNROLL for (int i = 0; i < wide; i += 4) {
    const int any = packed_chunk_has(t, chunk, i) || packed_chunk_has(t, chunk, i + 1) ||
                    packed_chunk_has(t, chunk, i + 2) || packed_chunk_has(t, chunk, i + 3);
    if (any) lds_u4(w + i, unit + (uint32_t)packed_code_at(t, i, lane));
  }
  GA_UNROLL for (int i = wide; i < PACKED_CODES(t); i++) if (packed_chunk_has(t, chunk, i)) w[i] =
      float_bits(lds_f1(unit + (uint32_t)packed_code_at(t, i, lane)));
}

/* Computes the runs that the lane owns (packed_own_run) of the unit at shared address `unit`. */
GA_DEV void packed_fetch_runs(int t, packed_run *own, uint32_t unit, int lane) {
  const int g = lane / 4, q = lane % 4;
  uint32_t s[PACKED_MOST_WS];
  if (PACKED_PLAIN(t)) return;
  if (PACKED_ONE_RUN(t)) {
    GA_UNROLL for (int r = 0; r < 2; r++) s[r] = float_bits(lds_f1(unit + (uint32_t)packed_scale_at(t, r, g)));
  } else if (!PACKED_256(t)) {
    s[0] = float_bits(lds_f1(unit + (uint32_t)packed_scale_at(t, t == T_MXFP4 ? q / 2 : q, g)));
    if (PACKED_MIN(t)) s[1] = float_bits(lds_f1(unit + (uint32_t)packed_scale_at(t, 4 + q, g)));
  } else {
    const int fours = PACKED_WS(t) % 4 == 0 || PACKED_WS(t) > 8 ? PACKED_WS(t) / 4 * 4 : 0;
    GA_UNROLL for (int i = 0; i < fours; i += 4) lds_u4(s + i, unit + (uint32_t)packed_scale_at(t, i, g));
    GA_UNROLL for (int i = fours; i < PACKED_WS(t); i++) s[i] =
        float_bits(lds_f1(unit + (uint32_t)packed_scale_at(t, i, g)));
  }
  GA_UNROLL for (int j = 0; j < PACKED_OWN(t); j++) packed_own_run(t, s, j, q, &own[j]);
}

/* Computes the fragments of operand A of a chunk: 4 registers for every 16 columns. Elements of f16 are rounded to
 * bf16. */
GA_DEV void packed_chunk_bf16(int t, const uint32_t *w, const packed_run *own, int chunk, uint32_t *f) {
  if (!PACKED_PLAIN(t)) {
    packed_chunk(t, w, own, chunk, f);
    return;
  }
  GA_UNROLL for (int i = 0; i < 4; i++) packed_step(t, w, 2 * chunk + i / 2, i % 2, f + 4 * i);
}

/* Returns 0 after the loads of a chunk have arrived in registers (loads_done in ptx/mem.h). */
GA_DEV uint32_t packed_chunk_done(int t, const uint32_t *w, int chunk) {
  uint32_t any = 0;
  GA_UNROLL for (int i = 0; i < PACKED_CODES(t); i++) any |= packed_chunk_has(t, chunk, i) ? w[i] : 0;
  return loads_done(&any, 1, 1);
}
