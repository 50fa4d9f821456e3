#include "cuda/kern/attn/attn_prefill_f32_sm90a.h"

#include "base/mem.h"
#include "base/status.h"
#include "core/cost.h"
#include "cuda/kern/attn/attn_fwd_sm90a.h"
#include "cuda/kern/attn/attn_prefill_f32_args.h"

#define ALIGN         256 /* of the parts of the workspace */
#define THREADS       256
#define BLOCKS_PER_SM 8

/* The same problem with q and o of the type of K and V. */
static ga_attn_desc inner_of(const ga_attn_desc *d) {
  ga_attn_desc inner = *d;
  inner.q_dtype = inner.o_dtype = d->kv_dtype;
  return inner;
}

const char *cuda_attn_prefill_f32_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_attn_desc *d = desc;
  if (d->kv_dtype != (int32_t)k->dtype[1]) return "kv_dtype is another";
  if (d->q_dtype != GA_F32 || d->o_dtype != GA_F32) return "q and o must be f32";
  if (d->flags & (GA_ATTN_STATE_IN | GA_ATTN_STATE_OUT)) return "carried state is not supported";
  if (d->kv_segments) return "KV segments are not supported";
  if (d->q_stretches) return "compiled without stretches";
  if (d->flags & GA_ATTN_SYMMETRIC) return CUDA_ATTN_ONE_WAY;
  if (d->flags & GA_ATTN_LENGTHS) return "rows of O between sequences would be written";
  if (d->flags & GA_ATTN_LSE) return "a log-sum-exp of rounded queries is not given";
  return NULL;
}

/* Two more launches, which read and write Q and O; few queries are left to the decode rows. */
double cuda_attn_prefill_f32_cost(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_attn_desc *d = desc;
  const double rows = (double)d->batch * (double)d->max_q * d->q_heads;
  const ga_work casts[] = {{.bytes = rows * d->head_dim * 6}, {.bytes = rows * d->v_dim * 6}};
  const double us = ga_work_us(&casts[0], caps) + ga_work_us(&casts[1], caps);
  return caps->rates->call_us + (us + cuda_attn_us(d, d->head_dim, d->v_dim, caps)) * 100 / k->speed *
                                    (d->max_q < CUDA_ATTN_PREFILL_QUERIES ? 10 : 1);
}

static uint64_t bytes_of_rows(const ga_attn_desc *d, int32_t cols) {
  return ga_round_up((size_t)(d->batch * d->max_q * d->q_heads * cols) * 2, ALIGN);
}

/* --- the parts of the workspace: q and o, packed, in the type of K and V; then what the row between needs --- */

static uint64_t o_offset(const ga_attn_desc *d) { return bytes_of_rows(d, d->head_dim); }
static uint64_t inner_offset(const ga_attn_desc *d) { return o_offset(d) + bytes_of_rows(d, d->v_dim); }

static ga_attn_strides packed_strides(const ga_attn_desc *d, int32_t cols) {
  return (ga_attn_strides){.head = cols, .token = d->q_heads * cols, .batch = d->max_q * d->q_heads * cols};
}

/* --- the steps --- */

static ga_kargs_attn_cast cast_args(const ga_attn_desc *d, const ga_attn_io *a) {
  const bool packed = d->flags & GA_ATTN_VARLEN;
  return (ga_kargs_attn_cast){
      .batch = packed ? 1 : d->batch, .tokens = packed ? a->q_tokens : d->max_q, .heads = d->q_heads};
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

static ga_status cast_q(const ga_plan_step *step, const void *desc, const void *io, void *workspace,
                        ga_stream *stream) {
  const ga_attn_desc *d = desc;
  const ga_attn_io *a = io;
  const ga_kernel *k = step->chosen;
  GA_TRY(cuda_check_pointer(stream, k, "q", a->q, sizeof(float)));
  GA_TRY(cuda_check_pointer(stream, k, "o", a->o, sizeof(float)));
  GA_REQUIRE(!(d->flags & GA_ATTN_VARLEN) || (a->q_tokens >= 0 && a->q_tokens <= d->batch * d->max_q), GA_ERR_ARG,
             "%s: q_tokens is %lld; must be 0 to %lld, batch * max_q", k->id, (long long)a->q_tokens,
             (long long)(d->batch * d->max_q));
  const ga_attn_strides own = packed_strides(d, d->head_dim);
  ga_kargs_attn_cast args = cast_args(d, a);
  args.x = a->q, args.y = workspace, args.cols = d->head_dim, args.x_dtype = GA_F32, args.y_dtype = d->kv_dtype;
  return cast(step->row, &args, &a->q_stride, &own, stream);
}

static ga_status attend(const ga_plan_step *step, const void *desc, const void *io, void *workspace,
                        ga_stream *stream) {
  const ga_attn_desc *d = desc, inner = inner_of(d);
  ga_attn_io own = *(const ga_attn_io *)io;
  own.q = workspace;
  own.q_stride = packed_strides(d, d->head_dim);
  own.o = (char *)workspace + o_offset(d);
  own.o_stride = packed_strides(d, d->v_dim);
  return step->row->launch(step->row, &inner, &own, (char *)workspace + step->workspace_offset, stream);
}

static ga_status cast_o(const ga_plan_step *step, const void *desc, const void *io, void *workspace,
                        ga_stream *stream) {
  const ga_attn_desc *d = desc;
  const ga_attn_io *a = io;
  const ga_attn_strides own = packed_strides(d, d->v_dim);
  ga_kargs_attn_cast args = cast_args(d, a);
  args.x = (char *)workspace + o_offset(d), args.y = a->o, args.cols = d->v_dim;
  args.x_dtype = d->kv_dtype, args.y_dtype = GA_F32;
  return cast(step->row, &args, &own, &a->o_stride, stream);
}

const char *cuda_attn_prefill_f32_plan(const ga_kernel *k, const void *desc, ga_plan_steps *steps) {
  const ga_attn_desc *d = desc, inner = inner_of(d);
  const ga_kernel *row = ga_plan_steps_choose(steps, cuda_attn_fwd, GA_OP_attn, &inner);
  if (!row) return "no row takes 16-bit q and o of this shape";
  if (d->batch == 0 || d->max_q == 0) return NULL;
  steps->workspace_bytes = inner_offset(d) + cuda_attn_fwd_workspace(row, &inner, &steps->device->caps);
  const char *why = ga_plan_steps_add(steps, k, cast_q, 0);
  if (!why) why = ga_plan_steps_add(steps, row, attend, inner_offset(d));
  return why ? why : ga_plan_steps_add(steps, k, cast_o, o_offset(d));
}
