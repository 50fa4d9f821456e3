/* The verbs of ga dist. Each has a file with its options, its table of them and its work. */
#ifndef GA_CLI_DIST_VERB_H
#define GA_CLI_DIST_VERB_H

#include "cmdline/cmd.h"

/* A verb of ga dist. */
typedef struct dist_verb {
  const char *name, *summary;
  const cmd_option *options; /* [n_options] */
  size_t n_options;
  const char *refused;
  const char *why_refused; /* an option of other verbs that this verb refuses, and the reason; NULL = none */
  /* Runs the verb with the parsed options. args: the arguments of this program; processes of ranks are started with
   * them, too. Returns an exit code. */
  int (*run)(char **args);
} dist_verb;

extern const dist_verb dist_verb_plan, dist_verb_verify, dist_verb_simulate, dist_verb_run, dist_verb_bench,
    dist_verb_reduce, dist_verb_links;

/* Prints the thread's error text and a hint to the verb's help. Returns EXIT_USAGE. */
int dist_usage_error(const char *verb);
/* Prints the error text, if status is an error, and returns the exit code. It is EXIT_USAGE if an option or a shape
 * is wrong. */
int dist_exit(const char *verb, ga_status status);

#endif
