#include "verify/dist/rates.h"
#include "text/json_io.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/status.h"

static const char *const kinds[DIST_RATES_KINDS] = {"plain", "merged", "backward", "link"};
void dist_rates_free(dist_rates *r) {
  for (int k = 0; k < DIST_RATES_KINDS; k++) free(r->points[k]);
  *r = (dist_rates){.n = {0}};
}

static ga_status add_point(dist_rates *r, int kind, double size, double rate) {
  ga_dist_point *const more = realloc(r->points[kind], ((size_t)r->n[kind] + 1) * sizeof *more);
  if (!more) return ga_fail_nomem("rates", ((size_t)r->n[kind] + 1) * sizeof *more);
  r->points[kind] = more;
  more[r->n[kind]++] = (ga_dist_point){size, rate};
  return GA_OK;
}

static ga_status read_points(const char *path, const json_t *list, int kind, dist_rates *r) {
  static const char like[] = "a list of [size, rate], both positive";
  const double unit = kind == DIST_RATES_LINK ? 1e9 : 1e12;
  GA_REQUIRE(json_is_array(list), GA_ERR_FORMAT, "%s: %s must be %s", path, kinds[kind], like);
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *x = json_array_get(list, i);
    const double size = json_number_value(json_array_get(x, 0)), rate = json_number_value(json_array_get(x, 1));
    GA_REQUIRE(json_array_size(x) == 2 && size > 0 && rate > 0 && isfinite(size) && isfinite(rate), GA_ERR_FORMAT,
               "%s: %s, point %zu: must be %s", path, kinds[kind], i, like);
    GA_TRY(add_point(r, kind, size, rate * unit));
  }
  return GA_OK;
}

/* Reads the lists of an object. A list with an unknown name is refused; members that are no lists are notes. */
static ga_status read_lists(const char *path, json_t *of, dist_rates *r, bool *any) {
  const char *key;
  json_t *list;
  json_object_foreach(of, key, list) {
    int k = 0;
    while (k < DIST_RATES_KINDS && strcmp(key, kinds[k]) != 0) k++;
    if (k == DIST_RATES_KINDS && !json_is_array(list)) continue;
    GA_REQUIRE(k < DIST_RATES_KINDS, GA_ERR_FORMAT,
               "%s: '%.40s' is no list of rates; allowed: plain, merged, backward, link", path, key);
    GA_TRY(read_points(path, list, k, r));
    *any = true;
  }
  return GA_OK;
}

/* Reads an object of lists, the JSON of a bench (its "rates"), or an array of either. */
static ga_status read_rates(const char *path, json_t *x, dist_rates *r) {
  bool any = false;
  for (size_t i = 0; json_is_array(x) && i < json_array_size(x); i++) {
    json_t *one = json_array_get(x, i);
    GA_REQUIRE(json_is_object(one), GA_ERR_FORMAT, "%s: element %zu of the list is no object", path, i);
    GA_TRY(read_rates(path, one, r));
    any = true;
  }
  json_t *of = json_object_get(x, "rates");
  if (of || json_is_object(x)) GA_TRY(read_lists(path, of ? of : x, r, &any));
  GA_REQUIRE(any, GA_ERR_FORMAT, "%s has no rates; must have plain, merged, backward or link: lists of [size, rate]",
             path);
  return GA_OK;
}

static int by_size(const void *a, const void *b) {
  const ga_dist_point *x = a, *y = b;
  return (x->size > y->size) - (x->size < y->size);
}

/* Sorts by size; points of one size become one with their mean rate. */
static void sort_points(dist_rates *r, int kind) {
  ga_dist_point *const p = r->points[kind];
  int32_t n = 0, same = 1;
  if (!r->n[kind]) return;
  qsort(p, (size_t)r->n[kind], sizeof *p, by_size);
  for (int32_t i = 1; i < r->n[kind]; i++) {
    if (p[i].size > p[n].size) {
      p[++n] = p[i];
      same = 1;
    } else {
      p[n].rate += (p[i].rate - p[n].rate) / ++same;
    }
  }
  r->n[kind] = n + 1;
}

ga_status dist_rates_load(const char *path, dist_rates *out) {
  json_error_t error;
  *out = (dist_rates){.n = {0}};
  json_t *all = ga_json_load_file(path, JSON_REJECT_DUPLICATES, &error);
  if (!all && error.line < 0) return ga_fail(GA_ERR_IO, "--rates: unable to open %s: %s", path, error.text);
  GA_REQUIRE(all, GA_ERR_FORMAT, "%s: line %d: %s", path, error.line, error.text);
  const ga_status status = read_rates(path, all, out);
  json_decref(all);
  GA_TRY(status);
  for (int k = 0; k < DIST_RATES_KINDS; k++) sort_points(out, k);
  return GA_OK;
}
