/* Shared by the kernels of norm, rope, act, add, softmax, kv_store, sample and attn.
 *
 * Their code is in src/cpu/body, written once on the vectors of src/cpu/simd and compiled for each instruction set by
 * the files <isa>/<isa>_layer.c and <isa>/<isa>_attn.c, which define ISA(name). */
#ifndef GA_CPU_CPU_LAYER_H
#define GA_CPU_CPU_LAYER_H

#include "cpu/cpu.h"

/* Legality of norm for all instruction sets: f32 activations. */
const char *ga_cpu_norm_f32(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
const char *ga_cpu_rope_f32(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
const char *ga_cpu_act_f32(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
const char *ga_cpu_add_f32(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
const char *ga_cpu_softmax_f32(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
const char *ga_cpu_kv_store_f32(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
const char *ga_cpu_attn_f32(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
const char *ga_cpu_attn_bwd_f32(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
const char *ga_cpu_attn_quant_any(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
const char *ga_cpu_sample_any(const ga_kernel *kernel, const void *desc, const ga_caps *caps);

uint64_t ga_cpu_attn_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
uint64_t ga_cpu_attn_bwd_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
uint64_t ga_cpu_sample_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps);

#define GA_DECLARE_CPU_LAYER(isa)        \
  GA_DECLARE_CPU(ga_cpu_norm_##isa);     \
  GA_DECLARE_CPU(ga_cpu_rope_##isa);     \
  GA_DECLARE_CPU(ga_cpu_act_##isa);      \
  GA_DECLARE_CPU(ga_cpu_add_##isa);      \
  GA_DECLARE_CPU(ga_cpu_softmax_##isa);  \
  GA_DECLARE_CPU(ga_cpu_kv_store_##isa); \
  GA_DECLARE_CPU(ga_cpu_attn_##isa);     \
  GA_DECLARE_CPU(ga_cpu_attn_bwd_##isa); \
  GA_DECLARE_CPU(ga_cpu_sample_##isa)
GA_DECLARE_CPU(ga_cpu_attn_quant_generic);
const char *ga_cpu_attn_merge_any(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
GA_DECLARE_CPU(ga_cpu_attn_merge_generic);
GA_DECLARE_CPU_LAYER(generic);
GA_DECLARE_CPU_LAYER(avx2);
GA_DECLARE_CPU_LAYER(avx512);
GA_DECLARE_CPU_LAYER(neon);

typedef void (*cpu_rows_fn)(const void *job, int64_t begin, int64_t end);

/* Calls fn for rows [0, rows), divided among the pool's threads when rows * row_elems is large enough to wake them. */
void cpu_rows_run(const ga_stream *stream, int64_t rows, int64_t row_elems, cpu_rows_fn fn, const void *job);

#endif
