/* The models in the models' folder, see names/names.h. */
#ifndef GA_CLI_STORE_H
#define GA_CLI_STORE_H

#include <stdint.h>
#include <time.h>

#include "names/names.h"

typedef struct store_entry {
  char name[GA_MODEL_NAME_BYTES]; /* the name for -m */
  char path[4096];                /* path of a file, of the first shard of several, or of a folder */
  uint64_t bytes;                 /* bytes of all files */
  int64_t files;                  /* number of files */
  time_t used;                    /* time when the model was last opened or written, whichever is later */
  bool is_folder;
  bool shared; /* the folder also holds GGUF files, which are other models */
} store_entry;

typedef struct store {
  char dir[3072];
  store_entry *entry; /* [n] models, the most recently used first */
  size_t n, room;
} store;

ga_status store_open(store *out);
void store_close(store *s);
/* Finds the model that -m opens by this name. If there is none, finds the only model with this name, path, or name
 * of a file. */
ga_status store_find(const store *s, const char *name, const store_entry **out);
/* Removes a model's files, their records, and folders that become empty. Other models in its folder stay.
 * GA_ERR_STATE: another process is downloading it again. */
ga_status store_remove(const store *s, const store_entry *e);

/* Records that a model is used now, if it is in the models' folder. */
void store_mark_used(const char *path);

#endif
