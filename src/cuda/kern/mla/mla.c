#include "cuda/kern/mla/mla.h"

#include "base/mem.h"
#include "base/status.h"
#include "core/cost.h"
#include "opdef/mla_at.h"

#define COUNTERS ((int64_t)(CUDA_COUNTER_BYTES / sizeof(int32_t)))

static int64_t row_bytes_of(const ga_mla_desc *d) {
  return ga_mla_row_bytes((ga_dtype)d->kv_dtype, d->v_dim, d->head_dim - d->v_dim);
}

const char *cuda_mla_refusal(const ga_kernel *k, const ga_mla_desc *d) {
  if (k->dtype[0] && d->q_dtype != (int32_t)k->dtype[0]) return "q_dtype is another";
  if (k->dtype[1] && d->kv_dtype != (int32_t)k->dtype[1]) return "kv_dtype is another";
  if (k->dtype[2] && d->o_dtype != (int32_t)k->dtype[2]) return "o_dtype is another";
  return d->max_q > 1 << 20 || d->max_kv > 1 << 30 || d->batch > 1 << 20 ? "too many rows" : NULL;
}

cuda_mla_cut cuda_mla_cut_of(const ga_mla_desc *d, int64_t rows, int64_t head_step, int64_t blocks, int64_t least) {
  cuda_mla_cut c = {.query_rows = ga_div_up(d->q_heads, head_step) * head_step, .splits = 1};
  c.tiles = ga_div_up(d->max_q * c.query_rows, rows);
  c.units = d->batch * c.tiles;
  if (c.units && c.units <= COUNTERS && !(d->flags & GA_MLA_INVARIANT))
    c.splits = ga_max_i64(1, ga_min_i64(blocks / c.units, ga_div_up(d->max_kv, least)));
  return c;
}

uint64_t cuda_mla_partial_bytes(const ga_mla_desc *d, const cuda_mla_cut *c, int64_t rows) {
  const int64_t floats = ga_div_up(d->v_dim, 4) * 4 + 4; /* mla_partial_floats */
  return c->splits == 1 ? 0 : (uint64_t)(c->units * c->splits * rows * floats) * sizeof(float);
}

double cuda_mla_us(const ga_mla_desc *d, const cuda_mla_cut *c, int64_t rows, double products, const ga_caps *caps) {
  const double keys = (double)c->units * (double)d->max_kv, results = (double)d->batch * (double)d->max_q * d->q_heads;
  const ga_work work = {.flops = 2 * products * keys * (double)rows * (d->head_dim + d->v_dim),
                        .bytes = keys * (double)row_bytes_of(d) +
                                 results * (d->head_dim + d->v_dim) * (double)sizeof(float)};
  return ga_work_us(&work, caps);
}

/* align 1: of an element. */
ga_status cuda_mla_check_io(ga_stream *stream, const ga_kernel *k, const ga_mla_desc *d, const ga_mla_io *a,
                            size_t align) {
  const int32_t types[3] = {d->q_dtype, d->kv_dtype, d->o_dtype};
  const char *const names[3] = {"q", "cache", "o"};
  const void *const tensors[3] = {a->q, a->cache, a->o};
  for (int i = 0; i < 3; i++) {
    const size_t own = cuda_mla_cache_align(types[i]);
    GA_TRY(cuda_check_pointer(stream, k, names[i], tensors[i], align > own ? align : own));
  }
  GA_TRY(cuda_check_pointer(stream, k, "lse", a->lse, sizeof(float)));
  GA_TRY(cuda_check_pointer(stream, k, "q_start", a->q_start, sizeof(int32_t)));
  GA_TRY(cuda_check_pointer(stream, k, "kv_len", a->kv_len, sizeof(int32_t)));
  return cuda_check_pointer(stream, k, "page_table", a->page_table, sizeof(int32_t));
}

ga_kargs_mla cuda_mla_kargs(const ga_mla_desc *d, const ga_mla_io *a, const cuda_mla_cut *c, void *workspace,
                            ga_stream *stream) {
  return (ga_kargs_mla){.q = a->q,
                        .cache = a->cache,
                        .o = a->o,
                        .lse = d->flags & GA_MLA_LSE ? a->lse : NULL,
                        .q_start = a->q_start,
                        .kv_len = a->kv_len,
                        .page_table = a->page_table,
                        .partial = workspace,
                        .counter = (int32_t *)(uintptr_t)cuda_counters_of(stream),
                        .q_token = d->q_stride,
                        .o_token = d->o_stride,
                        .lse_stride = d->lse_stride,
                        .page_stride = a->page_table_stride,
                        .tokens = a->q_tokens,
                        .q_heads = d->q_heads,
                        .head_dim = d->head_dim,
                        .v_dim = d->v_dim,
                        .row_bytes = (int32_t)row_bytes_of(d),
                        .page_size = d->page_size,
                        .q_dtype = d->q_dtype,
                        .o_dtype = d->o_dtype,
                        .query_rows = (int32_t)c->query_rows,
                        .tiles = (int32_t)c->tiles,
                        .splits = (int32_t)c->splits,
                        .scale = d->scale};
}

ga_status cuda_mla_enqueue(const ga_kernel *k, const ga_mla_desc *d, const ga_mla_io *a, const cuda_mla_cut *c,
                           size_t align, void *workspace, ga_stream *stream) {
  const cuda_variant *v = k->impl;
  const int64_t blocks = c->units * c->splits;
  if (blocks == 0 || a->q_tokens == 0) return GA_OK;
  GA_TRY(cuda_mla_check_io(stream, k, d, a, align));
  GA_REQUIRE(blocks <= INT32_MAX, GA_ERR_SHAPE, "%s: %lld blocks of work; at most 2^31 - 1 are allowed", k->id,
             (long long)blocks);
  const ga_kargs_mla args = cuda_mla_kargs(d, a, c, workspace, stream);
  const cuda_launch l = {.grid = {(uint32_t)blocks, 1, 1},
                         .block = {v->threads, 1, 1},
                         .shared_bytes = v->shared_bytes,
                         .dependent = true};
  return cuda_enqueue(stream, k, &l, &args);
}
