#include "cuda/kern/attn/attn_fwd_sm90a.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "core/cost.h"
#include "cuda/kern/attn/attn_fwd_sm90a_args.h"
#include "cuda/kern/attn/attn_stretch_args.h"
#include "cuda/kernel_names.h"
#include "cuda/rt/costs.h"
#include "opdef/attn.h"

#define LOG2E        1.4426950408889634
#define PANEL_COLS   64 /* columns of a box: 128 bytes, the width of the swizzle */
#define ALIGN_BYTES  16 /* of addresses and strides, for tensor maps and 16-byte stores */
#define ALIGN_ELEMS  8
#define WG_ROWS      64 /* of Q, of a warpgroup and of its box */
#define O_BOX_ROWS   16
#define PAGE_STEP    8 /* a box of a page starts on a swizzle period */
#define MOST_ROWS    ((int64_t)1 << 28)
#define LEAST_BLOCKS 2 /* of K and V that an item of a tile's split has */
#define MOST_SPLITS  64
#define READY_POLLS  (1 << 22)          /* where io.ready_polls is 0: of some 1.2 us each */
#define MOST_PAGES   ((int64_t)1 << 31) /* their number is not known here; page numbers are int32 */

/* --- what a row can do --- */

#define STATE (GA_ATTN_STATE_IN | GA_ATTN_STATE_OUT)
enum { SPLITS = ATTN_FWD_SM90A_PACKS | ATTN_FWD_SM90A_CARRY }; /* a tile's keys may be cut over several blocks */
enum { UNITS = 1 };                                            /* of GA_P_RESIDENT */

static const char *features_ok(const ga_attn_desc *d, const cuda_attn_variant *v) {
  if (d->flags & GA_ATTN_SYMMETRIC) return CUDA_ATTN_ONE_WAY;
  if (d->flags & GA_ATTN_PAGED && d->page_size % PAGE_STEP) return "page_size must be a multiple of 8";
  if (d->flags & STATE && !(v->features & ATTN_FWD_SM90A_CARRY)) return "compiled without carried state";
  if (d->kv_segments && !(v->features & ATTN_FWD_SM90A_CARRY)) return "compiled without KV segments";
  if (d->flags & GA_ATTN_PAGED && !(v->features & (ATTN_FWD_SM90A_PAGES | ATTN_FWD_SM90A_STRETCHES)))
    return "compiled without pages";
  if (d->q_stretches && !(v->features & ATTN_FWD_SM90A_STRETCHES)) return "compiled without stretches";
  if (!d->q_stretches && v->features & ATTN_FWD_SM90A_STRETCHES) return "it takes stretches alone";
  if (v->features & ATTN_FWD_SM90A_EXTRAS) return NULL;
  if (d->flags & GA_ATTN_VARLEN) return "compiled without packed sequences";
  if (d->flags & GA_ATTN_SINKS) return "compiled without sinks";
  if (d->flags & GA_ATTN_ALIBI) return "compiled without ALiBi";
  return d->softcap > 0 ? "compiled without soft-cap" : NULL;
}

static cuda_attn_mask mask_of(const ga_attn_desc *d) {
  return d->window ? CUDA_ATTN_MASK_WINDOW : d->flags & GA_ATTN_CAUSAL ? CUDA_ATTN_MASK_CAUSAL : CUDA_ATTN_MASK_FULL;
}

/* Query heads that are rows of a tile beside its queries: all of a group, where the row can and it makes fewer tiles;
 * else 1. */
static int32_t pack_of(const cuda_attn_variant *v, const ga_attn_desc *d) {
  const int32_t group = d->q_heads / d->kv_heads;
  if (!(v->features & ATTN_FWD_SM90A_PACKS) || group == 1 || group > WG_ROWS) return 1;
  return ga_div_up(d->max_q, v->bm / WG_ROWS * (WG_ROWS / group)) < group * ga_div_up(d->max_q, v->bm) ? group : 1;
}

static int64_t tiles_of(const cuda_attn_variant *v, const ga_attn_desc *d) {
  const int32_t pack = pack_of(v, d);
  return d->batch * (d->q_heads / pack) * ga_div_up(d->max_q, v->bm / WG_ROWS * (WG_ROWS / pack));
}

/* Blocks of K and V that a tile sees, at most. */
static int64_t key_blocks_of(const cuda_attn_variant *v, const ga_attn_desc *d) {
  const int64_t keys = d->window ? ga_min_i64(d->max_kv, (int64_t)d->window + v->bm) : d->max_kv;
  return ga_max_i64(ga_div_up(keys, v->bn), 1);
}

/* Items that a tile's keys are cut into, so that few tiles fill the machine. Results that leave as a state are one
 * item's. */
static int32_t splits_of(const cuda_attn_variant *v, const ga_attn_desc *d, int32_t sms) {
  const int64_t tiles = tiles_of(v, d), words = (int64_t)(CUDA_COUNTER_BYTES / sizeof(int32_t)) - 2;
  if ((v->features & SPLITS) != SPLITS || d->kv_segments || d->flags & STATE || tiles == 0 ||
      tiles * (v->bm / 16) > words)
    return 1;
  return (int32_t)ga_max_i64(1, ga_min_i64(ga_min_i64(sms / tiles, MOST_SPLITS), key_blocks_of(v, d) / LEAST_BLOCKS));
}

/* How long the machine takes, in blocks of K and V one after the other. */
static int64_t rounds_of(const cuda_attn_variant *v, const ga_attn_desc *d, int32_t sms) {
  const int32_t splits = splits_of(v, d, sms);
  return ga_div_up(tiles_of(v, d) * splits, sms) * ga_div_up(key_blocks_of(v, d), splits);
}

/* Of splits: for 16 rows of a tile each lane's part of O, of m and of l. */
uint64_t cuda_attn_fwd_workspace(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_attn_desc *d = desc;
  const cuda_attn_variant *v = k->impl;
  const int32_t splits = splits_of(v, d, caps->sms);
  return splits == 1 ? 0 : (uint64_t)(splits * tiles_of(v, d) * (v->bm / 16) * 32 * (v->dv / 2 + 4)) * sizeof(float);
}

bool cuda_attn_small(const ga_attn_desc *d) {
  uint64_t heads, tiles;
  return d->max_q <= MOST_ROWS && d->max_kv <= MOST_ROWS &&
         ga_mul_ok((uint64_t)d->batch, (uint64_t)d->q_heads, &heads) && ga_mul_ok(heads, (uint64_t)d->max_q, &tiles) &&
         heads <= MOST_ROWS && tiles / 64 <= MOST_ROWS;
}

const char *cuda_attn_fwd_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_attn_desc *d = desc;
  const cuda_attn_variant *v = k->impl;
  const int32_t dtype = (int32_t)k->dtype[0];
  if (d->q_dtype != dtype || d->kv_dtype != dtype || d->o_dtype != dtype) return "q, kv and o must be of its dtype";
  if (d->head_dim > v->d || d->v_dim > v->dv) return "head_dim or v_dim is larger than its own";
  if (d->head_dim % ALIGN_ELEMS || d->v_dim % ALIGN_ELEMS) return "head_dim and v_dim must be multiples of 8";
  if (!(d->scale > 0)) return "scale must be positive";
  if (!cuda_attn_small(d)) return "too many rows: at most 2^28 of q, of kv, of batch * q_heads, of 64-row tiles";
  if (v->kv_resident && ga_div_up(d->max_kv, v->bn) > v->stages) return "max_kv is too long to stay in shared memory";
  if (v->mask != CUDA_ATTN_MASK_WINDOW && v->mask != mask_of(d)) return "compiled for another mask";
  return features_ok(d, v);
}

#define DECODES 8 /* rows of a tile of attn_*_decode_* */
#define LONG    2048

/* A tile costs the same however many of its rows there are: packed heads, and keys cut over blocks, win where they
 * halve the rounds over the machine. The rows that can do it are slower a tile, by a sixth where it was measured: a
 * half leaves room. */
static bool packing_wins(const cuda_attn_variant *v, const ga_attn_desc *d, const ga_caps *caps) {
  const int64_t apart = ga_div_up(d->batch * d->q_heads * ga_div_up(d->max_q, v->bm), caps->sms) * key_blocks_of(v, d);
  return v->features & ATTN_FWD_SM90A_PACKS && 2 * rounds_of(v, d, caps->sms) <= apart;
}

/* They have neither KV segments nor carried state. */
bool cuda_attn_is_decode(const ga_attn_desc *d, const ga_caps *caps) {
  return d->max_q * (d->q_heads / d->kv_heads) <= DECODES && d->max_kv >= LONG &&
         2 * d->batch * d->kv_heads <= caps->sms && !d->kv_segments && !(d->flags & STATE);
}

/* A pair of a query and a key costs an exponential and its products; a tile
 * costs its start and its results. Few tiles take as long as one. */
double cuda_attn_us(const ga_attn_desc *d, int32_t dim, int32_t v_dim, const ga_caps *caps) {
  enum { TILE_ROWS = 128, LEAST_ROWS = 64 /* that a tile computes */ };
  const cuda_costs *c = cuda_costs_of(caps);
  const double pair_us = 1e-3 * (c->attn_pair_ns + c->attn_pair_dim_ns * (dim + v_dim));
  const double tile_us = c->attn_tile_us + c->attn_tile_dim_us * (dim + v_dim);
  const double heads = (double)d->batch * d->q_heads, tiles = heads * (double)ga_div_up(d->max_q, TILE_ROWS);
  const double pairs =
      heads * ga_attn_pairs(ga_max_i64(d->max_q, LEAST_ROWS), d->max_kv, d->flags & GA_ATTN_CAUSAL, d->window);
  return tiles > 0 ? (pairs / tiles * pair_us + tile_us) * fmax(1, tiles / fmax(caps->sms, 1)) : 0;
}

/* What slows a row down, per cent. Which of the rows of one head is best was measured: those whose mask is the
 * problem's, at the lengths that they were made for, and of these one whose last tile does not waste more than a ninth
 * of all rows (tiles of 192 at 1024: a row of 128 is faster). */
double cuda_attn_fwd_cost(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  enum { OTHER_LENGTH = 6, OTHER_MASK = 4, WASTE = 2 };
  const double pack_gain = 0.72, few_rows = 10;
  const ga_attn_desc *d = desc;
  const cuda_attn_variant *v = k->impl;
  const bool length = d->max_kv >= v->keys_from && (!v->keys_to || d->max_kv <= v->keys_to);
  const bool few = !v->max_waves || tiles_of(v, d) <= (int64_t)v->max_waves * caps->sms;
  const bool wasteful = !v->max_waves && (ga_div_up(d->max_q, v->bm) * v->bm - d->max_q) * 9 > d->max_q;
  const int32_t slower =
      (length && few ? 0 : OTHER_LENGTH) + (v->mask == mask_of(d) ? 0 : OTHER_MASK) + (wasteful ? WASTE : 0);
  return caps->rates->call_us + cuda_attn_us(d, v->d, v->dv, caps) * (100 + slower) / k->speed *
                                    (packing_wins(v, d, caps) ? pack_gain : 1) *
                                    (cuda_attn_is_decode(d, caps) ? few_rows : 1);
}

/* --- arguments --- */

static ga_status check_strides(const ga_kernel *k, const char *name, const ga_attn_strides *s) {
  const int64_t all[3] = {s->batch, s->token, s->head};
  static const char *const names[3] = {"batch", "token", "head"};
  for (int i = 0; i < 3; i++)
    GA_REQUIRE(all[i] >= 0 && all[i] % ALIGN_ELEMS == 0 && all[i] < (int64_t)1 << 38, GA_ERR_ARG,
               "%s: %s_stride.%s is %lld; must be a multiple of %d, 0 to 2^38", k->id, name, names[i],
               (long long)all[i], ALIGN_ELEMS);
  return GA_OK;
}

static ga_status check_tensor(ga_stream *stream, const ga_kernel *k, const char *name, const void *p,
                              const ga_attn_strides *s) {
  GA_TRY(cuda_check_pointer(stream, k, name, p, ALIGN_BYTES));
  return check_strides(k, name, s);
}

static bool stretches_begin_at(const ga_attn_desc *d, const ga_attn_io *a, int32_t multiple) {
  for (int32_t i = 0; i < d->kv_stretches; i++)
    if (a->kv_stretches[i].rows && a->kv_stretches[i].first % multiple) return false;
  return true;
}

/* Rows of a box: the most that divide a page, a block and where stretches begin. */
static int32_t page_box(const ga_attn_desc *d, const ga_attn_io *a, int32_t bn) {
  int32_t rows = bn;
  while (d->page_size % rows || bn % rows || !stretches_begin_at(d, a, rows)) rows--;
  return rows;
}

/* The first query's window, the leftmost, ends before the part. */
bool cuda_attn_segment_is_masked(const ga_attn_desc *d, const ga_attn_kv_segment *part) {
  return part->kv == 0 || (d->window && part->shift >= d->window + d->max_q - 1);
}

int64_t cuda_attn_shift(const ga_attn_kv_segment *part) {
  return ga_max_i64(-CUDA_ATTN_MOST_SHIFT, ga_min_i64(part->shift, CUDA_ATTN_MOST_SHIFT));
}

ga_status cuda_attn_check_shift(const ga_kernel *k, const ga_attn_desc *d, const ga_attn_io *a, int i) {
  const ga_attn_kv_segment *part = &a->kv_segments[i];
  GA_REQUIRE(
      !d->window || part->shift <= CUDA_ATTN_MOST_SHIFT || cuda_attn_segment_is_masked(d, part), GA_ERR_ARG,
      "%s: kv_segments[%d].shift is %lld; with a window of %d it must be at most 2^28, or mask the whole segment",
      k->id, i, (long long)part->shift, d->window);
  return GA_OK;
}

static ga_status check_kv_tensors(ga_stream *stream, const ga_kernel *k, const ga_attn_desc *d, const ga_attn_io *a) {
  GA_TRY(check_strides(k, "k", &a->k_stride));
  GA_TRY(check_strides(k, "v", &a->v_stride));
  if (!d->kv_segments) {
    GA_TRY(cuda_check_pointer(stream, k, "k", a->k, ALIGN_BYTES));
    return cuda_check_pointer(stream, k, "v", a->v, ALIGN_BYTES);
  }
  for (int i = 0; i < d->kv_segments; i++) {
    GA_TRY(cuda_check_pointer(stream, k, "k of a KV segment", a->kv_segments[i].k, ALIGN_BYTES));
    GA_TRY(cuda_check_pointer(stream, k, "v of a KV segment", a->kv_segments[i].v, ALIGN_BYTES));
    GA_TRY(cuda_attn_check_shift(k, d, a, i));
  }
  return GA_OK;
}

/* Packed tensors end where the last sequence does, which only the device knows: boxes must not read on. */
static ga_status check_tokens(const ga_kernel *k, const ga_attn_desc *d, const ga_attn_io *a) {
  if (!(d->flags & GA_ATTN_VARLEN)) return GA_OK;
  GA_REQUIRE(a->q_tokens >= 0 && a->q_tokens <= MOST_ROWS, GA_ERR_ARG, "%s: q_tokens is %lld; must be 0 to 2^28", k->id,
             (long long)a->q_tokens);
  if (d->flags & GA_ATTN_PAGED) return GA_OK;
  GA_REQUIRE(a->kv_tokens >= 0 && a->kv_tokens <= MOST_ROWS, GA_ERR_ARG, "%s: kv_tokens is %lld; must be 0 to 2^28",
             k->id, (long long)a->kv_tokens);
  return GA_OK;
}

static ga_status check_lists(ga_stream *stream, const ga_kernel *k, const ga_attn_io *a) {
  const struct {
    const char *name;
    const void *p;
  } lists[] = {{"lse", a->lse},
               {"sinks", a->sinks},
               {"alibi", a->alibi},
               {"q_start", a->q_start},
               {"kv_start", a->kv_start},
               {"kv_len", a->kv_len},
               {"page_table", a->page_table},
               {"state_o", a->state_o},
               {"state_m", a->state_m},
               {"state_l", a->state_l},
               {"q_len", a->q_len}};
  for (size_t i = 0; i < GA_COUNT_OF(lists); i++)
    GA_TRY(cuda_check_pointer(stream, k, lists[i].name, lists[i].p, sizeof(float)));
  return GA_OK;
}

static ga_status check_tensors(ga_stream *stream, const ga_kernel *k, const ga_attn_desc *d, const ga_attn_io *a) {
  GA_TRY(check_tensor(stream, k, "q", a->q, &a->q_stride));
  GA_TRY(check_kv_tensors(stream, k, d, a));
  if (!(d->flags & GA_ATTN_STATE_OUT)) GA_TRY(check_tensor(stream, k, "o", a->o, &a->o_stride));
  GA_TRY(check_tokens(k, d, a));
  return check_lists(stream, k, a);
}

typedef struct view {
  const char *name;
  const void *data;
  const ga_attn_strides *stride;
  int64_t cols, rows, heads, batch;
  uint32_t box_rows;
  int32_t pack; /* heads that are rows of a box, beside those of box_rows; 0: a map without them */
} view;

/* (column, row, head, batch), or (column, head in its group, row, group, batch). The stride of a dimension of one
 * element is never used; it must be legal all the same. */
static ga_status encode_tensor(const cuda_device *d, const ga_kernel *k, const view *t, ga_tmap *out) {
  const int64_t pack = t->pack ? t->pack : 1;
  const uint64_t all[5] = {(uint64_t)t->cols, (uint64_t)pack, (uint64_t)t->rows, (uint64_t)(t->heads / pack),
                           (uint64_t)t->batch};
  const int64_t elems[5] = {1, t->stride->head, t->stride->token, pack * t->stride->head, t->stride->batch};
  const uint32_t boxes[5] = {PANEL_COLS, (uint32_t)pack, t->box_rows, 1, 1}, ones[5] = {1, 1, 1, 1, 1};
  const int type = k->dtype[0] == GA_F16 ? CU_TMAP_FLOAT16 : CU_TMAP_BFLOAT16;
  uint64_t dims[5], bytes[5];
  uint32_t box[5], rank = 0;
  for (int i = 0; i < 5; i++) {
    if (i == 1 && !t->pack) continue;
    dims[rank] = all[i];
    box[rank] = boxes[i];
    bytes[rank++] = all[i] == 1 ? ALIGN_BYTES : 2 * (uint64_t)elems[i];
  }
  void *base;
  memcpy(&base, &t->data, sizeof base); /* the driver's prototype lacks const */
  CUresult rc = d->cu->TensorMapEncodeTiled(out, type, rank, base, dims, bytes + 1, box, ones, CU_TMAP_INTERLEAVE_NONE,
                                            CU_TMAP_SWIZZLE_128B, CU_TMAP_L2_256B, CU_TMAP_OOB_ZERO);
  if (rc == CUDA_SUCCESS) return GA_OK;
  return ga_fail_in(ga_cu_fail(d->cu, rc, "cuTensorMapEncodeTiled"), "%s: %s", k->id, t->name);
}

/* K or V of `rows` rows; without rows the map is of 8 elements of q, which are masked. */
static ga_status encode_kv(const cuda_device *d, const ga_kernel *k, const ga_attn_desc *p, const ga_attn_io *a,
                           const void *data, int64_t rows, bool value, ga_tmap *out) {
  const int32_t bn = ((const cuda_attn_variant *)k->impl)->bn;
  view t = {value ? "v" : "k",
            data,
            value ? &a->v_stride : &a->k_stride,
            value ? p->v_dim : p->head_dim,
            rows,
            p->kv_heads,
            p->batch,
            (uint32_t)bn,
            0};
  if (p->flags & GA_ATTN_PAGED) {
    t.rows = p->page_size;
    t.batch = MOST_PAGES;
    t.box_rows = (uint32_t)page_box(p, a, bn);
  } else if (p->flags & GA_ATTN_VARLEN) {
    t.rows = a->kv_tokens;
    t.batch = 1;
  }
  if (t.rows && t.data) return encode_tensor(d, k, &t, out);
  t.data = a->q;
  t.cols = ALIGN_ELEMS;
  t.rows = t.heads = t.batch = 1;
  return encode_tensor(d, k, &t, out);
}

/* Parts of which something is seen, the first in the place of k and v. */
static ga_status encode_segments(const cuda_device *d, const ga_kernel *k, const ga_attn_desc *p, const ga_attn_io *a,
                                 ga_kargs_attn_fwd *out) {
  const ga_attn_kv_segment whole = {.k = a->k, .v = a->v, .kv = p->max_kv}, none = {.kv = 0};
  out->chunks = 0;
  for (int i = 0; i < p->kv_segments; i++) {
    const ga_attn_kv_segment *part = &a->kv_segments[i];
    const int64_t shift = cuda_attn_shift(part);
    if (cuda_attn_segment_is_masked(p, part)) continue;
    ga_kattn_chunk *c = out->chunks ? &out->more[out->chunks - 1] : NULL;
    GA_TRY(encode_kv(d, k, p, a, part->k, part->kv, false, c ? &c->k : &out->k));
    GA_TRY(encode_kv(d, k, p, a, part->v, part->kv, true, c ? &c->v : &out->v));
    if (c) {
      c->rows = (int32_t)part->kv;
      c->diagonal = (int32_t)(part->kv - p->max_q + shift);
    } else {
      out->rows_k = (int32_t)part->kv;
      out->shift = (int32_t)shift;
    }
    out->chunks++;
  }
  if (out->chunks) return GA_OK;
  const ga_attn_kv_segment *only = p->kv_segments ? &none : &whole;
  out->chunks = 1;
  out->rows_k = (int32_t)only->kv;
  GA_TRY(encode_kv(d, k, p, a, only->k, only->kv, false, &out->k));
  return encode_kv(d, k, p, a, only->v, only->kv, true, &out->v);
}

static ga_status encode_all(const cuda_device *d, const ga_kernel *k, const ga_attn_desc *p, const ga_attn_io *a,
                            ga_kargs_attn_fwd *out) {
  const bool packed = p->flags & GA_ATTN_VARLEN;
  const int64_t rows = packed ? ga_max_i64(a->q_tokens, 1) : p->max_q, batch = packed ? 1 : p->batch;
  const bool packs = ((const cuda_attn_variant *)k->impl)->features & ATTN_FWD_SM90A_PACKS;
  const view q = {
      "q", a->q, &a->q_stride, p->head_dim, rows, p->q_heads, batch, (uint32_t)out->wg_queries, packs ? out->pack : 0};
  const view o = {"o", a->o, &a->o_stride, p->v_dim, rows, p->q_heads, batch, O_BOX_ROWS, 0};
  GA_TRY(encode_tensor(d, k, &q, &out->q));
  GA_TRY(encode_segments(d, k, p, a, out));
  return p->flags & GA_ATTN_STATE_OUT ? GA_OK : encode_tensor(d, k, &o, &out->o);
}

/* --- work distribution --- */

/* Resident kernels: as many tiles of one head a unit as still fill three quarters of the machine. */
static int32_t tiles_a_unit(int32_t tiles, int32_t heads, int32_t blocks) {
  int32_t unit = tiles;
  while (unit > 1 && (int64_t)heads * (tiles / unit) < (int64_t)blocks * 3 / 4) do
      unit--;
    while (tiles % unit);
  return unit;
}

/* Causal order takes the longest tiles first inside a section of heads whose K and V stay in L2 together. Wide heads
 * have few tiles, which the causal rows take late enough to end together. One other long sequence: all heads in one
 * section, so that tiles of a head run together and share K and V as they pass; from SECTIONED keys on a head has tiles
 * enough for the machine, and fewer heads at a time are up to 1.07 times as fast (H100). Of several long sequences
 * heads of all would pass at once: a section is KV heads with 64 MiB of Q, K, V and O, up to 1.14 times as fast
 * (H200). */
static int32_t heads_a_section(const cuda_attn_variant *v, const ga_attn_desc *p, int32_t group, int32_t heads) {
  enum { TOGETHER = 8192, SECTIONED = 65536 };
  const bool wide = p->head_dim > 128 && (v->mask == CUDA_ATTN_MASK_CAUSAL || p->max_kv <= 1024);
  const bool between = !wide && p->max_kv >= TOGETHER && p->max_kv < SECTIONED, several = between && p->batch > 1;
  const int64_t mib = wide ? 16 : several ? 64 : between ? 1 << 20 : p->max_kv > 1024 ? 32 : 8;
  const int64_t row_bytes = (p->head_dim + p->v_dim) * 2, kv_bytes = ga_max_i64(p->max_kv, 1) * row_bytes;
  const int64_t fit = (mib << 20) * group / (kv_bytes + (several ? group * p->max_q * row_bytes : 0));
  const int64_t whole = several ? ga_max_i64(fit - fit % group, group) : ga_max_i64(fit, 1);
  return (int32_t)ga_min_i64(whole, heads);
}

static void fill_work(const cuda_attn_variant *v, const ga_attn_desc *p, int32_t sms, ga_kargs_attn_fwd *out) {
  out->pack = pack_of(v, p);
  out->pack_inverse = (1 << 16) / out->pack + ((1 << 16) % out->pack != 0);
  out->wg_queries = WG_ROWS / out->pack;
  out->heads_q = p->q_heads / out->pack;
  out->group = out->heads_q / p->kv_heads;
  out->rows_q = (int32_t)p->max_q;
  out->heads_total = (int32_t)(p->batch * out->heads_q);
  out->unit_tiles = 1;
  out->tiles_per_head = (int32_t)ga_div_up(p->max_q, v->bm / WG_ROWS * out->wg_queries);
  if (v->kv_resident == UNITS) {
    out->unit_tiles = tiles_a_unit(out->tiles_per_head, out->heads_total, sms * v->blocks);
    out->tiles_per_head /= out->unit_tiles;
  }
  out->splits = 1;
  out->tiles = out->tiles_per_head * out->heads_total;
  out->heads_per_section = heads_a_section(v, p, out->group, out->heads_total);
}

static uint32_t features_of(const ga_attn_desc *p) {
  static const uint32_t pairs[][2] = {{GA_ATTN_ALIBI, GA_KATTN_ALIBI},       {GA_ATTN_SINKS, GA_KATTN_SINK},
                                      {GA_ATTN_VARLEN, GA_KATTN_VARLEN},     {GA_ATTN_PAGED, GA_KATTN_PAGED},
                                      {GA_ATTN_STATE_IN, GA_KATTN_STATE_IN}, {GA_ATTN_STATE_OUT, GA_KATTN_STATE_OUT}};
  uint32_t bits = p->softcap > 0 ? GA_KATTN_SOFTCAP : 0;
  for (size_t i = 0; i < GA_COUNT_OF(pairs); i++)
    if (p->flags & pairs[i][0]) bits |= pairs[i][1];
  return bits;
}

/* Factors in doublings, and what they were rounded from. */
static void fill_scale(const ga_attn_desc *p, ga_kargs_attn_fwd *out) {
  out->scale_log2 = (float)((double)p->scale * LOG2E);
  double ln = (double)p->scale / (double)out->scale_log2;
  if (p->softcap > 0) {
    out->softcap_in = p->scale / p->softcap;
    out->softcap_out = (float)((double)p->softcap * LOG2E);
    ln = (double)p->softcap / (double)out->softcap_out;
  }
  out->ln_hi = (float)ln;
  out->ln_lo = (float)(ln - (double)out->ln_hi);
}

static void fill_rest(const cuda_attn_variant *v, const ga_attn_desc *p, const ga_attn_io *a, ga_kargs_attn_fwd *out) {
  const int64_t all = p->max_q + p->max_kv; /* columns on either side of any row, but for a part's shift */
  out->o_base = a->o;
  out->o_stride_row = a->o_stride.token;
  out->o_stride_head = a->o_stride.head;
  out->o_stride_batch = a->o_stride.batch;
  out->lse = p->flags & GA_ATTN_LSE ? a->lse : NULL;
  out->lse_stride_head = p->lse_stride ? p->lse_stride : p->max_q;
  out->lse_stride_batch = p->lse_stride ? 0 : p->max_q * p->q_heads;
  out->cu_q = a->q_start;
  out->cu_k = a->kv_start;
  out->slope = a->alibi;
  out->sink = a->sinks;
  out->cols_v = p->v_dim;
  out->window_left =
      (int32_t)ga_min_i64(p->window ? p->window - 1 : all + CUDA_ATTN_MOST_SHIFT, all + CUDA_ATTN_MOST_SHIFT);
  out->window_right = p->flags & GA_ATTN_CAUSAL ? 0 : (int32_t)(all + CUDA_ATTN_MOST_SHIFT);
  out->features = (int32_t)features_of(p);
  out->kv_len = p->flags & (GA_ATTN_PAGED | GA_ATTN_LENGTHS) ? a->kv_len : NULL;
  if (p->flags & GA_ATTN_PAGED) out->page_table = a->page_table;
  if (p->flags & GA_ATTN_LENGTHS) out->q_len = a->q_len;
  out->page_table_stride = a->page_table_stride;
  out->page_size = p->page_size;
  out->page_box = p->page_size ? page_box(p, a, v->bn) : 0;
  out->state_o = a->state_o;
  out->state_m = a->state_m;
  out->state_l = a->state_l;
  fill_scale(p, out);
}

void cuda_attn_fill(const cuda_attn_variant *v, const ga_attn_desc *p, const ga_attn_io *a, int32_t sms,
                    ga_kargs_attn_fwd *out) {
  fill_work(v, p, sms, out);
  fill_rest(v, p, a, out);
}

static void split_keys(const cuda_attn_variant *v, const ga_attn_desc *p, void *workspace, int32_t sms,
                       ga_kargs_attn_fwd *out) {
  out->splits = splits_of(v, p, sms);
  if (out->splits == 1) return;
  out->tiles *= out->splits;
  out->partial = workspace;
}

/* --- stretches --- */

#define MOST_PLACES ((int64_t)1 << 29) /* positions of a document, from its first key on */
#define MOST_KEYS   ((int64_t)1 << 30) /* of a call, each stretch in whole blocks */
#define MOST_TILES  ((int64_t)1 << 30) /* the kernel counts a grid beyond them */

/* The stretch goes on where the one before it ends, in memory as in position, and comes with it. */
static bool goes_on(const ga_attn_stretch *s, const ga_attn_stretch *next) {
  return next->document == s->document && next->position == s->position + s->rows &&
         next->first == s->first + s->rows && next->ready == s->ready && next->ready_word == s->ready_word;
}

/* Stretches of keys that have any, those that go on as one. firsts: of each, one of the call. Returns how many. */
static ga_status fill_keys(const ga_kernel *k, const ga_attn_desc *p, const ga_attn_io *a,
                           const ga_attn_stretch **firsts, int32_t *count, ga_kargs_attn_stretch *out) {
  const cuda_attn_variant *v = k->impl;
  ga_attn_stretch whole = {.document = -1};
  int64_t base = 0, block = 0;
  int32_t n = 0;
  for (int32_t i = 0; i < p->kv_stretches; i++) {
    const ga_attn_stretch *s = &a->kv_stretches[i];
    if (s->rows == 0) continue;
    if (n && goes_on(&whole, s)) {
      whole.rows += s->rows;
    } else {
      block += ga_div_up(whole.rows, v->bn);
      if (whole.document != s->document) base = s->position;
      whole = *s;
      firsts[n++] = s;
    }
    GA_REQUIRE(!p->page_size || s->first % PAGE_STEP == 0, GA_ERR_ARG,
               "%s: kv_stretches[%d].first is %lld; with pages it must be a multiple of %d", k->id, i,
               (long long)s->first, PAGE_STEP);
    GA_REQUIRE(s->position + s->rows - base <= MOST_PLACES && block * v->bn + whole.rows <= MOST_KEYS, GA_ERR_ARG,
               "%s: kv_stretches[%d] ends at position %lld of a document that begins at %lld, behind %lld other keys; "
               "at most 2^29 positions, and 2^30 keys",
               k->id, i, (long long)(s->position + s->rows), (long long)base, (long long)(block * v->bn));
    out->kv[n - 1] =
        (ga_kattn_kv_stretch){.first = (int32_t)whole.first,
                              .rows = (int32_t)whole.rows,
                              .position = (int32_t)(whole.position - base),
                              .block = (int32_t)block,
                              .ready = s->ready,
                              .ready_word = s->ready_word | (int32_t)(firsts[n - 1] - a->kv_stretches) << 16};
  }
  *count = n;
  return GA_OK;
}

/* Keys that its last query sees, about: the more, the earlier its tiles come. */
static int64_t keys_seen(const ga_attn_desc *p, const ga_kargs_attn_stretch *x, const ga_kattn_q_stretch *q) {
  int64_t seen = 0;
  for (int32_t i = q->documents & 0xffff; i < q->documents >> 16; i++) {
    const int64_t before = (int64_t)q->position + q->rows - x->kv[i].position;
    seen += p->flags & GA_ATTN_CAUSAL ? ga_max_i64(0, ga_min_i64(before, x->kv[i].rows)) : x->kv[i].rows;
  }
  return seen;
}

/* Stretches of Q that have rows, those that see the most keys first. tiles: of a head. */
static ga_status fill_queries(const ga_kernel *k, const ga_attn_desc *p, const ga_attn_io *a,
                              const ga_attn_stretch *const *firsts, int32_t count, int32_t *tiles,
                              ga_kargs_attn_stretch *out) {
  const cuda_attn_variant *v = k->impl;
  int32_t n = 0;
  for (int32_t i = 0; i < p->q_stretches; i++) {
    const ga_attn_stretch *s = &a->q_stretches[i];
    int32_t from = 0, to, at = n++;
    if (s->rows == 0) {
      n--;
      continue;
    }
    while (from < count && firsts[from]->document != s->document) from++;
    for (to = from; to < count && firsts[to]->document == s->document;) to++;
    const int64_t place = s->position - (from < to ? firsts[from]->position : s->position);
    GA_REQUIRE(place < MOST_PLACES, GA_ERR_ARG,
               "%s: q_stretches[%d] begins %lld positions behind its document's first key; must be less than 2^29",
               k->id, i, (long long)place);
    if (from == to) from = GA_KATTN_STRETCHES, to = from + 1;
    const ga_kattn_q_stretch q = {.first = (int32_t)s->first,
                                  .rows = (int32_t)s->rows,
                                  .position = (int32_t)ga_max_i64(place, -MOST_PLACES),
                                  .documents = from | to << 16};
    for (; at > 0 && keys_seen(p, out, &out->q[at - 1]) < keys_seen(p, out, &q); at--) out->q[at] = out->q[at - 1];
    out->q[at] = q;
    *tiles += (int32_t)ga_div_up(s->rows, v->bm);
  }
  return GA_OK;
}

static ga_status run_stretches(const ga_kernel *k, const ga_attn_desc *p, const ga_attn_io *a, ga_stream *stream,
                               ga_kargs_attn_fwd *fwd) {
  const cuda_attn_variant *v = k->impl;
  const int32_t sms = stream->device->caps.sms;
  const ga_attn_stretch *firsts[GA_KATTN_STRETCHES];
  int32_t count = 0;
  ga_kargs_attn_stretch args;
  memset(&args, 0, sizeof args);
  GA_TRY(cuda_check_pointer(stream, k, "ready", a->ready, sizeof *a->ready));
  GA_TRY(cuda_check_pointer(stream, k, "ready_error", a->ready_error, sizeof *a->ready_error));
  GA_TRY(fill_keys(k, p, a, firsts, &count, &args));
  fwd->tiles_per_head = 0;
  GA_TRY(fill_queries(k, p, a, firsts, count, &fwd->tiles_per_head, &args));
  const int64_t tiles = (int64_t)fwd->tiles_per_head * fwd->heads_total;
  GA_REQUIRE(tiles <= MOST_TILES, GA_ERR_SHAPE, "%s: %d tiles of Q for each of %d heads; at most 2^30 in all", k->id,
             fwd->tiles_per_head, fwd->heads_total);
  fwd->tiles = (int32_t)tiles;
  if (fwd->tiles == 0) return GA_OK;
  /* A query stands up to 2^29 positions behind a key, or 2^30 before a block's end: these bound nothing. */
  fwd->window_left = (int32_t)ga_min_i64(p->window ? p->window - 1 : MOST_PLACES, MOST_PLACES);
  fwd->window_right = p->flags & GA_ATTN_CAUSAL ? 0 : (int32_t)(2 * MOST_PLACES + v->bn);
  args.ready = a->ready;
  args.ready_error = a->ready_error;
  args.ready_polls = (int32_t)(a->ready_polls ? a->ready_polls : READY_POLLS);
  memcpy(args.fwd, fwd, sizeof args.fwd);
  const cuda_launch l = {.grid = {(uint32_t)ga_min_i64(fwd->tiles, sms), 1, 1},
                         .block = {v->base.threads, 1, 1},
                         .shared_bytes = v->base.shared_bytes,
                         .dependent = true};
  return cuda_enqueue(stream, k, &l, &args);
}

ga_status cuda_attn_fwd(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  const ga_attn_desc *p = desc;
  const ga_attn_io *a = io;
  const cuda_attn_variant *v = k->impl;
  const int32_t sms = stream->device->caps.sms;
  ga_kargs_attn_fwd args;
  if (p->batch == 0 || p->max_q == 0) return GA_OK;
  GA_TRY(check_tensors(stream, k, p, a));
  memset(&args, 0, sizeof args);
  cuda_attn_fill(v, p, a, sms, &args);
  GA_TRY(encode_all(cuda_device_of(stream), k, p, a, &args));
  args.counter = (int32_t *)(uintptr_t)cuda_counters_of(stream);
  if (p->q_stretches) return run_stretches(k, p, a, stream, &args);
  split_keys(v, p, workspace, sms, &args);
  const int64_t most =
      v->kv_resident > UNITS ? args.tiles : (int64_t)sms * v->blocks; /* one tile a block, or tile after tile */
  const cuda_launch l = {.grid = {(uint32_t)ga_min_i64(args.tiles, most), 1, 1},
                         .block = {v->base.threads, 1, 1},
                         .shared_bytes = v->base.shared_bytes,
                         .dependent = true};
  return cuda_enqueue(stream, k, &l, &args);
}
