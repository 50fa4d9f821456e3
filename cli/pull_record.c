/* Where files come from, in small JSON files beside them. Of a partial download: a resumed one must be of the same
 * bytes. Of a whole file: another address with the same last part is another file. Addresses may hold secrets: files
 * keep their hashes, and what may be shown; they are for their owner alone, and symbolic links are not followed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "cli/pull.h"
#include "cmdline/error.h"
#include "text/json_io.h"

static bool path_of(const char *part, char path[4096]) {
  const int n = snprintf(path, 4096, "%s.from", part);
  return n > 0 && n < 4096;
}

void pull_record_remove(const char *part) {
  char path[4096];
  if (path_of(part, path)) (void)unlink(path);
}

/* False when it does not fit: a record that was cut proves nothing. */
static bool copy_text(char *out, size_t capacity, const char *text) {
  return (size_t)snprintf(out, capacity, "%s", text) < capacity;
}

bool pull_record_read(const char *part, pull_record *r) {
  char path[4096];
  const char *url, *validator;
  json_int_t size;
  *r = (pull_record){0};
  json_t *o = path_of(part, path) ? ga_json_load_file(path, JSON_REJECT_DUPLICATES, NULL) : NULL;
  bool good =
      o && !json_unpack(o, "{s:s, s:s, s:I}", "url_sha256", &url, "validator", &validator, "size", &size) && size >= -1;
  good = good && copy_text(r->url_sha256, sizeof r->url_sha256, url) &&
         copy_text(r->validator, sizeof r->validator, validator);
  if (good) r->size = size;
  const char *source = json_string_value(json_object_get(o, "source"));
  if (good && source && !copy_text(r->source, sizeof r->source, source)) r->source[0] = 0;
  json_decref(o);
  return good;
}

ga_status pull_write_json(const char *path, json_t *o) {
  REQUIRE(o, GA_ERR_ARG, "%s: what the server tells of itself is not UTF-8", path);
  const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
  const bool failed = !f || json_dumpf(o, f, JSON_COMPACT) || fflush(f) || fsync(fd);
  const int why = errno;
  json_decref(o);
  if (f)
    (void)fclose(f);
  else if (fd >= 0)
    (void)close(fd);
  if (!failed) return GA_OK;
  if (fd >= 0) (void)unlink(path);
  return ga_error_set(GA_ERR_IO, "%s: %s", path, strerror(why));
}

ga_status pull_record_write(const char *part, const pull_record *r) {
  char path[4096];
  REQUIRE(path_of(part, path), GA_ERR_IO, "%s: path too long", part);
  return pull_write_json(path, json_pack("{s:s, s:s, s:I, s:s}", "url_sha256", r->url_sha256, "validator", r->validator,
                                         "size", (json_int_t)r->size, "source", r->source));
}

/* --- whole files --- */

static bool origin_path(const char *goal, char path[4096]) {
  const char *slash = strrchr(goal, '/'), *name = slash ? slash + 1 : goal;
  const int n = snprintf(path, 4096, "%.*s.%s.origin", (int)(name - goal), goal, name);
  return n > 0 && n < 4096;
}

void pull_origin_remove(const char *goal) {
  char path[4096];
  if (origin_path(goal, path)) (void)unlink(path);
}

ga_status pull_origin_write(const char *goal, const pull_address *address) {
  char path[4096];
  REQUIRE(origin_path(goal, path), GA_ERR_IO, "%s: path too long", goal);
  (void)unlink(path);
  return pull_write_json(path, json_pack("{s:s, s:s}", "address", address->label, "url_sha256", address->sha256));
}

int pull_origin_compare(const char *goal, const pull_address *address, char label[2048]) {
  char path[4096];
  const char *from, *sha256;
  json_t *o = origin_path(goal, path) ? ga_json_load_file(path, JSON_REJECT_DUPLICATES, NULL) : NULL;
  int same = -1;
  if (o && !json_unpack(o, "{s:s, s:s}", "address", &from, "url_sha256", &sha256)) {
    (void)snprintf(label, 2048, "%s", from);
    same = !strcmp(sha256, address->sha256);
  }
  json_decref(o);
  return same;
}
