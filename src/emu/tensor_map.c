/* The checks of cuTensorMapEncodeTiled (CUDA Driver API, "Tensor Map Object Management"). */
#include "emu/tensor_map.h"

#include <string.h>

#include "emu/machine.h"

enum { OK = 0, INVALID_VALUE = 1 };

static int refuse_field(const char *what, unsigned long long seen, const char *allowed) {
  emu_report(EMU_RULE_TENSOR_MAP, (emu_site){NULL, 0}, "cuTensorMapEncodeTiled: %s = %llu; %s", what, seen, allowed);
  return INVALID_VALUE;
}

/* Bytes of the driver's type numbers: u8 u16 u32 i32 u64 i64 f16 f32 f64 bf16, then f32 and tf32 with flushing. */
static int element_bytes(int type) {
  static const uint8_t bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  return type < 0 || type >= (int)sizeof bytes ? 0 : bytes[type];
}

static int check_dims(unsigned rank, const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                      const uint32_t *element_strides) {
  for (unsigned i = 0; i < rank; i++) {
    if (!dims[i] || dims[i] > (uint64_t)1 << 32) return refuse_field("a dimension", dims[i], "1 to 2^32");
    if (!box[i] || box[i] > 256) return refuse_field("a box dimension", box[i], "1 to 256");
    if (element_strides[i] != 1)
      return refuse_field("an element stride", element_strides[i], "1 (others are not modelled)");
    if (i + 1 < rank && (strides[i] % 16 || strides[i] >= (uint64_t)1 << 40))
      return refuse_field("a stride in bytes", strides[i], "a multiple of 16 below 2^40");
  }
  return OK;
}

int emu_tmap_encode(void *map, int type, unsigned rank, void *base, const uint64_t *dims, const uint64_t *strides_bytes,
                    const uint32_t *box, const uint32_t *element_strides, int interleave, int swizzle, int l2,
                    int oob) {
  static const uint8_t spans[] = {0, 32, 64, 128};
  int element = element_bytes(type);
  uint64_t bytes = (uint64_t)element;
  if ((uintptr_t)map % 64) return refuse_field("address of the map", (uintptr_t)map, "aligned to 64");
  if (!element) return refuse_field("data type", (unsigned long long)type, "0 to 12");
  if (rank < 1 || rank > 5) return refuse_field("rank", rank, "1 to 5");
  if ((uintptr_t)base % 16) return refuse_field("global address", (uintptr_t)base, "aligned to 16");
  if (interleave) return refuse_field("interleave", (unsigned long long)interleave, "none (others are not modelled)");
  if (swizzle < 0 || swizzle > 3) return refuse_field("swizzle", (unsigned long long)swizzle, "0 to 3");
  if (oob == 1 && !(type >= 6 && type <= 12))
    return refuse_field("NaN fill with data type", (unsigned long long)type, "a floating type");
  if (l2 < 0 || l2 > 3 || oob < 0 || oob > 1)
    return refuse_field("L2 promotion or fill", (unsigned long long)l2, "0 to 3, 0 or 1");
  int bad = check_dims(rank, dims, strides_bytes, box, element_strides);
  if (bad) return bad;
  uint64_t inner = (uint64_t)box[0] * (uint64_t)element;
  if (inner % 16) return refuse_field("bytes of the box's first dimension", inner, "a multiple of 16");
  if (spans[swizzle] && inner > spans[swizzle])
    return refuse_field("bytes of the box's first dimension", inner, "at most the swizzle's span");
  for (unsigned i = 0; i < rank; i++) bytes *= box[i];
  if (bytes > EMU_SMEM_MAX) return refuse_field("bytes of the box", bytes, "at most a block's shared memory");
  if (!emu_is_device(base, 1)) return refuse_field("global address", (uintptr_t)base, "device memory");
  emu_tmap m = {.magic = EMU_TMAP_MAGIC,
                .rank = (uint8_t)rank,
                .element = (uint8_t)element,
                .swizzle = spans[swizzle],
                .nan_fill = (uint8_t)oob,
                .type = (uint8_t)type,
                .base = base};
  for (unsigned i = 0; i < 5; i++) {
    m.last[i] = i < rank ? (uint32_t)(dims[i] - 1) : 0;
    m.box[i] = i < rank ? (uint16_t)box[i] : 1;
    if (i && i < rank) m.stride[i - 1] = strides_bytes[i - 1];
  }
  memset(map, 0, 128);
  memcpy(map, &m, sizeof m);
  return OK;
}
