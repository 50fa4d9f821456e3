/* Common part of the kernels of src/cpu/body that process rows one by one.
 *
 * A kernel's body is written once, on the vectors of src/cpu/simd. It is compiled for every instruction set that the
 * kernel table names for it (tools/gen_cpu.py). ISA(name) is then the name with the suffix of the instruction set. */
#ifndef GA_CPU_CPU_LAYER_H
#define GA_CPU_CPU_LAYER_H

#include "cpu/cpu_kernels.h"

typedef void (*cpu_rows_fn)(const void *job, int64_t begin, int64_t end);

/* Calls fn for rows 0 to rows - 1. They are divided among the pool's threads when rows * row_elems is large enough to
 * wake the threads. */
void cpu_rows_run(const ga_stream *stream, int64_t rows, int64_t row_elems, cpu_rows_fn fn, const void *job);

#endif
