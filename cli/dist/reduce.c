/* ga dist reduce: sums over ranks, checked and then timed. */
#include <math.h>

#include "cli/dist/launch.h"
#include "cli/dist/options.h"
#include "cli/dist/verb.h"
#include "cli/dist/working.h"
#include "cmdline/error.h"
#include "verify/dist/reduce.h"

typedef struct reduce_options {
  dist_ranks ranks;
  const char *type, *bytes;
  bool json;
} reduce_options;
static reduce_options asked = {.ranks = DIST_RANKS_INIT, .type = "f32"};

static const cmd_option options[] = {
    DIST_RANKS_OPTIONS(asked.ranks), DIST_WORD("type", asked.type, "TYPE", "of numbers: f32, f16, bf16"),
    DIST_WORD("bytes", asked.bytes, "LIST", "sizes of sums, multiples of 16; else 4096 to 1048576"),
    DIST_JSON_OPTION(asked.json)};

static json_t *us_or_null(double us) { return isnan(us) ? json_null() : json_real(us); }

static void print_us(double us) {
  if (isnan(us))
    printf(" %10s", "-");
  else
    printf(" %10.2f", us);
}

static bool add_row_of_sum(json_t *list, const dist_reduce_row *r) {
  return !json_array_append_new(list, json_pack("{s:I, s:o, s:o, s:I}", "bytes", (json_int_t)r->bytes, "us",
                                                us_or_null(r->us), "us_norm", us_or_null(r->us_norm), "rows",
                                                (json_int_t)r->rows));
}

static ga_status print_reduce_json(const reduce_options *o, const dist_reduce_found *f) {
  json_t *list = json_array();
  bool full = list != NULL;
  for (int32_t i = 0; i < f->n && full; i++) full = add_row_of_sum(list, &f->row[i]);
  if (!full) {
    json_decref(list);
    return fail_nomem("JSON", 0);
  }
  return cmd_print_json(json_pack("{s:s, s:s, s:I, s:s, s:i, s:i, s:i, s:o}", "transport", o->ranks.transport, "device",
                                  o->ranks.device, "ranks", (json_int_t)o->ranks.n, "type", o->type, "calls",
                                  DIST_REDUCE_CALLS, "replays", DIST_REDUCE_REPLAYS, "norm_width", DIST_REDUCE_WIDTH,
                                  "rows", list),
                        JSON_INDENT(1));
}

static void print_reduce(const reduce_options *o, const dist_reduce_found *f) {
  printf("sums of %s over %lld ranks (%s, %s): right, and with the same bits on all ranks\n"
         "us a call in graphs of %d, median of %d replays of the slowest rank; norm: with residual, rows of %d\n"
         "%10s %10s %10s\n",
         o->type, (long long)o->ranks.n, o->ranks.transport, o->ranks.device, DIST_REDUCE_CALLS, DIST_REDUCE_REPLAYS,
         DIST_REDUCE_WIDTH, "bytes", "sum", "norm");
  for (int32_t i = 0; i < f->n; i++) {
    printf("%10lld", (long long)f->row[i].bytes);
    print_us(f->row[i].us);
    print_us(f->row[i].us_norm);
    printf("\n");
  }
}

static ga_status reduce_here(const reduce_options *o, const dist_reduce_options *how) {
  dist_reduce_found found;
  ga_status status = dist_reduce(how, &found);
  const bool prints = status == GA_OK && dist_is_first(&o->ranks);
  if (prints && o->json)
    status = print_reduce_json(o, &found);
  else if (prints)
    print_reduce(o, &found);
  dist_reduce_free(&found);
  return status;
}

static int reduce_main(char **args) {
  const dist_reduce_options how = {&asked.ranks, asked.type, asked.bytes};
  ga_status status = dist_check_ranks("reduce", &asked.ranks);
  if (status == GA_OK) status = dist_check_reduce(&how);
  if (status != GA_OK) return dist_usage_error("reduce");
  if (dist_needs_launch(&asked.ranks)) return dist_launch((int32_t)asked.ranks.n, args);
  return dist_exit("reduce", reduce_here(&asked, &how));
}

const dist_verb dist_verb_reduce = {.name = "reduce",
                                    .summary = "check and time sums over ranks",
                                    .options = options,
                                    .n_options = COUNT_OF(options),
                                    .refused = "copies",
                                    .why_refused = "it is for run, bench and links on GPUs",
                                    .run = reduce_main};
