/* Time that has elapsed, by the system's monotonic clock. */
#ifndef GA_BASE_CLOCK_H
#define GA_BASE_CLOCK_H

#include <time.h>

/* Returns the seconds of the monotonic clock since an arbitrary moment. */
static inline double ga_seconds(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#endif
