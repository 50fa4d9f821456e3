/* Layer memory with states of fixed size: snapshots, copies, going back, eviction, swap; and random operations for
 * mixes of kinds, compared with a naive list of prefixes. */
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "tests/layer_memory_rig.h"

static layer_memory_options with_states(int32_t full, int32_t states) {
  layer_memory_options o = memory_test_options(PAGE, 0);
  o.n_units[FULL] = full;
  o.n_units[STATE] = states;
  return o;
}

static void open_states(int32_t full, int32_t states) {
  const layer_memory_options o = with_states(full, states);
  assert_int_equal(layer_memory_create(&o, &memory), GA_OK);
}

/* Steps of at most `chunk` tokens up to n. */
static void steps_to(sequence_memory *q, const int32_t *ids, int32_t from, int32_t n, int32_t chunk) {
  for (int32_t at = from; at < n;) {
    const int32_t step = layer_memory_chunk(memory, at, n - at < chunk ? n - at : chunk);
    assert_int_equal(layer_memory_extend(memory, q, at + step), GA_OK);
    layer_memory_snapshot(memory, q, at);
    at += step;
    layer_memory_computed(memory, 0, q, ids, at);
  }
}

static int32_t count_copies(int32_t kind, unit_way way) {
  int32_t n, found = 0;
  const unit_copy *list = layer_memory_copies(memory, &n);
  for (int32_t i = 0; i < n; i++) found += list[i].kind == kind && list[i].way == way;
  return found;
}

static void chunks_end_where_snapshots_are_taken(void **state) {
  (void)state;
  open_states(16, 4);
  assert_int_equal(layer_memory_chunk(memory, 0, 10), 8);
  assert_int_equal(layer_memory_chunk(memory, 8, 2), 2);
  assert_int_equal(layer_memory_chunk(memory, 3, 1), 1);
  close_pages();
  open_pages(16, 0, 0);
  assert_int_equal(layer_memory_chunk(memory, 0, 10), 10);
  close_pages();
}

static void a_state_is_copied_and_not_shared(void **state) {
  (void)state;
  sequence_memory a = {.n_pages = 0}, b = {.n_pages = 0};
  open_states(16, 8);
  steps_to(&a, ids_from(0), 0, 10, 8);
  layer_memory_release(memory, 0, &a, ids_from(0), 10);
  expect_counts(STATE, 0, 2); /* after 8 tokens, and after 10 */
  assert_int_equal(match_ids(&a, ids_from(0), 20), 10);
  assert_int_equal(match_ids(&b, ids_from(0), 20), 10);
  assert_int_equal(count_copies(STATE, UNIT_WITHIN), 1);
  assert_int_not_equal(a.state[STATE], b.state[STATE]);
  assert_memory_equal(a.units[FULL], b.units[FULL], 2 * sizeof(int32_t));
  verify_two(&a, &b);
  layer_memory_release(memory, 0, &a, NULL, 0);
  layer_memory_release(memory, 0, &b, NULL, 0);
  close_pages();
}

static void a_match_ends_at_a_snapshot(void **state) {
  (void)state;
  sequence_memory q = {.n_pages = 0};
  int32_t ids[IDS];
  open_states(16, 8);
  steps_to(&q, ids_from(0), 0, 14, 8); /* steps to 8, 12 and 14 */
  layer_memory_release(memory, 0, &q, ids_from(0), 14);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 30), 14);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 14), 12);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 12), 8);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 8), 0);
  memcpy(ids, ids_from(0), sizeof ids);
  ids[13] = -1; /* pages alone would match 13 tokens */
  assert_int_equal(layer_memory_peek(memory, 0, ids, 30), 12);
  close_pages();
}

static void a_state_that_has_gone_on_leaves_no_snapshot(void **state) {
  (void)state;
  sequence_memory q = {.n_pages = 0};
  open_states(16, 8);
  steps_to(&q, ids_from(0), 0, 10, 8);
  layer_memory_release_as(memory, 0, &q, ids_from(0), 10, &(release_policy){.n_beyond = 1});
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 30), 8);
  close_pages();
}

static void going_back_ends_at_a_snapshot_of_the_tree(void **state) {
  (void)state;
  sequence_memory q = {.n_pages = 0};
  open_states(16, 8);
  steps_to(&q, ids_from(0), 0, 30, 8);
  assert_int_equal(layer_memory_rewind(memory, 0, &q, ids_from(0), 30, 30), 30);
  assert_int_equal(layer_memory_rewind(memory, 0, &q, ids_from(0), 30, 23), 16);
  verify_two(&q, NULL);
  assert_int_equal(q.n_nodes, 4);
  steps_to(&q, ids_from(0), 16, 20, 8);
  assert_int_equal(layer_memory_rewind(memory, 0, &q, ids_from(0), 20, 7), 0);
  verify_two(&q, NULL);
  layer_memory_release(memory, 0, &q, NULL, 0);
  close_pages();
}

static void pages_go_back_to_any_token(void **state) {
  (void)state;
  sequence_memory q = {.n_pages = 0};
  open_pages(16, 16, 6);
  for (int32_t n = 0; n < 30; n++) {
    steps_to(&q, ids_from(0), 0, 30, 8);
    assert_int_equal(layer_memory_rewind(memory, 0, &q, ids_from(0), 30, n), n);
    verify_two(&q, NULL);
    layer_memory_release(memory, 0, &q, ids_from(0), n);
  }
  close_pages();
}

/* As in sessions: the snapshots are the sequence's own, spread over its tokens. */
static void without_a_tree_snapshots_stay_with_the_sequence(void **state) {
  (void)state;
  sequence_memory q = {.n_pages = 0};
  layer_memory_options o = with_states(16, 1 + 4);
  o.keep_prefixes = false;
  assert_int_equal(layer_memory_create(&o, &memory), GA_OK);
  steps_to(&q, ids_from(0), 0, 64, PAGE);
  assert_int_equal(q.n_snapshots, 4);
  for (int32_t i = 1; i < 4; i++) assert_true(q.snapshots[i].n_tokens - q.snapshots[i - 1].n_tokens <= 32);
  const memory_snapshot third = q.snapshots[2];
  layer_memory_copied(memory);
  assert_int_equal(layer_memory_rewind(memory, 0, &q, ids_from(0), 64, third.n_tokens + 2), third.n_tokens);
  (void)layer_memory_copies(memory, &n_copies);
  assert_int_equal(n_copies, 1);
  assert_int_equal(layer_memory_copies(memory, &n_copies)->from, third.unit[STATE]);
  assert_int_equal(layer_memory_copies(memory, &n_copies)->to, q.state[STATE]);
  assert_int_equal(q.n_snapshots, 3);
  assert_int_equal(layer_memory_rewind(memory, 0, &q, ids_from(0), third.n_tokens, 1), 0);
  assert_int_equal(q.n_snapshots, 0);
  verify_two(&q, NULL);
  layer_memory_release(memory, 0, &q, NULL, 0);
  close_pages();
}

static void some_kinds_go_back_a_little_exactly(void **state) {
  (void)state;
  sequence_memory q = {.n_pages = 0};
  layer_memory_options o = with_states(16, 8);
  o.kinds[STATE].exact_rewind = 2;
  assert_int_equal(layer_memory_create(&o, &memory), GA_OK);
  steps_to(&q, ids_from(0), 0, 11, 8);
  layer_memory_copied(memory);
  assert_int_equal(layer_memory_rewind(memory, 0, &q, ids_from(0), 11, 9), 9);
  (void)layer_memory_copies(memory, &n_copies);
  assert_int_equal(n_copies, 0);
  assert_int_equal(layer_memory_rewind(memory, 0, &q, ids_from(0), 9, 6), 0);
  layer_memory_release(memory, 0, &q, NULL, 0);
  close_pages();
}

static void snapshots_at_borders_are_evicted_before_ends(void **state) {
  (void)state;
  sequence_memory q = {.n_pages = 0}, r = {.n_pages = 0};
  open_states(16, 4);
  steps_to(&q, ids_from(0), 0, 10, 4); /* snapshots after 4, 8 and 10 tokens */
  layer_memory_release(memory, 0, &q, ids_from(0), 10);
  expect_counts(STATE, 0, 3);
  assert_int_equal(layer_memory_extend(memory, &q, 4), GA_OK);
  assert_int_equal(layer_memory_extend(memory, &r, 4), GA_OK);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 8), 0); /* the first one is gone */
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 10), 8);
  verify_two(&q, &r);
  layer_memory_release(memory, 0, &r, NULL, 0);
  layer_memory_release(memory, 0, &q, NULL, 0);
  close_pages();
}

static void a_prefix_without_its_last_snapshot_is_removed(void **state) {
  (void)state;
  sequence_memory q = {.n_pages = 0}, r = {.n_pages = 0};
  open_states(16, 2);
  steps_to(&q, ids_from(0), 0, 12, 16);
  layer_memory_release(memory, 0, &q, ids_from(0), 12);
  expect_counts(FULL, 0, 3);
  assert_int_equal(layer_memory_extend(memory, &q, 4), GA_OK);
  assert_int_equal(layer_memory_extend(memory, &r, 4), GA_OK);
  expect_counts(FULL, 2, 0);
  layer_memory_release(memory, 0, &r, NULL, 0);
  layer_memory_release(memory, 0, &q, NULL, 0);
  close_pages();
}

/* A single unit cannot be a snapshot and its copy. */
static void without_a_second_unit_there_is_no_match(void **state) {
  (void)state;
  sequence_memory q = {.n_pages = 0};
  open_states(16, 1);
  steps_to(&q, ids_from(0), 0, 12, 4);
  assert_int_equal(q.n_snapshots, 0);
  layer_memory_release(memory, 0, &q, ids_from(0), 12);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 20), 0);
  steps_to(&q, ids_from(0), 0, 12, 4);
  verify_two(&q, NULL);
  layer_memory_release(memory, 0, &q, NULL, 0);
  close_pages();
}

static void a_preempted_state_comes_back_from_host_memory(void **state) {
  (void)state;
  sequence_memory q = {.n_pages = 0}, others[2] = {{.n_pages = 0}, {.n_pages = 0}};
  layer_memory_options o = with_states(16, 2);
  o.n_host[FULL] = 16;
  o.n_host[STATE] = 2;
  assert_int_equal(layer_memory_create(&o, &memory), GA_OK);
  steps_to(&q, ids_from(0), 0, 7, 8);
  layer_memory_release_as(memory, 0, &q, ids_from(0), 7, &(release_policy){.swap = true});
  layer_memory_copied(memory);
  for (int i = 0; i < 2; i++) assert_int_equal(layer_memory_extend(memory, &others[i], 4), GA_OK);
  assert_int_equal(count_copies(STATE, UNIT_TO_HOST), 1);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 8), 0); /* no unit is available */
  verify_two(&others[0], &others[1]);
  for (int i = 0; i < 2; i++) layer_memory_release(memory, 0, &others[i], NULL, 0);
  assert_int_equal(match_ids(&q, ids_from(0), 8), 7);
  assert_int_equal(count_copies(STATE, UNIT_FROM_HOST), 1);
  verify_two(&q, NULL);
  layer_memory_release(memory, 0, &q, NULL, 0);
  close_pages();
}

static void the_check_sees_damaged_states(void **state) {
  (void)state;
  sequence_memory q = {.n_pages = 0};
  const sequence_memory *const list[] = {&q};
  layer_memory_options o = with_states(16, 8);
  o.keep_prefixes = false;
  assert_int_equal(layer_memory_create(&o, &memory), GA_OK);
  steps_to(&q, ids_from(0), 0, 10, 4);
  int32_t *const numbers[] = {&memory->pool[STATE].refs[0], &memory->pool[STATE].n_used, &q.state[STATE],
                              &q.snapshots[1].unit[STATE],  &q.snapshots[0].n_tokens,    &q.n_snapshots};
  for (size_t i = 0; i < GA_COUNT_OF(numbers); i++) {
    ++*numbers[i];
    assert_int_equal(layer_memory_verify(memory, list, 1), GA_ERR_INTERNAL);
    --*numbers[i];
  }
  verify_two(&q, NULL);
  layer_memory_release(memory, 0, &q, NULL, 0);
  close_pages();
}

/* --- random operations --- */

enum { SEQUENCES = 4, RELEASED = 14, UNITS = 512, OPERATIONS = 120 };

typedef struct sim_sequence {
  sequence_memory memory;
  int32_t ids[IDS];
  uint64_t stamps[IDS]; /* of all tokens up to each */
  int32_t n, n_most;    /* evaluated now, and before it went back */
  bool is_open;
  /* States after so many tokens have been kept: for certain, if nothing is evicted; at any time. */
  bool kept_at[IDS + 1], seen_at[IDS + 1];
} sim_sequence;

static struct {
  ga_rng rng;
  layer_memory_options o;
  bool is_roomy;    /* nothing is ever evicted ... */
  bool is_complete; /* ... and every prefix is found: no pages are given back before they join the tree */
  uint64_t device[KINDS][UNITS][PAGE], host[KINDS][UNITS][PAGE];
  sim_sequence open[SEQUENCES], released[RELEASED];
  int32_t n_released;
  int64_t matched, went_back, lost, swapped;
} sim;

static int32_t sim_draw(int32_t least, int32_t most) {
  return least + (int32_t)ga_rng_below(&sim.rng, (uint64_t)(most - least + 1));
}

static bool has_kind(int32_t kind) { return sim.o.n_units[kind] > 0; }

static void sim_copies(void) {
  int32_t n;
  const unit_copy *list = layer_memory_copies(memory, &n);
  for (int32_t i = 0; i < n; i++) {
    const unit_copy *c = &list[i];
    uint64_t *from = c->way == UNIT_FROM_HOST ? sim.host[c->kind][c->from] : sim.device[c->kind][c->from];
    memcpy(c->way == UNIT_TO_HOST ? sim.host[c->kind][c->to] : sim.device[c->kind][c->to], from, sizeof sim.host[0][0]);
    if (c->way == UNIT_TO_HOST) memset(from, 0xee, sizeof sim.host[0][0]);
    sim.swapped += c->way == UNIT_TO_HOST;
  }
  layer_memory_copied(memory);
}

/* What the sequence has in each kind is what its first n tokens have left. */
static void check_contents(const sim_sequence *q) {
  for (int32_t kind = 0; kind < KINDS; kind++) {
    const int32_t window = sim.o.kinds[kind].window;
    if (!has_kind(kind) || kind == STATE) continue;
    for (int32_t at = window && q->n >= window ? q->n - window + 1 : 0; at < q->n; at++)
      if (sim.device[kind][q->memory.units[kind][at / PAGE]][at % PAGE] != q->stamps[at])
        fail_msg("kind %d: token %d of %d", kind, at, q->n);
  }
  if (has_kind(STATE) && q->n && sim.device[STATE][q->memory.state[STATE]][0] != q->stamps[q->n - 1])
    fail_msg("the state is not that after %d tokens", q->n);
}

static int32_t common(const sim_sequence *q, const sim_sequence *other, int32_t n) {
  int32_t i = 0;
  while (i < n && q->ids[i] == other->ids[i]) i++;
  return i;
}

/* The longest prefix of at most n tokens that all kinds have of another sequence for certain. */
static int32_t naive_prefix(const sim_sequence *q, const sim_sequence *other, int32_t n) {
  int32_t same = common(q, other, n < other->n ? n : other->n);
  while (has_kind(STATE) && same && !other->kept_at[same]) same--;
  return same;
}

/* The longest prefix that they may have. */
static int32_t possible_prefix(const sim_sequence *q, const sim_sequence *other, int32_t n) {
  int32_t same = common(q, other, n < other->n_most ? n : other->n_most);
  while (has_kind(STATE) && same && !other->seen_at[same]) same--;
  return same;
}

static void keep_at(sim_sequence *q, int32_t n) { q->kept_at[n] = q->seen_at[n] = true; }

static void check_found(const sim_sequence *q, int32_t n, int32_t found) {
  int32_t least = 0, most = 0;
  for (int32_t i = 0; i < sim.n_released; i++) {
    const int32_t same = naive_prefix(q, &sim.released[i], n), possible = possible_prefix(q, &sim.released[i], n);
    least = same > least ? same : least;
    most = possible > most ? possible : most;
  }
  for (int32_t i = 0; i < SEQUENCES; i++) { /* whole pages of running ones are found */
    const int32_t possible = sim.open[i].is_open ? possible_prefix(q, &sim.open[i], n) : 0;
    most = possible > most ? possible : most;
  }
  if (found > most) fail_msg("found %d tokens of %d", found, most);
  if (sim.is_complete && found < least) fail_msg("found %d tokens, there are %d", found, least);
  sim.lost += found < least;
}

static void begin_sequence(sim_sequence *q) {
  prefix_match found;
  memset(q, 0, sizeof *q);
  const int32_t like = sim_draw(0, sim.n_released), same = sim_draw(0, IDS);
  uint64_t stamp = 1;
  for (int32_t i = 0; i < IDS; i++) {
    q->ids[i] = like < sim.n_released && i < same ? sim.released[like].ids[i] : sim_draw(0, 1);
    stamp ^= (uint64_t)q->ids[i] + 1;
    q->stamps[i] = ga_splitmix64(&stamp);
  }
  const int32_t n = sim_draw(1, IDS);
  assert_int_equal(layer_memory_match(memory, 0, q->ids, n, &q->memory, &found), GA_OK);
  check_found(q, n - 1, found.tokens);
  if (!layer_memory_has_room(memory, &q->memory, found.tokens + 1)) {
    layer_memory_release(memory, 0, &q->memory, NULL, 0);
    return;
  }
  layer_memory_load(memory, &q->memory, &found);
  sim_copies();
  q->is_open = true;
  q->n = q->n_most = found.tokens;
  keep_at(q, q->n);
  sim.matched += found.tokens;
  check_contents(q);
}

static void step_sequence(sim_sequence *q) {
  const int32_t most = sim_draw(1, 3 * PAGE), left = IDS - q->n;
  const int32_t n = layer_memory_chunk(memory, q->n, most < left ? most : left);
  if (n < 1 || !layer_memory_has_room(memory, &q->memory, q->n + n)) return;
  assert_int_equal(layer_memory_extend(memory, &q->memory, q->n + n), GA_OK);
  layer_memory_snapshot(memory, &q->memory, q->n);
  sim_copies();
  check_contents(q);
  if (q->n % PAGE == 0) keep_at(q, q->n);
  for (int32_t at = q->n; at < q->n + n; at++)
    for (int32_t kind = 0; kind < KINDS; kind++)
      if (has_kind(kind) && kind != STATE)
        sim.device[kind][q->memory.units[kind][at / PAGE]][at % PAGE] = q->stamps[at];
  q->n += n;
  q->n_most = q->n > q->n_most ? q->n : q->n_most;
  if (has_kind(STATE)) sim.device[STATE][q->memory.state[STATE]][0] = q->stamps[q->n - 1];
  layer_memory_computed(memory, 0, &q->memory, q->ids, q->n);
}

static void rewind_sequence(sim_sequence *q) {
  const int32_t n = sim_draw(0, q->n);
  const int32_t length = layer_memory_rewind(memory, 0, &q->memory, q->ids, q->n, n);
  sim_copies();
  if (length > n) fail_msg("back to %d tokens, asked for %d", length, n);
  if (sim.is_complete && length < (n < q->n ? naive_prefix(q, q, n) : n))
    fail_msg("back to %d tokens of %d, asked for %d", length, q->n, n);
  q->seen_at[q->n] = true;
  for (int32_t i = length + 1; i <= IDS; i++) q->kept_at[i] = false;
  q->n = length;
  sim.went_back++;
  check_contents(q);
}

static void end_sequence(sim_sequence *q) {
  const release_policy policy = {.swap = sim_draw(0, 2) == 0, .keep_until = sim_draw(0, 4) == 0};
  if (sim.n_released == RELEASED) return;
  layer_memory_release_as(memory, 0, &q->memory, q->ids, q->n, &policy);
  keep_at(q, q->n);
  q->is_open = false;
  sim.released[sim.n_released++] = *q;
}

static void verify_sim(void) {
  const sequence_memory *list[SEQUENCES];
  for (int32_t i = 0; i < SEQUENCES; i++) list[i] = &sim.open[i].memory;
  if (layer_memory_verify(memory, list, SEQUENCES) != GA_OK) fail_msg("%s", ga_error_text());
}

static void run_sim(uint64_t seed, int32_t kinds) {
  ga_rng_seed(&sim.rng, seed);
  sim.is_roomy = sim_draw(0, 1);
  sim.n_released = 0;
  memset(sim.open, 0, sizeof sim.open);
  sim.o = memory_test_options(PAGE, sim_draw(1, 20));
  for (int32_t kind = 0; kind < KINDS; kind++) {
    if (!(kinds >> kind & 1)) continue;
    sim.o.n_units[kind] = sim.is_roomy ? UNITS : kind == STATE ? sim_draw(1, 12) : sim_draw(IDS / PAGE + 1, 60);
    sim.o.n_host[kind] = sim.is_roomy || sim_draw(0, 1) ? 0 : sim_draw(1, 60);
  }
  sim.is_complete = sim.is_roomy && !has_kind(WINDOW);
  sim.o.offload_prefixes = sim_draw(0, 1);
  assert_int_equal(layer_memory_create(&sim.o, &memory), GA_OK);
  for (int32_t i = 0; i < OPERATIONS; i++) {
    sim_sequence *q = &sim.open[sim_draw(0, SEQUENCES - 1)];
    const int32_t what = sim_draw(0, 9);
    if (!q->is_open)
      begin_sequence(q);
    else if (what == 0)
      end_sequence(q);
    else if (what == 1)
      rewind_sequence(q);
    else
      step_sequence(q);
    layer_memory_expire(memory, i);
    verify_sim();
  }
  for (int32_t i = 0; i < SEQUENCES; i++) layer_memory_release(memory, 0, &sim.open[i].memory, NULL, 0);
  close_pages();
}

static void random_operations_agree_with_a_naive_list(void **state) {
  static const int32_t mixes[] = {1 << FULL,
                                  1 << FULL | 1 << WINDOW,
                                  1 << STATE,
                                  1 << FULL | 1 << STATE,
                                  1 << WINDOW | 1 << STATE,
                                  1 << FULL | 1 << WINDOW | 1 << STATE,
                                  1 << FULL | 1 << WINDOW | 1 << STATE | 1 << LATENT};
  (void)state;
  for (uint64_t seed = 1; seed <= 500; seed++) run_sim(seed, mixes[seed % GA_COUNT_OF(mixes)]);
  (void)printf("%lld tokens matched, %lld times back, %lld prefixes lost, %lld units swapped\n", (long long)sim.matched,
               (long long)sim.went_back, (long long)sim.lost, (long long)sim.swapped);
  assert_true(sim.matched > 1000 && sim.went_back > 1000 && sim.lost > 10 && sim.swapped > 100);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chunks_end_where_snapshots_are_taken),
      cmocka_unit_test(a_state_is_copied_and_not_shared),
      cmocka_unit_test(a_match_ends_at_a_snapshot),
      cmocka_unit_test(a_state_that_has_gone_on_leaves_no_snapshot),
      cmocka_unit_test(going_back_ends_at_a_snapshot_of_the_tree),
      cmocka_unit_test(pages_go_back_to_any_token),
      cmocka_unit_test(without_a_tree_snapshots_stay_with_the_sequence),
      cmocka_unit_test(some_kinds_go_back_a_little_exactly),
      cmocka_unit_test(snapshots_at_borders_are_evicted_before_ends),
      cmocka_unit_test(a_prefix_without_its_last_snapshot_is_removed),
      cmocka_unit_test(without_a_second_unit_there_is_no_match),
      cmocka_unit_test(a_preempted_state_comes_back_from_host_memory),
      cmocka_unit_test(the_check_sees_damaged_states),
      cmocka_unit_test(random_operations_agree_with_a_naive_list),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
