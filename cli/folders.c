#include "cli/folders.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/error.h"

static const char *variable(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

/* $xdg/rest, else $HOME/in_home/rest. */
static ga_status dir_of(const char *what, const char *xdg, const char *in_home, const char *rest, char *path,
                        size_t capacity) {
  const char *root = variable(xdg), *home = variable("HOME");
  REQUIRE(root || home, GA_ERR_IO, "no place for %s: set %s or HOME", what, xdg);
  const int n =
      root ? snprintf(path, capacity, "%s/%s", root, rest) : snprintf(path, capacity, "%s/%s/%s", home, in_home, rest);
  REQUIRE(n > 0 && (size_t)n < capacity, GA_ERR_IO, "the path of the folder of %s is too long", what);
  return GA_OK;
}

ga_status models_dir(char *path, size_t capacity) {
  const char *own = variable("GA_MODELS");
  if (!own && !variable("XDG_CACHE_HOME") && !variable("HOME"))
    return ga_error_set(GA_ERR_IO, "no place for models: set GA_MODELS or HOME");
  if (!own) return dir_of("models", "XDG_CACHE_HOME", ".cache", "ga/models", path, capacity);
  const int n = snprintf(path, capacity, "%s", own);
  REQUIRE(n > 0 && (size_t)n < capacity, GA_ERR_IO, "the path of the models' folder is too long");
  return GA_OK;
}

ga_status state_dir(char *path, size_t capacity) {
  return dir_of("what is kept", "XDG_STATE_HOME", ".local/state", "ga", path, capacity);
}

ga_status make_dirs(const char *path, mode_t mode) {
  char copy[4096];
  int n = snprintf(copy, sizeof copy, "%s", path);
  REQUIRE(n > 0 && (size_t)n < sizeof copy, GA_ERR_IO, "path too long");
  for (char *p = copy + 1;; p++) {
    if (*p && *p != '/') continue;
    char c = *p;
    *p = 0;
    REQUIRE(!mkdir(copy, mode) || errno == EEXIST, GA_ERR_IO, "%s: %s", copy, strerror(errno));
    *p = c;
    if (!c) return GA_OK;
  }
}
