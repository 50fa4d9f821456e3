/* ga dist run --timeline: spans of all ranks, in a file and in a few numbers. */
#ifndef GA_VERIFY_DIST_TIMELINE_H
#define GA_VERIFY_DIST_TIMELINE_H

#include "verify/dist/dist.h"

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

/* Of the last run. Release with dist_timeline_free. */
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

/* Seconds of a rank. Attention: at least one call of it is under way. */
typedef struct rank_times {
  double attention, communication, overlapped; /* overlapped: of communication, while attention is under way */
  double waiting;                              /* for another rank, without attention */
  rank_gap gaps[TIMELINE_GAPS];                /* the longest times without attention, longest first */
} rank_times;

GA_NODISCARD ga_status dist_rank_times(const rank_span *s, int64_t n, double seconds, rank_times *out);
/* The span that takes most of a gap; NULL: none takes half of it. */
const rank_span *dist_span_of_gap(const rank_span *s, int64_t n, const rank_gap *g);

/* Can the file be written? Nothing is left behind. */
GA_NODISCARD ga_status dist_timeline_check(const char *path);
/* All ranks call it; on rank 0 *out gets what all have recorded. */
GA_NODISCARD ga_status dist_timeline_gather(ga_comm *comm, const ga_dist_exec *exec, dist_timeline *out);
void dist_timeline_free(dist_timeline *t);
/* Trace events as chrome://tracing and Perfetto read them: ranks are processes, streams are threads. */
GA_NODISCARD ga_status dist_timeline_write(const dist_args *a, const dist_timeline *t);
/* What of each rank's time was attention, communication, both, or neither. json: new, NULL without memory. */
GA_NODISCARD ga_status dist_timeline_print(const dist_args *a, const dist_timeline *t);
GA_NODISCARD ga_status dist_timeline_json(const dist_args *a, const dist_timeline *t, json_t **out);

#endif
