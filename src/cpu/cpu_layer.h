/* Declarations for the kernels of src/cpu/body that process rows one by one.
 *
 * A kernel's body is written once, with the vector functions of src/cpu/simd. It is compiled for every instruction set
 * that the kernel table lists for it (tools/gen_cpu.py). ISA(name) is the name with the suffix of the instruction
 * set. */
#ifndef GA_CPU_CPU_LAYER_H
#define GA_CPU_CPU_LAYER_H

#include "cpu/cpu_kernels.h"

typedef void (*cpu_rows_fn)(const void *job, int64_t begin, int64_t end);

/* Calls fn for ranges that together are rows 0 to rows - 1. Divides the rows among the pool's threads if rows *
 * row_elems is large enough to be worth waking them. */
void cpu_rows_run(const ga_stream *stream, int64_t rows, int64_t row_elems, cpu_rows_fn fn, const void *job);

#endif
