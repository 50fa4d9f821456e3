#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/status.h"
#include "core/host_device.h"
#include "cpu/cpu.h"

/* "avx512, amx" for people. */
static void list_isas(uint32_t isas, char *text, size_t capacity) {
  size_t at = 0;
  text[0] = 0;
  for (int a = 0; a < GA_ISA_COUNT; a++) {
    if (!(isas >> a & 1)) continue;
    int n = snprintf(text + at, capacity - at, "%s%s", at ? " " : "", ga_isa_name((ga_isa)a));
    if (n < 0 || (size_t)n >= capacity - at) return;
    at += (size_t)n;
  }
}

static ga_status cpu_open(const char *spec, int threads, ga_device **out) {
  *out = NULL;
  GA_REQUIRE(!*spec, GA_ERR_ARG, "device cpu:%s: cpu takes no number; use the threads option", spec);
  GA_TRY(ga_host_device_create("cpu", threads, out));
  ga_device *device = *out;
  device->kernels = ga_cpu_rows(&device->n_kernels);
  device->caps.isas = ga_cpu_isas();
  char isas[64];
  list_isas(device->caps.isas, isas, sizeof isas);
  (void)snprintf(device->text, sizeof device->text, "CPU, %d threads, %s, %.1f GiB", device->caps.threads, isas,
                 (double)device->caps.memory_bytes * 0x1p-30);
  return GA_OK;
}

const ga_backend ga_cpu_backend = {.name = "cpu", .kernels = ga_cpu_rows, .open = cpu_open, .rank = 0};
