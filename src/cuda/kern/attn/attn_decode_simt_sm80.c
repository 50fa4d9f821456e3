#include "base/mem.h"
#include "base/status.h"
#include "cuda/kern/attn/attn_decode_sm90a.h"

#define MIN_PART      32 /* keys a split should have at least */
#define BLOCKS_PER_SM 2

const char *cuda_attn_decode_simt_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  return cuda_attn_packed_refusal(k, desc);
}

static cuda_attn_cut cut_rows(const ga_attn_desc *d, const ga_caps *caps) {
  return cuda_attn_packed_cut(d, CUDA_ATTN_DECODE_SIMT_ROWS, (int64_t)caps->sms * BLOCKS_PER_SM, MIN_PART);
}

uint64_t cuda_attn_decode_simt_workspace(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)k;
  const ga_attn_desc *d = desc;
  const cuda_attn_cut c = cut_rows(d, caps);
  return c.splits == 1 ? 0
                       : (uint64_t)(c.units * c.splits * CUDA_ATTN_DECODE_SIMT_ROWS * (d->v_dim + 2)) * sizeof(float);
}

ga_status cuda_attn_decode_simt(const ga_kernel *k, const void *desc, const void *io, void *workspace,
                                ga_stream *stream) {
  const ga_attn_desc *d = desc;
  const cuda_attn_cut c = cut_rows(d, &stream->device->caps);
  if (d->batch == 0 || d->max_q == 0) return GA_OK;
  GA_TRY(cuda_attn_packed_check_io(stream, k, d, io));
  return cuda_attn_packed_enqueue(k, d, io, &c, workspace, stream);
}
