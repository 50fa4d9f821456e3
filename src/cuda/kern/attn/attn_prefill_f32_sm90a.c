#include "cuda/kern/attn/attn_prefill_f32_sm90a.h"

#include "base/mem.h"
#include "base/status.h"
#include "cuda/kern/attn/attn_fwd_sm90a.h"
#include "cuda/kern/attn/attn_prefill_f32_args.h"

#define ALIGN         256 /* of the parts of the workspace */
#define THREADS       256
#define BLOCKS_PER_SM 8
#define FEW           32 /* queries of a sequence, below which rows for few of them are chosen */

/* The same problem with q and o of the type of K and V, and the best row for it; NULL: there is none. */
static const ga_kernel *inner_of(const ga_attn_desc *d, const ga_caps *caps, ga_attn_desc *inner) {
  size_t n;
  const ga_kernel *rows = cuda_rows(&n), *best = NULL;
  int32_t most = 0;
  *inner = *d;
  inner->q_dtype = inner->o_dtype = d->kv_dtype;
  for (size_t i = 0; i < n; i++) {
    if (rows[i].launch != cuda_attn_fwd || rows[i].ok(&rows[i], inner, caps)) continue;
    const int32_t score = rows[i].score + rows[i].fit(&rows[i], inner, caps);
    if (best && score <= most) continue;
    best = &rows[i];
    most = score;
  }
  return best;
}

const char *cuda_attn_prefill_f32_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_attn_desc *d = desc;
  ga_attn_desc inner;
  if (d->kv_dtype != (int32_t)k->dtype[1]) return "kv_dtype is another";
  if (d->q_dtype != GA_F32 || d->o_dtype != GA_F32) return "q and o must be f32";
  if (d->flags & (GA_ATTN_STATE_IN | GA_ATTN_STATE_OUT)) return "carried state is not supported";
  if (d->kv_segments) return "KV segments are not supported";
  if (d->flags & GA_ATTN_LSE) return "a log-sum-exp of rounded queries is not given";
  return inner_of(d, caps, &inner) ? NULL : "no row takes 16-bit q and o of this shape";
}

int32_t cuda_attn_prefill_f32_fit(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)k, (void)caps;
  return ((const ga_attn_desc *)desc)->max_q < FEW ? -100 : 0;
}

static uint64_t bytes_of(const ga_attn_desc *d, int32_t cols) {
  return ga_round_up((size_t)(d->batch * d->max_q * d->q_heads * cols) * 2, ALIGN);
}

uint64_t cuda_attn_prefill_f32_workspace(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)k;
  const ga_attn_desc *d = desc;
  ga_attn_desc inner;
  const ga_kernel *row = inner_of(d, caps, &inner);
  return bytes_of(d, d->head_dim) + bytes_of(d, d->v_dim) + (row ? cuda_attn_fwd_workspace(row, &inner, caps) : 0);
}

static ga_status cast(const ga_kernel *k, ga_kargs_attn_cast *args, const ga_attn_strides *x, const ga_attn_strides *y,
                      ga_stream *stream) {
  const ga_attn_strides *const strides[2] = {x, y};
  for (int i = 0; i < 2; i++) {
    int64_t *out = i ? args->y_stride : args->x_stride;
    out[0] = strides[i]->batch, out[1] = strides[i]->token, out[2] = strides[i]->head;
  }
  const int64_t blocks = ga_div_up(args->batch * args->tokens * args->heads * (args->cols / 8), THREADS);
  const int64_t most = (int64_t)stream->device->caps.sms * BLOCKS_PER_SM;
  const cuda_launch l = {
      .grid = {(uint32_t)ga_min_i64(blocks, most), 1, 1}, .block = {THREADS, 1, 1}, .dependent = true};
  return blocks ? cuda_enqueue(stream, k, &l, args) : GA_OK;
}

ga_status cuda_attn_prefill_f32(const ga_kernel *k, const void *desc, const void *io, void *workspace,
                                ga_stream *stream) {
  const ga_attn_desc *d = desc;
  const ga_attn_io *a = io;
  const bool packed = d->flags & GA_ATTN_VARLEN;
  ga_attn_desc inner;
  ga_attn_io own = *a;
  const ga_kernel *row = inner_of(d, &stream->device->caps, &inner);
  GA_REQUIRE(row, GA_ERR_INTERNAL, "%s: no row for the work", k->id);
  if (d->batch == 0 || d->max_q == 0) return GA_OK;
  GA_TRY(cuda_check_pointer(stream, k, "q", a->q, sizeof(float)));
  GA_TRY(cuda_check_pointer(stream, k, "o", a->o, sizeof(float)));
  GA_REQUIRE(!packed || (a->q_tokens >= 0 && a->q_tokens <= d->batch * d->max_q), GA_ERR_ARG,
             "%s: q_tokens is %lld; must be 0 to %lld, batch * max_q", k->id, (long long)a->q_tokens,
             (long long)(d->batch * d->max_q));
  own.q = workspace;
  own.o = (char *)workspace + bytes_of(d, d->head_dim);
  own.q_stride = (ga_attn_strides){
      .head = d->head_dim, .token = d->q_heads * d->head_dim, .batch = d->max_q * d->q_heads * d->head_dim};
  own.o_stride =
      (ga_attn_strides){.head = d->v_dim, .token = d->q_heads * d->v_dim, .batch = d->max_q * d->q_heads * d->v_dim};
  ga_kargs_attn_cast args = {
      .batch = packed ? 1 : d->batch, .tokens = packed ? a->q_tokens : d->max_q, .heads = d->q_heads};
  args.x = a->q, args.y = workspace, args.cols = d->head_dim, args.x_dtype = GA_F32, args.y_dtype = d->kv_dtype;
  GA_TRY(cast(k, &args, &a->q_stride, &own.q_stride, stream));
  GA_TRY(row->launch(row, &inner, &own, (char *)own.o + bytes_of(d, d->v_dim), stream));
  args.x = own.o, args.y = a->o, args.cols = d->v_dim, args.x_dtype = d->kv_dtype, args.y_dtype = GA_F32;
  return cast(k, &args, &own.o_stride, &a->o_stride, stream);
}
