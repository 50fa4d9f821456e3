/* Computes tiles (a stretch of queries by a stretch of keys) with ga_attn or ga_attn_bwd. */
#ifndef GA_DIST_TILE_H
#define GA_DIST_TILE_H

#include "dist/block.h"
#include "dist/spans.h"
#include "ga/attn_bwd.h"

/* Hashes of the descriptions of ops that have been launched once, so that a rehearsal launches each op only once. */
typedef struct tile_shapes {
  uint64_t *seen;
  int64_t n, room;
} tile_shapes;

/* Device on which a tile is computed, whose tensors are in device memory. The work is enqueued on `stream`. */
typedef struct tile_device {
  ga_stream *stream;
  tile_shapes *rehearsal; /* Ops whose description is in this set are not launched. NULL: all ops are launched. */
  dist_spans *spans;      /* Recorder of spans. NULL: no spans are recorded. */
} tile_device;

typedef struct tile_job {
  ga_ctx *ctx;
  const dist_step *step;
  int64_t steps;      /* Number of tiles from `step` on that are computed together: 1, or dist_tiles_together. */
  block_view q, kv;   /* Views of Q (in the backward of a DIST_G block), and of K and V. */
  block_view out;     /* View of O, or of dQ in the backward. */
  block_view dkv;     /* View of dK and dV, in the backward only. */
  const float *alibi; /* ALiBi slopes, [q_heads]. NULL: none. */
  /* Scratch memory, in f32 elements: dist_tile_scratch on the host, dist_device_scratch on a device. */
  float *scratch;
  const tile_device *device; /* Device of the tensors. NULL: the tensors are in host memory. */
} tile_job;

/* A call of attention: queries [q, q + n_q) and keys [k, k + n_k) of a tile's two stretches. window is
 * ga_attn_desc.window. */
typedef struct tile_call {
  int64_t q, n_q, k, n_k, window;
  bool causal;
  uint32_t adds; /* Backward: GA_ATTN_BWD_ADD_DQ and GA_ATTN_BWD_ADD_DKV, as the step's `writes` require. */
} tile_call;

/* A call over neighbouring stretches. q_stretch and k_stretch are the first stretches; q and k of `call` count from
 * their first rows. q_row and k_row are the call's first rows in the owners' tensors. */
typedef struct tile_part {
  tile_call call;
  int32_t q_stretch, k_stretch;
  int64_t q_row, k_row;
} tile_part;

/* Largest number of tiles that are computed together, and of their calls. */
enum { DIST_TILES_TOGETHER = 16, DIST_TILE_PARTS = 2 * DIST_TILES_TOGETHER };

/* Query heads [head, head + heads), and the KV heads [kv_head, kv_head + kv_heads) that they read. */
typedef struct tile_heads {
  int32_t head, heads, kv_head, kv_heads;
} tile_heads;

/* First row of a call in each view of the job: of its queries in q and out, of its keys in kv and dkv. */
typedef struct tile_rows {
  int64_t q, out, kv, dkv;
} tile_rows;

/* Cuts a tile into at most two calls, and returns their number. Masks of calls are as in ga_attn: query i is at
 * position i + n_k - n_q of the call's keys. */
int dist_tile_calls(const dist_problem *p, const dist_stretch *q, const dist_stretch *k, tile_call out[2]);

/* Cuts the tile of a DIST_TILE step into calls, like dist_tile_calls. */
int dist_step_calls(const dist_problem *p, const dist_step *tile, tile_call out[2]);

/* Returns how many of the n steps from `steps` on dist_tile_run can compute together on a device, at least 1. They are
 * tiles of the same blocks, in a forward pass without a window. */
int64_t dist_tiles_together(const dist_problem *p, const dist_step *steps, int64_t n);

/* Joins the calls of n tiles wherever one call of ga_attn gives the results of two. Returns the number of calls. Two
 * calls become one where their rows are neighbours and the joined mask is causal or full. */
int dist_tile_parts(const dist_problem *p, const dist_step *tiles, int64_t n, tile_part out[DIST_TILE_PARTS]);

/* Returns the largest number of calls of attention that a DIST_TILE step needs: two for each group of heads. */
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
/* Sets *due to false if d's rehearsal set already has the op's description `desc`. Otherwise adds the description and
 * sets *due to true. */
GA_NODISCARD ga_status dist_device_is_due(const tile_device *d, const void *desc, size_t bytes, bool *due);

/* Enqueue the work of dist_copy_block, dist_merge_block, dist_clear_block and dist_convert_block. Sums are f32. */
GA_NODISCARD ga_status dist_device_copy(ga_stream *stream, const block_view *to, const block_view *from);
GA_NODISCARD ga_status dist_device_merge(ga_ctx *ctx, const tile_device *d, const block_view *to,
                                         const block_view *from);
GA_NODISCARD ga_status dist_device_clear(ga_stream *stream, const block_view *v);
/* Enqueues the work of dist_clear_rows. */
GA_NODISCARD ga_status dist_device_clear_rows(ga_stream *stream, const block_view *v, dist_rows rows);
GA_NODISCARD ga_status dist_device_convert(ga_ctx *ctx, const tile_device *d, const block_view *to,
                                           const block_view *from);

#endif
