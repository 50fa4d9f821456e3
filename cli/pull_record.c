/* What a partial download is part of, in a small JSON file beside it: a resumed download must be of the same bytes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/status.h"
#include "cli/pull.h"

static bool path_of(const char *part, char path[4096]) {
  const int n = snprintf(path, 4096, "%s.from", part);
  return n > 0 && n < 4096;
}

void pull_record_remove(const char *part) {
  char path[4096];
  if (path_of(part, path)) (void)unlink(path);
}

/* False when it does not fit: a record that was cut proves nothing. */
static bool copy(char *out, size_t capacity, const char *text) {
  return (size_t)snprintf(out, capacity, "%s", text) < capacity;
}

bool pull_record_read(const char *part, pull_record *r) {
  char path[4096];
  const char *url, *validator;
  json_int_t size;
  *r = (pull_record){0};
  json_t *o = path_of(part, path) ? json_load_file(path, JSON_REJECT_DUPLICATES, NULL) : NULL;
  bool good =
      o && !json_unpack(o, "{s:s, s:s, s:I}", "url", &url, "validator", &validator, "size", &size) && size >= -1;
  good = good && copy(r->url, sizeof r->url, url) && copy(r->validator, sizeof r->validator, validator);
  if (good) r->size = size;
  json_decref(o);
  return good;
}

ga_status pull_record_write(const char *part, const pull_record *r) {
  char path[4096];
  GA_REQUIRE(path_of(part, path), GA_ERR_IO, "%s: path too long", part);
  json_t *o = json_pack("{s:s, s:s, s:I}", "url", r->url, "validator", r->validator, "size", (json_int_t)r->size);
  GA_REQUIRE(o, GA_ERR_ARG, "%s: the address or the server's ETag is not UTF-8", r->url);
  FILE *f = fopen(path, "w");
  const bool failed = !f || json_dumpf(o, f, JSON_COMPACT) || fflush(f) || fsync(fileno(f));
  const int why = errno;
  json_decref(o);
  if (f) (void)fclose(f);
  if (!failed) return GA_OK;
  pull_record_remove(part);
  return ga_fail(GA_ERR_IO, "%s: %s", path, strerror(why));
}
