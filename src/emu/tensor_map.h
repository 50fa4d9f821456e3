/* The emulator's contents of the 128 bytes of a tensor map. */
#ifndef GA_EMU_TENSOR_MAP_H
#define GA_EMU_TENSOR_MAP_H

#include <stdint.h>

#define EMU_TMAP_MAGIC 0x70616d74u

typedef struct emu_tmap {
  uint32_t magic;
  uint8_t rank, element, swizzle, nan_fill, type; /* element: bytes; swizzle: span in bytes, 0 none */
  uint8_t *base;
  uint64_t stride[4]; /* bytes, of dimensions 1.. */
  uint32_t last[5];   /* size - 1 */
  uint16_t box[5];
  uint16_t spare;
} emu_tmap;
_Static_assert(sizeof(emu_tmap) <= 128, "a tensor map is 128 bytes");

#endif
