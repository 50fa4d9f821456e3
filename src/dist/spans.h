/* Records the timeline of a rank's run: spans of work on its streams, each between two events. On the CPU an event is a
 * time, so that both executors record in the same way.
 *
 * Spans of a stream do not overlap, and a stream has at most one open span. All events are created before the run,
 * since a driver may block the creation of an event while a stream waits for a value. */
#ifndef GA_DIST_SPANS_H
#define GA_DIST_SPANS_H

#include "core/ctx.h"
#include "ga/dist.h"

enum { SPAN_STREAMS = 8 };

typedef struct dist_spans dist_spans;

/* The fields of a ga_dist_span that are known when the span begins. */
typedef struct span_of {
  int32_t work;
  const char *what;
  int32_t peer, group;
  int64_t bytes;
} span_of;

/* Creates a recorder of timelines for runs of at most `most` spans. */
GA_NODISCARD ga_status dist_spans_create(ga_ctx *ctx, int64_t most, dist_spans **out);
void dist_spans_destroy(dist_spans *x); /* frees the recorder; NULL is accepted */
/* Names a stream, and gives it the next number of ga_dist_span.stream. name must be a static string. */
void dist_spans_name(dist_spans *x, const ga_stream *stream, const char *name);

/* Begins a new, empty list of spans. in_graph: the work that follows is recorded into a graph, and each launch of the
 * graph measures the listed spans anew. */
void dist_spans_clear(dist_spans *x, bool in_graph);
/* Marks the run's start, the time when all work that `stream` holds at the call is done. */
GA_NODISCARD ga_status dist_spans_start(dist_spans *x, ga_stream *stream);
/* Marks the run's end, the time when all work that `stream` holds at the call is done. */
GA_NODISCARD ga_status dist_spans_finish(dist_spans *x, ga_stream *stream);
/* Computes begin and end of all spans. The run must have ended on all streams, and the stream `idle` must be empty. */
GA_NODISCARD ga_status dist_spans_read(dist_spans *x, ga_stream *idle);
/* Sets *out to the timeline of the last run. Returns false if dist_spans_read has not been called after that run. */
bool dist_spans_timeline(const dist_spans *x, ga_dist_timeline *out);
const ga_dist_span *dist_spans_at(const dist_spans *x, int64_t index);

GA_NODISCARD ga_status dist_spans_open(dist_spans *x, ga_stream *stream, const span_of *s);
GA_NODISCARD ga_status dist_spans_close(dist_spans *x, ga_stream *stream);

/* Open and close a span around work of a stream. They do nothing if x is NULL. */
static inline ga_status dist_span_begin(dist_spans *x, ga_stream *stream, const span_of *s) {
  return x ? dist_spans_open(x, stream, s) : GA_OK;
}
static inline ga_status dist_span_end(dist_spans *x, ga_stream *stream) {
  return x ? dist_spans_close(x, stream) : GA_OK;
}

#endif
