/* The arithmetic of error bounds. */
#ifndef GA_VERIFY_CHECK_ERROR_H
#define GA_VERIFY_CHECK_ERROR_H

#include "ga/tensor.h"

/* The errors of n elements in units (see check.h). Elements whose `want` is NaN or infinite are not counted. */
typedef struct check_error {
  int64_t n;
  double worst; /* largest |got - want| / unit */
  int64_t worst_at;
  double rms;
  double gain; /* slope of got - want as a function of want: 0.01 if results are 1.01 times too large */
  /* effective number of elements that determine `gain`; if it is small, `gain` shows their errors, not a mean */
  double gain_count;
  double gain_dev; /* standard deviation that `gain` would have if the errors were independent */
  double ulp_gain; /* root mean square of unit / |want|: the `gain` that one unit of error everywhere would make */
  double size;     /* root mean square of |want| / unit */
  double shared;   /* part of `gain` that elements may share (check_op.shared); check_measure sets it to 0 */
} check_error;

double check_ulp(ga_dtype dtype, double x); /* Returns the distance between neighbouring numbers of `dtype` at |x|. */
/* Returns x rounded to dtype. */
double check_round(ga_dtype dtype, double x);

void check_measure(const double *got, const double *want, const double *unit, int64_t n, check_error *out);

/* Returns the fraction of the allowed error that `row` uses; at most 1 passes. The allowed error is tolerance times
 * plain's error, plus a number of units. The number is ulps for the worst element, ulps / 2 for the root mean
 * square, ulps / 4 for the gain. The shared error is added for the last two. */
double check_used(const check_error *row, const check_error *plain, double tolerance, double ulps);

/* Returns the fraction that is used of the allowed root mean square error, `most` times plain's. Elements of a row
 * of `width` have correlated errors. The variance of squares between rows gives the allowance for chance: six
 * standard deviations of the sum. */
double check_beside(const double *got, const double *plain, const double *want, int64_t n, int64_t width, double most);

#endif
