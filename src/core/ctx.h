/* Internals of a context, and the planning that every op shares. */
#ifndef GA_CORE_CTX_H
#define GA_CORE_CTX_H

#include <stdatomic.h>

#include "base/compiler.h"
#include "core/device.h"
#include "core/memstats.h"
#include "core/steps.h"

struct ga_plan {
  ga_ctx *ctx;
  const ga_kernel *kernel; /* Kernel that the planner chose. */
  ga_plan_steps steps;     /* Launches of the plan. */
  /* Plan of the op that runs at the end of each call (ga_op_info.after). This plan owns it. NULL: there is none. */
  ga_plan *after;
  ga_op op;
  uint32_t desc_bytes;
  /* Copy of the description, validated and with defaults filled in. */
  GA_ALIGNED(8) unsigned char desc[GA_DESC_MAX_BYTES];
};

/* Largest number of plans that a context keeps, each of less than 1 KB. A further plan frees all of them, and plans
 * that are needed again are made again. */
#define GA_PLANS_MOST 16384
/* Plans that a context keeps, because steps of a model have many sizes, each with plans of its own. The table is a hash
 * table by op and description, with open addressing. */
typedef struct ga_plan_cache {
  ga_plan **slots;
  size_t n_slots, n_used;
} ga_plan_cache;

struct ga_ctx {
  ga_device *device;
  ga_stream *stream;
  char *disable_kernels;
  ga_plan_cache cache;
  ga_memstats memstats;  /* Allocations of device memory, by name. */
  atomic_bool in_engine; /* True while the thread of a ga_engine uses the context. Other threads may not use it. */
};

/* Plans an op. desc must be validated and complete. GA_ERR_UNSUPPORTED: no kernel accepts desc; the text names the op
 * and the reasons of the best candidates. */
GA_NODISCARD ga_status ga_plan_make(ga_ctx *ctx, ga_op op, const void *desc, size_t desc_bytes, ga_plan **out);
/* Plans an op like ga_plan_make, with the kernel whose id is `id`. id NULL: the planner chooses. */
GA_NODISCARD ga_status ga_plan_make_row(ga_ctx *ctx, ga_op op, const char *id, const void *desc, size_t desc_bytes,
                                        ga_plan **out);
/* Plans an op like ga_plan_make, or returns a plan that ctx has kept. ctx owns the plan. *stream is the caller's
 * stream; NULL becomes ctx's own stream. The stream's workspace is made large enough for the plan. */
GA_NODISCARD ga_status ga_plan_remember(ga_ctx *ctx, ga_op op, const void *desc, size_t desc_bytes, const ga_plan **out,
                                        ga_stream **stream);

/* Makes the stream's workspace, which its launches use, at least `bytes` bytes large. */
GA_NODISCARD ga_status ga_workspace_grow(ga_stream *stream, uint64_t bytes);
void ga_workspace_free(ga_ctx *ctx, ga_workspace *workspace);
static inline bool ga_records_apart(const ga_stream *stream) { return stream->capturing && !stream->shares_workspace; }
static inline void *ga_workspace_of(const ga_stream *stream) {
  return ga_records_apart(stream) ? stream->recording.data : stream->workspace.data;
}

/* Enqueues the steps of a plan. The caller has checked the pointers in io and the workspace. */
GA_NODISCARD ga_status ga_plan_launch(const ga_plan *plan, const void *io, void *workspace, ga_stream *stream);

/* Sets *out to whether work enqueued on the stream is recorded into a graph now, by GA or by the caller. */
GA_NODISCARD ga_status ga_stream_recorded(const ga_stream *stream, bool *out);
/* Returns GA_ERR_STATE if the library's user is recording the stream, otherwise GA_OK. For the error text, `what` names
 * the action that is impossible during the recording, and `why` the reason. */
GA_NODISCARD ga_status ga_stream_free_to(const ga_stream *stream, const char *what, const char *why);

/* Sets *out to `stream`, or, if stream is NULL, to ctx's own stream. Returns an error if the stream belongs to another
 * device. `what` names the call in the error text. */
GA_NODISCARD ga_status ga_stream_of(ga_ctx *ctx, ga_stream *stream, const char *what, ga_stream **out);

/* Enqueues a copy to the device and returns. host is memory of ga_host_alloc, which must not change until an event
 * recorded after the copy has been waited for. */
GA_NODISCARD ga_status ga_copy_to_device_later(ga_ctx *ctx, void *device, const void *host, size_t bytes,
                                               ga_stream *stream);
/* Enqueues a copy to the host and returns. host is memory of ga_host_alloc, which has the bytes once an event recorded
 * after the copy has been waited for. */
GA_NODISCARD ga_status ga_copy_to_host_later(ga_ctx *ctx, void *host, const void *device, size_t bytes,
                                             ga_stream *stream);
/* Waits on the host until the event's last record is complete. */
GA_NODISCARD ga_status ga_event_sync(ga_event *event);
/* Copies from a buffer of one context to a buffer of another. The copy waits for the work that both contexts' own
 * streams hold, and later work on both waits for the copy. The copy is direct where the devices reach each other;
 * otherwise it uses host memory. */
GA_NODISCARD ga_status ga_copy_between(ga_ctx *to, void *dst, ga_ctx *from, const void *src, size_t bytes);
/* Enqueues a copy to a buffer of `to` on the own stream of `from`. Events must order it with the work of `to`
 * (ga_stream_wait_peer). GA_ERR_UNSUPPORTED: the devices do not reach each other. */
GA_NODISCARD ga_status ga_send_to_peer(ga_ctx *from, const void *src, ga_ctx *to, void *dst, size_t bytes);
/* Makes later work on ctx's own stream wait for the event, which may belong to another device that ctx's device
 * reaches. */
GA_NODISCARD ga_status ga_stream_wait_peer(ga_ctx *ctx, ga_event *event);
/* Enqueues a copy within the memory of one context on its own stream. dst and src must not overlap. */
GA_NODISCARD ga_status ga_copy_within(ga_ctx *ctx, void *dst, const void *src, size_t bytes);
/* Allocates device memory like ga_buffer_alloc_for, with all bytes 0. */
GA_NODISCARD ga_status ga_buffer_alloc_zeroed(ga_ctx *ctx, size_t bytes, const char *what, void **out);

static inline ga_stream *ga_stream_or_default(ga_ctx *ctx, ga_stream *stream) { return stream ? stream : ctx->stream; }

#endif
