/* The arithmetic of error bounds. */
#ifndef GA_VERIFY_CHECK_ERROR_H
#define GA_VERIFY_CHECK_ERROR_H

#include "ga/tensor.h"

/* Errors of n elements in units (see check.h). Elements whose `want` is NaN or infinite are left out. */
typedef struct check_error {
  int64_t n;
  double worst; /* largest |got - want| / unit */
  int64_t worst_at;
  double rms;
  double gain;       /* slope of got - want over want: 0.01 for results that are 1.01 times too large */
  double gain_count; /* elements that this slope rests on: a slope of few is the error of these, and not a mean */
  double gain_dev;   /* standard deviation of that slope if the errors were independent */
  double ulp_gain;   /* unit / |want|, rms: the slope that one unit everywhere would make */
  double size;       /* |want| in units, rms */
  double shared;     /* of the slope, what elements may have in common (check_op.shared); check_measure leaves 0 */
} check_error;

double check_ulp(ga_dtype dtype, double x);
/* x as a number of that type. */
double check_round(ga_dtype dtype, double x);

void check_measure(const double *got, const double *want, const double *unit, int64_t n, check_error *out);

/* The part of the allowed error that `row` uses: at most 1 is good. Allowed is tolerance times plain's error, plus ulps
 * units; for the worst element, for the root mean square (half a unit per ulp), and for the gain (a quarter); for the
 * last two also what is shared. */
double check_used(const check_error *row, const check_error *plain, double tolerance, double ulps);

/* The part used of a root mean square error of `most` times that of `plain`. Rows of `width` elements err together.
 * What their squares differ by from row to row says how much is chance: six standard deviations of the sum. */
double check_beside(const double *got, const double *plain, const double *want, int64_t n, int64_t width, double most);

#endif
