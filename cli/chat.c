/* ga chat: a conversation on a terminal. Each turn renders the messages again and evaluates only what is new. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/conversation.h"
#include "cli/line_editor.h"
#include "cmdline/error.h"
#include "cmdline/terminal.h"
#include "cmdline/words.h"
#include "names/names.h"

/* Where messages come from: a person (editor), else lines of stdin. */
typedef struct source {
  line_editor *editor;
  ga_status status;
  sv_text message;
} source;

/* Next line of a pipe or file without its newline, malloc'd; NULL at the end, or with *status set. */
static char *next_piped_line(ga_status *status) {
  char *line = NULL;
  size_t capacity = 0;
  errno = 0;
  ssize_t n = getline(&line, &capacity, stdin);
  if (n > 0 && line[n - 1] == '\n') line[--n] = 0;
  if (n > 0 && line[n - 1] == '\r') line[--n] = 0; /* written on Windows */
  if (n >= 0 && strlen(line) == (size_t)n) return line;
  if (n >= 0)
    *status = ga_error_set(GA_ERR_ARG, "a line of %zd bytes has a NUL byte", n);
  else if (interrupted())
    *status = ga_error_set(GA_ERR_CANCELLED, "stopped");
  else if (ferror(stdin))
    *status = ga_error_set(GA_ERR_IO, "stdin: %s", strerror(errno));
  free(line);
  return NULL;
}

static char *next_input_line(source *s, const char *prompt) {
  if (!s->editor) return next_piped_line(&s->status);
  interrupts_at_prompt(true);
  char *line = line_editor_read(s->editor, prompt);
  interrupts_at_prompt(false);
  return line;
}

#define QUOTES "\"\"\""

/* The lines behind the first one, up to that which ends the message. False: input ended before. */
static bool add_lines(source *s, bool quoted) {
  sv_text *m = &s->message;
  for (;;) {
    char *line = next_input_line(s, "... ");
    if (!line) return false;
    size_t n = strlen(line);
    const bool closed = quoted && n >= 3 && !strcmp(line + n - 3, QUOTES),
               goes_on = quoted ? !closed : n && line[n - 1] == '\\';
    sv_puts(m, "\n");
    sv_put(m, line, n - (closed ? 3 : !quoted && goes_on ? 1 : 0));
    free(line);
    if (!goes_on) return true;
  }
}

/* One message into s->message: a line; more of them between quotes, or while lines end with a backslash. */
static bool next_message(source *s) {
  char *line = next_input_line(s, "> ");
  if (!line) return false;
  const size_t n = strlen(line);
  const char *body = line;
  bool good = true, quoted = !strncmp(line, QUOTES, 3);
  s->message.n = 0;
  if (quoted) body += 3;
  const size_t left = n - (size_t)(body - line);
  const bool closed = quoted && left >= 3 && !strcmp(line + n - 3, QUOTES), more = !quoted && n && line[n - 1] == '\\';
  sv_put(&s->message, body, left - (closed ? 3 : more ? 1 : 0));
  if ((quoted && !closed) || more) good = add_lines(s, quoted);
  free(line);
  if (good && quoted && s->message.p[0] == '\n') sv_text_drop(&s->message, 1);
  if (!good && s->status == GA_OK && !interrupted() && !s->editor)
    s->status = ga_error_set(GA_ERR_ARG, "the input ends inside a message: %s is missing",
                             quoted ? "a line with " QUOTES : "the line behind the one that ends with \\");
  if (s->message.failed) s->status = fail_nomem("message", s->message.n);
  return good && s->status == GA_OK;
}

/* True = leave. */
static bool obey(chat *c, const char *text) {
  ga_status status = GA_OK;
  bool leave = false;
  if (text[0] == '/')
    leave = chat_command(c, text, &status);
  else if (text[strspn(text, " \t\n")])
    status = chat_turn(c, text);
  (void)fflush(stdout);
  if (status == GA_OK) return leave;
  (void)cmd_fail("chat");
  c->failed = true;
  return leave;
}

static void talk(chat *c, source *s) {
  for (bool leave = false; !leave && !ferror(stdout);) {
    clear_interrupt();
    if (next_message(s)) {
      if (s->message.n) line_editor_remember(s->editor, s->message.p);
      leave = obey(c, s->message.p);
    } else if (interrupted()) {
      words_print(stdout, 2, "\n(Ctrl-D or /quit leaves)\n");
    } else {
      printf("\n");
      leave = true;
    }
  }
}

/* A person sees errors and goes on; without one, an error is also the result. */
static ga_status loop(chat *c, bool keep_history) {
  source s = {0};
  if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
    while (!ferror(stdout) && !interrupted() && next_message(&s) && !obey(c, s.message.p)) continue;
    sv_text_free(&s.message);
    return s.status;
  }
  char *name = cmd_escape_text(chat_model_name(c));
  words_print(stdout, 2, "%s; /help lists the commands\n", name ? name : "");
  free(name);
  ga_status status = line_editor_create(keep_history, &s.editor);
  if (status == GA_OK) {
    terminal_enter();
    talk(c, &s);
    terminal_leave();
    c->failed = false;
  }
  line_editor_destroy(s.editor);
  sv_text_free(&s.message);
  return status == GA_OK ? s.status : status;
}

int cmd_chat(int argc, char **argv) {
  open_args open = {.model = ga_known_models[0].name, OPEN_ARGS_INIT};
  const char *system = NULL, *load = NULL;
  bool no_history = false;
  chat c = {.asked = SAMPLING_DEFAULTS};
  c.asked.max_tokens = 1024;
  const cmd_option options[] = {
      OPEN_MODEL_OPTIONS(open),
      {"system", 0, OPT_STRING, &system, 0, 0, "TEXT", "system message"},
      OPEN_TEMPLATE_OPTION(open),
      {"load", 0, OPT_STRING, &load, 0, 0, "FILE", "go on with a conversation that /save wrote"},
      {"stats", 0, OPT_FLAG, &c.stats, 0, 0, NULL, "speed after each answer, on stderr"},
      {"no-history", 0, OPT_FLAG, &no_history, 0, 0, NULL, "do not keep what is typed for later conversations"},
      SAMPLING_OPTIONS(c.asked),
      OPEN_SESSION_OPTIONS(open),
  };
  int code, rest = cmd_parse("chat", "[options]", options, COUNT_OF(options), argc, argv, &code);
  if (rest < 0) return code;
  if (rest > 0) return cmd_usage_error("chat", "unexpected '%s'", argv[1]);
  if (sampling_check("chat", &c.asked) || open_args_check("chat", &open)) return EXIT_USAGE;
  listen_for_interrupt();
  chat_set_stops(&c, &c.asked.stop);
  ga_status status = chat_open(&c, &open);
  if (status == GA_OK && load) status = chat_load(&c, load);
  if (status == GA_OK && system) status = chat_set_system(&c, system);
  if (status == GA_OK) status = loop(&c, !no_history);
  chat_close(&c);
  if (status != GA_OK) (void)cmd_fail("chat");
  return status == GA_OK && !c.failed ? EXIT_OK : EXIT_FAILED;
}
