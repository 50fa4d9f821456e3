#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cmdline/error.h"
#include "cmdline/foreign.h"
#include "cmdline/interrupt.h"
#include "cmdline/likeness.h"
#include "cmdline/words.h"
#include "verify/verify.h"

static const command commands[] = {
#define COMMAND(name, summary) {#name, summary, cmd_##name},
#include "cli/commands.def"
#undef COMMAND
};

/* Commands under their former names, which go on working. */
static const struct { const char *old, *name; } renamed[] = {{"make", "synth"}};

static int show_help(FILE *out) {
  words_print(out, 2, "ga %s: exact attention and LLM inference on CPUs and GPUs\n\nusage: ga COMMAND [options]\n\n",
              ga_version());
  for (size_t i = 0; i < COUNT_OF(commands); i++)
    words_print(out, 15, "  %-12s %s\n", commands[i].name, commands[i].summary);
  words_print(
      out, 2,
      "\nga help COMMAND says more. To begin: ga pull smollm2-135m && ga run \"Why is the sky blue?\"\n"
      "models lie in $GA_MODELS, else $XDG_CACHE_HOME/ga/models, else ~/.cache/ga/models\n"
      "$GA_LOG (debug, info, warn, error, off) is the least level of the library's messages that is printed [warn]\n"
      "$GA_DISABLE_KERNELS are kernels that are never chosen: ids with * and ?, separated by commas [none]\n"
      "$GA_PEER (auto, off): with off, GPUs exchange data through host memory; ga dist reduce refuses it [auto]\n"
      "$GA_DIST_COPIES (auto, peer, host, nccl): how blocks go from GPU to GPU, as ga dist --copies [auto]\n"
      "$GA_NCCL is the file that NCCL is loaded from [libnccl.so.2]\n"
      "$GA_LAST_CACHE (MiB) is the last cache for ga bench and ga probe [what the system says]\n"
      "exit codes: 0 done, 1 failed (text on stderr), 2 wrong command line, 3 a kernel did not pass, "
      "130 interrupted\n");
  return out == stdout ? EXIT_OK : EXIT_USAGE;
}

/* A standard stream that the caller closed must not become the number of a file that is opened later. What is put there
 * fails when it is used, as a closed one does. */
static void fill_standard_streams(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

/* What a person stopped has not failed. A report that did not arrive is a failure, whatever the command thinks. */
static int end(int code) {
  if (interrupted() && code != EXIT_USAGE) return EXIT_STOPPED;
  const bool failed = ferror(stdout) != 0;
  if ((!fflush(stdout) && !failed) || code != EXIT_OK) return code;
  (void)fprintf(stderr, "ga: stdout: cannot write%s%s\n", failed ? "" : ": ", failed ? "" : strerror(errno));
  return EXIT_FAILED;
}

static const char *const levels[] = {"debug", "info", "warn", "error", "off"};

static void print_line(void *user, ga_log_level level, const char *text) {
  (void)user;
  (void)fprintf(stderr, "ga: %s: %s\n", levels[level], text);
}

/* $GA_LOG: the least that is said of what the library notices. */
static bool show_log(void) {
  const char *least = getenv("GA_LOG");
  if (!least || !*least) least = "warn";
  for (size_t i = 0; i < COUNT_OF(levels); i++) {
    if (strcmp(least, levels[i]) != 0) continue;
    if (i <= GA_LOG_ERROR) ga_log_set(print_line, NULL, (ga_log_level)i);
    return true;
  }
  (void)fprintf(stderr, "ga: GA_LOG is '%s'; allowed: debug, info, warn, error, off\n", least);
  return false;
}

/* The present name of a command, with a line that tells it where `name` is a former one. */
static const char *present_name(const char *name) {
  for (size_t i = 0; i < COUNT_OF(renamed); i++) {
    if (strcmp(name, renamed[i].old)) continue;
    (void)fprintf(stderr, "ga: %s is now %s\n", renamed[i].old, renamed[i].name);
    return renamed[i].name;
  }
  return name;
}

static const command *find_command(const char *name) {
  for (size_t i = 0; i < COUNT_OF(commands); i++)
    if (!strcmp(name, commands[i].name)) return &commands[i];
  return NULL;
}

/* Two lines, so that nothing pushes them off the screen. */
static int unknown_command(const char *name) {
  const char *note = foreign_command(name);
  if (note) {
    (void)fprintf(stderr, "ga: GA has no command '%s': %s (docs/guide/coming-from.md)\n", name, note);
    return EXIT_USAGE;
  }
  size_t least = LIKENESS_MOST;
  for (size_t i = 0; i < COUNT_OF(commands); i++) {
    const size_t l = likeness(name, commands[i].name);
    if (l && l < least) least = l;
  }
  (void)fprintf(stderr, "ga: '");
  cmd_put_text(stderr, name, strlen(name));
  (void)fprintf(stderr, "' is no command");
  const char *before = "; do you mean ";
  for (size_t i = 0; i < COUNT_OF(commands); i++) {
    if (likeness(name, commands[i].name) != least) continue;
    (void)fprintf(stderr, "%s%s", before, commands[i].name);
    before = " or ";
  }
  (void)fprintf(stderr, "%s\nsee: ga --help\n", least < LIKENESS_MOST ? "?" : "");
  return EXIT_USAGE;
}

/* ga help COMMAND is ga COMMAND --help; ga help COMMAND VERB is ga COMMAND VERB --help. */
static int help_of(int argc, char **argv) {
  static char option[] = "--help";
  if (argc < 3) return show_help(stdout);
  const command *c = find_command(present_name(argv[2]));
  char *line[] = {argv[2], argc > 3 ? argv[3] : option, option, NULL};
  if (c) return c->run(argc > 3 ? 3 : 2, line);
  return unknown_command(argv[2]);
}

static int dispatch(int argc, char **argv) {
  if (argc < 2) return show_help(stderr);
  if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) return show_help(stdout);
  if (!strcmp(argv[1], "help")) return help_of(argc, argv);
  if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
    printf("ga %s\n", ga_version());
    return EXIT_OK;
  }
  const char *name = present_name(argv[1]);
  const command *c = find_command(name);
  if (c) return c->run(argc - 1, argv + 1);
  return unknown_command(argv[1]);
}

int main(int argc, char **argv) {
  fill_standard_streams();
  if (!show_log()) return EXIT_USAGE;
  return end(dispatch(argc, argv));
}
