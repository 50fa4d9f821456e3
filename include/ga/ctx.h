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
  const char *device;          /* name of a device, as the top of this file lists them; NULL = "auto" */
  const char *disable_kernels; /* ids of kernels not to use: patterns with * and ?, separated by commas; NULL = none */
  int32_t threads;             /* CPU threads, counting the caller; 0 = one per usable CPU */
  uint32_t flags;              /* must be 0 */
} ga_ctx_options;
#define GA_CTX_OPTIONS_INIT \
  { sizeof(ga_ctx_options), NULL, NULL, 0, 0 }

/* Opens a device. options may be NULL. Release with ga_ctx_destroy, after its plans, streams and buffers. */
GA_API GA_NODISCARD ga_status ga_ctx_create(const ga_ctx_options *options, ga_ctx **out);
GA_API void ga_ctx_destroy(ga_ctx *ctx); /* NULL is fine */

/* Returns the name of the device: "cpu", "ref", "cuda:0". Owned by the context. */
GA_API const char *ga_ctx_device_name(const ga_ctx *ctx);
/* Returns one line about the device for people: chip, instruction sets or SMs, memory, threads. Owned by the
 * context. */
GA_API const char *ga_ctx_device_text(const ga_ctx *ctx);
GA_API int32_t ga_ctx_threads(const ga_ctx *ctx);

/* Returns the name of backend `index` of this build, whether or not the machine has such a device; NULL beyond the
 * last. ga_ctx_options.device begins with such a name, or is "auto". The string is static. */
GA_API const char *ga_backend_name(size_t index);
/* Returns one line with the number of CUDA kernels of this build. The text is valid until the next call in this
 * thread. */
GA_API const char *ga_cuda_build_text(void);

/* Allocates device memory, at least 256-byte aligned and not cleared. A buffer may be used on any stream of the
 * context. The text of GA_ERR_NOMEM has the bytes requested, the bytes free, the bytes that the pool keeps, and the
 * bytes of buffers by name. */
GA_API GA_NODISCARD ga_status ga_buffer_alloc(ga_ctx *ctx, size_t bytes, void **out);
/* Allocates as ga_buffer_alloc does, and counts the bytes under the name `what` ("weights", "kv cache") for
 * ga_ctx_memory_text. The name is copied and cut at 23 bytes; NULL = "buffers". */
GA_API GA_NODISCARD ga_status ga_buffer_alloc_for(ga_ctx *ctx, size_t bytes, const char *what, void **out);
/* Frees a buffer once the work enqueued so far has ended; the call does not wait. NULL is fine. A buffer that a
 * graph uses must not be freed while the graph may still be launched. */
GA_API void ga_buffer_free(ga_ctx *ctx, void *buffer);

/* Allocates the host memory that is fastest to copy to and from this device (page-locked for a GPU), 64-byte
 * aligned. */
GA_API GA_NODISCARD ga_status ga_host_alloc(ga_ctx *ctx, size_t bytes, void **out);
GA_API void ga_host_free(ga_ctx *ctx, void *p); /* NULL is fine */

typedef struct ga_memory_info {
  size_t struct_size;
  uint64_t total_bytes;       /* bytes of the device's memory */
  uint64_t free_bytes;        /* bytes of the device's memory that no program uses, as the system reports */
  uint64_t used_bytes;        /* bytes of the context's buffers now */
  uint64_t used_peak_bytes;   /* largest value of used_bytes so far */
  uint64_t pooled_bytes;      /* bytes taken from the system: for buffers, or kept for later buffers */
  uint64_t pooled_peak_bytes; /* largest value of pooled_bytes so far */
  uint64_t buffers;           /* number of the context's buffers */
  /* Part of pooled_bytes that no buffer uses: (pooled_bytes - used_bytes) / pooled_bytes. The part of it that
   * ga_ctx_memory_trim cannot return to the system is fragmentation. */
  double idle;
} ga_memory_info;
#define GA_MEMORY_INFO_INIT \
  { sizeof(ga_memory_info), 0, 0, 0, 0, 0, 0, 0, 0.0 }
GA_API GA_NODISCARD ga_status ga_ctx_memory(ga_ctx *ctx, ga_memory_info *info);
/* Writes the bytes and the number of buffers under each name, the largest first: "weights 1073741824 (290), buffers
 * 4096 (2)". Always NUL-terminated. */
GA_API void ga_ctx_memory_text(const ga_ctx *ctx, char *text, size_t capacity);
/* Waits for all work, then returns the pool's free memory to the system. */
GA_API GA_NODISCARD ga_status ga_ctx_memory_trim(ga_ctx *ctx);

/* Copies from host to device in stream order. The host memory may be reused when the call returns. stream NULL = the
 * context's own. */
GA_API GA_NODISCARD ga_status ga_copy_to_device(ga_ctx *ctx, void *device, const void *host, size_t bytes,
                                                ga_stream *stream);
/* Copies from device to host in stream order, and returns when the data has arrived. stream NULL = the context's
 * own. */
GA_API GA_NODISCARD ga_status ga_copy_to_host(ga_ctx *ctx, void *host, const void *device, size_t bytes,
                                              ga_stream *stream);

/* Creates a stream, which runs its work in order. On a CPU, work is complete when a call returns. */
GA_API GA_NODISCARD ga_status ga_stream_create(ga_ctx *ctx, ga_stream **out);
GA_API void ga_stream_destroy(ga_stream *stream); /* waits for GA's work on the stream; NULL is fine */
/* Wraps a stream of the caller's, of the device's primary context: `native` is a CUstream, NULL the legacy default one.
 * The native stream must outlive *out. The caller orders it, waits for it and records it; GA only enqueues work on it.
 * While the caller records it (cuStreamBeginCapture), GA enqueues launches and does nothing else to the device:
 *   - Ops run only by plans that exist, with the caller's workspace; else GA_ERR_STATE.
 *   - Buffers that are freed meanwhile return to the pool after the recording.
 *   - ga_stream_wrap needs a stream that was wrapped before the recording began; *out must outlive the graph.
 *   - Graphs recorded through one ga_stream must not run at the same time: wrap the stream again for a second graph.
 * GA_ERR_ARG: `native` is a stream of another CUDA context. GA_ERR_UNSUPPORTED: ctx is on a CPU. */
GA_API GA_NODISCARD ga_status ga_stream_wrap(ga_ctx *ctx, void *native, ga_stream **out);
/* Waits for a stream and reports faults of the work enqueued on it, with the last kernel's name. stream NULL = the
 * context's own. */
GA_API GA_NODISCARD ga_status ga_stream_sync(ga_ctx *ctx, ga_stream *stream);

/* Creates an event: a mark in a stream. An event belongs to one context and is used by that context's thread. */
GA_API GA_NODISCARD ga_status ga_event_create(ga_ctx *ctx, ga_event **out);
GA_API void ga_event_destroy(ga_event *event); /* NULL is fine */
/* Marks the place in the stream after the work enqueued so far. stream NULL = the context's own. */
GA_API GA_NODISCARD ga_status ga_event_record(ga_ctx *ctx, ga_event *event, ga_stream *stream);
/* Makes work enqueued on `stream` from now on wait for the last record of the event. Both must be of one context. */
GA_API GA_NODISCARD ga_status ga_stream_wait_event(ga_ctx *ctx, ga_stream *stream, ga_event *event);
/* Waits for both events, which must be recorded, and writes the milliseconds between them. */
GA_API GA_NODISCARD ga_status ga_event_elapsed(ga_event *start, ga_event *end, double *ms);

/* Graphs: between begin and end, work enqueued on the stream is recorded, not run. One launch then replays all of it. A
 * graph repeats the calls with the recorded arguments. Buffers in the arguments, and workspaces given by the caller,
 * must outlive the graph. Ops that plan themselves get a workspace that the graph owns. While recording, copies to and
 * from host memory, ga_stream_sync on the stream, and a nested begin return GA_ERR_STATE; the recording goes on. CPU
 * devices: GA_ERR_UNSUPPORTED. */
GA_API GA_NODISCARD ga_status ga_graph_begin(ga_ctx *ctx, ga_stream *stream);
GA_API GA_NODISCARD ga_status ga_graph_end(ga_ctx *ctx, ga_stream *stream, ga_graph **out);
/* Enqueues a graph on any stream of the context. Launches of one graph run one after the other. */
GA_API GA_NODISCARD ga_status ga_graph_launch(ga_ctx *ctx, ga_graph *graph, ga_stream *stream);
GA_API void ga_graph_destroy(ga_graph *graph); /* NULL is fine; waits for its launches */

/* Limits of all ops: a dimension is 0 to 2^40, a tensor with its strides spans at most 2^60 elements, and factors are
 * finite. A pointer must be a multiple of its element's bytes, else the call returns GA_ERR_ARG; blocks of quantised
 * types may lie anywhere. A kernel may require a larger alignment; its error text says so. Error texts name op, field,
 * the value seen and the values allowed. */

/* Returns the bytes of workspace that a run of the plan needs. A plan is the choice that an op's _plan function made.
 * It is immutable, and may run on several streams at once, each with its own workspace. */
GA_API size_t ga_plan_workspace_bytes(const ga_plan *plan);
/* Returns the id of the kernel that the plan runs. */
GA_API const char *ga_plan_kernel_id(const ga_plan *plan);
/* Writes the chosen kernel id, the reason for it, and each rejected id with its reason, one per line. Always
 * NUL-terminated. */
GA_API void ga_plan_describe(const ga_plan *plan, char *text, size_t capacity);
/* Writes a shorter description, for lists of a whole model's plans, with only the kernels for this device. The first
 * line has the op, the chosen kernel's id, the shape and the reason of the choice. Then come the other legal ids, and
 * each reject reason once, with the first kernel rejected for it and the number of further ones. 4096 bytes are enough
 * for most plans; a longer text is cut. Always NUL-terminated. */
GA_API void ga_plan_explain(const ga_plan *plan, char *text, size_t capacity);
GA_API void ga_plan_destroy(ga_plan *plan); /* NULL is fine */

/* Returns the number of plans that a context keeps. The context makes one when an op is called without a plan, as
 * loaded models call their ops. */
GA_API size_t ga_ctx_plan_count(const ga_ctx *ctx);
/* Returns plan `index` of the plans that the context keeps, from 0 to count - 1, ordered by op; NULL beyond. The
 * context owns it. When the context makes another plan, the order changes, and some plans may be freed. */
GA_API const ga_plan *ga_ctx_plan_at(const ga_ctx *ctx, size_t index);

/* Declares the three functions of an op. ga_<op>_plan validates the description, chooses a kernel, computes the
 * workspace size and loads the kernel's code; nothing is enqueued. ga_<op>_run enqueues a plan. Its workspace is
 * ga_plan_workspace_bytes(plan) bytes of device memory, 256-byte aligned; NULL when 0. ga_<op> needs no separate plan:
 * the context makes the plan at the first such call and keeps it, and the stream owns the workspace. stream NULL = the
 * context's own. */
#define GA_DECLARE_OP(op)                                                                                   \
  GA_API GA_NODISCARD ga_status ga_##op##_plan(ga_ctx *ctx, const ga_##op##_desc *desc, ga_plan **out);     \
  GA_API GA_NODISCARD ga_status ga_##op##_run(const ga_plan *plan, const ga_##op##_io *io, void *workspace, \
                                              ga_stream *stream);                                           \
  GA_API GA_NODISCARD ga_status ga_##op(ga_ctx *ctx, const ga_##op##_desc *desc, const ga_##op##_io *io,    \
                                        ga_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
