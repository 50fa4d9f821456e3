/* What the op files share: one place for the three public forms of an op. */
#ifndef GA_OP_OP_H
#define GA_OP_OP_H

#include "base/mem.h"
#include "base/sized.h"
#include "base/status.h"
#include "core/ctx.h"
#include "op/op_io.h"

/* *full = the caller's description, of any version that this library takes. */
#define GA_TAKE_DESC(op, ctx, desc, type, full)                                              \
  do {                                                                                       \
    GA_REQUIRE((ctx) && (desc), GA_ERR_ARG, "%s: %s is null", (op), (ctx) ? "desc" : "ctx"); \
    GA_TRY(GA_SIZED_TAKE(op ": desc", type, (desc), (full)));                                \
  } while (0)

/* io = the caller's, or a copy of it in *full where the plan was made for an older io. */
#define GA_TAKE_IO(name, desc, io, full)                                                               \
  do {                                                                                                 \
    if (GA_UNLIKELY((desc)->struct_size < sizeof(ga_##name##_desc))) {                                 \
      GA_TRY(ga_io_take(&ga_io_all, GA_OP_##name, (desc)->struct_size, (io), (full), sizeof *(full))); \
      (io) = (full);                                                                                   \
    }                                                                                                  \
  } while (0)

#define GA_CHECK_DESC_ROOM(name)                                                       \
  _Static_assert(sizeof(ga_##name##_desc) + GA_DESC_ROOM_BYTES <= GA_DESC_MAX_BYTES && \
                     sizeof(ga_##name##_desc) % sizeof(uint64_t) == 0,                 \
                 "plans keep and hash a copy: whole words, and room to grow")

/* What _run checks before it looks at the plan's description and at the io. */
static inline ga_status ga_check_run(const char *name, ga_op op, const ga_plan *plan, const void *io,
                                     const void *workspace) {
  GA_REQUIRE(plan && io, GA_ERR_ARG, "%s: %s is null", name, plan ? "io" : "plan");
  GA_REQUIRE(plan->op == op, GA_ERR_ARG, "%s: the plan is for %s", name, ga_op_name(plan->op));
  GA_REQUIRE(workspace || !plan->workspace_bytes, GA_ERR_ARG, "%s: workspace is null; %llu bytes needed", name,
             (unsigned long long)plan->workspace_bytes);
  return GA_OK;
}

/* The three public forms of op `name`. Needs, in the same file:
 *   static ga_status complete(ga_<name>_desc *)            check, and fill defaults in place
 *   static ga_status check_io(const ga_<name>_desc *, const ga_<name>_io *)   pointers, cheap: runs on every call */
#define GA_DEFINE_OP(name)                                                                                       \
  ga_status ga_##name##_plan(ga_ctx *ctx, const ga_##name##_desc *desc, ga_plan **out) {                         \
    GA_REQUIRE(out, GA_ERR_ARG, #name ": out is null");                                                          \
    *out = NULL;                                                                                                 \
    ga_##name##_desc full;                                                                                       \
    GA_TAKE_DESC(#name, ctx, desc, ga_##name##_desc, &full);                                                     \
    GA_TRY(complete(&full));                                                                                     \
    return ga_plan_make(ctx, GA_OP_##name, &full, sizeof full, out);                                             \
  }                                                                                                              \
  ga_status ga_##name##_run(const ga_plan *plan, const ga_##name##_io *io, void *workspace, ga_stream *stream) { \
    GA_TRY(ga_check_run(#name, GA_OP_##name, plan, io, workspace));                                              \
    const ga_##name##_desc *desc = (const void *)plan->desc;                                                     \
    ga_##name##_io full;                                                                                         \
    GA_TAKE_IO(name, desc, io, &full);                                                                           \
    GA_TRY(check_io(desc, io));                                                                                  \
    GA_TRY(ga_stream_of(plan->ctx, stream, #name, &stream));                                                     \
    return plan->kernel->launch(plan->kernel, desc, io, workspace, stream);                                      \
  }                                                                                                              \
  ga_status ga_##name(ga_ctx *ctx, const ga_##name##_desc *desc, const ga_##name##_io *io, ga_stream *stream) {  \
    ga_##name##_desc full;                                                                                       \
    GA_TAKE_DESC(#name, ctx, desc, ga_##name##_desc, &full);                                                     \
    GA_TRY(complete(&full));                                                                                     \
    const ga_plan *plan;                                                                                         \
    GA_TRY(ga_plan_remember(ctx, GA_OP_##name, &full, sizeof full, &plan));                                      \
    return ga_##name##_run(plan, io, ctx->workspace, stream);                                                    \
  }                                                                                                              \
  GA_CHECK_DESC_ROOM(name)

/* The three fused forms of op `name` (core/fused.h), and its public ones, which are these with zeros behind what the
 * caller gives. complete and check_io are as above, of the fused structs. */
#define GA_DEFINE_FUSED_OP(name)                                                                                 \
  ga_status ga_##name##_fused_plan(ga_ctx *ctx, const ga_##name##_fused_desc *desc, ga_plan **out) {             \
    ga_##name##_fused_desc full = *desc;                                                                         \
    *out = NULL;                                                                                                 \
    GA_TRY(complete(&full));                                                                                     \
    return ga_plan_make(ctx, GA_OP_##name, &full, sizeof full, out);                                             \
  }                                                                                                              \
  ga_status ga_##name##_fused_run(const ga_plan *plan, const ga_##name##_fused_io *io, void *workspace,          \
                                  ga_stream *stream) {                                                           \
    GA_TRY(ga_check_run(#name, GA_OP_##name, plan, io, workspace));                                              \
    GA_TRY(check_io((const void *)plan->desc, io));                                                              \
    GA_TRY(ga_stream_of(plan->ctx, stream, #name, &stream));                                                     \
    return plan->kernel->launch(plan->kernel, plan->desc, io, workspace, stream);                                \
  }                                                                                                              \
  ga_status ga_##name##_fused(ga_ctx *ctx, const ga_##name##_fused_desc *desc, const ga_##name##_fused_io *io,   \
                              ga_stream *stream) {                                                               \
    ga_##name##_fused_desc full = *desc;                                                                         \
    const ga_plan *plan;                                                                                         \
    GA_TRY(complete(&full));                                                                                     \
    GA_TRY(ga_plan_remember(ctx, GA_OP_##name, &full, sizeof full, &plan));                                      \
    return ga_##name##_fused_run(plan, io, ctx->workspace, stream);                                              \
  }                                                                                                              \
  ga_status ga_##name##_plan(ga_ctx *ctx, const ga_##name##_desc *desc, ga_plan **out) {                         \
    ga_##name##_fused_desc full = {0};                                                                           \
    GA_REQUIRE(out, GA_ERR_ARG, #name ": out is null");                                                          \
    *out = NULL;                                                                                                 \
    GA_TAKE_DESC(#name, ctx, desc, ga_##name##_desc, &full);                                                     \
    return ga_##name##_fused_plan(ctx, &full, out);                                                              \
  }                                                                                                              \
  ga_status ga_##name##_run(const ga_plan *plan, const ga_##name##_io *io, void *workspace, ga_stream *stream) { \
    ga_##name##_fused_io full = {0};                                                                             \
    GA_TRY(ga_check_run(#name, GA_OP_##name, plan, io, workspace));                                              \
    GA_TAKE_IO(name, (const ga_##name##_desc *)(const void *)plan->desc, io, &full.plain);                       \
    if (io != &full.plain) full.plain = *io;                                                                     \
    return ga_##name##_fused_run(plan, &full, workspace, stream);                                                \
  }                                                                                                              \
  ga_status ga_##name(ga_ctx *ctx, const ga_##name##_desc *desc, const ga_##name##_io *io, ga_stream *stream) {  \
    ga_##name##_fused_desc full = {0};                                                                           \
    const ga_plan *plan;                                                                                         \
    GA_TAKE_DESC(#name, ctx, desc, ga_##name##_desc, &full);                                                     \
    GA_TRY(complete(&full));                                                                                     \
    GA_TRY(ga_plan_remember(ctx, GA_OP_##name, &full, sizeof full, &plan));                                      \
    return ga_##name##_run(plan, io, ctx->workspace, stream);                                                    \
  }                                                                                                              \
  GA_CHECK_DESC_ROOM(name##_fused)

/* Size of one dimension: 0 or more, and small enough that products with strides stay in 63 bits. */
#define GA_DIM_MAX ((int64_t)1 << 40)
#define GA_CHECK_DIM(op, value)                                                                                      \
  GA_REQUIRE((value) >= 0 && (value) <= GA_DIM_MAX, GA_ERR_SHAPE, "%s: " #value " is %lld; must be 0 to 2^40", (op), \
             (long long)(value))

/* A row stride: 0 means contiguous; smaller than the row is an error. */
static inline ga_status ga_complete_stride(const char *op, const char *what, int64_t width, int64_t *stride) {
  if (*stride == 0) *stride = width;
  GA_REQUIRE(*stride >= width && *stride <= GA_DIM_MAX, GA_ERR_SHAPE, "%s: %s is %lld; must be 0 or at least %lld", op,
             what, (long long)*stride, (long long)width);
  return GA_OK;
}

static inline ga_status ga_check_plain(const char *op, const char *what, int32_t dtype) {
  GA_REQUIRE(dtype == GA_F32 || dtype == GA_F16 || dtype == GA_BF16, GA_ERR_DTYPE,
             "%s: %s is %s; allowed: f32, f16, bf16", op, what, ga_dtype_name((ga_dtype)dtype));
  return GA_OK;
}

#define GA_CHECK_PTR(op, cond, what) GA_REQUIRE(cond, GA_ERR_ARG, "%s: %s is null", (op), (what))

#endif
