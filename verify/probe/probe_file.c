/* The file of figures. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_write.h"
#include "base/status.h"
#include "text/json_io.h"
#include "verify/probe/probe.h"

/* The device's text up to its first comma, which is the chip: "NVIDIA H200" becomes nvidia-h200. */
static void chip_name(const ga_ctx *ctx, char *name, size_t capacity) {
  const char *text = ga_ctx_device_text(ctx);
  size_t n = 0;
  for (; *text && *text != ',' && n + 1 < capacity; text++)
    name[n++] = isalnum((unsigned char)*text) ? (char)tolower((unsigned char)*text) : '-';
  name[n] = 0;
}

bool probe_path(const ga_ctx *ctx, char *path, size_t capacity) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  char chip[64];
  int n = -1;
  chip_name(ctx, chip, sizeof chip);
  if (cache && *cache == '/')
    n = snprintf(path, capacity, "%s/ga/probe/%s.json", cache, chip);
  else if (home && *home == '/')
    n = snprintf(path, capacity, "%s/.cache/ga/probe/%s.json", home, chip);
  return n > 0 && (size_t)n < capacity;
}

ga_status probe_write(const char *path, const json_t *report) {
  char part[544];
  GA_REQUIRE(strlen(path) < sizeof part - 32, GA_ERR_ARG, "probe: %s: the path is longer than 511 bytes", path);
  (void)snprintf(part, sizeof part, "%s.XXXXXX", path);
  GA_REQUIRE(ga_make_folders_of(path), GA_ERR_IO, "probe: %s: %s", path, strerror(errno));
  char *text = ga_json_dump(report, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
  GA_REQUIRE(text, GA_ERR_NOMEM, "probe: no memory");
  int fd = mkstemp(part);
  bool ok = fd >= 0 && ga_write_all(fd, text, strlen(text)) && fsync(fd) == 0 && fchmod(fd, 0644) == 0;
  if (fd >= 0) ok = close(fd) == 0 && ok;
  ok = ok && rename(part, path) == 0;
  const int why = errno;
  if (!ok && fd >= 0) (void)unlink(part);
  free(text);
  GA_REQUIRE(ok, GA_ERR_IO, "probe: cannot write %s: %s", path, strerror(why));
  return GA_OK;
}

json_t *probe_read(const ga_ctx *ctx) {
  char path[512];
  if (!probe_path(ctx, path, sizeof path)) return NULL;
  json_t *report = ga_json_load_file(path, 0, NULL), *figures = json_object_get(report, "figures");
  const char *text = json_string_value(json_object_get(report, "text"));
  const bool same = text && json_is_object(figures) && !strcmp(text, ga_ctx_device_text(ctx));
  if (same) (void)json_incref(figures);
  json_decref(report);
  return same ? figures : NULL;
}
