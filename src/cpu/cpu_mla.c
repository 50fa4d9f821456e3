/* Multi-head latent attention on the CPU: attention whose only KV head has the latent cache for keys and, in their
 * first elements, for values. */
#include <string.h>

#include "base/half.h"
#include "base/mem.h"
#include "base/status.h"
#include "cpu/cpu_attn.h"
#include "opdef/mla_at.h"

const char *ga_cpu_mla_f32(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)caps;
  const ga_mla_desc *d = desc;
  return d->q_dtype != GA_F32 || d->o_dtype != GA_F32 ? "q or o is not f32" : NULL;
}

static ga_attn_desc attn_desc_of(const ga_mla_desc *d) {
  ga_attn_desc as = GA_ATTN_DESC_INIT;
  as.batch = d->batch, as.max_q = d->max_q, as.max_kv = d->max_kv;
  as.q_heads = d->q_heads, as.kv_heads = 1;
  as.head_dim = d->head_dim, as.v_dim = d->v_dim;
  as.kv_dtype = d->kv_dtype == GA_E4M3 ? GA_BF16 : d->kv_dtype;
  as.page_size = d->page_size;
  if (d->kv_dtype == GA_E4M3) { /* one sequence, whose rows are brought into one page */
    as.batch = ga_min_i64(d->batch, 1);
    as.page_size = (int32_t)ga_max_i64(d->max_kv, 1);
  }
  as.scale = d->scale;
  as.lse_stride = d->lse_stride;
  as.flags = GA_ATTN_CAUSAL | GA_ATTN_VARLEN | GA_ATTN_PAGED | GA_ATTN_KEEP_PADDING;
  if (d->flags & GA_MLA_LSE) as.flags |= GA_ATTN_LSE;
  if (d->flags & GA_MLA_INVARIANT) as.flags |= GA_ATTN_INVARIANT;
  return as;
}

/* Bytes of the rows of the longest sequence in bf16, which codes times scales are. */
static uint64_t rows_as_bf16(const ga_mla_desc *d) {
  return d->kv_dtype == GA_E4M3 ? ga_round_up((uint64_t)d->max_kv * (uint64_t)d->head_dim * sizeof(ga_bf16), 64) : 0;
}

uint64_t ga_cpu_mla_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  const ga_attn_desc as = attn_desc_of(desc);
  return rows_as_bf16(desc) + ga_cpu_attn_workspace(kernel, &as, caps);
}

static ga_status check_sequences(const ga_kernel *kernel, const ga_mla_desc *d, const ga_mla_io *a) {
  for (int64_t b = 0; b < d->batch && d->max_q; b++) {
    const int64_t first = a->q_start[b], n_q = (int64_t)a->q_start[b + 1] - first, n_kv = a->kv_len[b];
    GA_REQUIRE(n_q >= 0 && n_q <= d->max_q && n_kv >= 0 && n_kv <= d->max_kv, GA_ERR_ARG,
               "mla %s: sequence %lld has %lld queries, %lld cached tokens; must be 0 to %lld, 0 to %lld", kernel->id,
               (long long)b, (long long)n_q, (long long)n_kv, (long long)d->max_q, (long long)d->max_kv);
    GA_REQUIRE(first >= 0 && (!d->lse_stride || first <= d->lse_stride - n_q), GA_ERR_ARG,
               "mla %s: sequence %lld has queries %lld to %lld; must begin at 0 or later and, with LSE, end by "
               "lse_stride, %lld",
               kernel->id, (long long)b, (long long)first, (long long)(first + n_q), (long long)d->lse_stride);
  }
  return GA_OK;
}

static ga_attn_io attn_io_of(const ga_mla_desc *d, const ga_mla_io *a, const ga_attn_desc *as) {
  ga_attn_io io = {.q = a->q,
                   .k = a->cache,
                   .v = a->cache,
                   .o = a->o,
                   .lse = a->lse,
                   .q_start = a->q_start,
                   .kv_len = a->kv_len,
                   .page_table = a->page_table,
                   .page_table_stride = a->page_table_stride,
                   .q_tokens = a->q_tokens};
  io.q_stride = (ga_attn_strides){.token = d->q_stride, .head = d->head_dim};
  io.o_stride = (ga_attn_strides){.token = d->o_stride, .head = d->v_dim};
  io.k_stride =
      (ga_attn_strides){.batch = (int64_t)as->page_size * d->head_dim, .token = d->head_dim, .head = d->head_dim};
  io.v_stride = io.k_stride;
  return io;
}

/* --- rows of codes --- */

typedef struct latent_rows {
  const ga_mla_desc *d;
  const ga_mla_io *a;
  int64_t b;
  ga_bf16 *out; /* [n_kv, head_dim] */
} latent_rows;

static void rows_to_bf16(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const latent_rows *r = arg;
  const ga_mla_desc *d = r->d;
  const int64_t rot = d->head_dim - d->v_dim, bytes = ga_mla_row_bytes(GA_E4M3, d->v_dim, rot);
  for (int64_t j = begin; j < end; j++) {
    const int64_t page = r->a->page_table[r->b * r->a->page_table_stride + j / d->page_size];
    const uint8_t *row = (const uint8_t *)r->a->cache + (page * d->page_size + j % d->page_size) * bytes;
    ga_bf16 *out = r->out + j * d->head_dim;
    for (int32_t i = 0; i < d->v_dim; i++) {
      float scale;
      memcpy(&scale, row + ga_mla_scale_at(d->v_dim, i), sizeof scale);
      out[i] = ga_f32_to_bf16(ga_e4m3_to_f32(row[i]) * scale);
    }
    memcpy(out + d->v_dim, row + ga_mla_rotated_at(d->v_dim, 0), (size_t)rot * sizeof *out);
  }
}

/* Runs attention for each sequence, whose rows become bf16 before. */
static ga_status each_sequence(const ga_kernel *kernel, const ga_mla_desc *d, const ga_mla_io *a, void *workspace,
                               ga_stream *stream, ga_kernel_launch attention) {
  static const int32_t one_page[1] = {0};
  latent_rows rows = {.d = d, .a = a, .out = workspace};
  for (rows.b = 0; rows.b < d->batch; rows.b++) {
    ga_attn_desc as_desc = attn_desc_of(d);
    ga_attn_io as_io = attn_io_of(d, a, &as_desc);
    as_io.k = as_io.v = rows.out;
    as_io.q_start += rows.b, as_io.kv_len += rows.b;
    as_io.page_table = one_page, as_io.page_table_stride = 0;
    ga_pool_run_ranges(a->kv_len[rows.b] < 32 ? NULL : cpu_pool(stream), a->kv_len[rows.b], 1, rows_to_bf16, &rows);
    GA_TRY(attention(kernel, &as_desc, &as_io, (uint8_t *)workspace + rows_as_bf16(d), stream));
  }
  return GA_OK;
}

ga_status cpu_mla_run(const ga_kernel *kernel, const ga_mla_desc *d, const ga_mla_io *a, void *workspace,
                      ga_stream *stream, ga_kernel_launch attention) {
  GA_TRY(check_sequences(kernel, d, a));
  if (d->kv_dtype == GA_E4M3) return each_sequence(kernel, d, a, workspace, stream, attention);
  const ga_attn_desc as_desc = attn_desc_of(d);
  const ga_attn_io as_io = attn_io_of(d, a, &as_desc);
  return attention(kernel, &as_desc, &as_io, workspace, stream);
}
