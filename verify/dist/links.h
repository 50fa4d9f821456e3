/* Measures the speed of blocks from rank to rank. */
#ifndef GA_VERIFY_DIST_LINKS_H
#define GA_VERIFY_DIST_LINKS_H

#include "verify/dist/ranks.h"

enum { DIST_MOST_LINK_SIZES = 64, DIST_MOST_LINK_RUNS = 64 };

typedef struct dist_links_options {
  const dist_ranks *ranks; /* 2 or more */
  const char *bytes;       /* sizes of blocks with commas between; NULL = a range that fits the devices */
  const char *copies;      /* ga_dist_link_options.copies */
  int64_t runs;            /* 1 to DIST_MOST_LINK_RUNS */
} dist_links_options;

/* Medians, the same on all ranks. */
typedef struct dist_links_found {
  int32_t n;
  int64_t bytes[DIST_MOST_LINK_SIZES];
  double seconds[DIST_MOST_LINK_SIZES]; /* of a block on the slowest rank */
  char copies[16];                      /* "" on a CPU */
} dist_links_found;

/* GA_ERR_ARG where an option is wrong. */
GA_NODISCARD ga_status dist_check_links(const dist_links_options *o);
GA_NODISCARD ga_status dist_links(const dist_links_options *o, dist_links_found *out);

#endif
