/* Latent attention: tiles of packed rows (mla_args.h), the share of a split, and addresses of cached rows. Every kernel
 * of the family includes this header. */
#pragma once
#include "cuda/dev/ptx/mem.h"
#include "cuda/kern/mla/mla_args.h"

/* The tile of a thread block: packed rows [row, row + n) of sequence b, which has n_q queries from token q_first on and
 * n_kv cached tokens. No row sees a token from `to` on. */
typedef struct {
  int b, row, n, n_q, n_kv, q_first, to;
} mla_unit;

/* Return the query and the head of packed row r of the tile. The row exists if the head is below q_heads. */
GA_DEV int mla_query_of(const ga_kargs_mla *a, const mla_unit *u, int r) { return (u->row + r) / a->query_rows; }
GA_DEV int mla_head_of(const ga_kargs_mla *a, const mla_unit *u, int r) { return (u->row + r) % a->query_rows; }
/* Returns the number of tokens that packed row r sees: the last query sees all. It may be below 1. */
GA_DEV int mla_seen_by(const ga_kargs_mla *a, const mla_unit *u, int r) {
  return mla_query_of(a, u, r) + u->n_kv - u->n_q + 1;
}
/* Returns whether packed row r has a query and a head, and its token is one of the call's. */
GA_DEV bool mla_has_row(const ga_kargs_mla *a, const mla_unit *u, int r) {
  return r < u->n && mla_head_of(a, u, r) < a->q_heads && u->q_first + mla_query_of(a, u, r) < a->tokens;
}

/* Returns the tile of unit `unit`. n is 0 or less if its sequence has no such rows. */
GA_DEV mla_unit mla_unit_of(const ga_kargs_mla *a, int unit, int rows_of_tile) {
  mla_unit u;
  u.b = unit / a->tiles;
  u.row = unit % a->tiles * rows_of_tile;
  u.q_first = a->q_start[u.b];
  u.n_q = a->q_start[u.b + 1] - u.q_first;
  u.n_kv = a->kv_len[u.b];
  const int rows = u.n_q * a->query_rows - u.row;
  u.n = rows < rows_of_tile ? rows : rows_of_tile;
  u.to = u.n > 0 ? mla_seen_by(a, &u, u.n - 1) : 0;
  if (u.to > u.n_kv) u.to = u.n_kv;
  if (u.to < 0) u.to = 0;
  return u;
}

/* A block's keys [first, last), of which `first` is a multiple of a step's keys. Splits from `parts` on have none. */
typedef struct {
  int first, last, parts;
} mla_share;

/* Divides the steps of `keys` keys evenly: split 0 has work even if there is no key. */
GA_DEV mla_share mla_share_of(const ga_kargs_mla *a, const mla_unit *u, int split, int keys) {
  mla_share s;
  const int steps = (u->to + keys - 1) / keys;
  s.parts = steps < 1 ? 1 : steps < a->splits ? steps : a->splits;
  s.first = (int)((int64_t)steps * split / s.parts) * keys;
  s.last = (int)((int64_t)steps * (split + 1) / s.parts) * keys;
  if (s.last > u->to) s.last = u->to;
  return s;
}

/* Returns the row of token j of the unit's sequence, below u->n_kv. */
GA_DEV const uint8_t *mla_row_at(const ga_kargs_mla *a, const mla_unit *u, int j) {
  const int32_t entry = j / a->page_size, page = a->page_table[u->b * a->page_stride + entry];
  return (const uint8_t *)a->cache + ((int64_t)page * a->page_size + (j - entry * a->page_size)) * a->row_bytes;
}
