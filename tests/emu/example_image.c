/* The example kernels as the emulator has them: in the place of examples/tile_image.c. */
#include "examples/tile_image.h"

#include <string.h>

#include "emu/emu.h"

extern const emu_kernel emu_kernel_tile_gemm, emu_kernel_tile_softmax, emu_kernel_tile_layer_norm,
    emu_kernel_own_kernel;

void *example_image(const char *name) {
  static emu_kernel copies[4];
  const emu_kernel *all[] = {&emu_kernel_tile_gemm, &emu_kernel_tile_softmax, &emu_kernel_tile_layer_norm,
                             &emu_kernel_own_kernel};
  for (int i = 0; i < 4; i++)
    if (!strcmp(all[i]->id, name)) return memcpy(&copies[i], all[i], sizeof copies[i]);
  return NULL;
}

void example_image_free(void *image) { (void)image; }
