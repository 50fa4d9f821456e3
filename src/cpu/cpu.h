/* The CPU backend: kernels for each instruction set, chosen at run time among those that the CPU and the system
 * support.
 *
 * A kernel is launched on the caller's thread and may use the device's pool (cpu_pool). Small work should not use it:
 * starting a parallel region costs about 1 us. */
#ifndef GA_CPU_CPU_H
#define GA_CPU_CPU_H

#include "core/device.h"
#include "opdef/ops.h"

extern const ga_backend ga_cpu_backend;

/* Returns the rows of the kernel table for this processor family, a static array; *n becomes their number. The table is
 * generated from the .toml files of src/cpu. */
const ga_kernel *ga_cpu_rows(size_t *n);

/* Returns the instruction sets that this CPU has and this system has enabled, as a mask of bits 1 << ga_isa. */
uint32_t ga_cpu_isas(void);

/* Results of the CPUID instruction on an x86 CPU, and the register states that the operating system saves. */
typedef struct ga_cpuid {
  /* Register ECX of CPUID leaf 1. */
  uint32_t ecx1;
  /* Registers EBX, ECX and EDX of CPUID leaf 7, subleaf 0. */
  uint32_t ebx7, ecx7, edx7;
  /* Register EAX of CPUID leaf 7, subleaf 1. */
  uint32_t eax71;
  /* Register XCR0: a bit for each kind of register state that the operating system saves. */
  uint64_t state;
} ga_cpuid;
#if defined(__x86_64__)
uint32_t ga_cpu_isas_of(const ga_cpuid *r);
#endif

static inline ga_pool *cpu_pool(const ga_stream *stream) { return stream->device->pool; }

#define GA_DECLARE_CPU(name) \
  ga_status name(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream)

#endif
