/* Attention of few queries. The rows of a tile are packed rows: pairs of a query and one of the query heads that share
 * a KV head. The kernels attn_decode_simt (any GPU) and attn_decode (Hopper) share this header. */
#pragma once
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/tile/block_row.h"
#include "cuda/dev/tile/quant.h"
#include "cuda/kern/attn/attn_decode_args.h"

#define NONE GA_NEG_INFINITY

/* The tile of a thread block: packed rows [row, row + n) of sequence b and KV head h. The sequence has n_q queries and
 * n_kv keys, from tokens q_first and kv_first on. Keys that no row sees are outside [from, to). */
typedef struct {
  int b, h, row, n, n_q, n_kv, q_first, kv_first, from, to;
} unit;

GA_DEV int query_of(const ga_kargs_attn_decode *a, const unit *u, int r) { return (u->row + r) / a->group; }
GA_DEV int head_of(const ga_kargs_attn_decode *a, const unit *u, int r) {
  return u->h * a->group + (u->row + r) % a->group;
}
/* Returns the key that has the position of packed row r's query. The last query has the position of the last key. */
GA_DEV int place_of(const ga_kargs_attn_decode *a, const unit *u, int r) {
  return query_of(a, u, r) + u->n_kv - u->n_q;
}

/* Returns the index, in the array lse, of query i of the tile's sequence and query head `head`. */
GA_DEV int64_t packed_lse_at(const ga_kargs_attn_decode *a, const unit *u, int head, int i) {
  return a->lse_stride ? head * a->lse_stride + u->q_first + i : ((int64_t)u->b * a->q_heads + head) * a->rows_q + i;
}

GA_DEV unit unit_of(const ga_kargs_attn_decode *a, int block, int rows_of_tile) {
  unit u;
  const int kv_heads = a->q_heads / a->group, tile = block % a->tiles;
  u.h = block / a->tiles % kv_heads;
  u.b = block / a->tiles / kv_heads;
  u.q_first = a->q_start ? a->q_start[u.b] : 0;
  u.n_q = a->q_len ? a->q_len[u.b] : a->q_start ? a->q_start[u.b + 1] - u.q_first : a->rows_q;
  u.kv_first = a->kv_start ? a->kv_start[u.b] : 0;
  u.n_kv = a->kv_len ? a->kv_len[u.b] : a->kv_start ? a->kv_start[u.b + 1] - u.kv_first : a->rows_k;
  u.row = tile * rows_of_tile;
  const int rows = u.n_q * a->group - u.row;
  u.n = rows < rows_of_tile ? rows : rows_of_tile;
  u.from = 0;
  u.to = u.n_kv;
  if (u.n <= 0) return u;
  if (a->causal && place_of(a, &u, u.n - 1) + 1 < u.to) u.to = place_of(a, &u, u.n - 1) + 1;
  if (a->window && place_of(a, &u, 0) - a->window + 1 > u.from) u.from = place_of(a, &u, 0) - a->window + 1;
  if (u.to < u.from) u.to = u.from;
  return u;
}

/* Returns true in the last block to finish among the `parts` blocks of tile `block`. That block then sees the writes of
 * the others.
 *
 * One thread calls the function after a block barrier that made the block's writes visible to it. Another block barrier
 * must follow. */
GA_DEV bool count_split(const ga_kargs_attn_decode *a, int block, int parts) {
  fence_device();
  const bool last = atomic_add_i32(a->counter + block, 1) == parts - 1;
  if (last) stg_i32(a->counter + block, 0);
  fence_device();
  return last;
}
/* Calls count_split in one thread and returns its result in all threads. *flag is shared memory of the block. */
GA_DEV bool is_last_split(const ga_kargs_attn_decode *a, int *flag, int block, int parts) {
  block_sync();
  if (thread_index() == 0) *flag = count_split(a, block, parts);
  block_sync();
  return *flag != 0;
}
