/* The contents of a tensor map (128 bytes) in the emulator. */
#ifndef GA_EMU_TENSOR_MAP_H
#define GA_EMU_TENSOR_MAP_H

#include <stdint.h>

#define EMU_TMAP_MAGIC 0x70616d74u

typedef struct emu_tmap {
  uint32_t magic;
  /* rank is the number of dimensions, element the size of an element in bytes. swizzle is the span of the swizzle in
   * bytes, 0: none. nan_fill: elements outside are read as NaN. type: the driver's number. */
  uint8_t rank, element, swizzle, nan_fill, type;
  uint8_t *base;
  uint64_t stride[4]; /* Strides in bytes of all dimensions but the first, which is contiguous. */
  uint32_t last[5];   /* The size of each dimension, minus 1. */
  uint16_t box[5];
  uint16_t spare;
} emu_tmap;
_Static_assert(sizeof(emu_tmap) <= 128, "a tensor map is 128 bytes");

#endif
