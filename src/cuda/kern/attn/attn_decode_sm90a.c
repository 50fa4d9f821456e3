#include "cuda/kern/attn/attn_decode_sm90a.h"

#include "base/mem.h"
#include "base/status.h"
#include "core/cost.h"
#include "cuda/kern/attn/attn_decode_args.h"
#include "cuda/kern/attn/attn_fallback_sm80.h"
#include "cuda/kern/attn/attn_fwd_sm90a.h"
#include "cuda/rt/cuda.h"
#include "opdef/attn.h"
#include "opdef/attn_fp8.h"

#define MAX_DIM     256
#define CHUNK       8  /* elements a lane has of a key */
#define ALIGN_BYTES 16 /* of K and V and their strides */
#define COUNTERS    ((int64_t)(CUDA_COUNTER_BYTES / sizeof(int32_t)))

const char *cuda_attn_packed_refusal(const ga_kernel *k, const ga_attn_desc *d) {
  if (d->kv_dtype != (int32_t)k->dtype[1]) return "kv_dtype is another";
  if (ga_attn_is_scaled(d)) return "q is 8-bit, with V across and scales";
  if (d->flags & (GA_ATTN_STATE_IN | GA_ATTN_STATE_OUT)) return "carried state is not supported";
  if (d->kv_segments) return "KV segments are not supported";
  if (d->q_stretches) return "compiled without stretches";
  if (d->head_dim > MAX_DIM || d->v_dim > MAX_DIM) return "head_dim or v_dim is above 256";
  if (d->head_dim % CHUNK || d->v_dim % CHUNK) return "head_dim and v_dim must be multiples of 8";
  if (d->max_q > 1 << 24 || d->max_kv > 1 << 30 || d->batch > 1 << 20) return "too many rows";
  return NULL;
}

const char *cuda_attn_decode_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_attn_desc *d = desc;
  const int32_t room = ((const cuda_attn_decode_variant *)k->impl)->d,
                dim = d->head_dim > d->v_dim ? d->head_dim : d->v_dim;
  const char *reason = cuda_attn_packed_refusal(k, d);
  if (reason) return reason;
  if (d->flags & GA_ATTN_SYMMETRIC) return CUDA_ATTN_ONE_WAY;
  if (dim > room) return "head_dim or v_dim is above the row's";
  if (room > 64 && dim <= room / 2) return "a row for smaller heads fits";
  if (k->dtype[1] == GA_E4M3 && (d->head_dim % 16 || d->v_dim % 16))
    return "head_dim and v_dim must be multiples of 16";
  return NULL;
}

static int64_t keys_of(const ga_attn_desc *d) {
  return d->window ? ga_min_i64(d->max_kv, d->window + d->max_q) : d->max_kv;
}

cuda_attn_cut cuda_attn_packed_cut(const ga_attn_desc *d, int64_t rows, int64_t blocks, int64_t least) {
  cuda_attn_cut c = {.tiles = ga_div_up(d->max_q * (d->q_heads / d->kv_heads), rows), .splits = 1};
  c.units = d->batch * d->kv_heads * c.tiles;
  /* As many as fill the machine, unless units do. With GA_ATTN_INVARIANT the number is one, whatever the batch. */
  if (c.units && c.units <= COUNTERS && !(d->flags & GA_ATTN_INVARIANT))
    c.splits = ga_max_i64(1, ga_min_i64(blocks / c.units, ga_div_up(keys_of(d), least)));
  return c;
}
/* Divides the work so that each warp of a block takes at least one step. The blocks of a tile form a cluster, which
 * adds up its parts without global memory, in two cases: the keys are few, or the tile has two blocks.
 *
 * Clusters of up to eight blocks take at most three quarters of the multiprocessors, because the device cannot place
 * more of them at once. Pairs fit on all multiprocessors. */
static cuda_attn_cut cut_decode(const ga_kernel *k, const ga_attn_desc *d, const ga_caps *caps) {
  const cuda_attn_decode_variant *v = k->impl;
  cuda_attn_cut c = cuda_attn_packed_cut(d, CUDA_ATTN_DECODE_ROWS, caps->sms, (int64_t)v->base.threads / 32 * v->keys);
  const int64_t at_once = caps->sms * 3 / 4 / ga_max_i64(c.units, 1),
                most = ga_min_i64(c.splits, ga_min_i64(CUDA_ATTN_DECODE_CLUSTER, at_once));
  const bool few = most > 0 && keys_of(d) <= v->cluster_reduce * most;
  if (few) c.splits = most;
  c.cluster = c.splits == 2 || (few && c.splits > 1);
  return c;
}
/* That go to memory. */
static int64_t parts_of_cut(const cuda_attn_cut *c) { return c->cluster ? 1 : c->splits; }

/* K and V are read once for 8 rows of a group. More rows than a decode step has are left to rows with tiles of 64 and
 * more, which compute what these would read again. */
static bool has_few_rows(const ga_attn_desc *d, const ga_caps *caps) {
  if (d->q_dtype != d->kv_dtype) return d->max_q < CUDA_ATTN_PREFILL_QUERIES;
  if (caps->isas >> GA_ISA_sm90a & 1) return cuda_attn_is_decode(d, caps);
  return d->max_q * (d->q_heads / d->kv_heads) < CUDA_ATTN_FALLBACK_ROWS;
}

static double packed_us(const ga_attn_desc *d, const ga_caps *caps) {
  const double many_rows = 10;
  const cuda_attn_cut c = cuda_attn_packed_cut(d, CUDA_ATTN_DECODE_ROWS, caps->sms, 1);
  const ga_dtype_traits *t = ga_dtype_info((ga_dtype)d->kv_dtype);
  const double dims = d->head_dim + d->v_dim, rows = (double)d->batch * (double)d->max_q * d->q_heads;
  const ga_work work = {.bytes = (double)c.units * (double)keys_of(d) * dims * t->block_bytes / t->block_elems +
                                 rows * dims * sizeof(float)};
  return ga_work_us(&work, caps) * (has_few_rows(d, caps) ? 1 : many_rows);
}

/* Of two rows for one width the one with more warps wins from `from` keys a block on: docs/log/cuda-decode.md. */
double cuda_attn_decode_cost(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_attn_desc *d = desc;
  const int64_t from = ((const cuda_attn_decode_variant *)k->impl)->from;
  const cuda_attn_cut c = cuda_attn_packed_cut(d, CUDA_ATTN_DECODE_ROWS, caps->sms, 1);
  const double better = from == 0 ? 1 : keys_of(d) >= from * c.splits ? 0.98 : 1.02;
  return packed_us(d, caps) * 100 / k->speed * better;
}

double cuda_attn_decode_simt_cost(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  return packed_us(desc, caps) * 100 / k->speed;
}

uint64_t cuda_attn_decode_workspace(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_attn_desc *d = desc;
  const cuda_attn_cut c = cut_decode(k, d, caps);
  return parts_of_cut(&c) == 1
             ? 0
             : (uint64_t)(c.units * parts_of_cut(&c) * CUDA_ATTN_DECODE_ROWS * (d->v_dim + 4)) * sizeof(float);
}

static ga_status check_kv_tensor(ga_stream *stream, const ga_kernel *k, const char *name, const void *p,
                                 const ga_attn_strides *s) {
  const ga_dtype_traits *t = ga_dtype_info(k->dtype[1]);
  const bool bytes = t->is_quant || (k->dtype[1] == GA_E4M3 && k->isa == GA_ISA_sm80); /* read byte by byte */
  const int64_t all[3] = {s->batch, s->token, s->head}, step = bytes ? 1 : ALIGN_BYTES / t->block_bytes;
  GA_TRY(cuda_check_pointer(stream, k, name, p, !bytes ? ALIGN_BYTES : t->is_quant ? 2 : 1));
  for (int i = 0; i < 3; i++)
    GA_REQUIRE(all[i] % step == 0, GA_ERR_ARG, "%s: a stride of %s is %lld; must be a multiple of %lld", k->id, name,
               (long long)all[i], (long long)step);
  return GA_OK;
}

static ga_status check_scale(ga_stream *stream, const ga_kernel *k, const char *name, const ga_attn_scale *s) {
  const int64_t all[3] = {s->batch, s->head, s->block};
  GA_TRY(cuda_check_pointer(stream, k, name, s->data, sizeof(float)));
  for (int i = 0; i < 3; i++)
    GA_REQUIRE(all[i] <= INT32_MAX, GA_ERR_ARG, "%s: a stride of %s is %lld; must be below 2^31", k->id, name,
               (long long)all[i]);
  return GA_OK;
}

ga_status cuda_attn_packed_check_io(ga_stream *stream, const ga_kernel *k, const ga_attn_desc *d, const ga_attn_io *a) {
  GA_TRY(cuda_check_pointer(stream, k, "q", a->q, (size_t)ga_dtype_info((ga_dtype)d->q_dtype)->block_bytes));
  GA_TRY(cuda_check_pointer(stream, k, "o", a->o, (size_t)ga_dtype_info((ga_dtype)d->o_dtype)->block_bytes));
  GA_TRY(check_kv_tensor(stream, k, "k", a->k, &a->k_stride));
  GA_TRY(check_kv_tensor(stream, k, "v", a->v, &a->v_stride));
  if (d->kv_dtype == GA_E4M3) {
    GA_TRY(check_scale(stream, k, "k_scale", &a->k_scale));
    GA_TRY(check_scale(stream, k, "v_scale", &a->v_scale));
  }
  GA_TRY(cuda_check_pointer(stream, k, "lse", a->lse, sizeof(float)));
  GA_TRY(cuda_check_pointer(stream, k, "q_start", a->q_start, sizeof(int32_t)));
  GA_TRY(cuda_check_pointer(stream, k, "q_len", a->q_len, sizeof(int32_t)));
  GA_TRY(cuda_check_pointer(stream, k, "kv_len", a->kv_len, sizeof(int32_t)));
  return cuda_check_pointer(stream, k, "page_table", a->page_table, sizeof(int32_t));
}

/* Lanes that share a key. */
static int32_t row_lanes(const ga_attn_desc *d) {
  const int32_t dim = d->head_dim > d->v_dim ? d->head_dim : d->v_dim;
  return dim <= 8 * CHUNK ? 8 : dim <= 16 * CHUNK ? 16 : 32;
}

ga_status cuda_attn_packed_enqueue(const ga_kernel *k, const ga_attn_desc *d, const ga_attn_io *a,
                                   const cuda_attn_cut *c, void *workspace, ga_stream *stream) {
  const bool varlen = d->flags & GA_ATTN_VARLEN, paged = d->flags & GA_ATTN_PAGED, lengths = d->flags & GA_ATTN_LENGTHS;
  const cuda_variant *v = k->impl;
  const int32_t by_token = d->kv_scale_tokens ? 1 : 0;
  const ga_kargs_attn_decode args = {.q = a->q,
                                     .k = a->k,
                                     .v = a->v,
                                     .o = a->o,
                                     .lse = d->flags & GA_ATTN_LSE ? a->lse : NULL,
                                     .q_start = varlen ? a->q_start : NULL,
                                     .kv_start = varlen && !paged ? a->kv_start : NULL,
                                     .q_len = lengths ? a->q_len : NULL,
                                     .kv_len = paged || lengths ? a->kv_len : NULL,
                                     .page_table = paged ? a->page_table : NULL,
                                     .sinks = d->flags & GA_ATTN_SINKS ? a->sinks : NULL,
                                     .alibi = d->flags & GA_ATTN_ALIBI ? a->alibi : NULL,
                                     .partial = workspace,
                                     .counter = (int32_t *)(uintptr_t)cuda_counters_of(stream),
                                     .q_batch = a->q_stride.batch,
                                     .q_token = a->q_stride.token,
                                     .q_head = a->q_stride.head,
                                     .k_batch = a->k_stride.batch,
                                     .k_token = a->k_stride.token,
                                     .k_head = a->k_stride.head,
                                     .v_batch = a->v_stride.batch,
                                     .v_token = a->v_stride.token,
                                     .v_head = a->v_stride.head,
                                     .o_batch = a->o_stride.batch,
                                     .o_token = a->o_stride.token,
                                     .o_head = a->o_stride.head,
                                     .page_stride = a->page_table_stride,
                                     .rows_q = (int32_t)d->max_q,
                                     .rows_k = (int32_t)d->max_kv,
                                     .q_heads = d->q_heads,
                                     .group = d->q_heads / d->kv_heads,
                                     .head_dim = d->head_dim,
                                     .v_dim = d->v_dim,
                                     .q_dtype = d->q_dtype,
                                     .o_dtype = d->o_dtype,
                                     .causal = (d->flags & GA_ATTN_CAUSAL) != 0,
                                     /* More is no limit, and less than it overflows no place. */
                                     .window = (int32_t)ga_min_i64(d->window, d->max_q + d->max_kv),
                                     .page_size = d->page_size,
                                     .tiles = (int32_t)c->tiles,
                                     .splits = (int32_t)c->splits,
                                     .lanes = row_lanes(d),
                                     .scale = d->scale,
                                     .softcap = d->softcap,
                                     .kv_ready = (d->flags & GA_ATTN_KV_READY) != 0,
                                     .symmetric = (d->flags & GA_ATTN_SYMMETRIC) != 0,
                                     .k_scale = a->k_scale.data,
                                     .k_scale_batch = (int32_t)a->k_scale.batch,
                                     .k_scale_token = by_token * (int32_t)a->k_scale.block,
                                     .k_scale_head = (int32_t)a->k_scale.head,
                                     .v_scale = a->v_scale.data,
                                     .v_scale_batch = (int32_t)a->v_scale.batch,
                                     .v_scale_token = by_token * (int32_t)a->v_scale.block,
                                     .v_scale_head = (int32_t)a->v_scale.head,
                                     .cluster = c->cluster,
                                     .whole_turns = (d->flags & GA_ATTN_INVARIANT) != 0,
                                     .lse_stride = d->lse_stride};
  const int64_t blocks = c->units * c->splits;
  GA_REQUIRE(blocks <= INT32_MAX, GA_ERR_SHAPE, "%s: %lld blocks of work", k->id, (long long)blocks);
  const cuda_launch l = {.grid = {(uint32_t)blocks, 1, 1},
                         .block = {v->threads, 1, 1},
                         .shared_bytes = v->shared_bytes,
                         .cluster = {c->cluster ? (uint32_t)c->splits : 0, 1, 1},
                         .dependent = true};
  return cuda_enqueue(stream, k, &l, &args);
}

ga_status cuda_attn_decode(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  const ga_attn_desc *d = desc;
  const cuda_attn_cut c = cut_decode(k, d, &stream->device->caps);
  if (d->batch == 0 || d->max_q == 0) return GA_OK;
  GA_TRY(cuda_attn_packed_check_io(stream, k, d, io));
  return cuda_attn_packed_enqueue(k, d, io, &c, workspace, stream);
}
