/* Each rank by itself: its steps are played over slots that know what they hold. */
#include "base/mem.h"
#include "dist/verify.h"

typedef enum slot_state { SLOT_EMPTY, SLOT_IN_FLIGHT, SLOT_HELD } slot_state;

typedef struct slot {
  slot_state state;
  dist_step block;     /* the step that filled it */
  bool is_own, is_sum; /* a rank's own tensor; a result that takes tiles and merges */
  bool was_sent, was_merged;
  int32_t results;
  int64_t most_bytes;
} slot;

typedef struct player {
  dist_verifier *v;
  int32_t rank;
  int64_t at;
  slot *slots;
} player;

#define BROKEN(rule, ...) dist_broken(p->v, GA_DIST_RULE_##rule, p->rank, p->at, __VA_ARGS__)

static bool has_stretch(const ga_dist_plan *plan, const dist_step *b, int64_t stretch) {
  for (int64_t i = 0; i < b->pieces; i++)
    if (plan->pieces[b->piece + i] == stretch) return true;
  return false;
}

/* The slot can be read, and holds these heads of this block. */
static ga_status check_holds(const player *p, int32_t index, int32_t tensor, int32_t owner, int32_t head,
                             int32_t heads) {
  const slot *s = &p->slots[index];
  if (s->state == SLOT_IN_FLIGHT) return BROKEN(RACE, "slot %d is read before what it waits for is there", index);
  if (s->state == SLOT_EMPTY) return BROKEN(AVAILABLE, "slot %d is read; it is empty", index);
  if (s->block.tensor != tensor || s->block.owner != owner || head < s->block.head ||
      head + heads > s->block.head + s->block.heads)
    return BROKEN(AVAILABLE,
                  "slot %d holds tensor %d of rank %d, heads %d..%d; needed is tensor %d of rank %d, heads "
                  "%d..%d",
                  index, s->block.tensor, s->block.owner, s->block.head, s->block.head + s->block.heads - 1, tensor,
                  owner, head, head + heads - 1);
  return GA_OK;
}

static ga_status check_stretch(const player *p, int32_t index, int64_t stretch) {
  const slot *s = &p->slots[index];
  if (s->is_own || has_stretch(p->v->plan, &s->block, stretch)) return GA_OK;
  return BROKEN(AVAILABLE, "slot %d has no stretch %lld of rank %d", index, (long long)stretch, s->block.owner);
}

static ga_status check_stretches(const player *p, int32_t index, const dist_step *b) {
  for (int64_t i = 0; i < b->pieces; i++) GA_TRY(check_stretch(p, index, p->v->plan->pieces[b->piece + i]));
  return GA_OK;
}

/* One more result into a sum. */
static ga_status take_result(const player *p, int32_t index, int32_t tensor, int32_t owner, int32_t head, int32_t heads,
                             int32_t order) {
  GA_TRY(check_holds(p, index, tensor, owner, head, heads));
  slot *s = &p->slots[index];
  if (!s->is_sum) return BROKEN(AVAILABLE, "slot %d takes no results", index);
  if (s->was_sent) return BROKEN(RACE, "slot %d takes a result behind its send", index);
  if (order != s->results) return BROKEN(ORDER, "result %d of slot %d comes as number %d", order, index, s->results);
  s->results++;
  return GA_OK;
}

static ga_status play_fill(const player *p, const dist_step *b) {
  slot *s = &p->slots[b->slot];
  const bool own = b->slot < DIST_OWN_SLOTS;
  if (s->state != SLOT_EMPTY) return BROKEN(RACE, "slot %d is filled; it is in use", b->slot);
  const int64_t most = ga_max_i64(s->most_bytes, own ? 0 : b->bytes);
  *s = (slot){.state = b->kind == DIST_OPEN ? SLOT_HELD : SLOT_IN_FLIGHT,
              .block = *b,
              .is_own = own,
              .is_sum = b->kind == DIST_OPEN,
              .most_bytes = most};
  if (b->kind == DIST_OPEN && b->tensor != DIST_O && b->tensor != DIST_DQ && b->tensor != DIST_DKV)
    return BROKEN(AVAILABLE, "tensor %d is no result", b->tensor);
  return GA_OK;
}

static ga_status play_send(const player *p, const dist_step *b) {
  slot *s = &p->slots[b->slot];
  GA_TRY(check_holds(p, b->slot, b->tensor, b->owner, b->head, b->heads));
  GA_TRY(check_stretches(p, b->slot, b));
  const bool result = b->tensor == DIST_O || b->tensor == DIST_DQ || b->tensor == DIST_DKV;
  if (!result) return GA_OK;
  if (s->is_own || !s->is_sum || s->was_sent)
    return BROKEN(AVAILABLE, "a partial result leaves slot %d a second time, or has not been summed there", b->slot);
  if (b->heads != s->block.heads || b->pieces != s->block.pieces)
    return BROKEN(AVAILABLE, "only part of the partial result in slot %d is sent", b->slot);
  s->was_sent = true;
  return GA_OK;
}

static ga_status play_tile(const player *p, const dist_step *t) {
  const dist_problem *q = &p->v->plan->p;
  const bool backward = q->flags & GA_DIST_BACKWARD;
  const int32_t group = q->q_heads / q->kv_heads, kv_head = t->head / group,
                kv_heads = (t->head + t->heads - 1) / group + 1 - kv_head;
  GA_TRY(check_holds(p, t->slot_q, backward ? DIST_G : DIST_Q, t->q_owner, t->head, t->heads));
  GA_TRY(check_holds(p, t->slot_kv, DIST_KV, t->kv_owner, kv_head, kv_heads));
  GA_TRY(take_result(p, t->slot, backward ? DIST_DQ : DIST_O, t->q_owner, t->head, t->heads, t->order));
  GA_TRY(check_stretch(p, t->slot_q, t->q_stretch));
  GA_TRY(check_stretch(p, t->slot_kv, t->k_stretch));
  GA_TRY(check_stretch(p, t->slot, t->q_stretch));
  if (!backward) return GA_OK;
  GA_TRY(take_result(p, t->slot_dkv, DIST_DKV, t->kv_owner, kv_head, kv_heads, t->order_dkv));
  return check_stretch(p, t->slot_dkv, t->k_stretch);
}

static ga_status play_merge(const player *p, const dist_step *m) {
  GA_TRY(check_holds(p, m->from, m->tensor, m->owner, m->head, m->heads));
  slot *from = &p->slots[m->from];
  if (from->is_sum || from->is_own || from->was_merged)
    return BROKEN(AVAILABLE, "slot %d holds no partial result that came and was not merged", m->from);
  if (m->heads != from->block.heads || m->pieces != from->block.pieces || m->peer != from->block.peer)
    return BROKEN(AVAILABLE, "only part of the partial result in slot %d is merged, or it is of another rank", m->from);
  GA_TRY(check_stretches(p, m->from, m));
  GA_TRY(take_result(p, m->slot, m->tensor, m->owner, m->head, m->heads, m->order));
  GA_TRY(check_stretches(p, m->slot, m));
  from->was_merged = true;
  return GA_OK;
}

static ga_status play_free(const player *p, int32_t index) {
  slot *s = &p->slots[index];
  if (s->state == SLOT_EMPTY) return BROKEN(RACE, "slot %d is freed; it is empty", index);
  if (s->state == SLOT_IN_FLIGHT) return BROKEN(RACE, "slot %d is freed before what it waits for is there", index);
  if (s->is_sum && !s->was_sent) return BROKEN(AVAILABLE, "the partial result in slot %d goes nowhere", index);
  const int32_t t = s->block.tensor;
  if (!s->is_sum && !s->was_merged && (t == DIST_O || t == DIST_DQ || t == DIST_DKV))
    return BROKEN(AVAILABLE, "the partial result in slot %d was never merged", index);
  s->state = SLOT_EMPTY;
  return GA_OK;
}

static ga_status play_step(const player *p, const dist_step *s) {
  switch (s->kind) {
  case DIST_OPEN:
  case DIST_RECEIVE: return play_fill(p, s);
  case DIST_SEND: return play_send(p, s);
  case DIST_TILE: return play_tile(p, s);
  case DIST_MERGE: return play_merge(p, s);
  case DIST_FREE: return play_free(p, s->slot);
  default: break;
  }
  slot *x = &p->slots[s->slot];
  if (x->state != SLOT_IN_FLIGHT) return BROKEN(RACE, "slot %d waits for nothing", s->slot);
  x->state = SLOT_HELD;
  return GA_OK;
}

static void own_block(const player *p, int32_t index, int32_t tensor, int32_t heads) {
  p->slots[index] =
      (slot){.state = SLOT_HELD, .is_own = true, .block = {.tensor = tensor, .owner = p->rank, .heads = heads}};
}

static ga_status play_rank(player *p) {
  const ga_dist_plan *plan = p->v->plan;
  const dist_program *g = &plan->programs[p->rank];
  const bool backward = plan->p.flags & GA_DIST_BACKWARD;
  own_block(p, DIST_SLOT_Q, backward ? DIST_G : DIST_Q, plan->p.q_heads);
  own_block(p, DIST_SLOT_KV, DIST_KV, plan->p.kv_heads);
  for (p->at = 0; p->at < g->n_steps; p->at++) GA_TRY(play_step(p, &g->steps[p->at]));
  p->at = -1;
  for (int32_t i = DIST_SLOT_OUT; i < g->n_slots; i++) {
    const slot *s = &p->slots[i];
    if (i < DIST_OWN_SLOTS) {
      if (s->state != SLOT_HELD && (i == DIST_SLOT_OUT || backward))
        return BROKEN(AVAILABLE, "its own result, slot %d, was never opened", i);
      continue;
    }
    if (s->state != SLOT_EMPTY) return BROKEN(MEMORY, "slot %d is never freed", i);
    if (s->most_bytes != g->slot_bytes[i])
      return BROKEN(MEMORY, "slot %d has %lld bytes; %lld are used", i, (long long)g->slot_bytes[i],
                    (long long)s->most_bytes);
  }
  return GA_OK;
}

ga_status dist_verify_flow(dist_verifier *v) {
  for (int32_t r = 0; r < v->plan->p.ranks; r++) {
    void *slots;
    GA_TRY(ga_mem_zalloc((size_t)v->plan->programs[r].n_slots, sizeof(slot), "slots of a rank", &slots));
    player p = {.v = v, .rank = r, .slots = slots};
    const ga_status status = play_rank(&p);
    ga_mem_free(slots);
    GA_TRY(status);
  }
  return GA_OK;
}
