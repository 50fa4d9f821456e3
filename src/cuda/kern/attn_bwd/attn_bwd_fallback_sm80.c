#include "cuda/kern/attn_bwd/attn_bwd_sm90a.h"

#include "base/mem.h"
#include "base/status.h"

#define VEC_BYTES       16 /* what a lane moves at once */
#define VEC_ELEMS       8
#define WORKSPACE_ALIGN 256
#define MAX_BLOCKS      (((int64_t)1 << 31) - 1) /* of a grid */

/* --- what a row can do --- */

/* Blocks of 64 query rows of a (batch, query head), as stat has them. */
static int64_t stat_blocks(const ga_attn_bwd_desc *d) { return ga_max_i64(1, ga_div_up(d->max_q, GA_KBWD_ROWS)); }

/* Row and tile indices are 32-bit, with room for a tile and a window behind the last. */
static bool fits_int32(const ga_attn_bwd_desc *d, const cuda_attn_bwd_fallback_variant *v) {
  const int64_t most = (int64_t)1 << 28;
  uint64_t heads, blocks;
  return d->max_q <= most && d->max_kv <= most && d->total_q <= most && d->total_kv <= most && d->window <= most &&
         ga_mul_ok((uint64_t)d->batch, (uint64_t)d->q_heads, &heads) && heads <= (uint64_t)most &&
         ga_mul_ok(heads, (uint64_t)(stat_blocks(d) + ga_div_up(d->max_q, v->own) + ga_div_up(d->max_kv, v->own)),
                   &blocks) &&
         blocks <= (uint64_t)MAX_BLOCKS;
}

const char *cuda_attn_bwd_fallback_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_attn_bwd_desc *d = desc;
  const cuda_attn_bwd_fallback_variant *v = k->impl;
  if (d->dtype != (int32_t)k->dtype[0]) return "dtype is another";
  if (d->head_dim > v->d || d->v_dim > v->d) return "head_dim or v_dim is larger";
  if (caps->smem_bytes && caps->smem_bytes < v->base.shared_bytes) return "the device has too little shared memory";
  return fits_int32(d, v) ? NULL : "too many rows";
}

/* --- arguments --- */

static ga_status check_pointers(const ga_kernel *k, const ga_attn_bwd_desc *d, const ga_attn_bwd_io *a,
                                ga_stream *stream) {
  const size_t in = (size_t)ga_dtype_info((ga_dtype)d->dtype)->block_bytes;
  const size_t out = (size_t)ga_dtype_info((ga_dtype)d->grad_dtype)->block_bytes;
  const struct {
    const char *name;
    const void *p;
    size_t align;
  } all[] = {{"q", a->q, in},
             {"k", a->k, in},
             {"v", a->v, in},
             {"o", a->o, in},
             {"dout", a->dout, in},
             {"dq", a->dq, out},
             {"dk", a->dk, out},
             {"dv", a->dv, out},
             {"lse", a->lse, sizeof(float)},
             {"sinks", a->sinks, sizeof(float)},
             {"alibi", a->alibi, sizeof(float)},
             {"dsinks", a->dsinks, sizeof(float)},
             {"q_start", a->q_start, sizeof(int32_t)},
             {"kv_start", a->kv_start, sizeof(int32_t)},
             {"q_len", a->q_len, sizeof(int32_t)},
             {"kv_len", a->kv_len, sizeof(int32_t)}};
  for (size_t i = 0; i < GA_COUNT_OF(all); i++)
    GA_TRY(cuda_check_pointer(stream, k, all[i].name, all[i].p, all[i].align));
  return GA_OK;
}

static bool vec16(const void *p, const ga_attn_strides *s) {
  return (uintptr_t)p % VEC_BYTES == 0 && s->batch % VEC_ELEMS == 0 && s->token % VEC_ELEMS == 0 &&
         s->head % VEC_ELEMS == 0;
}

static void fill_tensors(const ga_attn_bwd_desc *d, const ga_attn_bwd_io *a, ga_kargs_attn_bwd_fallback *out) {
  out->q = cuda_attn_bwd_tensor(a->q, &a->q_stride);
  out->k = cuda_attn_bwd_tensor(a->k, &a->k_stride);
  out->v = cuda_attn_bwd_tensor(a->v, &a->v_stride);
  out->dout = cuda_attn_bwd_tensor(a->dout, &a->dout_stride);
  out->dq = cuda_attn_bwd_tensor(a->dq, &a->dq_stride);
  out->dk = cuda_attn_bwd_tensor(a->dk, &a->dk_stride);
  out->dv = cuda_attn_bwd_tensor(a->dv, &a->dv_stride);
  out->vec16 = d->head_dim % VEC_ELEMS == 0 && d->v_dim % VEC_ELEMS == 0 && vec16(a->q, &a->q_stride) &&
               vec16(a->k, &a->k_stride) && vec16(a->v, &a->v_stride) && vec16(a->dout, &a->dout_stride);
  out->cu_q = d->flags & GA_ATTN_VARLEN ? a->q_start : NULL;
  out->cu_k = d->flags & GA_ATTN_VARLEN ? a->kv_start : NULL;
  out->q_len = cuda_attn_bwd_lengths(d, a->q_len);
  out->kv_len = cuda_attn_bwd_lengths(d, a->kv_len);
  out->slope = d->flags & GA_ATTN_ALIBI ? a->alibi : NULL;
}

static void fill_rest(const cuda_attn_bwd_fallback_variant *v, const ga_attn_bwd_desc *d,
                      ga_kargs_attn_bwd_fallback *out) {
  out->heads_q = d->q_heads;
  out->heads_k = d->kv_heads;
  out->group = d->q_heads / d->kv_heads;
  out->rows_q = (int32_t)d->max_q;
  out->rows_k = (int32_t)d->max_kv;
  out->blocks_q = (int32_t)stat_blocks(d);
  out->tiles_q = (int32_t)ga_div_up(d->max_q, v->own);
  out->tiles_k = (int32_t)ga_div_up(d->max_kv, v->own);
  out->blocks_k = (int32_t)(out->tiles_k * d->kv_heads * d->batch);
  out->cols_k = d->head_dim;
  out->cols_v = d->v_dim;
  out->causal = (d->flags & GA_ATTN_CAUSAL) != 0;
  out->window = (int32_t)ga_min_i64(d->window, d->max_q + d->max_kv); /* more is no limit */
  out->out_f32 = d->grad_dtype == GA_F32;
  out->add_dq = (d->flags & GA_ATTN_BWD_ADD_DQ) != 0;
  out->add_dkv = (d->flags & GA_ATTN_BWD_ADD_DKV) != 0;
  out->scale = d->scale;
  out->out_scale = d->scale;
  out->scale_alone = cuda_attn_bwd_scale_alone(d);
  out->softcap_in = d->softcap > 0 ? d->scale / d->softcap : 0;
  out->softcap = d->softcap;
}

/* --- launches --- */

static ga_status run_pre(const ga_plan_step *step, const void *desc, const void *io, void *workspace,
                         ga_stream *stream) {
  const ga_attn_bwd_desc *d = desc;
  const ga_attn_bwd_io *a = io;
  GA_TRY(check_pointers(step->chosen, d, a, stream));
  const ga_kargs_attn_bwd_pre args = {.o = cuda_attn_bwd_tensor(a->o, &a->o_stride),
                                      .dout = cuda_attn_bwd_tensor(a->dout, &a->dout_stride),
                                      .lse = a->lse,
                                      .cu_q = d->flags & GA_ATTN_VARLEN ? a->q_start : NULL,
                                      .stat = workspace,
                                      .heads_q = d->q_heads,
                                      .rows_q = (int32_t)d->max_q,
                                      .blocks_q = (int32_t)stat_blocks(d),
                                      .cols_v = d->v_dim,
                                      .q_len = cuda_attn_bwd_lengths(d, a->q_len),
                                      .lse_stride = d->lse_stride};
  return cuda_attn_bwd_step(step->row, d->batch * d->q_heads * stat_blocks(d), false, &args, stream);
}

static ga_status run_sink(const ga_plan_step *step, const void *desc, const void *io, void *workspace,
                          ga_stream *stream) {
  const ga_attn_bwd_desc *d = desc;
  const ga_attn_bwd_io *a = io;
  if (d->batch == 0) GA_TRY(check_pointers(step->chosen, d, a, stream)); /* there is no pre */
  const ga_kargs_attn_bwd_sink args = {.stat = workspace,
                                       .cu_q = d->flags & GA_ATTN_VARLEN ? a->q_start : NULL,
                                       .sink = a->sinks,
                                       .dsink = a->dsinks,
                                       .heads_q = d->q_heads,
                                       .rows_q = (int32_t)d->max_q,
                                       .blocks_q = (int32_t)stat_blocks(d),
                                       .batch = (int32_t)d->batch,
                                       .add = (d->flags & GA_ATTN_BWD_ADD_DKV) != 0,
                                       .q_len = cuda_attn_bwd_lengths(d, a->q_len)};
  return cuda_attn_bwd_step(step->row, d->q_heads, true, &args, stream);
}

/* Tiles of keys, then tiles of queries. */
static int64_t blocks_of(const cuda_attn_bwd_fallback_variant *v, const ga_attn_bwd_desc *d) {
  return d->batch * (ga_div_up(d->max_kv, v->own) * d->kv_heads + ga_div_up(d->max_q, v->own) * d->q_heads);
}

ga_status cuda_attn_bwd_fallback(const ga_kernel *k, const void *desc, const void *io, void *workspace,
                                 ga_stream *stream) {
  const ga_attn_bwd_desc *d = desc;
  const ga_attn_bwd_io *a = io;
  const cuda_attn_bwd_fallback_variant *v = k->impl;
  ga_kargs_attn_bwd_fallback args = {.stat = workspace};
  fill_tensors(d, a, &args);
  fill_rest(v, d, &args);
  const cuda_launch l = {.grid = {(uint32_t)blocks_of(v, d), 1, 1},
                         .block = {v->base.threads, 1, 1},
                         .shared_bytes = v->base.shared_bytes,
                         .dependent = true};
  return cuda_enqueue(stream, k, &l, &args);
}

const char *cuda_attn_bwd_fallback_plan(const ga_kernel *k, const void *desc, ga_plan_steps *steps) {
  const ga_attn_bwd_desc *d = desc;
  const cuda_attn_bwd_fallback_variant *v = k->impl;
  steps->workspace_bytes = ga_round_up(
      (uint64_t)(d->batch * d->q_heads * stat_blocks(d)) * 2 * GA_KBWD_ROWS * sizeof(float), WORKSPACE_ALIGN);
  const char *why = cuda_attn_bwd_first_steps(v->pre, v->sink, d, run_pre, run_sink, steps);
  return why || blocks_of(v, d) == 0 ? why : ga_plan_steps_add(steps, k, NULL, 0);
}
