/* Measures how fast ranks send blocks to each other. */
#ifndef GA_VERIFY_DIST_LINKS_H
#define GA_VERIFY_DIST_LINKS_H

#include "verify/dist/ranks.h"

enum { DIST_MOST_LINK_SIZES = 64, DIST_MOST_LINK_RUNS = 64 };

typedef struct dist_links_options {
  const dist_ranks *ranks; /* options of the ranks; their number is 2 or more */
  const char *bytes;       /* sizes of blocks in bytes, separated by commas; NULL = sizes that suit the devices */
  /* way of copying blocks, such as "peer" (ga_dist_exec_options.copies); NULL = ranks choose */
  const char *copies;
  int64_t runs; /* number of measurements, 1 to DIST_MOST_LINK_RUNS */
} dist_links_options;

/* The measured times, the same on all ranks. */
typedef struct dist_links_found {
  int32_t n;
  int64_t bytes[DIST_MOST_LINK_SIZES];
  double seconds[DIST_MOST_LINK_SIZES]; /* median time of sending a block, in seconds, on the slowest rank */
  char copies[16];                      /* way of copying blocks that was chosen; "" on a CPU */
} dist_links_found;

/* Checks the options. Returns GA_ERR_ARG if one is wrong. */
GA_NODISCARD ga_status dist_check_links(const dist_links_options *o);
GA_NODISCARD ga_status dist_links(const dist_links_options *o, dist_links_found *out);

#endif
