#include "cmdline/cmd.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <utf8proc.h>

#include "cmdline/error.h"
#include "cmdline/foreign.h"
#include "cmdline/terminal.h"
#include "cmdline/words.h"

static bool in_range(const cmd_option *o, double v) {
  return (o->min == 0 && o->max == 0) || (v >= o->min && v <= o->max);
}

enum { OPTION_COLUMNS = 30 }; /* of an option's name and value in the help */

static void print_option(const cmd_option *o) {
  char left[64];
  int n = o->letter ? snprintf(left, sizeof left, "  -%c, --%s", o->letter, o->name)
                    : snprintf(left, sizeof left, "      --%s", o->name);
  if (o->kind != OPT_FLAG && n > 0 && (size_t)n < sizeof left)
    (void)snprintf(left + n, sizeof left - (size_t)n, " %s", o->arg ? o->arg : "VALUE");
  char now[512] = ""; /* the default */
  if (o->kind == OPT_INT && *(int64_t *)o->value && in_range(o, (double)*(int64_t *)o->value))
    (void)snprintf(now, sizeof now, " [%lld]", (long long)*(int64_t *)o->value);
  if (o->kind == OPT_FLOAT && in_range(o, *(double *)o->value))
    (void)snprintf(now, sizeof now, " [%g]", *(double *)o->value);
  if (o->kind == OPT_STRING && *(const char **)o->value)
    (void)snprintf(now, sizeof now, " [%s]", *(const char **)o->value);
  words_print(stdout, OPTION_COLUMNS + 1, "%-*s %s%s\n", OPTION_COLUMNS, left, o->help, now);
}

static void print_help(const char *name, const char *usage, const cmd_option *options, size_t n) {
  words_print(stdout, 2, "usage: ga %s %s\n\n", name, usage);
  for (size_t i = 0; i < n; i++) print_option(&options[i]);
  printf("%-*s %s\n", OPTION_COLUMNS, "  -h, --help", "this text");
}

int cmd_usage_error(const char *name, const char *fmt, ...) {
  va_list args;
  char *text = NULL;
  va_start(args, fmt);
  if (vasprintf(&text, fmt, args) < 0) text = NULL;
  words_print(stderr, 2, "ga %s: %s\nsee: ga %s --help\n", name, text ? text : fmt, name);
  free(text);
  va_end(args);
  return EXIT_USAGE;
}

int cmd_check_out(const char *name, const char *out) {
  if (strcmp(out, "-") != 0) return EXIT_OK;
  return cmd_usage_error(name, "the output is '-', but it must be a file, not a stream; ./- is a file of that name");
}

/* Controls, and what turns the direction of writing or ends a line. */
static bool is_shown(utf8proc_int32_t code) {
  const utf8proc_category_t c = utf8proc_category(code);
  return c != UTF8PROC_CATEGORY_CC && c != UTF8PROC_CATEGORY_CF && c != UTF8PROC_CATEGORY_ZL &&
         c != UTF8PROC_CATEGORY_ZP;
}

void cmd_put_text(FILE *f, const char *text, size_t bytes) {
  for (size_t at = 0; at < bytes;) {
    utf8proc_int32_t code;
    const unsigned char byte = (unsigned char)text[at];
    const utf8proc_ssize_t n =
        utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(bytes - at), &code);
    if (byte == '\n')
      (void)fputs("\\n", f);
    else if (n > 0 && is_shown(code))
      (void)fwrite(text + at, 1, (size_t)n, f);
    else if (n > 1)
      (void)fprintf(f, "\\u%04x", (unsigned)code);
    else
      (void)fprintf(f, "\\x%02x", byte);
    at += n > 0 ? (size_t)n : 1;
  }
}

char *cmd_escape_text(const char *text) {
  char *escaped = NULL;
  size_t n;
  FILE *f = open_memstream(&escaped, &n);
  if (!f) return NULL;
  cmd_put_text(f, text, strlen(text));
  if (!fclose(f)) return escaped;
  free(escaped);
  return NULL;
}

int cmd_fail(const char *name) {
  char *text = cmd_escape_text(ga_error_text());
  cmd_progress_clear();
  words_print(stderr, 2, "ga %s: %s\n", name, text ? text : "out of memory");
  free(text);
  return EXIT_FAILED;
}

ga_status cmd_print_json(json_t *json, size_t flags) {
  const int rc = json ? json_dumpf(json, stdout, flags) || putchar('\n') == EOF : -1;
  json_decref(json);
  if (rc && ferror(stdout)) return ga_error_set(GA_ERR_IO, "stdout: cannot write");
  return rc ? fail_nomem("JSON", 0) : GA_OK;
}

json_t *cmd_json_text(const char *text, size_t bytes) {
  utf8proc_uint8_t *clean = malloc(3 * bytes + 4); /* U+FFFD has 3 bytes */
  size_t n = 0;
  if (!clean) return NULL;
  for (size_t at = 0; at < bytes;) {
    utf8proc_int32_t code;
    utf8proc_ssize_t len = utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(bytes - at), &code);
    if (len < 1) {
      code = 0xfffd;
      len = 1;
    }
    n += (size_t)utf8proc_encode_char(code, clean + n);
    at += (size_t)len;
  }
  json_t *json = json_stringn((const char *)clean, n);
  free(clean);
  return json;
}

static bool add_to_list(const char *name, const cmd_option *o, const char *text) {
  cmd_texts *list = o->value;
  const size_t most = COUNT_OF(list->item);
  if (*text && list->n < most) {
    list->item[list->n++] = text;
    return true;
  }
  (void)cmd_usage_error(name, *text ? "--%s '%s': at most %zu of them" : "--%s '%s': is empty", o->name, text, most);
  return false;
}

/* Variables that the options of the last parse have set. */
static const void *given[128];
static size_t n_given;

bool cmd_is_given(const void *value) {
  for (size_t i = 0; i < n_given; i++)
    if (given[i] == value) return true;
  return false;
}

/* Stores text into the option; false with a message when it does not fit. */
static bool store_option(const char *name, const cmd_option *o, const char *text) {
  char *end = NULL;
  errno = 0;
  if (!cmd_is_given(o->value) && n_given < COUNT_OF(given)) given[n_given++] = o->value;
  switch (o->kind) {
  case OPT_FLAG: *(bool *)o->value = true; return true;
  case OPT_STRING: *(const char **)o->value = text; return true;
  case OPT_LIST: return add_to_list(name, o, text);
  case OPT_INT: {
    long long v = strtoll(text, &end, 10);
    if (end == text || *end || errno || !in_range(o, (double)v)) break;
    *(int64_t *)o->value = v;
    return true;
  }
  case OPT_FLOAT: {
    double v = strtod(text, &end);
    if (end == text || *end || errno || v != v || !in_range(o, v)) break;
    *(double *)o->value = v;
    return true;
  }
  }
  if (o->min == 0 && o->max == 0)
    (void)cmd_usage_error(name, "--%s '%s': must be a%s number", o->name, text, o->kind == OPT_INT ? " whole" : "");
  else
    (void)cmd_usage_error(name, "--%s '%s': must be a%s number from %g to %g", o->name, text,
                          o->kind == OPT_INT ? " whole" : "", o->min, o->max);
  return false;
}

/* Options under their former names, which go on working. */
static const struct { const char *old, *name; } renamed[] = {{"tokens", "max-tokens"}, {"raw", "no-template"}};

/* The present name of an option that `arg` ("--old" or "--old=value") gives by a former one, else NULL. */
static const char *renamed_to(const char *arg) {
  for (size_t i = 0; i < COUNT_OF(renamed); i++) {
    const size_t len = strlen(renamed[i].old);
    if (!strncmp(arg + 2, renamed[i].old, len) && (arg[2 + len] == 0 || arg[2 + len] == '=')) return renamed[i].name;
  }
  return NULL;
}

/* Finds the option that arg names; *value is set for "--name=value" and "-xvalue". */
static const cmd_option *find_option(const cmd_option *options, size_t n, const char *arg, const char **value) {
  *value = NULL;
  for (size_t i = 0; i < n; i++) {
    const cmd_option *o = &options[i];
    size_t len = strlen(o->name);
    if (arg[1] == '-' && !strncmp(arg + 2, o->name, len) && (arg[2 + len] == 0 || arg[2 + len] == '=')) {
      if (arg[2 + len] == '=') *value = arg + 3 + len;
      return o;
    }
    if (arg[1] != '-' && o->letter && arg[1] == o->letter && (arg[2] == 0 || o->kind != OPT_FLAG)) {
      if (arg[2]) *value = arg + 2;
      return o;
    }
  }
  return NULL;
}

const cmd_option *cmd_find_option(const cmd_option *options, size_t n, const char *arg) {
  const char *value;
  return find_option(options, n, arg, &value);
}

/* The same for former names, with a line that tells the present one. */
static const cmd_option *find_renamed(const char *in, const cmd_option *options, size_t n, const char *arg,
                                      const char **value) {
  const char *name = arg[1] == '-' ? renamed_to(arg) : NULL, *equals = strchr(arg, '=');
  for (size_t i = 0; name && i < n; i++) {
    if (strcmp(options[i].name, name)) continue;
    (void)fprintf(stderr, "ga %s: --%.*s is now --%s\n", in, (int)strcspn(arg + 2, "="), arg + 2, name);
    *value = equals ? equals + 1 : NULL;
    return &options[i];
  }
  return NULL;
}

/* One table, and the program's name for it. */
typedef struct parser {
  const char *name;
  const cmd_option *options;
  size_t n_options;
  void (*refuse)(const char *arg, const char *next); /* NULL: "unknown option" */
} parser;

/* Returns our option that a foreign one stands for in this command. NULL: the command has none. */
static const cmd_option *ours_of(const parser *p, const foreign_option *f) {
  for (size_t k = 0; k < COUNT_OF(f->ours) && f->ours[k]; k++)
    for (size_t i = 0; i < p->n_options; i++)
      if (!strcmp(p->options[i].name, f->ours[k])) return &p->options[i];
  return NULL;
}

static bool is_one_of(const char *text, const char *const words[]) {
  for (size_t i = 0; words[i]; i++)
    if (!strcmp(text, words[i])) return true;
  return false;
}

static int refuse_foreign(const parser *p, const foreign_option *f, const char *value) {
  (void)cmd_usage_error(p->name, "GA has no %s%s%s%s%s (docs/guide/coming-from.md)", f->name, value ? " " : "",
                        value ? value : "", f->note ? ": " : " in this command", f->note ? f->note : "");
  return -1;
}

/* Text "hf:" and a repository's name, which lives as long as the program. */
static const char *hub_name(const char *name) {
  const size_t bytes = strlen(name) + 4;
  char *text = strncmp(name, "hf:", 3) ? malloc(bytes) : NULL;
  if (text) (void)snprintf(text, bytes, "hf:%s", name);
  return text ? text : name;
}

/* Handles an option of another program at argv[i], whose value after a '=' is `value`. Returns as parse_option does. */
static int parse_foreign(const parser *p, const foreign_option *f, int argc, char **argv, int i, const char *value) {
  static const char *const on[] = {"on", "auto", "1", "true", "enabled", NULL}, *const off[] = {"off", "0", "false",
                                                                                                NULL};
  static const char *const all[] = {"all", "auto", "-1", NULL};
  const char *next = i + 1 < argc ? argv[i + 1] : NULL;
  const cmd_option *o = ours_of(p, f);
  if (f->kind == FOREIGN_NONE) return refuse_foreign(p, f, NULL);
  if (f->kind == FOREIGN_ALWAYS) return i;
  if (f->kind == FOREIGN_ON) {
    const bool has_word = !value && next && (is_one_of(next, on) || is_one_of(next, off));
    if (has_word) value = next;
    if (value && !is_one_of(value, on)) return refuse_foreign(p, f, value);
    return i + has_word;
  }
  if (f->kind != FOREIGN_LAYERS && !o) return refuse_foreign(p, f, NULL);
  if (f->kind == FOREIGN_SAME && o->kind == OPT_FLAG) return store_option(p->name, o, "") ? i : -1;
  const int last = value ? i : i + 1;
  if (!value) value = next;
  if (!value) {
    (void)cmd_usage_error(p->name, "%s needs a value", f->name);
    return -1;
  }
  if (f->kind == FOREIGN_LAYERS) {
    if (is_one_of(value, all) || strtol(value, NULL, 10) >= 99) return last; /* the default: as many as fit */
    if (!o) return refuse_foreign(p, f, value);
  }
  return store_option(p->name, o, f->kind == FOREIGN_HUB ? hub_name(value) : value) ? last : -1;
}

/* Stores the option at argv[i]; returns the index of its last word, or -1 with a message. */
static int parse_option(const parser *p, int argc, char **argv, int i) {
  const char *arg = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL, *value;
  const cmd_option *o = find_option(p->options, p->n_options, arg, &value);
  const bool is_exact = o && (arg[1] == '-' || !arg[2]);
  const char *text;
  const foreign_option *f = is_exact || p->refuse ? NULL : foreign_find(arg, &text);
  if (f) return parse_foreign(p, f, argc, argv, i, text);
  if (!o) o = find_renamed(p->name, p->options, p->n_options, arg, &value);
  if (!o && p->refuse)
    p->refuse(arg, next);
  else if (!o)
    (void)cmd_usage_error(p->name, "unknown option '%s'", arg);
  else if (o->kind == OPT_FLAG && value)
    (void)cmd_usage_error(p->name, "--%s takes no value", o->name);
  else if (o->kind != OPT_FLAG && !value && !next)
    (void)cmd_usage_error(p->name, "--%s needs a value", o->name);
  else if (o->kind == OPT_FLAG || value)
    return store_option(p->name, o, value ? value : "") ? i : -1;
  else
    return store_option(p->name, o, next) ? i + 1 : -1;
  return -1;
}

int cmd_parse_or(const char *name, const char *usage, const cmd_option *options, size_t n_options, int argc,
                 char **argv, int *exit_code, void (*refuse)(const char *arg, const char *next)) {
  const parser p = {name, options, n_options, refuse};
  int kept = 0;
  *exit_code = EXIT_USAGE;
  n_given = 0;
  for (int i = 1; i < argc; i++) {
    const char *arg = argv[i];
    if (!strcmp(arg, "--")) {
      while (++i < argc) argv[++kept] = argv[i];
      break;
    }
    if (arg[0] != '-' || !arg[1]) {
      argv[++kept] = argv[i];
      continue;
    }
    if (!strcmp(arg, "-h") || !strcmp(arg, "--help")) {
      print_help(name, usage, options, n_options);
      *exit_code = EXIT_OK;
      return -1;
    }
    i = parse_option(&p, argc, argv, i);
    if (i < 0) return -1;
  }
  return kept;
}

int cmd_parse(const char *name, const char *usage, const cmd_option *options, size_t n_options, int argc, char **argv,
              int *exit_code) {
  return cmd_parse_or(name, usage, options, n_options, argc, argv, exit_code, NULL);
}

bool cmd_is_interactive(void) { return isatty(STDERR_FILENO); }

static bool in_lines;

void cmd_progress_lines(bool on) { in_lines = on; }

static bool in_json;

void cmd_progress_json(bool on) { in_json = on; }

static void progress_json(const char *what, uint64_t done, uint64_t total) {
  enum { PAUSE_NS = 200 * 1000 * 1000 };
  static struct timespec last;
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t ns = (int64_t)(now.tv_sec - last.tv_sec) * 1000000000 + (now.tv_nsec - last.tv_nsec);
  if (ns < PAUSE_NS && done < total) return;
  last = now;
  printf("{\"status\":\"%s\",\"completed\":%llu,\"total\":%llu}\n", what, (unsigned long long)done,
         (unsigned long long)total);
  (void)fflush(stdout);
}

enum { LINE_SECONDS = 5 };

static void progress_line(const char *what, uint64_t done, uint64_t total) {
  static time_t last;
  const time_t now = time(NULL);
  if (!last) last = now;
  if (now - last < LINE_SECONDS || done >= total) return;
  last = now;
  (void)fprintf(stderr, "%s: %.0f of %.0f MB, %.0f %%\n", what, (double)done * 1e-6, (double)total * 1e-6,
                (double)done * 100 / (double)total);
}

static bool bar_stands;

void cmd_progress_clear(void) {
  if (bar_stands) (void)fputs("\r\033[K", stderr);
  bar_stands = false;
}

enum { PROGRESS_COLUMNS = 64 }; /* that a name of 24 letters, a bar and a percentage need */

void cmd_progress(const char *what, uint64_t done, uint64_t total) {
  static int last_percent = -1;
  if (in_json) {
    progress_json(what, done, total);
    return;
  }
  if (!cmd_is_interactive()) {
    if (in_lines) progress_line(what, done, total);
    return;
  }
  int percent = total ? (int)((double)done * 100.0 / (double)total) : 100;
  if (percent == last_percent && done < total) return;
  last_percent = percent;
  char bar[31];
  const int filled = percent * 30 / 100;
  const size_t columns = terminal_columns(stderr);
  for (int i = 0; i < 30; i++) bar[i] = i < filled ? '#' : '.';
  bar[30] = 0;
  if (columns >= PROGRESS_COLUMNS)
    (void)fprintf(stderr, "\r%-24s [%s] %3d%%", what, bar, percent);
  else /* a line that the terminal wraps is not written over by the next */
    (void)fprintf(stderr, "\r%.*s %3d%%", columns > 6 ? (int)columns - 6 : 1, what, percent);
  bar_stands = true;
  if (done >= total) cmd_progress_clear();
  (void)fflush(stderr);
  if (done >= total) last_percent = -1;
}
