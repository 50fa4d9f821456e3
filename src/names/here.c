/* What lies in the models' folder. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "names/names.h"

enum { HUB_DEPTH = 4 /* of folders in hf/: organisation, repository, and two in it */ };

typedef struct scanner {
  ga_model_here_fn each;
  void *user;
} scanner;

bool ga_is_first_shard(const char *path, size_t *stem, unsigned *count) {
  const size_t n = strlen(path), tail = strlen("-00001-of-00001.gguf");
  unsigned shard;
  char end[8] = "";
  if (n <= tail || sscanf(path + n - tail, "-%5u-of-%5u%7s", &shard, count, end) != 3 || strcmp(end, ".gguf"))
    return false;
  *stem = n - tail;
  return shard == 1;
}

static bool is_later_shard(const char *name) {
  size_t stem;
  unsigned count;
  const size_t n = strlen(name), tail = strlen("-00001-of-00001.gguf");
  return n > tail && name[n - tail] == '-' && !strncmp(name + n - tail + 6, "-of-", 4) &&
         !ga_is_first_shard(name, &stem, &count);
}

/* in_model: safetensors files of a folder that is a model are its parts; GGUF files in it are models of their own. */
static bool is_model_file(const char *name, bool in_model) {
  const char *dot = strrchr(name, '.');
  if (!dot || is_later_shard(name)) return false;
  return !strcmp(dot, ".gguf") || (!in_model && !strcmp(dot, ".safetensors"));
}

/* 1_Pooling is the part of an embedding model that tells how it pools. */
static bool is_model_folder(const char *path) {
  char config[4096 + 16];
  const int n = snprintf(config, sizeof config, "%s/config.json", path);
  return strcmp(strrchr(path, '/'), "/1_Pooling") != 0 && n > 0 && (size_t)n < sizeof config && !access(config, F_OK);
}

static const char *known_name(const char *file) {
  for (const ga_known_model *k = ga_known_models; k->name; k++)
    if (!strcmp(k->file, file)) return k->name;
  return NULL;
}

static ga_status scan(const scanner *s, const char *folder, const char *prefix, int depth, bool in_model);

static ga_status scan_entry(const scanner *s, const char *folder, const char *prefix, int depth, bool in_model,
                            const char *entry) {
  char path[4096], name[GA_MODEL_NAME_BYTES];
  struct stat st;
  const char *known = *prefix ? NULL : known_name(entry);
  const int n = snprintf(name, sizeof name, "%s%s", known ? "" : prefix, known ? known : entry),
            m = snprintf(path, sizeof path, "%s/%s", folder, entry);
  if (n <= 0 || (size_t)n >= sizeof name - 1 || m <= 0 || (size_t)m >= sizeof path || stat(path, &st)) return GA_OK;
  const bool is_folder = S_ISDIR(st.st_mode);
  const bool is_model = is_folder ? is_model_folder(path) : is_model_file(entry, in_model);
  if (is_model) GA_TRY(s->each(s->user, name, path, is_folder));
  if (!is_folder || !depth) return GA_OK;
  (void)strcat(name, "/");
  return scan(s, path, name, depth - 1, in_model || is_model);
}

/* prefix: of names ("hf:org/repo/"). depth: of the folders below that are looked into. */
static ga_status scan(const scanner *s, const char *folder, const char *prefix, int depth, bool in_model) {
  DIR *d = opendir(folder);
  ga_status status = GA_OK;
  if (!d) return GA_OK;
  for (struct dirent *e; status == GA_OK && (e = readdir(d));)
    if (e->d_name[0] != '.') status = scan_entry(s, folder, prefix, depth, in_model, e->d_name);
  (void)closedir(d);
  return status;
}

ga_status ga_models_here(const char *dir, ga_model_here_fn each, void *user) {
  const scanner s = {each, user};
  char hub[4096];
  GA_TRY(scan(&s, dir, "", 0, false));
  const int n = snprintf(hub, sizeof hub, "%s/hf", dir);
  return n > 0 && (size_t)n < sizeof hub ? scan(&s, hub, "hf:", HUB_DEPTH, false) : GA_OK;
}
