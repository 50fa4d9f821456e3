#include "cli/dist/timeline.h"

#include <stdio.h>

#include "cmdline/error.h"

/* Names the span that takes most of a gap: "compute: wait for rank 1 (KV)". */
static void name_gap(const dist_timeline *t, int32_t r, const rank_gap *g, char *text, size_t capacity) {
  const rank_span *s = dist_span_of_gap(dist_spans_of_rank(t, r), t->rank[r].of.spans, g);
  char name[DIST_SPAN_NAME];
  (void)snprintf(text, capacity, "for the most part no span");
  if (!s) return;
  dist_name_span(s, name);
  (void)snprintf(text, capacity, "%s: %s", s->stream_name, name);
}

static ga_status find_times(const dist_timeline *t, int32_t r, rank_times *out) {
  return dist_rank_times(dist_spans_of_rank(t, r), t->rank[r].of.spans, t->rank[r].of.seconds, out);
}

static ga_status print_rank_times(const dist_timeline *t, int32_t r) {
  rank_times x;
  char name[128];
  TRY(find_times(t, r, &x));
  const double seconds = t->rank[r].of.seconds;
  printf("%4d %9.3f %10.3f %14.3f %11.3f %8.3f %13.3f %8.3f\n", r, seconds * 1e3, x.attention * 1e3,
         x.communication * 1e3, x.overlapped * 1e3, (x.communication - x.overlapped) * 1e3,
         (seconds - x.attention) * 1e3, x.waiting * 1e3);
  for (int i = 0; i < TIMELINE_GAPS && x.gaps[i].seconds > 0; i++) {
    name_gap(t, r, &x.gaps[i], name, sizeof name);
    printf("     %.3f ms without attention at %.3f: %s\n", x.gaps[i].seconds * 1e3, x.gaps[i].begin * 1e3, name);
  }
  return GA_OK;
}

ga_status timeline_print(const char *path, const dist_timeline *t) {
  printf("timeline of the last run, in ms, %s:\n", path);
  printf("rank       run  attention  communication  overlapped  exposed  no attention  waiting\n");
  for (int32_t r = 0; r < t->ranks; r++) TRY(print_rank_times(t, r));
  return GA_OK;
}

static json_t *json_of_gaps(const dist_timeline *t, int32_t r, const rank_times *x) {
  json_t *list = json_array();
  char name[128];
  for (int i = 0; i < TIMELINE_GAPS && x->gaps[i].seconds > 0; i++) {
    name_gap(t, r, &x->gaps[i], name, sizeof name);
    (void)json_array_append_new(
        list, json_pack("{s:f, s:f, s:s}", "begin", x->gaps[i].begin, "seconds", x->gaps[i].seconds, "what", name));
  }
  return list;
}

ga_status timeline_json(const char *path, const dist_timeline *t, json_t **out) {
  json_t *list = json_array();
  *out = NULL;
  for (int32_t r = 0; r < t->ranks; r++) {
    const ga_dist_timeline *of = &t->rank[r].of;
    rank_times x;
    const ga_status status = find_times(t, r, &x);
    if (status != GA_OK) json_decref(list);
    TRY(status);
    (void)json_array_append_new(list, json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "seconds",
                                                of->seconds, "attention", x.attention, "communication", x.communication,
                                                "overlapped", x.overlapped, "exposed", x.communication - x.overlapped,
                                                "no_attention", of->seconds - x.attention, "waiting", x.waiting,
                                                "start", dist_start_of_rank(t, r), "start_error", of->start_error,
                                                "gaps", json_of_gaps(t, r, &x)));
  }
  *out = json_pack("{s:s, s:o}", "file", path, "ranks", list);
  return GA_OK;
}
