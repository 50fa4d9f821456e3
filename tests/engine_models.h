/* Where the tests find the real models: $GA_MODELS, else ~/.cache/ga/models. `make models` fetches them. */
#ifndef GA_TESTS_ENGINE_MODELS_H
#define GA_TESTS_ENGINE_MODELS_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Path of a model in a static buffer, or NULL when it is not there. */
static inline const char *model_path(const char *file) {
  static char path[4096];
  const char *own = getenv("GA_MODELS"), *home = getenv("HOME");
  if (own && *own)
    (void)snprintf(path, sizeof path, "%s/%s", own, file);
  else
    (void)snprintf(path, sizeof path, "%s/.cache/ga/models/%s", home ? home : "", file);
  return access(path, R_OK) == 0 ? path : NULL;
}

#endif
