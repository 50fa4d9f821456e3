/* The verifier must bite: plans of every method with one step dropped, swapped, aliased, resized or reordered are
 * refused by a rule that names it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "dist/verify.h"
#include "tests/dist_cases.h"

/* A set of rules. */
#define RULE(name) (1u << GA_DIST_RULE_##name)

typedef struct mutant {
  const char *name;
  uint32_t allowed; /* the rules that may refuse it */
  /* Changes step i of a rank; false when that step cannot be changed so. */
  bool (*change)(ga_dist_plan *plan, int32_t rank, int64_t i);
} mutant;

static dist_step *rank_steps(const ga_dist_plan *plan, int32_t rank) { return plan->programs[rank].steps; }

static void drop_step(ga_dist_plan *plan, int32_t rank, int64_t i) {
  dist_program *g = &plan->programs[rank];
  memmove(&g->steps[i], &g->steps[i + 1], (size_t)(g->n_steps - i - 1) * sizeof *g->steps);
  g->n_steps--;
}

#define DROP(kind_)                                                       \
  static bool drop_##kind_(ga_dist_plan *plan, int32_t rank, int64_t i) { \
    if (rank_steps(plan, rank)[i].kind != DIST_##kind_) return false;     \
    drop_step(plan, rank, i);                                             \
    return true;                                                          \
  }
DROP(OPEN)
DROP(SEND)
DROP(RECEIVE)
DROP(WAIT)
DROP(TILE)
DROP(MERGE)
DROP(FREE)

/* The step and the next one of its kind, when they may be told apart. */
static bool swap_with_next(ga_dist_plan *plan, int32_t rank, int64_t i, int32_t kind, bool same_peer) {
  dist_step *s = rank_steps(plan, rank);
  if (s[i].kind != kind) return false;
  for (int64_t j = i + 1; j < plan->programs[rank].n_steps; j++) {
    if (s[j].kind != kind || (same_peer && s[j].peer != s[i].peer)) continue;
    if (!same_peer && s[j].slot != s[i].slot) continue;
    if (same_peer && s[j].tensor == s[i].tensor && s[j].owner == s[i].owner && s[j].head == s[i].head) return false;
    const dist_step t = s[i];
    s[i] = s[j], s[j] = t;
    return true;
  }
  return false;
}
static bool swap_sends(ga_dist_plan *plan, int32_t rank, int64_t i) {
  return swap_with_next(plan, rank, i, DIST_SEND, true);
}
static bool swap_receives(ga_dist_plan *plan, int32_t rank, int64_t i) {
  return swap_with_next(plan, rank, i, DIST_RECEIVE, true);
}
static bool swap_tiles(ga_dist_plan *plan, int32_t rank, int64_t i) {
  return swap_with_next(plan, rank, i, DIST_TILE, false);
}
static bool swap_merges(ga_dist_plan *plan, int32_t rank, int64_t i) {
  return swap_with_next(plan, rank, i, DIST_MERGE, false);
}

/* A block comes into a slot that another one is in. */
static bool alias_slot(ga_dist_plan *plan, int32_t rank, int64_t i) {
  dist_step *s = rank_steps(plan, rank);
  if (s[i].kind != DIST_RECEIVE) return false;
  int32_t live = -1;
  for (int64_t j = 0; j < i; j++) {
    if ((s[j].kind == DIST_RECEIVE || s[j].kind == DIST_OPEN) && s[j].slot >= DIST_OWN_SLOTS) live = s[j].slot;
    if (s[j].kind == DIST_FREE && s[j].slot == live) live = -1;
  }
  if (live < 0) return false;
  dist_program *g = &plan->programs[rank];
  if (g->slot_bytes[live] < s[i].bytes) g->slot_bytes[live] = s[i].bytes;
  s[i].slot = live;
  return true;
}

static bool resize_message(ga_dist_plan *plan, int32_t rank, int64_t i) {
  dist_step *s = &rank_steps(plan, rank)[i];
  if (s->kind != DIST_SEND && s->kind != DIST_RECEIVE) return false;
  s->bytes -= 4;
  return true;
}
static bool shrink_slot(ga_dist_plan *plan, int32_t rank, int64_t i) {
  const dist_step *s = &rank_steps(plan, rank)[i];
  if (s->kind != DIST_RECEIVE) return false;
  plan->programs[rank].slot_bytes[s->slot] = s->bytes - 4;
  return true;
}
static bool enlarge_slot(ga_dist_plan *plan, int32_t rank, int64_t i) {
  const dist_step *s = &rank_steps(plan, rank)[i];
  if (s->kind != DIST_RECEIVE) return false;
  plan->programs[rank].slot_bytes[s->slot] += 4;
  return true;
}

static bool other_keys(ga_dist_plan *plan, int32_t rank, int64_t i) {
  dist_step *s = &rank_steps(plan, rank)[i];
  if (s->kind != DIST_TILE) return false;
  s->kv_owner = (s->kv_owner + 1) % plan->p.ranks;
  return true;
}
static bool other_heads(ga_dist_plan *plan, int32_t rank, int64_t i) {
  dist_step *s = &rank_steps(plan, rank)[i];
  if (s->kind != DIST_TILE || s->heads < 2) return false;
  s->heads--;
  return true;
}
static bool other_order(ga_dist_plan *plan, int32_t rank, int64_t i) {
  dist_step *s = &rank_steps(plan, rank)[i];
  if (s->kind != DIST_TILE && s->kind != DIST_MERGE) return false;
  s->order++;
  return true;
}
static bool other_peer(ga_dist_plan *plan, int32_t rank, int64_t i) {
  dist_step *s = &rank_steps(plan, rank)[i];
  if (s->kind != DIST_SEND || plan->p.ranks < 3) return false;
  s->peer = (s->peer + 1) % plan->p.ranks;
  if (s->peer == rank) s->peer = (s->peer + 1) % plan->p.ranks;
  return true;
}

/* A wait moves in front of its receive's group, where the sender may not have come to its send. */
static bool early_wait(ga_dist_plan *plan, int32_t rank, int64_t i) {
  dist_step *s = rank_steps(plan, rank);
  if (i < 1 || s[i].kind != DIST_WAIT) return false;
  for (int64_t j = i - 1; j >= 0; j--)
    if (s[j].kind == DIST_RECEIVE && s[j].slot == s[i].slot) {
      const dist_step wait = s[i];
      memmove(&s[j + 1], &s[j], (size_t)(i - j) * sizeof *s);
      s[j] = wait;
      return true;
    }
  return false;
}
/* A step is moved behind the FREE of the slot that it reads. */
static bool late_tile(ga_dist_plan *plan, int32_t rank, int64_t i) {
  dist_step *s = rank_steps(plan, rank);
  if (s[i].kind != DIST_TILE) return false;
  for (int64_t j = i + 1; j < plan->programs[rank].n_steps; j++)
    if (s[j].kind == DIST_FREE && (s[j].slot == s[i].slot_kv || s[j].slot == s[i].slot_q)) {
      const dist_step tile = s[i];
      memmove(&s[i], &s[i + 1], (size_t)(j - i) * sizeof *s);
      s[j] = tile;
      return true;
    }
  return false;
}
/* The same block is sent on a second time. */
static bool double_send(ga_dist_plan *plan, int32_t rank, int64_t i) {
  dist_program *g = &plan->programs[rank];
  if (g->steps[i].kind != DIST_SEND || g->n_steps >= g->room) return false;
  memmove(&g->steps[i + 1], &g->steps[i], (size_t)(g->n_steps - i) * sizeof *g->steps);
  g->n_steps++;
  return true;
}

static const mutant mutants[] = {
    {"dropped open", RULE(AVAILABLE) | RULE(RACE), drop_OPEN},
    {"dropped send", RULE(MATCH), drop_SEND},
    {"dropped receive", RULE(MATCH), drop_RECEIVE},
    {"dropped wait", RULE(RACE), drop_WAIT},
    {"dropped tile", RULE(COVER), drop_TILE},
    {"dropped merge", RULE(AVAILABLE) | RULE(ORDER), drop_MERGE},
    {"dropped free", RULE(RACE) | RULE(MEMORY), drop_FREE},
    {"swapped sends", RULE(MATCH), swap_sends},
    {"swapped receives", RULE(MATCH), swap_receives},
    {"swapped tiles", RULE(ORDER) | RULE(RACE) | RULE(AVAILABLE), swap_tiles},
    {"swapped merges", RULE(ORDER) | RULE(RACE) | RULE(AVAILABLE), swap_merges},
    {"aliased slot", RULE(RACE), alias_slot},
    {"resized message", RULE(SIZE), resize_message},
    {"shrunk slot", RULE(SIZE), shrink_slot},
    {"enlarged slot", RULE(MEMORY), enlarge_slot},
    {"other keys", RULE(COVER) | RULE(SIZE), other_keys},
    {"fewer heads", RULE(COVER), other_heads},
    {"other order", RULE(ORDER), other_order},
    {"other peer", RULE(MATCH), other_peer},
    {"early wait", RULE(RACE) | RULE(DEADLOCK), early_wait},
    {"late tile", RULE(AVAILABLE) | RULE(ORDER) | RULE(RACE), late_tile},
    {"doubled send", RULE(MATCH), double_send},
};
enum { MUTANTS = sizeof mutants / sizeof *mutants };

static int tried[MUTANTS];

/* One mutant of one plan, at a random place where it fits. */
static void check_mutant(const ga_dist_desc *d, const mutant *m, ga_rng *rng) {
  ga_dist_plan *plan = NULL;
  assert_int_equal(ga_dist_plan_create(d, &plan), GA_OK);
  for (int n = 0; n < 60; n++) {
    const int32_t rank = (int32_t)ga_rng_below(rng, (uint64_t)plan->p.ranks);
    const int64_t i = (int64_t)ga_rng_below(rng, (uint64_t)plan->programs[rank].n_steps);
    if (!m->change(plan, rank, i)) continue;
    ga_dist_report report = GA_DIST_REPORT_INIT;
    const ga_status status = ga_dist_plan_verify(plan, &report);
    if (status == GA_OK)
      fail_msg("%s: %s at rank %d, step %lld is not refused", d->method, m->name, rank, (long long)i);
    assert_int_equal(status, GA_ERR_STATE);
    if (!(m->allowed >> report.rule & 1))
      fail_msg("%s: %s at rank %d, step %lld is refused by '%s'", d->method, m->name, rank, (long long)i,
               ga_error_text());
    assert_non_null(strstr(ga_error_text(), ga_dist_rule_name(report.rule)));
    tried[m - mutants]++;
    break;
  }
  ga_dist_plan_destroy(plan);
}

static void test_mutants(void **state) {
  (void)state;
  ga_rng rng;
  ga_rng_seed(&rng, 11);
  static const int32_t rank_counts[] = {2, 3, 4, 6, 8};
  const char *name;
  for (size_t n = 0; (name = ga_dist_method_name(n)) != NULL; n++)
    for (int r = 0; r < 5; r++)
      for (int c = 0; c < DIST_CASES; c += 2)
        for (uint32_t pass = 0; pass <= GA_DIST_BACKWARD; pass += GA_DIST_BACKWARD) {
          if (!dist_case_fits(&dist_cases[c], name)) continue;
          dist_setup s = start_dist_case(&dist_cases[c], name, 0, rank_counts[r], 8, 4);
          s.desc.flags |= pass;
          for (int m = 0; m < MUTANTS; m++) check_mutant(&s.desc, &mutants[m], &rng);
          end_dist_case(&s);
        }
  for (int m = 0; m < MUTANTS; m++)
    if (tried[m] < 20) fail_msg("%s was tried %d times", mutants[m].name, tried[m]);
}

/* More bytes than the closed form, in a plan that is right in all else: the whole block where half is needed. */
static void test_bytes(void **state) {
  (void)state;
  dist_setup s = start_dist_case(&dist_cases[0], "zigzag-direct", 0, 4, 4, 2);
  ga_dist_grid g = GA_DIST_GRID_INIT;
  g.need = GA_DIST_SEND_ALL;
  s.desc.grid = &g;
  ga_dist_plan *plan = NULL;
  assert_int_equal(ga_dist_plan_create(&s.desc, &plan), GA_OK);
  assert_int_equal(ga_dist_plan_verify(plan, NULL), GA_OK);
  plan->p.grid.need = GA_DIST_SEND_STRETCHES;
  ga_dist_report report = GA_DIST_REPORT_INIT;
  assert_int_equal(ga_dist_plan_verify(plan, &report), GA_ERR_STATE);
  assert_int_equal(report.rule, GA_DIST_RULE_BYTES);
  ga_dist_plan_destroy(plan);
  end_dist_case(&s);
}

/* Two ranks that receive before they send: right with neither kind of send. Groups in another order: right with
 * buffered sends alone. */
static void test_deadlock(void **state) {
  (void)state;
  dist_setup s = start_dist_case(&dist_cases[1], "ring", 0, 2, 1, 1);
  ga_dist_plan *plan = NULL;
  ga_dist_report report = GA_DIST_REPORT_INIT;
  assert_int_equal(ga_dist_plan_create(&s.desc, &plan), GA_OK);
  for (int32_t r = 0; r < 2; r++) { /* SEND moves behind the WAIT of what came */
    dist_program *p = &plan->programs[r];
    int64_t send = 0, wait = 0;
    while (p->steps[send].kind != DIST_SEND) send++;
    while (p->steps[wait].kind != DIST_WAIT) wait++;
    const dist_step moved = p->steps[send];
    memmove(&p->steps[send], &p->steps[send + 1], (size_t)(wait - send) * sizeof *p->steps);
    p->steps[wait] = moved;
  }
  assert_int_equal(ga_dist_plan_verify(plan, &report), GA_ERR_STATE);
  assert_int_equal(report.rule, GA_DIST_RULE_DEADLOCK);
  assert_non_null(strstr(ga_error_text(), "buffered"));
  ga_dist_plan_destroy(plan);
  assert_int_equal(ga_dist_plan_create(&s.desc, &plan), GA_OK);
  for (int32_t r = 0; r < 2; r++) { /* own tile between SEND and RECEIVE: two groups, both ranks send first */
    dist_program *p = &plan->programs[r];
    int64_t send = 0, receive = 0, tile = 0;
    while (p->steps[send].kind != DIST_SEND) send++;
    while (p->steps[receive].kind != DIST_RECEIVE) receive++;
    while (p->steps[tile].kind != DIST_TILE) tile++;
    const dist_step x[3] = {p->steps[send], p->steps[tile], p->steps[receive]};
    const int64_t first = send < receive ? send : receive;
    assert_int_equal(tile, first + 2);
    memcpy(&p->steps[first], x, sizeof x);
  }
  assert_int_equal(ga_dist_plan_verify(plan, &report), GA_ERR_STATE);
  assert_int_equal(report.rule, GA_DIST_RULE_DEADLOCK);
  assert_non_null(strstr(ga_error_text(), "wait for their receiver"));
  ga_dist_plan_destroy(plan);
  end_dist_case(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_mutants), cmocka_unit_test(test_bytes),
                                     cmocka_unit_test(test_deadlock)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
