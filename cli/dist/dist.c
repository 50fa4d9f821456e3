/* ga dist: plans of distributed attention: drawn, verified, run and timed over ranks. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cmdline/error.h"
#include "cmdline/interrupt.h"
#include "verify/dist/dist.h"
#include "verify/dist/timeline.h"

static char program_name[] = "ga";
static const char *const orders[] = {"method", "contiguous", "striped", "zigzag",
                                     "chunks", "doc-zigzag", "pieces",  "documents"};
static const char *const transports[] = {"threads", "processes", "mpi"};
static const char *const ways[] = {"auto", "peer", "host", "nccl"};
static const char *const needs[] = {"method", "all", "blocks", "stretches"};

static int32_t place_of_name(const char *const *names, size_t n, const char *name) {
  for (size_t i = 0; i < n; i++)
    if (!strcmp(names[i], name)) return (int32_t)i;
  return -1;
}

ga_status dist_read_lengths(const char *what, const char *like, const char *text, int64_t **out, int32_t *count) {
  size_t n = 1;
  for (const char *p = text; *p; p++) n += *p == ',';
  *out = calloc(n, sizeof **out);
  if (!*out) return fail_nomem("lengths", n * sizeof **out);
  const char *p = text;
  for (size_t i = 0; i < n; i++) {
    char *end;
    errno = 0;
    (*out)[i] = strtoll(p, &end, 10);
    REQUIRE(end != p && !errno && (*end == ',' || !*end) && (*out)[i] >= 0, GA_ERR_ARG, "--%s '%.100s': must be %s",
            what, text, like);
    p = end + 1;
  }
  *count = (int32_t)n;
  return GA_OK;
}

static ga_status read_grid(const char *text, ga_dist_grid *g) {
  int32_t *const parts[3] = {&g->heads, &g->q, &g->kv};
  const char *p = text;
  bool good = true;
  for (int i = 0; i < 3 && good; i++) {
    char *end;
    errno = 0;
    const long long x = strtoll(p, &end, 10);
    good = end != p && !errno && x >= 0 && x <= INT32_MAX && *end == (i < 2 ? 'x' : '\0');
    if (good) *parts[i] = (int32_t)x;
    p = end + 1;
  }
  REQUIRE(good, GA_ERR_ARG, "--grid '%.100s': must be heads x q x kv, such as 2x1x4; 0 is what the method says", text);
  return GA_OK;
}

static ga_status make_layout(const dist_args *a, const char *method, int32_t documents, const int64_t *lengths,
                             ga_dist_layout **out) {
  ga_dist_layout_desc d = GA_DIST_LAYOUT_DESC_INIT;
  d.order = place_of_name(orders, COUNT_OF(orders), a->order);
  if (d.order == 0) d.order = ga_dist_method_order(method);
  if (d.order == 0) d.order = GA_DIST_CONTIGUOUS; /* an unknown method is refused with its name, later */
  d.chunks = d.order == GA_DIST_CHUNKS || d.order == GA_DIST_PIECES ? (int32_t)a->chunks : 0;
  d.ranks = (int32_t)a->ranks;
  d.documents = documents;
  d.lengths = lengths;
  return ga_dist_layout_create(&d, out);
}

ga_status dist_begin(const dist_args *a, const char *method, dist_task *t) {
  int32_t n_queries = 0;
  *t = (dist_task){.desc = GA_DIST_DESC_INIT, .grid = GA_DIST_GRID_INIT};
  static const char like[] = "lengths of documents, such as 4096 or 100,50,7";
  TRY(dist_read_lengths("tokens", like, a->tokens, &t->kv_lengths, &t->documents));
  TRY(dist_read_lengths("queries", like, a->queries ? a->queries : a->tokens, &t->q_lengths, &n_queries));
  REQUIRE(n_queries == t->documents, GA_ERR_ARG, "--queries has %d lengths, --tokens %d; must be equal", n_queries,
          t->documents);
  TRY(make_layout(a, method, t->documents, t->q_lengths, &t->q));
  TRY(make_layout(a, method, t->documents, t->kv_lengths, &t->kv));
  if (a->grid) TRY(read_grid(a->grid, &t->grid));
  t->grid.kv_inner = (int32_t)a->inner;
  t->grid.prefetch = (int32_t)a->prefetch;
  t->grid.groups = (int32_t)a->groups;
  t->grid.need = place_of_name(needs, COUNT_OF(needs), a->need);
  ga_dist_desc *d = &t->desc;
  d->method = method, d->q = t->q, d->kv = t->kv, d->grid = &t->grid;
  d->q_heads = (int32_t)a->heads, d->kv_heads = (int32_t)a->kv_heads;
  d->head_dim = (int32_t)a->head_dim, d->v_dim = (int32_t)a->v_dim;
  d->flags =
      (a->full ? 0u : GA_DIST_CAUSAL) | (a->backward ? GA_DIST_BACKWARD : 0u) | (a->unordered ? GA_DIST_UNORDERED : 0u);
  d->window = a->window;
  d->dtype = ga_dtype_from_name(a->type);
  REQUIRE(d->dtype == GA_F32 || d->dtype == GA_F16 || d->dtype == GA_BF16, GA_ERR_ARG,
          "--type '%.100s': must be f32, f16 or bf16", a->type);
  const bool same = !strcmp(a->partials, "type");
  REQUIRE(same || !strcmp(a->partials, "f32"), GA_ERR_ARG, "--partials '%.100s': must be f32 or type", a->partials);
  d->partial_dtype = same ? d->dtype : GA_F32;
  return GA_OK;
}

void dist_end(dist_task *t) {
  ga_dist_layout_destroy(t->q);
  ga_dist_layout_destroy(t->kv);
  free(t->q_lengths);
  free(t->kv_lengths);
}

static ga_status verify_one(const dist_args *a, const ga_dist_plan *plan) {
  ga_dist_report report = GA_DIST_REPORT_INIT;
  TRY(ga_dist_plan_verify(plan, &report));
  if (a->json) return cmd_print_json(json_pack("{s:s, s:b}", "method", a->method, "verified", 1), JSON_INDENT(2));
  printf("%s: verified:", a->method);
  for (int32_t r = GA_DIST_RULE_SIZE; r <= GA_DIST_RULE_BYTES; r++)
    printf(" %s%s", ga_dist_rule_name(r), r < GA_DIST_RULE_BYTES ? "," : "\n");
  return GA_OK;
}

/* Which rank this process is. Threads know no launcher. */
static ga_status find_rank(dist_args *a, bool run) {
  ga_comm_place place = GA_COMM_PLACE_INIT;
  a->rank = -1;
  if (run && strcmp(a->transport, "threads") != 0) TRY(ga_comm_place_find(&place));
  REQUIRE(*place.launcher || strcmp(a->transport, "mpi") != 0 || !run, GA_ERR_ARG,
          "--transport mpi: no launcher's variables are set; it is started by mpirun");
  if (!*place.launcher) {
    if (!a->ranks) a->ranks = 4;
    return GA_OK;
  }
  REQUIRE(!a->ranks || a->ranks == place.ranks, GA_ERR_ARG, "--ranks %lld: %s has started %d", (long long)a->ranks,
          place.launcher, place.ranks);
  a->ranks = place.ranks, a->rank = place.rank;
  return GA_OK;
}

void dist_device_of(const dist_args *a, int32_t rank, char *name, size_t capacity) {
  int32_t n = 1;
  for (const char *p = a->device; *p; p++) n += *p == ',';
  const char *at = a->device;
  for (int32_t i = rank % n; i > 0; i--) at = strchr(at, ',') + 1;
  (void)snprintf(name, capacity, "%.*s", (int)strcspn(at, ","), at);
}

bool dist_is_on_host(const dist_args *a) { return !strcmp(a->device, "cpu") || !strcmp(a->device, "ref"); }

bool dist_next_copies(const dist_args *a, size_t *at, char word[DIST_COPIES_WORD]) {
  const char *const p = a->copies + *at;
  const size_t n = strcspn(p, ",");
  if (!*p) return false;
  (void)snprintf(word, DIST_COPIES_WORD, "%.*s", (int)n, p);
  *at += n + (p[n] == ',');
  return true;
}

/* Known words, one or several. */
static bool are_ways(const dist_args *a, bool several) {
  char word[DIST_COPIES_WORD];
  bool seen[COUNT_OF(ways)] = {false};
  size_t n = 0;
  if (!a->copies) return true;
  if (!*a->copies || a->copies[strlen(a->copies) - 1] == ',') return false;
  for (size_t at = 0; dist_next_copies(a, &at, word); n++) {
    const int32_t i = place_of_name(ways, COUNT_OF(ways), word);
    if (i < 0 || seen[i]) return false;
    seen[i] = true;
  }
  return several || n == 1;
}

static ga_status check_device_names(const dist_args *a) {
  char name[64];
  int32_t n = 1;
  for (const char *p = a->device; *p; p++) n += *p == ',';
  for (int32_t r = 0; r < n; r++) {
    dist_device_of(a, r, name, sizeof name);
    const bool host = !strcmp(name, "cpu") || !strcmp(name, "ref");
    const bool known = host || !strncmp(name, "cuda:", 5) || !strcmp(name, "emu") || !strncmp(name, "emu:", 4);
    REQUIRE(known && (n == 1 || !host), GA_ERR_ARG, "--device '%.100s': must be cpu, or GPUs such as cuda:0,cuda:1",
            a->device);
  }
  return GA_OK;
}

/* What cannot be together, before anything is started. */
static ga_status check_run_devices(const dist_args *a, const char *what) {
  const bool attends = strcmp(what, "reduce") != 0 && strcmp(what, "links") != 0;
  REQUIRE(!a->copies || (strcmp(what, "reduce") != 0 && !dist_is_on_host(a)), GA_ERR_ARG,
          "--copies %.40s: it is for run, bench and links on GPUs; --device is %.100s", a->copies, a->device);
  if (dist_is_on_host(a)) return GA_OK;
  REQUIRE(!attends || strcmp(a->type, "f32") != 0 || !strcmp(a->method, "llama3"), GA_ERR_ARG,
          "--type f32: on %.100s it must be bf16 or f16, but for --method llama3", a->device);
  REQUIRE(!strcmp(a->partials, "f32"), GA_ERR_ARG, "--partials %.20s: on %.100s they are f32", a->partials, a->device);
  REQUIRE(!a->seed && !a->buffered, GA_ERR_ARG, "--seed and --buffered are for --device cpu");
  return GA_OK;
}

static int exit_of(ga_status status) {
  const bool is_usage = status == GA_ERR_ARG || status == GA_ERR_SHAPE;
  return status == GA_OK ? EXIT_OK : is_usage ? cmd_usage_error("dist", "%s", ga_error_text()) : cmd_fail("dist");
}

/* reduce and links: without a plan. args: how this program was started. */
static int planless_command(const dist_args *a, char **args, ga_status (*check)(const dist_args *),
                            ga_status (*show)(const dist_args *)) {
  const bool launches = a->rank < 0 && !strcmp(a->transport, "processes");
  if (check(a) != GA_OK) return cmd_usage_error("dist", "%s", ga_error_text());
  return launches ? dist_launch(a, args) : exit_of(show(a));
}

static int bench_command(const dist_args *a, char **args) {
  dist_task t;
  if (a->rank >= 0 || strcmp(a->transport, "processes") != 0) return exit_of(dist_show_bench(a));
  if (dist_begin(a, "ring", &t) != GA_OK) return cmd_usage_error("dist", "%s", ga_error_text());
  dist_end(&t);
  return dist_launch(a, args);
}

/* The method of -m auto. Each rank finds the same one; only one process says why. */
static ga_status resolve_auto(const char *what, dist_args *a) {
  const bool works = !strcmp(what, "run") || !strcmp(what, "bench");
  TRY(dist_machine_defaults(a));
  if (strcmp(a->method, "auto") != 0) return GA_OK;
  const bool is_child = works && a->rank >= 0;
  return dist_choose(a, is_child || !strcmp(what, "verify"));
}

static int run_command(const char *what, const dist_args *a, char **args) {
  dist_task t;
  ga_dist_plan *plan = NULL;
  int launched = -1;
  ga_status status = dist_begin(a, a->method, &t);
  if (status == GA_OK && strcmp(a->method, "all") != 0) status = ga_dist_plan_create(&t.desc, &plan);
  const bool is_usage = status == GA_ERR_ARG || status == GA_ERR_SHAPE || status == GA_ERR_UNSUPPORTED;
  if (status == GA_OK && !plan)
    status = dist_show_all(a, !strcmp(what, "simulate"));
  else if (status == GA_OK && !strcmp(what, "plan"))
    status = dist_show_plan(a, &t, plan);
  else if (status == GA_OK && !strcmp(what, "verify"))
    status = verify_one(a, plan);
  else if (status == GA_OK && !strcmp(what, "simulate"))
    status = dist_show_times(a, plan);
  else if (status == GA_OK && a->rank < 0 && !strcmp(a->transport, "processes")) {
    if (a->timeline) status = dist_timeline_check(a->timeline);
    if (status == GA_OK) launched = dist_launch(a, args);
  } else if (status == GA_OK)
    status = dist_show_run(a, &t, plan);
  ga_dist_plan_destroy(plan);
  dist_end(&t);
  if (launched >= 0) return launched;
  if (is_usage) return cmd_usage_error("dist", "%s", ga_error_text());
  return status == GA_OK ? EXIT_OK : cmd_fail("dist");
}

static ga_status check_run_limits(const char *what, const dist_args *a, bool run, bool bench) {
  REQUIRE(a->steps_of < a->ranks, GA_ERR_ARG, "--steps %lld: must be a rank, 0 to %lld", (long long)a->steps_of,
          (long long)a->ranks - 1);
  REQUIRE(strcmp(what, "run") != 0 || strcmp(a->method, "all") != 0, GA_ERR_ARG, "run takes one method");
  REQUIRE(!bench || !dist_is_on_host(a) || !strcmp(a->type, "f32"), GA_ERR_ARG, "--type %.20s: on %s bench takes f32",
          a->type, a->device);
  REQUIRE(!run || a->ranks <= 64, GA_ERR_ARG, "--ranks %lld: %s takes at most 64", (long long)a->ranks, what);
  REQUIRE(!a->timeline || !strcmp(what, "run"), GA_ERR_ARG, "--timeline is for run; this is %s", what);
  REQUIRE(!a->timeline || *a->timeline, GA_ERR_ARG, "--timeline '': it must be the name of a file");
  REQUIRE(!a->timeline || strcmp(a->timeline, "-") != 0, GA_ERR_ARG, "--timeline -: it must be a file, not a stream");
  return GA_OK;
}

static bool starts_ranks(const char *what) {
  static const char *const all[] = {"run", "bench", "reduce", "links"};
  return place_of_name(all, COUNT_OF(all), what) >= 0;
}

/* What is asked for, once the command line is understood. */
static int answer_command(const char *what, dist_args *a, char **args) {
  const bool run = starts_ranks(what);
  if (check_device_names(a) != GA_OK) return cmd_usage_error("dist", "%s", ga_error_text());
  if (resolve_auto(what, a) != GA_OK) return cmd_usage_error("dist", "%s", ga_error_text());
  if (run && check_run_devices(a, what) != GA_OK) return cmd_usage_error("dist", "%s", ga_error_text());
  if (!strcmp(what, "bench")) return bench_command(a, args);
  if (!strcmp(what, "reduce")) return planless_command(a, args, dist_check_reduce, dist_show_reduce);
  if (!strcmp(what, "links")) return planless_command(a, args, dist_check_links, dist_show_links);
  return run_command(what, a, args);
}

static int parse_and_run(int argc, char **argv, char **args) {
  dist_args a = {.method = "zigzag",
                 .order = "method",
                 .tokens = "4096",
                 .need = "method",
                 .type = "f32",
                 .partials = "f32",
                 .transport = "threads",
                 .device = "cpu",
                 .heads = 8,
                 .kv_heads = 2,
                 .head_dim = 64,
                 .steps_of = -1,
                 .chunks = 4,
                 .timeout = 5,
                 .tflops = 600,
                 .gbytes = 370,
                 .latency = -1,
                 .launch = -1,
                 .memory_gbytes = -1,
                 .start_keys = -1,
                 .start_queries = -1};
  dist_rates curves = {.n = {0}};
  const cmd_option options[] = {
      {"method", 'm', OPT_STRING, &a.method, 0, 0, "NAME",
       "ring, zigzag, ulysses, ...; auto = the fastest by simulate; all = compare them (not run); bench: also several, "
       "with commas between"},
      {"ranks", 'n', OPT_INT, &a.ranks, 1, 4096, "N",
       "how many: 4, or as a launcher says; run, bench, reduce, links: at most 64"},
      {"tokens", 0, OPT_STRING, &a.tokens, 0, 0, "LIST", "tokens of each document"},
      {"queries", 0, OPT_STRING, &a.queries, 0, 0, "LIST", "queries of each document, its last tokens; else all"},
      {"heads", 0, OPT_INT, &a.heads, 1, 65536, "N", "of queries"},
      {"kv-heads", 0, OPT_INT, &a.kv_heads, 1, 65536, "N", "of keys and values; divides --heads"},
      {"head-dim", 0, OPT_INT, &a.head_dim, 1, 1024, "N", "elements of a head"},
      {"v-dim", 0, OPT_INT, &a.v_dim, 0, 1024, "N", "elements of a value; 0 = --head-dim"},
      {"full", 0, OPT_FLAG, &a.full, 0, 0, NULL, "no causal mask"},
      {"window", 0, OPT_INT, &a.window, 0, 2147483647, "N", "a query sees so many keys before it, itself one; 0 = all"},
      {"backward", 0, OPT_FLAG, &a.backward, 0, 0, NULL, "the gradients"},
      {"unordered", 0, OPT_FLAG, &a.unordered, 0, 0, NULL,
       "backward on GPUs: sums in no fixed order, faster; two runs differ in last bits"},
      {"order", 0, OPT_STRING, &a.order, 0, 0, "NAME",
       "of tokens: contiguous, striped, zigzag, chunks, doc-zigzag, pieces, documents, method"},
      {"chunks", 0, OPT_INT, &a.chunks, 1, 1024, "N", "with order chunks or pieces: how many a rank has"},
      {"grid", 0, OPT_STRING, &a.grid, 0, 0, "HxQxKV", "ranks by heads, queries and keys; 0 = what the method says"},
      {"inner", 0, OPT_INT, &a.inner, 0, 4096, "N",
       "ranks of the inner ring of a double ring; 0 = what the method says"},
      {"need", 0, OPT_STRING, &a.need, 0, 0, "WHAT", "what is sent: all, blocks or stretches that are needed, method"},
      {"type", 0, OPT_STRING, &a.type, 0, 0, "TYPE", "of inputs and results: f32, f16, bf16"},
      {"bytes", 0, OPT_STRING, &a.bytes, 0, 0, "LIST",
       "reduce: sizes of what is summed, multiples of 16; else 4096 to 1048576. links: sizes of blocks; else 65536 to "
       "16777216, on GPUs to 268435456"},
      {"partials", 0, OPT_STRING, &a.partials, 0, 0, "TYPE",
       "of partial results: f32, or type: that of the inputs, whose errors grow with the ranks"},
      {"prefetch", 0, OPT_INT, &a.prefetch, 0, 1024, "N", "stages that data comes ahead of its use; 0 = 1"},
      {"groups", 0, OPT_INT, &a.groups, 0, 8, "N",
       "GPUs that gather keys or split heads: groups of heads, of which one comes while another is computed; 0 = by "
       "the shape"},
      {"steps", 0, OPT_INT, &a.steps_of, -1, 4095, "RANK", "plan: print the steps of this rank; -1 = none"},
      {"transport", 0, OPT_STRING, &a.transport, 0, 0, "NAME",
       "run, bench, reduce, links: ranks are threads, processes, or mpi: those of mpirun"},
      {"copies", 0, OPT_STRING, &a.copies, 0, 0, "NAME",
       "run, bench on GPUs, how blocks go from one to another: peer: each writes into the memory of the others; host: "
       "through host memory; nccl: by NCCL; auto: peer where they can, else host; bench takes several, with commas. "
       "Without it as $GA_DIST_COPIES says"},
      {"device", 0, OPT_STRING, &a.device, 0, 0, "LIST",
       "run, bench, reduce, links: cpu, or cuda:0,cuda:1,...: one for each rank, from the first again when there are "
       "more "
       "ranks; simulate: cuda:0 = a machine of GPUs"},
      {"timeline", 0, OPT_STRING, &a.timeline, 0, 0, "FILE",
       "run: the last run's spans, as chrome://tracing and Perfetto read them; and what of its time was attention, "
       "communication, or both"},
      {"runs", 0, OPT_INT, &a.runs, 0, 1000000, "N",
       "run: so often, the fastest is told; bench: rounds; 0 = 1, bench 9"},
      {"seed", 's', OPT_INT, &a.seed, 0, 0, "SEED",
       "run, bench: messages arrive in an order drawn from it; 0 = at once; simulate: of draws"},
      {"buffered", 0, OPT_FLAG, &a.buffered, 0, 0, NULL, "run, bench: sends do not wait for their receiver"},
      {"timeout", 0, OPT_FLOAT, &a.timeout, 0.01, 86400, "S",
       "run, bench, reduce, links: a rank that lets another wait longer ends all"},
      {"tflops", 0, OPT_FLOAT, &a.tflops, 1e-6, 1e9, "X", "simulate: arithmetic of attention, 10^12 a second and rank"},
      {"merged-tflops", 0, OPT_FLOAT, &a.merged_tflops, 0, 1e9, "X",
       "simulate: the same of tiles whose results are merged, on GPUs, merging included; 0 = as --tflops; on GPUs 0.78 "
       "of it, and passes over memory"},
      {"backward-tflops", 0, OPT_FLOAT, &a.backward_tflops, 0, 1e9, "X",
       "simulate: the same of gradients; 0 = as --tflops, on GPUs 0.73 of it, 0.87 with --unordered: medians of one "
       "H200"},
      {"memory-gbytes", 0, OPT_FLOAT, &a.memory_gbytes, -1, 1e9, "X",
       "simulate: memory that partial results pass through, 10^9 bytes a second; 0 = in --merged-tflops; -1 = on GPUs "
       "2200: fitted to two H200"},
      {"gbytes", 0, OPT_FLOAT, &a.gbytes, 1e-6, 1e9, "X",
       "simulate: a rank's way in, and its way out, 10^9 bytes a second"},
      {"latency", 0, OPT_FLOAT, &a.latency, -1, 1e9, "US",
       "simulate: microseconds of a transfer; -1 = 5, on GPUs 8: fitted to two and four H200 "
       "(docs/results/distributed.md)"},
      {"launch", 0, OPT_FLOAT, &a.launch, -1, 1e9, "US",
       "simulate: microseconds of a call beside its arithmetic; -1 = 5, on GPUs 15: fitted as --latency"},
      {"start-keys", 0, OPT_FLOAT, &a.start_keys, -1, 1e9, "N",
       "simulate: what a kernel's tile costs beside its keys, in keys of a query; -1 = on GPUs 230: fitted to one "
       "H200"},
      {"start-queries", 0, OPT_FLOAT, &a.start_queries, -1, 1e9, "N",
       "simulate: the same of gradients, in queries of a key; -1 = on GPUs 2050, 400 with --unordered: fitted to H200"},
      {"rates", 0, OPT_STRING, &a.rates, 0, 0, "FILE",
       "simulate: measured rates by size, in the place of the numbers above: JSON of bench, or lists (guide)"},
      {"jitter", 0, OPT_FLOAT, &a.jitter, 0, 100, "PERCENT", "simulate: standard deviation of a call's time"},
      {"spread", 0, OPT_FLOAT, &a.spread, 0, 100, "PERCENT", "simulate: standard deviation of the speed of ranks"},
      {"link-spread", 0, OPT_FLOAT, &a.link_spread, 0, 100, "PERCENT",
       "simulate: standard deviation of the speed of their links"},
      {"draws", 0, OPT_INT, &a.draws, 0, 100000, "N",
       "simulate: how often jitter and spread are drawn, from --seed; 0 = 200"},
      {"json", 0, OPT_FLAG, &a.json, 0, 0, NULL, "JSON on stdout"},
  };
  int code;
  const int rest = cmd_parse("dist", "plan|verify|simulate|run|bench|reduce|links [options]", options,
                             COUNT_OF(options), argc, argv, &code);
  if (rest < 0) return code;
  static const char *const whats[] = {"plan", "verify", "simulate", "run", "bench", "reduce", "links"};
  if (rest != 1 || place_of_name(whats, COUNT_OF(whats), argv[1]) < 0)
    return cmd_usage_error("dist", "%s; must be one of plan, verify, simulate, run, bench, reduce, links",
                           rest ? argv[1] : "nothing to do");
  if (place_of_name(orders, COUNT_OF(orders), a.order) < 0)
    return cmd_usage_error(
        "dist", "--order '%s': must be contiguous, striped, zigzag, chunks, doc-zigzag, pieces, documents or method",
        a.order);
  if (place_of_name(needs, COUNT_OF(needs), a.need) < 0)
    return cmd_usage_error("dist", "--need '%s': must be all, blocks, stretches or method", a.need);
  const bool bench = !strcmp(argv[1], "bench"), links = !strcmp(argv[1], "links"), run = starts_ranks(argv[1]);
  const bool is_word = !strcmp(a.method, "all") || !strcmp(a.method, "auto");
  if (!bench && !is_word && !ga_dist_method_text(a.method)) {
    (void)fprintf(stderr, "ga dist: methods are");
    for (size_t i = 0; ga_dist_method_name(i); i++) (void)fprintf(stderr, " %s", ga_dist_method_name(i));
    (void)fprintf(stderr, "\n");
    return cmd_usage_error("dist", "--method '%s' is none of these", a.method);
  }
  if (place_of_name(transports, COUNT_OF(transports), a.transport) < 0)
    return cmd_usage_error("dist", "--transport '%s': must be threads, processes or mpi", a.transport);
  if (!are_ways(&a, bench))
    return cmd_usage_error("dist", "--copies '%.100s': must be auto, peer, host or nccl%s", a.copies,
                           bench ? ", each once, with commas between" : "");
  if (find_rank(&a, run) != GA_OK) return cmd_usage_error("dist", "%s", ga_error_text());
  if (check_run_limits(argv[1], &a, run, bench) != GA_OK) return cmd_usage_error("dist", "%s", ga_error_text());
  if (!a.runs) a.runs = bench ? 9 : links ? 7 : 1;
  listen_for_interrupt();
  if (a.rates && dist_rates_load(a.rates, &curves) != GA_OK) {
    dist_rates_free(&curves);
    return cmd_usage_error("dist", "%s", ga_error_text());
  }
  if (a.rates) a.curves = &curves;
  code = answer_command(argv[1], &a, args);
  dist_rates_free(&curves);
  return code;
}
int cmd_dist(int argc, char **argv) {
  char **args = calloc((size_t)argc + 2, sizeof *args); /* parsing moves argv */
  if (!args) {
    (void)fail_nomem("arguments", (size_t)argc * sizeof *args);
    return cmd_fail("dist");
  }
  args[0] = program_name;
  for (int i = 0; i < argc; i++) args[i + 1] = argv[i];
  const int code = parse_and_run(argc, argv, args);
  free(args);
  return code;
}
