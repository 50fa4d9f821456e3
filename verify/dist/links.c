#include "verify/dist/links.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "ga/dist.h"
#include "verify/dist/words.h"

#define SIZES_OF_CPU "65536,262144,1048576,4194304,16777216"
#define SIZES_OF_GPU SIZES_OF_CPU ",67108864,268435456"

typedef struct links_task {
  const dist_links_options *o;
  int64_t *bytes;
  int32_t n;
} links_task;

static ga_status begin_links(const dist_links_options *o, links_task *t) {
  const char *sizes = o->bytes ? o->bytes : dist_is_on_host(o->ranks->device) ? SIZES_OF_CPU : SIZES_OF_GPU;
  *t = (links_task){.o = o};
  GA_REQUIRE(o->ranks->n >= 2, GA_ERR_ARG, "--ranks %lld: links are between 2 ranks or more", (long long)o->ranks->n);
  GA_REQUIRE(o->runs <= DIST_MOST_LINK_RUNS, GA_ERR_ARG, "--runs %lld: links takes 1 to %d", (long long)o->runs,
             DIST_MOST_LINK_RUNS);
  GA_TRY(dist_read_numbers("bytes", "sizes of blocks, such as 65536 or 4096,1048576", sizes, &t->bytes, &t->n));
  GA_REQUIRE(t->n <= DIST_MOST_LINK_SIZES, GA_ERR_ARG, "--bytes has %d sizes; links takes at most %d", t->n,
             DIST_MOST_LINK_SIZES);
  for (int32_t i = 0; i < t->n; i++)
    GA_REQUIRE(t->bytes[i] >= 1 && t->bytes[i] <= (int64_t)1 << 34, GA_ERR_ARG, "--bytes %lld: must be 1 to %lld",
               (long long)t->bytes[i], 1ll << 34);
  return GA_OK;
}

static ga_status links_of_rank(const dist_rank *rank, void *arg, void *result) {
  const links_task *t = arg;
  dist_links_found *found = result;
  const char *copies = "";
  ga_dist_link_options o = GA_DIST_LINK_OPTIONS_INIT;
  o.copies = t->o->copies, o.runs = (int32_t)t->o->runs;
  GA_TRY(ga_dist_link_times(rank->comm, rank->device, &o, t->bytes, t->n, found->seconds, &copies));
  (void)snprintf(found->copies, sizeof found->copies, "%s", copies);
  return GA_OK;
}

ga_status dist_check_links(const dist_links_options *o) {
  links_task t;
  const ga_status status = begin_links(o, &t);
  free(t.bytes);
  return status;
}

static ga_status run_links(links_task *t, dist_links_found *out) {
  const dist_ranks *ranks = t->o->ranks;
  dist_links_found *all = calloc((size_t)ranks->n, sizeof *all);
  if (!all) return ga_fail_nomem("results", (size_t)ranks->n * sizeof *all);
  ga_status status = dist_meet_and_run(ranks, links_of_rank, t, sizeof *all, all);
  *out = all[0];
  out->n = t->n;
  for (int32_t i = 0; i < t->n; i++) out->bytes[i] = t->bytes[i];
  free(all);
  return status;
}

ga_status dist_links(const dist_links_options *o, dist_links_found *out) {
  links_task t;
  dist_prepare_devices(o->ranks->device);
  ga_status status = begin_links(o, &t);
  if (status == GA_OK) status = run_links(&t, out);
  free(t.bytes);
  return status;
}
