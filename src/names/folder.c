#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "names/names.h"

static const char *set_variable(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

ga_status ga_models_folder(char *path, size_t capacity) {
  const char *own = set_variable("GA_MODELS"), *cache = set_variable("XDG_CACHE_HOME"), *home = set_variable("HOME");
  int n;
  GA_REQUIRE(own || cache || home, GA_ERR_IO, "no place for models: set GA_MODELS or HOME");
  if (own)
    n = snprintf(path, capacity, "%s", own);
  else if (cache)
    n = snprintf(path, capacity, "%s/ga/models", cache);
  else
    n = snprintf(path, capacity, "%s/.cache/ga/models", home);
  GA_REQUIRE(n > 0 && (size_t)n < capacity, GA_ERR_IO, "the path of the models' folder is too long");
  return GA_OK;
}
