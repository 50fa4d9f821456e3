/* Computes one tile (a stretch of queries by a stretch of keys) with ga_attn or ga_attn_bwd. */
#ifndef GA_DIST_TILE_H
#define GA_DIST_TILE_H

#include "dist/block.h"
#include "dist/spans.h"
#include "ga/attn_bwd.h"

/* A set of hashes: descriptions of ops that have been launched once, so that a rehearsal launches each only once. */
typedef struct tile_shapes {
  uint64_t *seen;
  int64_t n, room;
} tile_shapes;

/* Where a tile is computed whose tensors are in device memory: its work is enqueued on `stream`. */
typedef struct tile_device {
  ga_stream *stream;
  tile_shapes *rehearsal; /* ops whose description is in the set are not launched; NULL: all are */
  dist_spans *spans;      /* NULL: none are recorded */
} tile_device;

typedef struct tile_job {
  ga_ctx *ctx;
  const dist_step *step;
  block_view q, kv;          /* Q or G; K, V */
  block_view out;            /* O or dQ */
  block_view dkv;            /* backward */
  const float *alibi;        /* [q_heads] or NULL */
  float *scratch;            /* dist_tile_scratch numbers; on a device dist_device_scratch */
  const tile_device *device; /* NULL: the tensors are in host memory */
} tile_job;

/* Queries [q, q + n_q) by keys [k, k + n_k) of the two stretches; window as ga_attn has it. */
typedef struct tile_call {
  int64_t q, n_q, k, n_k, window;
  bool causal;
  uint32_t adds; /* backward: GA_ATTN_BWD_ADD_DQ, GA_ATTN_BWD_ADD_DKV, by the step */
} tile_call;

/* Heads [head, head + heads) of queries, which read kv_heads heads of keys from kv_head on, each as many. */
typedef struct tile_heads {
  int32_t head, heads, kv_head, kv_heads;
} tile_heads;

/* Rows of the views at which the call begins. */
typedef struct tile_rows {
  int64_t q, out, kv, dkv;
} tile_rows;

/* Cuts a tile into at most two calls, and returns how many. Query i of a call sees keys j with
 * i + high - window < j <= i + high. */
int dist_tile_calls(const dist_problem *p, const dist_stretch *q, const dist_stretch *k, tile_call out[2]);

/* Returns the calls of a DIST_TILE step, as dist_tile_calls. */
int dist_step_calls(const dist_problem *p, const dist_step *tile, tile_call out[2]);

/* Returns the most calls of attention that a DIST_TILE step needs: two for each group of heads. */
int64_t dist_step_most_calls(const dist_problem *p, const dist_step *tile);

/* Returns the scratch memory that the rank's largest tile needs, in f32 elements. */
int64_t dist_tile_scratch(const ga_dist_plan *plan, int32_t rank);
ga_status dist_tile_run(const tile_job *job);

/* Returns the flag of ga_attn_bwd that fixes the order of its sums, or 0 for plans with GA_DIST_UNORDERED. */
static inline uint32_t dist_order_flag(const dist_problem *p) {
  return p->flags & GA_DIST_UNORDERED ? 0u : (uint32_t)GA_ATTN_BWD_DETERMINISTIC;
}

/* --- on a device: tile_device.c --- */

/* Returns the scratch device memory that the rank's largest tile needs, in f32 elements. */
int64_t dist_device_scratch(const ga_dist_plan *plan, int32_t rank);
ga_status dist_device_forward(const tile_job *job, const tile_call *c, const tile_heads *h, const tile_rows *at);
ga_status dist_device_backward(const tile_job *job, const tile_call *c, const tile_heads *h, const tile_rows *at);
/* Sets *due to false if d's rehearsal set has this op's description already; else adds it. */
GA_NODISCARD ga_status dist_device_is_due(const tile_device *d, const void *desc, size_t bytes, bool *due);

/* As dist_copy_block, dist_merge_block, dist_clear_block and dist_convert_block, in stream order. Sums are f32. */
GA_NODISCARD ga_status dist_device_copy(ga_stream *stream, const block_view *to, const block_view *from);
GA_NODISCARD ga_status dist_device_merge(ga_ctx *ctx, const tile_device *d, const block_view *to,
                                         const block_view *from);
GA_NODISCARD ga_status dist_device_clear(ga_stream *stream, const block_view *v);
/* As dist_clear_rows. */
GA_NODISCARD ga_status dist_device_clear_rows(ga_stream *stream, const block_view *v, dist_rows rows);
GA_NODISCARD ga_status dist_device_convert(ga_ctx *ctx, const tile_device *d, const block_view *to,
                                           const block_view *from);

#endif
