#include "cli/dist/verb.h"

#include <stdio.h>

int dist_usage_error(const char *verb) {
  (void)fprintf(stderr, "ga dist: %s\nsee: ga dist %s --help\n", ga_error_text(), verb);
  return EXIT_USAGE;
}

int dist_exit(const char *verb, ga_status status) {
  if (status == GA_OK) return EXIT_OK;
  return status == GA_ERR_ARG || status == GA_ERR_SHAPE ? dist_usage_error(verb) : cmd_fail("dist");
}
