/* What a rank does in a run, and when: spans on its streams, each between two events. In host memory an event is a
 * time, so that all executors record in one way.
 *
 * Spans of a stream do not overlap, and a stream has one open at most. All events are made ahead: while a stream waits
 * for a value, a driver may hold up who makes one. */
#ifndef GA_DIST_SPANS_H
#define GA_DIST_SPANS_H

#include "core/ctx.h"
#include "ga/dist.h"

enum { SPAN_STREAMS = 8 };

typedef struct dist_spans dist_spans;

/* As in ga_dist_span. */
typedef struct span_of {
  int32_t work;
  const char *what;
  int32_t peer, group;
  int64_t bytes;
} span_of;

/* most: spans of a run. */
GA_NODISCARD ga_status dist_spans_create(ga_ctx *ctx, int64_t most, dist_spans **out);
void dist_spans_destroy(dist_spans *x); /* NULL is fine */
/* Streams have numbers in the order of these calls. name: static. */
void dist_spans_name(dist_spans *x, const ga_stream *stream, const char *name);

/* What is enqueued next begins a list of spans. in_graph: it is recorded; each launch then times these. */
void dist_spans_clear(dist_spans *x, bool in_graph);
/* A run begins behind the present end of `stream`. */
GA_NODISCARD ga_status dist_spans_start(dist_spans *x, ga_stream *stream);
/* The run's last work is enqueued on `stream`. */
GA_NODISCARD ga_status dist_spans_finish(dist_spans *x, ga_stream *stream);
/* All of the run has ended, and `idle` has nothing to do: finds the times. */
GA_NODISCARD ga_status dist_spans_read(dist_spans *x, ga_stream *idle);
/* Of the last run; false: none has been read. */
bool dist_spans_timeline(const dist_spans *x, ga_dist_timeline *out);
const ga_dist_span *dist_spans_at(const dist_spans *x, int64_t index);

GA_NODISCARD ga_status dist_spans_open(dist_spans *x, ga_stream *stream, const span_of *s);
GA_NODISCARD ga_status dist_spans_close(dist_spans *x, ga_stream *stream);

/* Around work of a stream. x NULL: nothing is recorded. */
static inline ga_status dist_span_begin(dist_spans *x, ga_stream *stream, const span_of *s) {
  return x ? dist_spans_open(x, stream, s) : GA_OK;
}
static inline ga_status dist_span_end(dist_spans *x, ga_stream *stream) {
  return x ? dist_spans_close(x, stream) : GA_OK;
}

#endif
