/* Tiles that a device computes together: their joined calls see each pair of a query and a key that the tiles see,
 * once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dist/tile.h"
#include "tests/dist_cases.h"

static const dist_case tile_cases[] = {
    {"causal", GA_DIST_CAUSAL, 0, 1, {211}, {211}, true},
    {"full", 0, 0, 1, {64}, {64}, true},
    {"window", GA_DIST_CAUSAL, 40, 1, {128}, {128}, true},
    {"documents", GA_DIST_CAUSAL, 0, 5, {70, 0, 1, 50, 60}, {70, 0, 1, 50, 60}, true},
    {"cached keys", GA_DIST_CAUSAL, 0, 2, {50, 30}, {210, 100}, false},
};
enum { MOST_TOKENS = 320 };

/* seen[i][j]: how often the call has query token i and key token j. */
static int seen[MOST_TOKENS][MOST_TOKENS];

static int64_t calls_alone, calls_joined; /* of all tiles of all plans */

/* Returns the token of a row of a rank's tensors. */
static int64_t token_of_row(const ga_dist_layout *l, int32_t rank, int64_t row) {
  for (int64_t i = 0; i < dist_stretches(l, rank); i++) {
    const dist_stretch *s = dist_stretch_at(l, rank, i);
    if (row < s->row + s->count) return s->first + (row - s->row) * l->step;
  }
  fail_msg("rank %d has no row %lld", rank, (long long)row);
  return -1;
}

static void count_pairs(const dist_problem *p, const dist_step *t, const tile_part *x, int sign) {
  const int64_t high = x->call.causal ? x->call.n_k - x->call.n_q : x->call.n_k + x->call.n_q;
  for (int64_t i = 0; i < x->call.n_q; i++) {
    const int64_t q = token_of_row(p->q, t->q_owner, x->q_row + i);
    const int64_t first = x->call.window ? i + high - x->call.window + 1 : 0;
    for (int64_t j = first > 0 ? first : 0; j < x->call.n_k && j <= i + high; j++)
      seen[q][token_of_row(p->kv, t->kv_owner, x->k_row + j)] += sign;
  }
}

static void check_group(const dist_problem *p, const dist_step *tiles, int64_t n) {
  tile_part parts[DIST_TILE_PARTS];
  memset(seen, 0, sizeof seen);
  for (int64_t i = 0; i < n; i++) {
    const int alone = dist_tile_parts(p, &tiles[i], 1, parts);
    for (int c = 0; c < alone; c++) count_pairs(p, &tiles[i], &parts[c], 1);
    calls_alone += alone;
  }
  const int joined = dist_tile_parts(p, tiles, n, parts);
  for (int c = 0; c < joined; c++) count_pairs(p, tiles, &parts[c], -1);
  calls_joined += joined;
  for (int64_t i = 0; i < MOST_TOKENS; i++)
    for (int64_t j = 0; j < MOST_TOKENS; j++)
      if (seen[i][j]) fail_msg("query %lld and key %lld: %+d times", (long long)i, (long long)j, -seen[i][j]);
}

static void check_tiles_of_plan(const ga_dist_plan *plan) {
  for (int32_t r = 0; r < plan->p.ranks; r++) {
    const dist_program *g = &plan->programs[r];
    for (int64_t i = 0, n; i < g->n_steps; i += n) {
      n = dist_tiles_together(&plan->p, &g->steps[i], g->n_steps - i);
      assert_true(n >= 1 && n <= DIST_TILES_TOGETHER);
      if (g->steps[i].kind == DIST_TILE) check_group(&plan->p, &g->steps[i], n);
    }
  }
}

/* Plans `method` for a case, and checks it. Returns false where the method does not take the case. */
static bool check_tiles_of_case(const dist_case *c, const char *method, int32_t ranks, uint32_t flags) {
  dist_setup s = start_dist_case(c, method, 0, ranks, 8, 4);
  ga_dist_plan *plan = NULL;
  s.desc.head_dim = s.desc.v_dim = 64, s.desc.dtype = GA_BF16, s.desc.flags |= flags;
  const bool takes = ga_dist_plan_create(&s.desc, &plan) == GA_OK;
  if (takes) check_tiles_of_plan(plan);
  ga_dist_plan_destroy(plan);
  end_dist_case(&s);
  return takes;
}

static void test_same_pairs(void **state) {
  (void)state;
  const char *name;
  int n = 0;
  for (size_t i = 0; (name = ga_dist_method_name(i)) != NULL; i++)
    for (size_t c = 0; c < GA_COUNT_OF(tile_cases); c++)
      for (int32_t ranks = 1; ranks <= 4; ranks++)
        for (uint32_t back = 0; back <= GA_DIST_BACKWARD; back += GA_DIST_BACKWARD)
          n += check_tiles_of_case(&tile_cases[c], name, ranks, back);
  assert_true(n > 200);
}

/* Zigzag on two ranks has five tiles a rank. Own tiles are one causal call, tiles with the other rank's keys one full
 * call. */
static void test_zigzag_has_two_calls(void **state) {
  (void)state;
  const dist_case c = {"even", GA_DIST_CAUSAL, 0, 1, {256}, {256}, true};
  calls_alone = calls_joined = 0;
  assert_true(check_tiles_of_case(&c, "zigzag", 2, 0));
  assert_int_equal(calls_alone, 10);
  assert_int_equal(calls_joined, 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_pairs), cmocka_unit_test(test_zigzag_has_two_calls)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
