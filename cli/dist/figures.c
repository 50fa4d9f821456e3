#include "cli/dist/figures.h"

#include <stdio.h>

#include "cmdline/error.h"

const char *dist_short_bytes(int64_t bytes, char text[16]) {
  const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
  double x = (double)bytes;
  size_t u = 0;
  for (; x >= 999.5 && u + 1 < COUNT_OF(units); u++) x /= 1000;
  (void)snprintf(text, 16, x < 10 && u ? "%.2f %s" : x < 100 && u ? "%.1f %s" : "%.0f %s", x, units[u]);
  return text;
}

double dist_of_one_device(const ga_dist_times *t, int64_t ranks) {
  return t->seconds > 0 ? t->one_device / ((double)ranks * t->seconds) : 1;
}
