/* GA, context: a device with its memory, streams and plans.
 *
 * A context or stream is used by one thread at a time; different contexts may run concurrently.
 * Devices: "cpu" (any CPU, the fastest kernels it can run), "ref" (the oracles: slow, double accumulation),
 * "cuda:N" (an NVIDIA GPU), "auto" (cuda where a GPU can be used, else cpu).
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
typedef struct ga_event ga_event;
typedef struct ga_graph ga_graph;

typedef struct ga_ctx_options {
  size_t struct_size;
  const char *device;          /* NULL = "auto" */
  const char *disable_kernels; /* kernel ids to leave out: comma-separated patterns with * and ?; NULL = none */
  int32_t threads;             /* CPU threads, counting the caller; 0 = one per usable CPU */
  uint32_t flags;              /* 0 */
} ga_ctx_options;
#define GA_CTX_OPTIONS_INIT \
  { sizeof(ga_ctx_options), NULL, NULL, 0, 0 }

/* Opens a device. options may be NULL. Release with ga_ctx_destroy, after its plans, streams and buffers. */
GA_API GA_NODISCARD ga_status ga_ctx_create(const ga_ctx_options *options, ga_ctx **out);
GA_API void ga_ctx_destroy(ga_ctx *ctx); /* NULL is fine */

/* "cpu", "ref", "cuda:0". Owned by the context. */
GA_API const char *ga_ctx_device_name(const ga_ctx *ctx);
/* One line for people: chip, instruction sets or SMs, memory, threads. Owned by the context. */
GA_API const char *ga_ctx_device_text(const ga_ctx *ctx);
GA_API int32_t ga_ctx_threads(const ga_ctx *ctx);

/* The names that ga_ctx_options.device may begin with, besides "auto": those built in, whether or not a device is here.
 * NULL beyond the last. Static. */
GA_API const char *ga_backend_name(size_t index);
/* One line: how many CUDA kernels this build has. Valid until the next call in this thread. */
GA_API const char *ga_cuda_build_text(void);

/* Device memory, 256-byte aligned at least, not cleared. GA_ERR_NOMEM says what was asked for, what is free, what the
 * pool keeps and who holds the rest. A buffer may be used on any stream of the context. */
GA_API GA_NODISCARD ga_status ga_buffer_alloc(ga_ctx *ctx, size_t bytes, void **out);
/* The same, counted under `what` ("weights", "kv cache"): copied, cut at 23 bytes; NULL = "buffers". */
GA_API GA_NODISCARD ga_status ga_buffer_alloc_for(ga_ctx *ctx, size_t bytes, const char *what, void **out);
/* Takes effect behind the work enqueued so far; does not wait for it. NULL is fine. Not while a graph that uses the
 * buffer is still to be launched. */
GA_API void ga_buffer_free(ga_ctx *ctx, void *buffer);

/* Host memory that copies to and from this device are fastest with (page-locked for a GPU), 64-byte aligned. */
GA_API GA_NODISCARD ga_status ga_host_alloc(ga_ctx *ctx, size_t bytes, void **out);
GA_API void ga_host_free(ga_ctx *ctx, void *p); /* NULL is fine */

typedef struct ga_memory_info {
  size_t struct_size;
  uint64_t total_bytes, free_bytes;         /* of the device, as the system sees it: other programs count too */
  uint64_t used_bytes, used_peak_bytes;     /* handed out by this context */
  uint64_t pooled_bytes, pooled_peak_bytes; /* taken from the system: handed out, or kept for the next allocation */
  uint64_t buffers;
  double idle; /* (pooled - used) / pooled. What of it ga_ctx_memory_trim cannot give back is fragmentation. */
} ga_memory_info;
#define GA_MEMORY_INFO_INIT \
  { sizeof(ga_memory_info), 0, 0, 0, 0, 0, 0, 0, 0.0 }
GA_API GA_NODISCARD ga_status ga_ctx_memory(ga_ctx *ctx, ga_memory_info *info);
/* Who holds how much: "weights 1073741824 (290), buffers 4096 (2)"; the largest first. Always NUL-terminated. */
GA_API void ga_ctx_memory_text(const ga_ctx *ctx, char *text, size_t capacity);
/* Waits for all work, then gives back what the pool keeps. */
GA_API GA_NODISCARD ga_status ga_ctx_memory_trim(ga_ctx *ctx);

/* Copies in stream order; host memory may be reused when the call returns. stream NULL = the context's own. */
GA_API GA_NODISCARD ga_status ga_copy_to_device(ga_ctx *ctx, void *device, const void *host, size_t bytes,
                                                ga_stream *stream);
/* Returns when the data has arrived. */
GA_API GA_NODISCARD ga_status ga_copy_to_host(ga_ctx *ctx, void *host, const void *device, size_t bytes,
                                              ga_stream *stream);

/* Streams order work. On the CPU work is done when a call returns. */
GA_API GA_NODISCARD ga_status ga_stream_create(ga_ctx *ctx, ga_stream **out);
GA_API void ga_stream_destroy(ga_stream *stream); /* waits for its work, but for the caller's; NULL is fine */
/* A stream that the caller has, of the device's primary context: `native` is a CUstream, NULL the legacy default one.
 * It outlives *out, and the caller orders, waits and records. Work of GA goes to it alone: nothing waits for it.
 * While the caller records it (cuStreamBeginCapture) GA enqueues launches and does nothing else to the device:
 *   - ops run by plans that exist, with the caller's workspace; else GA_ERR_STATE. Buffers that are freed meanwhile go
 *     back later;
 *   - a stream may be wrapped then if one was wrapped before; *out must outlive the graph;
 *   - graphs recorded through one ga_stream must not run at the same time: wrap the stream once more for the second.
 * GA_ERR_ARG: of another context. GA_ERR_UNSUPPORTED: a CPU device. */
GA_API GA_NODISCARD ga_status ga_stream_wrap(ga_ctx *ctx, void *native, ga_stream **out);
/* Waits; reports faults of work enqueued before, naming the last kernel. stream NULL = the context's own. */
GA_API GA_NODISCARD ga_status ga_stream_sync(ga_ctx *ctx, ga_stream *stream);

/* Events: marks in a stream. Of one context; used by its thread. */
GA_API GA_NODISCARD ga_status ga_event_create(ga_ctx *ctx, ga_event **out);
GA_API void ga_event_destroy(ga_event *event); /* NULL is fine */
GA_API GA_NODISCARD ga_status ga_event_record(ga_ctx *ctx, ga_event *event, ga_stream *stream);
/* Work enqueued on `stream` from now on waits for the event as last recorded. Streams of one context. */
GA_API GA_NODISCARD ga_status ga_stream_wait_event(ga_ctx *ctx, ga_stream *stream, ga_event *event);
/* Milliseconds between two recorded events; waits for both. */
GA_API GA_NODISCARD ga_status ga_event_elapsed(ga_event *start, ga_event *end, double *ms);

/* Graphs: between begin and end, work enqueued on the stream is recorded, not run; a launch then replays all of it at
 * the cost of one. Buffers, arguments and the caller's workspaces are those of the recording and must live on; ops that
 * plan themselves get a workspace that the graph keeps. Copies to and from
 * host memory, ga_stream_sync on the stream, and a nested begin give GA_ERR_STATE meanwhile; the recording goes on.
 * CPU devices: GA_ERR_UNSUPPORTED. */
GA_API GA_NODISCARD ga_status ga_graph_begin(ga_ctx *ctx, ga_stream *stream);
GA_API GA_NODISCARD ga_status ga_graph_end(ga_ctx *ctx, ga_stream *stream, ga_graph **out);
/* On any stream of the context. Launches of one graph run one after the other. */
GA_API GA_NODISCARD ga_status ga_graph_launch(ga_ctx *ctx, ga_graph *graph, ga_stream *stream);
GA_API void ga_graph_destroy(ga_graph *graph); /* NULL is fine; waits for its launches */

/* Of all ops: a dimension is 0 to 2^40, and a tensor reaches over at most 2^60 elements; factors are finite. A pointer
 * is a multiple of its element's bytes (blocks of quantised types: any), or the call gives GA_ERR_ARG; kernels may ask
 * for more, and say so. Texts name op, field, the value seen and what is allowed. */

/* Plans: what an op's _plan function chose. Immutable; may be run from several streams at once with own workspaces. */
GA_API size_t ga_plan_workspace_bytes(const ga_plan *plan);
GA_API const char *ga_plan_kernel_id(const ga_plan *plan);
/* Writes the chosen id, why, and which ids were rejected for what reason, one per line. Always NUL-terminated. */
GA_API void ga_plan_describe(const ga_plan *plan, char *text, size_t capacity);
/* The same for people who ask about a whole model, of the rows that compete on this device. The first line has op, id,
 * shape and why; then come the other legal ids; then each reason once, with the first row that has it and how many more
 * there are. 4096 bytes are enough for most plans; a longer text is cut. Always NUL-terminated. */
GA_API void ga_plan_explain(const ga_plan *plan, char *text, size_t capacity);
GA_API void ga_plan_destroy(ga_plan *plan); /* NULL is fine */

/* The plans that a context remembers: those of ops that were called without a plan, as a loaded model calls them. Index
 * 0 to count - 1, op by op; beyond that NULL. Owned by the context; when it makes more plans the order changes, and
 * some may go. */
GA_API size_t ga_ctx_plan_count(const ga_ctx *ctx);
GA_API const ga_plan *ga_ctx_plan_at(const ga_ctx *ctx, size_t index);

#ifdef __cplusplus
}
#endif
#endif
