#include "op/op.h"

static ga_status complete(ga_kv_store_desc *d) {
  GA_CHECK_DIM("kv_store", d->tokens);
  GA_CHECK_DIM("kv_store", d->slots);
  GA_REQUIRE(d->heads >= 1 && d->head_dim >= 1, GA_ERR_SHAPE, "kv_store: heads %d, head_dim %d; must be at least 1",
             d->heads, d->head_dim);
  if (d->v_dim == 0) d->v_dim = d->head_dim;
  GA_TRY(ga_check_plain("kv_store", "x_dtype", d->x_dtype));
  const ga_dtype_traits *t = ga_dtype_info((ga_dtype)d->kv_dtype);
  GA_REQUIRE(t && d->head_dim % t->block_elems == 0 && d->v_dim % t->block_elems == 0, GA_ERR_DTYPE,
             "kv_store: kv_dtype %s does not fit head_dim %d, v_dim %d", ga_dtype_name((ga_dtype)d->kv_dtype),
             d->head_dim, d->v_dim);
  GA_TRY(ga_complete_stride("kv_store", "k_stride", (int64_t)d->heads * d->head_dim, &d->k_stride));
  return ga_complete_stride("kv_store", "v_stride", (int64_t)d->heads * d->v_dim, &d->v_stride);
}

static ga_status check_io(const ga_kv_store_desc *d, const ga_kv_store_io *io) {
  if (d->tokens == 0) return GA_OK;
  GA_CHECK_PTR("kv_store", io->k && io->v, io->k ? "v" : "k");
  GA_CHECK_PTR("kv_store", io->k_cache && io->v_cache, io->k_cache ? "v_cache" : "k_cache");
  GA_CHECK_PTR("kv_store", io->slot, "slot");
  return GA_OK;
}

GA_DEFINE_OP(kv_store);
