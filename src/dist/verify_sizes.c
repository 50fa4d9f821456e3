/* Sizes: steps of a plan name things that are there, and a block has the bytes of its rows. */
#include "dist/verify.h"

/* Computes the bytes of one row of a tensor with `heads` heads. The table has, in the order of DIST_Q to DIST_DKV: Q; K
 * and V; O and LSE; Q, O, dO and LSE; dQ; dK and dV. */
int64_t dist_bytes_of_row(const ga_dist_plan *plan, int32_t tensor, int32_t heads, bool travels) {
  const int64_t d = plan->p.head_dim, dv = plan->p.v_dim;
  const int64_t in = plan->p.dtype == GA_F32 ? 4 : 2, part = travels && plan->p.splits_heads   ? in
                                                             : plan->p.partial_dtype == GA_F32 ? 4
                                                                                               : 2;
  const int64_t bytes[] = {in * d, in * (d + dv), part * dv + 4, in * (d + dv + dv) + 4, part * d, part * (d + dv)};
  return heads * bytes[tensor];
}

static bool is_within(int64_t x, int64_t n) { return x >= 0 && x < n; }

static bool heads_exist(const ga_dist_plan *plan, int32_t tensor, int32_t head, int32_t heads) {
  const int32_t n = tensor == DIST_KV || tensor == DIST_DKV ? plan->p.kv_heads : plan->p.q_heads;
  return head >= 0 && heads >= 1 && head <= n - heads;
}

static bool tensor_belongs(const ga_dist_plan *plan, int32_t tensor) {
  if (plan->p.flags & GA_DIST_BACKWARD)
    return tensor == DIST_KV || tensor == DIST_G || tensor == DIST_DQ || tensor == DIST_DKV;
  return tensor == DIST_Q || tensor == DIST_KV || tensor == DIST_O;
}

/* -1 when the pieces are not ascending stretches of the owner. */
static int64_t rows_of_pieces(const ga_dist_plan *plan, const dist_step *s) {
  const ga_dist_layout *l = s->tensor == DIST_KV || s->tensor == DIST_DKV ? plan->p.kv : plan->p.q;
  if (s->pieces < 0 || s->piece < 0 || s->piece > plan->n_pieces - s->pieces) return -1;
  int64_t rows = 0, last = -1;
  for (int64_t i = 0; i < s->pieces; i++) {
    const int64_t x = plan->pieces[s->piece + i];
    if (x <= last || !is_within(x, dist_stretches(l, s->owner))) return -1;
    rows += dist_stretch_at(l, s->owner, x)->count;
    last = x;
  }
  return rows;
}

static ga_status check_block(dist_verifier *v, int32_t rank, int64_t i, const dist_step *s) {
  const ga_dist_plan *plan = v->plan;
  const dist_program *g = &plan->programs[rank];
  if (!tensor_belongs(plan, s->tensor) || !is_within(s->owner, plan->p.ranks) ||
      !heads_exist(plan, s->tensor, s->head, s->heads))
    return dist_broken(v, GA_DIST_RULE_SIZE, rank, i, "tensor %d of rank %d, heads %d..%d is not there", s->tensor,
                       s->owner, s->head, s->head + s->heads - 1);
  const bool transfer = s->kind == DIST_SEND || s->kind == DIST_RECEIVE;
  if ((transfer || s->kind == DIST_MERGE) && (!is_within(s->peer, plan->p.ranks) || s->peer == rank))
    return dist_broken(v, GA_DIST_RULE_SIZE, rank, i, "peer is %d; must be another of %d ranks", s->peer,
                       plan->p.ranks);
  if (s->kind != DIST_SEND && s->kind != DIST_MERGE && s->slot < DIST_OWN_SLOTS)
    return s->kind == DIST_OPEN && s->owner == rank && s->pieces == 0
               ? GA_OK
               : dist_broken(v, GA_DIST_RULE_SIZE, rank, i, "slot %d holds the rank's own tensor", s->slot);
  const int64_t rows = rows_of_pieces(plan, s);
  if (rows <= 0) return dist_broken(v, GA_DIST_RULE_SIZE, rank, i, "its stretches are not those of a block");
  if (s->kind == DIST_MERGE) return GA_OK;
  const int64_t bytes = rows * dist_bytes_of_row(plan, s->tensor, s->heads, s->kind != DIST_OPEN);
  if (s->bytes != bytes)
    return dist_broken(v, GA_DIST_RULE_SIZE, rank, i, "%lld bytes; the block has %lld", (long long)s->bytes,
                       (long long)bytes);
  if (s->kind != DIST_SEND && g->slot_bytes[s->slot] < bytes)
    return dist_broken(v, GA_DIST_RULE_SIZE, rank, i, "slot %d has %lld bytes; the block has %lld", s->slot,
                       (long long)g->slot_bytes[s->slot], (long long)bytes);
  return GA_OK;
}

/* Results that travel rounded must be whole: no other rank has tiles of their heads. */
static ga_status check_owner_of_heads(dist_verifier *v, int32_t rank, int64_t i, const dist_step *s) {
  const dist_problem *p = &v->plan->p;
  const int64_t q = (int64_t)s->head * p->ranks, kv = (int64_t)(s->head / (p->q_heads / p->kv_heads)) * p->ranks;
  if (!p->splits_heads) return GA_OK;
  if (q / p->q_heads == rank && (q + (int64_t)(s->heads - 1) * p->ranks) / p->q_heads == rank &&
      kv / p->kv_heads == rank)
    return GA_OK;
  return dist_broken(v, GA_DIST_RULE_SIZE, rank, i, "heads %d..%d are another rank's", s->head, s->head + s->heads - 1);
}

static ga_status check_tile(dist_verifier *v, int32_t rank, int64_t i, const dist_step *s) {
  const dist_problem *p = &v->plan->p;
  const int32_t n = v->plan->programs[rank].n_slots;
  const bool backward = p->flags & GA_DIST_BACKWARD;
  if (!is_within(s->slot_q, n) || !is_within(s->slot_kv, n) ||
      (backward ? !is_within(s->slot_dkv, n) : s->slot_dkv != -1))
    return dist_broken(v, GA_DIST_RULE_SIZE, rank, i, "slots %d, %d, %d; it has %d", s->slot_q, s->slot_kv, s->slot_dkv,
                       n);
  if (!is_within(s->q_owner, p->ranks) || !is_within(s->kv_owner, p->ranks) ||
      !is_within(s->q_stretch, dist_stretches(p->q, s->q_owner)) ||
      !is_within(s->k_stretch, dist_stretches(p->kv, s->kv_owner)) || !heads_exist(v->plan, DIST_Q, s->head, s->heads))
    return dist_broken(v, GA_DIST_RULE_SIZE, rank, i, "stretch %d of rank %d x stretch %d of rank %d is not there",
                       s->q_stretch, s->q_owner, s->k_stretch, s->kv_owner);
  return check_owner_of_heads(v, rank, i, s);
}

ga_status dist_verify_sizes(dist_verifier *v) {
  for (int32_t r = 0; r < v->plan->p.ranks; r++) {
    const dist_program *g = &v->plan->programs[r];
    for (int64_t i = 0; i < g->n_steps; i++) {
      const dist_step *s = &g->steps[i];
      if (!is_within(s->slot, g->n_slots) || (s->kind == DIST_MERGE && !is_within(s->from, g->n_slots)))
        return dist_broken(v, GA_DIST_RULE_SIZE, r, i, "slot %d; it has %d", s->slot, g->n_slots);
      if (s->kind == DIST_TILE)
        GA_TRY(check_tile(v, r, i, s));
      else if (s->kind == DIST_WAIT || s->kind == DIST_FREE) {
        if (s->slot < DIST_OWN_SLOTS)
          return dist_broken(v, GA_DIST_RULE_SIZE, r, i, "slot %d holds the rank's own tensor", s->slot);
      } else
        GA_TRY(check_block(v, r, i, s));
    }
  }
  return GA_OK;
}
