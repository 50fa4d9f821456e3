/* ga dist bench: times of methods, beside one device that does all the work alone. */
#include <string.h>

#include "cli/dist/auto.h"
#include "cli/dist/launch.h"
#include "cli/dist/options.h"
#include "cli/dist/verb.h"
#include "cli/dist/working.h"
#include "cmdline/error.h"
#include "verify/dist/bench.h"

typedef struct bench_verb_options {
  dist_shape shape;
  dist_machine machine; /* of -m auto */
  dist_ranks ranks;
  const char *copies;
  int64_t rounds;
  bool json;
} bench_verb_options;
static bench_verb_options asked = {.shape = DIST_SHAPE_INIT, .machine = DIST_MACHINE_INIT, .ranks = DIST_RANKS_INIT};

static const cmd_option options[] = {
    DIST_METHOD(asked.shape.method,
                "ring, zigzag, ulysses, ...; several with commas between; auto = the fastest by simulate; all"),
    DIST_RANKS_OPTIONS(asked.ranks),
    DIST_SHAPE_OPTIONS(asked.shape),
    DIST_COPIES(asked.copies, "as of run; several with commas between are timed in the same rounds"),
    DIST_INT("runs", asked.rounds, 0, 1000000, "N", "rounds; 0 = 9"),
    DIST_MACHINE_OPTIONS(asked.machine),
    DIST_JSON_OPTION(asked.json)};

static ga_status check_bench_options(bench_verb_options *o) {
  TRY(dist_check_shape(&o->shape));
  TRY(dist_check_copies(o->copies, true));
  TRY(dist_check_ranks("bench", &o->ranks));
  REQUIRE(!dist_is_on_host(o->ranks.device) || !strcmp(o->shape.type, "f32"), GA_ERR_ARG,
          "--type %.20s: on %s bench takes f32", o->shape.type, o->ranks.device);
  if (!o->rounds) o->rounds = 9;
  o->shape.ranks = o->ranks.n;
  TRY(dist_resolve_auto(&o->shape, &o->machine, o->ranks.device, o->json || o->ranks.rank >= 0));
  TRY(dist_check_ways(&o->ranks, o->copies, true));
  return dist_check_types(&o->ranks, &o->shape);
}

static bool add_bench_row(json_t *list, const dist_bench_row *r) {
  return !json_array_append_new(list,
                                json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:I, s:I}", "method", r->name, "copies",
                                          r->copies, "seconds", r->median, "seconds_least", r->least, "seconds_most",
                                          r->most, "tflops_a_rank", r->tflops, "of_one_device", r->of_one, "sent_bytes",
                                          (json_int_t)r->sent, "memory_bytes", (json_int_t)r->memory));
}

/* One device's rate, in the form that simulate --rates reads. */
static json_t *rates_of(const bench_verb_options *o, const dist_bench_found *f) {
  if (f->rate_size <= 0) return json_object();
  return json_pack("{s:[[f,f]]}", o->shape.backward ? "backward" : "plain", f->rate_size, f->row[0].tflops);
}

static ga_status print_methods_json(const bench_verb_options *o, const dist_bench_found *f) {
  const dist_shape *s = &o->shape;
  json_t *list = json_array();
  bool full = list != NULL;
  for (int i = 0; i < f->n && full; i++) full = add_bench_row(list, &f->row[i]);
  if (!full) {
    json_decref(list);
    return fail_nomem("JSON", 0);
  }
  return cmd_print_json(json_pack("{s:s, s:s, s:I, s:s, s:s, s:I, s:I, s:I, s:b, s:b, s:b, s:I, s:I, s:o, s:o}",
                                  "transport", o->ranks.transport, "device", o->ranks.device, "ranks",
                                  (json_int_t)o->ranks.n, "tokens", s->tokens, "type", s->type, "heads",
                                  (json_int_t)s->heads, "kv_heads", (json_int_t)s->kv_heads, "head_dim",
                                  (json_int_t)s->head_dim, "causal", !s->full, "backward", s->backward, "unordered",
                                  s->unordered, "window", (json_int_t)s->window, "rounds", (json_int_t)o->rounds,
                                  "rows", list, "rates", rates_of(o, f)),
                        JSON_INDENT(1));
}

static void print_methods(const bench_verb_options *o, const dist_bench_found *f) {
  const dist_shape *s = &o->shape;
  printf("%s tokens, %lld/%lld heads of %lld, %s, %s; %lld ranks (%s, %s), %lld rounds; ms of the slowest rank\n"
         "%-14s %-6s %10s %10s %10s %9s %9s %13s\n",
         s->tokens, (long long)s->heads, (long long)s->kv_heads, (long long)s->head_dim, s->type,
         s->backward ? "backward" : "forward", (long long)o->ranks.n, o->ranks.transport, o->ranks.device,
         (long long)o->rounds, "method", "copies", "median", "least", "most", "TFLOP/s", "of one", "sent, mean");
  for (int i = 0; i < f->n; i++) {
    const dist_bench_row *r = &f->row[i];
    printf("%-14s %-6s %10.3f %10.3f %10.3f %9.3g", r->name, r->copies, r->median * 1e3, r->least * 1e3, r->most * 1e3,
           r->tflops);
    if (i)
      printf(" %8.1f%% %10.3f MB\n", r->of_one * 100, (double)r->sent / (double)o->ranks.n * 1e-6);
    else
      printf(" %9s\n", "");
  }
  printf("one device: all tokens on each rank's own; of one: its time by %lld times the method's; TFLOP/s of a rank\n",
         (long long)o->ranks.n);
}

static ga_status bench_here(const bench_verb_options *o) {
  static dist_bench_found found;
  const dist_bench_options how = {&o->ranks, &o->shape, o->copies, o->rounds};
  TRY(dist_bench(&how, &found));
  if (!dist_is_first(&o->ranks)) return GA_OK;
  if (o->json) return print_methods_json(o, &found);
  print_methods(o, &found);
  return GA_OK;
}

/* Starts the ranks; a wrong shape is refused before. */
static int launch_bench(const bench_verb_options *o, char **args) {
  dist_task t;
  const ga_status status = dist_begin(&o->shape, "ring", &t);
  dist_end(&t);
  return status == GA_OK ? dist_launch((int32_t)o->ranks.n, args) : dist_usage_error("bench");
}

static int bench_main(char **args) {
  int code;
  if (check_bench_options(&asked) != GA_OK)
    code = dist_usage_error("bench");
  else if (dist_needs_launch(&asked.ranks))
    code = launch_bench(&asked, args);
  else
    code = dist_exit("bench", bench_here(&asked));
  dist_machine_close(&asked.machine);
  return code;
}

const dist_verb dist_verb_bench = {.name = "bench",
                                   .summary = "time methods, beside one device that does all the work",
                                   .options = options,
                                   .n_options = COUNT_OF(options),
                                   .run = bench_main};
