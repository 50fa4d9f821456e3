#include "quant/output.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/status.h"
#include "base/text.h"

static bool is_same(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool is_at(const struct stat *to, int folder, const char *path) {
  struct stat st;
  return !fstatat(folder, path, &st, 0) && is_same(to, &st);
}

/* All that lies in a folder of safetensors belongs to its model, but for GGUF files, which may be older results. */
static bool is_in_folder(const struct stat *to, const char *shard) {
  char folder[4096];
  const char *slash = strrchr(shard, '/');
  const int n = snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - shard) + 1 : 2, slash ? shard : "./");
  DIR *dir = n > 0 && (size_t)n < sizeof folder ? opendir(folder) : NULL;
  if (!dir) return false;
  bool found = is_at(to, dirfd(dir), "1_Pooling/config.json");
  for (struct dirent *e; !found && (e = readdir(dir));)
    found = !ga_ends_with(e->d_name, ".gguf") && is_at(to, dirfd(dir), e->d_name);
  (void)closedir(dir);
  return found;
}

static ga_status refuse_model_files(const struct stat *to, const ga_model_file *model, const char *label) {
  for (int32_t i = 0; i < ga_model_file_shards(model); i++)
    GA_REQUIRE(!is_at(to, AT_FDCWD, ga_model_file_shard_path(model, i)), GA_ERR_ARG,
               "%s is the model that is read; must be another file", label);
  GA_REQUIRE(ga_model_file_format(model) != GA_MODEL_SAFETENSORS ||
                 !is_in_folder(to, ga_model_file_shard_path(model, 0)),
             GA_ERR_ARG, "%s lies beside the weights that are read; must be another file", label);
  return GA_OK;
}

ga_status quant_check_output(const ga_model_file *model, const char *importance, const char *out, bool overwrite) {
  const char *label = ga_path_label(out);
  struct stat to;
  if (stat(out, &to)) return GA_OK; /* not there, or not reachable: the writer says so */
  GA_REQUIRE(!S_ISDIR(to.st_mode), GA_ERR_ARG, "%s is a folder; must be the path of a file", label);
  GA_REQUIRE(S_ISREG(to.st_mode), GA_ERR_ARG,
             "%s is a device, a pipe or a socket; must be a regular file, or a name that nothing has", label);
  GA_TRY(refuse_model_files(&to, model, label));
  GA_REQUIRE(!importance || !is_at(&to, AT_FDCWD, importance), GA_ERR_ARG,
             "%s is the importance matrix that is read; must be another file", label);
  GA_REQUIRE(overwrite, GA_ERR_ARG, "%s exists; give another name, or allow to overwrite it (--force)", label);
  return GA_OK;
}
