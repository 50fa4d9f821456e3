#include "verify/dist/timeline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/status.h"

static uint64_t hash_of_host(void) {
  char name[256] = "";
  (void)gethostname(name, sizeof name - 1);
  return ga_fnv64(GA_FNV64_START, name, strlen(name));
}

static ga_status take_spans(const ga_dist_exec *exec, rank_span *out, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    ga_dist_span s = GA_DIST_SPAN_INIT;
    GA_TRY(ga_dist_exec_span(exec, i, &s));
    out[i] = (rank_span){.work = s.work,
                         .stream = s.stream,
                         .peer = s.peer,
                         .group = s.group,
                         .bytes = s.bytes,
                         .begin = s.begin,
                         .end = s.end};
    (void)snprintf(out[i].stream_name, sizeof out[i].stream_name, "%s", s.stream_name);
    (void)snprintf(out[i].what, sizeof out[i].what, "%s", s.what);
  }
  return GA_OK;
}

static ga_status gather_ranks(ga_comm *comm, const ga_dist_exec *exec, dist_timeline *t) {
  rank_timeline mine = {.of = GA_DIST_TIMELINE_INIT, .host = hash_of_host()};
  GA_TRY(ga_dist_exec_timeline(exec, &mine.of));
  t->rank = calloc((size_t)t->ranks, sizeof *t->rank);
  if (!t->rank) return ga_fail_nomem("ranks", (size_t)t->ranks * sizeof *t->rank);
  GA_TRY(ga_comm_all_gather(comm, &mine, sizeof mine, t->rank));
  for (int32_t r = 0; r < t->ranks; r++)
    if (t->room < t->rank[r].of.spans) t->room = t->rank[r].of.spans;
  return GA_OK;
}

/* Gathers equal numbers of spans from all ranks: as many as the rank with the most has. */
static ga_status gather_spans(ga_comm *comm, const ga_dist_exec *exec, dist_timeline *t) {
  const size_t bytes = (size_t)t->room * sizeof *t->spans;
  rank_span *mine = calloc((size_t)t->room + 1, sizeof *mine);
  t->spans = calloc((size_t)t->ranks * (size_t)t->room + 1, sizeof *t->spans);
  ga_status status = mine && t->spans ? GA_OK : ga_fail_nomem("spans", bytes * (size_t)t->ranks);
  if (status == GA_OK) status = take_spans(exec, mine, t->rank[ga_comm_rank(comm)].of.spans);
  if (status == GA_OK && bytes) status = ga_comm_all_gather(comm, mine, bytes, t->spans);
  free(mine);
  return status;
}

ga_status dist_timeline_gather(ga_comm *comm, const ga_dist_exec *exec, dist_timeline *out) {
  dist_timeline t = {.ranks = ga_comm_size(comm)};
  ga_status status = gather_ranks(comm, exec, &t);
  if (status == GA_OK) status = gather_spans(comm, exec, &t);
  if (status == GA_OK && ga_comm_rank(comm) == 0)
    *out = t;
  else
    dist_timeline_free(&t);
  return status;
}

void dist_timeline_free(dist_timeline *t) {
  free(t->rank);
  free(t->spans);
  *t = (dist_timeline){0};
}

const rank_span *dist_spans_of_rank(const dist_timeline *t, int32_t r) { return t->spans + (int64_t)r * t->room; }

void dist_name_span(const rank_span *s, char text[DIST_SPAN_NAME]) {
  char peer[24] = "", what[32] = "";
  if (s->peer >= 0)
    (void)snprintf(peer, sizeof peer, " %s rank %d", s->work == GA_DIST_WORK_WAIT ? "for" : "to", s->peer);
  if (*s->what) (void)snprintf(what, sizeof what, " (%s)", s->what);
  (void)snprintf(text, DIST_SPAN_NAME, "%s%s%s", ga_dist_work_name(s->work), peer, what);
}

double dist_start_of_rank(const dist_timeline *t, int32_t r) {
  double first = t->rank[r].of.start;
  for (int32_t i = 0; i < t->ranks; i++)
    if (t->rank[i].host == t->rank[r].host) first = fmin(first, t->rank[i].of.start);
  return t->rank[r].of.start - first;
}
