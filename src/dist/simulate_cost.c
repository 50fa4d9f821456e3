/* What calls, passes over memory and transfers take on the model of a machine.
 *
 * On GPUs a call is what tile_device.c runs: plain attention, and a kernel that merges its result into the sums. That
 * holds for each plan that does not gather keys (gather.h), and for each of its calls, also where a query has one call
 * only. Backward a call adds to the sums itself. */
#include <math.h>

#include "dist/gather.h"
#include "dist/simulate.h"
#include "dist/tile.h"

enum { F32 = 4 };

static bool is_backward(const simulation *s) { return s->plan->p.flags & GA_DIST_BACKWARD; }

/* --- rates --- */

static double rate_at(const ga_dist_point *points, int32_t n, double size) {
  int32_t i = 0;
  while (i < n && points[i].size < size) i++;
  if (i == 0 || i == n) return points[i ? n - 1 : 0].rate;
  const ga_dist_point *a = &points[i - 1], *b = &points[i];
  const double part = log(size / a->size) / log(b->size / a->size);
  return a->rate * pow(b->rate / a->rate, part);
}

/* A kernel's tile takes `start` more than it sees; whole: what it sees in one device's call, whose rate is known. */
static double part_of_rate(double start, double sees, double whole) {
  return sees > 0 && whole > 0 ? sees / (sees + start) * (whole + start) / whole : 1;
}

/* Flops of a call. */
static double call_rate(const simulation *s, const sim_shape *x, bool merged) {
  const ga_dist_machine *m = s->m;
  const double keys = x->n_q > 0 ? x->pairs / x->n_q : 0, queries = x->n_k > 0 ? x->pairs / x->n_k : 0;
  const bool back = is_backward(s), passes = m->memory_bytes_per_second > 0;
  if (back && (!merged || passes || !m->merged_flops)) {
    if (m->backward_points) return rate_at(m->backward, m->backward_points, 2 * queries);
    return (m->backward_flops > 0 ? m->backward_flops : m->flops) *
           part_of_rate(m->start_queries, queries, s->mean_queries);
  }
  if (merged && m->merged_points) return rate_at(m->merged, m->merged_points, 2 * keys);
  const double part = merged && m->merged_flops > 0 ? m->merged_flops / m->flops : 1;
  if (m->plain_points) return part * rate_at(m->plain, m->plain_points, 2 * keys);
  return part * m->flops * part_of_rate(m->start_keys, keys, s->mean_keys);
}

double sim_call_seconds(const simulation *s, const sim_shape *x, double heads, bool merged) {
  const dist_problem *p = &s->plan->p;
  /* Forward Q K^T and P V; backward these gradients: 5 products in place of 2 (arXiv 2307.08691). */
  const double products = is_backward(s) ? 2.5 : 1;
  if (x->pairs <= 0) return 0;
  return 2 * x->pairs * heads * (p->head_dim + p->v_dim) * products / call_rate(s, x, merged);
}

sim_shape sim_shape_of(const simulation *s, const dist_stretch *q, const dist_stretch *k) {
  return (sim_shape){(double)q->count, (double)k->count, (double)dist_pairs(&s->plan->p, q, k)};
}

/* The tiles of all ranks have each pair once for each head. */
void sim_find_means(simulation *s) {
  const dist_problem *p = &s->plan->p;
  double pairs = 0;
  for (int32_t r = 0; r < p->ranks; r++)
    for (int64_t i = 0; i < s->plan->programs[r].n_steps; i++) {
      const dist_step *t = &s->plan->programs[r].steps[i];
      if (t->kind == DIST_TILE)
        pairs += (double)dist_pairs(p, dist_stretch_at(p->q, t->q_owner, t->q_stretch),
                                    dist_stretch_at(p->kv, t->kv_owner, t->k_stretch)) *
                 t->heads;
    }
  pairs /= p->q_heads;
  s->mean_keys = p->q->tokens ? pairs / (double)p->q->tokens : 0;
  s->mean_queries = p->kv->tokens ? pairs / (double)p->kv->tokens : 0;
}

double sim_one_device_seconds(const simulation *s) {
  const dist_problem *p = &s->plan->p;
  const double q = (double)p->q->tokens, kv = (double)p->kv->tokens;
  const sim_shape all = {q, kv, s->mean_keys * q};
  return sim_call_seconds(s, &all, p->q_heads, false) + s->m->launch;
}

/* --- passes over memory --- */

double sim_memory_seconds(const simulation *s, double bytes) {
  return s->m->memory_bytes_per_second > 0 ? bytes / s->m->memory_bytes_per_second : 0;
}

/* Elements of rows of a result, which are f32 on GPUs. */
static double result_elements(const dist_problem *p, int32_t tensor, double rows, double heads) {
  const int32_t dim = tensor == DIST_O ? p->v_dim : tensor == DIST_DQ ? p->head_dim : p->head_dim + p->v_dim;
  return rows * heads * dim;
}

/* Returns the bytes of the results of call i. Forward O is written and read in the inputs' type, and the sum is read
 * and written. Backward the sums are read and written, or written alone. */
static double bytes_of_tile_results(const dist_problem *p, const dist_step *t, int i, double n_q, double n_k) {
  const dist_heads kv = dist_kv_of(p, t->head, t->heads);
  if (!(p->flags & GA_DIST_BACKWARD))
    return 2 * (double)(F32 + dist_dtype_bytes(p->dtype)) * result_elements(p, DIST_O, n_q, t->heads);
  const double q = result_elements(p, DIST_DQ, n_q, t->heads), k = result_elements(p, DIST_DKV, n_k, kv.end - kv.begin);
  return F32 * (q * (t->writes & DIST_WRITES_DQ << i ? 1 : 2) + k * (t->writes & DIST_WRITES_DKV << i ? 1 : 2));
}

/* Heads of a tile that do not begin and end where a head of keys does take a call for each head of keys (tile.c). */
static int32_t calls_by_heads(const dist_problem *p, const dist_step *t) {
  const int32_t group = p->q_heads / p->kv_heads;
  const dist_heads kv = dist_kv_of(p, t->head, t->heads);
  return t->head % group == 0 && (t->head + t->heads) % group == 0 ? 1 : kv.end - kv.begin;
}

int64_t sim_steps_together(const simulation *s, const dist_step *t, int64_t n) {
  return sim_is_of_gpus(s->m) ? dist_tiles_together(&s->plan->p, t, n) : 1;
}

/* Returns the pairs of a causal or full call of tiles without a window. */
static double pairs_of_joined(const tile_call *c) {
  const double q = (double)c->n_q, k = (double)c->n_k;
  return c->causal ? q * k - q * (q - 1) / 2 : q * k;
}

static sim_shape shape_of_part(const simulation *s, const dist_step *t, const tile_part *x) {
  const dist_problem *p = &s->plan->p;
  const tile_call *c = &x->call;
  if (!p->window) return (sim_shape){(double)c->n_q, (double)c->n_k, pairs_of_joined(c)};
  const dist_stretch *q = dist_stretch_at(p->q, t->q_owner, x->q_stretch),
                     *k = dist_stretch_at(p->kv, t->kv_owner, x->k_stretch);
  const dist_stretch some_q = {.first = q->first + c->q * p->q->step, .count = c->n_q, .doc = q->doc},
                     some_k = {.first = k->first + c->k * p->kv->step, .count = c->n_k, .doc = k->doc};
  return sim_shape_of(s, &some_q, &some_k);
}

double sim_tiles_seconds(const simulation *s, const dist_step *t, int64_t n) {
  const dist_problem *p = &s->plan->p;
  tile_part parts[DIST_TILE_PARTS];
  double seconds = 0;
  if (!sim_is_of_gpus(s->m)) {
    const sim_shape all = sim_shape_of(s, dist_stretch_at(p->q, t->q_owner, t->q_stretch),
                                       dist_stretch_at(p->kv, t->kv_owner, t->k_stretch));
    return sim_call_seconds(s, &all, t->heads, false) + s->m->launch;
  }
  const int calls = dist_tile_parts(p, t, n, parts);
  for (int i = 0; i < calls; i++) {
    const sim_shape x = shape_of_part(s, t, &parts[i]);
    seconds += sim_call_seconds(s, &x, t->heads, true) + calls_by_heads(p, t) * s->m->launch +
               sim_memory_seconds(s, bytes_of_tile_results(p, t, i, x.n_q, x.n_k));
  }
  return seconds;
}

double sim_pass_seconds(const simulation *s, const dist_step *t) {
  const dist_problem *p = &s->plan->p;
  const ga_dist_layout *l = dist_layout_of(p, t->tensor);
  const bool zeros = t->kind == DIST_OPEN && t->tensor != DIST_O,
             own = t->kind == DIST_OPEN && t->slot < DIST_OWN_SLOTS;
  double rows = own && !zeros ? (double)l->rows[t->owner] : 0;
  for (int64_t i = 0; i < t->zeros; i++)
    rows += (double)(s->plan->zeros[t->zero + i].to - s->plan->zeros[t->zero + i].from);
  for (int64_t i = 0; i < t->pieces && !own && !zeros; i++)
    rows += (double)dist_stretch_at(l, t->owner, s->plan->pieces[t->piece + i])->count;
  const double passes = t->kind == DIST_MERGE ? 3 : 1; /* two are read, one is written; OPEN writes zeros */
  return sim_memory_seconds(s, passes * F32 * result_elements(p, t->tensor, rows, t->heads));
}

double sim_rounding_seconds(const simulation *s, int32_t rank) {
  const dist_problem *p = &s->plan->p;
  const double each = F32 + (double)dist_dtype_bytes(p->dtype), q = (double)p->q->rows[rank],
               kv = (double)p->kv->rows[rank];
  if (p->partial_dtype == p->dtype) return 0;
  if (!is_backward(s)) return sim_memory_seconds(s, each * result_elements(p, DIST_O, q, p->q_heads));
  return sim_memory_seconds(
      s, each * (result_elements(p, DIST_DQ, q, p->q_heads) + result_elements(p, DIST_DKV, kv, p->kv_heads)));
}

/* --- links, and what disturbs --- */

double sim_link_seconds(const simulation *s, int32_t from, double bytes) {
  const ga_dist_machine *m = s->m;
  const double rate = m->link_points ? rate_at(m->link, m->link_points, bytes) : m->bytes_per_second;
  return bytes / rate * s->ranks[from].link_slower;
}

double sim_drawn_factor(ga_rng *rng, double deviation) {
  return deviation > 0 ? exp(deviation * ga_rng_normal(rng)) : 1;
}

double sim_disturbed(simulation *s, int32_t rank, double seconds) {
  return seconds * s->ranks[rank].slower * sim_drawn_factor(&s->rng, s->jitter);
}

/* --- the caller's figures --- */

static ga_status check_points(const char *name, const ga_dist_point *points, int32_t n) {
  GA_REQUIRE(n >= 0 && (n == 0) == (points == NULL), GA_ERR_ARG, "dist simulate: %d points of %s at %p", n, name,
             (const void *)points);
  for (int32_t i = 0; i < n; i++)
    GA_REQUIRE(points[i].size > 0 && points[i].rate > 0 && isfinite(points[i].size) && isfinite(points[i].rate) &&
                   (i == 0 || points[i].size > points[i - 1].size),
               GA_ERR_ARG, "dist simulate: point %d of %s is (%g, %g); sizes must ascend, both be positive", i, name,
               points[i].size, points[i].rate);
  return GA_OK;
}

ga_status sim_check_machine(const ga_dist_machine *m) {
  GA_REQUIRE(m->flops > 0 && m->bytes_per_second > 0 && m->latency >= 0 && m->launch >= 0 && m->merged_flops >= 0,
             GA_ERR_ARG,
             "dist simulate: flops %g, bytes_per_second %g, latency %g, launch %g, merged_flops %g; must be positive, "
             "the last three 0 or more",
             m->flops, m->bytes_per_second, m->latency, m->launch, m->merged_flops);
  const double more[] = {m->memory_bytes_per_second, m->backward_flops, m->start_keys, m->start_queries};
  static const char *const names[] = {"memory_bytes_per_second", "backward_flops", "start_keys", "start_queries"};
  for (size_t i = 0; i < GA_COUNT_OF(more); i++)
    GA_REQUIRE(more[i] >= 0 && isfinite(more[i]), GA_ERR_ARG, "dist simulate: %s is %g; must be 0 or more", names[i],
               more[i]);
  GA_TRY(check_points("plain", m->plain, m->plain_points));
  GA_TRY(check_points("merged", m->merged, m->merged_points));
  GA_TRY(check_points("backward", m->backward, m->backward_points));
  GA_TRY(check_points("link", m->link, m->link_points));
  const double parts[] = {m->jitter, m->spread, m->link_spread};
  static const char *const part_names[] = {"jitter", "spread", "link_spread"};
  for (size_t i = 0; i < GA_COUNT_OF(parts); i++)
    GA_REQUIRE(parts[i] >= 0 && parts[i] <= 1, GA_ERR_ARG, "dist simulate: %s is %g; must be 0 to 1", part_names[i],
               parts[i]);
  GA_REQUIRE(m->draws >= 0 && m->draws <= 100000 && m->reserved == 0, GA_ERR_ARG,
             "dist simulate: %d draws, reserved %d; must be 0 to 100000, and 0", m->draws, m->reserved);
  return GA_OK;
}
