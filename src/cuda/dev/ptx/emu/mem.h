/* Emulator bodies of the functions in ../mem.h. */
#pragma once
#include "cuda/dev/ptx/emu/base.h"

typedef struct {
  int x, y, z, w;
} ga_i4;

GA_DEV ga_i4 lds_i4(uint32_t a, EMU_AT) {
  ga_i4 r;
  emu_lds(&r, a, 16, file, line);
  return r;
}
GA_DEV uint32_t loads_done(const uint32_t *, int, int, EMU_AT) {
  emu_loads_done(file, line);
  return 0;
}
GA_DEV uint32_t loads_done_f32(const float *, int, int, EMU_AT) {
  emu_loads_done(file, line);
  return 0;
}
GA_DEV void sts_i4(uint32_t a, int x, int y, int z, int w, EMU_AT) {
  const ga_i4 v = {x, y, z, w};
  emu_sts(a, &v, 16, file, line);
}
GA_DEV ga_i4 lds_cluster_i4(uint32_t a, EMU_AT) {
  ga_i4 r;
  emu_lds_cluster(&r, a, 16, file, line);
  return r;
}
GA_DEV void sts_cluster_i4(uint32_t a, int x, int y, int z, int w, EMU_AT) {
  const ga_i4 v = {x, y, z, w};
  emu_sts_cluster(a, &v, 16, file, line);
}
GA_DEV void sts_async_i4(uint32_t a, int x, int y, int z, int w, uint32_t bar, EMU_AT) {
  const ga_i4 v = {x, y, z, w};
  emu_sts_async(a, &v, 16, bar, file, line);
}
GA_DEV int ldg_i32(const int32_t *p, EMU_AT) {
  int r;
  emu_ldg(&r, p, 4, file, line);
  return r;
}
GA_DEV int ldg_i32_cg(const int32_t *p, EMU_AT) { return ldg_i32(p, file, line); }
GA_DEV ga_i4 ldg_i4_cg(const void *p, EMU_AT) {
  ga_i4 r;
  emu_ldg(&r, p, 16, file, line);
  return r;
}
GA_DEV uint16_t ldg_u16(const uint16_t *p, EMU_AT) {
  uint16_t r;
  emu_ldg(&r, p, 2, file, line);
  return r;
}
GA_DEV float ldg_f32(const float *p, EMU_AT) {
  float r;
  emu_ldg(&r, p, 4, file, line);
  return r;
}
GA_DEV void stg_f32(float *p, float x, EMU_AT) { emu_stg(p, &x, 4, file, line); }
GA_DEV void stg_f2(float *p, float x, float y, EMU_AT) {
  const float v[2] = {x, y};
  emu_stg(p, v, 8, file, line);
}
GA_DEV void stg_i32(int32_t *p, int x, EMU_AT) { emu_stg(p, &x, 4, file, line); }
GA_DEV void stg_u16(uint16_t *p, uint16_t x, EMU_AT) { emu_stg(p, &x, 2, file, line); }
GA_DEV void stg_u4(void *p, uint32_t x, uint32_t y, uint32_t z, uint32_t w, EMU_AT) {
  const uint32_t v[4] = {x, y, z, w};
  emu_stg(p, v, 16, file, line);
}
GA_DEV int atomic_add_i32(int32_t *p, int x, EMU_AT) { return emu_atomic_add_i32(p, x, file, line); }
GA_DEV float atomic_add_f32(float *p, float x, EMU_AT) {
  float old;
  emu_atomic_add(EMU_ADD_F32, p, &x, 4, &old, file, line);
  return old;
}
GA_DEV void red_add_f32(float *p, float x, EMU_AT) { emu_atomic_add(EMU_ADD_F32, p, &x, 4, 0, file, line); }
GA_DEV void red_add_f32x4(float *p, float x, float y, float z, float w, EMU_AT) {
  const float v[4] = {x, y, z, w};
  emu_atomic_add(EMU_ADD_F32, p, v, 16, 0, file, line);
}
GA_DEV void red_add_f16x2(void *p, uint32_t x, EMU_AT) { emu_atomic_add(EMU_ADD_F16, p, &x, 4, 0, file, line); }
GA_DEV void red_add_bf16x2(void *p, uint32_t x, EMU_AT) { emu_atomic_add(EMU_ADD_BF16, p, &x, 4, 0, file, line); }
GA_DEV void fence_device(EMU_AT) { emu_fence_device(file, line); }
GA_DEV void lds_f2(float *x, uint32_t a, EMU_AT) { emu_lds(x, a, 8, file, line); }
GA_DEV void lds_f4(float *x, uint32_t a, EMU_AT) { emu_lds(x, a, 16, file, line); }
GA_DEV void sts_f4(uint32_t a, const float *x, EMU_AT) { emu_sts(a, x, 16, file, line); }
GA_DEV void ldg_f4(float *x, const float *p, EMU_AT) { emu_ldg(x, p, 16, file, line); }
GA_DEV void stg_f4(float *p, const float *x, EMU_AT) { emu_stg(p, x, 16, file, line); }
GA_DEV void semaphore_signal(int32_t *p, EMU_AT) {
  emu_fence_device(file, line);
  (void)emu_atomic_add_i32(p, 1, file, line);
}
/* Checks the count once and does not wait. The emulator runs blocks one after the other, so a count that is too low
 * stays too low. The kernel's result is then wrong, and its test fails. */
GA_DEV void semaphore_wait(int32_t *p, int least, EMU_AT) {
  if (emu_atomic_add_i32(p, 0, file, line) >= least) emu_fence_device(file, line);
}
