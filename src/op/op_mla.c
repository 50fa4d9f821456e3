#include "op/op.h"
#include "opdef/mla_at.h"

#define OP "mla"

static ga_status complete(ga_mla_desc *d) {
  GA_TRY(ga_mla_complete_fields(d));
  GA_REQUIRE(d->v_dim <= d->head_dim, GA_ERR_SHAPE, OP ": v_dim is %d; must be 1 to head_dim (%d)", d->v_dim,
             d->head_dim);
  GA_REQUIRE(
      d->kv_dtype != GA_E4M3 || (d->v_dim % GA_MLA_BLOCK == 0 && (d->head_dim - d->v_dim) % 2 == 0), GA_ERR_SHAPE,
      OP ": v_dim is %d and head_dim %d; an e4m3 cache needs a multiple of %d, and an even number of further elements",
      d->v_dim, d->head_dim, GA_MLA_BLOCK);
  const bool has_lse = d->flags & GA_MLA_LSE;
  GA_REQUIRE(has_lse == (d->lse_stride > 0), GA_ERR_ARG, OP ": lse_stride is %lld; must be %s",
             (long long)d->lse_stride, has_lse ? "at least 1 with LSE" : "0 without LSE");
  const int64_t tokens = ga_min_i64(d->batch, INT32_MAX) * ga_min_i64(d->max_q, INT32_MAX);
  const int64_t rows = ga_min_i64(tokens, INT32_MAX); /* q_start has 32 bits */
  GA_TRY(ga_check_elements(OP, "cache", d->max_kv, d->head_dim, 1, 1));
  GA_TRY(ga_complete_rows(OP, "q_stride", rows, (int64_t)d->q_heads * d->head_dim, &d->q_stride));
  return ga_complete_rows(OP, "o_stride", rows, (int64_t)d->q_heads * d->v_dim, &d->o_stride);
}

static ga_status check_io(const ga_mla_desc *d, const ga_mla_io *io) {
  if (d->batch == 0 || d->max_q == 0) return GA_OK;
  GA_CHECK_AT(OP, io->q, d->q_dtype, "q");
  GA_CHECK_PTR(OP, io->cache || d->max_kv == 0, "cache");
  GA_CHECK_ALIGN(OP, io->cache, d->kv_dtype == GA_E4M3 ? GA_F32 : d->kv_dtype, "cache");
  GA_CHECK_AT(OP, io->o, d->o_dtype, "o");
  GA_REQUIRE(io->o != io->q && io->o != io->cache, GA_ERR_ARG, OP ": o at %p overlaps %s", io->o,
             io->o == io->q ? "q" : "the cache");
  if (d->flags & GA_MLA_LSE) GA_CHECK_AT(OP, io->lse, GA_F32, "lse");
  GA_CHECK_AT(OP, io->q_start, GA_I32, "q_start");
  GA_CHECK_AT(OP, io->kv_len, GA_I32, "kv_len");
  GA_CHECK_AT(OP, io->page_table, GA_I32, "page_table");
  GA_REQUIRE(io->page_table_stride >= 0 && io->page_table_stride <= GA_DIM_MAX, GA_ERR_ARG,
             OP ": page_table_stride is %lld; must be 0 to 2^40", (long long)io->page_table_stride);
  GA_REQUIRE(io->q_tokens >= 0 && io->q_tokens <= GA_DIM_MAX, GA_ERR_ARG, OP ": q_tokens is %lld; must be 0 to 2^40",
             (long long)io->q_tokens);
  GA_REQUIRE(!d->lse_stride || d->lse_stride >= io->q_tokens, GA_ERR_ARG,
             OP ": lse_stride is %lld; must be at least q_tokens, %lld", (long long)d->lse_stride,
             (long long)io->q_tokens);
  return ga_check_elements(OP, "page_table", d->batch, io->page_table_stride, 1, 1);
}

GA_DEFINE_OP(mla);
