#include "verify/dist/timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmdline/error.h"

/* --- from all ranks --- */

static uint64_t hash_of_host(void) {
  char name[256] = "";
  (void)gethostname(name, sizeof name - 1);
  return dist_hash(DIST_HASH_START, name, strlen(name));
}

static ga_status take_spans(const ga_dist_exec *exec, rank_span *out, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    ga_dist_span s = GA_DIST_SPAN_INIT;
    TRY(ga_dist_exec_span(exec, i, &s));
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
  TRY(ga_dist_exec_timeline(exec, &mine.of));
  t->rank = calloc((size_t)t->ranks, sizeof *t->rank);
  if (!t->rank) return fail_nomem("ranks", (size_t)t->ranks * sizeof *t->rank);
  TRY(ga_comm_all_gather(comm, &mine, sizeof mine, t->rank));
  for (int32_t r = 0; r < t->ranks; r++)
    if (t->room < t->rank[r].of.spans) t->room = t->rank[r].of.spans;
  return GA_OK;
}

/* All ranks send as many: as the one that has most. */
static ga_status gather_spans(ga_comm *comm, const ga_dist_exec *exec, dist_timeline *t) {
  const size_t bytes = (size_t)t->room * sizeof *t->spans;
  rank_span *mine = calloc((size_t)t->room + 1, sizeof *mine);
  t->spans = calloc((size_t)t->ranks * (size_t)t->room + 1, sizeof *t->spans);
  ga_status status = mine && t->spans ? GA_OK : fail_nomem("spans", bytes * (size_t)t->ranks);
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

static const rank_span *spans_of_rank(const dist_timeline *t, int32_t r) { return t->spans + (int64_t)r * t->room; }

/* --- the file --- */

static ga_status name_part(const char *path, char part[4096]) {
  const int n = snprintf(part, 4096, "%s.%ld.part", path, (long)getpid());
  REQUIRE(n > 0 && n < 4096, GA_ERR_ARG, "--timeline: the file's name has %zu bytes; at most 4000", strlen(path));
  return GA_OK;
}

static ga_status open_trace(const char *path, const char *part, FILE **out) {
  const int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  *out = fd < 0 ? NULL : fdopen(fd, "w");
  if (*out) return GA_OK;
  const int why = errno;
  if (fd >= 0) (void)close(fd);
  return ga_error_set(GA_ERR_IO, "--timeline %s: %s", path, strerror(why));
}

ga_status dist_timeline_check(const char *path) {
  char part[4096];
  struct stat st;
  FILE *f;
  REQUIRE(stat(path, &st) || S_ISREG(st.st_mode), GA_ERR_IO, "--timeline %s: it is no regular file", path);
  json_t *text = json_string(path); /* it stands in the JSON of the run */
  json_decref(text);
  REQUIRE(text, GA_ERR_ARG, "--timeline %s: the name must be UTF-8", path);
  TRY(name_part(path, part));
  TRY(open_trace(path, part, &f));
  (void)fclose(f);
  (void)unlink(part);
  return GA_OK;
}

/* "wait for rank 1 (KV)". */
static void name_span(const rank_span *s, char *text, size_t capacity) {
  char peer[24] = "", what[32] = "";
  if (s->peer >= 0)
    (void)snprintf(peer, sizeof peer, " %s rank %d", s->work == GA_DIST_WORK_WAIT ? "for" : "to", s->peer);
  if (*s->what) (void)snprintf(what, sizeof what, " (%s)", s->what);
  (void)snprintf(text, capacity, "%s%s%s", ga_dist_work_name(s->work), peer, what);
}

/* Ranks of a host begin with the first of them. */
static double start_of_rank(const dist_timeline *t, int32_t r) {
  double first = t->rank[r].of.start;
  for (int32_t i = 0; i < t->ranks; i++)
    if (t->rank[i].host == t->rank[r].host) first = fmin(first, t->rank[i].of.start);
  return t->rank[r].of.start - first;
}

static json_t *name_of(const char *kind, int32_t rank, int32_t stream, const char *name) {
  return json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "ph", "M", "name", kind, "pid", rank, "tid", stream, "args", "name",
                   name);
}

static json_t *event_of(const rank_span *s, int32_t rank, double start) {
  char name[96];
  name_span(s, name, sizeof name);
  return json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:{s:s, s:i, s:i, s:I}}", "ph", "X", "name", name, "cat",
                   ga_dist_work_name(s->work), "pid", rank, "tid", s->stream, "ts", (start + s->begin) * 1e6, "dur",
                   (s->end - s->begin) * 1e6, "args", "what", s->what, "peer", s->peer, "group", s->group, "bytes",
                   (json_int_t)s->bytes);
}

static bool add_rank_events(const dist_args *a, const dist_timeline *t, int32_t r, json_t *list) {
  char device[64], name[96];
  const rank_span *s = spans_of_rank(t, r);
  const double start = start_of_rank(t, r);
  uint64_t named = 0; /* a bit for each stream, of which there are few */
  bool good = true;
  dist_device_of(a, r, device, sizeof device);
  (void)snprintf(name, sizeof name, "rank %d (%s)", r, device);
  good &= !json_array_append_new(list, name_of("process_name", r, 0, name));
  for (int64_t i = 0; i < t->rank[r].of.spans; i++) {
    const uint64_t bit = (uint64_t)1 << s[i].stream;
    if (!(named & bit)) good &= !json_array_append_new(list, name_of("thread_name", r, s[i].stream, s[i].stream_name));
    named |= bit;
    good &= !json_array_append_new(list, event_of(&s[i], r, start));
  }
  return good;
}

ga_status dist_timeline_write(const dist_args *a, const dist_timeline *t) {
  char part[4096];
  FILE *f = NULL;
  json_t *list = json_array();
  bool good = list != NULL;
  for (int32_t r = 0; r < t->ranks && good; r++) good = add_rank_events(a, t, r, list);
  json_t *all = json_pack("{s:s, s:o}", "displayTimeUnit", "ms", "traceEvents", list);
  if (!good || !all) {
    json_decref(all);
    return fail_nomem("a timeline", 0);
  }
  ga_status status = name_part(a->timeline, part);
  if (status == GA_OK) status = open_trace(a->timeline, part, &f);
  if (status == GA_OK) {
    bool written = !json_dumpf(all, f, JSON_COMPACT) && fputc('\n', f) != EOF;
    written = !fclose(f) && written && !rename(part, a->timeline);
    if (!written) status = ga_error_set(GA_ERR_IO, "--timeline %s: %s", a->timeline, strerror(errno));
    if (!written) (void)unlink(part);
  }
  json_decref(all);
  return status;
}

/* --- a few numbers --- */

/* The span that takes most of a gap: "compute: wait for rank 1 (KV)". */
static void name_gap(const dist_timeline *t, int32_t r, const rank_gap *g, char *text, size_t capacity) {
  const rank_span *s = dist_span_of_gap(spans_of_rank(t, r), t->rank[r].of.spans, g);
  char name[96];
  (void)snprintf(text, capacity, "for the most part no span");
  if (!s) return;
  name_span(s, name, sizeof name);
  (void)snprintf(text, capacity, "%s: %s", s->stream_name, name);
}

static ga_status find_times(const dist_timeline *t, int32_t r, rank_times *out) {
  return dist_rank_times(spans_of_rank(t, r), t->rank[r].of.spans, t->rank[r].of.seconds, out);
}

static ga_status print_rank(const dist_timeline *t, int32_t r) {
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

ga_status dist_timeline_print(const dist_args *a, const dist_timeline *t) {
  printf("timeline of the last run, in ms, %s:\n", a->timeline);
  printf("rank       run  attention  communication  overlapped  exposed  no attention  waiting\n");
  for (int32_t r = 0; r < t->ranks; r++) TRY(print_rank(t, r));
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

ga_status dist_timeline_json(const dist_args *a, const dist_timeline *t, json_t **out) {
  json_t *list = json_array();
  *out = NULL;
  for (int32_t r = 0; r < t->ranks; r++) {
    const ga_dist_timeline *of = &t->rank[r].of;
    rank_times x;
    const ga_status status = find_times(t, r, &x);
    if (status != GA_OK) json_decref(list);
    TRY(status);
    (void)json_array_append_new(
        list, json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "seconds", of->seconds, "attention",
                        x.attention, "communication", x.communication, "overlapped", x.overlapped, "exposed",
                        x.communication - x.overlapped, "no_attention", of->seconds - x.attention, "waiting", x.waiting,
                        "start", start_of_rank(t, r), "start_error", of->start_error, "gaps", json_of_gaps(t, r, &x)));
  }
  *out = json_pack("{s:s, s:o}", "file", a->timeline, "ranks", list);
  return GA_OK;
}
