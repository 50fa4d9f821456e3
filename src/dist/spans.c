#include "dist/spans.h"

#include <math.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "core/device.h"

enum { CLOCK_TRIES = 8 }; /* the host's clock is read so often: the shortest try is the most exact */

typedef struct kept_span {
  ga_dist_span span;
  ga_event *begin, *end;
} kept_span;

struct dist_spans {
  ga_ctx *ctx;
  kept_span *all; /* [most] */
  int64_t n, most;
  struct {
    const ga_stream *stream;
    const char *name;
    int64_t open; /* span that has begun; -1 = none */
  } streams[SPAN_STREAMS];
  int32_t n_streams;
  ga_event *start, *finish, *clock;
  ga_dist_timeline found;
  bool is_read, in_graph;
};

static ga_status make_events(dist_spans *x) {
  GA_TRY(ga_event_create(x->ctx, &x->start));
  GA_TRY(ga_event_create(x->ctx, &x->finish));
  GA_TRY(ga_event_create(x->ctx, &x->clock));
  for (int64_t i = 0; i < x->most; i++) {
    GA_TRY(ga_event_create(x->ctx, &x->all[i].begin));
    GA_TRY(ga_event_create(x->ctx, &x->all[i].end));
  }
  return GA_OK;
}

ga_status dist_spans_create(ga_ctx *ctx, int64_t most, dist_spans **out) {
  void *p;
  *out = NULL;
  GA_TRY(ga_mem_zalloc(1, sizeof(dist_spans), "a timeline", &p));
  dist_spans *x = p;
  *x = (dist_spans){.ctx = ctx, .most = most};
  ga_status status = ga_mem_zalloc((size_t)most, sizeof *x->all, "a timeline", &p);
  if (status == GA_OK) x->all = p;
  if (status == GA_OK) status = make_events(x);
  if (status == GA_OK)
    *out = x;
  else
    dist_spans_destroy(x);
  return status;
}

void dist_spans_destroy(dist_spans *x) {
  if (!x) return;
  for (int64_t i = 0; x->all && i < x->most; i++) {
    ga_event_destroy(x->all[i].begin);
    ga_event_destroy(x->all[i].end);
  }
  ga_event_destroy(x->start);
  ga_event_destroy(x->finish);
  ga_event_destroy(x->clock);
  ga_mem_free(x->all);
  ga_mem_free(x);
}

void dist_spans_name(dist_spans *x, const ga_stream *stream, const char *name) {
  x->streams[x->n_streams].stream = stream;
  x->streams[x->n_streams++].name = name;
}

/* --- a run --- */

void dist_spans_clear(dist_spans *x, bool in_graph) {
  x->n = 0;
  x->in_graph = in_graph;
  for (int32_t i = 0; i < x->n_streams; i++) x->streams[i].open = -1;
}

ga_status dist_spans_start(dist_spans *x, ga_stream *stream) {
  x->is_read = false;
  return ga_event_record(x->ctx, x->start, stream);
}

static ga_status record_mark(const dist_spans *x, ga_event *event, ga_stream *stream) {
  return x->in_graph ? x->ctx->device->graphs->record_event(event, stream) : ga_event_record(x->ctx, event, stream);
}

static ga_status number_of_stream(const dist_spans *x, const ga_stream *stream, int32_t *out) {
  for (*out = 0; *out < x->n_streams; ++*out)
    if (x->streams[*out].stream == stream) return GA_OK;
  return ga_fail(GA_ERR_INTERNAL, "dist: a span on a stream that the timeline does not know; it knows %d",
                 x->n_streams);
}

ga_status dist_spans_open(dist_spans *x, ga_stream *stream, const span_of *s) {
  int32_t i;
  GA_TRY(number_of_stream(x, stream, &i));
  GA_REQUIRE(x->n < x->most && x->streams[i].open < 0, GA_ERR_INTERNAL,
             "dist: span %lld of a run on stream %s; room is for %lld, and %s is open there", (long long)x->n,
             x->streams[i].name, (long long)x->most, x->streams[i].open < 0 ? "none" : "one");
  kept_span *k = &x->all[x->n];
  k->span = (ga_dist_span){.struct_size = sizeof k->span,
                           .work = s->work,
                           .stream = i,
                           .stream_name = x->streams[i].name,
                           .what = s->what,
                           .peer = s->peer,
                           .group = s->group,
                           .bytes = s->bytes};
  x->streams[i].open = x->n++;
  return record_mark(x, k->begin, stream);
}

ga_status dist_spans_close(dist_spans *x, ga_stream *stream) {
  int32_t i;
  GA_TRY(number_of_stream(x, stream, &i));
  GA_REQUIRE(x->streams[i].open >= 0, GA_ERR_INTERNAL, "dist: no span is open on stream %s", x->streams[i].name);
  const int64_t at = x->streams[i].open;
  x->streams[i].open = -1;
  return record_mark(x, x->all[at].end, stream);
}

ga_status dist_spans_finish(dist_spans *x, ga_stream *stream) { return ga_event_record(x->ctx, x->finish, stream); }

/* --- times --- */

static ga_status since_start(const dist_spans *x, ga_event *event, double *seconds) {
  GA_TRY(ga_event_elapsed(x->start, event, seconds));
  *seconds *= 1e-3;
  return GA_OK;
}

/* An event of a stream that has nothing else passes between two looks at the clock: in their middle, give or take half
 * of what lies between them. */
static ga_status find_host_time(dist_spans *x, ga_stream *idle) {
  x->found.start_error = INFINITY;
  for (int i = 0; i < CLOCK_TRIES; i++) {
    double passed;
    const double before = ga_seconds();
    GA_TRY(ga_event_record(x->ctx, x->clock, idle));
    GA_TRY(ga_event_sync(x->clock));
    const double half = (ga_seconds() - before) / 2;
    GA_TRY(since_start(x, x->clock, &passed));
    if (half >= x->found.start_error) continue;
    x->found.start_error = half;
    x->found.start = before + half - passed;
  }
  return GA_OK;
}

ga_status dist_spans_read(dist_spans *x, ga_stream *idle) {
  x->found = (ga_dist_timeline){.struct_size = sizeof x->found, .spans = x->n};
  GA_TRY(since_start(x, x->finish, &x->found.seconds));
  for (int64_t i = 0; i < x->n; i++) {
    ga_dist_span *s = &x->all[i].span;
    GA_TRY(since_start(x, x->all[i].begin, &s->begin));
    GA_TRY(since_start(x, x->all[i].end, &s->end));
    x->found.seconds = fmax(x->found.seconds, s->end);
  }
  GA_TRY(find_host_time(x, idle));
  x->is_read = true;
  return GA_OK;
}

bool dist_spans_timeline(const dist_spans *x, ga_dist_timeline *out) {
  if (x->is_read) *out = x->found;
  return x->is_read;
}

const char *ga_dist_work_name(int32_t work) {
  static const char *const names[] = {"unknown", "attention", "merge",    "convert", "clear",
                                      "copy",    "push",      "exchange", "wait"};
  return names[work > 0 && work < (int32_t)GA_COUNT_OF(names) ? work : 0];
}

const ga_dist_span *dist_spans_at(const dist_spans *x, int64_t index) { return &x->all[index].span; }
