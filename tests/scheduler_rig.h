/* A scheduler over simulated pages, and its requests, for tests. Included by one source of a program. */
#ifndef GA_TESTS_SCHEDULER_RIG_H
#define GA_TESTS_SCHEDULER_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine/sched_queue.h"
#include "tests/memory_kinds.h"

enum { PAGE = 4, IDS = 4096, MANY = 64 };

static layer_memory *memory;
static scheduler *s;
static const sched_plan *plan;
static sched_request requests[MANY];
static int32_t ids[MANY][IDS];
static double now;

static inline void open_scheduler(int32_t n_pages, int32_t n_host, const sched_options *so) {
  layer_memory_options po = memory_test_options(PAGE, 0);
  po.n_units[FULL] = n_pages;
  po.n_host[FULL] = n_host;
  assert_int_equal(layer_memory_create(&po, &memory), GA_OK);
  assert_int_equal(scheduler_create(so, memory, &s), GA_OK);
  memset(requests, 0, sizeof requests);
  now = 0;
}

static inline void open_tiled(int32_t n_pages, int32_t max_sequences, int32_t step_tokens, int32_t chunk_tokens,
                              int32_t step_tile) {
  open_scheduler(n_pages, 0, &(sched_options){max_sequences, step_tokens, chunk_tokens, step_tile, 0});
}

/* With pages in host memory; costs: seconds of a token, and of a page there and back. */
static inline void open_swapping(int32_t n_pages, int32_t n_host, double token, double page) {
  open_scheduler(n_pages, n_host, &(sched_options){4, 64, 64, 1, 0});
  scheduler_set_costs(s, &(sched_costs){token, {page, 0}});
}

static inline void open_with(int32_t n_pages, int32_t max_sequences, int32_t step_tokens, int32_t chunk_tokens) {
  open_tiled(n_pages, max_sequences, step_tokens, chunk_tokens, 1);
}

static inline void close_all(void) {
  for (int i = 0; i < MANY; i++) scheduler_remove(s, &requests[i]);
  assert_int_equal(scheduler_n_running(s) + scheduler_n_waiting(s), 0);
  assert_int_equal(layer_memory_verify(memory, NULL, 0), GA_OK);
  assert_int_equal(layer_memory_counts(memory, FULL).used, 0);
  scheduler_destroy(s);
  layer_memory_destroy(memory);
}

/* Request i, of tokens that no other has. */
static inline sched_request *prepare(int i, int32_t n_prompt, int32_t max_ids) {
  for (int32_t k = 0; k < IDS; k++) ids[i][k] = i * IDS + k;
  requests[i] = (sched_request){
      .ids = ids[i], .n_prompt = n_prompt, .n_ids = n_prompt, .max_ids = max_ids, .use_prefix = true, .arrival = now};
  return &requests[i];
}

static inline sched_request *add(int i, int32_t n_prompt, int32_t max_ids) {
  sched_request *r = prepare(i, n_prompt, max_ids);
  assert_int_equal(scheduler_add(s, r), GA_OK);
  return r;
}

static inline sched_request *add_of(int i, int32_t n_prompt, int32_t priority, uint64_t tenant) {
  sched_request *r = prepare(i, n_prompt, 40 > n_prompt ? 40 : n_prompt + 200);
  r->priority = priority;
  r->tenant = tenant;
  assert_int_equal(scheduler_add(s, r), GA_OK);
  return r;
}

static inline void make_plan(void) {
  layer_memory_copied(memory);
  assert_int_equal(scheduler_plan(s, now, &plan), GA_OK);
}

static inline int32_t n_copies_of(unit_way way) {
  int32_t n, of_way = 0;
  const unit_copy *copies = layer_memory_copies(memory, &n);
  for (int32_t i = 0; i < n; i++) of_way += copies[i].way == way;
  return of_way;
}

static inline void take_tokens(void) {
  scheduler_done(s);
  for (int32_t i = 0; i < plan->n_items; i++)
    if (plan->items[i].request) plan->items[i].request->n_ids += plan->items[i].samples;
}

static inline void finish_plan(void) {
  take_tokens();
  now += 1;
}

static inline void go_ahead(void) {
  const sched_plan *ahead;
  scheduler_plan_ahead(s, now += 1, &ahead); /* before the tokens of this one are known */
  take_tokens();
  plan = ahead;
}

static inline void step(void) {
  make_plan();
  finish_plan();
}

static inline void expect_item(int32_t i, const sched_request *r, int32_t first, int32_t n, bool samples) {
  assert_true(i < plan->n_items);
  assert_ptr_equal(plan->items[i].request, r);
  assert_int_equal(plan->items[i].first, first);
  assert_int_equal(plan->items[i].n, n);
  assert_int_equal(plan->items[i].samples, samples);
}

#endif
