#include "cli/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/partial.h"
#include "cli/trees.h"
#include "cmdline/error.h"
#include "names/hub.h"
#include "names/names.h"

static bool join(char *out, size_t capacity, const char *a, const char *b) {
  const int n = snprintf(out, capacity, "%s/%s", a, b);
  return n > 0 && (size_t)n < capacity;
}

/* --- one model --- */

/* Calls `each` for every file of a model that is no folder; false: one call failed. */
static bool for_files(const char *path, bool (*each)(const char *file, void *user), void *user) {
  size_t stem = 0;
  unsigned count = 1;
  char file[4096 + 32];
  if (!ga_is_first_shard(path, &stem, &count)) return each(path, user);
  bool good = true;
  for (unsigned i = 1; i <= count && i < 100000; i++) {
    (void)snprintf(file, sizeof file, "%.*s-%05u-of-%05u.gguf", (int)stem, path, i, count);
    if (!access(file, F_OK)) good &= each(file, user);
  }
  return good;
}

static bool add_size(const char *file, void *user) {
  store_entry *e = user;
  struct stat st;
  if (stat(file, &st)) return false;
  e->bytes += (uint64_t)st.st_size;
  e->files++;
  return true;
}

static void add_tree_size(const char *path, void *user) { (void)add_size(path, user); }

/* Calls `each` for the files of a model in a folder that it shares, by the names that the hub has for them. */
typedef struct own_files {
  size_t root; /* bytes of the folder's path, with the / */
  bool (*each)(const char *file, void *user);
  void *user;
  bool good;
} own_files;

static void visit_own(const char *file, void *user) {
  own_files *o = user;
  if (ga_hub_is_of_folder(file + o->root)) o->good &= o->each(file, o->user);
}

static bool for_own_files(const char *folder, bool (*each)(const char *file, void *user), void *user) {
  own_files o = {.root = strlen(folder) + 1, .each = each, .user = user, .good = true};
  tree_files(folder, visit_own, &o);
  return o.good;
}

/* Whose times tell when a model was used: those of a folder change when it is listed. */
static bool file_of_times(const char *path, char file[4096 + 16]) {
  struct stat st;
  if (stat(path, &st)) return false;
  (void)snprintf(file, 4096 + 16, "%s%s", path, S_ISDIR(st.st_mode) ? "/config.json" : "");
  return true;
}

static ga_status add_entry(void *user, const char *name, const char *path, bool is_folder) {
  store *s = user;
  struct stat st;
  char times[4096 + 16];
  if (!file_of_times(path, times) || stat(times, &st)) return GA_OK;
  if (s->n == s->room) {
    const size_t room = s->room ? 2 * s->room : 16;
    store_entry *bigger = realloc(s->entry, room * sizeof *bigger);
    if (!bigger) return fail_nomem("models", room * sizeof *bigger);
    s->entry = bigger;
    s->room = room;
  }
  store_entry *e = &s->entry[s->n++];
  *e = (store_entry){.is_folder = is_folder, .used = st.st_atime > st.st_mtime ? st.st_atime : st.st_mtime};
  (void)snprintf(e->name, sizeof e->name, "%s", name);
  (void)snprintf(e->path, sizeof e->path, "%s", path);
  if (e->is_folder)
    tree_files(path, add_tree_size, e);
  else
    (void)for_files(path, add_size, e);
  return GA_OK;
}

/* --- all of them --- */

static int compare_used(const void *a, const void *b) {
  const store_entry *x = a, *y = b;
  return x->used != y->used ? (x->used < y->used) - (x->used > y->used) : strcmp(x->name, y->name);
}

static bool lies_in(const store_entry *e, const store_entry *folder) {
  const size_t n = strlen(folder->path);
  return folder->is_folder && !strncmp(e->path, folder->path, n) && e->path[n] == '/';
}

/* Of a folder with other models in it only its own files count. */
static void measure_shared(store *s) {
  for (size_t i = 0; i < s->n; i++) {
    store_entry *e = &s->entry[i];
    for (size_t k = 0; k < s->n && !e->shared; k++) e->shared = !s->entry[k].is_folder && lies_in(&s->entry[k], e);
    if (!e->shared) continue;
    e->bytes = 0;
    e->files = 0;
    (void)for_own_files(e->path, add_size, e);
  }
}

ga_status store_open(store *out) {
  *out = (store){0};
  TRY(ga_models_folder(out->dir, sizeof out->dir));
  const ga_status status = ga_models_here(out->dir, add_entry, out);
  if (status != GA_OK) {
    store_close(out);
    return status;
  }
  measure_shared(out);
  if (out->n) qsort(out->entry, out->n, sizeof *out->entry, compare_used);
  return GA_OK;
}

void store_close(store *s) {
  free(s->entry);
  *s = (store){0};
}

/* --- by name --- */

static const store_entry *find_path(const store *s, const char *path) {
  for (size_t i = 0; i < s->n; i++)
    if (!strcmp(s->entry[i].path, path)) return &s->entry[i];
  return NULL;
}

static ga_status refuse_several(const store *s, const char *name) {
  char list[1024] = "";
  size_t at = 0;
  for (size_t i = 0; i < s->n && at < sizeof list; i++)
    if (!strcmp(strrchr(s->entry[i].path, '/') + 1, name))
      at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", at ? ", " : "", s->entry[i].name);
  return ga_error_set(GA_ERR_ARG, "%s: several models have a file of that name: %s", name, list);
}

/* One model whose file, or folder, has this name. */
static ga_status find_file(const store *s, const char *name, const store_entry **out) {
  for (size_t i = 0; i < s->n; i++) {
    if (strcmp(strrchr(s->entry[i].path, '/') + 1, name)) continue;
    if (*out) return refuse_several(s, name);
    *out = &s->entry[i];
  }
  return GA_OK;
}

ga_status store_find(const store *s, const char *name, const store_entry **out) {
  char path[4096] = "";
  ga_hub_name hub;
  *out = NULL;
  if (ga_hub_is_name(name)) { /* that which -m opens goes before that which is called so */
    if (ga_hub_parse(name, &hub) == GA_OK && ga_hub_find(&hub, path, sizeof path) == GA_OK) *out = find_path(s, path);
  } else if (join(path, sizeof path, s->dir, name)) {
    *out = find_path(s, path);
  }
  if (!*out) *out = find_path(s, name);
  for (size_t i = 0; i < s->n && !*out; i++)
    if (!strcmp(s->entry[i].name, name)) *out = &s->entry[i];
  if (!*out) TRY(find_file(s, name, out));
  REQUIRE(*out, GA_ERR_ARG, "%s: no model of that name in %s (ga list)", name, s->dir);
  return GA_OK;
}

/* --- removing --- */

static bool remove_file(const char *file, void *user) {
  char beside[4096 + 64];
  const char *slash = strrchr(file, '/');
  (void)user;
  (void)snprintf(beside, sizeof beside, "%.*s.%s.origin", (int)(slash + 1 - file), file, slash + 1);
  (void)unlink(beside);
  return !unlink(file);
}

ga_status store_remove(const store *s, const store_entry *e) {
  char parent[4096 + 32];
  TRY(partial_refuse_busy(s->dir, e->path));
  if (e->shared)
    REQUIRE(for_own_files(e->path, remove_file, NULL), GA_ERR_IO, "%s: %s", e->path, strerror(errno));
  else if (e->is_folder)
    REQUIRE(tree_remove(e->path), GA_ERR_IO, "%s: %s", e->path, strerror(errno));
  else
    REQUIRE(for_files(e->path, remove_file, NULL), GA_ERR_IO, "%s: %s", e->path, strerror(errno));
  (void)snprintf(parent, sizeof parent, "%s%s", e->path, e->shared ? "/1_Pooling/x" : "");
  for (char *slash; (slash = strrchr(parent, '/')) && (size_t)(slash - parent) > strlen(s->dir);) {
    *slash = 0;
    if (rmdir(parent)) break; /* others are there */
  }
  return GA_OK;
}

void store_mark_used(const char *path) {
  char dir[3072], file[4096 + 16];
  const struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}};
  if (ga_models_folder(dir, sizeof dir) != GA_OK) return;
  const size_t n = strlen(dir);
  if (!strncmp(path, dir, n) && path[n] == '/' && file_of_times(path, file)) (void)utimensat(AT_FDCWD, file, times, 0);
}
