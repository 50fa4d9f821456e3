#include "cli/dist/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cmdline/cmd.h"
#include "cmdline/error.h"
#include "cmdline/interrupt.h"

/* Seconds in which ranks must end: */
#define GRACE_FAILED 6.0  /* after one has failed: watchdogs notice within 5 s, and each rank prints its error */
#define GRACE_DONE   20.0 /* after one has finished: all have met by then, and only release memory */
#define GRACE_CTRL_C 2.0  /* after Ctrl-C, which a terminal sends to the ranks, too; kill -INT does not */

#define STATUS_LOST (-1) /* the system does not say how a rank ended */

typedef struct child {
  pid_t pid;
  int err;         /* its stderr */
  char text[2048]; /* read from err */
  size_t n;
  int status; /* of waitpid, or STATUS_LOST */
  bool has_ended, was_killed, is_stopped;
} child;

/* The first rank that finished, failed, or was ended by a signal; -1 = none. Ranks that the launcher killed do not
 * count. */
typedef struct first_ends {
  int32_t done, failed, signalled;
} first_ends;

static double now_seconds(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void set_number(const char *name, long long x) {
  char text[24];
  (void)snprintf(text, sizeof text, "%lld", x);
  (void)setenv(name, text, 1);
}

/* Turns the child into a rank: the same program again. The kernel ends it with its parent; where the parent has ended
 * already, it ends itself. */
static void become_rank(char **argv, int32_t rank, int32_t ranks, const char *run, int err, pid_t launcher) {
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(EXIT_FAILED);
  (void)dup2(err, STDERR_FILENO);
  set_number("GA_RANK", rank), set_number("GA_RANKS", ranks);
  (void)setenv("GA_RUN", run, 1), (void)setenv("GA_LAUNCHER", "ga", 1);
  (void)execv("/proc/self/exe", argv);
  (void)fprintf(stderr, "ga dist: cannot start itself: %s\n", strerror(errno));
  _exit(EXIT_FAILED);
}

static ga_status start_rank_process(child *c, char **argv, int32_t rank, int32_t ranks, const char *run) {
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0, GA_ERR_DEVICE, "no pipe for rank %d: %s", rank, strerror(errno));
  const pid_t launcher = getpid();
  c->pid = fork();
  if (c->pid == 0) become_rank(argv, rank, ranks, run, ends[1], launcher);
  (void)close(ends[1]);
  c->err = ends[0];
  REQUIRE(c->pid > 0, GA_ERR_DEVICE, "the system starts %d processes of %d: %s", rank, ranks, strerror(errno));
  return GA_OK;
}

/* Reads stderr of the ranks for a tenth of a second. Text beyond the room is dropped. */
static void listen_to(child *c, int32_t n) {
  struct pollfd p[64];
  char drop[512];
  for (int32_t r = 0; r < n; r++) p[r] = (struct pollfd){.fd = c[r].err, .events = POLLIN};
  (void)poll(p, (nfds_t)n, 100);
  for (int32_t r = 0; r < n; r++) {
    if (!p[r].revents) continue;
    const size_t room = sizeof c[r].text - 1 - c[r].n;
    const ssize_t got = read(c[r].err, room ? c[r].text + c[r].n : drop, room ? room : sizeof drop);
    if (got > 0 && room) c[r].n += (size_t)got;
    if (got > 0) continue;
    (void)close(c[r].err);
    c[r].err = -1;
  }
}

static void look_whether_ended(child *c) {
  int status = STATUS_LOST;
  const pid_t got = waitpid(c->pid, &status, WNOHANG | WUNTRACED | WCONTINUED);
  if (got == 0 || (got < 0 && errno == EINTR)) return;
  if (got > 0 && (WIFSTOPPED(status) || WIFCONTINUED(status))) {
    c->is_stopped = WIFSTOPPED(status);
    return;
  }
  c->status = status;
  c->has_ended = true;
}

/* True when every rank that has not ended is stopped (SIGSTOP): none of them will end by itself. */
static bool only_stopped_are_left(const child *c, int32_t n) {
  bool any = false;
  for (int32_t r = 0; r < n; r++) {
    if (!c[r].has_ended && !c[r].is_stopped) return false;
    any = any || !c[r].has_ended;
  }
  return any;
}

static void note_end(const child *c, int32_t rank, first_ends *f) {
  const bool is_signal = c->status != STATUS_LOST && WIFSIGNALED(c->status);
  if (c->was_killed) return;
  if (c->status == 0 && f->done < 0) f->done = rank;
  if (c->status != 0 && f->failed < 0) f->failed = rank;
  if (is_signal && f->signalled < 0) f->signalled = rank;
}

static void kill_rest(child *c, int32_t n) {
  for (int32_t r = 0; r < n; r++) {
    if (c[r].has_ended) continue;
    c[r].was_killed = true;
    (void)kill(c[r].pid, SIGKILL);
  }
}

/* Waits until all ranks have ended. After the first end the rest are killed when their time is over, or at once when a
 * signal ended the first or the rest are stopped. A process that a rank started may keep its stderr open; reading ends
 * with the time. */
static first_ends wait_for_ranks(child *c, int32_t n) {
  first_ends f = {-1, -1, -1};
  double deadline = INFINITY;
  for (int32_t left = n; left;) {
    const bool is_late = now_seconds() > deadline;
    listen_to(c, n);
    left = 0;
    for (int32_t r = 0; r < n; r++) {
      if (!c[r].has_ended) {
        look_whether_ended(&c[r]);
        if (c[r].has_ended) note_end(&c[r], r, &f);
      }
      left += !c[r].has_ended || (c[r].err >= 0 && !is_late);
    }
    const double now = now_seconds();
    if (f.done >= 0) deadline = fmin(deadline, now + GRACE_DONE);
    if (f.failed >= 0) deadline = fmin(deadline, now + GRACE_FAILED);
    if (f.signalled >= 0 || (f.failed >= 0 && only_stopped_are_left(c, n))) deadline = fmin(deadline, now);
    if (interrupted()) deadline = fmin(deadline, now + GRACE_CTRL_C);
    if (now >= deadline) kill_rest(c, n);
  }
  return f;
}

/* Prints which signal ended the rank, the cause of all later errors; then the rank's own last text. */
static void say_signal(const child *c, int32_t rank) {
  const int number = WTERMSIG(c->status);
  (void)fprintf(stderr, "ga dist: rank %d was ended by signal %d (%s)\n%s", rank, number, strsignal(number), c->text);
}

/* The rank's text after the log lines of its library, such as "ga: warn: ...". */
static const char *own_words(const child *c) {
  const char *p = c->text;
  for (const char *end; !strncmp(p, "ga: ", 4) && (end = strchr(p, '\n')); p = end + 1) continue;
  return p;
}

/* Prints the log lines of rank 0, which stand for those of all ranks. After a failure prints one error for all ranks:
 * the longest one, since it names the rank where the failure began. */
static int speak_for_all(const child *c, int32_t n, const first_ends *f) {
  const child *best = NULL;
  int32_t killed = -1;
  (void)fprintf(stderr, "%.*s", (int)(own_words(&c[0]) - c[0].text), c[0].text);
  for (int32_t r = n - 1; r >= 0; r--) {
    if (c[r].was_killed) killed = r;
    if (!c[r].was_killed && c[r].status && *own_words(&c[r]) &&
        (!best || strlen(own_words(&c[r])) >= strlen(own_words(best))))
      best = &c[r];
  }
  if (f->failed < 0 && killed < 0) return EXIT_OK;
  if (interrupted())
    (void)fputs("ga dist: stopped\n", stderr);
  else if (f->signalled >= 0)
    say_signal(&c[f->signalled], f->signalled);
  else if (best)
    (void)fputs(own_words(best), stderr);
  else if (f->failed < 0)
    (void)fprintf(stderr, "ga dist: rank %d was killed: it had not ended %g s after rank %d was done\n", killed,
                  GRACE_DONE, f->done);
  else if (c[f->failed].status == STATUS_LOST)
    (void)fprintf(stderr, "ga dist: the system does not say how rank %d ended\n", f->failed);
  else
    (void)fprintf(stderr, "ga dist: rank %d ended with status %d\n", f->failed, WEXITSTATUS(c[f->failed].status));
  return EXIT_FAILED;
}

int dist_launch(int32_t ranks, char **argv) {
  child *c = calloc((size_t)ranks, sizeof *c);
  char run[64];
  if (!c) {
    (void)fail_nomem("ranks", (size_t)ranks * sizeof *c);
    return cmd_fail("dist");
  }
  (void)snprintf(run, sizeof run, "%d-%.0f", (int)getpid(), now_seconds() * 1e6);
  (void)fflush(stdout);
  (void)signal(SIGCHLD, SIG_DFL); /* programs inherit SIG_IGN, and waitpid has no status then */
  ga_status status = GA_OK;
  int32_t started = 0;
  for (; started < ranks && status == GA_OK; started++) {
    status = start_rank_process(&c[started], argv, started, ranks, run);
    if (status != GA_OK) break;
  }
  if (status != GA_OK) kill_rest(c, started);
  const first_ends f = wait_for_ranks(c, started);
  const int code = status == GA_OK ? speak_for_all(c, ranks, &f) : cmd_fail("dist");
  free(c);
  return code;
}
