/* ga dist: what its parts share. */
#ifndef GA_VERIFY_DIST_H
#define GA_VERIFY_DIST_H

#include "cmdline/cmd.h"
#include "ga/dist.h"

enum { DIST_COPIES_WORD = 16 };

/* Rates by size, out of a file. */
typedef struct dist_rates {
  ga_dist_point *points[4]; /* as the machine has them: plain, merged, backward, link */
  int32_t n[4];
} dist_rates;

typedef struct dist_args {
  const char *method, *order, *tokens, *queries, *grid, *need, *type, *partials, *transport, *copies, *device, *bytes,
      *rates, *timeline;
  int64_t ranks, heads, kv_heads, head_dim, v_dim, window, inner, prefetch, groups, chunks, steps_of, seed, runs, draws;
  int32_t rank; /* run, bench, reduce, links: of this process, -1 = it is no rank */
  double timeout, tflops, merged_tflops, backward_tflops, memory_gbytes, gbytes, latency, launch;
  double start_keys, start_queries;
  double jitter, spread, link_spread; /* per cent */
  const dist_rates *curves;           /* of --rates; NULL = none */
  bool full, backward, unordered, buffered, json;
  char grid_text[48]; /* of -m auto: what grid points to */
} dist_args;

/* What is to be computed: layouts and a description that points to them. Release with dist_end. */
typedef struct dist_task {
  ga_dist_layout *q, *kv;
  ga_dist_desc desc;
  ga_dist_grid grid;
  int64_t *q_lengths, *kv_lengths;
  int32_t documents;
} dist_task;

GA_NODISCARD ga_status dist_begin(const dist_args *a, const char *method, dist_task *t);
void dist_end(dist_task *t);

/* Of all ranks of a plan. */
typedef struct dist_summary {
  int64_t pairs, most_pairs, sent, most_received, most_memory, most_message, steps;
  double rank_balance;  /* mean of the ranks' pairs by the most */
  double stage_balance; /* the same, stage by stage: what is left when all wait for the slowest in each stage */
} dist_summary;
GA_NODISCARD ga_status dist_summarise(const ga_dist_plan *plan, dist_summary *s);

GA_NODISCARD ga_status dist_show_plan(const dist_args *a, const dist_task *t, const ga_dist_plan *plan);
GA_NODISCARD ga_status dist_show_all(const dist_args *a, bool simulate);
GA_NODISCARD ga_status dist_show_times(const dist_args *a, const ga_dist_plan *plan);
/* Measured figures: what the options leave open of a machine of GPUs, or of another one. */
GA_NODISCARD ga_status dist_machine_defaults(dist_args *a);
/* Of a file, or of what `ga dist bench --json` has printed. Release with dist_rates_free, also after a failure. */
GA_NODISCARD ga_status dist_rates_load(const char *path, dist_rates *out);
void dist_rates_free(dist_rates *r);
/* A plan's time on the machine that the options describe. */
GA_NODISCARD ga_status dist_simulate(const dist_args *a, const ga_dist_plan *plan, ga_dist_times *times);
/* The method and grid that are fastest on that machine, of those that fit, go into *a. Says on stdout why, unless asked
 * for JSON or quiet. */
GA_NODISCARD ga_status dist_choose(dist_args *a, bool quiet);
GA_NODISCARD ga_status dist_show_run(const dist_args *a, const dist_task *t, const ga_dist_plan *plan);
/* Of one method, of several with commas between, or of all. */
GA_NODISCARD ga_status dist_show_bench(const dist_args *a);
/* Sums over ranks: what of the options is wrong, and the command itself. */
GA_NODISCARD ga_status dist_check_reduce(const dist_args *a);
GA_NODISCARD ga_status dist_show_reduce(const dist_args *a);
/* ga dist links, in the same way. */
GA_NODISCARD ga_status dist_check_links(const dist_args *a);
GA_NODISCARD ga_status dist_show_links(const dist_args *a);
/* "5,7,9": a new array. like: what such a list is, with an example. */
GA_NODISCARD ga_status dist_read_lengths(const char *what, const char *like, const char *text, int64_t **out,
                                         int32_t *count);
/* Starts this program once for each rank; argv is how it was started. The exit code. */
int dist_launch(const dist_args *a, char **argv);
/* The communicator of this process, by its launcher's variables. */
GA_NODISCARD ga_status dist_open_comm(const dist_args *a, ga_comm **out);
/* The device of a rank, out of a list that goes round. */
void dist_device_of(const dist_args *a, int32_t rank, char *name, size_t capacity);
/* All of them are in host memory. */
bool dist_is_on_host(const dist_args *a);
/* The word of --copies that begins at *at, which goes on to the next one. False: there is none. */
bool dist_next_copies(const dist_args *a, size_t *at, char word[DIST_COPIES_WORD]);
const char *dist_move_name(int32_t move);

/* FNV-1a of 64 bits, from DIST_HASH_START on. */
#define DIST_HASH_START UINT64_C(14695981039346656037)
static inline uint64_t dist_hash(uint64_t h, const void *data, size_t bytes) {
  const unsigned char *p = data;
  for (size_t i = 0; i < bytes; i++) h = (h ^ p[i]) * UINT64_C(1099511628211);
  return h;
}

#endif
