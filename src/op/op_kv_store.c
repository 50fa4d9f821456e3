#include "op/op.h"

static ga_status complete_rotation(ga_kv_store_fused_desc *d) {
  const int32_t head_dim = d->plain.head_dim;
  GA_REQUIRE(d->rot_dim >= 0 && d->rot_dim <= head_dim && d->rot_dim % 2 == 0, GA_ERR_SHAPE,
             "kv_store: rot_dim is %d; must be even, 0 to head_dim (%d)", d->rot_dim, head_dim);
  GA_REQUIRE(d->rot_dim || !d->head_norm, GA_ERR_ARG,
             "kv_store: head_norm is %d with rot_dim 0; heads are normed where they turn", d->head_norm);
  if (!d->rot_dim) return GA_OK;
  GA_REQUIRE(d->q_heads >= 1, GA_ERR_SHAPE, "kv_store: q_heads is %d; must be at least 1", d->q_heads);
  GA_REQUIRE(d->pairs == GA_ROPE_NORM || d->pairs == GA_ROPE_NEOX, GA_ERR_ARG, "kv_store: pairs is %d; allowed: 0, 1",
             d->pairs);
  GA_REQUIRE(!d->head_norm || d->norm_eps >= 0, GA_ERR_ARG, "kv_store: norm_eps is %g; must not be negative",
             (double)d->norm_eps);
  return ga_complete_stride("kv_store", "q_stride", (int64_t)d->q_heads * head_dim, &d->q_stride);
}

static ga_status complete(ga_kv_store_fused_desc *fused) {
  ga_kv_store_desc *d = &fused->plain;
  GA_CHECK_DIM("kv_store", d->tokens);
  GA_CHECK_DIM("kv_store", d->slots);
  GA_REQUIRE(d->heads >= 1 && d->head_dim >= 1, GA_ERR_SHAPE, "kv_store: heads %d, head_dim %d; must be at least 1",
             d->heads, d->head_dim);
  GA_REQUIRE(d->reserved == 0, GA_ERR_ARG, "kv_store: reserved is %d; must be 0", d->reserved);
  if (d->v_dim == 0) d->v_dim = d->head_dim;
  GA_TRY(ga_check_plain("kv_store", "x_dtype", d->x_dtype));
  const ga_dtype_traits *t = ga_dtype_info((ga_dtype)d->kv_dtype);
  GA_REQUIRE(t && d->head_dim % t->block_elems == 0 && d->v_dim % t->block_elems == 0, GA_ERR_DTYPE,
             "kv_store: kv_dtype %s does not fit head_dim %d, v_dim %d", ga_dtype_name((ga_dtype)d->kv_dtype),
             d->head_dim, d->v_dim);
  GA_TRY(ga_complete_stride("kv_store", "k_stride", (int64_t)d->heads * d->head_dim, &d->k_stride));
  GA_TRY(complete_rotation(fused));
  return ga_complete_stride("kv_store", "v_stride", (int64_t)d->heads * d->v_dim, &d->v_stride);
}

static ga_status check_io(const ga_kv_store_fused_desc *fused, const ga_kv_store_fused_io *fused_io) {
  const ga_kv_store_desc *d = &fused->plain;
  const ga_kv_store_io *io = &fused_io->plain;
  if (d->tokens == 0) return GA_OK;
  GA_CHECK_PTR("kv_store", io->k && io->v, io->k ? "v" : "k");
  GA_CHECK_PTR("kv_store", io->k_cache && io->v_cache, io->k_cache ? "v_cache" : "k_cache");
  GA_CHECK_PTR("kv_store", io->slot, "slot");
  GA_CHECK_PTR("kv_store", d->kv_dtype != GA_E4M3 || (io->k_scale && io->v_scale), io->k_scale ? "v_scale" : "k_scale");
  if (!fused->rot_dim) return GA_OK;
  GA_CHECK_PTR("kv_store", fused_io->q, "q");
  GA_CHECK_PTR("kv_store", fused_io->positions, "positions");
  GA_CHECK_PTR("kv_store", fused_io->inv_freq, "inv_freq");
  if (fused->head_norm)
    GA_CHECK_PTR("kv_store", fused_io->q_norm && fused_io->k_norm, fused_io->q_norm ? "k_norm" : "q_norm");
  return GA_OK;
}

GA_DEFINE_FUSED_OP(kv_store);
