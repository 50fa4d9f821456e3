/* KERNEL    mla, f32 queries, cache in f32, f16 or bf16
 * COMPUTES  O = softmax(scale Q C^T) V, V the first elements of each row of C (ga/mla.h)
 * DATA      that of attn_tmpl.h: a row of the cache is converted once for 16 heads, for its logits and for its values
 * ACCURACY  that of attn_tmpl.h */
#include "base/status.h"
#include "cpu/cpu_attn.h"

ga_status ISA(ga_cpu_mla)(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                          ga_stream *stream) {
  ga_attn_desc as_desc;
  ga_attn_io as_io;
  GA_TRY(cpu_mla_as_attn(kernel, desc, io, &as_desc, &as_io));
  return ISA(ga_cpu_attn)(kernel, &as_desc, &as_io, workspace, stream);
}
