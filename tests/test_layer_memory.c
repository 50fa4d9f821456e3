/* Pages of the KV cache: references, the tree of prefixes, eviction, windows, copies. tests/schedule_steps.c has what
 * comes of many random steps. */
#include "base/hash.h"
#include "base/mem.h"
#include "tests/layer_memory_rig.h"

static void siphash_gives_its_authors_vectors(void **state) {
  (void)state;
  uint8_t bytes[16];
  uint64_t key[2] = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};
  for (int i = 0; i < 16; i++) bytes[i] = (uint8_t)i;
  assert_true(ga_siphash(key, key[0], bytes + 8, 0) == 0x93f5f5799a932462u);
  assert_true(ga_siphash(key, key[0], bytes + 8, 7) == 0xa129ca6149be45e5u);
  assert_true(ga_siphash(key, key[0], bytes + 8, 8) == 0x3f2acc7f57c29bdbu);
}

static void bad_pools_are_refused(void **state) {
  (void)state;
  static const struct {
    int32_t full, window_pages, states, page_tokens, window;
  } bad[] = {{0, 0, 0, 4, 1}, {-1, 3, 0, 4, 1}, {1, 0, 0, 3, 0}, {1, 0, 0, 0, 0}, {1, 1, 0, 4, -1}, {1, 0, -1, 4, 0}};
  for (size_t i = 0; i < GA_COUNT_OF(bad); i++) {
    layer_memory_options o = memory_test_options(bad[i].page_tokens, bad[i].window);
    o.n_units[FULL] = bad[i].full;
    o.n_units[WINDOW] = bad[i].window_pages;
    o.n_units[STATE] = bad[i].states;
    assert_int_equal(layer_memory_create(&o, &memory), GA_ERR_ARG);
  }
  layer_memory_options o = memory_test_options(4, 1);
  o.n_units[STATE] = 1;
  o.kinds[STATE].is_shared = true; /* states are not */
  assert_int_equal(layer_memory_create(&o, &memory), GA_ERR_ARG);
  o.kinds[STATE].is_shared = false;
  o.kinds[FULL].unit_tokens = 8; /* pages of another size */
  assert_int_equal(layer_memory_create(&o, &memory), GA_ERR_ARG);
  assert_null(memory);
  layer_memory_destroy(NULL);
}

static void creation_survives_failing_memory(void **state) {
  (void)state;
  layer_memory_options o = memory_test_options(PAGE, 8);
  o.n_units[FULL] = 8;
  o.n_units[WINDOW] = 8;

  ga_status status = GA_ERR_NOMEM;
  for (long n = 1; status == GA_ERR_NOMEM; n++) {
    ga_mem_fail_after(n);
    status = layer_memory_create(&o, &memory);
    ga_mem_fail_after(0);
    assert_true(n < 20);
    assert_true((status == GA_OK) == (memory != NULL));
  }
  assert_int_equal(status, GA_OK);
  layer_memory_destroy(memory);
}

static void a_prompt_takes_the_longest_kept_prefix(void **state) {
  (void)state;
  sequence_memory q = {.n_pages = 0};
  open_pages(16, 0, 0);
  leave_ids(ids_from(0), 12);
  expect_counts(FULL, 0, 3);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 20), 12);
  assert_int_equal(layer_memory_peek(memory, 1, ids_from(0), 20), 0); /* another cache key */
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(1), 20), 0);
  assert_int_equal(match_ids(&q, ids_from(0), 12), 11); /* a token is left to evaluate: part of the last page */
  assert_int_equal(n_copies, 1);
  assert_int_equal(q.n_nodes, 2);
  expect_counts(FULL, 3, 1);
  verify_two(&q, NULL);
  layer_memory_release(memory, 0, &q, NULL, 0);
  assert_int_equal(match_ids(&q, ids_from(0), 13), 12);
  assert_int_equal(n_copies, 0);
  layer_memory_release(memory, 0, &q, NULL, 0);
  expect_counts(FULL, 0, 3);
  close_pages();
}

static void sequences_share_pages(void **state) {
  (void)state;
  sequence_memory a = {.n_pages = 0}, b = {.n_pages = 0};
  open_pages(8, 0, 0);
  compute_ids(&a, ids_from(0), 8);
  assert_int_equal(match_ids(&b, ids_from(0), 9), 8); /* while the other still runs */
  assert_memory_equal(a.units[FULL], b.units[FULL], 2 * sizeof(int32_t));
  expect_counts(FULL, 2, 0);
  layer_memory_release(memory, 0, &a, ids_from(0), 8);
  expect_counts(FULL, 2, 0);
  verify_two(&b, NULL);
  layer_memory_release(memory, 0, &b, ids_from(0), 8);
  expect_counts(FULL, 0, 2);
  close_pages();
}

static void the_least_recently_used_leaf_goes_first(void **state) {
  (void)state;
  sequence_memory q = {.n_pages = 0};
  open_pages(6, 0, 0);
  leave_ids(ids_from(0), 8);
  leave_ids(ids_from(100), 8);
  leave_ids(ids_from(0), 9); /* used again; its begun page is a fifth */
  expect_counts(FULL, 0, 5);
  assert_int_equal(layer_memory_extend(memory, &q, 8), GA_OK);          /* two pages: one is free */
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(100), 16), 4); /* the leaf is gone, its parent not */
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 16), 9);
  assert_int_equal(layer_memory_extend(memory, &q, 16), GA_OK);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(100), 16), 0);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 16), 8);
  verify_two(&q, NULL);
  layer_memory_release(memory, 0, &q, NULL, 0);
  close_pages();
}

static void pages_in_use_are_not_evicted(void **state) {
  (void)state;
  sequence_memory a = {.n_pages = 0}, b = {.n_pages = 0};
  open_pages(4, 0, 0);
  compute_ids(&a, ids_from(0), 9);
  assert_true(layer_memory_has_room(memory, &b, 4));
  assert_false(layer_memory_has_room(memory, &b, 5));
  assert_int_equal(layer_memory_room(memory, &a), 16);
  assert_int_equal(layer_memory_extend(memory, &b, 5), GA_ERR_BUSY);
  assert_int_equal(b.n_pages, 0);
  expect_counts(FULL, 3, 0);
  layer_memory_release(memory, 0, &a, ids_from(0), 9);
  expect_counts(FULL, 0, 3);
  assert_int_equal(layer_memory_extend(memory, &b, 16), GA_OK);
  expect_counts(FULL, 4, 0);
  layer_memory_release(memory, 0, &b, NULL, 0);
  close_pages();
}

static void a_begun_page_is_copied(void **state) {
  (void)state;
  sequence_memory q = {.n_pages = 0};
  int32_t ids[IDS];
  open_pages(8, 0, 0);
  memcpy(ids, ids_from(0), sizeof ids);
  leave_ids(ids, 6);
  expect_counts(FULL, 0, 2);
  ids[5] = -1; /* one token of the begun page is the same */
  assert_int_equal(match_ids(&q, ids, 10), 5);
  assert_int_equal(n_copies, 1);
  assert_int_equal(copies[0].kind, FULL);
  assert_int_equal(copies[0].to, q.units[FULL][1]);
  assert_int_not_equal(copies[0].from, copies[0].to);
  verify_two(&q, NULL);
  layer_memory_release(memory, 0, &q, ids, 5); /* nothing new */
  expect_counts(FULL, 0, 2);
  leave_ids(ids_from(0), 7); /* takes the place of the shorter one */
  expect_counts(FULL, 0, 2);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 10), 7);
  leave_ids(ids_from(0), 8); /* and the whole page that of the begun one */
  expect_counts(FULL, 0, 2);
  leave_ids(ids_from(0), 6);
  expect_counts(FULL, 0, 2);
  close_pages();
}

static void without_a_page_for_it_there_is_no_copy(void **state) {
  (void)state;
  sequence_memory a = {.n_pages = 0}, q = {.n_pages = 0};
  open_pages(3, 0, 0);
  leave_ids(ids_from(0), 6);
  assert_int_equal(layer_memory_extend(memory, &a, 4), GA_OK);
  assert_int_equal(match_ids(&q, ids_from(0), 10), 4);
  assert_int_equal(n_copies, 0);
  verify_two(&a, &q);
  layer_memory_release(memory, 0, &q, NULL, 0);
  layer_memory_release(memory, 0, &a, NULL, 0);
  close_pages();
}

static void the_same_page_computed_twice_stays_private(void **state) {
  (void)state;
  sequence_memory a = {.n_pages = 0}, b = {.n_pages = 0};
  int32_t table[2];
  open_pages(8, 0, 0);
  assert_int_equal(layer_memory_extend(memory, &a, 8), GA_OK);
  assert_int_equal(layer_memory_extend(memory, &b, 8), GA_OK);
  memcpy(table, b.units[FULL], sizeof table);
  layer_memory_computed(memory, 0, &a, ids_from(0), 8);
  layer_memory_computed(memory, 0, &b, ids_from(0), 8);
  assert_int_equal(b.n_nodes, 0);
  assert_memory_equal(table, b.units[FULL], sizeof table);
  verify_two(&a, &b);
  layer_memory_release(memory, 0, &a, ids_from(0), 8);
  compute_ids(&b, ids_from(0), 12); /* nobody uses the others now: its own take their place, in the same table */
  assert_int_equal(b.n_nodes, 3);
  assert_memory_equal(table, b.units[FULL], sizeof table);
  expect_counts(FULL, 3, 0);
  verify_two(&b, NULL);
  layer_memory_release(memory, 0, &b, ids_from(0), 12);
  expect_counts(FULL, 0, 3);
  close_pages();
}

static void a_private_page_merges_at_the_end(void **state) {
  (void)state;
  sequence_memory a = {.n_pages = 0}, b = {.n_pages = 0};
  open_pages(8, 0, 0);
  compute_ids(&a, ids_from(0), 4);
  compute_ids(&b, ids_from(0), 10);
  assert_int_equal(b.n_nodes, 0);
  layer_memory_release(memory, 0, &b, ids_from(0), 10);
  expect_counts(FULL, 1, 2);
  verify_two(&a, NULL);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 20), 10);
  layer_memory_release(memory, 0, &a, ids_from(0), 4);
  close_pages();
}

static void nothing_is_kept_without_prefixes(void **state) {
  (void)state;
  layer_memory_options o = memory_test_options(PAGE, 0);
  o.n_units[FULL] = 4;
  o.keep_prefixes = false;

  assert_int_equal(layer_memory_create(&o, &memory), GA_OK);
  leave_ids(ids_from(0), 10);
  expect_counts(FULL, 0, 0);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 10), 0);
  close_pages();
}

/* --- windows --- */

static void pages_behind_the_window_come_back(void **state) {
  (void)state;
  sequence_memory q = {.n_pages = 0};
  open_pages(0, 4, 6);
  for (int32_t n = 1; n <= 40; n++) {
    compute_ids(&q, ids_from(0), n);
    const int32_t first = n - 6 + 1 > 0 ? (n - 6 + 1) / PAGE : 0;
    assert_int_equal(q.first_seen[WINDOW], first);
    for (int32_t i = 0; i < q.n_pages; i++) assert_true((q.units[WINDOW][i] == MEMORY_NO_UNIT) == (i < first));
    verify_two(&q, NULL);
  }
  assert_null(q.units[FULL]);
  layer_memory_release(memory, 0, &q, ids_from(0), 40);
  close_pages();
}

static void a_match_needs_the_pages_of_its_window(void **state) {
  (void)state;
  sequence_memory q = {.n_pages = 0}, other = {.n_pages = 0};
  open_pages(16, 6, 6);
  compute_ids(&q, ids_from(0), 20); /* window pages 0 to 2 are passed: only the tree has them */
  expect_counts(WINDOW, 2, 3);
  assert_int_equal(layer_memory_extend(memory, &other, 12), GA_OK); /* takes two of those: 0 and 1 */
  expect_counts(WINDOW, 5, 1);
  verify_two(&q, &other);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 30), 20);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 17), 16); /* pages 2 and 3 */
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 12), 0);  /* 11 and fewer would need page 1 */
  layer_memory_release(memory, 0, &other, NULL, 0);
  assert_int_equal(match_ids(&other, ids_from(0), 17), 16);
  assert_int_equal(other.first_seen[WINDOW], 2);
  assert_int_equal(other.units[WINDOW][1], MEMORY_NO_UNIT);
  verify_two(&q, &other);
  layer_memory_release(memory, 0, &other, NULL, 0);
  layer_memory_release(memory, 0, &q, ids_from(0), 20);
  close_pages();
}

static void passed_window_pages_go_before_wanted_ones(void **state) {
  (void)state;
  sequence_memory q = {.n_pages = 0};
  open_pages(32, 8, 5);
  leave_ids(ids_from(0), 8); /* others will begin with it: its page 1 is wanted */
  assert_int_equal(match_ids(&q, ids_from(0), 30), 8);
  compute_ids(&q, ids_from(0), 28); /* page 6 is seen; 0 and 2 to 5 have never been wanted */
  expect_counts(WINDOW, 1, 6);
  layer_memory_release(memory, 0, &q, ids_from(0), 28);
  assert_int_equal(layer_memory_extend(memory, &q, 24), GA_OK); /* 6 pages, 1 free */
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 28), 8);
  verify_two(&q, NULL);
  layer_memory_release(memory, 0, &q, NULL, 0);
  close_pages();
}

static void a_lost_window_page_is_put_back(void **state) {
  (void)state;
  sequence_memory q = {.n_pages = 0}, other = {.n_pages = 0};
  open_pages(32, 4, 6);
  leave_ids(ids_from(0), 16);
  assert_int_equal(layer_memory_extend(memory, &other, 12), GA_OK); /* one window page is left: no match */
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 30), 0);
  layer_memory_release(memory, 0, &other, NULL, 0);
  for (int32_t n = 4; n <= 16; n += 4) compute_ids(&q, ids_from(0), n);
  assert_int_equal(q.n_nodes, 4);
  verify_two(&q, NULL);
  layer_memory_release(memory, 0, &q, ids_from(0), 16);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 30), 16);
  close_pages();
}

static void a_leaf_without_its_window_page_goes(void **state) {
  (void)state;
  sequence_memory q = {.n_pages = 0};
  open_pages(32, 4, 6);
  leave_ids(ids_from(0), 12);
  assert_int_equal(layer_memory_extend(memory, &q, 16), GA_OK);
  expect_counts(FULL, 4, 0); /* all nodes have become useless */
  assert_int_equal(memory->tree.n_nodes + memory->tree.n_roots, 0);
  layer_memory_release(memory, 0, &q, NULL, 0);
  close_pages();
}

static void needs_of_kinds(void **state) {
  (void)state;
  const sequence_memory none = {.n_pages = 0};
  int32_t need[MEMORY_KINDS_MAX];
  open_pages(10, 3, 6);
  layer_memory_need(memory, &none, 40, 1, need);
  assert_int_equal(need[FULL], 10);
  assert_int_equal(need[WINDOW], 3); /* 6 tokens lie in up to 3 pages of 4 */
  layer_memory_need(memory, &none, 40, 8, need);
  assert_int_equal(need[WINDOW], 4);
  layer_memory_need(memory, &none, 5, 8, need);
  assert_int_equal(need[WINDOW], 2);
  assert_true(layer_memory_fits(memory, 40));
  assert_false(layer_memory_fits(memory, 41));
  close_pages();
  open_pages(10, 2, 6);
  assert_true(layer_memory_fits(memory, 8));
  assert_false(layer_memory_fits(memory, 9));
  close_pages();
}

/* --- the tree --- */

/* Hashes that collide, which SipHash does not do for us: another node stands where one is looked for. */
static void tokens_are_compared_on_a_hit(void **state) {
  (void)state;
  prefix_tree tree;
  assert_int_equal(prefix_tree_init(&tree, 8, PAGE), GA_OK);
  prefix_node *root = prefix_tree_root_make(&tree, 1);
  prefix_node *a = prefix_tree_add(&tree, root, ids_from(0), PAGE),
              *b = prefix_tree_add(&tree, root, ids_from(1), PAGE);
  assert_ptr_equal(prefix_tree_child(&tree, root, ids_from(0)), a);
  b->hash = a->hash;
  b->chain = NULL;
  tree.buckets[(uint32_t)a->hash & tree.mask] = b;
  assert_null(prefix_tree_child(&tree, root, ids_from(0)));
  b->chain = a;
  a->chain = NULL;
  assert_ptr_equal(prefix_tree_child(&tree, root, ids_from(0)), a);
  prefix_tree_free(&tree);
}

static void keys_of_other_roots_are_compared(void **state) {
  (void)state;
  prefix_tree tree;
  assert_int_equal(prefix_tree_init(&tree, 8, PAGE), GA_OK);
  prefix_node *first = prefix_tree_root_make(&tree, 1), *second = prefix_tree_root_make(&tree, 2);
  const uint64_t hash = first->hash;
  tree.buckets[(uint32_t)hash & tree.mask] = second;
  second->hash = hash;
  second->chain = NULL;
  assert_null(prefix_tree_root(&tree, 1));
  second->chain = first;
  first->chain = NULL;
  assert_ptr_equal(prefix_tree_root(&tree, 1), first);
  /* The same tokens behind another parent, with the same hash. */
  prefix_node *a = prefix_tree_add(&tree, first, ids_from(0), PAGE);
  a->parent = second;
  assert_null(prefix_tree_child(&tree, first, ids_from(0)));
  prefix_tree_free(&tree);
}

static void begun_pages_are_compared_up_to_a_bound(void **state) {
  (void)state;
  const prefix_filter any = {0}, with_window = {.kinds = 1u << WINDOW}, whole = {.whole = true};
  int32_t same;
  prefix_tree tree;
  assert_int_equal(prefix_tree_init(&tree, 64, PAGE), GA_OK);
  prefix_node *root = prefix_tree_root_make(&tree, 1), *first = prefix_tree_add(&tree, root, ids_from(0), 3);
  prefix_node *second = prefix_tree_add(&tree, root, ids_from(0), 2);
  assert_ptr_equal(prefix_tree_similar(&tree, root, ids_from(0), 8, any, &same), first);
  assert_int_equal(same, 3);
  assert_null(prefix_tree_similar(&tree, root, ids_from(0), 8, with_window, &same));
  assert_null(prefix_tree_similar(&tree, root, ids_from(0), 1, whole, &same)); /* one token of three or two */
  assert_ptr_equal(prefix_tree_similar(&tree, root, ids_from(0), 2, whole, &same), second);
  assert_ptr_equal(prefix_tree_begun(&tree, root, ids_from(0), 3), second);
  for (int32_t i = 0; i < PREFIX_CHILDREN; i++) (void)prefix_tree_add(&tree, root, ids_from(100 * i + 100), 2);
  assert_null(prefix_tree_similar(&tree, root, ids_from(0), 8, any, &same));
  prefix_tree_touch(first);
  assert_ptr_equal(prefix_tree_similar(&tree, root, ids_from(0), 8, any, &same), first);
  prefix_tree_free(&tree);
}

static void keys_whose_pages_are_gone_leave_no_root(void **state) {
  (void)state;
  sequence_memory q = {.n_pages = 0};
  open_pages(4, 0, 0);
  for (uint64_t key = 0; key < 100; key++) {
    assert_int_equal(layer_memory_extend(memory, &q, 4), GA_OK);
    layer_memory_computed(memory, key, &q, ids_from(0), 4);
    layer_memory_release(memory, key, &q, ids_from(0), 4);
  }
  assert_int_equal(memory->tree.n_roots, 4);
  close_pages();
}

/* --- host memory --- */

static void expect_copy(int32_t i, unit_way way) {
  assert_true(i < n_copies);
  assert_int_equal(copies[i].way, way);
}

static void evicted_pages_come_back_from_host_memory(void **state) {
  (void)state;
  sequence_memory q = {.n_pages = 0};
  open_with_host(5, 8, true);
  leave_ids(ids_from(0), 12);
  need_all_but(1); /* two are free, two go, the last of the prompt first */
  assert_int_equal(n_copies, 2);
  expect_copy(0, UNIT_TO_HOST);
  assert_int_equal(copies[0].from, 2);
  assert_int_equal(copies[1].from, 1);
  assert_int_equal(layer_memory_counts(memory, FULL).host_used, 2);
  assert_int_equal(match_ids(&q, ids_from(0), 20), 12);
  assert_int_equal(n_copies, 2);
  expect_copy(0, UNIT_FROM_HOST);
  expect_copy(1, UNIT_FROM_HOST);
  assert_int_equal(q.n_nodes, 3);
  assert_int_equal(layer_memory_counts(memory, FULL).host_used, 0);
  verify_two(&q, NULL);
  layer_memory_release(memory, 0, &q, NULL, 0);
  close_pages();
}

static void a_match_that_is_not_loaded_moves_nothing(void **state) {
  (void)state;
  sequence_memory q = {.n_pages = 0};
  prefix_match found;
  open_with_host(5, 8, true);
  leave_ids(ids_from(0), 12);
  need_all_but(1);
  layer_memory_copied(memory);
  assert_int_equal(layer_memory_match(memory, 0, ids_from(0), 20, &q, &found), GA_OK);
  assert_int_equal(found.tokens, 12);
  assert_int_equal(q.n_pages, 1); /* what is on the device */
  layer_memory_release(memory, 0, &q, NULL, 0);
  (void)layer_memory_copies(memory, &n_copies);
  assert_int_equal(n_copies, 0);
  assert_int_equal(layer_memory_counts(memory, FULL).host_used, 2);
  close_pages();
}

static void tokens_in_host_memory_are_compared(void **state) {
  (void)state;
  open_with_host(4, 8, true);
  leave_ids(ids_from(0), 12);
  need_all_but(0);
  assert_int_equal(layer_memory_counts(memory, FULL).host_used, 3);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 20), 12);
  assert_int_equal(layer_memory_peek(memory, 1, ids_from(0), 20), 0);
  memory->tree.tokens[PAGE] = -1; /* of the second page, as if two had one hash */
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 20), PAGE);
  memory->tree.tokens[PAGE] = 4;
  close_pages();
}

static void the_least_recently_used_leaf_leaves_host_memory(void **state) {
  (void)state;
  open_with_host(4, 3, true);
  leave_ids(ids_from(0), 8);
  leave_ids(ids_from(100), 8);
  need_all_but(0); /* four pages for three places: the end of the first prompt is lost */
  assert_int_equal(layer_memory_counts(memory, FULL).host_used, 3);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 20), 4);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(100), 20), 8);
  close_pages();
}

static void only_pages_of_the_preempted_go_to_host_memory(void **state) {
  (void)state;
  sequence_memory q = {.n_pages = 0};
  open_with_host(6, 8, false);
  leave_ids(ids_from(0), 8);
  compute_ids(&q, ids_from(100), 10);
  layer_memory_release_as(memory, 0, &q, ids_from(100), 10, &(const release_policy){.swap = true});
  need_all_but(0);
  assert_int_equal(n_copies, 3);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 20), 0);
  assert_int_equal(match_ids(&q, ids_from(100), 20), 10); /* the begun page is copied from where it is */
  assert_int_equal(n_copies, 3);
  expect_copy(2, UNIT_FROM_HOST);
  assert_int_equal(layer_memory_counts(memory, FULL).host_used, 1);
  verify_two(&q, NULL);
  layer_memory_release(memory, 0, &q, NULL, 0);
  need_all_but(0); /* it has come back: an ordinary prefix now */
  assert_int_equal(n_copies, 0);
  close_pages();
}

/* A path from host memory takes the page that a copy of the begun one behind it would need. */
static void pages_that_come_back_go_before_a_copy(void **state) {
  (void)state;
  sequence_memory a = {.n_pages = 0}, q = {.n_pages = 0};
  open_with_host(4, 8, true);
  leave_ids(ids_from(0), 8);
  need_all_but(0);
  assert_int_equal(layer_memory_extend(memory, &a, 3 * PAGE), GA_OK);
  assert_int_equal(match_ids(&q, ids_from(0), 8), 4); /* 7 tokens are there, in two pages */
  verify_two(&a, &q);
  layer_memory_release(memory, 0, &q, NULL, 0);
  layer_memory_release(memory, 0, &a, NULL, 0);
  assert_int_equal(match_ids(&q, ids_from(0), 8), 7);
  layer_memory_release(memory, 0, &q, NULL, 0);
  close_pages();
}

/* --- failures --- */

static void failing_memory_changes_nothing(void **state) {
  (void)state;
  sequence_memory q = {.n_pages = 0};
  prefix_match found;
  open_pages(16, 16, 8);
  leave_ids(ids_from(0), 12);
  for (long n = 1; n <= 2; n++) {
    ga_mem_fail_after(n);
    const ga_status status = layer_memory_match(memory, 0, ids_from(0), 20, &q, &found);
    const ga_status extended = layer_memory_extend(memory, &q, 4);
    ga_mem_fail_after(0);
    assert_int_equal(status, GA_ERR_NOMEM);
    assert_int_equal(extended, GA_ERR_NOMEM);
    assert_int_equal(q.n_pages, 0);
    expect_counts(FULL, 0, 3);
  }
  assert_int_equal(layer_memory_reserve(memory, &q, 20), GA_OK);
  ga_mem_fail_after(1); /* none is needed now */
  assert_int_equal(match_ids(&q, ids_from(0), 20), 12);
  assert_int_equal(layer_memory_extend(memory, &q, 20), GA_OK);
  layer_memory_computed(memory, 0, &q, ids_from(0), 20);
  layer_memory_release(memory, 0, &q, ids_from(0), 20);
  ga_mem_fail_after(0);
  close_pages();
}

static void the_check_sees_damage(void **state) {
  (void)state;
  sequence_memory q = {.n_pages = 0};
  const sequence_memory *const list[] = {&q};
  open_pages(8, 8, 8);
  compute_ids(&q, ids_from(0), 10);
  int32_t *const numbers[] = {&memory->pool[FULL].refs[0],
                              &memory->pool[FULL].n_used,
                              &q.units[FULL][1],
                              &memory->pool[WINDOW].n_cached,
                              &q.node->users,
                              &q.node->n_tokens,
                              &memory->tree.n_nodes,
                              &q.units[WINDOW][2]};
  verify_two(&q, NULL);
  for (size_t i = 0; i < GA_COUNT_OF(numbers); i++) {
    ++*numbers[i];
    assert_int_equal(layer_memory_verify(memory, list, 1), GA_ERR_INTERNAL);
    --*numbers[i];
  }
  assert_int_equal(layer_memory_verify(memory, NULL, 0), GA_ERR_INTERNAL);
  verify_two(&q, NULL);
  layer_memory_release(memory, 0, &q, ids_from(0), 10);
  close_pages();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(siphash_gives_its_authors_vectors),
      cmocka_unit_test(bad_pools_are_refused),
      cmocka_unit_test(creation_survives_failing_memory),
      cmocka_unit_test(a_prompt_takes_the_longest_kept_prefix),
      cmocka_unit_test(sequences_share_pages),
      cmocka_unit_test(the_least_recently_used_leaf_goes_first),
      cmocka_unit_test(pages_in_use_are_not_evicted),
      cmocka_unit_test(a_begun_page_is_copied),
      cmocka_unit_test(without_a_page_for_it_there_is_no_copy),
      cmocka_unit_test(the_same_page_computed_twice_stays_private),
      cmocka_unit_test(a_private_page_merges_at_the_end),
      cmocka_unit_test(nothing_is_kept_without_prefixes),
      cmocka_unit_test(pages_behind_the_window_come_back),
      cmocka_unit_test(a_match_needs_the_pages_of_its_window),
      cmocka_unit_test(passed_window_pages_go_before_wanted_ones),
      cmocka_unit_test(a_lost_window_page_is_put_back),
      cmocka_unit_test(a_leaf_without_its_window_page_goes),
      cmocka_unit_test(needs_of_kinds),
      cmocka_unit_test(tokens_are_compared_on_a_hit),
      cmocka_unit_test(keys_of_other_roots_are_compared),
      cmocka_unit_test(begun_pages_are_compared_up_to_a_bound),
      cmocka_unit_test(keys_whose_pages_are_gone_leave_no_root),
      cmocka_unit_test(evicted_pages_come_back_from_host_memory),
      cmocka_unit_test(a_match_that_is_not_loaded_moves_nothing),
      cmocka_unit_test(tokens_in_host_memory_are_compared),
      cmocka_unit_test(the_least_recently_used_leaf_leaves_host_memory),
      cmocka_unit_test(only_pages_of_the_preempted_go_to_host_memory),
      cmocka_unit_test(pages_that_come_back_go_before_a_copy),
      cmocka_unit_test(failing_memory_changes_nothing),
      cmocka_unit_test(the_check_sees_damage),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
