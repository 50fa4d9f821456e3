#include "verify/check/packed.h"

#include "base/status.h"
#include "core/steps.h"

static const ga_kernel *pack_row(const check_case *c, const ga_pack_desc *p) {
  return ga_kernel_choose(c->ctx->device, NULL, GA_OP_pack, p);
}

void check_packed_arg(const check_case *c, check_arg *arg, const ga_pack_desc *p) {
  const ga_kernel *row = pack_row(c, p);
  arg->dtype = GA_U8;
  arg->dim[0] = 1;
  arg->dim[1] = arg->stride[0] = row ? (int64_t)row->out_bytes(row, p, &c->ctx->device->caps) : 0;
  arg->align = 256;
}

ga_status check_pack_weights(check_case *c, int i, const ga_pack_desc *p) {
  const ga_kernel *row = pack_row(c, p);
  const check_arg *native = &c->oracle.arg[i];
  check_arg *packed = &c->row.arg[i];
  size_t bytes = (size_t)check_count(packed);
  void *src = NULL, *dst = NULL;
  ga_status status;
  GA_REQUIRE(row, GA_ERR_UNSUPPORTED, "no row packs these weights");
  GA_TRY_OUT(ga_buffer_alloc(c->ctx, native->bytes, &src));
  GA_TRY_OUT(ga_buffer_alloc(c->ctx, bytes, &dst));
  GA_TRY_OUT(ga_copy_to_device(c->ctx, src, native->before, native->bytes, NULL));
  ga_pack_io io = {.src = (char *)src + native->at, .dst = dst};
  GA_TRY_OUT(row->launch(row, p, &io, NULL, c->ctx->stream));
  GA_TRY_OUT(ga_copy_to_host(c->ctx, packed->before + packed->at, dst, bytes, NULL));
out:
  ga_buffer_free(c->ctx, src);
  ga_buffer_free(c->ctx, dst);
  return status;
}
