#include "verify/dist/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/status.h"
#include "verify/dist/devices.h"

static ga_status name_part(const char *path, char part[4096]) {
  const int n = snprintf(part, 4096, "%s.%ld.part", path, (long)getpid());
  GA_REQUIRE(n > 0 && n < 4096, GA_ERR_ARG, "--timeline: the file's name has %zu bytes; at most 4000", strlen(path));
  return GA_OK;
}

static ga_status open_trace(const char *path, const char *part, FILE **out) {
  const int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  *out = fd < 0 ? NULL : fdopen(fd, "w");
  if (*out) return GA_OK;
  const int why = errno;
  if (fd >= 0) (void)close(fd);
  return ga_fail(GA_ERR_IO, "--timeline %s: %s", path, strerror(why));
}

ga_status dist_trace_check(const char *path) {
  char part[4096];
  struct stat st;
  FILE *f;
  GA_REQUIRE(stat(path, &st) || S_ISREG(st.st_mode), GA_ERR_IO, "--timeline %s: it is no regular file", path);
  json_t *text = json_string(path); /* the JSON of the run has the path */
  json_decref(text);
  GA_REQUIRE(text, GA_ERR_ARG, "--timeline %s: the name must be UTF-8", path);
  GA_TRY(name_part(path, part));
  GA_TRY(open_trace(path, part, &f));
  (void)fclose(f);
  (void)unlink(part);
  return GA_OK;
}

static json_t *name_of(const char *kind, int32_t rank, int32_t stream, const char *name) {
  return json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "ph", "M", "name", kind, "pid", rank, "tid", stream, "args", "name",
                   name);
}

static json_t *event_of(const rank_span *s, int32_t rank, double start) {
  char name[DIST_SPAN_NAME];
  dist_name_span(s, name);
  return json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:{s:s, s:i, s:i, s:I}}", "ph", "X", "name", name, "cat",
                   ga_dist_work_name(s->work), "pid", rank, "tid", s->stream, "ts", (start + s->begin) * 1e6, "dur",
                   (s->end - s->begin) * 1e6, "args", "what", s->what, "peer", s->peer, "group", s->group, "bytes",
                   (json_int_t)s->bytes);
}

static bool add_rank_events(const char *devices, const dist_timeline *t, int32_t r, json_t *list) {
  char device[DIST_DEVICE_BYTES], name[96];
  const rank_span *s = dist_spans_of_rank(t, r);
  const double start = dist_start_of_rank(t, r);
  uint64_t named = 0; /* a bit for each stream, of which there are few */
  bool good = true;
  dist_device_of(devices, r, device);
  (void)snprintf(name, sizeof name, "rank %d (%s)", r, device);
  good &= !json_array_append_new(list, name_of("process_name", r, 0, name));
  for (int64_t i = 0; i < t->rank[r].of.spans; i++) {
    const uint64_t bit = (uint64_t)1 << s[i].stream;
    if (!(named & bit)) good &= !json_array_append_new(list, name_of("thread_name", r, s[i].stream, s[i].stream_name));
    named |= bit;
    good &= !json_array_append_new(list, event_of(&s[i], r, start));
  }
  return good;
}

ga_status dist_trace_write(const char *path, const char *devices, const dist_timeline *t) {
  char part[4096];
  FILE *f = NULL;
  json_t *list = json_array();
  bool good = list != NULL;
  for (int32_t r = 0; r < t->ranks && good; r++) good = add_rank_events(devices, t, r, list);
  json_t *all = json_pack("{s:s, s:o}", "displayTimeUnit", "ms", "traceEvents", list);
  if (!good || !all) {
    json_decref(all);
    return ga_fail_nomem("a timeline", 0);
  }
  ga_status status = name_part(path, part);
  if (status == GA_OK) status = open_trace(path, part, &f);
  if (status == GA_OK) {
    bool written = !json_dumpf(all, f, JSON_COMPACT) && fputc('\n', f) != EOF;
    written = !fclose(f) && written && !rename(part, path);
    if (!written) status = ga_fail(GA_ERR_IO, "--timeline %s: %s", path, strerror(errno));
    if (!written) (void)unlink(part);
  }
  json_decref(all);
  return status;
}
