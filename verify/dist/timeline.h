/* Spans that all ranks have recorded, and sums of their times. */
#ifndef GA_VERIFY_DIST_TIMELINE_H
#define GA_VERIFY_DIST_TIMELINE_H

#include "ga/dist.h"

/* A span without pointers, so that ranks can send it. */
typedef struct rank_span {
  int32_t work, stream, peer, group;
  char stream_name[16], what[24];
  int64_t bytes;
  double begin, end;
} rank_span;

typedef struct rank_timeline {
  ga_dist_timeline of;
  uint64_t host; /* hash of its name: clocks of two hosts have nothing to do with each other */
} rank_timeline;

/* Spans of the last run. Release with dist_timeline_free. */
typedef struct dist_timeline {
  int32_t ranks;
  rank_timeline *rank; /* [ranks] */
  rank_span *spans;    /* [ranks][room] */
  int64_t room;
} dist_timeline;

enum { TIMELINE_GAPS = 3 };

typedef struct rank_gap {
  double begin, seconds;
} rank_gap;

/* Seconds of a rank. attention: at least one call runs. */
typedef struct rank_times {
  double attention, communication, overlapped; /* overlapped: communication during attention */
  double waiting;                              /* for another rank, without attention */
  rank_gap gaps[TIMELINE_GAPS];                /* the longest times without attention, longest first */
} rank_times;

GA_NODISCARD ga_status dist_rank_times(const rank_span *s, int64_t n, double seconds, rank_times *out);
/* Finds the span that takes most of a gap; NULL where none takes half of it. */
const rank_span *dist_span_of_gap(const rank_span *s, int64_t n, const rank_gap *g);

/* Gathers the spans of all ranks, which all call it; on rank 0 they go to *out. */
GA_NODISCARD ga_status dist_timeline_gather(ga_comm *comm, const ga_dist_exec *exec, dist_timeline *out);
void dist_timeline_free(dist_timeline *t);
const rank_span *dist_spans_of_rank(const dist_timeline *t, int32_t r); /* [rank[r].of.spans] */
/* Seconds from the first rank of r's host to r. */
double dist_start_of_rank(const dist_timeline *t, int32_t r);
/* Names a span: "wait for rank 1 (KV)". */
enum { DIST_SPAN_NAME = 96 };
void dist_name_span(const rank_span *s, char text[DIST_SPAN_NAME]);

#endif
