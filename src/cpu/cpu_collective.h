/* Collectives in host memory. Some kernels send messages over any communicator; others are for ranks that are threads
 * of one process and read each other's arrays. */
#ifndef GA_CPU_CPU_COLLECTIVE_H
#define GA_CPU_CPU_COLLECTIVE_H

#include "cpu/cpu.h"

const char *ga_cpu_collective_messages_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
const char *ga_cpu_collective_shared_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double ga_cpu_collective_messages_us(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double ga_cpu_collective_shared_us(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
uint64_t ga_cpu_collective_messages_bytes(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
uint64_t ga_cpu_collective_shared_bytes(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
GA_DECLARE_CPU(ga_cpu_collective_messages);
GA_DECLARE_CPU(ga_cpu_collective_shared);

#endif
