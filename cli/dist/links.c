/* ga dist links: how fast blocks go from rank to rank, as a file of rates for ga dist simulate. */
#include "verify/dist/links.h"
#include "cli/dist/launch.h"
#include "cli/dist/options.h"
#include "cli/dist/verb.h"
#include "cli/dist/working.h"
#include "cmdline/error.h"

typedef struct links_options {
  dist_ranks ranks;
  const char *bytes, *copies;
  int64_t runs;
  bool json;
} links_options;
static links_options asked = {.ranks = DIST_RANKS_INIT};

static const cmd_option options[] = {
    DIST_RANKS_OPTIONS(asked.ranks),
    DIST_WORD("bytes", asked.bytes, "LIST", "sizes of blocks; else 65536 to 16777216, on GPUs to 268435456"),
    DIST_COPIES(asked.copies, "as of run"), DIST_INT("runs", asked.runs, 0, 1000000, "N", "rounds, at most 64; 0 = 7"),
    DIST_JSON_OPTION(asked.json)};

static double gbytes_of(const dist_links_found *f, int32_t i) { return (double)f->bytes[i] / f->seconds[i] * 1e-9; }

static ga_status print_links_json(const links_options *o, const dist_links_found *f) {
  json_t *rows = json_array(), *link = json_array();
  bool full = rows && link;
  for (int32_t i = 0; i < f->n && full; i++) {
    const double gbytes = gbytes_of(f, i);
    full = !json_array_append_new(rows, json_pack("{s:I, s:f, s:f}", "bytes", (json_int_t)f->bytes[i], "us",
                                                  f->seconds[i] * 1e6, "gbytes", gbytes)) &&
           !json_array_append_new(link, json_pack("[I, f]", (json_int_t)f->bytes[i], gbytes));
  }
  if (!full) {
    json_decref(rows);
    json_decref(link);
    return fail_nomem("JSON", 0);
  }
  return cmd_print_json(json_pack("{s:s, s:s, s:s, s:I, s:I, s:o, s:{s:o}}", "transport", o->ranks.transport, "device",
                                  o->ranks.device, "copies", f->copies, "ranks", (json_int_t)o->ranks.n, "rounds",
                                  (json_int_t)o->runs, "rows", rows, "rates", "link", link),
                        JSON_INDENT(1));
}

static void print_links(const links_options *o, const dist_links_found *f) {
  printf("blocks from each of %lld ranks to the next, all at once (%s, %s%s%s)\n"
         "us a block of the slowest rank, median of %lld rounds; GB/s of each way in\n%12s %12s %10s\n",
         (long long)o->ranks.n, o->ranks.transport, o->ranks.device, *f->copies ? ", copies: " : "", f->copies,
         (long long)o->runs, "bytes", "us", "GB/s");
  for (int32_t i = 0; i < f->n; i++)
    printf("%12lld %12.2f %10.2f\n", (long long)f->bytes[i], f->seconds[i] * 1e6, gbytes_of(f, i));
}

static ga_status links_here(const links_options *o, const dist_links_options *how) {
  dist_links_found found;
  TRY(dist_links(how, &found));
  if (!dist_is_first(&o->ranks)) return GA_OK;
  if (o->json) return print_links_json(o, &found);
  print_links(o, &found);
  return GA_OK;
}

static ga_status check_links_options(links_options *o, const dist_links_options *how) {
  TRY(dist_check_copies(o->copies, false));
  TRY(dist_check_ranks("links", &o->ranks));
  TRY(dist_check_ways(&o->ranks, o->copies, false));
  return dist_check_links(how);
}

static int links_main(char **args) {
  if (!asked.runs) asked.runs = 7;
  const dist_links_options how = {&asked.ranks, asked.bytes, asked.copies, asked.runs};
  if (check_links_options(&asked, &how) != GA_OK) return dist_usage_error("links");
  if (dist_needs_launch(&asked.ranks)) return dist_launch((int32_t)asked.ranks.n, args);
  return dist_exit("links", links_here(&asked, &how));
}

const dist_verb dist_verb_links = {.name = "links",
                                   .summary = "measure how fast blocks go from rank to rank",
                                   .options = options,
                                   .n_options = COUNT_OF(options),
                                   .run = links_main};
