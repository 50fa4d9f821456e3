/* Moves within a warp: each lane's results, or the shared memory that they left. One warp. */
#include "cuda/dev/ptx/cp_async.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/mma.h"
#include "tests/emu/bits.h"

GA_DEV void dump(const bits_args *a, uint32_t sb, int t) {
  warp_sync();
  for (int i = t; i < 64; i += 32) {
    const ga_i4 x = lds_i4(sb + 16 * i);
    stg_u4(a->out + 4 * i, (uint32_t)x.x, (uint32_t)x.y, (uint32_t)x.z, (uint32_t)x.w);
  }
}

GA_DEV void put_lane(const bits_args *a, int t, int i, uint32_t x) { stg_i32((int32_t *)a->out + 32 * i + t, (int)x); }

GA_DEV void shuffles(const bits_args *a, uint32_t x, int t) {
  put_lane(a, t, 0, shfl_idx_u32(x, t * 5 + 37));
  put_lane(a, t, 1, shfl_xor_u32(x, 9));
  put_lane(a, t, 2, shfl_up_u32(x, 3));
  put_lane(a, t, 3, shfl_down_u32(x, 7));
  put_lane(a, t, 4, warp_ballot((int)(x >> 31)));
  put_lane(a, t, 5,
           (uint32_t)(warp_any(t == 3) | warp_any(t == 33) << 1 | warp_all(t < 32) << 2 | warp_all(t < 31) << 3));
}

GA_DEV void reductions(const bits_args *a, uint32_t x, int t) {
  put_lane(a, t, 0, redux_add_u32(x));
  put_lane(a, t, 1, redux_and_u32(x | 0xff00ff00u));
  put_lane(a, t, 2, redux_or_u32(x & 0x00ff00ffu));
  put_lane(a, t, 3, (uint32_t)redux_min_i32((int)x));
  put_lane(a, t, 4, (uint32_t)redux_max_i32((int)x));
}

GA_KERNEL(32, 1) GA_KERNEL_ID(GA_GRID_CONST bits_args args) {
  const bits_args *a = &args;
  const uint32_t sb = smem_base();
  const int t = thread_index();
  const int32_t *in = (const int32_t *)a->in;
  const uint32_t row = sb + (uint32_t)((t * 7 & 31) * 16); /* rows in another order than lanes */
  uint32_t r[4] = {0, 0, 0, 0};
  for (int i = t; i < 64; i += 32)
    sts_i4(sb + 16 * i, ldg_i32(in + 4 * i), ldg_i32(in + 4 * i + 1), ldg_i32(in + 4 * i + 2), ldg_i32(in + 4 * i + 3));
  warp_sync();
  const uint32_t x = (uint32_t)ldg_i32(in + 256 + t);
  const uint32_t s[4] = {x, x * 3, x * 5, x * 7};
  switch (a->what) {
  case BITS_LDMATRIX_X4: ldmatrix_x4(r, row); break;
  case BITS_LDMATRIX_X4_TRANS: ldmatrix_x4_trans(r, row); break;
  case BITS_LDMATRIX_X2: ldmatrix_x2(r, row); break;
  case BITS_LDMATRIX_X2_TRANS: ldmatrix_x2_trans(r, row); break;
  case BITS_STMATRIX_X4: stmatrix_x4(row, s[0], s[1], s[2], s[3]); break;
  case BITS_STMATRIX_X4_TRANS: stmatrix_x4_trans(row, s[0], s[1], s[2], s[3]); break;
  case BITS_STMATRIX_X2: stmatrix_x2(row, s[0], s[1]); break;
  case BITS_SHUFFLES: shuffles(a, x, t); return;
  case BITS_REDUX: reductions(a, x, t); return;
  case BITS_CP_ASYNC:
    cp_async_16(sb + 32 * t, a->in + 4 * t, t % 17);
    cp_async_8(sb + 32 * t + 16, a->in + 2 * t, t % 9);
    cp_async_4(sb + 32 * t + 24, a->in + t, t % 5);
    cp_async_commit();
    cp_async_wait(0);
    break;
  default: break;
  }
  dump(a, sb, t);
  for (int i = 0; i < 4; i++) put_lane(a, t, 8 + i, r[i]);
}
