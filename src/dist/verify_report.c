/* Reports of the verifier: the rule that a plan breaks, and where. */
#include <stdarg.h>
#include <stdio.h>

#include "dist/verify.h"

static const char *const rule_names[] = {"none",      "size",  "cover",    "match",  "race",
                                         "available", "order", "deadlock", "memory", "bytes"};

const char *ga_dist_rule_name(int32_t rule) {
  return rule >= 0 && rule < (int32_t)GA_COUNT_OF(rule_names) ? rule_names[rule] : "unknown";
}

ga_status dist_broken(dist_verifier *v, int32_t rule, int32_t rank, int64_t step, const char *fmt, ...) {
  char text[512], place[64] = "";
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  v->report.rule = rule;
  v->report.rank = rank;
  v->report.step = step;
  if (rank >= 0 && step >= 0)
    (void)snprintf(place, sizeof place, "rank %d, step %lld: ", rank, (long long)step);
  else if (rank >= 0)
    (void)snprintf(place, sizeof place, "rank %d: ", rank);
  return ga_fail(GA_ERR_STATE, "dist: rule %s: %s%s", ga_dist_rule_name(rule), place, text);
}
