/* ga bench: options of all its ways. */
#include <string.h>

#include "cli/commands.h"
#include "cli/open.h"
#include "cmdline/error.h"
#include "verify/bench/front.h"

/* --serve has options of its own. */
static bool names_server(int argc, char **argv) {
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
    if (!strcmp(argv[i], "--serve") || !strncmp(argv[i], "--serve=", 8)) return true;
  return false;
}

/* The second half of the help. */
static int help_of_serve(char **argv) {
  char help[] = "--help", *line[] = {argv[0], help, NULL};
  printf("\n");
  return bench_serve(2, line);
}

/* Opens the model with room for all tokens, and times it. */
static int run_model_bench(open_args *open, const bench_model_args *a) {
  ga_ctx *ctx[OPEN_MAX_DEVICES];
  opened o;
  listen_for_interrupt();
  const int64_t need = a->prompt > a->depth + a->decode ? a->prompt : a->depth + a->decode;
  if (open->context < need) open->context = need;
  if (open_model(open, true, &o) != GA_OK) return cmd_fail("bench");
  for (int32_t i = 0; i < o.n_more; i++) ctx[i] = o.more[i];
  ctx[o.n_more] = o.ctx;
  const bench_model_target target = {ctx, o.n_more + 1, o.model, o.session};
  const int code = bench_model(a, &target);
  close_model(&o);
  return code;
}

int cmd_bench(int argc, char **argv) {
  if (names_server(argc, argv)) return bench_serve(argc, argv);
  const char *patterns = "*", *before = NULL, *replay = NULL;
  int64_t threads = 0, seed = 1;
  bool json = false, error = false;
  bench_options o = {.device = "cpu", .shapes = "*", .seconds = 0.5};
  open_args open = {OPEN_ARGS_INIT};
  bench_model_args m = {.prompt = 512, .decode = 64, .depth = 16, .repeat = 5};
  const cmd_option options[] = {
      {"model", 'm', OPT_STRING, &open.model, 0, 0, "MODEL", "time a whole model instead of kernels"},
      {"prompt", 0, OPT_INT, &m.prompt, 1, 1e6, "N", "with --model: tokens of prefill"},
      {"decode", 0, OPT_INT, &m.decode, 1, 1e6, "N", "with --model: single tokens"},
      {"depth", 0, OPT_INT, &m.depth, 1, 1e6, "N", "with --model: tokens in the cache before those"},
      {"repeat", 'r', OPT_INT, &m.repeat, 1, 1000, "N", "with --model: rounds"},
      OPEN_SESSION_OPTIONS(open),
      {"energy", 0, OPT_FLOAT, &m.energy, 0, 3600, "SECONDS",
       "with --model: joules a token instead of times, from windows of so many seconds (10 or more): prompts, then "
       "generated tokens"},
      {"kernels", 'k', OPT_STRING, &patterns, 0, 0, "PATTERNS", "ids to time: comma-separated, with * and ?"},
      {"shape", 0, OPT_STRING, &o.shapes, 0, 0, "PATTERNS", "names of shapes"},
      {"device", 0, OPT_STRING, &o.device, 0, 0, "NAME", "cpu, ref, cuda:N; with --model also cuda:0,cuda:1"},
      {"threads", 't', OPT_INT, &threads, 0, 1024, "N", "CPU threads, 0 = one per usable CPU"},
      {"time", 0, OPT_FLOAT, &o.seconds, 0.001, 3600, "SECONDS", "for each kernel and shape"},
      {"hot", 0, OPT_FLAG, &o.hot, 0, 0, NULL, "one set of buffers, in the cache, instead of rotating"},
      {"seed", 's', OPT_INT, &seed, 0, 9e18, "SEED", "of values and order"},
      {"json", 0, OPT_FLAG, &json, 0, 0, NULL, "JSON on stdout"},
      {"error", 0, OPT_FLAG, &error, 0, 0, NULL,
       "print the error of FP8 attention on outliers for each way of scaling, instead of times"},
      OPEN_TRACE_OPTION(open),
      {"replay", 0, OPT_STRING, &replay, 0, 0, "FILE",
       "print hit rates of caches of experts for the choices that --trace-experts has written"},
      {"compare", 0, OPT_STRING, &before, 0, 0, "FILE",
       "followed by a second FILE: print what changed between two reports of --json"},
  };
  int code, rest = cmd_parse("bench", "[options], or: ga bench --compare FILE FILE", options, COUNT_OF(options), argc,
                             argv, &code);
  if (rest < 0) return code == EXIT_OK ? help_of_serve(argv) : code;
  if (before && rest != 1) return cmd_usage_error("bench", "--compare takes two files");
  if (before) return bench_compare(before, argv[1]);
  if (rest > 0) return cmd_usage_error("bench", "unexpected '%s'", argv[1]);
  if (replay) return bench_replay(replay, json);
  if (open.trace_experts && !open.model) return cmd_usage_error("bench", "--trace-experts needs --model");
  open.device = o.device;
  if (open_args_check("bench", &open)) return EXIT_USAGE;
  if (open.model) {
    open.threads = threads;
    m.json = json;
    return run_model_bench(&open, &m);
  }
  o.threads = (int)threads;
  o.seed = (uint64_t)seed;
  return error ? bench_accuracy(&o) : bench_kernels(&o, patterns, json);
}
