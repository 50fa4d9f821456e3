/* Macros and checks that the source files of ops share. The three public functions of every op are defined here by
 * macros. */
#ifndef GA_OP_OP_H
#define GA_OP_OP_H

#include <math.h>

#include "base/mem.h"
#include "base/sized.h"
#include "base/status.h"
#include "core/ctx.h"
#include "op/op_fields.h"
#include "op/op_io.h"
#include "opdef/ops.h"

/* Copies the caller's description, which may be of an older or newer version, to *full, which is of this library's
 * version. */
#define GA_TAKE_DESC(op, ctx, desc, type, full)                                              \
  do {                                                                                       \
    GA_REQUIRE((ctx) && (desc), GA_ERR_ARG, "%s: %s is null", (op), (ctx) ? "desc" : "ctx"); \
    GA_TRY(GA_SIZED_TAKE(op ": desc", type, (desc), (full)));                                \
  } while (0)

/* Sets io to a complete copy in *full if the caller's io is of an older version; else leaves io unchanged. */
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

/* Makes the checks that all _run functions have in common. */
static inline ga_status ga_check_run(const char *name, ga_op op, const ga_plan *plan, const void *io,
                                     const void *workspace) {
  GA_REQUIRE(plan && io, GA_ERR_ARG, "%s: %s is null", name, plan ? "io" : "plan");
  GA_REQUIRE(plan->op == op, GA_ERR_ARG, "%s: the plan is for %s", name, ga_op_name(plan->op));
  GA_REQUIRE(workspace || !plan->steps.workspace_bytes, GA_ERR_ARG, "%s: workspace is null; %llu bytes needed", name,
             (unsigned long long)plan->steps.workspace_bytes);
  return GA_OK;
}

/* Defines the public functions of op `name`: ga_<name>_plan, ga_<name>_run and ga_<name>. Needs, in the same file:
 *   static ga_status complete(ga_<name>_desc *)
 *     calls ga_<name>_complete_fields, checks fields against each other, fills in defaults that depend on other fields
 *   static ga_status check_io(const ga_<name>_desc *, const ga_<name>_io *)
 *     checks pointers; every call runs it, so it must be cheap
 *   static void complete_strides(const ga_<name>_desc *, ga_<name>_io *)
 *     fills in the default strides; only GA_DEFINE_STRIDED_OP needs it
 *   static ga_status check_io_strides(const ga_<name>_desc *, const ga_<name>_io *)
 *     checks the completed strides; only GA_DEFINE_STRIDED_OP needs it */
#define GA_DEFINE_OP(name)         GA_DEFINE_OP_FORMS(name, GA_IO_AS_GIVEN, GA_NOTHING_AFTER)
#define GA_DEFINE_STRIDED_OP(name) GA_DEFINE_OP_FORMS(name, GA_IO_WITH_STRIDES, GA_NOTHING_AFTER)

/* The last parameter of GA_DEFINE_OP_FORMS names a macro or function that enqueues plan->after. This macro is for ops
 * without it. */
#define GA_NOTHING_AFTER(plan, io, stream) GA_OK

#define GA_IO_AS_GIVEN(desc, io, full)
#define GA_IO_WITH_STRIDES(desc, io, full) \
  if (io != &full) full = *io;             \
  complete_strides(desc, &full);           \
  GA_TRY(check_io_strides(desc, &full));   \
  io = &full;

#define GA_DEFINE_OP_FORMS(name, COMPLETE_IO, THEN)                                                              \
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
    COMPLETE_IO(desc, io, full)                                                                                  \
    GA_TRY(ga_stream_of(plan->ctx, stream, #name, &stream));                                                     \
    GA_TRY(ga_plan_launch(plan, io, workspace, stream));                                                         \
    return THEN(plan, io, stream);                                                                               \
  }                                                                                                              \
  ga_status ga_##name(ga_ctx *ctx, const ga_##name##_desc *desc, const ga_##name##_io *io, ga_stream *stream) {  \
    ga_##name##_desc full;                                                                                       \
    GA_TAKE_DESC(#name, ctx, desc, ga_##name##_desc, &full);                                                     \
    GA_TRY(complete(&full));                                                                                     \
    const ga_plan *plan;                                                                                         \
    GA_TRY(ga_plan_remember(ctx, GA_OP_##name, &full, sizeof full, &plan, &stream));                             \
    return ga_##name##_run(plan, io, ga_workspace_of(stream), stream);                                           \
  }                                                                                                              \
  GA_CHECK_DESC_ROOM(name)

/* Defines ga_<name>_fused_plan, ga_<name>_fused_run and ga_<name>_fused (opdef/fused.h). Also defines the public
 * functions, which call these with the fused fields zeroed. Needs complete and check_io as GA_DEFINE_OP does, but for
 * the fused structs. */
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
    return ga_plan_launch(plan, io, workspace, stream);                                                          \
  }                                                                                                              \
  ga_status ga_##name##_fused(ga_ctx *ctx, const ga_##name##_fused_desc *desc, const ga_##name##_fused_io *io,   \
                              ga_stream *stream) {                                                               \
    ga_##name##_fused_desc full = *desc;                                                                         \
    const ga_plan *plan;                                                                                         \
    GA_TRY(complete(&full));                                                                                     \
    GA_TRY(ga_plan_remember(ctx, GA_OP_##name, &full, sizeof full, &plan, &stream));                             \
    return ga_##name##_fused_run(plan, io, ga_workspace_of(stream), stream);                                     \
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
    GA_TRY(ga_plan_remember(ctx, GA_OP_##name, &full, sizeof full, &plan, &stream));                             \
    return ga_##name##_run(plan, io, ga_workspace_of(stream), stream);                                           \
  }                                                                                                              \
  GA_CHECK_DESC_ROOM(name##_fused)

/* The text of an expression d->field without "d->": the field's name for error texts. */
#define GA_FIELD(value) (&(#value)[sizeof "d->" - 1])

/* Largest size of one dimension. Products of dimensions are bounded by ga_check_elements. */
#define GA_DIM_MAX ((int64_t)1 << 40)
#define GA_CHECK_RANGE(op, value, least, most)                                                                    \
  GA_REQUIRE((value) >= (least) && (value) <= (most), GA_ERR_SHAPE, "%s: %s is %lld; must be %lld to %lld", (op), \
             GA_FIELD(value), (long long)(value), (long long)(least), (long long)(most))
#define GA_CHECK_FINITE(op, value) \
  GA_REQUIRE(isfinite(value), GA_ERR_ARG, "%s: %s is %g; must be finite", (op), GA_FIELD(value), (double)(value))

/* Limits of numbers of heads and of a head's elements, so that 32-bit products do not overflow. Real models have up to
 * 256 heads of up to 576 elements. */
#define GA_HEADS_MAX    (1 << 16)
#define GA_ROW_DIM_MAX  (1 << 14) /* largest number of elements of a head in ga_rope */
#define GA_PAGE_MAX     (1 << 24) /* largest number of tokens of a page */
#define GA_ELEMENTS_MAX ((uint64_t)1 << 60)

/* Checks that a tensor of a x b x c x d has at most GA_ELEMENTS_MAX elements, so that byte offsets fit in 63 bits.
 * Sizes of 0 count as 1. */
static inline ga_status ga_check_elements(const char *op, const char *what, int64_t a, int64_t b, int64_t c,
                                          int64_t d) {
  const int64_t sizes[4] = {a, b, c, d};
  uint64_t n = 1;
  for (int i = 0; i < 4; i++)
    GA_REQUIRE(ga_mul_ok(n, (uint64_t)(sizes[i] ? sizes[i] : 1), &n) && n <= GA_ELEMENTS_MAX, GA_ERR_SHAPE,
               "%s: %s of %lld x %lld x %lld x %lld elements; at most 2^60", op, what, (long long)a, (long long)b,
               (long long)c, (long long)d);
  return GA_OK;
}

/* Completes a row stride: 0 becomes `width`, the stride of contiguous rows. A stride below `width` is an error. */
static inline ga_status ga_complete_stride(const char *op, const char *what, int64_t width, int64_t *stride) {
  if (*stride == 0) *stride = width;
  GA_REQUIRE(*stride >= width && *stride <= GA_DIM_MAX, GA_ERR_SHAPE, "%s: %s is %lld; must be 0, or %lld to 2^40", op,
             what, (long long)*stride, (long long)width);
  return GA_OK;
}

/* Completes the stride of `rows` rows as ga_complete_stride does, and checks that they span at most GA_ELEMENTS_MAX
 * elements. */
static inline ga_status ga_complete_rows(const char *op, const char *what, int64_t rows, int64_t width,
                                         int64_t *stride) {
  GA_TRY(ga_complete_stride(op, what, width, stride));
  if (rows <= (int64_t)GA_ELEMENTS_MAX / GA_DIM_MAX) return GA_OK; /* fast path: this runs on every call */
  return ga_check_elements(op, what, rows, *stride, 1, 1);
}

/* Checks the strides of a tensor [batch, tokens, heads]: none is negative, and the last row begins within
 * GA_ELEMENTS_MAX. */
static inline ga_status ga_check_strides(const char *op, const char *what, const ga_attn_strides *s, int64_t batch,
                                         int64_t tokens, int64_t heads) {
  const int64_t strides[3] = {s->batch, s->token, s->head}, sizes[3] = {batch, tokens, heads};
  static const char *const names[3] = {"batch", "token", "head"};
  ga_u128 last = 0;
  for (int i = 0; i < 3; i++) {
    GA_REQUIRE(strides[i] >= 0 && (uint64_t)strides[i] <= GA_ELEMENTS_MAX, GA_ERR_ARG,
               "%s: %s.%s is %lld; must be 0 to 2^60", op, what, names[i], (long long)strides[i]);
    last += sizes[i] > 1 ? (ga_u128)(sizes[i] - 1) * (ga_u128)strides[i] : 0;
  }
  GA_REQUIRE(last <= GA_ELEMENTS_MAX, GA_ERR_ARG,
             "%s: %s is %lld, %lld, %lld of %lld x %lld x %lld; at most 2^60 elements", op, what, (long long)s->batch,
             (long long)s->token, (long long)s->head, (long long)batch, (long long)tokens, (long long)heads);
  return GA_OK;
}

static inline ga_status ga_check_plain(const char *op, const char *what, int32_t dtype) {
  GA_REQUIRE(dtype == GA_F32 || dtype == GA_F16 || dtype == GA_BF16, GA_ERR_DTYPE,
             "%s: %s is %s; allowed: f32, f16, bf16", op, what, ga_dtype_name((ga_dtype)dtype));
  return GA_OK;
}

#define GA_CHECK_PTR(op, cond, what) GA_REQUIRE(cond, GA_ERR_ARG, "%s: %s is null", (op), (what))

/* Returns the alignment in bytes that a tensor's address must have: the size of an element; 1 for block-quantised
 * types. Kernels may require more. */
static inline uintptr_t ga_align_of(int32_t dtype) {
  const ga_dtype_traits *t = ga_dtype_info((ga_dtype)dtype);
  return t && !t->is_quant ? (uintptr_t)t->block_bytes : 1;
}

/* Checks that an address is a multiple of its element's alignment; NULL is fine. */
#define GA_CHECK_ALIGN(op, p, dtype, what)                                                       \
  GA_REQUIRE(((uintptr_t)(p) & (ga_align_of(dtype) - 1)) == 0, GA_ERR_ARG,                       \
             "%s: %s is at %p; must be a multiple of %d bytes", (op), (what), (const void *)(p), \
             (int)ga_align_of(dtype))
/* Checks that an address is not NULL and is a multiple of its element's alignment. */
#define GA_CHECK_AT(op, p, dtype, what) \
  do {                                  \
    GA_CHECK_PTR(op, p, what);          \
    GA_CHECK_ALIGN(op, p, dtype, what); \
  } while (0)

#endif
