/* GA, context: a device with its memory, streams and plans.
 *
 * A context or stream is used by one thread at a time; different contexts may run concurrently.
 * Devices: "cpu" (any CPU, the fastest kernels it can run), "ref" (the oracles: slow, double accumulation),
 * "cuda:N" (an NVIDIA GPU), "auto" (the best one present).
 */
#ifndef GA_CTX_H
#define GA_CTX_H

#include "ga/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ga_ctx ga_ctx;
typedef struct ga_stream ga_stream;
typedef struct ga_plan ga_plan;

typedef struct ga_ctx_options {
  size_t struct_size;
  const char *device; /* NULL = "auto" */
  const char *hide;   /* kernel ids to leave out: comma-separated patterns with * and ?; NULL = none */
  int32_t threads;    /* CPU threads, counting the caller; 0 = one per usable CPU */
  uint32_t flags;     /* 0 */
} ga_ctx_options;
#define GA_CTX_OPTIONS_INIT {.struct_size = sizeof(ga_ctx_options)}

/* Opens a device. options may be NULL. Release with ga_ctx_destroy, after its plans, streams and buffers. */
GA_API GA_NODISCARD ga_status ga_ctx_create(const ga_ctx_options *options, ga_ctx **out);
GA_API void ga_ctx_destroy(ga_ctx *ctx); /* NULL is fine */

/* "cpu", "ref", "cuda:0". Owned by the context. */
GA_API const char *ga_ctx_device_name(const ga_ctx *ctx);
/* One line for people: chip, instruction sets or SMs, memory, threads. Owned by the context. */
GA_API const char *ga_ctx_device_text(const ga_ctx *ctx);
GA_API int32_t ga_ctx_threads(const ga_ctx *ctx);

/* Device memory, 256-byte aligned at least, not cleared. */
GA_API GA_NODISCARD ga_status ga_buffer_alloc(ga_ctx *ctx, size_t bytes, void **out);
GA_API void ga_buffer_free(ga_ctx *ctx, void *buffer); /* NULL is fine */

/* Copies in stream order; host memory may be reused when the call returns. stream NULL = the context's own. */
GA_API GA_NODISCARD ga_status ga_copy_to_device(ga_ctx *ctx, void *device, const void *host, size_t bytes, ga_stream *stream);
/* Returns when the data has arrived. */
GA_API GA_NODISCARD ga_status ga_copy_to_host(ga_ctx *ctx, void *host, const void *device, size_t bytes, ga_stream *stream);

/* Streams order work. On the CPU work is done when a call returns. */
GA_API GA_NODISCARD ga_status ga_stream_create(ga_ctx *ctx, ga_stream **out);
GA_API void ga_stream_destroy(ga_stream *stream); /* waits for its work; NULL is fine */
/* Waits; reports faults of work enqueued before, naming the last kernel. stream NULL = the context's own. */
GA_API GA_NODISCARD ga_status ga_stream_sync(ga_ctx *ctx, ga_stream *stream);

/* Plans: what an op's _plan function chose. Immutable; may be run from several streams at once with own workspaces. */
GA_API size_t ga_plan_workspace_bytes(const ga_plan *plan);
GA_API const char *ga_plan_kernel_id(const ga_plan *plan);
/* Writes the chosen id, why, and which ids were rejected for what reason, one per line. Always NUL-terminated. */
GA_API void ga_plan_describe(const ga_plan *plan, char *text, size_t capacity);
GA_API void ga_plan_destroy(ga_plan *plan); /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
