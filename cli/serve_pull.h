/* How `ga serve` fetches models for its clients. */
#ifndef GA_CLI_SERVE_PULL_H
#define GA_CLI_SERVE_PULL_H

#include "serve/serve.h"

/* Fetches a model by `ga pull` in a process of its own, as sv_options.pull says. */
ga_status serve_pull(void *user, const char *name, sv_progress_fn *report, void *context);

#endif
