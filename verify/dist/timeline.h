/* The spans that all ranks have recorded, and sums of their times. */
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
  uint64_t host; /* hash of the host's name: clocks of different hosts cannot be compared */
} rank_timeline;

/* The spans of the last run of all ranks. Release with dist_timeline_free. */
typedef struct dist_timeline {
  int32_t ranks;
  rank_timeline *rank; /* [ranks] timeline of each rank */
  rank_span *spans;    /* [ranks][room] spans of each rank */
  int64_t room;
} dist_timeline;

enum { TIMELINE_GAPS = 3 };

typedef struct rank_gap {
  double begin, seconds;
} rank_gap;

/* Times of one rank in seconds. */
typedef struct rank_times {
  double attention; /* at least one call of attention runs */
  double communication;
  double overlapped;            /* communication during attention */
  double waiting;               /* waiting for another rank, without attention */
  rank_gap gaps[TIMELINE_GAPS]; /* the longest times without attention, the longest first */
} rank_times;

GA_NODISCARD ga_status dist_rank_times(const rank_span *s, int64_t n, double seconds, rank_times *out);
/* Finds the span that takes most of a gap; NULL: none takes half of it. */
const rank_span *dist_span_of_gap(const rank_span *s, int64_t n, const rank_gap *g);

/* Gathers the spans of all ranks to *out on rank 0. All ranks call it. */
GA_NODISCARD ga_status dist_timeline_gather(ga_comm *comm, const ga_dist_exec *exec, dist_timeline *out);
void dist_timeline_free(dist_timeline *t);
/* Returns the spans of rank r; their number is t->rank[r].of.spans */
const rank_span *dist_spans_of_rank(const dist_timeline *t, int32_t r);
/* Returns the seconds from the start of the first rank on r's host to the start of r. */
double dist_start_of_rank(const dist_timeline *t, int32_t r);
enum { DIST_SPAN_NAME = 96 }; /* room for the name of a span */
/* Writes the name of a span, such as "wait for rank 1 (KV)". */
void dist_name_span(const rank_span *s, char text[DIST_SPAN_NAME]);

#endif
