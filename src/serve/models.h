/* Several models in one server: each is loaded when it is first used, and leaves when it is idle or memory is short. */
#ifndef GA_SERVE_MODELS_H
#define GA_SERVE_MODELS_H

#include "serve/http.h"

/* Starts the thread that loads and unloads models. Texts of the options are copied. */
ga_status sv_models_start(sv_server *host, const sv_models_options *options, sv_models **out);
/* Unloads all models and stops the thread. No call may use a model. NULL is fine. */
void sv_models_stop(sv_models *models);
/* Loads the first model, and waits until that is done. */
ga_status sv_models_load_first(sv_models *models);

/* Returns the number of models that a server offers. */
size_t sv_count_models(const sv_server *host);
/* Describes a model without loading it. The pointers are valid as long as the server. */
typedef struct sv_offer {
  const sv_server *server; /* what calls see of the model; only its names, options and facts may be read here */
  const char *id, *path;
  const sv_facts *facts;
  bool is_loaded;
  int32_t context;         /* tokens; 0 = not known before the model is loaded */
  uint64_t bytes, on_gpus; /* memory of a loaded model, and its part on GPUs */
  double idle_left;        /* seconds until the idle model leaves; below 0 = it stays */
} sv_offer;
void sv_describe_model(const sv_server *host, size_t index, sv_offer *out);
/* Finds a model by one of its names, with or without ":latest". False: there is none. */
bool sv_find_model(const sv_server *host, const char *name, size_t *index);
/* Adds the statistics of all engines. False: no engine is loaded. */
bool sv_sum_stats(const sv_server *host, ga_engine_stats *out);

#endif
