/* Downloads that are not whole: what `ga list` shows of them. In the models' folder lie NAME.part of an address,
 * NAME.pull of a model in packages, and for each model of the hub that is being fetched a plan, .HASH.pull. */
#ifndef GA_CLI_PARTIAL_H
#define GA_CLI_PARTIAL_H

#include "names/hub.h"

typedef struct partial {
  char name[2048];     /* what goes on with it: for `ga pull`; of an address that may hold secrets the file's name */
  char path[4096];     /* of the part, the folder of packages, or the plan */
  int64_t bytes, of;   /* here, and of the whole; of -1: not told */
  int parts, of_parts; /* packages; of_parts 0: it does not come in packages */
  bool again;          /* the model is here, and is being replaced: --force */
} partial;

typedef struct partials {
  partial *item;
  size_t n, room;
} partials;

/* Those in the models' folder `dir`. */
ga_status partials_find(const char *dir, partials *out);
void partials_free(partials *p);
/* All that is here of it. GA_ERR_STATE: another process is downloading it; nothing is removed then. */
ga_status partial_remove(const partial *p);

/* GA_ERR_STATE: another process is fetching the model at `path`, below the models' folder `dir`, again. */
ga_status partial_refuse_busy(const char *dir, const char *path);

/* A plan is locked while it is carried out (pull_lock). */
ga_status partial_plan_path(const ga_hub_name *name, const char *source, char path[4096]);
/* Keeps which files belong to `source`, as hf:org/repo:Q4_K_M: the chosen ones. again: they are here, and what comes
 * waits in parts until all have come. */
ga_status partial_plan_write(const char *path, const char *source, const ga_hub_files *files, bool again);
/* Removes the plan when nothing of it is here, or nothing is missing. */
void partial_plan_settle(const char *path);

#endif
