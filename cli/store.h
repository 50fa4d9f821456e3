/* The list of the models in the models' folder (names/names.h). */
#ifndef GA_CLI_STORE_H
#define GA_CLI_STORE_H

#include <stdint.h>
#include <time.h>

#include "names/names.h"

typedef struct store_entry {
  char name[GA_MODEL_NAME_BYTES]; /* name of the model for the option -m */
  char path[4096];                /* path of its file, of the first shard of several, or of its folder */
  uint64_t bytes;                 /* total bytes of its files */
  int64_t files;                  /* number of its files */
  time_t used;                    /* time when the model was last opened or written, whichever is later */
  bool is_folder;
  bool shared; /* the folder also has GGUF files, which are other models */
} store_entry;

typedef struct store {
  char dir[3072];
  store_entry *entry; /* [n] models, the most recently used first */
  size_t n, room;
} store;

ga_status store_open(store *out);
void store_close(store *s);
/* Finds the model that -m opens by this name. If there is none, finds the model with this name, path, or name of a
 * file, if only one has it. *out belongs to the store. */
ga_status store_find(const store *s, const char *name, const store_entry **out);
/* Removes a model's files, their records, and folders that become empty. Other models in its folder stay. Returns
 * GA_ERR_STATE if another process is downloading it anew. */
ga_status store_remove(const store *s, const store_entry *e);

/* Records that the model at `path` is used now, if it is in the models' folder. */
void store_mark_used(const char *path);

#endif
