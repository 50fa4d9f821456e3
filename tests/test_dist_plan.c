/* Plans of distributed attention: layouts, the builder against the verifier, the verifier against brute force. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "dist/gather.h"
#include "dist/verify.h"
#include "tests/dist_cases.h"

/* --- layouts --- */

enum { UNTOUCHED = -7 };

/* Returns n + 1 elements, of which a callee may write n. */
static int64_t *guarded(int64_t n) {
  int64_t *x = malloc((size_t)(n + 1) * sizeof *x);
  assert_non_null(x);
  for (int64_t i = 0; i <= n; i++) x[i] = UNTOUCHED;
  return x;
}

static void check_layout_whole(int32_t order, int32_t ranks, int32_t documents, const int64_t *lengths) {
  ga_dist_layout *l = layout_of_lengths(order, ranks, documents, lengths);
  assert_non_null(l);
  const int64_t n = ga_dist_layout_tokens(l, -1);
  int *seen = calloc((size_t)n + 1, sizeof *seen);
  int64_t *all = guarded(n), *back = guarded(n), sum = 0, most = 0, least = n;
  for (int64_t i = 0; i < n; i++) all[i] = 1000 + i;
  for (int32_t r = 0; r < ranks; r++) {
    const int64_t m = ga_dist_layout_tokens(l, r);
    int64_t *token = guarded(m), *place = guarded(m), *rows = guarded(m);
    assert_int_equal(ga_dist_layout_rows(l, r, token, place), GA_OK);
    assert_int_equal(ga_dist_permute(l, ga_dist_layout_id(l), r, all, sizeof *all, rows), GA_OK);
    assert_int_equal(ga_dist_unpermute(l, ga_dist_layout_id(l), r, rows, sizeof *rows, back), GA_OK);
    for (int64_t i = 0; i < m; i++) {
      int64_t start = 0;
      int doc = 0;
      while (start + lengths[doc] <= token[i]) start += lengths[doc++];
      assert_int_equal(place[i], token[i] - start);
      assert_int_equal(rows[i], 1000 + token[i]);
      assert_true(i == 0 || order == GA_DIST_STRIPED || token[i] > token[i - 1]);
      seen[token[i]]++;
    }
    assert_true(token[m] == UNTOUCHED && place[m] == UNTOUCHED && rows[m] == UNTOUCHED && back[n] == UNTOUCHED);
    free(token), free(place), free(rows);
    sum += m, most = m > most ? m : most, least = m < least ? m : least;
  }
  assert_int_equal(sum, n);
  if (order != GA_DIST_DOC_ZIGZAG && order != GA_DIST_DOCUMENTS)
    assert_true(most - least <= (order == GA_DIST_CHUNKS || order == GA_DIST_PIECES ? 3 : 2));
  for (int64_t i = 0; i < n; i++) assert_true(seen[i] == 1 && back[i] == all[i]);
  free(seen), free(all), free(back);
  ga_dist_layout_destroy(l);
}

static void test_layouts(void **state) {
  (void)state;
  for (int32_t order = GA_DIST_CONTIGUOUS; order <= GA_DIST_DOCUMENTS; order++)
    for (int32_t ranks = 1; ranks <= 17; ranks++)
      for (int c = 0; c < DIST_CASES; c++) check_layout_whole(order, ranks, dist_cases[c].documents, dist_cases[c].q);
}

static void test_layout_ids(void **state) {
  (void)state;
  const int64_t a[] = {64}, b[] = {60, 4};
  ga_dist_layout *l[6] = {
      layout_of_lengths(GA_DIST_CONTIGUOUS, 4, 1, a), layout_of_lengths(GA_DIST_ZIGZAG, 4, 1, a),
      layout_of_lengths(GA_DIST_STRIPED, 4, 1, a),    layout_of_lengths(GA_DIST_ZIGZAG, 8, 1, a),
      layout_of_lengths(GA_DIST_ZIGZAG, 4, 2, b),     layout_of_lengths(GA_DIST_DOC_ZIGZAG, 4, 1, a)};
  for (int i = 0; i < 5; i++)
    for (int j = 0; j < i; j++) assert_true(ga_dist_layout_id(l[i]) != ga_dist_layout_id(l[j]));
  assert_true(ga_dist_layout_id(l[1]) == ga_dist_layout_id(l[5])); /* one document: the same tokens, the same rows */
  char from[64] = {0}, to[64];
  assert_int_equal(ga_dist_permute(l[0], ga_dist_layout_id(l[1]), 0, from, 1, to), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "this layout's is"));
  for (int i = 0; i < 6; i++) ga_dist_layout_destroy(l[i]);
}

/* Pairs of a causal mask that a rank has: the most by the mean. stretches: of all ranks. */
static double imbalance(int32_t order, int32_t ranks, int32_t documents, const int64_t *lengths, int64_t *stretches) {
  ga_dist_layout *l = layout_of_lengths(order, ranks, documents, lengths);
  assert_non_null(l);
  double most = 0, sum = 0;
  for (int32_t r = 0; r < ranks; r++) {
    double pairs = 0;
    for (int64_t i = 0; i < dist_stretches(l, r); i++) {
      const dist_stretch *s = dist_stretch_at(l, r, i);
      const double first = (double)(s->first - l->doc_start[s->doc]), n = (double)s->count;
      pairs += n * first + n * (n + 1) / 2;
    }
    most = pairs > most ? pairs : most, sum += pairs;
  }
  *stretches = l->rank_start[ranks];
  ga_dist_layout_destroy(l);
  return most / (sum / ranks);
}

/* As many documents as there may be; a few short ones have all tokens. No number of cuts leaves ranks with equal work,
 * and cuts are tried no longer than they can help. */
static void test_many_documents(void **state) {
  enum { MANY = 1 << 20, SOME = 96, RANKS = 64, EACH = 100 };
  int64_t *lengths = calloc(MANY, sizeof *lengths), most = 0;
  (void)state;
  assert_non_null(lengths);
  for (int i = 0; i < SOME; i++) lengths[i * 9973] = EACH;
  ga_dist_layout *l = layout_of_lengths(GA_DIST_DOCUMENTS, RANKS, MANY, lengths);
  assert_non_null(l);
  assert_int_equal(l->rank_start[RANKS], SOME); /* none is cut, empty ones are no stretches */
  for (int32_t r = 0; r < RANKS; r++)
    if (ga_dist_layout_tokens(l, r) > most) most = ga_dist_layout_tokens(l, r);
  assert_int_equal(most, 2 * EACH);
  ga_dist_layout_destroy(l);
  free(lengths);
}

/* Whole documents even out; a document that is too long for a rank is cut, and no other. */
static void test_documents_dealt(void **state) {
  (void)state;
  enum { DOCUMENTS = 64 };
  int64_t lengths[DOCUMENTS], stretches;
  ga_rng rng;
  for (uint64_t seed = 0; seed < 20; seed++)
    for (int32_t ranks = 2; ranks <= 8; ranks *= 2) {
      ga_rng_seed(&rng, seed);
      for (int i = 0; i < DOCUMENTS; i++) lengths[i] = (int64_t)ga_rng_below(&rng, 4096);
      assert_true(imbalance(GA_DIST_DOCUMENTS, ranks, DOCUMENTS, lengths, &stretches) < 1.03);
      lengths[seed] = 100000;
      assert_true(imbalance(GA_DIST_DOCUMENTS, ranks, DOCUMENTS, lengths, &stretches) < 1.03);
      int64_t whole = 0;
      for (int i = 0; i < DOCUMENTS; i++) whole += lengths[i] > 0 && i != (int)seed;
      assert_int_equal(stretches, whole + 2 * ranks);
    }
}

/* Ranks that have tokens of a document, as bits. */
static uint64_t ranks_of_document(const ga_dist_layout *l, int64_t doc) {
  uint64_t ranks = 0;
  for (int32_t r = 0; r < l->ranks; r++)
    for (int64_t i = 0; i < dist_stretches(l, r); i++)
      if (dist_stretch_at(l, r, i)->doc == doc) ranks |= (uint64_t)1 << r;
  return ranks;
}

/* A document is cut over as few ranks as its length asks for, and two long ones over different ranks. */
static void test_degrees(void **state) {
  (void)state;
  enum { DOCUMENTS = 34 };
  int64_t lengths[DOCUMENTS], stretches;
  for (int i = 0; i < DOCUMENTS; i++) lengths[i] = i % 17 == 5 ? 20000 : 1500;
  assert_true(imbalance(GA_DIST_DOCUMENTS, 8, DOCUMENTS, lengths, &stretches) < 1.03);
  assert_int_equal(stretches, DOCUMENTS - 2 + 2 * 8);
  ga_dist_layout *l = layout_of_lengths(GA_DIST_DOCUMENTS, 8, DOCUMENTS, lengths);
  const uint64_t one = ranks_of_document(l, 5), other = ranks_of_document(l, 22);
  assert_true(one && other && (one & other) == 0 && (one | other) == 0xff);
  assert_int_equal(__builtin_popcountll(one), 4);
  ga_dist_layout_destroy(l);
  const dist_case *c = &dist_two_long; /* what test_dist_device runs */
  l = layout_of_lengths(GA_DIST_DOCUMENTS, 4, c->documents, c->q);
  for (int i = 0; i < 2; i++) assert_int_equal(__builtin_popcountll(ranks_of_document(l, i)), 2);
  ga_dist_layout_destroy(l);
  const int64_t equal[] = {1 << 14, 1 << 14}; /* the last cut leaves no document over */
  l = layout_of_lengths(GA_DIST_DOCUMENTS, 4, 2, equal);
  for (int i = 0; i < 2; i++) assert_int_equal(__builtin_popcountll(ranks_of_document(l, i)), 2);
  ga_dist_layout_destroy(l);
}

/* --- plans --- */

/* Counts each (head, query, key) by its tokens, as the mask says, one by one. */
static bool covers_by_force(const ga_dist_plan *plan) {
  const dist_problem *p = &plan->p;
  const int64_t nq = p->q->tokens, nk = p->kv->tokens;
  unsigned char *count = calloc((size_t)(p->q_heads * nq * nk) + 1, 1);
  bool good = true;
  for (int32_t r = 0; r < p->ranks; r++)
    for (int64_t n = 0; n < plan->programs[r].n_steps; n++) {
      const dist_step *s = &plan->programs[r].steps[n];
      if (s->kind != DIST_TILE) continue;
      const dist_stretch *q = dist_stretch_at(p->q, s->q_owner, s->q_stretch),
                         *k = dist_stretch_at(p->kv, s->kv_owner, s->k_stretch);
      for (int64_t i = 0; i < q->count; i++)
        for (int64_t j = 0; j < k->count; j++)
          for (int32_t h = s->head; h < s->head + s->heads; h++)
            count[(h * nq + q->first + i * p->q->step) * nk + k->first + j * p->kv->step]++;
    }
  for (int64_t doc_q = 0; doc_q < p->q->documents; doc_q++)
    for (int64_t i = p->q->doc_start[doc_q]; i < p->q->doc_start[doc_q + 1]; i++) {
      const int64_t place = p->kv->doc_start[doc_q + 1] - (p->q->doc_start[doc_q + 1] - i);
      for (int64_t j = 0; j < nk; j++) {
        bool sees = j >= p->kv->doc_start[doc_q] && j < p->kv->doc_start[doc_q + 1];
        if (p->flags & GA_DIST_CAUSAL && j > place) sees = false;
        if (p->window && j <= place - p->window) sees = false;
        for (int32_t h = 0; h < p->q_heads && sees; h++) good = good && count[(h * nq + i) * nk + j] == 1;
      }
    }
  free(count);
  return good;
}

static void check_dist_plan(const dist_setup *s, const char *what) {
  ga_dist_plan *plan = NULL, *again = NULL;
  ga_status status = ga_dist_plan_create(&s->desc, &plan);
  if (status != GA_OK) fail_msg("%s: %s", what, ga_error_text());
  status = ga_dist_plan_verify(plan, NULL);
  if (status != GA_OK) fail_msg("%s: %s", what, ga_error_text());
  if (!covers_by_force(plan)) fail_msg("%s: brute force does not agree", what);
  assert_int_equal(ga_dist_plan_create(&s->desc, &again), GA_OK);
  assert_true(ga_dist_plan_hash(plan) == ga_dist_plan_hash(again));
  ga_dist_plan_destroy(plan);
  ga_dist_plan_destroy(again);
}

static const int32_t rank_counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16};

static void test_methods(void **state) {
  (void)state;
  char what[128];
  const char *name;
  for (size_t m = 0; (name = ga_dist_method_name(m)) != NULL; m++)
    for (size_t r = 0; r < sizeof rank_counts / sizeof *rank_counts; r++)
      for (int c = 0; c < DIST_CASES; c++)
        for (uint32_t pass = 0; pass <= GA_DIST_BACKWARD; pass += GA_DIST_BACKWARD) {
          if (!dist_case_fits(&dist_cases[c], name)) continue;
          dist_setup s = start_dist_case(&dist_cases[c], name, 0, rank_counts[r], 18, 6);
          s.desc.flags |= pass;
          (void)snprintf(what, sizeof what, "%s, %d ranks, %s, pass %u", name, rank_counts[r], dist_cases[c].name,
                         pass);
          check_dist_plan(&s, what);
          end_dist_case(&s);
        }
}

/* Calls of a rank by gathered keys, and bytes that it sends. */
static int64_t calls_of_packed(int32_t order, uint32_t pass, int64_t *sent) {
  enum { DOCUMENTS = 64, RANKS = 4 };
  int64_t lengths[DOCUMENTS], most = 0;
  ga_rng rng;
  ga_rng_seed(&rng, 3);
  for (int i = 0; i < DOCUMENTS; i++) lengths[i] = 1 + (int64_t)ga_rng_below(&rng, 2048);
  ga_dist_desc d = GA_DIST_DESC_INIT;
  ga_dist_layout *l = layout_of_lengths(order, RANKS, DOCUMENTS, lengths);
  ga_dist_plan *plan = NULL;
  d.method = "llama3", d.q = l, d.q_heads = 8, d.kv_heads = 2, d.head_dim = 64, d.flags = GA_DIST_CAUSAL | pass;
  assert_int_equal(ga_dist_plan_create(&d, &plan), GA_OK);
  assert_int_equal(ga_dist_plan_verify(plan, NULL), GA_OK);
  *sent = 0;
  for (int32_t r = 0; r < RANKS; r++) {
    gather_list list;
    ga_dist_cost cost = GA_DIST_COST_INIT;
    assert_int_equal(dist_gather_list(&plan->p, r, &list), GA_OK);
    most = list.n_batches > most ? list.n_batches : most;
    int64_t tokens = 0;
    for (int64_t i = 0; i < list.n_calls; i++) tokens += list.calls[i].n_q;
    assert_int_equal(tokens, ga_dist_layout_tokens(l, r));
    dist_gather_free(&list);
    assert_int_equal(ga_dist_plan_cost(plan, r, &cost), GA_OK);
    *sent += cost.sent_bytes;
  }
  ga_dist_plan_destroy(plan);
  ga_dist_layout_destroy(l);
  return most;
}

/* 64 documents are few calls: one, or backward one for each chunk that shares keys; local documents have their own. */
static void test_packed_calls(void **state) {
  (void)state;
  int64_t sent;
  assert_int_equal(calls_of_packed(GA_DIST_DOC_ZIGZAG, 0, &sent), 1);
  assert_int_equal(calls_of_packed(GA_DIST_DOC_ZIGZAG, GA_DIST_BACKWARD, &sent), 2);
  assert_true(sent > 0);
  assert_int_equal(calls_of_packed(GA_DIST_DOCUMENTS, 0, &sent), 1);
  assert_int_equal(sent, 0);
  assert_int_equal(calls_of_packed(GA_DIST_DOCUMENTS, GA_DIST_BACKWARD, &sent), 1);
  assert_int_equal(sent, 0);
  assert_true(calls_of_packed(GA_DIST_ZIGZAG, 0, &sent) <= 2);
}

/* Grids, moves and needs at random, over any layout. */
static int n_draws = 200;

static void test_random_grids(void **state) {
  (void)state;
  ga_rng rng;
  ga_rng_seed(&rng, 5);
  static const char *const names[] = {"ring", "mesh", "ulysses", "usp"};
  static const int32_t heads[][2] = {{8, 2}, {6, 6}, {7, 1}, {12, 4}};
  for (int n = 0; n < n_draws; n++) {
    const int32_t h = 1 + (int32_t)ga_rng_below(&rng, 4), q = 1 + (int32_t)ga_rng_below(&rng, 3),
                  inner = 1 + (int32_t)ga_rng_below(&rng, 3), outer = 1 + (int32_t)ga_rng_below(&rng, 2);
    const int head = (int)ga_rng_below(&rng, 4);
    dist_setup s =
        start_dist_case(&dist_cases[ga_rng_below(&rng, DIST_CASES)], names[ga_rng_below(&rng, 4)],
                        1 + (int32_t)ga_rng_below(&rng, 7), h * q * inner * outer, heads[head][0], heads[head][1]);
    const ga_dist_grid g = draw_dist_grid(&rng, h, q, inner, outer);
    s.desc.grid = &g;
    if (ga_rng_below(&rng, 2)) s.desc.flags |= GA_DIST_BACKWARD;
    static const int32_t types[] = {0, GA_BF16, GA_F16};
    s.desc.dtype = types[ga_rng_below(&rng, 3)];
    if (ga_rng_below(&rng, 2)) s.desc.partial_dtype = s.desc.dtype;
    char what[200];
    (void)snprintf(what, sizeof what, "draw %d: %d x %d x %d (%d), moves %d %d %d %d, need %d, prefetch %d, flags %u",
                   n, h, q, g.kv, inner, g.move_q, g.move_kv, g.move_out, g.move_dkv, g.need, g.prefetch, s.desc.flags);
    check_dist_plan(&s, what);
    end_dist_case(&s);
  }
}

int main(int argc, char **argv) {
  if (argc > 1) n_draws = atoi(argv[1]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_layouts),         cmocka_unit_test(test_layout_ids),
                                     cmocka_unit_test(test_documents_dealt), cmocka_unit_test(test_many_documents),
                                     cmocka_unit_test(test_degrees),         cmocka_unit_test(test_methods),
                                     cmocka_unit_test(test_packed_calls),    cmocka_unit_test(test_random_grids)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
