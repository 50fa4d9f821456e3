/* ga dist run --transport processes: starts a process for each rank, and speaks for all of them. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/dist.h"
#include "cli/error.h"

#define GRACE 6.0 /* seconds that ranks have to end once one of them has failed */

typedef struct child {
  pid_t pid;
  int err;         /* its stderr */
  char text[2048]; /* what came out of it */
  size_t n;
  int status;
  bool has_ended;
} child;

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

/* In the child: this program again, as a rank. It ends with its parent. */
static void become_rank(char **argv, int32_t rank, int32_t ranks, const char *run, int err) {
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
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
  c->pid = fork();
  if (c->pid == 0) become_rank(argv, rank, ranks, run, ends[1]);
  (void)close(ends[1]);
  c->err = ends[0];
  REQUIRE(c->pid > 0, GA_ERR_DEVICE, "the system starts %d processes of %d: %s", rank, ranks, strerror(errno));
  return GA_OK;
}

/* What the ranks say, for a tenth of a second. Text beyond the room is dropped. */
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

/* Until all have ended; those that others' failure does not end are killed. */
static void wait_for_ranks(child *c, int32_t n) {
  double deadline = 0;
  for (int32_t left = n; left;) {
    listen_to(c, n);
    left = 0;
    for (int32_t r = 0; r < n; r++) {
      if (!c[r].has_ended) c[r].has_ended = waitpid(c[r].pid, &c[r].status, WNOHANG) != 0;
      left += !c[r].has_ended || c[r].err >= 0;
      if (c[r].has_ended && c[r].status && deadline == 0) deadline = now_seconds() + GRACE;
    }
    for (int32_t r = 0; r < n && deadline != 0 && now_seconds() > deadline; r++)
      if (!c[r].has_ended) (void)kill(c[r].pid, SIGKILL);
  }
}

/* One line for all: the longest, which says which rank it began with. */
static int speak_for_all(const child *c, int32_t n) {
  const child *best = NULL, *ended = NULL;
  for (int32_t r = 0; r < n; r++) {
    if (!c[r].status) continue;
    if (!ended) ended = &c[r];
    if (c[r].n && (!best || c[r].n > best->n)) best = &c[r];
  }
  if (!ended) return EXIT_OK;
  if (best)
    (void)fputs(best->text, stderr);
  else
    (void)fprintf(stderr, "ga dist: rank %d ended with status %d\n", (int)(ended - c), ended->status);
  return EXIT_FAILED;
}

int dist_launch(const dist_args *a, char **argv) {
  const int32_t ranks = (int32_t)a->ranks;
  child *c = calloc((size_t)ranks, sizeof *c);
  char run[64];
  if (!c) {
    (void)fail_nomem("ranks", (size_t)ranks * sizeof *c);
    return cmd_fail("dist");
  }
  (void)snprintf(run, sizeof run, "%d-%.0f", (int)getpid(), now_seconds() * 1e6);
  (void)fflush(stdout);
  ga_status status = GA_OK;
  int32_t started = 0;
  for (; started < ranks && status == GA_OK; started++) {
    status = start_rank_process(&c[started], argv, started, ranks, run);
    if (status != GA_OK) break;
  }
  for (int32_t r = 0; r < started && status != GA_OK; r++) (void)kill(c[r].pid, SIGKILL);
  wait_for_ranks(c, started);
  const int code = status == GA_OK ? speak_for_all(c, ranks) : cmd_fail("dist");
  free(c);
  return code;
}

/* --- in a rank --- */

ga_status dist_open_comm(const dist_args *a, ga_comm **out) {
  ga_comm_place place = GA_COMM_PLACE_INIT;
  if (!strcmp(a->transport, "mpi")) {
    ga_comm_mpi_options mpi = GA_COMM_MPI_OPTIONS_INIT;
    mpi.flags = a->buffered ? GA_COMM_BUFFERED : 0u, mpi.timeout = a->timeout;
    return ga_comm_mpi_create(&mpi, out);
  }
  TRY(ga_comm_place_find(&place));
  REQUIRE(!place.host_ranks || place.host_ranks == place.ranks, GA_ERR_UNSUPPORTED,
          "%d of %d ranks are on this host; --transport processes is for one host", place.host_ranks, place.ranks);
  ga_comm_process_options o = GA_COMM_PROCESS_OPTIONS_INIT;
  o.rank = place.rank, o.ranks = place.ranks, o.run = *place.run ? place.run : place.launcher;
  o.flags = a->buffered ? GA_COMM_BUFFERED : 0u, o.timeout = a->timeout;
  return ga_comm_processes_create(&o, out);
}
