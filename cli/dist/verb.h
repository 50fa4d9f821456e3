/* The verbs of `ga dist`. Each verb has a file with its variables, its option table and its work. */
#ifndef GA_CLI_DIST_VERB_H
#define GA_CLI_DIST_VERB_H

#include "cmdline/cmd.h"

/* A verb of `ga dist`, such as plan or run. */
typedef struct dist_verb {
  const char *name, *summary;
  const cmd_option *options; /* [n_options] rows of the verb's option table */
  size_t n_options;
  const char *refused;
  /* name of an option of other verbs that this verb refuses (refused), and the reason (why_refused); NULL = none */
  const char *why_refused;
  /* Runs the verb after its options have been parsed. args: the arguments of this program, with which it starts the
   * processes of ranks. Returns an exit code. */
  int (*run)(char **args);
} dist_verb;

extern const dist_verb dist_verb_plan, dist_verb_verify, dist_verb_simulate, dist_verb_run, dist_verb_bench,
    dist_verb_reduce, dist_verb_links;

/* Prints the thread's error text and a hint to the verb's help. Always returns EXIT_USAGE. */
int dist_usage_error(const char *verb);
/* Prints the error text if status is an error. Returns the exit code, which is EXIT_USAGE if an option or a shape is
 * wrong. */
int dist_exit(const char *verb, ga_status status);

#endif
