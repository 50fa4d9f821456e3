/* Files of rates that were measured at several sizes. They replace the single figures of a simulated machine. */
#ifndef GA_VERIFY_DIST_RATES_H
#define GA_VERIFY_DIST_RATES_H

#include "ga/dist.h"

enum { DIST_RATES_PLAIN, DIST_RATES_MERGED, DIST_RATES_BACKWARD, DIST_RATES_LINK, DIST_RATES_KINDS };

/* Measured rates of each kind, by ascending size. Rates of links are bytes per second, all others arithmetic operations
 * per second. */
typedef struct dist_rates {
  ga_dist_point *points[DIST_RATES_KINDS];
  int32_t n[DIST_RATES_KINDS];
} dist_rates;

/* Reads a file of rates: lists, or the JSON of `ga dist bench` and `ga dist links`. The caller frees *out with
 * dist_rates_free, also after a failure. Returns GA_ERR_IO or GA_ERR_FORMAT after a failure. */
GA_NODISCARD ga_status dist_rates_load(const char *path, dist_rates *out);
void dist_rates_free(dist_rates *r);

#endif
