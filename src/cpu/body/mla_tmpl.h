/* KERNEL    mla, f32 queries, cache in f32, f16, bf16 or e4m3
 * COMPUTES  O = softmax(scale Q C^T) V, V the first elements of each row of C (ga/mla.h)
 * DATA      that of attn_tmpl.h: a row of the cache is converted once for 16 heads, for its logits and for its values
 * ACCURACY  that of attn_tmpl.h */
#include "cpu/cpu_attn.h"

ga_status ISA(ga_cpu_mla)(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                          ga_stream *stream) {
  return cpu_mla_run(kernel, desc, io, workspace, stream, ISA(ga_cpu_attn));
}
