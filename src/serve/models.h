/* Several models in one server. A model is loaded when it is first used, and unloaded when it is idle or memory is
 * short. */
#ifndef GA_SERVE_MODELS_H
#define GA_SERVE_MODELS_H

#include "serve/http.h"

/* Starts the thread that loads and unloads models. Texts of the options are copied. */
ga_status sv_models_start(sv_server *host, const sv_models_options *options, sv_models **out);
/* Unloads all models and stops the thread. No call may use a model. NULL is fine. */
void sv_models_stop(sv_models *models);
/* Loads the first model, and returns when it is loaded. */
ga_status sv_models_load_first(sv_models *models);

/* Returns the number of models that a server offers. */
size_t sv_count_models(const sv_server *host);
/* The abilities of a model. A model that is not loaded and has no chat template may generate text or be an encoder. */
typedef enum sv_ability { SV_UNKNOWN, SV_CHATS, SV_COMPLETES, SV_EMBEDS } sv_ability;
/* The description of a model that a server offers. Its pointers are valid as long as the server. */
typedef struct sv_offer {
  const sv_server *server; /* server struct of the model, of which only names, options and facts may be read */
  const char *id, *path;
  const sv_facts *facts;
  bool is_loaded;
  sv_ability ability;
  int32_t context;                      /* tokens; 0 = not known before the model is loaded */
  uint64_t bytes, on_gpus;              /* bytes of memory of a loaded model, and bytes of these on GPUs */
  uint64_t expert_lookups, expert_hits; /* counts of a cache of experts, as ga_expert_cache_stats has them */
  double idle_left;                     /* seconds until the idle model is unloaded; below 0 = it stays */
} sv_offer;
void sv_describe_model(const sv_server *host, size_t index, sv_offer *out);
/* Finds the model that has the name `name`, with or without ":latest", and sets *index. Returns false if there is
 * none. */
bool sv_find_model(const sv_server *host, const char *name, size_t *index);
/* Sets *out to the sums of the statistics of all engines. Returns false if no engine is loaded. */
bool sv_sum_stats(const sv_server *host, ga_engine_stats *out);

#endif
