/* From a name to the path of a model that is here. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "ga/llm.h"
#include "names/hub.h"
#include "names/names.h"

enum { FOLDER_BYTES = 3072 };

/* --- what is here, for errors --- */

typedef struct here_text {
  char names[320];
  size_t n, more; /* more: models whose names do not fit */
} here_text;

static ga_status add_name(void *user, const char *name, const char *path, bool is_folder) {
  here_text *t = user;
  const size_t n = strlen(name);
  (void)path, (void)is_folder;
  if (t->more || t->n + n + 3 > sizeof t->names) {
    t->more++;
    return GA_OK;
  }
  t->n += (size_t)snprintf(t->names + t->n, sizeof t->names - t->n, "%s%s", t->n ? ", " : "", name);
  return GA_OK;
}

/* "why; ga pull NAME fetches it; DIR has a, b and 3 more" */
static ga_status refuse_missing(const char *dir, const char *why, const char *advice) {
  here_text t = {.n = 0};
  char more[32] = "";
  GA_TRY(ga_models_here(dir, add_name, &t));
  if (t.more) (void)snprintf(more, sizeof more, " and %zu more", t.more);
  return ga_fail(GA_ERR_IO, "%s; %s; %s has %s%s", why, advice, ga_path_label(dir), t.n ? t.names : "no models", more);
}

/* --- kinds of names --- */

static ga_status hub_path(const char *name, const char *dir, char *path, size_t capacity) {
  ga_hub_name hub;
  char why[300], advice[200];
  GA_TRY(ga_hub_parse(name, &hub));
  const ga_status status = ga_hub_find(&hub, path, capacity);
  if (status != GA_ERR_STATE) return status;
  (void)snprintf(why, sizeof why, "%s is not here", ga_path_label(name));
  (void)snprintf(advice, sizeof advice, "ga pull %s fetches it", ga_path_label(name));
  return refuse_missing(dir, why, advice);
}

static ga_status known_path(const ga_known_model *k, const char *dir, char *path, size_t capacity) {
  char why[128], advice[128];
  const int n = snprintf(path, capacity, "%s/%s", dir, k->file);
  GA_REQUIRE(n > 0 && (size_t)n < capacity, GA_ERR_IO, "model path is too long");
  if (access(path, R_OK) == 0) return GA_OK;
  (void)snprintf(why, sizeof why, "model %s is not here yet", k->name);
  (void)snprintf(advice, sizeof advice, "fetch it with: ga pull %s", k->name);
  return refuse_missing(dir, why, advice);
}

/* "/x", "./x", "../x" and "x/../y" are paths alone. */
static bool may_lie_in_folder(const char *name) {
  if (name[0] == '/' || name[0] == '.') return false;
  for (const char *at = name; (at = strstr(at, "..")); at += 2)
    if ((at == name || at[-1] == '/') && (!at[2] || at[2] == '/')) return false;
  return true;
}

static ga_status refuse_name(const char *name, const char *dir) {
  char why[300];
  (void)snprintf(why, sizeof why, "%s: no such file, and no model of that name", ga_path_label(name));
  return refuse_missing(dir, why, "ga pull fetches models (ga pull --list, ga search TEXT)");
}

static ga_status path_of_name(const char *name, char *path, size_t capacity) {
  char dir[FOLDER_BYTES];
  GA_REQUIRE(*name, GA_ERR_ARG, "the model's name is empty");
  GA_REQUIRE(strlen(name) < capacity, GA_ERR_ARG, "the model's name has %zu characters; at most %zu", strlen(name),
             capacity - 1);
  const bool is_hub = ga_hub_is_name(name);
  if (!is_hub && access(name, F_OK) == 0) { /* one that may not be read is an error of its own */
    (void)snprintf(path, capacity, "%s", name);
    return GA_OK;
  }
  GA_REQUIRE(is_hub || errno == ENOENT || errno == ENOTDIR, GA_ERR_IO, "%s: %s", ga_path_label(name), strerror(errno));
  GA_REQUIRE(is_hub || may_lie_in_folder(name), GA_ERR_IO, "%s: no such file", ga_path_label(name));
  GA_TRY(ga_models_folder(dir, sizeof dir));
  if (is_hub) return hub_path(name, dir, path, capacity);
  for (const ga_known_model *k = ga_known_models; k->name; k++)
    if (!strcmp(k->name, name) || !strcmp(k->file, name)) return known_path(k, dir, path, capacity);
  const int n = snprintf(path, capacity, "%s/%s", dir, name);
  if (n > 0 && (size_t)n < capacity && access(path, R_OK) == 0) return GA_OK;
  return refuse_name(name, dir);
}

ga_status ga_model_path(const char *name, char *path, size_t capacity) {
  GA_REQUIRE(name && path && capacity, GA_ERR_ARG, "model path: name or path is null, or capacity is 0");
  const ga_status status = path_of_name(name, path, capacity);
  if (status != GA_OK) path[0] = 0;
  return status;
}
