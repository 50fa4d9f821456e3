#include "serve/duration.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

bool sv_read_duration(const char *text, double *seconds) {
  static const struct {
    const char *unit;
    double seconds;
  } units[] = {{"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {"h", 3600}, {"m", 60}, {"s", 1}};
  double sum = 0;
  const double sign = *text == '-' ? -1 : 1;
  const char *at = text + (*text == '-' || *text == '+');
  if (!*at) return false;
  while (*at) {
    char *end;
    const double n = *at >= '0' && *at <= '9' ? strtod(at, &end) : NAN;
    if (isnan(n)) return false;
    size_t i = 0;
    while (i < sizeof units / sizeof units[0] && strncmp(end, units[i].unit, strlen(units[i].unit)) != 0) i++;
    if (i == sizeof units / sizeof units[0]) {
      if (*end || at != text + (*text == '-' || *text == '+')) return false;
      *seconds = sign * n; /* a number alone is seconds */
      return true;
    }
    sum += n * units[i].seconds;
    at = end + strlen(units[i].unit);
  }
  *seconds = sign * sum;
  return true;
}
