/* Tiles of the backward kernels for every shape (attn_bwd_fallback_sm80.cu, attn_bwd_simt_sm80.cu). A thread block owns
 * rows of keys or of queries. This file finds the queries that see these keys, or the keys that these queries see. It
 * also computes the logit of a query and a key. */
#pragma once
#include "cuda/dev/ptx/mem.h"
#include "cuda/kern/attn_bwd/attn_bwd_args.h"

enum { OWN = GA_P_OWN /* number of rows of the tile that a block keeps in shared memory */ };

typedef const ga_kargs_attn_bwd_fallback *args;

typedef struct {
  args a;
  int warp, lane;
  /* 1: the thread block's own rows are keys. 0: they are queries. */
  int keys;
  /* head is a KV head if the own rows are keys, else a query head. row0 is the first own row. */
  int batch, head, row0;
  /* rows_q and rows_k are the numbers of queries and keys of the sequence. Query i has the position of key i +
   * shift. */
  int rows_q, rows_k, shift;
  /* First rows of the sequence in the packed tensors; 0 when they are not packed. */
  int start_q, start_k;
} tile;

GA_DEV int imin(int a, int b) { return a < b ? a : b; }
GA_DEV int imax(int a, int b) { return a > b ? a : b; }

GA_DEV tile tile_of(args a, int block) {
  tile t;
  t.a = a;
  t.warp = thread_index() >> 5;
  t.lane = thread_index() & 31;
  t.keys = block < a->blocks_k;
  if (!t.keys) block -= a->blocks_k;
  const int tiles = t.keys ? a->tiles_k : a->tiles_q, heads = t.keys ? a->heads_k : a->heads_q, pair = block / tiles;
  const int n = block - pair * tiles;
  t.batch = pair / heads;
  t.head = pair - t.batch * heads;
  t.row0 = (t.keys ? n : tiles - 1 - n) * OWN; /* the longest causal tile comes first */
  t.rows_q = a->rows_q;
  t.rows_k = a->rows_k;
  t.start_q = t.start_k = 0;
  if (a->cu_q) {
    t.start_q = ldg_i32(a->cu_q + t.batch);
    t.rows_q = a->q_len ? ldg_i32(a->q_len + t.batch) : ldg_i32(a->cu_q + t.batch + 1) - t.start_q;
    t.start_k = ldg_i32(a->cu_k + t.batch);
    t.rows_k = a->kv_len ? ldg_i32(a->kv_len + t.batch) : ldg_i32(a->cu_k + t.batch + 1) - t.start_k;
  }
  t.shift = t.rows_k - t.rows_q;
  return t;
}
/* Returns the factor of dQ and dK of the tile's sequence. */
GA_DEV float scale_of(const tile *t) { return t->rows_k == 1 ? t->a->scale_alone : t->a->out_scale; }
/* A range of rows: lo to hi - 1. rows_met returns the queries that see any of the tile's keys, or the keys that any of
 * the tile's queries sees. */
typedef struct {
  int lo, hi;
} range;
GA_DEV range rows_met(const tile *t) {
  args a = t->a;
  const int first = t->row0, last = imin(t->row0 + OWN, t->keys ? t->rows_k : t->rows_q) - 1;
  range r = {0, t->keys ? t->rows_q : t->rows_k};
  if (t->keys) {
    if (a->causal) r.lo = imax(0, first - t->shift);
    if (a->window) r.hi = imin(r.hi, last - t->shift + a->window);
  } else {
    if (a->window) r.lo = imax(0, first + t->shift - a->window + 1);
    if (a->causal) r.hi = imin(r.hi, last + t->shift + 1);
  }
  return r;
}
GA_DEV int sees(const tile *t, int i, int j) {
  args a = t->a;
  const int distance = j - i - t->shift;
  return i < t->rows_q && j < t->rows_k && (!a->causal || distance <= 0) && (!a->window || distance > -a->window);
}
/* Returns the index, in elements, of the start of row `row` of a head in tensor x. of_q: the row is a query, else a
 * key. */
GA_DEV int64_t row_at(const tile *t, const ga_kbwd_tensor *x, int head, int of_q, int row) {
  return (t->a->cu_q ? 0 : t->batch) * x->batch + head * x->head +
         (int64_t)((of_q ? t->start_q : t->start_k) + row) * x->row;
}

/* Log-sum-exp and delta = rowsum(dO O) of each row of a query head, written by attn_bwd_pre, and the head's ALiBi
 * slope. */
typedef struct {
  const float *lse, *delta;
  float slope;
} stat_rows;
GA_DEV stat_rows stat_of(const tile *t, int head) {
  args a = t->a;
  const int padded = GA_KBWD_ROWS * a->blocks_q;
  const float *lse = a->stat + (int64_t)(t->batch * a->heads_q + head) * 2 * padded;
  const stat_rows s = {lse, lse + padded, a->slope ? ldg_f32(a->slope + head) : 0.f};
  return s;
}

/* Returns the logit of a query and a key whose product is x. *derivative becomes the derivative of the logit with
 * respect to x * scale. */
GA_DEV float logit(args a, float x, float slope, int distance, float *derivative) {
  *derivative = 1.f;
  if (a->softcap != 0.f) {
    const float y = tanhf(x * a->softcap_in);
    *derivative = 1.f - y * y;
    x = y * a->softcap;
  } else {
    x *= a->scale;
  }
  return x + slope * (float)distance;
}
