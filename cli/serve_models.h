/* The models of `ga serve`: which there are, and how they are loaded. */
#ifndef GA_CLI_SERVE_MODELS_H
#define GA_CLI_SERVE_MODELS_H

#include "cli/engine_args.h"
#include "serve/serve.h"

typedef struct serve_models {
  const engine_args *engine;
  int32_t max_waiting;
  double memory_gib;       /* memory for models on CPUs, in GiB; 0 = most of the machine's */
  sv_model_source *source; /* [n] */
  size_t n, room;
  uint64_t bytes; /* host memory of the models that are loaded */
  size_t n_loaded;
} serve_models;

/* Finds the models: each is a name, a file or a folder; a folder without a config.json stands for all models in it.
 * GA_ERR_ARG: two have one name. Release with serve_models_free, also after a failure. */
ga_status serve_models_find(const engine_args *engine, const cmd_texts *names, serve_models *out);
void serve_models_free(serve_models *m);
/* sv_models_options.load and unload; user: the serve_models. */
ga_status serve_models_load(void *user, size_t index, sv_loaded *out);
void serve_models_unload(void *user, sv_loaded *loaded);

#endif
