#include "cli/dist/working.h"

#include <string.h>

#include "cmdline/error.h"

ga_status dist_check_ranks(const char *verb, dist_ranks *r) {
  TRY(dist_find_rank(r));
  REQUIRE(r->n <= DIST_MOST_RUN_RANKS, GA_ERR_ARG, "--ranks %lld: %s takes at most %d", (long long)r->n, verb,
          DIST_MOST_RUN_RANKS);
  TRY(dist_check_devices(r->device));
  REQUIRE(dist_is_on_host(r->device) || (!r->seed && !r->buffered), GA_ERR_ARG,
          "--seed and --buffered are for --device cpu");
  return GA_OK;
}

ga_status dist_check_ways(const dist_ranks *r, const char *copies, bool several) {
  TRY(dist_check_copies(copies, several));
  REQUIRE(!copies || !dist_is_on_host(r->device), GA_ERR_ARG,
          "--copies %.40s: it is for run, bench and links on GPUs; --device is %.100s", copies, r->device);
  return GA_OK;
}

ga_status dist_check_types(const dist_ranks *r, const dist_shape *s) {
  if (dist_is_on_host(r->device)) return GA_OK;
  REQUIRE(strcmp(s->type, "f32") != 0 || !strcmp(s->method, "llama3"), GA_ERR_ARG,
          "--type f32: on %.100s it must be bf16 or f16, but for --method llama3", r->device);
  REQUIRE(!strcmp(s->partials, "f32"), GA_ERR_ARG, "--partials %.20s: on %.100s they are f32", s->partials, r->device);
  return GA_OK;
}
