/* The timelines that all ranks have recorded, and sums over their spans. */
#ifndef GA_VERIFY_DIST_TIMELINE_H
#define GA_VERIFY_DIST_TIMELINE_H

#include "ga/dist.h"

/* A ga_dist_span without pointers, so that ranks can send it. */
typedef struct rank_span {
  int32_t work, stream, peer, group;
  char stream_name[16], what[24];
  int64_t bytes;
  double begin, end;
} rank_span;

typedef struct rank_timeline {
  ga_dist_timeline of;
  uint64_t host; /* hash of the host's name, because clocks of different hosts cannot be compared */
} rank_timeline;

/* The timelines of the last run of all ranks. The caller frees them with dist_timeline_free. */
typedef struct dist_timeline {
  int32_t ranks;
  rank_timeline *rank; /* [ranks] timeline of each rank, without its spans */
  rank_span *spans;    /* [ranks][room] spans of each rank; use dist_spans_of_rank */
  int64_t room;
} dist_timeline;

enum { TIMELINE_GAPS = 3 };

typedef struct rank_gap {
  double begin, seconds;
} rank_gap;

/* Sums over one rank's timeline, in seconds. */
typedef struct rank_times {
  double attention; /* time in which at least one call of attention runs */
  double communication;
  double overlapped;            /* time of communication during attention */
  double waiting;               /* time of waiting for another rank while no attention runs */
  rank_gap gaps[TIMELINE_GAPS]; /* the longest times without attention, in descending order */
} rank_times;

GA_NODISCARD ga_status dist_rank_times(const rank_span *s, int64_t n, double seconds, rank_times *out);
/* Returns the span that covers most of a gap without attention; NULL: no span covers half of it. */
const rank_span *dist_span_of_gap(const rank_span *s, int64_t n, const rank_gap *g);

/* Gathers the timelines of all ranks in *out on rank 0. All ranks call it. */
GA_NODISCARD ga_status dist_timeline_gather(ga_comm *comm, const ga_dist_exec *exec, dist_timeline *out);
void dist_timeline_free(dist_timeline *t);
/* Returns the spans of rank r, an array of t. Their number is t->rank[r].of.spans. */
const rank_span *dist_spans_of_rank(const dist_timeline *t, int32_t r);
/* Returns the time in seconds from the start of the first rank on r's host to the start of rank r. */
double dist_start_of_rank(const dist_timeline *t, int32_t r);
enum { DIST_SPAN_NAME = 96 }; /* largest name of a span in bytes, with its NUL */
/* Writes the name of a span, such as "wait for rank 1 (KV)". */
void dist_name_span(const rank_span *s, char text[DIST_SPAN_NAME]);

#endif
