#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/status.h"
#include "core/host_device.h"
#include "core/rows.h"
#include "cpu/cpu.h"
#include "cpu/cpu_layer.h"
#include "cpu/gemm_rows.h"

static const ga_kernel rows[] = {
#define GA_CPU(op_, dtypes_, mode_, arch_, tile_, file_, launch_, ok_, score_, tolerance_)                  \
  GA_ROW(op_, dtypes_, mode_, arch_, tile_, .source = file_, .launch = launch_, .ok = ok_, .score = score_, \
         .tolerance = tolerance_),
#define GA_CPU_SPACE(op_, dtypes_, mode_, arch_, tile_, file_, launch_, ok_, workspace_, score_, tolerance_)        \
  GA_ROW(op_, dtypes_, mode_, arch_, tile_, .source = file_, .launch = launch_, .ok = ok_, .workspace = workspace_, \
         .score = score_, .tolerance = tolerance_),
#include "cpu/gemm.def"
#include "cpu/layer.def"
#undef GA_CPU_SPACE
#undef GA_CPU
};

static const ga_kernel *cpu_kernels(size_t *n) {
  *n = GA_COUNT_OF(rows);
  return rows;
}

/* "avx512, amx" for people. */
static void list_archs(uint32_t archs, char *text, size_t capacity) {
  size_t at = 0;
  text[0] = 0;
  for (int a = 0; a < GA_ARCH_COUNT; a++) {
    if (!(archs >> a & 1)) continue;
    int n = snprintf(text + at, capacity - at, "%s%s", at ? " " : "", ga_arch_name((ga_arch)a));
    if (n < 0 || (size_t)n >= capacity - at) return;
    at += (size_t)n;
  }
}

static ga_status cpu_open(const char *spec, int threads, ga_device **out) {
  *out = NULL;
  GA_REQUIRE(!*spec, GA_ERR_ARG, "device cpu:%s: cpu takes no number; use the threads option", spec);
  GA_TRY(ga_host_device_create("cpu", threads, out));
  ga_device *device = *out;
  device->kernels = cpu_kernels(&device->n_kernels);
  device->caps.archs = ga_cpu_archs();
  char archs[64];
  list_archs(device->caps.archs, archs, sizeof archs);
  (void)snprintf(device->text, sizeof device->text, "CPU, %d threads, %s, %.1f GiB", device->caps.threads, archs,
                 (double)device->caps.memory_bytes * 0x1p-30);
  return GA_OK;
}

const ga_backend ga_cpu_backend = {.name = "cpu", .kernels = cpu_kernels, .open = cpu_open, .rank = 0};
