#include "op/op.h"
#include "opdef/mla_at.h"

#define OP "mla_store"

static ga_status complete(ga_mla_store_desc *d) {
  GA_TRY(ga_mla_store_complete_fields(d));
  GA_REQUIRE(d->rot_dim % 2 == 0 && d->v_dim + d->rot_dim <= 1024, GA_ERR_SHAPE,
             OP ": rot_dim is %d with v_dim %d; must be even, and their sum at most 1024", d->rot_dim, d->v_dim);
  GA_REQUIRE(d->kv_dtype != GA_E4M3 || d->v_dim % GA_MLA_BLOCK == 0, GA_ERR_SHAPE,
             OP ": v_dim is %d; an e4m3 cache needs a multiple of %d", d->v_dim, GA_MLA_BLOCK);
  GA_TRY(ga_check_elements(OP, "cache", d->slots, d->v_dim + d->rot_dim, 1, 1));
  return ga_complete_rows(OP, "x_stride", d->tokens, d->v_dim + d->rot_dim, &d->x_stride);
}

static ga_status check_io(const ga_mla_store_desc *d, const ga_mla_store_io *io) {
  if (d->tokens == 0) return GA_OK;
  GA_CHECK_AT(OP, io->x, d->x_dtype, "x");
  GA_CHECK_ALIGN(OP, io->norm, GA_F32, "norm");
  GA_CHECK_AT(OP, io->slot, GA_I32, "slot");
  GA_CHECK_AT(OP, io->cache, d->kv_dtype == GA_E4M3 ? GA_F32 : d->kv_dtype, "cache");
  if (!d->rot_dim) return GA_OK;
  GA_CHECK_AT(OP, io->positions, GA_I32, "positions");
  GA_CHECK_AT(OP, io->inv_freq, GA_F32, "inv_freq");
  return GA_OK;
}

GA_DEFINE_OP(mla_store);
