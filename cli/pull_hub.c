/* Fetches models of Hugging Face's hub, or of a mirror of it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "cli/commands.h"
#include "cli/folders.h"
#include "cli/hub_web.h"
#include "cli/partial.h"
#include "cli/pull.h"
#include "cmdline/error.h"
#include "names/hub.h"
#include "text/json_io.h"

/* --- listing --- */

/* Of a file at a revision ("": of main); file NULL: of the listing. */
static ga_status hub_file_url(char *url, size_t capacity, const ga_hub_name *name, const char *revision,
                              const char *file) {
  char rest[2048];
  const int n = !file ? snprintf(rest, sizeof rest, "api/models/%s/%s?blobs=true", name->org, name->repo)
                      : snprintf(rest, sizeof rest, "%s/%s/resolve/%s/%s", name->org, name->repo,
                                 *revision ? revision : "main", file);
  REQUIRE(n > 0 && (size_t)n < sizeof rest, GA_ERR_ARG, "the address of hf:%s/%s is too long", name->org, name->repo);
  return hub_url(rest, url, capacity);
}

static ga_status take_listing(const char *text, const char *label, ga_hub_files *files) {
  json_error_t error;
  json_t *all = ga_json_load(text, strlen(text), 0, &error);
  const json_t *list = json_object_get(all, "siblings");
  const char *sha = json_string_value(json_object_get(all, "sha"));
  ga_status status = GA_OK;
  if (!json_is_array(list)) status = ga_error_set(GA_ERR_FORMAT, "%s: the answer lists no files", label);
  for (size_t i = 0; status == GA_OK && i < json_array_size(list); i++) {
    const json_t *f = json_array_get(list, i), *size = json_object_get(f, "size");
    const char *path = json_string_value(json_object_get(f, "rfilename"));
    if (path)
      status = ga_hub_files_add(files, path, json_is_integer(size) ? json_integer_value(size) : -1,
                                json_string_value(json_object_get(json_object_get(f, "lfs"), "sha256")));
  }
  if (sha && *sha && strlen(sha) < sizeof files->revision && strspn(sha, "0123456789abcdef") == strlen(sha))
    (void)snprintf(files->revision, sizeof files->revision, "%s", sha);
  json_decref(all);
  return status;
}

static ga_status read_listing(const ga_hub_name *name, const char *token, ga_hub_files *files) {
  char url[4096], *text;
  pull_address from;
  TRY(hub_file_url(url, sizeof url, name, "", NULL));
  TRY(pull_address_parse(url, &from));
  from.token = token;
  TRY(pull_text(&from, &text));
  const ga_status status = take_listing(text, from.label, files);
  free(text);
  return status;
}

/* --- files --- */

/* Here and of this address, or with the hash that the hub tells: files of two revisions make no model. */
static ga_status is_fetched(const char *goal, const ga_hub_file *f, const pull_address *from, bool *fetched) {
  struct stat st;
  char hex[65], label[2048];
  uint64_t bytes;
  *fetched = !stat(goal, &st) && S_ISREG(st.st_mode) && (f->bytes < 0 || st.st_size == f->bytes);
  if (!*fetched || pull_origin_compare(goal, from, label)) return GA_OK;
  *fetched = *f->sha256 != 0;
  if (!*fetched) return GA_OK;
  TRY(pull_hash(goal, hex, &bytes));
  *fetched = !strcasecmp(hex, f->sha256);
  return GA_OK;
}

static ga_status path_of_file(const ga_hub_name *name, const ga_hub_file *f, char path[4096]) {
  char folder[3072];
  TRY(ga_hub_folder(name, folder, sizeof folder));
  const int n = snprintf(path, 4096, "%s/%s", folder, f->path);
  REQUIRE(n > 0 && n < 4096, GA_ERR_IO, "%s: path too long", folder);
  return GA_OK;
}

/* Where a file comes from, and where it goes. */
static ga_status ends_of_file(const ga_hub_name *name, const ga_hub_files *files, const ga_hub_file *f,
                              const char *token, char url[4096], char goal[4096], pull_address *from) {
  TRY(path_of_file(name, f, goal));
  TRY(hub_file_url(url, 4096, name, files->revision, f->path));
  TRY(pull_address_parse(url, from));
  from->token = token;
  return GA_OK;
}

/* stage: it waits in its part. */
static ga_status fetch_one(const ga_hub_name *name, const ga_hub_files *files, const ga_hub_file *f, const char *token,
                           bool force, bool stage) {
  char url[4096], goal[4096];
  pull_address from;
  bool fetched = false;
  TRY(ends_of_file(name, files, f, token, url, goal, &from));
  if (!force) TRY(is_fetched(goal, f, &from, &fetched));
  if (fetched) return GA_OK;
  char *slash = strrchr(goal, '/');
  *slash = 0;
  TRY(make_dirs(goal, 0777));
  *slash = '/';
  if (f->bytes >= 0) (void)fprintf(stderr, "%s, %.1f MB\n", f->path, (double)f->bytes * 1e-6);
  const char *sha256 = *f->sha256 ? f->sha256 : NULL;
  return stage ? pull_stage(&from, goal, sha256) : pull_fetch(&from, goal, sha256);
}

static ga_status place_one(const ga_hub_name *name, const ga_hub_files *files, const ga_hub_file *f) {
  char url[4096], goal[4096];
  pull_address from;
  TRY(ends_of_file(name, files, f, NULL, url, goal, &from));
  return pull_place(&from, goal);
}

/* The file without which the others are no model: config.json, or the first shard, or the only one. */
static const ga_hub_file *key_file(const ga_hub_files *files) {
  const ga_hub_file *key = NULL;
  for (size_t i = 0; i < files->n; i++) {
    const ga_hub_file *f = &files->item[i];
    if (f->chosen && (!key || !strcmp(f->path, "config.json"))) key = f;
  }
  return key;
}

/* The key comes last: what is not whole is no model. */
static ga_status fetch_chosen(const ga_hub_name *name, const ga_hub_files *files, const char *token, bool force) {
  const ga_hub_file *key = key_file(files);
  for (size_t i = 0; i < files->n; i++)
    if (files->item[i].chosen && &files->item[i] != key)
      TRY(fetch_one(name, files, &files->item[i], token, force, false));
  return fetch_one(name, files, key, token, force, false);
}

/* The old model stays until all files of the new one are here. Then the key goes first and comes last: files of two
 * revisions are no model. */
static ga_status fetch_again(const ga_hub_name *name, const ga_hub_files *files, const char *token, const char *plan,
                             const char *source) {
  char path[4096];
  const ga_hub_file *key = key_file(files);
  size_t chosen = 0;
  for (size_t i = 0; i < files->n; i++) {
    if (!files->item[i].chosen) continue;
    chosen++;
    TRY(fetch_one(name, files, &files->item[i], token, true, true));
  }
  TRY(partial_plan_write(plan, source, files, false));
  TRY(path_of_file(name, key, path));
  if (chosen > 1) REQUIRE(!unlink(path) || errno == ENOENT, GA_ERR_IO, "%s: %s", path, strerror(errno));
  for (size_t i = 0; i < files->n; i++)
    if (files->item[i].chosen && &files->item[i] != key) TRY(place_one(name, files, &files->item[i]));
  return place_one(name, files, key);
}

/* What may be asked for: one line each on stderr, or on stdout. */
static void print_choices(const ga_hub_files *files, bool to_stdout) {
  FILE *out = to_stdout ? stdout : stderr;
  for (size_t i = 0; i < files->n; i++) {
    const ga_hub_file *f = &files->item[i];
    if (!f->chosen && !ga_hub_is_of_model(f->path)) continue;
    (void)fprintf(out, "%c ", f->chosen ? '*' : ' ');
    if (f->bytes < 0)
      (void)fprintf(out, "%10s  ", "");
    else
      (void)fprintf(out, "%7.1f MB  ", (double)f->bytes * 1e-6);
    cmd_put_text(out, f->path, strlen(f->path));
    (void)fputc('\n', out);
  }
}

/* What is to come is written down first: `ga list` tells how much of it is here. */
static ga_status fetch_planned(const ga_hub_name *name, const char *source, const ga_hub_files *files,
                               const char *token, bool force) {
  char folder[3500], plan[4096], key[4096];
  int fd;
  TRY(ga_hub_folder(name, folder, sizeof folder));
  TRY(make_dirs(folder, 0777));
  TRY(partial_plan_path(name, source, plan));
  TRY(path_of_file(name, key_file(files), key));
  const bool again = force && !access(key, F_OK);
  TRY(pull_lock(plan, false, &fd));
  ga_status status = partial_plan_write(plan, source, files, again);
  if (status == GA_OK)
    status = again ? fetch_again(name, files, token, plan, source) : fetch_chosen(name, files, token, force);
  partial_plan_settle(plan);
  (void)close(fd);
  return status;
}

static ga_status with_choices(ga_status status, const ga_hub_files *files) {
  if (status != GA_ERR_STATE || !files->n) return status;
  (void)fprintf(stderr, "what is there:\n");
  print_choices(files, false);
  return status;
}

ga_status pull_hub(const char *source, bool list_only, bool force, char *path, size_t capacity) {
  ga_hub_name name;
  ga_hub_files files = {0};
  char token[512];
  TRY(ga_hub_parse(source, &name));
  if (!list_only && !force && ga_hub_find(&name, path, capacity) == GA_OK) {
    (void)fprintf(stderr, "already here; --force fetches it again\n");
    return GA_OK;
  }
  TRY(hub_token(token));
  ga_status status = *name.file ? ga_hub_files_add(&files, name.file, -1, NULL) : read_listing(&name, token, &files);
  if (status == GA_OK) status = with_choices(ga_hub_choose(&name, &files), &files);
  if (status == GA_OK && (list_only || !*name.file)) print_choices(&files, list_only);
  if (status == GA_OK && !list_only) {
    status = fetch_planned(&name, source, &files, token, force);
    if (status == GA_OK) status = ga_hub_find(&name, path, capacity);
  }
  ga_hub_files_free(&files);
  return status;
}
