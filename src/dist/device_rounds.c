/* A plan's messages where devices do not write into each other's memory. Steps only note what they send and receive; a
 * round (rounds.h) is run when the first step has to wait for one of its messages. By then the host has enqueued what
 * comes before that step, so that tiles are computed while messages travel. */
#include "base/mem.h"
#include "dist/device.h"
#include "dist/rounds.h"

struct dist_rounds {
  int32_t *of_step; /* [steps] */
  int32_t n;
  int64_t *begin, *order;    /* order[begin[r] to begin[r + 1]]: steps of round r, as they are in the program */
  ga_event **ready, **there; /* [n] behind the last step that a round needs; behind the round */
  int32_t next;              /* round to be run */
  void *packed;              /* what a round sends */
  ga_link_message *messages;
};

static const dist_step *step_at(const dist_device *e, int64_t i) { return &e->plan->programs[e->rank].steps[i]; }

/* --- making --- */

static ga_status list_rounds(dist_device *e) {
  const dist_program *g = &e->plan->programs[e->rank];
  dist_rounds *x = e->rounds;
  void *p;
  GA_TRY(ga_mem_zalloc((size_t)g->n_steps + 1, sizeof *x->of_step, "steps of a rank", &p));
  x->of_step = p;
  GA_TRY(dist_rounds_find(e->plan, e->rank, x->of_step, &x->n));
  GA_TRY(ga_mem_zalloc((size_t)x->n + 2, sizeof *x->begin, "rounds of messages", &p));
  x->begin = p;
  GA_TRY(ga_mem_zalloc((size_t)g->n_steps + 1, sizeof *x->order, "steps of a rank", &p));
  x->order = p;
  for (int64_t i = 0; i < g->n_steps; i++)
    if (x->of_step[i] >= 0) x->begin[x->of_step[i] + 2]++;
  for (int32_t r = 0; r < x->n; r++) x->begin[r + 2] += x->begin[r + 1];
  for (int64_t i = 0; i < g->n_steps; i++) /* begin[r + 1] goes from where r begins to where it ends */
    if (x->of_step[i] >= 0) x->order[x->begin[x->of_step[i] + 1]++] = i;
  return GA_OK;
}

static ga_status make_round_events(dist_device *e) {
  dist_rounds *x = e->rounds;
  void *p;
  GA_TRY(ga_mem_zalloc((size_t)x->n + 1, sizeof(ga_event *), "rounds of messages", &p));
  x->ready = p;
  GA_TRY(ga_mem_zalloc((size_t)x->n + 1, sizeof(ga_event *), "rounds of messages", &p));
  x->there = p;
  for (int32_t r = 0; r < x->n; r++) {
    GA_TRY(ga_event_create(e->ctx, &x->ready[r]));
    GA_TRY(ga_event_create(e->ctx, &x->there[r]));
  }
  return GA_OK;
}

static ga_status make_packed(dist_device *e) {
  dist_rounds *x = e->rounds;
  size_t most = 1;
  int64_t most_messages = 0;
  void *p;
  for (int32_t r = 0; r < x->n; r++) {
    size_t bytes = 0;
    for (int64_t i = x->begin[r]; i < x->begin[r + 1]; i++) {
      const block_view v = dist_device_view(e->plan, step_at(e, x->order[i]), e->w.memory.of[e->rank].data);
      if (step_at(e, x->order[i])->kind == DIST_SEND) bytes += dist_device_extent(&v);
    }
    if (bytes > most) most = bytes;
    most_messages = ga_max_i64(most_messages, x->begin[r + 1] - x->begin[r]);
  }
  GA_TRY(ga_mem_zalloc((size_t)most_messages + 1, sizeof *x->messages, "messages of a round", &p));
  x->messages = p;
  return ga_buffer_alloc_zeroed(e->ctx, most, "attention of ranks", &x->packed);
}

ga_status dist_rounds_create(dist_device *e) {
  void *p;
  GA_TRY(ga_mem_zalloc(1, sizeof(dist_rounds), "rounds of messages", &p));
  e->rounds = p;
  GA_TRY(list_rounds(e));
  GA_TRY(make_round_events(e));
  return make_packed(e);
}

void dist_rounds_destroy(dist_device *e) {
  dist_rounds *x = e->rounds;
  if (!x) return;
  for (int32_t r = 0; x->ready && x->there && r < x->n; r++) {
    ga_event_destroy(x->ready[r]);
    ga_event_destroy(x->there[r]);
  }
  ga_buffer_free(e->ctx, x->packed);
  ga_mem_free(x->of_step);
  ga_mem_free(x->begin);
  ga_mem_free(x->order);
  ga_mem_free((void *)x->ready);
  ga_mem_free((void *)x->there);
  ga_mem_free(x->messages);
  ga_mem_free(x);
  e->rounds = NULL;
}

/* --- a run --- */

int32_t dist_rounds_of(const dist_device *e) { return e->rounds->n; }

void dist_rounds_begin(dist_device *e) { e->rounds->next = 0; }

ga_status dist_rounds_post(dist_device *e, const dist_step *s, int32_t *round) {
  *round = e->rounds->of_step[s - step_at(e, 0)];
  return ga_event_record(e->ctx, e->rounds->ready[*round], e->compute);
}

static ga_status run_round(dist_device *e, int32_t round) {
  dist_rounds *x = e->rounds;
  const int64_t n = x->begin[round + 1] - x->begin[round];
  char *at = x->packed;
  int64_t sent = 0;
  if (!n) return GA_OK;
  GA_TRY(dist_device_follow(e, e->copies, x->ready[round], "compute"));
  GA_TRY(dist_span_begin(e->spans, e->copies, &(span_of){GA_DIST_WORK_COPY, "what is sent", -1, -1, 0}));
  for (int64_t i = 0; i < n; i++) {
    const dist_step *s = step_at(e, x->order[x->begin[round] + i]);
    const bool send = s->kind == DIST_SEND;
    const block_view v = dist_device_view(e->plan, s, send ? at : e->slots[s->slot].memory);
    x->messages[i] = (ga_link_message){s->peer, send, send ? at : e->slots[s->slot].memory, dist_device_extent(&v)};
    if (!send) continue;
    const block_view from = dist_device_slot(e, s->slot);
    GA_TRY(dist_device_copy(e->copies, &v, &from));
    at += x->messages[i].bytes;
    sent += s->bytes;
  }
  GA_TRY(dist_span_end(e->spans, e->copies));
  GA_TRY(dist_span_begin(e->spans, e->copies, &(span_of){GA_DIST_WORK_EXCHANGE, "", -1, -1, sent}));
  GA_TRY(dist_exchange_run(e->exchange, e->copies, x->messages, n));
  GA_TRY(dist_span_end(e->spans, e->copies));
  GA_TRY(ga_event_record(e->ctx, x->there[round], e->copies));
  return dist_device_note(e, e->copies, DIST_COPIES);
}

static ga_status run_rounds_to(dist_device *e, int32_t round) {
  for (; e->rounds->next <= round; e->rounds->next++) GA_TRY(run_round(e, e->rounds->next));
  return GA_OK;
}

ga_status dist_rounds_end(dist_device *e) { return run_rounds_to(e, e->rounds->n - 1); }

ga_status dist_rounds_await(dist_device *e, int32_t round) {
  GA_TRY(run_rounds_to(e, round));
  return dist_device_follow(e, e->compute, e->rounds->there[round], "copies");
}
