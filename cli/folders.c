#include "cli/folders.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cmdline/error.h"

static const char *text_of_variable(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

ga_status state_dir(char *path, size_t capacity) {
  const char *root = text_of_variable("XDG_STATE_HOME"), *home = text_of_variable("HOME");
  REQUIRE(root || home, GA_ERR_IO, "no place for what is kept: set XDG_STATE_HOME or HOME");
  const int n = root ? snprintf(path, capacity, "%s/ga", root) : snprintf(path, capacity, "%s/.local/state/ga", home);
  REQUIRE(n > 0 && (size_t)n < capacity, GA_ERR_IO, "the path of the folder of what is kept is too long");
  return GA_OK;
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
