/* ga dist links: how fast blocks go from rank to rank, as a file of rates for ga dist simulate. */
#include <stdlib.h>
#include <string.h>

#include "cmdline/error.h"
#include "verify/dist/ranks.h"

#define SIZES_OF_CPU "65536,262144,1048576,4194304,16777216"
#define SIZES_OF_GPU SIZES_OF_CPU ",67108864,268435456"
enum { MOST_SIZES = 64 };

typedef struct links_task {
  const dist_args *a;
  int64_t *bytes;
  int32_t n;
} links_task;

/* The same on all ranks. */
typedef struct links_result {
  double seconds[MOST_SIZES];
  char copies[DIST_COPIES_WORD];
} links_result;

static ga_status begin_links(const dist_args *a, links_task *t) {
  const char *sizes = a->bytes ? a->bytes : dist_is_on_host(a) ? SIZES_OF_CPU : SIZES_OF_GPU;
  *t = (links_task){.a = a};
  REQUIRE(a->ranks >= 2, GA_ERR_ARG, "--ranks %lld: links are between 2 ranks or more", (long long)a->ranks);
  REQUIRE(a->runs <= 64, GA_ERR_ARG, "--runs %lld: links takes 1 to 64", (long long)a->runs);
  TRY(dist_read_lengths("bytes", "sizes of blocks, such as 65536 or 4096,1048576", sizes, &t->bytes, &t->n));
  REQUIRE(t->n <= MOST_SIZES, GA_ERR_ARG, "--bytes has %d sizes; links takes at most %d", t->n, MOST_SIZES);
  for (int32_t i = 0; i < t->n; i++)
    REQUIRE(t->bytes[i] >= 1 && t->bytes[i] <= (int64_t)1 << 34, GA_ERR_ARG, "--bytes %lld: must be 1 to %lld",
            (long long)t->bytes[i], 1ll << 34);
  return GA_OK;
}

static ga_status links_of_rank(const dist_rank *rank, void *arg, void *result) {
  const links_task *t = arg;
  links_result *found = result;
  const char *copies = "";
  ga_dist_link_options o = GA_DIST_LINK_OPTIONS_INIT;
  o.copies = t->a->copies, o.runs = (int32_t)t->a->runs;
  TRY(ga_dist_link_times(rank->comm, rank->device, &o, t->bytes, t->n, found->seconds, &copies));
  (void)snprintf(found->copies, sizeof found->copies, "%s", copies);
  return GA_OK;
}

/* --- what rank 0 tells --- */

static ga_status print_links_json(const links_task *t, const links_result *found) {
  const dist_args *a = t->a;
  json_t *rows = json_array(), *link = json_array();
  bool full = rows && link;
  for (int32_t i = 0; i < t->n && full; i++) {
    const double gbytes = (double)t->bytes[i] / found->seconds[i] * 1e-9;
    full = !json_array_append_new(rows, json_pack("{s:I, s:f, s:f}", "bytes", (json_int_t)t->bytes[i], "us",
                                                  found->seconds[i] * 1e6, "gbytes", gbytes)) &&
           !json_array_append_new(link, json_pack("[I, f]", (json_int_t)t->bytes[i], gbytes));
  }
  if (!full) {
    json_decref(rows);
    json_decref(link);
    return fail_nomem("JSON", 0);
  }
  return cmd_print_json(json_pack("{s:s, s:s, s:s, s:I, s:I, s:o, s:{s:o}}", "transport", a->transport, "device",
                                  a->device, "copies", found->copies, "ranks", (json_int_t)a->ranks, "rounds",
                                  (json_int_t)a->runs, "rows", rows, "rates", "link", link),
                        JSON_INDENT(1));
}

static void print_links(const links_task *t, const links_result *found) {
  const dist_args *a = t->a;
  printf("blocks from each of %lld ranks to the next, all at once (%s, %s%s%s)\n"
         "us a block of the slowest rank, median of %lld rounds; GB/s of each way in\n%12s %12s %10s\n",
         (long long)a->ranks, a->transport, a->device, *found->copies ? ", copies: " : "", found->copies,
         (long long)a->runs, "bytes", "us", "GB/s");
  for (int32_t i = 0; i < t->n; i++)
    printf("%12lld %12.2f %10.2f\n", (long long)t->bytes[i], found->seconds[i] * 1e6,
           (double)t->bytes[i] / found->seconds[i] * 1e-9);
}

/* --- the command --- */

ga_status dist_check_links(const dist_args *a) {
  links_task t;
  const ga_status status = begin_links(a, &t);
  free(t.bytes);
  return status;
}

static ga_status run_links(links_task *t) {
  const dist_args *a = t->a;
  links_result *all = calloc((size_t)a->ranks, sizeof *all);
  if (!all) return fail_nomem("results", (size_t)a->ranks * sizeof *all);
  ga_status status = dist_meet_and_run(a, links_of_rank, t, sizeof *all, all);
  if (status == GA_OK && a->rank <= 0) {
    if (a->json)
      status = print_links_json(t, all);
    else
      print_links(t, all);
  }
  free(all);
  return status;
}

ga_status dist_show_links(const dist_args *a) {
  links_task t;
  dist_prepare_devices(a);
  ga_status status = begin_links(a, &t);
  if (status == GA_OK) status = run_links(&t);
  free(t.bytes);
  return status;
}
