#include "cuda/kern/attn/attn_fallback_sm80.h"
#include "cuda/kern/attn/attn_fwd_sm90a.h"

#include "base/mem.h"
#include "base/status.h"
#include "cuda/kern/attn/attn_fallback_sm80_args.h"

#define LOG2E      1.44269504f /* log2 e */
#define VEC_BYTES  16          /* what a lane moves at once */
#define VEC_ELEMS  8
#define MAX_BLOCKS (((int64_t)1 << 31) - 1) /* of a grid */

/* --- what a row can do --- */

/* Packed rows and keys are counted in 32 bits, with room for a tile and for distances between them. */
static bool fits_int32(const ga_attn_desc *d, const cuda_attn_fallback_variant *v) {
  const int64_t most = (int64_t)1 << 29, group = d->q_heads / d->kv_heads;
  uint64_t pairs, blocks;
  return d->max_q <= most / group && d->max_kv <= most &&
         ga_mul_ok((uint64_t)d->batch, (uint64_t)d->kv_heads, &pairs) &&
         ga_mul_ok(pairs, (uint64_t)ga_div_up(d->max_q * group, v->bm), &blocks) && blocks <= (uint64_t)MAX_BLOCKS;
}

const char *cuda_attn_fallback_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_attn_desc *d = desc;
  const cuda_attn_fallback_variant *v = k->impl;
  const int32_t dtype = (int32_t)k->dtype[0];
  if (d->q_dtype != dtype || d->kv_dtype != dtype || d->o_dtype != dtype) return "q, kv and o must be of its dtype";
  if (d->flags & GA_ATTN_SYMMETRIC) return CUDA_ATTN_ONE_WAY;
  if (d->q_stretches) return "compiled without stretches";
  if (d->head_dim > v->d || d->v_dim > v->d) return "head_dim or v_dim is larger";
  if (caps->smem_bytes && caps->smem_bytes < v->base.shared_bytes) return "the device has too little shared memory";
  return fits_int32(d, v) ? NULL : "too many rows";
}

/* Few rows leave most of a tile idle: they are left to rows that cut keys over the machine. */
double cuda_attn_fallback_cost(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_attn_desc *d = desc;
  const cuda_attn_fallback_variant *v = k->impl;
  const double few_rows = d->max_q * (d->q_heads / d->kv_heads) < CUDA_ATTN_FALLBACK_ROWS ? 10 : 1;
  return caps->rates->call_us + cuda_attn_us(d, v->d, v->d, caps) * 100 / k->speed * few_rows;
}

/* --- arguments --- */

static ga_status check_pointers(const ga_kernel *k, const ga_attn_io *a, ga_stream *stream) {
  const struct {
    const char *name;
    const void *p;
    size_t align;
  } all[] = {{"q", a->q, 2},
             {"o", a->o, 2},
             {"lse", a->lse, sizeof(float)},
             {"sinks", a->sinks, sizeof(float)},
             {"alibi", a->alibi, sizeof(float)},
             {"q_start", a->q_start, sizeof(int32_t)},
             {"kv_start", a->kv_start, sizeof(int32_t)},
             {"q_len", a->q_len, sizeof(int32_t)},
             {"kv_len", a->kv_len, sizeof(int32_t)},
             {"page_table", a->page_table, sizeof(int32_t)},
             {"state_o", a->state_o, sizeof(float)},
             {"state_m", a->state_m, sizeof(float)},
             {"state_l", a->state_l, sizeof(float)}};
  for (size_t i = 0; i < GA_COUNT_OF(all); i++)
    GA_TRY(cuda_check_pointer(stream, k, all[i].name, all[i].p, all[i].align));
  return GA_OK;
}

static ga_status check_segment_tensors(const ga_kernel *k, const ga_attn_desc *d, const ga_attn_io *a,
                                       ga_stream *stream) {
  if (!d->kv_segments) {
    GA_TRY(cuda_check_pointer(stream, k, "k", a->k, 2));
    return cuda_check_pointer(stream, k, "v", a->v, 2);
  }
  for (int i = 0; i < d->kv_segments; i++) {
    GA_TRY(cuda_check_pointer(stream, k, "k of a KV segment", a->kv_segments[i].k, 2));
    GA_TRY(cuda_check_pointer(stream, k, "v of a KV segment", a->kv_segments[i].v, 2));
    GA_TRY(cuda_attn_check_shift(k, d, a, i));
  }
  return GA_OK;
}

static bool vec16(const void *p, const ga_attn_strides *s) {
  return (uintptr_t)p % VEC_BYTES == 0 && s->batch % VEC_ELEMS == 0 && s->token % VEC_ELEMS == 0 &&
         s->head % VEC_ELEMS == 0;
}

static ga_kstrides strides(const ga_attn_strides *s) {
  return (ga_kstrides){.batch = s->batch, .token = s->token, .head = s->head};
}

static void fill_tensors(const ga_attn_desc *d, const ga_attn_io *a, ga_kargs_attn_fallback *out) {
  out->q = a->q;
  out->o = a->o;
  out->lse = d->flags & GA_ATTN_LSE ? a->lse : NULL;
  out->q_stride = strides(&a->q_stride);
  out->k_stride = strides(&a->k_stride);
  out->v_stride = strides(&a->v_stride);
  out->o_stride = strides(&a->o_stride);
  out->vec16 = d->head_dim % VEC_ELEMS == 0 && d->v_dim % VEC_ELEMS == 0 && vec16(a->q, &a->q_stride) &&
               vec16(a->o, &a->o_stride);
}

static void add_segment(const ga_attn_io *a, const ga_attn_kv_segment *part, ga_kargs_attn_fallback *out) {
  out->part[out->kv_segments++] =
      (ga_kattn_kv_segment){part->k, part->v, (int32_t)part->kv, (int32_t)cuda_attn_shift(part)};
  out->vec16 = out->vec16 && vec16(part->k, &a->k_stride) && vec16(part->v, &a->v_stride);
}

/* Parts of which something is seen; at least one, so that every row is written. */
static void fill_segments(const ga_attn_desc *d, const ga_attn_io *a, ga_kargs_attn_fallback *out) {
  const ga_attn_kv_segment whole = {.k = a->k, .v = a->v, .kv = d->max_kv}, none = {.kv = 0};
  for (int i = 0; i < d->kv_segments; i++)
    if (!cuda_attn_segment_is_masked(d, &a->kv_segments[i])) add_segment(a, &a->kv_segments[i], out);
  if (!out->kv_segments) add_segment(a, d->kv_segments ? &none : &whole, out);
}

static void fill_sequences(const ga_attn_desc *d, const ga_attn_io *a, ga_kargs_attn_fallback *out) {
  const bool varlen = d->flags & GA_ATTN_VARLEN, paged = d->flags & GA_ATTN_PAGED;
  out->q_start = varlen ? a->q_start : NULL;
  out->kv_start = varlen && !paged ? a->kv_start : NULL;
  out->q_len = d->flags & GA_ATTN_LENGTHS ? a->q_len : NULL;
  out->kv_len = d->flags & (GA_ATTN_PAGED | GA_ATTN_LENGTHS) ? a->kv_len : NULL;
  out->lse_stride = d->lse_stride;
  out->page_table = paged ? a->page_table : NULL;
  out->page_table_stride = a->page_table_stride;
  out->page_size = paged ? d->page_size : 0;
}

static void fill_rest(const cuda_attn_fallback_variant *v, const ga_attn_desc *d, const ga_attn_io *a,
                      ga_kargs_attn_fallback *out) {
  out->heads_k = d->kv_heads;
  out->group = d->q_heads / d->kv_heads;
  out->rows_q = (int32_t)d->max_q;
  out->tiles = (int32_t)ga_div_up(d->max_q * out->group, v->bm);
  out->cols = d->head_dim;
  out->cols_v = d->v_dim;
  out->causal = (d->flags & GA_ATTN_CAUSAL) != 0;
  out->window = (int32_t)ga_min_i64(d->window, d->max_q + d->max_kv + CUDA_ATTN_MOST_SHIFT); /* more is no limit */
  out->slope = d->flags & GA_ATTN_ALIBI ? a->alibi : NULL;
  out->sink = d->flags & GA_ATTN_SINKS ? a->sinks : NULL;
  out->scale = d->scale;
  out->scale_log2 = d->scale * LOG2E;
  out->softcap_in = d->softcap > 0 ? d->scale / d->softcap : 0;
  out->softcap = d->softcap;
  out->state_in = (d->flags & GA_ATTN_STATE_IN) != 0;
  out->state_out = (d->flags & GA_ATTN_STATE_OUT) != 0;
  out->state_o = a->state_o;
  out->state_m = a->state_m;
  out->state_l = a->state_l;
}

ga_status cuda_attn_fallback(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_attn_desc *d = desc;
  const cuda_attn_fallback_variant *v = k->impl;
  if (d->batch == 0 || d->max_q == 0) return GA_OK;
  GA_TRY(check_pointers(k, io, stream));
  GA_TRY(check_segment_tensors(k, d, io, stream));
  ga_kargs_attn_fallback args = {0};
  fill_tensors(d, io, &args);
  fill_segments(d, io, &args);
  fill_sequences(d, io, &args);
  fill_rest(v, d, io, &args);
  const cuda_launch l = {.grid = {(uint32_t)(args.tiles * d->batch * d->kv_heads), 1, 1},
                         .block = {v->base.threads, 1, 1},
                         .shared_bytes = v->base.shared_bytes};
  return cuda_enqueue(stream, k, &l, &args);
}
