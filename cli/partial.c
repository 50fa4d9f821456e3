#include "cli/partial.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "cli/pull.h"
#include "cli/trees.h"
#include "cmdline/error.h"
#include "ga/hash.h"
#include "names/names.h"
#include "text/json_io.h"

static bool put_path(char path[4096], const char *folder, const char *name, const char *end) {
  const int n = snprintf(path, 4096, "%s/%s%s", folder, name, end);
  return n > 0 && n < 4096;
}

/* Bytes of a regular file; -1: there is none. */
static int64_t bytes_of_file(const char *path) {
  struct stat st;
  return !stat(path, &st) && S_ISREG(st.st_mode) ? (int64_t)st.st_size : -1;
}

static ga_status add_partial(partials *p, const partial *one) {
  if (p->n == p->room) {
    const size_t room = p->room ? 2 * p->room : 8;
    partial *bigger = realloc(p->item, room * sizeof *bigger);
    if (!bigger) return fail_nomem("downloads", room * sizeof *bigger);
    p->item = bigger;
    p->room = room;
  }
  p->item[p->n++] = *one;
  return GA_OK;
}

/* --- plans of the hub --- */

ga_status partial_plan_path(const ga_hub_name *name, const char *source, char path[4096]) {
  char folder[3500], hash[GA_SHA256_TEXT_BYTES], file[32];
  TRY(ga_hub_folder(name, folder, sizeof folder));
  ga_sha256_of(source, strlen(source), hash);
  (void)snprintf(file, sizeof file, ".%.16s.pull", hash);
  REQUIRE(put_path(path, folder, file, ""), GA_ERR_IO, "%s: path too long", folder);
  return GA_OK;
}

ga_status partial_plan_write(const char *path, const char *source, const ga_hub_files *files, bool again) {
  json_t *list = json_array();
  for (size_t i = 0; i < files->n; i++) {
    const ga_hub_file *f = &files->item[i];
    if (f->chosen)
      (void)json_array_append_new(list, json_pack("{s:s, s:I}", "path", f->path, "bytes", (json_int_t)f->bytes));
  }
  return pull_write_json(path, json_pack("{s:s, s:o, s:b}", "source", source, "files", list, "again", (int)again));
}

/* Bytes of a file, or of its part; *whole: the file is here. What is fetched again counts as parts alone. */
static int64_t measure_file(const char *folder, const char *name, bool again, bool *whole) {
  char path[4096];
  const int64_t file = put_path(path, folder, name, "") ? bytes_of_file(path) : -1;
  *whole = file >= 0 && !again;
  return *whole ? file : put_path(path, folder, name, ".part") ? bytes_of_file(path) : -1;
}

/* What of a plan in `folder` is here. False: it cannot be read. */
static bool measure_plan(const char *folder, const json_t *plan, partial *out, bool *whole) {
  const char *source = json_string_value(json_object_get(plan, "source"));
  const json_t *files = json_object_get(plan, "files");
  *whole = true;
  if (!source || strlen(source) >= sizeof out->name || !json_array_size(files)) return false;
  (void)snprintf(out->name, sizeof out->name, "%s", source);
  out->again = json_is_true(json_object_get(plan, "again"));
  for (size_t i = 0; i < json_array_size(files); i++) {
    const json_t *f = json_array_get(files, i), *bytes = json_object_get(f, "bytes");
    const char *name = json_string_value(json_object_get(f, "path"));
    const int64_t size = json_is_integer(bytes) ? json_integer_value(bytes) : -1;
    bool file_is_whole;
    if (!name) return false;
    const int64_t here = measure_file(folder, name, out->again, &file_is_whole);
    *whole &= file_is_whole;
    out->bytes += here > 0 ? here : 0;
    out->of = size < 0 || out->of < 0 ? -1 : out->of + size;
  }
  return true;
}

void partial_plan_settle(const char *path) {
  char folder[4096];
  partial p = {.of = 0};
  bool whole;
  json_t *plan = ga_json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
  (void)snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
  if (!plan || !measure_plan(folder, plan, &p, &whole) || whole || !p.bytes) (void)unlink(path);
  json_decref(plan);
}

static ga_status add_plan(partials *out, const char *folder, const char *file) {
  partial p = {.of = 0};
  bool whole;
  if (!put_path(p.path, folder, file, "")) return GA_OK;
  json_t *plan = ga_json_load_file(p.path, JSON_REJECT_DUPLICATES, NULL);
  const bool shown = plan && measure_plan(folder, plan, &p, &whole) && !whole && p.bytes;
  json_decref(plan);
  return shown ? add_partial(out, &p) : GA_OK;
}

/* --- addresses and packages --- */

static ga_status add_address_part(partials *out, const char *dir, const char *file) {
  partial p = {.of = -1};
  pull_record record;
  if (!put_path(p.path, dir, file, "") || !pull_record_read(p.path, &record)) return GA_OK;
  p.bytes = bytes_of_file(p.path);
  p.of = record.size;
  if (*record.source)
    (void)snprintf(p.name, sizeof p.name, "%s", record.source);
  else
    (void)snprintf(p.name, sizeof p.name, "%.*s", (int)(strlen(file) - strlen(".part")), file);
  char goal[4096];
  (void)snprintf(goal, sizeof goal, "%.*s", (int)(strlen(p.path) - strlen(".part")), p.path);
  p.again = bytes_of_file(goal) >= 0;
  return p.bytes > 0 ? add_partial(out, &p) : GA_OK;
}

static void add_file_bytes(const char *file, void *user) {
  int64_t *bytes = user;
  const int64_t n = bytes_of_file(file);
  *bytes += n > 0 ? n : 0;
}

static ga_status add_packages(partials *out, const char *dir, const ga_known_model *k) {
  partial p = {.of = (int64_t)k->bytes};
  char wheel[4096 + 256];
  if (!put_path(p.path, dir, k->file, "")) return GA_OK;
  p.again = !access(p.path, F_OK);
  if (!put_path(p.path, dir, k->file, ".pull")) return GA_OK;
  (void)snprintf(p.name, sizeof p.name, "%s", k->name);
  for (size_t i = 0; i < COUNT_OF(k->packages) && k->packages[i]; i++) {
    (void)snprintf(wheel, sizeof wheel, "%s/wheels/%s", p.path, k->packages[i]);
    p.parts += !access(wheel, F_OK);
    p.of_parts++;
  }
  tree_files(p.path, add_file_bytes, &p.bytes);
  return p.bytes ? add_partial(out, &p) : GA_OK;
}

/* --- all --- */

/* Plans in folders below, two deep: hf/organisation/repository. */
static ga_status scan_plans(partials *out, const char *folder, int depth) {
  DIR *d = opendir(folder);
  ga_status status = GA_OK;
  if (!d) return GA_OK;
  for (struct dirent *e; status == GA_OK && (e = readdir(d));) {
    const size_t n = strlen(e->d_name);
    char path[4096];
    if (!depth && n > 5 && e->d_name[0] == '.' && !strcmp(e->d_name + n - 5, ".pull"))
      status = add_plan(out, folder, e->d_name);
    else if (depth && e->d_name[0] != '.' && put_path(path, folder, e->d_name, ""))
      status = scan_plans(out, path, depth - 1);
  }
  (void)closedir(d);
  return status;
}

static ga_status scan_parts(partials *out, const char *dir) {
  DIR *d = opendir(dir);
  ga_status status = GA_OK;
  if (!d) return GA_OK;
  for (struct dirent *e; status == GA_OK && (e = readdir(d));) {
    const size_t n = strlen(e->d_name);
    if (n > 5 && !strcmp(e->d_name + n - 5, ".part")) status = add_address_part(out, dir, e->d_name);
  }
  (void)closedir(d);
  return status;
}

static int compare_partials(const void *a, const void *b) {
  return strcmp(((const partial *)a)->name, ((const partial *)b)->name);
}

ga_status partials_find(const char *dir, partials *out) {
  char hub[4096];
  *out = (partials){0};
  ga_status status = scan_parts(out, dir);
  for (const ga_known_model *k = ga_known_models; k->name && status == GA_OK; k++) status = add_packages(out, dir, k);
  if (status == GA_OK && put_path(hub, dir, "hf", "")) status = scan_plans(out, hub, 2);
  if (status != GA_OK) partials_free(out);
  if (out->n) qsort(out->item, out->n, sizeof *out->item, compare_partials);
  return status;
}

void partials_free(partials *p) {
  free(p->item);
  *p = (partials){0};
}

/* --- removing --- */

static ga_status unlink_if_there(const char *path) {
  REQUIRE(!unlink(path) || errno == ENOENT, GA_ERR_IO, "%s: %s", path, strerror(errno));
  return GA_OK;
}

/* The lock is held until the part has gone: who waits for it then sees that. */
static ga_status remove_part(const char *part) {
  int fd;
  TRY(pull_lock_if_there(part, &fd));
  const ga_status status = unlink_if_there(part);
  pull_record_remove(part);
  if (fd >= 0) (void)close(fd);
  return status;
}

/* Names of the files of a plan. One that leads out of the folder is left out, as `ga pull` does. */
static ga_status read_plan(const char *path, ga_hub_files *files, bool *again) {
  json_t *plan = ga_json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
  const json_t *list = json_object_get(plan, "files");
  ga_status status = GA_OK;
  *again = json_is_true(json_object_get(plan, "again"));
  for (size_t i = 0; i < json_array_size(list) && status == GA_OK; i++) {
    const char *name = json_string_value(json_object_get(json_array_get(list, i), "path"));
    if (name) status = ga_hub_files_add(files, name, -1, NULL);
  }
  json_decref(plan);
  return status;
}

/* A file in part, and the whole unless that is an older one; what is kept beside it, and its folder if empty then. */
static ga_status remove_planned(const char *folder, const char *name, bool again) {
  char part[4096], file[4096];
  REQUIRE(put_path(part, folder, name, ".part") && put_path(file, folder, name, ""), GA_ERR_IO, "%s: path too long",
          folder);
  TRY(remove_part(part));
  if (again) return GA_OK;
  TRY(unlink_if_there(file));
  pull_origin_remove(file);
  *strrchr(file, '/') = 0;
  (void)rmdir(file);
  return GA_OK;
}

static ga_status remove_files_of_plan(const char *path, const char *folder) {
  ga_hub_files files = {0};
  bool again;
  ga_status status = read_plan(path, &files, &again);
  for (size_t i = 0; i < files.n && status == GA_OK; i++) { /* none is removed where one is under way */
    char part[4096];
    int fd = -1;
    if (put_path(part, folder, files.item[i].path, ".part")) status = pull_lock_if_there(part, &fd);
    if (fd >= 0) (void)close(fd);
  }
  for (size_t i = 0; i < files.n && status == GA_OK; i++) status = remove_planned(folder, files.item[i].path, again);
  ga_hub_files_free(&files);
  return status == GA_OK ? unlink_if_there(path) : status;
}

static ga_status remove_plan(const char *path) {
  char folder[4096];
  int fd;
  (void)snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
  TRY(pull_lock_if_there(path, &fd));
  const ga_status status = remove_files_of_plan(path, folder);
  if (fd >= 0) (void)close(fd);
  TRY(status);
  (void)rmdir(folder); /* the repository's, and its organisation's: if nothing else is there */
  *strrchr(folder, '/') = 0;
  (void)rmdir(folder);
  return GA_OK;
}

static ga_status remove_packages(const char *folder) {
  int fd;
  TRY(pull_lock_if_there(folder, &fd));
  const bool removed = tree_remove(folder);
  const int why = errno;
  if (fd >= 0) (void)close(fd);
  REQUIRE(removed, GA_ERR_IO, "%s: %s", folder, strerror(why));
  return GA_OK;
}

ga_status partial_remove(const partial *p) {
  const size_t n = strlen(p->path);
  if (p->of_parts) return remove_packages(p->path);
  return n > 5 && !strcmp(p->path + n - 5, ".part") ? remove_part(p->path) : remove_plan(p->path);
}

/* --- models that are being fetched again --- */

static ga_status refuse_locked(const char *path) {
  int fd;
  TRY(pull_lock_if_there(path, &fd));
  if (fd >= 0) (void)close(fd);
  return GA_OK;
}

/* Does a plan in `folder` have the file, or a file of the folder, at `path`? */
static bool plan_has(const char *plan, const char *folder, const char *path) {
  ga_hub_files files = {0};
  bool again, found = false;
  const size_t n = strlen(path);
  (void)!read_plan(plan, &files, &again);
  for (size_t i = 0; i < files.n && !found; i++) {
    char file[4096];
    found = put_path(file, folder, files.item[i].path, "") && !strncmp(file, path, n) && (!file[n] || file[n] == '/');
  }
  ga_hub_files_free(&files);
  return found;
}

static ga_status refuse_locked_plans(const char *folder, const char *path) {
  DIR *d = opendir(folder);
  ga_status status = GA_OK;
  if (!d) return GA_OK;
  for (struct dirent *e; status == GA_OK && (e = readdir(d));) {
    const size_t n = strlen(e->d_name);
    char plan[4096];
    if (n > 5 && e->d_name[0] == '.' && !strcmp(e->d_name + n - 5, ".pull") && put_path(plan, folder, e->d_name, "") &&
        plan_has(plan, folder, path))
      status = refuse_locked(plan);
  }
  (void)closedir(d);
  return status;
}

/* Plans lie in the folder of a repository: the model's, or one above its file. */
ga_status partial_refuse_busy(const char *dir, const char *path) {
  char folder[4096], beside[4096 + 8];
  (void)snprintf(beside, sizeof beside, "%s.part", path);
  TRY(refuse_locked(beside));
  (void)snprintf(beside, sizeof beside, "%s.pull", path);
  TRY(refuse_locked(beside));
  (void)snprintf(folder, sizeof folder, "%s", path);
  for (char *slash = folder; slash && strlen(folder) > strlen(dir); slash = strrchr(folder, '/')) {
    *slash = slash == folder ? *slash : 0;
    TRY(refuse_locked_plans(folder, path));
  }
  return GA_OK;
}
