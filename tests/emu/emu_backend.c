/* Backend "emu" = the CUDA backend over the emulated driver. Its images are the rows compiled for the host
 * (src/emu/row.cpp). */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "base/status.h"
#include "cpu/cpu.h"
#include "cuda/rt/cuda.h"
#include "emu/emu.h"
#include "ref/ref.h"
#include "tests/emu/emu_driver.h"
#include "verify/check/internal.h"

/* Written by the build: EMU_ROW(id) for each compiled row. */
#define EMU_ROW(id) extern const emu_kernel emu_kernel_##id;
#include "emu/emu_rows.def"
#undef EMU_ROW

#define EMU_ROW(id_) {#id_, (const unsigned char *)&emu_kernel_##id_, (const unsigned char *)(&emu_kernel_##id_ + 1)},
static cuda_image images[] = {
#include "emu/emu_rows.def"
    {0}};
#undef EMU_ROW

static const cuda_source no_sources[] = {{0}};

/* GA_EMU_PLUGIN=file.so: its kernels take the place of those of the same id. tests/emu/mutate.py uses it. */
static ga_status take_plugin(void) {
  const char *path = getenv("GA_EMU_PLUGIN");
  if (!path) return GA_OK;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  GA_REQUIRE(library, GA_ERR_IO, "GA_EMU_PLUGIN: %s", dlerror());
  for (cuda_image *i = images; i->id; i++) {
    char symbol[200];
    (void)snprintf(symbol, sizeof symbol, "emu_kernel_%s", i->id);
    const void *kernel = dlsym(library, symbol);
    if (kernel) i->data = kernel;
  }
  return GA_OK;
}

static ga_status emu_open(const char *spec, int threads, ga_device **out) {
  *out = NULL;
  GA_TRY(take_plugin());
  ga_cu_replace(&emu_driver);
  cuda_replace_tables(images, no_sources);
  ga_status status = ga_cuda_backend.open(spec, threads, out);
  if (status != GA_OK) return status;
  (void)snprintf((*out)->name, sizeof(*out)->name, *spec ? "emu:%.20s" : "emu", spec);
  return GA_OK;
}

const ga_backend ga_emu_backend = {.name = "emu", .kernels = cuda_rows, .open = emu_open, .rank = -1};

/* Every draw has a schedule of its own. Of six draws one does its asynchronous operations at any time instead of late,
 * and one of normal values (draw % 3 = 1, see draw_desc.c) perturbs approximations by half of their documented error.
 * GA_EMU says otherwise. */
void check_draw_begins(uint64_t seed, int64_t draw) {
  emu_options *o = emu_settings();
  if (getenv("GA_EMU")) return;
  o->seed = 1000 * seed + (uint64_t)draw;
  o->when = draw % 6 == 2 ? EMU_MIXED : EMU_LATE;
  o->perturb = draw % 6 == 1 ? 0.5 : 0;
}

/* This program's backends: in the place of src/backends.c. */
const ga_backend *const ga_backends[] = {&ga_cpu_backend, &ga_emu_backend, &ga_ref_backend};
const size_t ga_n_backends = GA_COUNT_OF(ga_backends);
