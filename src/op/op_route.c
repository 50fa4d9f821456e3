#include "op/op.h"

#define OP "route"

static ga_status complete_groups(ga_route_desc *d) {
  if (d->n_groups == 0) d->n_groups = 1;
  if (d->top_k_groups == 0) d->top_k_groups = d->n_groups;
  GA_REQUIRE(d->n_experts % d->n_groups == 0, GA_ERR_SHAPE, OP ": n_groups is %d; must divide n_experts (%d)",
             d->n_groups, d->n_experts);
  GA_REQUIRE(d->top_k_groups <= d->n_groups, GA_ERR_SHAPE, OP ": top_k_groups is %d; must be 0 to n_groups (%d)",
             d->top_k_groups, d->n_groups);
  if (d->n_groups == d->top_k_groups) d->n_groups = d->top_k_groups = 1; /* no group is left out */
  if (d->n_groups == 1) d->group_score = GA_ROUTE_GROUP_MAX;
  const int32_t size = d->n_experts / d->n_groups;
  GA_REQUIRE(d->group_score != GA_ROUTE_GROUP_SUM2 || size >= 2, GA_ERR_SHAPE,
             OP ": n_groups is %d; groups by the sum of two need at least 2 of %d experts each", d->n_groups,
             d->n_experts);
  GA_REQUIRE(d->top_k <= d->top_k_groups * size, GA_ERR_SHAPE,
             OP ": top_k is %d; must be at most %d, the experts of %d groups of %d", d->top_k, d->top_k_groups * size,
             d->top_k_groups, size);
  return GA_OK;
}

static ga_status complete(ga_route_desc *d) {
  GA_TRY(ga_route_complete_fields(d));
  GA_TRY(complete_groups(d));
  GA_REQUIRE(d->tokens <= INT32_MAX / d->top_k, GA_ERR_SHAPE,
             OP ": tokens is %lld; must be 0 to %d with top_k %d, so that their product is below 2^31",
             (long long)d->tokens, INT32_MAX / d->top_k, d->top_k);
  GA_REQUIRE(d->renorm != GA_ROUTE_RENORM_NONE || d->norm_eps == 0, GA_ERR_ARG,
             OP ": norm_eps is %g; must be 0 without renorm", (double)d->norm_eps);
  GA_REQUIRE(!d->vocab || d->n_groups == 1, GA_ERR_ARG,
             OP ": n_groups is %d with vocab %lld; must be 0 or 1 where the table has the choice", d->n_groups,
             (long long)d->vocab);
  if (d->vocab) GA_TRY(ga_check_elements(OP, "table", d->vocab, d->top_k, 1, 1));
  return ga_complete_rows(OP, "logits_stride", d->tokens, d->n_experts, &d->logits_stride);
}

static ga_status check_sorted(const ga_route_io *io) {
  GA_CHECK_AT(OP, io->counts, GA_I32, "counts");
  GA_CHECK_AT(OP, io->offsets, GA_I32, "offsets");
  GA_CHECK_AT(OP, io->order, GA_I32, "order");
  GA_CHECK_AT(OP, io->place, GA_I32, "place");
  return GA_OK;
}

static ga_status check_io(const ga_route_desc *d, const ga_route_io *io) {
  if (d->flags & GA_ROUTE_SORT) GA_TRY(check_sorted(io)); /* counts and offsets are written even without tokens */
  if (d->tokens == 0) return GA_OK;
  GA_CHECK_AT(OP, io->logits, GA_F32, "logits");
  GA_CHECK_AT(OP, io->experts, GA_I32, "experts");
  GA_CHECK_AT(OP, io->weights, GA_F32, "weights");
  GA_CHECK_ALIGN(OP, io->bias, GA_F32, "bias");
  GA_CHECK_ALIGN(OP, io->expert_scale, GA_F32, "expert_scale");
  if (!d->vocab) return GA_OK;
  GA_REQUIRE(!io->bias, GA_ERR_ARG, OP ": bias is given with vocab; must be NULL where the table has the choice");
  GA_CHECK_AT(OP, io->token_ids, GA_I32, "token_ids");
  GA_CHECK_AT(OP, io->table, GA_I32, "table");
  return GA_OK;
}

GA_DEFINE_OP(route);
