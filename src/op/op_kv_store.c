#include "op/op.h"

static ga_status complete_rotation(ga_kv_store_fused_desc *d) {
  const int32_t head_dim = d->plain.head_dim;
  GA_REQUIRE(d->rot_dim >= 0 && d->rot_dim <= head_dim && d->rot_dim % 2 == 0, GA_ERR_SHAPE,
             "kv_store: rot_dim is %d; must be even, 0 to head_dim (%d)", d->rot_dim, head_dim);
  GA_REQUIRE(d->rot_dim || !d->head_norm, GA_ERR_ARG,
             "kv_store: head_norm is %d with rot_dim 0; heads are normed where they turn", d->head_norm);
  if (!d->rot_dim) return GA_OK;
  GA_CHECK_RANGE("kv_store", d->q_heads, 1, GA_HEADS_MAX);
  GA_REQUIRE(d->pairs == GA_ROPE_NORM || d->pairs == GA_ROPE_NEOX, GA_ERR_ARG, "kv_store: pairs is %d; allowed: 0, 1",
             d->pairs);
  GA_CHECK_FINITE("kv_store", d->magnitude);
  GA_REQUIRE(!d->head_norm || (d->norm_eps >= 0 && isfinite(d->norm_eps)), GA_ERR_ARG,
             "kv_store: norm_eps is %g; must be finite and not negative", (double)d->norm_eps);
  return ga_complete_rows("kv_store", "q_stride", d->plain.tokens, (int64_t)d->q_heads * head_dim, &d->q_stride);
}

/* What ga_attn can read from a cache, and block types that have a quantiser. */
static ga_status check_cache(const ga_kv_store_desc *d) {
  const ga_dtype_traits *t = ga_dtype_info((ga_dtype)d->kv_dtype);
  GA_REQUIRE(t && !ga_dtype_is_read_only((ga_dtype)d->kv_dtype) &&
                 (t->is_quant || d->kv_dtype == GA_F32 || d->kv_dtype == GA_F16 || d->kv_dtype == GA_BF16 ||
                  d->kv_dtype == GA_E4M3),
             GA_ERR_DTYPE, "kv_store: kv_dtype is %s (%d); allowed: f32, f16, bf16, e4m3, block types",
             ga_dtype_name((ga_dtype)d->kv_dtype), d->kv_dtype);
  GA_REQUIRE(d->head_dim % t->block_elems == 0 && d->v_dim % t->block_elems == 0, GA_ERR_DTYPE,
             "kv_store: kv_dtype %s does not fit head_dim %d, v_dim %d", t->name, d->head_dim, d->v_dim);
  GA_TRY(ga_check_elements("kv_store", "k_cache", d->slots, d->heads, d->head_dim, 1));
  return ga_check_elements("kv_store", "v_cache", d->slots, d->heads, d->v_dim, 1);
}

static ga_status complete(ga_kv_store_fused_desc *fused) {
  ga_kv_store_desc *d = &fused->plain;
  GA_TRY(ga_kv_store_complete_fields(fused));
  GA_TRY(check_cache(d));
  GA_TRY(ga_complete_rows("kv_store", "k_stride", d->tokens, (int64_t)d->heads * d->head_dim, &d->k_stride));
  GA_TRY(complete_rotation(fused));
  return ga_complete_rows("kv_store", "v_stride", d->tokens, (int64_t)d->heads * d->v_dim, &d->v_stride);
}

static ga_status check_turned(const ga_kv_store_fused_desc *d, const ga_kv_store_fused_io *io) {
  if (!d->rot_dim) return GA_OK;
  GA_CHECK_AT("kv_store", io->q, d->plain.x_dtype, "q");
  GA_CHECK_AT("kv_store", io->positions, GA_I32, "positions");
  GA_CHECK_AT("kv_store", io->inv_freq, GA_F32, "inv_freq");
  if (!d->head_norm) return GA_OK;
  GA_CHECK_AT("kv_store", io->q_norm, GA_F32, "q_norm");
  GA_CHECK_AT("kv_store", io->k_norm, GA_F32, "k_norm");
  return GA_OK;
}

static ga_status check_io(const ga_kv_store_fused_desc *fused, const ga_kv_store_fused_io *fused_io) {
  const ga_kv_store_desc *d = &fused->plain;
  const ga_kv_store_io *io = &fused_io->plain;
  if (d->tokens == 0) return GA_OK;
  GA_CHECK_AT("kv_store", io->k, d->x_dtype, "k");
  GA_CHECK_AT("kv_store", io->v, d->x_dtype, "v");
  GA_CHECK_AT("kv_store", io->k_cache, d->kv_dtype, "k_cache");
  GA_CHECK_AT("kv_store", io->v_cache, d->kv_dtype, "v_cache");
  GA_CHECK_AT("kv_store", io->slot, GA_I32, "slot");
  GA_CHECK_PTR("kv_store", d->kv_dtype != GA_E4M3 || (io->k_scale && io->v_scale), io->k_scale ? "v_scale" : "k_scale");
  GA_CHECK_ALIGN("kv_store", io->k_scale, GA_F32, "k_scale");
  GA_CHECK_ALIGN("kv_store", io->v_scale, GA_F32, "v_scale");
  return check_turned(fused, fused_io);
}

GA_DEFINE_FUSED_OP(kv_store);
