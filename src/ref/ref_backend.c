#include <stdio.h>

#include "base/compiler.h"
#include "base/status.h"
#include "core/host_device.h"
#include "core/rows.h"
#include "ref/ref.h"

static const char *always(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)desc, (void)caps;
  return NULL;
}

static const ga_kernel rows[] = {
#define GA_REF(op_)                                                                                              \
  GA_ROW(op_, any, scalar, ref, 1, .source = "src/ref/ref_" #op_ ".c", .score = 1, .tolerance = 0, .ok = always, \
         .launch = ga_ref_##op_),
#include "ref/ref.def"
#undef GA_REF
};

static const ga_kernel *ref_kernels(size_t *n) {
  *n = GA_COUNT_OF(rows);
  return rows;
}

static ga_status ref_open(const char *spec, int threads, ga_device **out) {
  (void)threads;
  *out = NULL;
  GA_REQUIRE(!*spec, GA_ERR_ARG, "device ref:%s: ref takes no number", spec);
  GA_TRY(ga_host_device_create("ref", 1, out));
  (*out)->kernels = rows;
  (*out)->n_kernels = GA_COUNT_OF(rows);
  (*out)->caps.archs = 1u << GA_ARCH_ref;
  (void)snprintf((*out)->text, sizeof(*out)->text, "oracles: scalar, double accumulation");
  return GA_OK;
}

const ga_backend ga_ref_backend = {.name = "ref", .kernels = ref_kernels, .open = ref_open, .rank = -1};
