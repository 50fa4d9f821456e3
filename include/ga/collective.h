/* GA, collectives: ops that all ranks of a communicator take part in. All-reduce, all-gather, reduce-scatter,
 * all-to-all, send and receive.
 *
 * Each rank, a thread or a process, has a context and an end of a communicator (ga/comm.h). All ranks call the same
 * collectives in the same order with equal descriptions. A rank whose description differs makes the call fail with
 * GA_ERR_COMM on all ranks; the text names the field, two ranks and their values. If arrays are in host memory, the
 * call then fails before it writes anything. A rank that dies, leaves or does not come in time makes the call fail, too
 * (ga/comm.h).
 *
 * Two threads that share the work of a model:
 *
 *   ga_comm_threads_options o = GA_COMM_THREADS_OPTIONS_INIT;
 *   o.ranks = 2;
 *   ga_comm_threads_create(&o, comms);              then in the thread of rank r, with a context of its own:
 *   ga_collective_desc d = GA_COLLECTIVE_DESC_INIT;
 *   d.kind = GA_ALL_REDUCE, d.n = n, d.ranks = 2, d.reach = ga_comm_reach(comms[r]);
 *   ga_collective_io io = {.comm = comms[r], .x = x, .y = x};
 *   ga_collective(ctx, &d, &io, NULL);
 */
#ifndef GA_COLLECTIVE_H
#define GA_COLLECTIVE_H

#include "ga/all_reduce.h"
#include "ga/comm.h"
#include "ga/ctx.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- src/op/collective.toml: ga_collective_kind desc --- */
/* Kinds of collectives. n is ga_collective_desc.n. Arrays are contiguous; [ranks, n] has one row for each rank. */
typedef enum ga_collective_kind {
  GA_ALL_REDUCE = 0,     /* x [n], y [n]: y is the sum of all ranks' x; y may be x */
  GA_ALL_GATHER = 1,     /* x [n], y [ranks, n]: row r of y is rank r's x; x may be the rank's own row of y */
  GA_REDUCE_SCATTER = 2, /* x [ranks, n], y [n]: y of rank r is the sum of row r of all ranks' x */
  GA_ALL_TO_ALL = 3,     /* x [ranks, n], y [ranks, n]: row s of y of rank r is row r of x of rank s */
  GA_SEND_RECV = 4       /* x [n] is sent to rank `to`, and y [n] is received from rank `from`, at the same time */
} ga_collective_kind;

/* Describes a collective; equal on all ranks. */
typedef struct ga_collective_desc {
  size_t struct_size;
  int64_t n;        /* number of elements, as the kind says, 0 to 2^40 */
  int32_t kind;     /* ga_collective_kind */
  int32_t dtype;    /* GA_F32, GA_F16 or GA_BF16 */
  int32_t ranks;    /* number of ranks of the communicator, 1 to 4096 */
  uint32_t reach;   /* value that ga_comm_reach returns for the communicator */
  uint32_t flags;   /* ga_collective_flags */
  int32_t reserved; /* must be 0 */
} ga_collective_desc;
#define GA_COLLECTIVE_DESC_INIT \
  { sizeof(ga_collective_desc), 0, GA_ALL_REDUCE, GA_F32, 1, 0, 0, 0 }
/* --- end of src/op/collective.toml --- */

typedef enum ga_collective_flags {
  GA_COLLECTIVE_WINDOWS = 1, /* io.windows is used: GPU kernels write into the memory of other GPUs */
  GA_COLLECTIVE_LINKS = 2    /* io.links is used: GPUs exchange messages. Not allowed together with WINDOWS */
} ga_collective_flags;

/* Links: the means by which GPUs that cannot map each other's memory exchange messages. */
typedef struct ga_links ga_links;
/* Creates the links. All ranks call it, each with a context on a GPU. copies says how messages travel. "host": through
 * page-locked host memory, also between hosts. "nccl": by the library NCCL. comm and ctx must outlive *out. Collectives
 * over links wait for the host threads of other ranks, so they cannot be recorded in graphs. */
GA_API GA_NODISCARD ga_status ga_links_create(ga_comm *comm, ga_ctx *ctx, const char *copies, ga_links **out);
/* Frees the links. Call it once the streams have finished the enqueued work. NULL is fine. */
GA_API void ga_links_destroy(ga_links *links);

/* --- src/op/collective.toml: io --- */
typedef struct ga_collective_io {
  ga_comm *comm;   /* this rank's end of the communicator */
  ga_links *links; /* with GA_COLLECTIVE_LINKS: this rank's links */
  /* with GA_COLLECTIVE_WINDOWS: a handle of ga_all_reduce_create, of this dtype, for n or more elements */
  ga_all_reduce *windows;
  const void *x;
  void *y;          /* may overlap x only as the kind says */
  int32_t to, from; /* GA_SEND_RECV: ranks that get x and that send y; -1 = none, and x or y is not used */
} ga_collective_io;
/* --- end of src/op/collective.toml --- */

/* Plans a collective. Sums are made in the order of ranks, so all ranks get the same bits. In host memory they are made
 * in double, rounded to f32 and then to the type; on GPUs they are made in f32. On GPUs GA_ALL_REDUCE needs windows,
 * and the other kinds need links; a description with neither flag fails with GA_ERR_UNSUPPORTED. */
GA_API GA_NODISCARD ga_status ga_collective_plan(ga_ctx *ctx, const ga_collective_desc *desc, ga_plan **out);
/* Runs the collective. On a CPU context the work is done when the call returns; on GPUs it is enqueued. */
GA_API GA_NODISCARD ga_status ga_collective_run(const ga_plan *plan, const ga_collective_io *io, void *workspace,
                                                ga_stream *stream);
/* Runs a collective without a separate plan: the context makes the plan at the first such call and keeps it. */
GA_API GA_NODISCARD ga_status ga_collective(ga_ctx *ctx, const ga_collective_desc *desc, const ga_collective_io *io,
                                            ga_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
