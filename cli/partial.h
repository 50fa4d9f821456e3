/* Incomplete downloads, as `ga list` shows them. The models' folder has these files and folders:
 *   NAME.part    the part of a file from an address
 *   NAME.pull    the folder of a model in packages
 *   .HASH.pull   the plan of a model of the hub */
#ifndef GA_CLI_PARTIAL_H
#define GA_CLI_PARTIAL_H

#include "names/hub.h"

typedef struct partial {
  /* Argument with which `ga pull` continues the download. For an address that may contain secrets it is the file's
   * name. */
  char name[2048];
  char path[4096]; /* path of the part, of the folder of packages, or of the plan */
  int64_t bytes;   /* bytes that are present */
  int64_t of;      /* bytes of the whole; -1 = not known */
  int parts;       /* packages that are present */
  int of_parts;    /* packages of the whole; 0: the model is not made of packages */
  bool again;      /* the download replaces a complete model (--force) */
} partial;

typedef struct partials {
  partial *item;
  size_t n, room;
} partials;

/* Finds the incomplete downloads in the models' folder `dir`. */
ga_status partials_find(const char *dir, partials *out);
void partials_free(partials *p);
/* Removes all files of an incomplete download. GA_ERR_STATE, with nothing removed: another process is downloading
 * it. */
ga_status partial_remove(const partial *p);

/* Fails with GA_ERR_STATE if another process is downloading the model at `path` again. `dir` is the models' folder. */
ga_status partial_refuse_busy(const char *dir, const char *path);

/* Writes the path of the plan for `source`. A process locks the plan while it works on it (pull_lock). */
ga_status partial_plan_path(const ga_hub_name *name, const char *source, char path[4096]);
/* Writes a plan: the chosen files of `source`, such as hf:org/repo:Q4_K_M. again: complete files exist, so new ones
 * stay parts until all are complete. */
ga_status partial_plan_write(const char *path, const char *source, const ga_hub_files *files, bool again);
/* Removes a plan if none of its files exists, or if all of them are complete. */
void partial_plan_settle(const char *path);

#endif
