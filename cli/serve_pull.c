#include "cli/serve_pull.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "cmdline/error.h"
#include "text/json_io.h"

enum { LINE = 8192, TICK_MS = 200 };

/* Holds the output of `ga pull --json`: the line being read, the last error, and whether the pull is done. */
typedef struct heard {
  char line[LINE];
  size_t n;
  char error[1024];
  bool is_done;
} heard;

static void take_pull_line(heard *h, sv_progress_fn *report, void *context, bool *go_on) {
  json_t *line = ga_json_load(h->line, h->n, 0, NULL);
  const char *error = json_string_value(json_object_get(line, "error")),
             *status = json_string_value(json_object_get(line, "status"));
  if (error) (void)snprintf(h->error, sizeof h->error, "%s", error);
  if (status && !strcmp(status, "success")) {
    h->is_done = true;
  } else if (status) {
    *go_on &= report(context, status, (uint64_t)json_integer_value(json_object_get(line, "completed")),
                     (uint64_t)json_integer_value(json_object_get(line, "total")));
  }
  json_decref(line);
}

static void take_pull_bytes(heard *h, const char *bytes, size_t n, sv_progress_fn *report, void *context, bool *go_on) {
  for (size_t i = 0; i < n; i++) {
    if (bytes[i] == '\n') {
      take_pull_line(h, report, context, go_on);
      h->n = 0;
    } else if (h->n < LINE) {
      h->line[h->n++] = bytes[i];
    }
  }
}

/* Reads lines until the process ends its output, or a report stops it. */
static bool read_pull_lines(int fd, heard *h, sv_progress_fn *report, void *context) {
  bool go_on = true;
  char bytes[4096];
  while (go_on) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    const int ready = poll(&p, 1, TICK_MS);
    if (ready < 0 && errno != EINTR) break;
    if (ready > 0) {
      const ssize_t n = read(fd, bytes, sizeof bytes);
      if (n == 0 || (n < 0 && errno != EINTR)) break;
      if (n > 0) take_pull_bytes(h, bytes, (size_t)n, report, context, &go_on);
    }
    go_on &= report(context, NULL, 0, 0);
  }
  return go_on;
}

static ga_status start_pull(const char *name, int out, pid_t *child) {
  char program[4096];
  const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
  REQUIRE(n > 0, GA_ERR_IO, "pull: the program's own path is not known: %s", strerror(errno));
  program[n] = 0;
  char *const args[] = {program, (char *)"pull", (char *)"--json", (char *)(uintptr_t)name, NULL};
  posix_spawn_file_actions_t actions;
  int rc = posix_spawn_file_actions_init(&actions);
  if (!rc) rc = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (!rc) rc = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  if (!rc) rc = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  if (!rc) rc = posix_spawn(child, program, &actions, NULL, args, environ);
  (void)posix_spawn_file_actions_destroy(&actions);
  REQUIRE(!rc, GA_ERR_IO, "pull: cannot start %s: %s", program, strerror(rc));
  return GA_OK;
}

ga_status serve_pull(void *user, const char *name, sv_progress_fn *report, void *context) {
  int pipes[2], code = -1;
  pid_t child;
  heard h = {0};
  (void)user;
  REQUIRE(!pipe2(pipes, O_CLOEXEC), GA_ERR_IO, "pull: pipe: %s", strerror(errno));
  const ga_status status = start_pull(name, pipes[1], &child);
  (void)close(pipes[1]);
  if (status != GA_OK) {
    (void)close(pipes[0]);
    return status;
  }
  const bool stopped = !read_pull_lines(pipes[0], &h, report, context);
  if (stopped) (void)kill(child, SIGTERM);
  (void)close(pipes[0]);
  while (waitpid(child, &code, 0) < 0 && errno == EINTR) continue;
  if (stopped) return ga_error_set(GA_ERR_CANCELLED, "pull: %s: stopped", name);
  if (h.is_done && WIFEXITED(code) && !WEXITSTATUS(code)) return GA_OK;
  return ga_error_set(GA_ERR_IO, "%s", *h.error ? h.error : "pull: the download ended without a reason");
}
