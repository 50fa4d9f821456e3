/* Command lines: each command has one table of options, which the parser and --help read. */
#ifndef GA_CMDLINE_CMD_H
#define GA_CMDLINE_CMD_H

#include <stdio.h>

#include <jansson.h>

#include "ga/base.h"

/* Exit codes, documented in `ga --help`. */
enum {
  EXIT_OK = 0,
  EXIT_FAILED = 1,   /* the work failed; the reason is printed on stderr */
  EXIT_USAGE = 2,    /* the command line is wrong */
  EXIT_CHECK = 3,    /* ga check, ga bench: a kernel did not pass */
  EXIT_STOPPED = 130 /* interrupted */
};

typedef enum opt_kind {
  OPT_FLAG /* bool */,
  OPT_INT /* int64_t */,
  OPT_FLOAT /* double */,
  OPT_STRING /* const char * */,
  OPT_LIST /* cmd_texts: the option may be given several times */
} opt_kind;

typedef struct cmd_texts {
  const char *item[16];
  size_t n;
} cmd_texts;

typedef struct cmd_option {
  const char *name; /* long name without dashes */
  char letter;      /* 0 = none */
  opt_kind kind;
  void *value;     /* the variable that the option sets, of the type of its kind; it holds the default before parsing */
  double min;      /* least value of OPT_INT and OPT_FLOAT; min = max = 0: any */
  double max;      /* greatest value. A default outside of the range means: not given */
  const char *arg; /* name of the value in the help */
  const char *help; /* help text of one line */
} cmd_option;

typedef struct command {
  const char *name;
  const char *summary;               /* one line */
  int (*run)(int argc, char **argv); /* argv[0] is the subcommand */
} command;

/* Parses options anywhere before "--", and moves the other arguments to argv[1..]. Returns their number. Returns -1
 * if the program should exit with *exit_code: help was printed, or the command line is wrong. usage: the part of the
 * usage line after the name. */
int cmd_parse(const char *name, const char *usage, const cmd_option *options, size_t n_options, int argc, char **argv,
              int *exit_code);
/* Parses as cmd_parse does. For an option that the table lacks it calls refuse, which prints the error. next: the
 * argument after it, or NULL. */
int cmd_parse_or(const char *name, const char *usage, const cmd_option *options, size_t n_options, int argc,
                 char **argv, int *exit_code, void (*refuse)(const char *arg, const char *next));
/* Returns whether the last parse found the option that sets the variable `value`. */
bool cmd_is_given(const void *value);
/* Returns the option that arg names, as "--name", "--name=value" or "-x"; NULL: the table has no such option. */
const cmd_option *cmd_find_option(const cmd_option *options, size_t n, const char *arg);

/* Prints "ga <name>: <ga_error_text>" on stderr and returns EXIT_FAILED. */
int cmd_fail(const char *name);
/* Prints "ga <name>: " and a printf text on stderr, and returns EXIT_USAGE. */
int cmd_usage_error(const char *name, const char *fmt, ...) GA_PRINTF(2, 3);
/* Checks the name of a file to be written. Returns EXIT_OK, or, for "-", which elsewhere means a stream, prints an
 * error and returns EXIT_USAGE. */
int cmd_check_out(const char *name, const char *out);

/* Prints text from a file. Characters that could control a terminal are escaped. */
void cmd_put_text(FILE *f, const char *text, size_t bytes);

/* Returns a text as cmd_put_text prints it, allocated with malloc; NULL: out of memory. */
char *cmd_escape_text(const char *text);

/* Prints json on stdout and releases it. NULL, for which jansson had no memory, is an error. */
GA_NODISCARD ga_status cmd_print_json(json_t *json, size_t flags);
/* Makes a JSON string of any bytes: U+FFFD replaces each byte that is not UTF-8. NULL: out of memory. */
json_t *cmd_json_text(const char *text, size_t bytes);

/* Returns whether stderr is a terminal, so that progress may be drawn there. */
bool cmd_is_interactive(void);
/* Sets whether cmd_progress prints a line every few seconds if stderr is no terminal. */
void cmd_progress_lines(bool on);
/* Sets whether cmd_progress prints JSON lines on stdout instead, a few a second: {"status", "completed", "total"}. */
void cmd_progress_json(bool on);
/* Draws or updates one progress line, which done >= total ends. If stderr is no terminal, nothing is drawn. */
void cmd_progress(const char *what, uint64_t done, uint64_t total);
/* Removes a progress line that has not ended, before other output is written. */
void cmd_progress_clear(void);

#endif
