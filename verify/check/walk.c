#include "verify/check/walk.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* From child to parent. Smaller than PIPE_BUF, so a message is never split. */
typedef struct message {
  enum { AT_DRAW, DONE, NO_DEVICE, FAULT } kind;
  size_t row;
  check_result result;
} message;
_Static_assert(sizeof(message) <= 4096, "messages must be written at once");

typedef struct child {
  int out; /* end of the pipe */
  size_t row;
} child;

static void send_message(int fd, const message *m) {
  while (write(fd, m, sizeof *m) < 0 && errno == EINTR) continue;
}

static void at_draw(void *user, int64_t i, const char *step) {
  const child *self = user;
  message m = {.kind = AT_DRAW, .row = self->row, .result.draw = i};
  (void)snprintf(m.result.text, sizeof m.result.text, "%s", step);
  send_message(self->out, &m);
}

static const ga_backend *backend_of(const char *device) {
  size_t len = strcspn(device, ":");
  for (size_t i = 0; i < ga_n_backends; i++)
    if (strlen(ga_backends[i]->name) == len && !strncmp(ga_backends[i]->name, device, len)) return ga_backends[i];
  return NULL;
}

/* Rows of the device's own table must be in this build; others (the self-test's) bring their code along. */
static bool device_runs(const ga_device *device, const char *name, const ga_kernel *row) {
  size_t n = 0;
  const ga_kernel *own = backend_of(name)->kernels(&n);
  for (size_t i = 0; i < n; i++)
    if (row == &own[i]) return ga_device_runs(device, row);
  return device->caps.isas >> row->isa & 1;
}

static void child_main(const ga_kernel *const *rows, size_t first, size_t n, const check_options *o, int fd) {
  check_rig rig;
  message m = {.kind = NO_DEVICE, .row = first};
  if (check_rig_open(o, &rig) != GA_OK) {
    (void)snprintf(m.result.text, sizeof m.result.text, "%s", ga_error_text());
    send_message(fd, &m);
    return;
  }
  for (size_t i = first; i < n; i++) {
    child self = {.out = fd, .row = i};
    m = (message){.kind = DONE, .row = i};
    if (device_runs(rig.ctx->device, o->device, rows[i]))
      check_row(&rig, rows[i], o, at_draw, &self, &m.result);
    else
      m.result.detector = CHECK_BY_SKIP;
    send_message(fd, &m);
    /* A fault on a GPU ends its context: the rows behind it get a new process. */
    if (ga_stream_sync(rig.ctx, NULL) == GA_OK) continue;
    m = (message){.kind = FAULT, .row = i};
    send_message(fd, &m);
    break;
  }
  check_rig_close(&rig);
}

/* Signals as the system has them: a kernel's fault must end the child at once. */
static void plain_signals(void) {
  static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
  for (size_t i = 0; i < GA_COUNT_OF(faults); i++) (void)signal(faults[i], SIG_DFL);
}

static ga_status start_child(const ga_kernel *const *rows, size_t first, size_t n, const check_options *o, pid_t *pid,
                             int *in) {
  int fd[2];
  GA_REQUIRE(pipe(fd) == 0, GA_ERR_DEVICE, "check: no pipe: %s", strerror(errno));
  (void)fflush(NULL);
  *pid = fork();
  if (*pid == 0) {
    (void)close(fd[0]);
    plain_signals();
    child_main(rows, first, n, o, fd[1]);
    _exit(0);
  }
  (void)close(fd[1]);
  *in = fd[0];
  if (*pid > 0) return GA_OK;
  (void)close(fd[0]);
  return ga_fail(GA_ERR_DEVICE, "check: no child process: %s", strerror(errno));
}

typedef enum heard { HEARD, SILENCE, GONE } heard;

static heard listen_for(int in, double timeout_s, message *m) {
  struct pollfd p = {.fd = in, .events = POLLIN};
  int rc;
  do rc = poll(&p, 1, (int)(timeout_s * 1000));
  while (rc < 0 && errno == EINTR);
  if (rc == 0) return SILENCE;
  ssize_t n;
  do n = read(in, m, sizeof *m);
  while (n < 0 && errno == EINTR);
  return n == (ssize_t)sizeof *m ? HEARD : GONE;
}

/* The verdict on a child that ended, or had to be ended, inside a row. */
static void judge_end(pid_t pid, heard why, const check_options *o, check_result *r) {
  int state = 0;
  if (why == SILENCE) (void)kill(pid, SIGKILL);
  while (waitpid(pid, &state, 0) < 0 && errno == EINTR) continue;
  if (why == SILENCE) {
    r->detector = CHECK_BY_HANG;
    (void)snprintf(r->text, sizeof r->text, "did not return within %g s", o->timeout_s);
    return;
  }
  r->detector = CHECK_BY_CRASH;
  char step[64];
  (void)snprintf(step, sizeof step, "%.62s", r->text);
  if (WIFSIGNALED(state))
    (void)snprintf(r->text, sizeof r->text, "crashed: %s%s%s", strsignal(WTERMSIG(state)), *step ? ", " : "", step);
  else
    (void)snprintf(r->text, sizeof r->text, "ended the process with code %d", WEXITSTATUS(state));
}

/* Runs one child from row *next on until it ends; *next is the first row that has no result. */
static ga_status run_child(const ga_kernel *const *rows, size_t *next, size_t n, const check_options *o,
                           check_report report, void *user) {
  pid_t pid = -1;
  int in = -1;
  message m;
  check_result last = {0};
  heard h;
  GA_TRY(start_child(rows, *next, n, o, &pid, &in));
  while ((h = listen_for(in, o->timeout_s, &m)) == HEARD && m.kind != NO_DEVICE && m.kind != FAULT) {
    last = m.result;
    if (m.kind == AT_DRAW) continue;
    report(user, rows[(*next)++], &m.result);
    last = (check_result){0};
    if (*next == n) break;
  }
  (void)close(in);
  if (h == HEARD && m.kind == NO_DEVICE) {
    (void)waitpid(pid, NULL, 0);
    return ga_fail(GA_ERR_DEVICE, "%s", m.result.text);
  }
  if (h == HEARD && m.kind == FAULT) {
    (void)waitpid(pid, NULL, 0);
    return GA_OK;
  }
  judge_end(pid, h, o, &last);
  if (*next < n) report(user, rows[(*next)++], &last);
  return GA_OK;
}

ga_status check_walk(const ga_kernel *const *rows, size_t n, const check_options *o, check_report report, void *user) {
  for (size_t next = 0; next < n;) GA_TRY(run_child(rows, &next, n, o, report, user));
  return GA_OK;
}

/* --- devices and rows --- */

ga_status check_rig_open(const check_options *o, check_rig *rig) {
  *rig = (check_rig){0};
  ga_ctx_options options = GA_CTX_OPTIONS_INIT;
  options.device = o->device;
  options.threads = o->threads;
  ga_status status = ga_ctx_create(&options, &rig->ctx);
  if (status == GA_OK && rig->ctx->device->pool && ga_ctx_threads(rig->ctx) > 1) {
    options.threads = 1;
    status = ga_ctx_create(&options, &rig->single);
  }
  options.device = "ref";
  options.threads = 1;
  if (status == GA_OK) status = ga_ctx_create(&options, &rig->ref);
  if (status != GA_OK) check_rig_close(rig);
  return status;
}

void check_rig_close(check_rig *rig) {
  ga_ctx_destroy(rig->ref);
  ga_ctx_destroy(rig->single);
  ga_ctx_destroy(rig->ctx);
  *rig = (check_rig){0};
}

ga_status check_rows_of(const char *device, const char *patterns, const ga_kernel ***out, size_t *n) {
  const ga_backend *backend = backend_of(device);
  GA_REQUIRE(backend, GA_ERR_ARG, "device '%s' is no backend", device);
  size_t all;
  const ga_kernel *rows = backend->kernels(&all);
  *n = 0;
  *out = calloc(all ? all : 1, sizeof **out);
  GA_REQUIRE(*out, GA_ERR_NOMEM, "check: no memory");
  for (size_t i = 0; i < all; i++)
    if (ga_pattern_match(patterns, rows[i].id) && !(rows[i].flags & GA_KERNEL_STEP)) (*out)[(*n)++] = &rows[i];
  return GA_OK;
}

const ga_kernel *check_oracle_of(ga_op op) {
  const ga_backend *ref = backend_of("ref");
  size_t n = 0;
  const ga_kernel *rows = ref ? ref->kernels(&n) : NULL;
  for (size_t i = 0; i < n; i++)
    if (rows[i].op == op) return &rows[i];
  return NULL;
}

const check_op *check_op_of(ga_op op) {
  switch (op) {
#define X(name) \
  case GA_OP_##name: return &check_##name;
    GA_OPS(X)
#undef X
  default: return NULL;
  }
}

bool check_is_covered(ga_op op) {
  const check_op *file = check_op_of(op);
  return file && (file->no_oracle || check_oracle_of(op));
}

const char *check_detector_name(check_detector d) {
  static const char *const names[] = {
      [CHECK_PASSED] = "passed",          [CHECK_BY_TABLE] = "table",       [CHECK_BY_LEGAL] = "legality",
      [CHECK_BY_STATUS] = "status",       [CHECK_BY_HALF] = "half-written", [CHECK_BY_GUARD] = "guard",
      [CHECK_BY_PADDING] = "padding",     [CHECK_BY_INPUT] = "input",       [CHECK_BY_UNWRITTEN] = "unwritten",
      [CHECK_BY_WORKSPACE] = "workspace", [CHECK_BY_REPEAT] = "repeat",     [CHECK_BY_THREADS] = "threads",
      [CHECK_BY_VALUE] = "value",         [CHECK_BY_CRASH] = "crash",       [CHECK_BY_HANG] = "hang",
      [CHECK_BY_SKIP] = "skipped",
  };
  return names[d];
}
