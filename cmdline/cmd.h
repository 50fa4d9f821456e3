/* Command lines: each command has one table of options, which the parser and --help read. */
#ifndef GA_CMDLINE_CMD_H
#define GA_CMDLINE_CMD_H

#include <stdio.h>

#include <jansson.h>

#include "ga/base.h"

/* Exit codes, documented in `ga --help`. */
enum {
  EXIT_OK = 0,
  EXIT_FAILED = 1,   /* the work failed: text on stderr */
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
  void *value;      /* holds the default before, the value after */
  double min, max;  /* OPT_INT, OPT_FLOAT: allowed range; both 0 = any. A default outside it means: not given */
  const char *arg;  /* name of the value in the help */
  const char *help; /* one line */
} cmd_option;

typedef struct command {
  const char *name;
  const char *summary;               /* one line */
  int (*run)(int argc, char **argv); /* argv[0] is the subcommand */
} command;

/* Parses options anywhere before "--"; what is left is moved to argv[1..]. Returns the count of those, or -1 when the
 * program should exit with *exit_code (help was printed, or the line is wrong). usage: what follows the name. */
int cmd_parse(const char *name, const char *usage, const cmd_option *options, size_t n_options, int argc, char **argv,
              int *exit_code);
/* Parses as cmd_parse does; for an option that the table lacks calls refuse, which prints the error. next: the word
 * after it, or NULL. */
int cmd_parse_or(const char *name, const char *usage, const cmd_option *options, size_t n_options, int argc,
                 char **argv, int *exit_code, void (*refuse)(const char *arg, const char *next));
/* The option that arg names, as "--name", "--name=value" or "-x"; NULL: the table has none. */
const cmd_option *cmd_find_option(const cmd_option *options, size_t n, const char *arg);

/* Prints "ga <name>: <ga_error_text>" on stderr and returns EXIT_FAILED. */
int cmd_fail(const char *name);
/* Same with a text of our own and EXIT_USAGE. */
int cmd_usage_error(const char *name, const char *fmt, ...) GA_PRINTF(2, 3);
/* EXIT_OK; EXIT_USAGE with a text where a file is to be written and the name is '-', which elsewhere means a stream. */
int cmd_check_out(const char *name, const char *out);

/* Prints text out of a file; characters that could control a terminal are escaped. */
void cmd_put_text(FILE *f, const char *text, size_t bytes);

/* Prints json on stdout and releases it; NULL (jansson had no memory) is an error. */
GA_NODISCARD ga_status cmd_print_json(json_t *json, size_t flags);
/* A JSON string of any bytes: U+FFFD stands for each that is not UTF-8. New; NULL without memory. */
json_t *cmd_json_text(const char *text, size_t bytes);

/* True when stderr is a terminal: progress may be drawn there. */
bool cmd_is_interactive(void);
/* Draws or updates one progress line; done >= total ends it. When stderr is no terminal: nothing, or, after
 * cmd_progress_lines(true), a line every few seconds. */
void cmd_progress_lines(bool on);
void cmd_progress(const char *what, uint64_t done, uint64_t total);
/* Takes a bar away that has not come to its end, before something else is written. */
void cmd_progress_clear(void);

#endif
