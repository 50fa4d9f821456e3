/* Measures errors of results, and compares them with their bounds. */
#ifndef GA_VERIFY_CHECK_ERROR_H
#define GA_VERIFY_CHECK_ERROR_H

#include "ga/tensor.h"

/* Errors of n elements of a result. `want` are the oracle's values, `got` the row's; a unit is defined in check.h.
 * Elements that are NaN or infinite are not counted. */
typedef struct check_error {
  int64_t n;
  double worst; /* largest |got - want| / unit */
  int64_t worst_at;
  double rms;
  double gain; /* slope of got - want as a function of want: 0.01 if results are 1.01 times too large */
  /* effective number of elements that determine `gain`; if it is small, `gain` is an error of few elements and not a
   * mean */
  double gain_count;
  double gain_dev; /* standard deviation that `gain` would have if the errors were independent */
  /* root mean square of unit / |want|: the `gain` that an error of one unit in every element would make */
  double ulp_gain;
  double size;   /* root mean square of |want| / unit, the size of the values in units */
  double shared; /* relative error that all elements may share (check_op.shared); check_measure sets it to 0 */
} check_error;

/* returns the distance between neighbouring numbers of the type dtype at |x| */
double check_ulp(ga_dtype dtype, double x);
/* Returns x rounded to the type dtype. */
double check_round(ga_dtype dtype, double x);

/* Returns the expected square of what rounding to bf16 takes off x. The error is uniform over a step, 2^-7 of the power
 * of two below x. So it is up to 2^-8 of x just above such a power, and up to 2^-9 below the next. */
double check_bf16_rounding(double x);

void check_measure(const double *got, const double *want, const double *unit, int64_t n, check_error *out);

/* Returns the largest part of its allowance that an error of `row` uses; at most 1 passes. The allowed error is
 * tolerance times plain's error, plus a number of units. The number is ulps for the worst element, ulps / 2 for the
 * root mean square, ulps / 4 for the gain. The last two also get the shared error. */
double check_used(const check_error *row, const check_error *plain, double tolerance, double ulps);

/* Returns the excess of the squared error of `got` over most^2 times the squared error of `plain`, divided by an
 * allowance for chance. At most 1 passes. Errors in one row of `width` elements are correlated. Therefore the allowance
 * is six standard deviations of the sum over rows. */
double check_beside(const double *got, const double *plain, const double *want, int64_t n, int64_t width, double most);

#endif
