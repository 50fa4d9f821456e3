/* ga dist: plans of distributed attention, drawn, verified, run and timed over ranks. The front door of its verbs. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/dist/verb.h"
#include "cmdline/error.h"
#include "cmdline/interrupt.h"

static const dist_verb *const verbs[] = {&dist_verb_plan,  &dist_verb_verify, &dist_verb_simulate, &dist_verb_run,
                                         &dist_verb_bench, &dist_verb_reduce, &dist_verb_links};

static const dist_verb *verb; /* the verb of the command line; refuse_option reads it */

static const dist_verb *find_verb(const char *name) {
  for (size_t i = 0; i < COUNT_OF(verbs); i++)
    if (!strcmp(verbs[i]->name, name)) return verbs[i];
  return NULL;
}

/* --- options that the verb does not take --- */

static void print_taken(void) {
  (void)fprintf(stderr, "%s takes", verb->name);
  for (size_t i = 0; i < verb->n_options; i++) (void)fprintf(stderr, "%s --%s", i ? "," : "", verb->options[i].name);
  (void)fprintf(stderr, "\nsee: ga dist %s --help\n", verb->name);
}

/* Prints which verbs take an option ("--timeline is for run"), or the value and the verb's own reason. */
static void print_takers(const cmd_option *o, const char *arg, const char *next) {
  const char *equals = strchr(arg, '='), *value = equals ? equals + 1 : next, *before = " is for ";
  (void)fprintf(stderr, "ga dist: --%s", o->name);
  if (verb->refused && !strcmp(o->name, verb->refused)) {
    (void)fprintf(stderr, " %.40s: %s", value ? value : "", verb->why_refused);
    return;
  }
  for (size_t i = 0; i < COUNT_OF(verbs); i++) {
    if (!cmd_find_option(verbs[i]->options, verbs[i]->n_options, arg)) continue;
    (void)fprintf(stderr, "%s%s", before, verbs[i]->name);
    before = ", ";
  }
}

static void refuse_option(const char *arg, const char *next) {
  const cmd_option *o = NULL;
  for (size_t i = 0; i < COUNT_OF(verbs) && !o; i++) o = cmd_find_option(verbs[i]->options, verbs[i]->n_options, arg);
  if (o) {
    print_takers(o, arg, next);
    (void)fprintf(stderr, "; this is %s\nga dist: ", verb->name);
  } else {
    (void)fprintf(stderr, "ga dist: unknown option '%s'; ", arg);
  }
  print_taken();
}

/* --- the command line --- */

/* Finds the first word that names a verb, and moves it to argv[1]; options may stand before it. */
static const dist_verb *take_verb(int argc, char **argv) {
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
    const dist_verb *found = find_verb(argv[i]);
    char *const word = argv[i];
    if (!found) continue;
    for (; i > 1; i--) argv[i] = argv[i - 1];
    argv[1] = word;
    return found;
  }
  return NULL;
}

static int show_verbs(void) {
  printf("usage: ga dist VERB [options]\n\n");
  for (size_t i = 0; i < COUNT_OF(verbs); i++) printf("  %-12s %s\n", verbs[i]->name, verbs[i]->summary);
  printf("\n%-30s %s\n", "  -h, --help", "this text; ga dist VERB --help: the options of a verb");
  return EXIT_OK;
}

static bool asks_for_help(int argc, char **argv) {
  return argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"));
}

static int parse_and_run(int argc, char **argv, char **args) {
  int code;
  char name[32];
  if (asks_for_help(argc, argv)) return show_verbs();
  verb = take_verb(argc, argv);
  if (!verb)
    return cmd_usage_error("dist", "%s; must be one of plan, verify, simulate, run, bench, reduce, links",
                           argc > 1 ? argv[1] : "nothing to do");
  (void)snprintf(name, sizeof name, "dist %s", verb->name);
  const int rest =
      cmd_parse_or(name, "[options]", verb->options, verb->n_options, argc - 1, argv + 1, &code, refuse_option);
  if (rest < 0) return code;
  if (rest > 0) return cmd_usage_error(name, "unexpected '%s'", argv[2]);
  listen_for_interrupt();
  return verb->run(args);
}

int cmd_dist(int argc, char **argv) {
  static char program_name[] = "ga";
  char **args = calloc((size_t)argc + 2, sizeof *args); /* a copy: parsing moves the words of argv */
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
