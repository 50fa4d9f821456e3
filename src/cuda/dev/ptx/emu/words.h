/* Emulator bodies of the functions in ../words.h. */
#pragma once
#include "cuda/dev/ptx/emu/mma.h"
#include "cuda/dev/ptx/emu/num.h"

GA_DEV void ldg_stream_u4(uint32_t *r, const void *p, EMU_AT) { emu_ldg(r, p, 16, file, line); }
GA_DEV void ldg_stream_u2(uint32_t *r, const void *p, EMU_AT) { emu_ldg(r, p, 8, file, line); }
GA_DEV void ldg_stream_u1(uint32_t *r, const void *p, EMU_AT) { emu_ldg(r, p, 4, file, line); }
GA_DEV void stg_u2(void *p, uint32_t x, uint32_t y, EMU_AT) {
  const uint32_t v[2] = {x, y};
  emu_stg(p, v, 8, file, line);
}
GA_DEV uint32_t shfl_quad_u32(uint32_t x, int lane, EMU_AT) {
  return emu_shfl(x, emu_thread_index() % 32 / 4 * 4 + lane, 1, file, line);
}
GA_DEV void lds_u4(uint32_t *r, uint32_t a, EMU_AT) { emu_lds(r, a, 16, file, line); }
GA_DEV void lds_nv_u2(uint32_t *r, uint32_t a, EMU_AT) { emu_lds(r, a, 8, file, line); }
GA_DEV void lds_nv_u1(uint32_t *r, uint32_t a, EMU_AT) { emu_lds(r, a, 4, file, line); }
GA_DEV void sts_u1(uint32_t a, uint32_t x, EMU_AT) { emu_sts(a, &x, 4, file, line); }
GA_DEV float lds_f1(uint32_t a, EMU_AT) {
  float x;
  emu_lds(&x, a, 4, file, line);
  return x;
}
GA_DEV void sts_u2(uint32_t a, uint32_t x, uint32_t y, EMU_AT) {
  const uint32_t v[2] = {x, y};
  emu_sts(a, v, 8, file, line);
}
GA_DEV void sts_f1(uint32_t a, float x, EMU_AT) { emu_sts(a, &x, 4, file, line); }
GA_DEV void sts_f2(uint32_t a, float x, float y, EMU_AT) {
  const float v[2] = {x, y};
  emu_sts(a, v, 8, file, line);
}

GA_DEV void lds_nv_u4(uint32_t *r, uint32_t a, EMU_AT) { emu_lds(r, a, 16, file, line); }
GA_DEV void lds_nv_f2(float *r, uint32_t a, EMU_AT) { emu_lds(r, a, 8, file, line); }
GA_DEV void mma_nv_bf16(float *d, const uint32_t *a, uint32_t b0, uint32_t b1, EMU_AT) {
  mma_m16n8k16_bf16(d, a, b0, b1, file, line);
}
GA_DEV uint16_t lds_nv_u16(uint32_t a, EMU_AT) {
  uint16_t x;
  emu_lds(&x, a, 2, file, line);
  return x;
}
GA_DEV void mma_nv_f16(float *d, const uint32_t *a, uint32_t b0, uint32_t b1, EMU_AT) {
  mma_m16n8k16_f16(d, a, b0, b1, file, line);
}
GA_DEV float lds_nv_f1(uint32_t a, EMU_AT) { return lds_f1(a, file, line); }
GA_DEV void mma_nv_tf32(float *d, const uint32_t *a, uint32_t b0, uint32_t b1, EMU_AT) {
  mma_m16n8k8_tf32(d, a, b0, b1, file, line);
}
GA_DEV void mma_nv_s8(int *d, const uint32_t *a, uint32_t b0, uint32_t b1, int c, EMU_AT) {
  d[0] = d[1] = d[2] = d[3] = c;
  mma_m16n8k32_s8(d, a, b0, b1, file, line);
}
/* Computes d = c + a b for unsigned bytes in a, by signed products. Each byte of a is its low 7 bits plus, for its top
 * bit, twice 64. */
GA_DEV void mma_nv_u8_s8(int *d, const uint32_t *a, uint32_t b0, uint32_t b1, int c, EMU_AT) {
  uint32_t low[4], top[4];
  for (int i = 0; i < 4; i++) low[i] = a[i] & 0x7f7f7f7fu, top[i] = a[i] >> 1 & 0x40404040u;
  d[0] = d[1] = d[2] = d[3] = c;
  mma_m16n8k32_s8(d, low, b0, b1, file, line);
  mma_m16n8k32_s8(d, top, b0, b1, file, line);
  mma_m16n8k32_s8(d, top, b0, b1, file, line);
}
GA_DEV void mma_nv_add_s8(int *d, const uint32_t *a, uint32_t b0, uint32_t b1, EMU_AT) {
  mma_m16n8k32_s8(d, a, b0, b1, file, line);
}
GA_DEV void mma_nv_add_s8_k16(int *d, const uint32_t *a, uint32_t b0, EMU_AT) {
  emu_mma(EMU_WGMMA_S8, 16, d, a, &b0, file, line);
}
GA_DEV void mma_nv_s8_k16(int *d, const uint32_t *a, uint32_t b0, int c, EMU_AT) {
  d[0] = d[1] = d[2] = d[3] = c;
  emu_mma(EMU_WGMMA_S8, 16, d, a, &b0, file, line);
}
GA_DEV float max_size(float x, float y) { return x != x || y != y ? NAN : fmaxf(fabsf(x), fabsf(y)); }
GA_DEV uint32_t and_or(uint32_t x, uint32_t mask, uint32_t bits) { return (x & mask) | bits; }
GA_DEV uint32_t prmt(uint32_t a, uint32_t b, uint32_t sel) {
  const uint64_t all = (uint64_t)b << 32 | a;
  uint32_t r = 0;
  for (int i = 0; i < 4; i++) r |= (uint32_t)(all >> 8 * (sel >> 4 * i & 7) & 255) << 8 * i;
  return r;
}
GA_DEV uint32_t prmt_sign(uint32_t a, uint32_t b, uint32_t sel) {
  const uint64_t all = (uint64_t)b << 32 | a;
  uint32_t r = 0;
  for (int i = 0; i < 4; i++) {
    const uint32_t byte = all >> 8 * (sel >> 4 * i & 7) & 255;
    r |= (sel >> 4 * i & 8 ? (byte >> 7) * 255 : byte) << 8 * i;
  }
  return r;
}
/* Returns x * y + z in bf16, rounded once. A double holds the product exactly. The intermediate float is rounded to
 * odd: its last bit is set if it is inexact. The second rounding then gives the same result as a single one. */
GA_DEV uint32_t emu_fma_bf16(uint32_t x, uint32_t y, uint32_t z) {
  const double exact = (double)emu_float(x << 16) * (double)emu_float(y << 16) + (double)emu_float(z << 16);
  float f = (float)exact;
  if (isfinite(f) && (double)f != exact) {
    if (fabs((double)f) > fabs(exact)) f = nextafterf(f, 0.0f);
    f = emu_float(emu_bits(f) | 1);
  }
  return emu_bf16(f);
}
GA_DEV uint32_t fma_bf16x2(uint32_t x, uint32_t y, uint32_t z) {
  return emu_fma_bf16(x & 0xffff, y & 0xffff, z & 0xffff) | emu_fma_bf16(x >> 16, y >> 16, z >> 16) << 16;
}
GA_DEV uint32_t emu_add_f16(uint32_t x, uint32_t y) {
  return emu_f16(emu_f32_of_f16((uint16_t)x) + emu_f32_of_f16((uint16_t)y));
}
GA_DEV uint32_t add_f16x2(uint32_t x, uint32_t y) {
  return emu_add_f16(x & 0xffff, y & 0xffff) | emu_add_f16(x >> 16, y >> 16) << 16;
}
GA_DEV uint32_t twice_16(uint32_t x, int half) { return half ? x >> 16 | (x & 0xffff0000u) : x << 16 | (x & 0xffffu); }
GA_DEV uint32_t add_bf16x2(uint32_t x, uint32_t y) {
  return emu_bf16(emu_float(x << 16) + emu_float(y << 16)) |
         emu_bf16(emu_float(x & 0xffff0000u) + emu_float(y & 0xffff0000u)) << 16;
}
