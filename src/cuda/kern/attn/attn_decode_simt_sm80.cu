/* KERNEL    attn_decode_simt, sm80: decode, short prefills, and all calls that the wgmma variants refuse
 * COMPUTES  O = softmax(scale Q K^T + mask) V in f32: soft-cap, ALiBi, sinks, window, packed sequences, pages, GQA, LSE
 * CONTRACT  head_dim and v_dim multiples of 8 up to 256; K and V of one type, rows of 16-byte multiples for plain
 *           types; lengths are read on the device, so that a recorded graph serves every length up to rows_k
 * DATA      K and V from gmem to registers once a tile of ROWS packed rows (queries x heads of a group): 16 bytes a
 *           lane, `lanes` lanes a key; masked values never enter a sum, so masked infinities have no effect
 * MERGE     lanes, then warps through shared memory, then splits of the keys. Splits write partial sums to gmem; the
 *           last block of a unit adds them in order, so results do not depend on which block is last
 * BUDGET    THREADS lanes, ROWS * (8 q + 8 o + 2) registers a lane
 */
#include "cuda/kern/attn/attn_packed.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_KV
#error "GA_P_KV: type of K and V: F32, F16, BF16, E4M3, Q8_0 or Q4_0"
#endif
#ifndef GA_P_ROWS
#error "GA_P_ROWS: packed rows of a tile"
#endif
#ifndef GA_P_THREADS
#error "GA_P_THREADS: lanes of a block"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif
static_assert(GA_P_SMEM == 0, "no dynamic shared memory");

#define KV GA_CAT(T_, GA_P_KV)
enum { ROWS = GA_P_ROWS, WARPS = GA_P_THREADS / 32, MAX_DIM = 256, KEYS = 2 /* a lane group's at a time */ };
enum { PART = 64 /* keys of a split, or a multiple */, IN_FLIGHT = 8 /* loads under way at once */ };

/* State of ROWS rows over the keys that a group of lanes has seen. o: this lane's 8 columns. */
typedef struct {
  float m[ROWS], l[ROWS], o[ROWS][8];
} state;

typedef struct {
  float m[WARPS][ROWS], l[WARPS][ROWS], o[WARPS][ROWS][MAX_DIM];
  int is_last;
} merge_shared;

/* Elements from the start to key j of head 0. */
GA_DEV int64_t key_at(const ga_kargs_attn_decode *a, const unit *u, int j, int64_t batch, int64_t token) {
  if (a->page_table) {
    const int page = a->page_table[u->b * a->page_stride + j / a->page_size];
    return page * batch + (int64_t)(j % a->page_size) * token;
  }
  return (a->kv_start ? 0 : u->b * batch) + (int64_t)(u->kv_first + j) * token;
}

/* This block's keys of a tile: [first, last); the first `parts` splits have some. */
typedef struct {
  int first, last, parts;
} share;

GA_DEV share share_of(const ga_kargs_attn_decode *a, const unit *u, int split) {
  share s;
  const int part = ((u->to - u->from + a->splits - 1) / a->splits + PART - 1) / PART * PART;
  s.parts = part ? (u->to - u->from + part - 1) / part : 0;
  s.first = u->from + split * part < u->to ? u->from + split * part : u->to;
  s.last = s.first + part < u->to ? s.first + part : u->to;
  if (a->whole_turns) s.first -= s.first % (KEYS * WARPS * (32 / a->lanes));
  return s;
}

/* 8 elements from element `at` on; `there`: else zeros, and nothing is read. */
GA_DEV void load8(float *x, const void *p, int64_t at, bool there) {
  GA_UNROLL for (int e = 0; e < 8; e++) x[e] = 0;
  if (!there) return;
  if (KV == T_F32) {
    elem_get16_f32(x, p, at);
    elem_get16_f32(x + 4, p, at + 4);
  } else if (KV == T_F16) {
    elem_get16_f16(x, p, at);
  } else if (KV == T_BF16) {
    elem_get16_bf16(x, p, at);
  } else {
    GA_UNROLL for (int e = 0; e < 8; e++) x[e] = quant_at(KV, p, at + e);
  }
}

GA_DEV void load_q(const ga_kargs_attn_decode *a, const unit *u, int col, float q[ROWS][8]) {
  GA_UNROLL for (int r = 0; r < ROWS; r++) {
    const int64_t token = u->q_first + query_of(a, u, r), head = head_of(a, u, r);
    const int64_t at = (a->q_start ? 0 : u->b * a->q_batch) + token * a->q_token + head * a->q_head + col;
    const bool there = r < u->n && col < a->head_dim;
    GA_UNROLL for (int e = 0; e < 8; e++) q[r][e] = there ? plain_get(a->q_dtype, a->q, at + e) : 0.0f;
  }
}

/* The logit of row r and key j: every lane of the group has the dot product. */
GA_DEV float logit(const ga_kargs_attn_decode *a, const unit *u, int r, int j, float dot) {
  float x = a->scale * dot;
  if (a->softcap > 0) x = a->softcap * tanhf(x / a->softcap);
  if (a->alibi) {
    const int distance = j - place_of(a, u, r);
    x += a->alibi[head_of(a, u, r)] * (float)(a->symmetric && distance > 0 ? -distance : distance);
  }
  return x;
}

GA_DEV bool sees(const ga_kargs_attn_decode *a, const unit *u, int last, int r, int j) {
  const int p = place_of(a, u, r);
  if (a->symmetric && a->window && j - p >= a->window) return false;
  return r < u->n && j < last && (!a->causal || j <= p) && (!a->window || j > p - a->window);
}

/* e^(x - m) where m is a running maximum: -infinity has no terms yet. */
GA_DEV float weight_of(float x, float m) { return m == NONE && x == NONE ? 0.0f : expf(x - m); }

/* KEYS keys of one group of lanes into its state. */
GA_DEV void take_keys(const ga_kargs_attn_decode *a, const unit *u, int last, int j0, int step, int col,
                      float q[ROWS][8], state *s) {
  float k[KEYS][8], v[KEYS][8], scale_k[KEYS], scale_v[KEYS];
  GA_UNROLL for (int i = 0; i < KEYS; i++) {
    const int j = j0 + i * step;
    const bool there = j < last;
    const int64_t at_k = there ? key_at(a, u, j, a->k_batch, a->k_token) + u->h * a->k_head + col : 0;
    const int64_t at_v = there ? key_at(a, u, j, a->v_batch, a->v_token) + u->h * a->v_head + col : 0;
    load8(k[i], a->k, at_k, there && col < a->head_dim);
    load8(v[i], a->v, at_v, there && col < a->v_dim);
    scale_k[i] = scale_v[i] = 1;
    if (KV != T_E4M3 || !there) continue;
    scale_k[i] =
        ldg_f32(a->k_scale + key_at(a, u, j, a->k_scale_batch, a->k_scale_token) + (int64_t)u->h * a->k_scale_head);
    scale_v[i] =
        ldg_f32(a->v_scale + key_at(a, u, j, a->v_scale_batch, a->v_scale_token) + (int64_t)u->h * a->v_scale_head);
  }
  GA_UNROLL for (int r = 0; r < ROWS; r++) {
    if (r >= u->n) continue;
    float x[KEYS], most = s->m[r];
    GA_UNROLL for (int i = 0; i < KEYS; i++) {
      float dot = 0;
      GA_UNROLL for (int e = 0; e < 8; e++) dot = fmaf(q[r][e], k[i][e], dot);
      for (int m = a->lanes / 2; m > 0; m /= 2) dot += shfl_xor_f32(dot, m);
      x[i] = logit(a, u, r, j0 + i * step, KV == T_E4M3 ? dot * scale_k[i] : dot);
      if (sees(a, u, last, r, j0 + i * step)) most = fmaxf(most, x[i]);
    }
    if (most > s->m[r]) {
      const float shrink = weight_of(s->m[r], most);
      s->l[r] *= shrink;
      GA_UNROLL for (int e = 0; e < 8; e++) s->o[r][e] *= shrink;
      s->m[r] = most;
    }
    GA_UNROLL for (int i = 0; i < KEYS; i++) {
      if (!sees(a, u, last, r, j0 + i * step)) continue;
      const float p = weight_of(x[i], most), y = KV == T_E4M3 ? p * scale_v[i] : p;
      s->l[r] += p;
      GA_UNROLL for (int e = 0; e < 8; e++) s->o[r][e] = fmaf(y, v[i][e], s->o[r][e]);
    }
  }
}

/* Adds the states of the lane groups of a warp: afterwards each group has the sum. */
GA_DEV void merge_groups(const ga_kargs_attn_decode *a, state *s) {
  for (int d = a->lanes; d < 32; d *= 2) GA_UNROLL for (int r = 0; r < ROWS; r++) {
      const float other = shfl_xor_f32(s->m[r], d), most = fmaxf(s->m[r], other);
      const float mine = weight_of(s->m[r], most), theirs = weight_of(other, most);
      s->l[r] = mine * s->l[r] + theirs * shfl_xor_f32(s->l[r], d);
      GA_UNROLL for (int e = 0; e < 8; e++) s->o[r][e] = mine * s->o[r][e] + theirs * shfl_xor_f32(s->o[r][e], d);
      s->m[r] = most;
    }
}

/* O and LSE of row r from the sum over all its keys: column c of o. */
GA_DEV void finish_query(const ga_kargs_attn_decode *a, const unit *u, int r, int c, float m, float l, float o) {
  const int head = head_of(a, u, r), i = query_of(a, u, r);
  const bool none = m == NONE && l == 0;
  if (a->sinks && !none) {
    const float sink = a->sinks[head], most = fmaxf(m, sink), shrink = weight_of(m, most);
    l = l * shrink + expf(sink - most);
    o *= shrink;
    m = most;
  }
  const int64_t at =
      (a->q_start ? 0 : u->b * a->o_batch) + (int64_t)(u->q_first + i) * a->o_token + head * a->o_head + c;
  plain_put(a->o_dtype, a->o, at, none ? 0.0f : o / l);
  if (a->lse && c == 0) a->lse[packed_lse_at(a, u, head, i)] = none ? NONE : m + logf(l);
}

/* Merges the warps' states: returns column c of row r of their joint O, and sets *m and *l to its maximum and sum. */
GA_DEV float add_warps(const merge_shared *s, int r, int c, float *m, float *l) {
  float o = 0;
  *m = NONE;
  *l = 0;
  for (int w = 0; w < WARPS; w++) *m = fmaxf(*m, s->m[w][r]);
  for (int w = 0; w < WARPS; w++) {
    const float weight = weight_of(s->m[w][r], *m);
    *l += weight * s->l[w][r];
    o += weight * s->o[w][r][c];
  }
  return o;
}

/* Merges the results of the splits, in order, as add_warps merges those of warps. part: row r of split 0. */
GA_DEV float add_splits(const ga_kargs_attn_decode *a, int parts, const float *part, int c, float *m, float *l) {
  const int64_t step = (int64_t)ROWS * (a->v_dim + 2);
  float o = 0;
  *m = NONE;
  *l = 0;
  for (int first = 0; first < parts; first += IN_FLIGHT) {
    float ms[IN_FLIGHT], ls[IN_FLIGHT], os[IN_FLIGHT], most = *m;
    GA_UNROLL for (int e = 0; e < IN_FLIGHT; e++) {
      const bool there = first + e < parts;
      const float *p = part + (first + e) * step;
      ms[e] = there ? ldg_f32(p + a->v_dim) : NONE;
      ls[e] = there ? ldg_f32(p + a->v_dim + 1) : 0.0f;
      os[e] = there ? ldg_f32(p + c) : 0.0f;
    }
    GA_UNROLL for (int e = 0; e < IN_FLIGHT; e++) most = fmaxf(most, ms[e]);
    const float shrink = weight_of(*m, most);
    *l *= shrink;
    o *= shrink;
    *m = most;
    GA_UNROLL for (int e = 0; e < IN_FLIGHT; e++) {
      const float weight = weight_of(ms[e], most);
      if (first + e >= parts) continue;
      *l += weight * ls[e];
      o += weight * os[e];
    }
  }
  return o;
}

GA_KERNEL(GA_P_THREADS, 2) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_attn_decode a) {
  GA_SHARED merge_shared shared;
  const int block = block_index() / a.splits, split = block_index() % a.splits, lane = thread_index() % 32,
            warp = thread_index() / 32;
  grid_dependency_wait();
  grid_launch_dependents();
  const unit u = unit_of(&a, block, ROWS);
  if (u.n <= 0) return; /* no such rows in this sequence: the same for all splits */
  const share own = share_of(&a, &u, split);
  const int groups = 32 / a.lanes, col = lane % a.lanes * 8, step = WARPS * groups;
  float q[ROWS][8];
  state s;
  load_q(&a, &u, col, q);
  GA_UNROLL for (int r = 0; r < ROWS; r++) {
    s.m[r] = NONE;
    s.l[r] = 0;
    GA_UNROLL for (int e = 0; e < 8; e++) s.o[r][e] = 0;
  }
  for (int j = own.first; j < own.last; j += KEYS * step)
    take_keys(&a, &u, own.last, j + warp * groups + lane / a.lanes, step, col, q, &s);
  merge_groups(&a, &s);
  GA_UNROLL for (int r = 0; r < ROWS; r++) {
    if (lane == 0) shared.m[warp][r] = s.m[r], shared.l[warp][r] = s.l[r];
    if (lane < a.lanes) GA_UNROLL
      for (int e = 0; e < 8; e++) shared.o[warp][r][col + e] = s.o[r][e];
  }
  block_sync();
  const int64_t row_floats = a.v_dim + 2;
  float *part = a.partial + (int64_t)block * a.splits * ROWS * row_floats;
  for (int i = thread_index(); i < u.n * a.v_dim; i += GA_P_THREADS) {
    const int r = i / a.v_dim, c = i % a.v_dim;
    float m, l;
    const float o = add_warps(&shared, r, c, &m, &l);
    if (a.splits == 1) {
      finish_query(&a, &u, r, c, m, l, o);
      continue;
    }
    float *mine = part + ((int64_t)split * ROWS + r) * row_floats;
    stg_f32(mine + c, o);
    if (c == 0) stg_f32(mine + a.v_dim, m), stg_f32(mine + a.v_dim + 1, l);
  }
  if (a.splits == 1 || !is_last_split(&a, &shared.is_last, block, a.splits)) return;
  for (int i = thread_index(); i < u.n * a.v_dim; i += GA_P_THREADS) {
    const int r = i / a.v_dim, c = i % a.v_dim;
    float m, l;
    const float o = add_splits(&a, own.parts, part + r * row_floats, c, &m, &l);
    finish_query(&a, &u, r, c, m, l, o);
  }
}
