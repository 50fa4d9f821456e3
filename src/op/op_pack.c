/* Packing weights: the layout is that of the GEMM row that would decode one token with them. */
#include "core/cost.h"
#include "op/op.h"

static ga_status complete(const ga_pack_desc *d) {
  GA_TRY(ga_pack_complete_fields(d));
  const ga_dtype_traits *t = ga_dtype_info((ga_dtype)d->w_dtype);
  GA_REQUIRE(t && d->k % t->block_elems == 0, GA_ERR_SHAPE, "pack: k is %lld of %s; must be a multiple of its block",
             (long long)d->k, ga_dtype_name((ga_dtype)d->w_dtype));
  return ga_check_elements("pack", "w", d->n, d->k, 1, 1);
}

/* A packed layout must serve every m: for each the best row that reads it is chosen. Decoding decides which is best. */
static ga_layout best_layout(const ga_ctx *ctx, ga_dtype w_dtype, int64_t n, int64_t k) {
  ga_layout layout = GA_LAYOUT_NATIVE;
  double least = -1;
  for (size_t i = 0; i < ctx->device->n_kernels; i++) {
    const ga_kernel *row = &ctx->device->kernels[i];
    if (row->op != GA_OP_gemm || row->dtype[0] != w_dtype) continue;
    ga_gemm_fused_desc desc = GA_GEMM_FUSED_DESC_INIT;
    ga_gemm_desc *d = &desc.plain;
    d->m = 1;
    d->n = n;
    d->k = k;
    d->x_stride = d->w_stride = k;
    d->y_stride = n;
    d->w_dtype = (int32_t)w_dtype;
    d->w_layout = (int32_t)row->layout;
    if (ga_kernel_reject_reason(row, ctx->device, ctx->disable_kernels, &desc)) continue;
    const double cost = ga_cost_us(row, &desc, &ctx->device->caps);
    if (least >= 0 && cost >= least) continue;
    layout = row->layout;
    least = cost;
  }
  return layout;
}

static const ga_kernel *choose_pack_row(const ga_ctx *ctx, const ga_pack_desc *desc) {
  return ga_kernel_choose(ctx->device, ctx->disable_kernels, GA_OP_pack, desc);
}

ga_status ga_pack_choose(ga_ctx *ctx, ga_dtype w_dtype, int64_t n, int64_t k, ga_layout *layout, uint64_t *bytes) {
  GA_REQUIRE(ctx && layout && bytes, GA_ERR_ARG, "pack: an argument is null");
  ga_pack_desc desc = GA_PACK_DESC_INIT;
  desc.n = n;
  desc.k = k;
  desc.w_dtype = (int32_t)w_dtype;
  GA_TRY(complete(&desc));
  desc.w_layout = (int32_t)best_layout(ctx, w_dtype, n, k);
  const ga_kernel *row = desc.w_layout ? choose_pack_row(ctx, &desc) : NULL;
  if (!row) {
    *layout = GA_LAYOUT_NATIVE;
    uint64_t elems;
    GA_REQUIRE(ga_mul_ok((uint64_t)n, (uint64_t)k, &elems) && elems <= INT64_MAX, GA_ERR_SHAPE,
               "pack: %lld x %lld elements", (long long)n, (long long)k);
    return ga_dtype_bytes(w_dtype, (int64_t)elems, bytes);
  }
  *layout = (ga_layout)desc.w_layout;
  *bytes = row->out_bytes(row, &desc, &ctx->device->caps);
  return GA_OK;
}

ga_status ga_pack_bytes(ga_ctx *ctx, const ga_pack_desc *desc, uint64_t *bytes) {
  GA_REQUIRE(bytes, GA_ERR_ARG, "pack: bytes is null");
  ga_pack_desc full;
  GA_TAKE_DESC("pack", ctx, desc, ga_pack_desc, &full);
  desc = &full;
  GA_TRY(complete(desc));
  const ga_kernel *row = choose_pack_row(ctx, desc);
  GA_REQUIRE(row, GA_ERR_UNSUPPORTED, "pack: no row makes layout %d of %s on %s", desc->w_layout,
             ga_dtype_name((ga_dtype)desc->w_dtype), ctx->device->name);
  *bytes = row->out_bytes(row, desc, &ctx->device->caps);
  return GA_OK;
}

ga_status ga_pack(ga_ctx *ctx, const ga_pack_desc *desc, const void *src, void *dst, ga_stream *stream) {
  ga_pack_desc full;
  GA_TAKE_DESC("pack", ctx, desc, ga_pack_desc, &full);
  desc = &full;
  GA_TRY(complete(desc));
  GA_CHECK_AT("pack", src, desc->w_dtype, "src");
  GA_CHECK_PTR("pack", dst, "dst");
  GA_REQUIRE(src != dst, GA_ERR_ARG, "pack: src and dst are both %p; they must be two buffers", dst);
  const ga_kernel *row = choose_pack_row(ctx, desc);
  GA_REQUIRE(row, GA_ERR_UNSUPPORTED, "pack: no row makes layout %d of %s on %s", desc->w_layout,
             ga_dtype_name((ga_dtype)desc->w_dtype), ctx->device->name);
  ga_pack_io io = {.src = src, .dst = dst};
  GA_TRY(ga_stream_of(ctx, stream, "pack", &stream));
  return row->launch(row, desc, &io, NULL, stream);
}
