/* The models that are here: in the models' folder, see names/names.h. */
#ifndef GA_CLI_STORE_H
#define GA_CLI_STORE_H

#include <stdint.h>
#include <time.h>

#include "names/names.h"

typedef struct store_entry {
  char name[GA_MODEL_NAME_BYTES]; /* what -m takes */
  char path[4096];                /* a file, the first shard of several, or a folder */
  uint64_t bytes;                 /* all of it */
  int64_t files;
  time_t used; /* when it was opened the last time, or came */
  bool is_folder;
  bool shared; /* a folder of the hub that holds GGUF files, too, which are models of their own */
} store_entry;

typedef struct store {
  char dir[3072];
  store_entry *entry; /* the last used first */
  size_t n, room;
} store;

ga_status store_open(store *out);
void store_close(store *s);
/* What -m opens by this name; else that of this name, path, or name of a file, which must be the only one. */
ga_status store_find(const store *s, const char *name, const store_entry **out);
/* Its files, what is kept beside them, and folders that are empty then. Other models in its folder stay. GA_ERR_STATE:
 * another process is fetching it again. */
ga_status store_remove(const store *s, const store_entry *e);

/* Remembers that a model is used now, if it lies in the models' folder. */
void store_mark_used(const char *path);

#endif
