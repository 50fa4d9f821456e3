/* Kernels of the caller's own: arguments are checked here, once for all devices. */
#include "base/mem.h"
#include "base/sized.h"
#include "base/status.h"
#include "core/ctx.h"
#include "ga/launch.h"

#define MOST_THREADS 1024
#define MAP_ALIGN    64

ga_status ga_function_load(ga_ctx *ctx, const void *image, const char *name, ga_function **out) {
  GA_REQUIRE(out, GA_ERR_ARG, "function: out is null");
  *out = NULL;
  GA_REQUIRE(ctx && image && name, GA_ERR_ARG, "function: %s is null", !ctx ? "ctx" : !image ? "image" : "name");
  const ga_code *code = ctx->device->code;
  GA_REQUIRE(code, GA_ERR_UNSUPPORTED, "function: %s loads none; CUDA devices do", ctx->device->name);
  GA_TRY(code->load(ctx->device, image, name, out));
  (*out)->ctx = ctx;
  return GA_OK;
}

void ga_function_destroy(ga_function *function) {
  if (function) function->device->code->destroy(function);
}

static ga_status check_grid(const ga_device *d, const ga_launch *l) {
  static const uint32_t most_grid[3] = {0x7fffffff, 65535, 65535};
  uint64_t threads = 1;
  for (int i = 0; i < 3; i++) {
    GA_REQUIRE(l->grid[i] >= 1 && l->grid[i] <= most_grid[i], GA_ERR_ARG, "launch: grid[%d] is %u; must be 1 to %u", i,
               l->grid[i], most_grid[i]);
    GA_REQUIRE(l->block[i] >= 1, GA_ERR_ARG, "launch: block[%d] is 0", i);
    threads *= l->block[i];
    const bool fits = !l->cluster[0] || (l->cluster[i] && l->grid[i] % l->cluster[i] == 0);
    GA_REQUIRE(fits, GA_ERR_ARG, "launch: grid[%d] is %u; must be a multiple of cluster[%d], which is %u", i,
               l->grid[i], i, l->cluster[i]);
  }
  GA_REQUIRE(threads <= MOST_THREADS, GA_ERR_ARG, "launch: a block of %llu threads; at most %d",
             (unsigned long long)threads, MOST_THREADS);
  GA_REQUIRE(l->shared_bytes <= d->caps.smem_bytes, GA_ERR_ARG,
             "launch: shared_bytes is %u; a block of %s has at most %u", l->shared_bytes, d->name, d->caps.smem_bytes);
  GA_REQUIRE((l->flags & ~(uint32_t)GA_LAUNCH_DEPENDENT) == 0, GA_ERR_ARG,
             "launch: flags is %u; allowed: GA_LAUNCH_DEPENDENT", l->flags);
  GA_REQUIRE(l->reserved == 0, GA_ERR_ARG, "launch: reserved is %u; must be 0", l->reserved);
  return GA_OK;
}

ga_status ga_function_launch(ga_function *function, const ga_launch *launch, const void *args, ga_stream *stream) {
  GA_REQUIRE(function && launch && args, GA_ERR_ARG, "launch: %s is null",
             !function ? "function"
             : !launch ? "launch"
                       : "args");
  ga_launch full;
  GA_TRY(GA_SIZED_TAKE("launch", ga_launch, launch, &full));
  GA_TRY(check_grid(function->device, &full));
  GA_TRY(ga_stream_of(function->ctx, stream, "launch", &stream));
  return function->device->code->launch(function, &full, args, stream);
}

/* --- tensor maps --- */

static ga_status check_map_dims(const ga_tensor_map_desc *d, int64_t bytes) {
  for (int i = 0; i < d->n_dims; i++) {
    GA_REQUIRE(d->dim[i] >= 1 && d->dim[i] <= (int64_t)1 << 32, GA_ERR_ARG,
               "tensor map: dim[%d] is %lld; must be 1 to 2^32", i, (long long)d->dim[i]);
    GA_REQUIRE(d->box[i] >= 1 && d->box[i] <= 256, GA_ERR_ARG, "tensor map: box[%d] is %d; must be 1 to 256", i,
               d->box[i]);
    const bool good =
        i ? d->stride[i] >= 0 && d->stride[i] < ((int64_t)1 << 40) / bytes && d->stride[i] * bytes % 16 == 0
          : d->stride[0] == 1;
    GA_REQUIRE(good, GA_ERR_ARG, "tensor map: stride[%d] is %lld elements; must be %s", i, (long long)d->stride[i],
               i ? "a multiple of 16 bytes below 2^40 bytes" : "1");
  }
  return GA_OK;
}

ga_status ga_tensor_map(ga_ctx *ctx, const ga_tensor_map_desc *desc, void *map) {
  GA_REQUIRE(ctx && desc && map, GA_ERR_ARG, "tensor map: %s is null", !ctx ? "ctx" : !desc ? "desc" : "map");
  ga_tensor_map_desc full;
  const ga_tensor_map_desc *d = &full;
  GA_TRY(GA_SIZED_TAKE("tensor map: desc", ga_tensor_map_desc, desc, &full));
  GA_REQUIRE(ctx->device->tensor_maps, GA_ERR_UNSUPPORTED,
             "tensor map: %s has none; CUDA devices of compute capability 9.0 have", ctx->device->name);
  GA_REQUIRE((uintptr_t)map % MAP_ALIGN == 0, GA_ERR_ARG, "tensor map: map is at %p; must be a multiple of %d bytes",
             map, MAP_ALIGN);
  GA_REQUIRE((uintptr_t)d->data % 16 == 0, GA_ERR_ARG, "tensor map: data is at %p; must be a multiple of 16 bytes",
             d->data);
  GA_REQUIRE(d->n_dims >= 1 && d->n_dims <= GA_TENSOR_MAP_DIMS, GA_ERR_ARG, "tensor map: n_dims is %d; must be 1 to 5",
             d->n_dims);
  const ga_dtype_traits *t = ga_dtype_info((ga_dtype)d->dtype);
  const bool wide = d->dtype == GA_F32 || d->dtype == GA_F16 || d->dtype == GA_BF16 || d->dtype == GA_I32;
  GA_REQUIRE(t && t->block_elems == 1 && (t->block_bytes == 1 || wide), GA_ERR_ARG,
             "tensor map: dtype is %s; allowed: f32, f16, bf16, i32 and types of one byte",
             ga_dtype_name((ga_dtype)d->dtype));
  GA_TRY(check_map_dims(d, t->block_bytes));
  const int32_t s = d->swizzle, row = d->box[0] * t->block_bytes;
  GA_REQUIRE(s == 0 || s == 32 || s == 64 || s == 128, GA_ERR_ARG,
             "tensor map: swizzle is %d; allowed: 0, 32, 64, 128 bytes", s);
  GA_REQUIRE(row % 16 == 0 && (!s || row <= s), GA_ERR_ARG,
             "tensor map: box[0] is %d bytes; must be a multiple of 16, at most the swizzle of %d", row, s);
  return ctx->device->tensor_maps->make(ctx->device, d, map);
}
