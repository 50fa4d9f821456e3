/* The verbs of ga dist. Each has a file with its options, its table of them and its work. */
#ifndef GA_CLI_DIST_VERB_H
#define GA_CLI_DIST_VERB_H

#include "cmdline/cmd.h"

typedef struct dist_verb {
  const char *name, *summary;
  const cmd_option *options; /* [n_options] */
  size_t n_options;
  const char *refused, *why_refused; /* an option of other verbs that this one refuses, and the reason; NULL = none */
  /* Does the work with the options that were parsed. args: the words that started this program; processes of ranks are
   * started with them, too. Returns an exit code. */
  int (*run)(char **args);
} dist_verb;

extern const dist_verb dist_verb_plan, dist_verb_verify, dist_verb_simulate, dist_verb_run, dist_verb_bench,
    dist_verb_reduce, dist_verb_links;

/* Prints the thread's error text and where the verb's help is. Returns EXIT_USAGE. */
int dist_usage_error(const char *verb);
/* Prints the error text, if any, and returns the exit code: EXIT_USAGE where an option or a shape is wrong. */
int dist_exit(const char *verb, ga_status status);

#endif
