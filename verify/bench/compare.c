/* ga bench --compare: two JSON files side by side. */
#include <stdio.h>

#include <jansson.h>

#include "cmdline/cmd.h"
#include "text/json_io.h"
#include "verify/bench/bench.h"

static json_t *load_results(const char *path) {
  json_error_t error;
  json_t *all = ga_json_load_file(path, 0, &error), *rows = json_object_get(all, "rows");
  if (json_is_array(rows)) {
    (void)json_incref(rows);
    json_decref(all);
    return rows;
  }
  (void)fprintf(stderr, "ga bench: %s: %s\n", path, all ? "has no rows" : error.text);
  json_decref(all);
  return NULL;
}

static const char *text(const json_t *row, const char *key) {
  const char *s = json_string_value(json_object_get(row, key));
  return s ? s : "";
}

static double number_at(const json_t *row, const char *key) { return json_number_value(json_object_get(row, key)); }

static const json_t *find_row(const json_t *rows, const json_t *like) {
  for (size_t i = 0; i < json_array_size(rows); i++) {
    const json_t *row = json_array_get(rows, i);
    if (!strcmp(text(row, "id"), text(like, "id")) && !strcmp(text(row, "shape"), text(like, "shape"))) return row;
  }
  return NULL;
}

/* Only what lies outside of both spreads counts as changed. */
static const char *verdict(const json_t *a, const json_t *b) {
  if (number_at(b, "p90_us") < number_at(a, "p10_us")) return "faster";
  if (number_at(b, "p10_us") > number_at(a, "p90_us")) return "SLOWER";
  return "";
}

int bench_compare(const char *before, const char *after) {
  json_t *a = load_results(before), *b = a ? load_results(after) : NULL;
  double logs = 0;
  int n = 0;
  if (b) printf("%-40s %-24s %12s %12s %8s\n", "kernel", "shape", "before us", "after us", "speed");
  for (size_t i = 0; b && i < json_array_size(b); i++) {
    const json_t *now = json_array_get(b, i), *then = find_row(a, now);
    if (!then || !(number_at(then, "median_us") > 0) || !(number_at(now, "median_us") > 0)) continue;
    double speed = number_at(then, "median_us") / number_at(now, "median_us");
    printf("%-40s %-24s %12.2f %12.2f %7.3fx %s\n", text(now, "id"), text(now, "shape"), number_at(then, "median_us"),
           number_at(now, "median_us"), speed, verdict(then, now));
    logs += log(speed);
    n++;
  }
  if (b) printf("%d in both files; geometric mean %.3fx\n", n, n ? exp(logs / n) : 1.0);
  bool ok = b != NULL;
  json_decref(a);
  json_decref(b);
  return ok ? EXIT_OK : EXIT_FAILED;
}
