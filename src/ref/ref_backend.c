#include <stdio.h>

#include "base/compiler.h"
#include "base/status.h"
#include "core/host_device.h"
#include "ref/ref.h"

const char *ga_ref_always(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)desc, (void)caps;
  return NULL;
}

static ga_status ref_open(const char *spec, int threads, ga_device **out) {
  (void)threads;
  *out = NULL;
  GA_REQUIRE(!*spec, GA_ERR_ARG, "device ref:%s: ref takes no number", spec);
  GA_TRY(ga_host_device_create("ref", 1, out));
  (*out)->kernels = ga_ref_rows(&(*out)->n_kernels);
  (*out)->caps.isas = 1u << GA_ISA_ref;
  (void)snprintf((*out)->text, sizeof(*out)->text, "oracles: scalar, double accumulation");
  return GA_OK;
}

const ga_backend ga_ref_backend = {.name = "ref", .kernels = ga_ref_rows, .open = ref_open, .rank = -1};
