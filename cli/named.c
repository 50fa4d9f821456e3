#include "cli/named.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/open.h"
#include "cmdline/error.h"
#include "names/hub.h"
#include "names/names.h"

#define ENDING ".modelfile"
enum { NAME_BYTES = 128, MOST_LEVELS = 8 };

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

bool named_is_name(const char *name) {
  const size_t n = strlen(name);
  return n < NAME_BYTES && strspn(name, LETTERS) > 0 && strspn(name, LETTERS "._-+") == n;
}

static bool is_known(const char *name) {
  for (const ga_known_model *k = ga_known_models; k->name; k++)
    if (!strcmp(k->name, name) || !strcmp(k->file, name)) return true;
  return false;
}

/* Writes the path of a Modelfile as named_path does, whatever lies where the program runs. */
static bool path_in_folder(const char *name, char *path, size_t capacity) {
  char dir[3072];
  if (!named_is_name(name) || is_known(name)) return false;
  if (ga_models_folder(dir, sizeof dir) != GA_OK) return false;
  const int n = snprintf(path, capacity, "%s/%s", dir, name);
  if (n <= 0 || (size_t)n >= capacity || !access(path, F_OK)) return false; /* a model's file goes before */
  const int m = snprintf(path, capacity, "%s/%s" ENDING, dir, name);
  return m > 0 && (size_t)m < capacity && !access(path, F_OK);
}

bool named_path(const char *name, char *path, size_t capacity) {
  return access(name, F_OK) && path_in_folder(name, path, capacity);
}

static ga_status read_modelfile(const char *path, modelfile *out) {
  char *text = NULL;
  size_t bytes;
  *out = modelfile_empty();
  TRY(read_text(path, &text, &bytes));
  const ga_status status = modelfile_parse(text, bytes, path, out);
  free(text);
  return status;
}

ga_status named_settle_from(modelfile *m, const char *file) {
  char path[4096];
  const char *slash = strrchr(file, '/');
  if (ga_hub_is_name(m->from)) return GA_OK;
  const int n = *m->from == '/' || !slash ? snprintf(path, sizeof path, "%s", m->from)
                                          : snprintf(path, sizeof path, "%.*s/%s", (int)(slash - file), file, m->from);
  REQUIRE(n > 0 && (size_t)n < sizeof path, GA_ERR_ARG, "FROM %.60s: the path is too long", m->from);
  if (access(path, F_OK)) return GA_OK;
  char *whole = realpath(path, NULL);
  REQUIRE(whole, GA_ERR_IO, "FROM %s: %s", path, strerror(errno));
  free(m->from);
  m->from = whole;
  return GA_OK;
}

/* Returns whether the text is the path of a Modelfile that is there. */
static bool is_modelfile_path(const char *text) {
  const size_t n = strlen(text), end = strlen(ENDING);
  return n > end && !strcmp(text + n - end, ENDING) && !access(text, F_OK);
}

ga_status named_find(const char *name, modelfile *out, bool *found) {
  char path[4096];
  *out = modelfile_empty();
  const bool is_path = name && is_modelfile_path(name);
  *found = is_path || (name && named_path(name, path, sizeof path));
  if (!*found) return GA_OK;
  TRY(read_modelfile(is_path ? name : path, out));
  if (is_path) TRY(named_settle_from(out, name));
  for (int level = 1; path_in_folder(out->from, path, sizeof path); level++) {
    modelfile base;
    REQUIRE(level < MOST_LEVELS, GA_ERR_ARG, "%s: named models that are made of each other, more than %d levels", name,
            MOST_LEVELS);
    const ga_status status = read_modelfile(path, &base);
    if (status == GA_OK) modelfile_inherit(out, &base);
    modelfile_free(&base);
    TRY(status);
  }
  return GA_OK;
}

/* level: of the models between, so that files that name each other in a circle end. */
static bool reaches_at(const char *from, const char *name, int level) {
  char path[4096];
  modelfile m;
  if (!strcmp(from, name)) return true;
  if (level > MOST_LEVELS || !path_in_folder(from, path, sizeof path)) return false;
  const bool reaches = read_modelfile(path, &m) == GA_OK && reaches_at(m.from, name, level + 1);
  modelfile_free(&m);
  return reaches;
}

bool named_reaches(const char *from, const char *name) { return reaches_at(from, name, 1); }

ga_status named_each(const char *dir, named_fn each, void *user) {
  char name[256], path[4096];
  DIR *d = opendir(dir);
  ga_status status = GA_OK;
  if (!d) return GA_OK;
  for (struct dirent *e; status == GA_OK && (e = readdir(d));) {
    const size_t n = strlen(e->d_name), end = strlen(ENDING);
    if (n <= end || strcmp(e->d_name + n - end, ENDING) != 0) continue;
    (void)snprintf(name, sizeof name, "%.*s", (int)(n - end), e->d_name);
    const int m = snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
    if (m > 0 && (size_t)m < sizeof path && named_is_name(name)) status = each(user, name, path);
  }
  (void)closedir(d);
  return status;
}
