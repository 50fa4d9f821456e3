#include "core/cost.h"

#include "base/mem.h"

/* --- what ops do --- */

static double elem_bytes(int32_t dtype) {
  const ga_dtype_traits *t = ga_dtype_info((ga_dtype)dtype);
  return t ? (double)t->block_bytes / t->block_elems : 4;
}

double ga_attn_pairs(int64_t max_q, int64_t max_kv, bool causal, int64_t window) {
  const double q = (double)max_q, keys = (double)max_kv;
  double seen = keys;
  if (causal || window) seen = keys > q ? keys - q / 2 : keys / 2;
  if (window && (double)window < seen) seen = (double)window;
  return q * seen;
}

static ga_work work_of_gemm(const void *desc) {
  const ga_gemm_desc *d = desc;
  const double m = (double)d->m, n = (double)d->n, k = (double)d->k;
  return (ga_work){.flops = 2 * m * n * k,
                   .bytes = n * k * elem_bytes(d->w_dtype) + m * k * elem_bytes(d->x_dtype) +
                            m * n * elem_bytes(d->y_dtype)};
}

static ga_work work_of_attn(const void *desc) {
  const ga_attn_desc *d = desc;
  const double heads = (double)d->batch * d->q_heads, dims = d->head_dim + d->v_dim;
  return (ga_work){.flops = 2 * heads * dims * ga_attn_pairs(d->max_q, d->max_kv, d->flags & GA_ATTN_CAUSAL, d->window),
                   .bytes = (double)d->batch * (double)d->max_kv * d->kv_heads * dims * elem_bytes(d->kv_dtype)};
}

static ga_work work_of_attn_bwd(const void *desc) {
  const ga_attn_bwd_desc *d = desc;
  const double heads = (double)d->batch * d->q_heads, dims = 3.0 * d->head_dim + 2.0 * d->v_dim;
  return (ga_work){.flops =
                       2 * heads * dims * ga_attn_pairs(d->max_q, d->max_kv, d->flags & GA_ATTN_CAUSAL, d->window)};
}

/* The others move their rows: elements of f32 that are read and written, about. */
static double elements_of(ga_op op, const void *desc) {
  switch (op) {
#define PRODUCT(name, a, b) \
  case GA_OP_##name: return (double)((const ga_##name##_desc *)desc)->a * (double)((const ga_##name##_desc *)desc)->b
    PRODUCT(norm, rows, width);
    PRODUCT(act, rows, width);
    PRODUCT(add, rows, width);
    PRODUCT(softmax, rows, width);
    PRODUCT(convert, rows, width);
    PRODUCT(embed, tokens, width);
    PRODUCT(pack, n, k);
#undef PRODUCT
  case GA_OP_sample: {
    const ga_sample_fused_desc *d = desc;
    return (double)d->plain.vocab * (d->rows ? d->rows : 1);
  }
  case GA_OP_rope: {
    const ga_rope_desc *d = desc;
    return (double)d->tokens * d->heads * d->rot_dim;
  }
  case GA_OP_kv_store: {
    const ga_kv_store_desc *d = desc;
    return (double)d->tokens * d->heads * (d->head_dim + d->v_dim);
  }
  case GA_OP_attn_quant: {
    const ga_attn_quant_desc *d = desc;
    return (double)d->batch * (double)d->tokens * d->heads * d->dim;
  }
  default: return 0;
  }
}

ga_work ga_work_of(ga_op op, const void *desc) {
  if (op == GA_OP_gemm) return work_of_gemm(desc);
  if (op == GA_OP_attn) return work_of_attn(desc);
  if (op == GA_OP_attn_bwd) return work_of_attn_bwd(desc);
  return (ga_work){.bytes = 8 * elements_of(op, desc)};
}

/* --- what devices do in a microsecond --- */

enum {
  SM_FLOPS = 6000000, /* a multiprocessor's tensor cores in 16 bits, at the clock that its power allows */
  SM_BYTES = 30000,   /* a multiprocessor's share of 4 TB/s */
  THREAD_FLOPS = 60000,
  THREAD_BYTES = 8000
};
#define GPU_LAUNCH_US 3.0
#define CPU_CALL_US   0.5

double ga_work_us(const ga_work *work, const ga_caps *caps) {
  const bool gpu = caps->sms > 0;
  const double units = gpu ? (double)caps->sms : (double)ga_max_i64(caps->threads, 1);
  return (gpu ? GPU_LAUNCH_US : CPU_CALL_US) + work->flops / (units * (gpu ? SM_FLOPS : THREAD_FLOPS)) +
         work->bytes / (units * (gpu ? SM_BYTES : THREAD_BYTES));
}

double ga_cost_us(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  if (kernel->cost) return kernel->cost(kernel, desc, caps);
  const ga_work work = ga_work_of(kernel->op, desc);
  return ga_work_us(&work, caps) * 100 / (kernel->speed > 0 ? kernel->speed : 1);
}
