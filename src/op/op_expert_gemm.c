#include "op/op.h"

#define OP "expert_gemm"

/* Returns true for types that a matrix of weights may have. */
static bool is_expert_weight(int32_t dtype) {
  const ga_dtype_traits *t = ga_dtype_info((ga_dtype)dtype);
  return t && !ga_dtype_is_read_only((ga_dtype)dtype) &&
         (t->is_quant || dtype == GA_F32 || dtype == GA_F16 || dtype == GA_BF16 || dtype == GA_E4M3);
}

static ga_status complete_weights(ga_expert_gemm_desc *d) {
  GA_REQUIRE(is_expert_weight(d->w_dtype), GA_ERR_DTYPE, OP ": w_dtype %s (%d) is no weight type",
             ga_dtype_name((ga_dtype)d->w_dtype), d->w_dtype);
  const int32_t block = ga_dtype_info((ga_dtype)d->w_dtype)->block_elems;
  GA_REQUIRE(d->k % block == 0, GA_ERR_SHAPE, OP ": k is %lld; %s needs a multiple of %d", (long long)d->k,
             ga_dtype_name((ga_dtype)d->w_dtype), block);
  if (d->expert_rows == 0) d->expert_rows = d->n;
  GA_REQUIRE(d->expert_rows >= d->n, GA_ERR_SHAPE, OP ": expert_rows is %lld; must be 0, or at least n (%lld)",
             (long long)d->expert_rows, (long long)d->n);
  GA_REQUIRE(d->w_layout == GA_LAYOUT_NATIVE || d->expert_rows % 16 == 0, GA_ERR_SHAPE,
             OP ": expert_rows is %lld; packed stacks need a multiple of 16", (long long)d->expert_rows);
  return ga_check_elements(OP, "w", d->n_matrices ? d->n_matrices : d->n_experts, d->expert_rows, d->k, 1);
}

/* Fields of the activation, each of which needs the ones before it. */
static ga_status check_activation(const ga_expert_gemm_desc *d) {
  const bool gated = d->flags & GA_EXPERT_GATED;
  GA_REQUIRE(d->clamp == GA_EXPERT_CLAMP_NONE || gated, GA_ERR_ARG, OP ": clamp is %d; must be 0 without GATED",
             d->clamp);
  GA_REQUIRE((d->clamp == GA_EXPERT_CLAMP_NONE) == (d->limit == 0), GA_ERR_ARG, OP ": limit is %g; must be %s",
             (double)d->limit, d->clamp ? "above 0 with clamp" : "0 without clamp");
  GA_REQUIRE(d->up_offset == 0 || gated, GA_ERR_ARG, OP ": up_offset is %g; must be 0 without GATED",
             (double)d->up_offset);
  GA_REQUIRE(d->act_alpha == 1 || d->act == GA_ACT_SILU, GA_ERR_ARG, OP ": act_alpha is %g; must be 1 without SILU",
             (double)d->act_alpha);
  if (d->form == GA_EXPERT_IN) {
    GA_REQUIRE(!(d->flags & GA_EXPERT_RESIDUAL), GA_ERR_ARG, OP ": flags 0x%x: RESIDUAL goes with form OUT", d->flags);
    return GA_OK;
  }
  GA_REQUIRE(!gated, GA_ERR_ARG, OP ": flags 0x%x: GATED goes with form IN", d->flags);
  GA_REQUIRE(d->act == GA_ACT_NONE, GA_ERR_ARG, OP ": act is %d; must be 0 in form OUT", d->act);
  return GA_OK;
}

static ga_status complete(ga_expert_gemm_desc *d) {
  GA_TRY(ga_expert_gemm_complete_fields(d));
  GA_REQUIRE(!(d->flags & GA_EXPERT_IN_TURN) ||
                 (d->form == GA_EXPERT_IN && d->top_k == 1 && !(d->flags & GA_EXPERT_SORTED)),
             GA_ERR_ARG, OP ": flags 0x%x, form %d, top_k %d: IN_TURN goes with form IN and top_k 1, without SORTED",
             d->flags, d->form, d->top_k);
  GA_TRY(complete_weights(d));
  GA_TRY(check_activation(d));
  GA_REQUIRE(d->tokens <= INT32_MAX / d->top_k, GA_ERR_SHAPE,
             OP ": tokens is %lld; must be 0 to %d with top_k %d, so that their product is below 2^31",
             (long long)d->tokens, INT32_MAX / d->top_k, d->top_k);
  const int64_t slots = d->tokens * d->top_k;
  const bool in = d->form == GA_EXPERT_IN;
  GA_TRY(ga_complete_rows(OP, "x_stride", in ? d->tokens : slots, d->k, &d->x_stride));
  return ga_complete_rows(OP, "y_stride", in ? slots : d->tokens, d->n, &d->y_stride);
}

/* Pointers that flags ask for. */
static ga_status check_flagged(const ga_expert_gemm_desc *d, const ga_expert_gemm_io *io) {
  if (d->flags & GA_EXPERT_GATED && d->k) GA_CHECK_AT(OP, io->w_gate, d->w_dtype, "w_gate");
  if (d->flags & GA_EXPERT_BIAS) GA_CHECK_AT(OP, io->bias, GA_F32, "bias");
  if (d->flags & GA_EXPERT_BIAS && d->flags & GA_EXPERT_GATED) GA_CHECK_AT(OP, io->bias_gate, GA_F32, "bias_gate");
  if (d->flags & GA_EXPERT_RESIDUAL) GA_CHECK_AT(OP, io->residual, d->y_dtype, "residual");
  if (d->flags & GA_EXPERT_WEIGHTS) GA_CHECK_AT(OP, io->weights, GA_F32, "weights");
  if (d->n_matrices) GA_CHECK_AT(OP, io->matrices, GA_I32, "matrices");
  if (d->flags & GA_EXPERT_IN_TURN) return GA_OK;
  if (!(d->flags & GA_EXPERT_SORTED)) {
    GA_CHECK_AT(OP, io->experts, GA_I32, "experts");
    return GA_OK;
  }
  GA_CHECK_AT(OP, io->offsets, GA_I32, "offsets");
  GA_CHECK_AT(OP, io->order, GA_I32, "order");
  GA_CHECK_AT(OP, io->place, GA_I32, "place");
  return GA_OK;
}

static ga_status check_io(const ga_expert_gemm_desc *d, const ga_expert_gemm_io *io) {
  if (d->tokens == 0 || d->n == 0) return GA_OK;
  GA_CHECK_AT(OP, io->y, d->y_dtype, "y");
  if (d->k) GA_CHECK_AT(OP, io->x, d->x_dtype, "x");
  if (d->k) GA_CHECK_AT(OP, io->w, d->w_dtype, "w");
  GA_REQUIRE(io->y != io->x && io->y != io->w, GA_ERR_ARG, OP ": y overlaps %s", io->y == io->x ? "x" : "w");
  return check_flagged(d, io);
}

GA_DEFINE_OP(expert_gemm);
