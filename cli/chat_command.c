/* What begins with / in a conversation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/conversation.h"
#include "cmdline/error.h"
#include "cmdline/words.h"
#include "names/names.h"

typedef struct chat_row {
  const char *name, *alias, *args, *help;
  ga_status (*run)(chat *c, const char *rest);
} chat_row;

static ga_status run_help(chat *c, const char *rest);

static ga_status run_reset(chat *c, const char *rest) {
  (void)rest;
  chat_clear(c, chat_has_system(c));
  words_print(stdout, 2, "(a new conversation)\n");
  return GA_OK;
}

/* column: columns of the line that are printed already. */
static void show_text(chat *c, const char *text, size_t column) {
  render_begin(&c->render, stdout);
  c->render.width = column;
  (void)render_put(&c->render, text, strlen(text));
  (void)render_end(&c->render);
}

static ga_status run_system(chat *c, const char *rest) {
  if (*rest) return chat_set_system(c, strcmp(rest, "none") ? rest : "");
  show_text(c, chat_has_system(c) ? c->messages[0].content : "(no system message)", 0);
  return GA_OK;
}

static ga_status run_retry(chat *c, const char *rest) {
  (void)rest;
  return chat_retry(c);
}

static ga_status run_history(chat *c, const char *rest) {
  (void)rest;
  for (size_t i = 0; i < c->n_messages; i++) {
    const int n = printf("%s: ", c->messages[i].role);
    show_text(c, c->messages[i].content, n > 0 ? (size_t)n : 0);
  }
  return GA_OK;
}

/* What a shell makes of ~/ at the beginning, in `room`; else the path as it is. */
static const char *expand_home(const char *path, char *room, size_t bytes) {
  const char *home = getenv("HOME");
  if (strncmp(path, "~/", 2) != 0 || !home || !*home) return path;
  const int n = snprintf(room, bytes, "%s%s", home, path + 1);
  return n >= 0 && (size_t)n < bytes ? room : path;
}

static ga_status run_save(chat *c, const char *rest) {
  char room[sizeof c->saved];
  const bool replace = !strncmp(rest, "-f ", 3);
  if (replace) rest += 2 + strspn(rest + 2, " ");
  rest = *rest ? expand_home(rest, room, sizeof room) : c->saved;
  REQUIRE(*rest, GA_ERR_ARG, "/save needs the name of a file");
  TRY(chat_save(c, rest, replace));
  char *path = cmd_escape_text(c->saved);
  words_print(stdout, 2, "(%zu messages in %s)\n", c->n_messages, path ? path : "");
  free(path);
  return GA_OK;
}

static ga_status run_load(chat *c, const char *rest) {
  char room[sizeof c->saved];
  REQUIRE(*rest, GA_ERR_ARG, "/load needs the name of a file that /save wrote");
  TRY(chat_load(c, expand_home(rest, room, sizeof room)));
  words_print(stdout, 2, "(%zu messages; /history shows them)\n", c->n_messages);
  return GA_OK;
}

static ga_status switch_model(chat *c, const char *rest) {
  open_args next = c->open;
  char *name = *rest ? strdup(rest) : NULL;
  if (*rest && !name) return fail_nomem("name", strlen(rest));
  next.model = name;
  if (*rest) {
    const ga_status status = chat_open(c, &next);
    if (status != GA_OK) {
      free(name);
      return status;
    }
    free(c->model_name);
    c->model_name = name;
  }
  char *shown = cmd_escape_text(chat_model_name(c));
  words_print(stdout, 2, "(%s on %s)\n", shown ? shown : "", ga_ctx_device_name(c->o.ctx));
  free(shown);
  return GA_OK;
}

static ga_status run_temp(chat *c, const char *rest) {
  char *end;
  const double t = strtod(rest, &end);
  if (!*rest) {
    words_print(stdout, 2, "(temperature %g)\n", (double)c->sample.temperature);
    return GA_OK;
  }
  REQUIRE(end != rest && !*end && t >= 0 && t <= 100, GA_ERR_ARG, "/temp '%s': must be a number from 0 to 100", rest);
  return chat_set_temperature(c, t);
}

static ga_status run_stop(chat *c, const char *rest) {
  char *text = *rest ? strdup(rest) : NULL;
  if (*rest && !text) return fail_nomem("text", strlen(rest));
  free(c->stop_text);
  c->stop_text = text;
  cmd_texts list = {.item = {text}, .n = text != NULL};
  chat_set_stops(c, &list);
  return GA_OK;
}

static ga_status run_stats(chat *c, const char *rest) {
  (void)rest;
  c->stats = !c->stats;
  words_print(stdout, 2, "(speed after each answer: %s)\n", c->stats ? "on" : "off");
  words_print(stdout, 2, "(%zu messages, %zu of them left out; %d of %d tokens of the context are held)\n",
              c->n_messages, c->left_out, ga_session_length(c->o.session), ga_session_context(c->o.session));
  if (c->last.n_generated) print_speed(&c->last);
  return GA_OK;
}

static const chat_row rows[] = {
    {"/help", "/?", "", "this text", run_help},
    {"/reset", "/clear", "", "forget the conversation, keep the system message", run_reset},
    {"/retry", "/regenerate", "", "answer the last message again, otherwise", run_retry},
    {"/system", NULL, "[TEXT]", "the system message from now on; none takes it away; without TEXT: show it",
     run_system},
    {"/history", NULL, "", "show the conversation", run_history},
    {"/save", NULL, "[-f] [FILE]", "write the conversation; -f over a file that is there", run_save},
    {"/load", NULL, "FILE", "go on with a conversation that was saved", run_load},
    {"/model", NULL, "[MODEL]", "go on with another model; without MODEL: which one it is", switch_model},
    {"/temp", NULL, "[T]", "temperature from now on; 0 always takes the likeliest token", run_temp},
    {"/stop", NULL, "[TEXT]", "answers end before TEXT; without TEXT: nowhere", run_stop},
    {"/stats", NULL, "", "speed of the last answer, what the context holds; on or off after each answer", run_stats},
    {"/quit", "/exit", "", "leave (also /bye and Ctrl-D)", NULL},
    {"/bye", "/q", NULL, NULL, NULL},
};

static ga_status run_help(chat *c, const char *rest) {
  (void)c, (void)rest;
  for (size_t i = 0; i < COUNT_OF(rows); i++)
    if (rows[i].help) words_print(stdout, 23, "%-9s %-12s %s\n", rows[i].name, rows[i].args, rows[i].help);
  words_print(stdout, 0,
              "\nOne message of several lines: paste it; or end a line with \\; or begin and end with \"\"\".\n"
              "Ctrl-C stops an answer. The arrow keys find earlier messages, Ctrl-R searches them.\n");
  return GA_OK;
}

bool chat_command(chat *c, const char *line, ga_status *status) {
  const size_t n = strcspn(line, " \t\n");
  const char *rest = line + n + strspn(line + n, " \t\n");
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    const chat_row *row = &rows[i];
    const bool name = strlen(row->name) == n && !memcmp(row->name, line, n);
    if (!name && !(row->alias && strlen(row->alias) == n && !memcmp(row->alias, line, n))) continue;
    if (row->args && !*row->args && *rest) {
      *status = ga_error_set(GA_ERR_ARG, "%.*s takes nothing behind it", (int)n, line);
      return false;
    }
    if (!row->run) return true;
    *status = row->run(c, rest);
    return false;
  }
  *status = ga_error_set(GA_ERR_ARG,
                         "%.*s is no command; /help lists them. A message that begins with / : put a space "
                         "before it",
                         (int)(n < 80 ? n : 80), line);
  return false;
}
