/* ga dist: the machine that simulate plays plans on: options, measured defaults, files of rates. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/dist.h"
#include "cli/error.h"
#include "text/json_io.h"

/* Fitted to eight runs of zigzag and ring on two H200 (docs/results/distributed.md): rows that leave their state run at
 * this part of the plain rate, and partial results pass through memory at this rate, 46 % of an H200's. */
#define STATE_PART    0.78
#define MEMORY_GBYTES 2200.0
/* Fitted to gathered keys forward on two and four H200; the other two are guesses. */
#define GPU_LATENCY_US   8.0
#define GPU_LAUNCH_US    15.0
#define OTHER_LATENCY_US 5.0
#define OTHER_LAUNCH_US  5.0
/* One H200, head dim 128: as deal.c has it; bench/h200/attention-bwd.json, in any order, 512 to 16384 tokens. Sums in a
 * fixed order wait for each other: fitted to two runs on two H200. */
#define START_KEYS            230.0
#define START_QUERIES         400.0
#define START_QUERIES_ORDERED 2050.0
/* One H200's backward by its forward rate, in any and in a fixed order: medians of shapes from 16384 tokens on. */
#define BACKWARD_PART         0.87
#define BACKWARD_ORDERED_PART 0.73

static bool is_of_gpus(const dist_args *a) {
  return !dist_is_on_host(a) || a->merged_tflops > 0 || a->memory_gbytes > 0 || (a->curves && a->curves->n[1]);
}

static double or_measured(double given, double measured) { return given >= 0 ? given : measured; }

/* -1 asks for what was measured: nothing else below 0 says anything. */
static ga_status check_machine_options(const dist_args *a) {
  const double given[] = {a->latency, a->launch, a->memory_gbytes, a->start_keys, a->start_queries};
  static const char *const names[] = {"latency", "launch", "memory-gbytes", "start-keys", "start-queries"};
  for (size_t i = 0; i < COUNT_OF(given); i++)
    REQUIRE(given[i] >= 0 || given[i] == -1, GA_ERR_ARG, "--%s %g: must be 0 or more, or -1", names[i], given[i]);
  return GA_OK;
}

ga_status dist_machine_defaults(dist_args *a) {
  TRY(check_machine_options(a));
  const bool gpus = is_of_gpus(a),
             own = a->merged_tflops > 0; /* own: with passes over memory, unless those are named */
  a->latency = or_measured(a->latency, gpus ? GPU_LATENCY_US : OTHER_LATENCY_US);
  a->launch = or_measured(a->launch, gpus ? GPU_LAUNCH_US : OTHER_LAUNCH_US);
  a->memory_gbytes = or_measured(a->memory_gbytes, gpus && !own ? MEMORY_GBYTES : 0);
  a->backward_tflops = a->backward_tflops > 0 ? a->backward_tflops
                       : gpus                 ? a->tflops * (a->unordered ? BACKWARD_PART : BACKWARD_ORDERED_PART)
                                              : 0;
  a->start_keys = or_measured(a->start_keys, gpus ? START_KEYS : 0);
  a->start_queries = or_measured(a->start_queries, !gpus ? 0 : a->unordered ? START_QUERIES : START_QUERIES_ORDERED);
  if (gpus && !own) a->merged_tflops = STATE_PART * a->tflops;
  return GA_OK;
}

ga_status dist_simulate(const dist_args *a, const ga_dist_plan *plan, ga_dist_times *times) {
  ga_dist_machine m = GA_DIST_MACHINE_INIT;
  m.flops = a->tflops * 1e12, m.bytes_per_second = a->gbytes * 1e9, m.merged_flops = a->merged_tflops * 1e12;
  m.latency = a->latency * 1e-6, m.launch = a->launch * 1e-6;
  m.memory_bytes_per_second = a->memory_gbytes * 1e9, m.backward_flops = a->backward_tflops * 1e12;
  m.start_keys = a->start_keys, m.start_queries = a->start_queries;
  m.jitter = a->jitter / 100, m.spread = a->spread / 100, m.link_spread = a->link_spread / 100;
  m.draws = (int32_t)a->draws, m.seed = (uint64_t)a->seed;
  if (a->curves) {
    const dist_rates *c = a->curves;
    m.plain = c->points[0], m.merged = c->points[1], m.backward = c->points[2], m.link = c->points[3];
    m.plain_points = c->n[0], m.merged_points = c->n[1], m.backward_points = c->n[2], m.link_points = c->n[3];
  }
  return ga_dist_plan_simulate(plan, &m, times);
}

/* --- files of rates --- */

static const char *const kinds[] = {"plain", "merged", "backward", "link"};
enum { LINK = 3, KINDS = 4 };

void dist_rates_free(dist_rates *r) {
  for (int k = 0; k < KINDS; k++) free(r->points[k]);
  *r = (dist_rates){.n = {0}};
}

static ga_status add_point(dist_rates *r, int kind, double size, double rate) {
  ga_dist_point *const more = realloc(r->points[kind], ((size_t)r->n[kind] + 1) * sizeof *more);
  if (!more) return fail_nomem("rates", ((size_t)r->n[kind] + 1) * sizeof *more);
  r->points[kind] = more;
  more[r->n[kind]++] = (ga_dist_point){size, rate};
  return GA_OK;
}

static ga_status read_points(const char *path, const json_t *list, int kind, dist_rates *r) {
  static const char like[] = "a list of [size, rate], both positive";
  const double unit = kind == LINK ? 1e9 : 1e12;
  REQUIRE(json_is_array(list), GA_ERR_FORMAT, "%s: %s must be %s", path, kinds[kind], like);
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *x = json_array_get(list, i);
    const double size = json_number_value(json_array_get(x, 0)), rate = json_number_value(json_array_get(x, 1));
    REQUIRE(json_array_size(x) == 2 && size > 0 && rate > 0 && isfinite(size) && isfinite(rate), GA_ERR_FORMAT,
            "%s: %s, point %zu: must be %s", path, kinds[kind], i, like);
    TRY(add_point(r, kind, size, rate * unit));
  }
  return GA_OK;
}

/* A list whose name is misspelt is not left out in silence; what is no list is a note. */
static ga_status read_lists(const char *path, json_t *of, dist_rates *r, bool *any) {
  const char *key;
  json_t *list;
  json_object_foreach(of, key, list) {
    int k = 0;
    while (k < KINDS && strcmp(key, kinds[k]) != 0) k++;
    if (k == KINDS && !json_is_array(list)) continue;
    REQUIRE(k < KINDS, GA_ERR_FORMAT, "%s: '%.40s' is no list of rates; allowed: plain, merged, backward, link", path,
            key);
    TRY(read_points(path, list, k, r));
    *any = true;
  }
  return GA_OK;
}

/* An object of lists, that of a bench (its "rates"), or a list of either. */
static ga_status read_rates(const char *path, json_t *x, dist_rates *r) {
  bool any = false;
  for (size_t i = 0; json_is_array(x) && i < json_array_size(x); i++) {
    json_t *one = json_array_get(x, i);
    REQUIRE(json_is_object(one), GA_ERR_FORMAT, "%s: element %zu of the list is no object", path, i);
    TRY(read_rates(path, one, r));
    any = true;
  }
  json_t *of = json_object_get(x, "rates");
  if (of || json_is_object(x)) TRY(read_lists(path, of ? of : x, r, &any));
  REQUIRE(any, GA_ERR_FORMAT, "%s has no rates; must have plain, merged, backward or link: lists of [size, rate]",
          path);
  return GA_OK;
}

static int by_size(const void *a, const void *b) {
  const ga_dist_point *x = a, *y = b;
  return (x->size > y->size) - (x->size < y->size);
}

/* Points of one size become one, of their mean rate. */
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
  if (!all && error.line < 0) return ga_error_set(GA_ERR_IO, "--rates: %s", error.text); /* that has the path */
  REQUIRE(all, GA_ERR_FORMAT, "%s: line %d: %s", path, error.line, error.text);
  const ga_status status = read_rates(path, all, out);
  json_decref(all);
  TRY(status);
  for (int k = 0; k < KINDS; k++) sort_points(out, k);
  return GA_OK;
}
