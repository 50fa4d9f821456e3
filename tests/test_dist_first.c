/* What is written first: every plan is played row by row and head by head. No tile or call adds to what is not there,
 * none overwrites what others have left, and nothing is sent or given that nobody has made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "dist/gather.h"
#include "dist/tile.h"
#include "tests/dist_cases.h"

typedef enum cell { NOTHING, ZERO, SUM } cell;

static char what[160]; /* is played */

/* Of a slot: [rows][heads] of what OPEN names. */
typedef struct table {
  const dist_step *open;
  uint8_t *cells;
  int64_t rows;
} table;

static int64_t zero_rows, written_rows; /* of all plans since they were reset */

static void touch_cell(uint8_t *c, bool writes) {
  if (writes ? *c == SUM : *c == NOTHING)
    fail_msg("%s: %s", what, writes ? "a sum is overwritten" : "nothing is there");
  *c = SUM;
}

/* Row of the slot at which a stretch begins. */
static int64_t row_in_table(const ga_dist_plan *plan, const dist_step *open, int64_t stretch) {
  const ga_dist_layout *l = dist_layout_of(&plan->p, open->tensor);
  int64_t row = 0;
  if (open->slot < DIST_OWN_SLOTS) return dist_stretch_at(l, open->owner, stretch)->row;
  for (int64_t i = 0; i < open->pieces && plan->pieces[open->piece + i] != stretch; i++)
    row += dist_stretch_at(l, open->owner, plan->pieces[open->piece + i])->count;
  return row;
}

static void open_table(const ga_dist_plan *plan, const dist_step *s, table *t) {
  const ga_dist_layout *l = dist_layout_of(&plan->p, s->tensor);
  t->open = s;
  t->rows = s->slot < DIST_OWN_SLOTS ? l->rows[s->owner] : 0;
  for (int64_t i = 0; i < s->pieces; i++) t->rows += dist_stretch_at(l, s->owner, plan->pieces[s->piece + i])->count;
  free(t->cells);
  t->cells = calloc((size_t)(t->rows * s->heads) + 1, 1);
  for (int64_t i = 0; i < s->zeros; i++) {
    const dist_rows z = plan->zeros[s->zero + i];
    assert_true(z.from >= 0 && z.from < z.to && z.to <= t->rows);
    memset(t->cells + z.from * s->heads, ZERO, (size_t)((z.to - z.from) * s->heads));
    zero_rows += z.to - z.from;
  }
}

static void touch_table(table *t, int64_t row, int64_t n, dist_heads h, bool writes) {
  for (int64_t i = row; i < row + n; i++)
    for (int32_t x = h.begin; x < h.end; x++) touch_cell(&t->cells[i * t->open->heads + x - t->open->head], writes);
  written_rows += writes ? n : 0;
}

static void check_whole(const table *t) {
  for (int64_t i = 0; i < t->rows * t->open->heads; i++)
    if (t->cells[i] == NOTHING) fail_msg("%s: row %lld is of nobody", what, (long long)i / t->open->heads);
}

static void play_tile_sums(const ga_dist_plan *plan, const dist_step *s, table *tables) {
  const dist_problem *p = &plan->p;
  table *const out = &tables[s->slot], *const dkv = &tables[s->slot_dkv];
  const dist_heads q = {s->head, s->head + s->heads}, kv = dist_kv_of(p, s->head, s->heads);
  tile_call calls[2];
  const int n = dist_step_calls(p, s, calls);
  for (int i = 0; i < n; i++) {
    const tile_call *c = &calls[i];
    const bool writes_q = s->writes & DIST_WRITES_DQ << i, writes_kv = s->writes & DIST_WRITES_DKV << i;
    assert_false(writes_q && writes_kv && c->n_k == 1); /* a GPU would take it for one without other keys */
    touch_table(out, row_in_table(plan, out->open, s->q_stretch) + c->q, c->n_q, q, writes_q);
    touch_table(dkv, row_in_table(plan, dkv->open, s->k_stretch) + c->k, c->n_k, kv, writes_kv);
  }
}

static void play_added(const ga_dist_plan *plan, const dist_step *s, table *t) {
  for (int64_t i = 0; i < s->pieces; i++) {
    const int32_t stretch = plan->pieces[s->piece + i];
    touch_table(t, row_in_table(plan, t->open, stretch),
                dist_stretch_at(dist_layout_of(&plan->p, s->tensor), s->owner, stretch)->count,
                (dist_heads){s->head, s->head + s->heads}, false);
  }
}

static void play_sums(const ga_dist_plan *plan, int32_t rank) {
  const dist_program *g = &plan->programs[rank];
  table *tables = calloc((size_t)g->n_slots, sizeof *tables);
  for (int64_t i = 0; i < g->n_steps; i++) {
    const dist_step *s = &g->steps[i];
    table *t = &tables[s->slot];
    if (s->kind == DIST_OPEN) open_table(plan, s, t);
    if (s->kind == DIST_TILE) play_tile_sums(plan, s, tables);
    if (s->kind == DIST_MERGE) play_added(plan, s, t);
    if (s->kind == DIST_SEND && dist_is_result(s->tensor) && t->open) check_whole(t);
    if (s->kind == DIST_RECEIVE) t->open = NULL;
  }
  check_whole(&tables[DIST_SLOT_OUT]);
  check_whole(&tables[DIST_SLOT_DKV]);
  for (int32_t i = 0; i < g->n_slots; i++) free(tables[i].cells);
  free(tables);
}

/* --- calls over gathered keys --- */

static void zero_cells(uint8_t *cells, const dist_rows *rows, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    memset(cells + rows[i].from, ZERO, (size_t)(rows[i].to - rows[i].from));
    zero_rows += rows[i].to - rows[i].from;
  }
}

/* Sums of keys that are given or sent: of documents that the rank has some of and not all, or of all. */
static void check_keys(const dist_problem *p, int32_t rank, const bool *local, const uint8_t *cells) {
  const bool all = p->kv->documents == 1 || p->grid.need != GA_DIST_SEND_STRETCHES;
  for (int64_t doc = 0; doc < p->kv->documents; doc++) {
    const int64_t q = dist_first_of_doc(p->q, rank, doc), kv = dist_first_of_doc(p->kv, rank, doc);
    const bool has = (q < dist_stretches(p->q, rank) && dist_stretch_at(p->q, rank, q)->doc == doc) ||
                     (kv < dist_stretches(p->kv, rank) && dist_stretch_at(p->kv, rank, kv)->doc == doc);
    for (int64_t i = p->kv->doc_start[doc]; (all || (has && !local[doc])) && i < p->kv->doc_start[doc + 1]; i++)
      if (cells[i] == NOTHING) fail_msg("%s: rank %d, key %lld is of nobody", what, rank, (long long)i);
  }
}

static void play_gathered(const ga_dist_plan *plan, int32_t rank) {
  const dist_problem *p = &plan->p;
  gather_list l;
  assert_int_equal(dist_gather_list(p, rank, &l), GA_OK);
  uint8_t *q = calloc((size_t)p->q->rows[rank] + 1, 1), *kv = calloc((size_t)p->kv->tokens + 1, 1),
          sinks = l.sink_zeros ? ZERO : NOTHING;
  bool *local = calloc((size_t)p->kv->documents + 1, sizeof *local);
  zero_cells(q, l.q_zeros, l.n_q_zeros);
  zero_cells(kv, l.kv_zeros, l.n_kv_zeros);
  for (int64_t i = 0; i < l.n_calls; i++) {
    const gather_call *c = &l.calls[i];
    for (int64_t x = c->row; x < c->row + c->n_q; x++) touch_cell(&q[x], true);
    for (int64_t x = c->key; x < c->key + c->n_k && !c->local; x++) touch_cell(&kv[x], !c->adds);
    if (c->local) local[dist_stretch_at(p->q, rank, c->stretch)->doc] = true;
    if (p->flags & GA_DIST_SINKS) touch_cell(&sinks, !c->adds);
    written_rows += c->n_q + (c->adds ? 0 : c->n_k);
  }
  for (int64_t i = 0; i < l.n_batches; i++)
    for (int64_t x = l.batches[i].first; x < l.batches[i].first + l.batches[i].n; x++)
      assert_int_equal(l.calls[x].adds, l.calls[l.batches[i].first].adds);
  for (int64_t i = 0; i < p->q->rows[rank]; i++)
    if (q[i] == NOTHING) fail_msg("%s: rank %d, query %lld is of nobody", what, rank, (long long)i);
  if (p->flags & GA_DIST_SINKS && sinks == NOTHING) fail_msg("%s: rank %d has no dsinks", what, rank);
  check_keys(p, rank, local, kv);
  free(q), free(kv), free(local);
  dist_gather_free(&l);
}

static void play_plan(const dist_setup *s) {
  ga_dist_plan *plan = NULL;
  if (ga_dist_plan_create(&s->desc, &plan) != GA_OK) fail_msg("%s: %s", what, ga_error_text());
  for (int32_t r = 0; r < plan->p.ranks; r++) {
    play_sums(plan, r);
    if (dist_gathers(&plan->p)) play_gathered(plan, r);
  }
  ga_dist_plan_destroy(plan);
}

/* --- plans --- */

/* wide: rows of a megabyte, between which zeros are not worth while. */
static dist_setup start_backward(const dist_case *c, const char *method, int32_t order, int32_t ranks, bool wide) {
  dist_setup s = start_dist_case(c, method, order, ranks, wide ? 48 * 8 : 8, wide ? 48 * 2 : 2);
  s.desc.flags |= GA_DIST_BACKWARD;
  if (wide) s.desc.head_dim = s.desc.v_dim = 1024;
  return s;
}

static void test_first_of_methods(void **state) {
  (void)state;
  static const int32_t rank_counts[] = {1, 2, 3, 4, 8};
  const char *name;
  for (int m = 0; (name = ga_dist_method_name((size_t)m)) != NULL; m++)
    for (size_t r = 0; r < sizeof rank_counts / sizeof *rank_counts; r++)
      for (int c = 0; c < DIST_CASES; c++)
        for (int more = 0; more < 4; more++) {
          if (!dist_case_fits(&dist_cases[c], name)) continue;
          dist_setup s = start_backward(&dist_cases[c], name, 0, rank_counts[r], more & 1);
          if (more & 2) s.desc.flags |= GA_DIST_SINKS;
          (void)snprintf(what, sizeof what, "%s, %d ranks, %s%s%s", name, rank_counts[r], dist_cases[c].name,
                         more & 1 ? ", wide" : "", more & 2 ? ", sinks" : "");
          play_plan(&s);
          end_dist_case(&s);
        }
}

static void test_first_of_random_grids(void **state) {
  (void)state;
  static const char *const names[] = {"ring", "mesh", "ulysses", "usp"};
  static const int32_t heads[][2] = {{8, 2}, {6, 6}, {7, 1}, {12, 4}};
  ga_rng rng;
  ga_rng_seed(&rng, 3);
  for (int n = 0; n < 300; n++) {
    const int32_t h = 1 + (int32_t)ga_rng_below(&rng, 4), q = 1 + (int32_t)ga_rng_below(&rng, 3),
                  inner = 1 + (int32_t)ga_rng_below(&rng, 3), outer = 1 + (int32_t)ga_rng_below(&rng, 2);
    dist_setup s = start_backward(&dist_cases[ga_rng_below(&rng, DIST_CASES)], names[ga_rng_below(&rng, 4)],
                                  1 + (int32_t)ga_rng_below(&rng, 7), h * q * inner * outer, ga_rng_below(&rng, 2));
    const ga_dist_grid g = draw_dist_grid(&rng, h, q, inner, outer);
    const uint64_t some = ga_rng_below(&rng, 4);
    if (s.desc.head_dim < 1024) s.desc.q_heads = heads[some][0], s.desc.kv_heads = heads[some][1];
    s.desc.grid = &g;
    (void)snprintf(what, sizeof what, "draw %d", n);
    play_plan(&s);
    end_dist_case(&s);
  }
}

/* Rows of zeros: those that a rank sends of chunks that none of its queries sees. With zeros at every beginning there
 * were 2560 (ring, zigzag) and 1792. */
static void test_few_zeros(void **state) {
  (void)state;
  static const dist_case causal = {"causal", GA_DIST_CAUSAL, 0, 1, {512}, {512}, true},
                         full = {"full", 0, 0, 1, {512}, {512}, true};
  const struct {
    const dist_case *c;
    const char *method;
    int64_t zeros;
  } all[] = {{&causal, "ring", 768}, {&full, "ring", 0}, {&causal, "zigzag", 384}, {&causal, "distflash", 0}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    (void)snprintf(what, sizeof what, "%s, %s", all[i].method, all[i].c->name);
    zero_rows = written_rows = 0;
    dist_setup s = start_backward(all[i].c, all[i].method, 0, 4, false);
    play_plan(&s);
    end_dist_case(&s);
    assert_int_equal(zero_rows, all[i].zeros);
    assert_true(written_rows >= 2 * 512); /* each row of dQ, and of dK and dV of its owner */
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_first_of_methods),
                                     cmocka_unit_test(test_first_of_random_grids), cmocka_unit_test(test_few_zeros)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
