#include "dist/rounds.h"

#include "base/mem.h"

/* A message: how many rounds its sender and its receiver have waited for before its step; -1 = not there yet. */
typedef struct round_message {
  int32_t sender, receiver;
} round_message;

/* A send out of a slot that is not free again. */
typedef struct open_send {
  int64_t message;
  int32_t slot;
} open_send;

/* How far a rank has come. */
typedef struct round_rank {
  int64_t step;
  int32_t waited;        /* rounds it has waited for: 0 to ... */
  int64_t *slot_message; /* [n_slots] that was posted for it */
  open_send *sends;
  int64_t n_sends, send_room;
} round_rank;

typedef struct round_finder {
  const ga_dist_plan *plan;
  round_message *messages;
  int64_t *first;         /* [from x ranks + to] its first message */
  int64_t *sent, *wanted; /* the same: how many steps have been taken */
  round_rank *ranks;
} round_finder;

/* -1 while one side has not come. */
static int32_t round_of_message(const round_finder *f, int64_t message) {
  const round_message *m = &f->messages[message];
  if (m->sender < 0 || m->receiver < 0) return -1;
  return m->sender > m->receiver ? m->sender : m->receiver;
}

static void wait_for_round(round_rank *r, int32_t round) {
  if (round >= r->waited) r->waited = round + 1;
}

/* False: some send out of the slot has no receiver yet. */
static bool end_sends_of_slot(const round_finder *f, round_rank *r, int32_t slot) {
  int64_t kept = 0;
  for (int64_t i = 0; i < r->n_sends; i++)
    if (r->sends[i].slot == slot && round_of_message(f, r->sends[i].message) < 0) return false;
  for (int64_t i = 0; i < r->n_sends; i++) {
    if (r->sends[i].slot == slot)
      wait_for_round(r, round_of_message(f, r->sends[i].message));
    else
      r->sends[kept++] = r->sends[i];
  }
  r->n_sends = kept;
  return true;
}

/* One step, if it need not wait. */
static ga_status take_round_step(round_finder *f, int32_t rank, bool *taken) {
  round_rank *r = &f->ranks[rank];
  const int32_t ranks = f->plan->p.ranks;
  const dist_step *s = &f->plan->programs[rank].steps[r->step];
  *taken = true;
  if (s->kind == DIST_SEND) {
    const int64_t pair = (int64_t)rank * ranks + s->peer, message = f->first[pair] + f->sent[pair]++;
    GA_REQUIRE(message < f->first[pair + 1], GA_ERR_INTERNAL, "dist: rank %d sends more to rank %d than that takes",
               rank, s->peer);
    f->messages[message].sender = r->waited;
    GA_TRY(dist_grow(&r->sends, r->n_sends, &r->send_room, sizeof *r->sends, "sends of a rank"));
    r->sends[r->n_sends++] = (open_send){message, s->slot};
  } else if (s->kind == DIST_RECEIVE) {
    const int64_t pair = (int64_t)s->peer * ranks + rank, message = f->first[pair] + f->wanted[pair]++;
    f->messages[message].receiver = r->waited;
    r->slot_message[s->slot] = message;
  } else if (s->kind == DIST_WAIT) {
    const int32_t round = round_of_message(f, r->slot_message[s->slot]);
    *taken = round >= 0;
    if (*taken) wait_for_round(r, round);
  } else if (s->kind == DIST_FREE) {
    *taken = end_sends_of_slot(f, r, s->slot);
  }
  r->step += *taken;
  return GA_OK;
}

static ga_status take_round_steps(round_finder *f) {
  const ga_dist_plan *plan = f->plan;
  for (bool moved = true; moved;) {
    moved = false;
    for (int32_t r = 0; r < plan->p.ranks; r++)
      for (bool taken = true; taken && f->ranks[r].step < plan->programs[r].n_steps; moved |= taken)
        GA_TRY(take_round_step(f, r, &taken));
  }
  for (int32_t r = 0; r < plan->p.ranks; r++)
    GA_REQUIRE(f->ranks[r].step == plan->programs[r].n_steps, GA_ERR_INTERNAL,
               "dist: step %lld of rank %d waits for ever", (long long)f->ranks[r].step, r);
  return GA_OK;
}

static ga_status make_finder(round_finder *f) {
  const int32_t ranks = f->plan->p.ranks;
  const size_t pairs = (size_t)ranks * (size_t)ranks;
  int64_t n = 0;
  void *p;
  GA_TRY(ga_mem_zalloc(pairs + 1, sizeof *f->first, "pairs of ranks", &p));
  f->first = p;
  GA_TRY(ga_mem_zalloc(pairs, sizeof *f->sent, "pairs of ranks", &p));
  f->sent = p;
  GA_TRY(ga_mem_zalloc(pairs, sizeof *f->wanted, "pairs of ranks", &p));
  f->wanted = p;
  GA_TRY(ga_mem_zalloc((size_t)ranks, sizeof *f->ranks, "ranks", &p));
  f->ranks = p;
  for (int32_t r = 0; r < ranks; r++) {
    const dist_program *g = &f->plan->programs[r];
    GA_TRY(ga_mem_zalloc((size_t)g->n_slots, sizeof *f->ranks[r].slot_message, "slots of a rank", &p));
    f->ranks[r].slot_message = p;
    for (int64_t i = 0; i < g->n_steps; i++)
      if (g->steps[i].kind == DIST_RECEIVE) f->first[(int64_t)g->steps[i].peer * ranks + r + 1]++, n++;
  }
  for (size_t i = 0; i < pairs; i++) f->first[i + 1] += f->first[i];
  GA_TRY(ga_mem_zalloc((size_t)n + 1, sizeof *f->messages, "messages of a plan", &p));
  f->messages = p;
  for (int64_t i = 0; i < n; i++) f->messages[i] = (round_message){-1, -1};
  return GA_OK;
}

static void free_finder(round_finder *f) {
  for (int32_t r = 0; f->ranks && r < f->plan->p.ranks; r++) {
    ga_mem_free(f->ranks[r].slot_message);
    ga_mem_free(f->ranks[r].sends);
  }
  ga_mem_free(f->first);
  ga_mem_free(f->sent);
  ga_mem_free(f->wanted);
  ga_mem_free(f->ranks);
  ga_mem_free(f->messages);
}

/* The k-th send from one rank to another is its k-th receive: what the verifier has proved. */
static void give_rounds(round_finder *f, int32_t rank, int32_t *of_step, int32_t *rounds) {
  const dist_program *g = &f->plan->programs[rank];
  const int32_t ranks = f->plan->p.ranks;
  for (int64_t i = 0; i < (int64_t)ranks * ranks; i++) f->sent[i] = f->wanted[i] = 0;
  *rounds = 0;
  for (int64_t i = 0; i < g->n_steps; i++) {
    const dist_step *s = &g->steps[i];
    const int64_t out = (int64_t)rank * ranks + s->peer, in = (int64_t)s->peer * ranks + rank;
    of_step[i] = -1;
    if (s->kind == DIST_SEND) of_step[i] = round_of_message(f, f->first[out] + f->sent[out]++);
    if (s->kind == DIST_RECEIVE) of_step[i] = round_of_message(f, f->first[in] + f->wanted[in]++);
    if (of_step[i] >= *rounds) *rounds = of_step[i] + 1;
  }
}

ga_status dist_rounds_find(const ga_dist_plan *plan, int32_t rank, int32_t *of_step, int32_t *rounds) {
  round_finder f = {.plan = plan};
  ga_status status = make_finder(&f);
  if (status == GA_OK) status = take_round_steps(&f);
  if (status == GA_OK) give_rounds(&f, rank, of_step, rounds);
  free_finder(&f);
  return status;
}
