/* What of the hub is here. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "names/hub.h"

/* Files under `folder`/`under`, two folders deep at most. */
static ga_status add_files(const char *folder, const char *under, int depth, ga_hub_files *files) {
  char path[4096], inside[1024];
  int n = snprintf(path, sizeof path, "%s/%s", folder, under);
  DIR *d = n > 0 && (size_t)n < sizeof path ? opendir(path) : NULL;
  ga_status status = GA_OK;
  if (!d) return GA_OK;
  for (struct dirent *e; status == GA_OK && (e = readdir(d));) {
    struct stat st;
    n = snprintf(inside, sizeof inside, "%s%s%s", under, *under ? "/" : "", e->d_name);
    if (e->d_name[0] == '.' || n <= 0 || (size_t)n >= sizeof inside) continue;
    n = snprintf(path, sizeof path, "%s/%s", folder, inside);
    if (n <= 0 || (size_t)n >= sizeof path || stat(path, &st)) continue;
    if (S_ISDIR(st.st_mode) && depth)
      status = add_files(folder, inside, depth - 1, files);
    else if (S_ISREG(st.st_mode))
      status = ga_hub_files_add(files, inside, st.st_size, NULL);
  }
  (void)closedir(d);
  return status;
}

ga_status ga_hub_find(const ga_hub_name *name, char *path, size_t capacity) {
  char folder[3500];
  ga_hub_files files = {0};
  GA_TRY(ga_hub_folder(name, folder, sizeof folder));
  ga_status status = add_files(folder, "", 2, &files);
  if (status == GA_OK) status = ga_hub_choose(name, &files);
  if (status == GA_OK) {
    const char *file = ga_hub_chosen(&files);
    const int n = snprintf(path, capacity, "%s%s%s", folder, *file ? "/" : "", file);
    if (n <= 0 || (size_t)n >= capacity) status = ga_fail(GA_ERR_IO, "%s: path too long", folder);
  }
  ga_hub_files_free(&files);
  return status;
}
