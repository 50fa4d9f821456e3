#include "base/mem.h"
#include "cuda/kern/mla/mla.h"

#define LEAST_KEYS   64 /* that a split has */
#define BLOCKS_AN_SM 4

static cuda_mla_cut cut_simt(const ga_kernel *k, const ga_mla_desc *d, const ga_caps *caps) {
  return cuda_mla_cut_of(d, ((const cuda_mla_variant *)k->impl)->rows, 1, (int64_t)caps->sms * BLOCKS_AN_SM,
                         LEAST_KEYS);
}

const char *cuda_mla_simt_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  return cuda_mla_refusal(k, desc);
}

double cuda_mla_simt_cost(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const cuda_mla_cut c = cut_simt(k, desc, caps);
  return cuda_mla_us(desc, &c, ((const cuda_mla_variant *)k->impl)->rows, 1, caps) * 100 / k->speed;
}

uint64_t cuda_mla_simt_workspace(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const cuda_mla_cut c = cut_simt(k, desc, caps);
  return cuda_mla_partial_bytes(desc, &c, ((const cuda_mla_variant *)k->impl)->rows);
}

ga_status cuda_mla_simt(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  const cuda_mla_cut c = cut_simt(k, desc, &stream->device->caps);
  return cuda_mla_enqueue(k, desc, io, &c, 1, workspace, stream);
}
