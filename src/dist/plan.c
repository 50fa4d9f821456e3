/* Plans: made from a description, and what they ask of each rank. */
#include "dist/plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/sized.h"
#include "dist/block.h"
#include "dist/exec.h"
#include "dist/gather.h"

#define MOST_HEADS 65536
#define MOST_DIM   1024
#define MOST_PAIRS ((uint64_t)1 << 62)
#define MOST_BYTES ((uint64_t)1 << 60)

_Static_assert(sizeof(dist_step) == 120, "a step is hashed as bytes: no padding");

/* Pairs of query, key and head, masked or not, below MOST_PAIRS: sums over tiles then fit into int64. */
static ga_status check_plan_pairs(const ga_dist_desc *d) {
  const int64_t *q = d->q->doc_start, *kv = d->kv->doc_start;
  uint64_t sum = 0, pairs;
  bool fits = true;
  for (int64_t i = 0; i < d->q->documents && fits; i++)
    fits = ga_mul_ok((uint64_t)(q[i + 1] - q[i]), (uint64_t)(kv[i + 1] - kv[i]), &pairs) &&
           ga_mul_ok(pairs, (uint64_t)d->q_heads, &pairs) && ga_add_ok(sum, pairs, &sum) && sum < MOST_PAIRS;
  GA_REQUIRE(fits, GA_ERR_SHAPE,
             "dist: %lld queries, %lld keys, %d heads: queries x keys x q_heads, summed over documents, must be below "
             "2^62",
             (long long)d->q->tokens, (long long)d->kv->tokens, d->q_heads);
  return GA_OK;
}

/* A rank sends each of its blocks to each other rank at most: 4 head_dim + 4 v_dim + 1 floats of a row and head in
 * all, backward. What it holds is no more. That is 4 times the row below, so sums stay below 2^62. */
static ga_status check_plan_bytes(const ga_dist_desc *d) {
  const int64_t tokens = ga_max_i64(d->q->tokens, d->kv->tokens), row = d->head_dim + 2 * (int64_t)d->v_dim + 1;
  uint64_t bytes;
  const bool fits = ga_mul_ok((uint64_t)tokens, (uint64_t)(4 * row * d->q_heads), &bytes) &&
                    ga_mul_ok(bytes, (uint64_t)d->q->ranks, &bytes) && bytes < MOST_BYTES;
  GA_REQUIRE(fits, GA_ERR_SHAPE,
             "dist: %lld tokens, %d heads, head_dim %d, v_dim %d, %d ranks: tokens x q_heads x (head_dim + 2 v_dim + "
             "1) x 4 bytes x ranks must be below 2^60",
             (long long)tokens, d->q_heads, d->head_dim, d->v_dim, d->q->ranks);
  return GA_OK;
}

static ga_status check_desc(const ga_dist_desc *d) {
  GA_REQUIRE(d->q, GA_ERR_ARG, "dist: q layout is null");
  GA_REQUIRE(d->q_heads >= 1 && d->q_heads <= MOST_HEADS && d->kv_heads >= 1 && d->q_heads % d->kv_heads == 0,
             GA_ERR_SHAPE, "dist: q_heads %d, kv_heads %d; must be 1 to 65536, q_heads a multiple of kv_heads",
             d->q_heads, d->kv_heads);
  GA_REQUIRE(d->head_dim >= 1 && d->head_dim <= MOST_DIM && d->v_dim >= 1 && d->v_dim <= MOST_DIM, GA_ERR_SHAPE,
             "dist: head_dim %d, v_dim %d; must be 1 to 1024", d->head_dim, d->v_dim);
  GA_REQUIRE(
      !(d->flags & ~(uint32_t)(GA_DIST_CAUSAL | GA_DIST_BACKWARD | GA_DIST_SINKS | GA_DIST_ALIBI | GA_DIST_UNORDERED)),
      GA_ERR_ARG, "dist: flags 0x%x are unknown", d->flags);
  GA_REQUIRE(d->window >= 0 && d->window <= INT32_MAX, GA_ERR_ARG, "dist: window is %lld; must be 0 (none) to 2^31 - 1",
             (long long)d->window);
  GA_REQUIRE(d->dtype == GA_F32 || d->dtype == GA_F16 || d->dtype == GA_BF16, GA_ERR_DTYPE,
             "dist: dtype is %s (%d); must be f32, f16 or bf16", ga_dtype_name((ga_dtype)d->dtype), d->dtype);
  GA_REQUIRE(d->partial_dtype == GA_F32 || d->partial_dtype == d->dtype, GA_ERR_DTYPE,
             "dist: partial_dtype is %s (%d); must be f32 or dtype, %s", ga_dtype_name((ga_dtype)d->partial_dtype),
             d->partial_dtype, ga_dtype_name((ga_dtype)d->dtype));
  GA_REQUIRE(d->softcap >= 0 && d->softcap < INFINITY && d->scale >= 0 && d->scale < INFINITY, GA_ERR_ARG,
             "dist: softcap is %g, scale %g; must be finite and 0 or more", (double)d->softcap, (double)d->scale);
  GA_REQUIRE(d->reserved == 0, GA_ERR_ARG, "dist: reserved is %d; must be 0", d->reserved);
  const ga_dist_layout *q = d->q, *kv = d->kv;
  GA_REQUIRE(q->ranks == kv->ranks, GA_ERR_SHAPE, "dist: layouts of %d ranks (q) and %d ranks (kv); must be equal",
             q->ranks, kv->ranks);
  GA_REQUIRE(q->documents == kv->documents, GA_ERR_SHAPE,
             "dist: layouts of %lld documents (q) and %lld documents (kv); must be equal", (long long)q->documents,
             (long long)kv->documents);
  GA_REQUIRE(q->step == kv->step, GA_ERR_SHAPE, "dist: the layout of %s is striped, the other is not; both or none",
             q->step > 1 ? "q" : "kv");
  GA_TRY(check_plan_pairs(d));
  return check_plan_bytes(d);
}

static uint64_t hash_plan(const ga_dist_plan *plan) {
  const dist_problem *p = &plan->p;
  const int64_t head[] = {(int64_t)p->q->id, (int64_t)p->kv->id, p->q_heads,      p->kv_heads,    p->head_dim,
                          p->v_dim,          p->flags,           p->window,       p->dtype,       p->partial_dtype,
                          plan->stages,      p->grid.groups,     dist_gathers(p), p->splits_heads};
  const float numbers[] = {p->softcap, p->scale};
  uint64_t h = ga_fnv64(GA_FNV64_START, head, sizeof head);
  h = ga_fnv64(h, numbers, sizeof numbers);
  if (plan->n_pieces) h = ga_fnv64(h, plan->pieces, (size_t)plan->n_pieces * sizeof *plan->pieces);
  if (plan->n_zeros) h = ga_fnv64(h, plan->zeros, (size_t)plan->n_zeros * sizeof *plan->zeros);
  for (int32_t r = 0; r < p->ranks; r++) {
    const dist_program *g = &plan->programs[r];
    h = ga_fnv64(h, g->steps, (size_t)g->n_steps * sizeof *g->steps);
    h = ga_fnv64(h, g->slot_bytes, (size_t)g->n_slots * sizeof *g->slot_bytes);
  }
  return h;
}

static ga_status build_plan(const ga_dist_desc *d, ga_dist_plan *plan) {
  dist_problem *p = &plan->p;
  *p = (dist_problem){.q = d->q,
                      .kv = d->kv,
                      .ranks = d->q->ranks,
                      .q_heads = d->q_heads,
                      .kv_heads = d->kv_heads,
                      .head_dim = d->head_dim,
                      .v_dim = d->v_dim,
                      .flags = d->flags,
                      .dtype = d->dtype,
                      .partial_dtype = d->partial_dtype,
                      .softcap = d->softcap,
                      .scale = d->scale,
                      .window = d->window};
  ga_dist_grid asked = {0};
  if (d->grid) GA_TRY(GA_SIZED_TAKE("dist: grid", ga_dist_grid, d->grid, &asked));
  GA_TRY(dist_method_fill(d->method, &asked, p));
  void *programs;
  GA_TRY(ga_mem_zalloc((size_t)p->ranks, sizeof *plan->programs, "programs of a plan", &programs));
  plan->programs = programs;
  dist_schedule s = {0};
  ga_status status = dist_assign(p, &s);
  if (status == GA_OK) status = dist_route(plan, &s);
  if (status == GA_OK) status = dist_emit(plan, &s);
  ga_mem_free(s.works);
  ga_mem_free(s.travels);
  plan->hash = status == GA_OK ? hash_plan(plan) : 0;
  return status;
}

ga_status ga_dist_plan_create(const ga_dist_desc *desc, ga_dist_plan **out) {
  GA_REQUIRE(out, GA_ERR_ARG, "dist: out is null");
  *out = NULL;
  ga_dist_desc d;
  GA_TRY(GA_SIZED_TAKE("dist: desc", ga_dist_desc, desc, &d));
  if (!d.kv) d.kv = d.q;
  if (!d.v_dim) d.v_dim = d.head_dim;
  if (!d.dtype) d.dtype = GA_F32;
  if (!d.partial_dtype) d.partial_dtype = GA_F32;
  GA_TRY(check_desc(&d));
  void *p;
  GA_TRY(ga_mem_zalloc(1, sizeof(ga_dist_plan), "a plan", &p));
  const ga_status status = build_plan(&d, p);
  if (status == GA_OK)
    *out = p;
  else
    ga_dist_plan_destroy(p);
  return status;
}

void ga_dist_plan_destroy(ga_dist_plan *plan) {
  if (!plan) return;
  for (int32_t r = 0; plan->programs && r < plan->p.ranks; r++) {
    ga_mem_free(plan->programs[r].steps);
    ga_mem_free(plan->programs[r].slot_bytes);
  }
  ga_mem_free(plan->programs);
  ga_mem_free(plan->pieces);
  ga_mem_free(plan->zeros);
  ga_mem_free(plan);
}

uint64_t ga_dist_plan_hash(const ga_dist_plan *plan) { return plan ? plan->hash : 0; }
ga_status ga_dist_plan_grid(const ga_dist_plan *plan, ga_dist_grid *grid) {
  GA_REQUIRE(plan, GA_ERR_ARG, "dist: plan is null");
  GA_TRY(ga_sized_check_out("dist: grid", grid, ga_dist_grid_first));
  ga_sized_give(&plan->p.grid, sizeof plan->p.grid, grid);
  return GA_OK;
}
int32_t ga_dist_plan_stages(const ga_dist_plan *plan) { return plan ? plan->stages : 0; }
int32_t ga_dist_plan_ranks(const ga_dist_plan *plan) { return plan ? plan->p.ranks : 0; }

/* --- what it asks of a rank --- */

static int64_t tile_pairs(const dist_problem *p, const dist_step *s) {
  return dist_pairs(p, dist_stretch_at(p->q, s->q_owner, s->q_stretch),
                    dist_stretch_at(p->kv, s->kv_owner, s->k_stretch)) *
         s->heads;
}

static ga_status check_plan_rank(const ga_dist_plan *plan, int32_t rank) {
  GA_REQUIRE(plan, GA_ERR_ARG, "dist: plan is null");
  GA_REQUIRE(rank >= 0 && rank < plan->p.ranks, GA_ERR_ARG, "dist: rank is %d; must be 0 to %d", rank,
             plan->p.ranks - 1);
  return GA_OK;
}

ga_status ga_dist_plan_cost(const ga_dist_plan *plan, int32_t rank, ga_dist_cost *cost) {
  GA_TRY(check_plan_rank(plan, rank));
  GA_TRY(ga_sized_check_out("dist: cost", cost, ga_dist_cost_first));
  const dist_program *g = &plan->programs[rank];
  ga_dist_cost c = {.steps = g->n_steps};
  for (int32_t i = 0; i < g->n_slots; i++) c.memory_bytes += g->slot_bytes[i];
  for (int64_t i = 0; i < g->n_steps; i++) {
    const dist_step *s = &g->steps[i];
    if (s->kind == DIST_TILE) c.tiles++, c.pairs += tile_pairs(&plan->p, s);
    if (s->kind == DIST_SEND) c.sends++, c.sent_bytes += s->bytes;
    if (s->kind == DIST_RECEIVE) c.receives++, c.received_bytes += s->bytes;
    if (s->kind == DIST_SEND || s->kind == DIST_RECEIVE) c.message_bytes = ga_max_i64(c.message_bytes, s->bytes);
  }
  c.device_bytes = dist_device_memory(plan, rank);
  ga_sized_give(&c, sizeof c, cost);
  return GA_OK;
}

static void note_one(int32_t *seen, int32_t value) { *seen = *seen == -1 || *seen == value ? value : -2; }

/* Steps are in the order of stages. */
static int64_t first_of_stage(const dist_program *g, int32_t stage) {
  int64_t low = 0, high = g->n_steps;
  while (low < high) {
    const int64_t mid = low + (high - low) / 2;
    if (g->steps[mid].stage < stage)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

ga_status ga_dist_plan_stage(const ga_dist_plan *plan, int32_t rank, int32_t stage, ga_dist_stage *out) {
  GA_TRY(check_plan_rank(plan, rank));
  GA_TRY(ga_sized_check_out("dist: stage", out, ga_dist_stage_first));
  GA_REQUIRE(stage >= 0 && stage < plan->stages, GA_ERR_ARG, "dist: stage is %d; must be 0 to %d", stage,
             plan->stages - 1);
  ga_dist_stage x = {.q_owner = -1, .kv_owner = -1, .send_to = -1, .receive_from = -1};
  const dist_program *g = &plan->programs[rank];
  for (int64_t i = first_of_stage(g, stage); i < g->n_steps && g->steps[i].stage == stage; i++) {
    const dist_step *s = &g->steps[i];
    if (s->kind == DIST_TILE) {
      x.tiles++, x.pairs += tile_pairs(&plan->p, s);
      note_one(&x.q_owner, s->q_owner);
      note_one(&x.kv_owner, s->kv_owner);
    }
    if (s->kind == DIST_SEND) x.sent_bytes += s->bytes, note_one(&x.send_to, s->peer);
    if (s->kind == DIST_RECEIVE) x.received_bytes += s->bytes, note_one(&x.receive_from, s->peer);
  }
  ga_sized_give(&x, sizeof x, out);
  return GA_OK;
}

void ga_dist_plan_step_text(const ga_dist_plan *plan, int32_t rank, int64_t index, char *text, size_t capacity) {
  if (!capacity) return;
  *text = 0;
  if (!plan || rank < 0 || rank >= plan->p.ranks || index < 0 || index >= plan->programs[rank].n_steps) return;
  const dist_step *s = &plan->programs[rank].steps[index];
  const char *const t = dist_tensor_name(s->tensor);
  switch (s->kind) {
  case DIST_OPEN:
    (void)snprintf(text, capacity, "open slot %d: %s of rank %d, heads %d..%d", s->slot, t, s->owner, s->head,
                   s->head + s->heads - 1);
    break;
  case DIST_SEND:
  case DIST_RECEIVE:
    (void)snprintf(text, capacity, "%s rank %d, slot %d: %s of rank %d, heads %d..%d, %lld stretches, %lld bytes",
                   s->kind == DIST_SEND ? "send to" : "receive from", s->peer, s->slot, t, s->owner, s->head,
                   s->head + s->heads - 1, (long long)s->pieces, (long long)s->bytes);
    break;
  case DIST_TILE:
    (void)snprintf(text, capacity,
                   "tile: stretch %d of rank %d (slot %d) x stretch %d of rank %d (slot %d), heads "
                   "%d..%d, into slot %d as result %d",
                   s->q_stretch, s->q_owner, s->slot_q, s->k_stretch, s->kv_owner, s->slot_kv, s->head,
                   s->head + s->heads - 1, s->slot, s->order);
    break;
  case DIST_MERGE:
    (void)snprintf(text, capacity, "merge slot %d into slot %d as result %d: %s of rank %d from rank %d", s->from,
                   s->slot, s->order, t, s->owner, s->peer);
    break;
  default: (void)snprintf(text, capacity, "%s slot %d", s->kind == DIST_WAIT ? "wait for" : "free", s->slot); break;
  }
}
