#include "cli/trees.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <unistd.h>

enum { OPEN_FOLDERS = 16 };

static void (*file_fn)(const char *file, void *user); /* nftw has no place for it */
static void *file_user;

static int visit_file(const char *path, const struct stat *st, int type, struct FTW *ftw) {
  (void)st, (void)ftw;
  if (type == FTW_F) file_fn(path, file_user);
  return 0;
}

void tree_files(const char *path, void (*each)(const char *file, void *user), void *user) {
  file_fn = each;
  file_user = user;
  (void)nftw(path, visit_file, OPEN_FOLDERS, FTW_PHYS);
}

static int visit_remove(const char *path, const struct stat *st, int type, struct FTW *ftw) {
  (void)st, (void)type, (void)ftw;
  return remove(path);
}

bool tree_remove(const char *path) {
  return !nftw(path, visit_remove, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS) || access(path, F_OK);
}
