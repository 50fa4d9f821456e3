/* ga chat: a conversation on a terminal. Each turn renders all messages again and evaluates only what is new. */
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <editline/readline.h>

#include "cli/error.h"
#include "cli/models.h"
#include "cli/sampling.h"
#include "cli/terminal.h"

typedef struct chat {
  opened o;
  ga_generate_options options;
  ga_sample_desc sample;
  ga_chat_message *messages; /* texts are malloc'd */
  size_t n_messages, capacity;
  int32_t *ids; /* what the session holds */
  size_t n_ids;
  char *answer; /* of this turn */
  size_t answer_bytes, answer_capacity;
  bool stats, failed;
} chat;

/* --- messages --- */

static ga_status push_message(chat *c, const char *role, const char *text) {
  if (c->n_messages == c->capacity) {
    size_t capacity = c->capacity ? c->capacity * 2 : 16;
    void *p = realloc(c->messages, capacity * sizeof *c->messages);
    if (!p) return fail_nomem("messages", capacity * sizeof *c->messages);
    c->messages = p;
    c->capacity = capacity;
  }
  char *copy = strdup(text);
  if (!copy) return fail_nomem("message", strlen(text) + 1);
  c->messages[c->n_messages++] = (ga_chat_message){.role = role, .content = copy};
  return GA_OK;
}

static void pop_message(chat *c) { free((void *)(uintptr_t)c->messages[--c->n_messages].content); }

static void clear_chat(chat *c, size_t keep) {
  while (c->n_messages > keep) pop_message(c);
}

static bool has_system(const chat *c) { return c->n_messages && !strcmp(c->messages[0].role, "system"); }

static ga_status set_system(chat *c, const char *text) {
  clear_chat(c, 0);
  return *text ? push_message(c, "system", text) : GA_OK;
}

/* --- one turn --- */

static int on_text(void *user, int32_t id, const char *text, size_t bytes) {
  chat *c = user;
  if (interrupted()) return 1;
  if (id != GA_TOK_NONE) c->ids[c->n_ids++] = id;
  if (!terminal_write(stdout, text, bytes)) return 1; /* the end of the program tells */
  if (c->answer_bytes + bytes + 1 > c->answer_capacity) {
    size_t capacity = (c->answer_bytes + bytes + 1) * 2;
    char *p = realloc(c->answer, capacity);
    if (!p) return 1;
    c->answer = p;
    c->answer_capacity = capacity;
  }
  memcpy(c->answer + c->answer_bytes, text, bytes);
  c->answer_bytes += bytes;
  c->answer[c->answer_bytes] = 0;
  return 0;
}

static int on_prompt(void *user, uint64_t done, uint64_t total) {
  (void)user;
  if (total > 512) cmd_progress("reading", done, total);
  return interrupted();
}

/* Rewinds the session to the longest common start of what it holds and what it must hold; at least one id is left. */
static ga_status reuse_prefix(chat *c, const int32_t *ids, size_t n, size_t *same) {
  size_t held = (size_t)ga_session_length(c->o.session), i = 0;
  if (held > c->n_ids) held = c->n_ids;
  while (i < held && i + 1 < n && c->ids[i] == ids[i]) i++;
  *same = i;
  return ga_session_rewind(c->o.session, (int32_t)i);
}

static ga_status answer(chat *c, const int32_t *ids, size_t n) {
  size_t same;
  ga_generate_result r = GA_GENERATE_RESULT_INIT;
  REQUIRE(n > 0 && n < (size_t)ga_session_context(c->o.session), GA_ERR_SHAPE,
          "the conversation has %zu tokens, the context holds %d; /reset starts anew", n,
          ga_session_context(c->o.session));
  TRY(reuse_prefix(c, ids, n, &same));
  memcpy(c->ids, ids, n * sizeof *ids);
  c->n_ids = n;
  c->answer_bytes = 0;
  c->options.text = on_text;
  c->options.progress = on_prompt;
  c->options.user = c;
  ga_status status = ga_generate(c->o.session, ids + same, (int32_t)(n - same), &c->options, &r);
  printf("\n");
  if (status == GA_ERR_CANCELLED || (status == GA_OK && r.finish == GA_FINISH_STOPPED)) {
    (void)fprintf(stderr, "(stopped)\n");
    return c->answer_bytes ? GA_OK : GA_ERR_CANCELLED;
  }
  if (status == GA_OK && r.finish == GA_FINISH_CONTEXT)
    (void)fprintf(stderr, "(the context is full; /reset starts anew)\n");
  if (status == GA_OK && c->stats) print_speed(&r);
  return status;
}

/* Sends a user's message. When there is no answer the message is taken back: the conversation is as before. */
static ga_status chat_turn(chat *c, const char *text) {
  int32_t *ids = NULL;
  size_t n;
  TRY(push_message(c, "user", text));
  clear_interrupt();
  ga_status status = chat_ids(c->o.model, c->messages, c->n_messages, &ids, &n);
  if (status == GA_OK) status = answer(c, ids, n);
  if (status == GA_OK)
    status = push_message(c, "assistant", c->answer_bytes ? c->answer : "");
  else
    pop_message(c);
  free(ids);
  return status == GA_ERR_CANCELLED ? GA_OK : status;
}

/* --- commands --- */

static void chat_help(void) {
  printf("/help            this text\n"
         "/reset           forget the conversation, keep the system message\n"
         "/system TEXT     start anew with this system message (none if empty)\n"
         "/retry           answer the last message again\n"
         "/history         show the conversation\n"
         "/save FILE       write the conversation\n"
         "/temp T          temperature from now on\n"
         "/stats           switch speed figures on or off\n"
         "/quit            leave (also Ctrl-D); Ctrl-C stops an answer\n");
}

static void print_history(const chat *c, FILE *f) {
  for (size_t i = 0; i < c->n_messages; i++) (void)fprintf(f, "%s: %s\n", c->messages[i].role, c->messages[i].content);
}

static ga_status save(const chat *c, const char *path) {
  REQUIRE(*path, GA_ERR_ARG, "/save needs a file name");
  FILE *f = fopen(path, "w");
  REQUIRE(f, GA_ERR_IO, "%s: %s", path, strerror(errno));
  print_history(c, f);
  const bool failed = ferror(f) != 0;
  REQUIRE(!(fclose(f) | failed), GA_ERR_IO, "%s: cannot write", path);
  return GA_OK;
}

static ga_status retry(chat *c) {
  size_t last = c->n_messages;
  while (last && strcmp(c->messages[last - 1].role, "user")) last--;
  REQUIRE(last, GA_ERR_STATE, "nothing to answer yet");
  char *text = strdup(c->messages[last - 1].content);
  if (!text) return fail_nomem("message", 1);
  clear_chat(c, last - 1);
  c->options.seed++;
  ga_status status = chat_turn(c, text);
  free(text);
  return status;
}

static ga_status set_temperature(chat *c, const char *text) {
  char *end;
  double t = strtod(text, &end);
  REQUIRE(end != text && !*end && t >= 0 && t <= 100, GA_ERR_ARG, "/temp '%s': must be a number from 0 to 100", text);
  c->sample.temperature = (float)t;
  return GA_OK;
}

/* True = leave. */
static bool command_line(chat *c, const char *line, ga_status *status) {
  size_t n = strcspn(line, " ");
  const char *rest = line + n + strspn(line + n, " ");
#define IS(word) (n == strlen(word) && !strncmp(line, word, n))
  if (IS("/quit") || IS("/exit")) return true;
  if (IS("/help"))
    chat_help();
  else if (IS("/reset"))
    clear_chat(c, has_system(c));
  else if (IS("/system"))
    *status = set_system(c, rest);
  else if (IS("/retry"))
    *status = retry(c);
  else if (IS("/history"))
    print_history(c, stdout);
  else if (IS("/save"))
    *status = save(c, rest);
  else if (IS("/temp"))
    *status = set_temperature(c, rest);
  else if (IS("/stats"))
    c->stats = !c->stats;
  else
    *status = ga_error_set(GA_ERR_ARG, "%.*s is no command; /help lists them", (int)n, line);
#undef IS
  return false;
}

/* --- the loop --- */

/* Next line of a terminal; Ctrl-C drops what was typed. NULL at the end. */
static char *next_typed_line(void) {
  for (;;) {
    clear_interrupt();
    interrupts_at_prompt(true);
    char *line = readline("> ");
    interrupts_at_prompt(false);
    if (line || !interrupted()) return line;
    printf("\n(Ctrl-D or /quit leaves)\n");
  }
}

/* Next line of a pipe or file without its newline, malloc'd; NULL at the end, or with *status set. */
static char *next_piped_line(ga_status *status) {
  char *line = NULL;
  size_t capacity = 0;
  errno = 0;
  ssize_t n = getline(&line, &capacity, stdin);
  if (n > 0 && line[n - 1] == '\n') line[--n] = 0;
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

/* One line of either; true = leave. */
static bool obey(chat *c, const char *line) {
  ga_status status = GA_OK;
  bool leave = false;
  if (line[0] == '/')
    leave = command_line(c, line, &status);
  else if (line[0])
    status = chat_turn(c, line);
  if (status == GA_OK) return leave;
  (void)cmd_fail("chat");
  c->failed = true;
  return leave;
}

/* A person sees errors and goes on; without one, an error is also the result. */
static ga_status loop(chat *c) {
  const bool is_tty = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
  ga_status status = GA_OK;
  bool leave = false;
  if (is_tty) {
    (void)setlocale(LC_CTYPE, ""); /* how wide what is typed is; numbers stay as they are */
    const char *name = ga_model_get_info(c->o.model)->name;
    cmd_put_text(stdout, name, strlen(name));
    printf("; /help lists the commands\n");
  }
  while (!leave && !ferror(stdout) && (is_tty || !interrupted())) {
    char *line = is_tty ? next_typed_line() : next_piped_line(&status);
    if (!line) break;
    leave = obey(c, line);
    if (is_tty && line[0]) (void)add_history(line);
    free(line);
  }
  if (is_tty) c->failed = false;
  return status;
}

int cmd_chat(int argc, char **argv) {
  open_args open = {.model = known_models[0].name, OPEN_ARGS_INIT};
  sampling_args sampling = SAMPLING_DEFAULTS;
  const char *system = NULL;
  chat c = {0};
  sampling.max_tokens = 1024;
  const cmd_option options[] = {
      OPEN_MODEL_OPTIONS(open),
      {"system", 0, OPT_STRING, &system, 0, 0, "TEXT", "system message"},
      {"stats", 0, OPT_FLAG, &c.stats, 0, 0, NULL, "speed after each answer, on stderr"},
      SAMPLING_OPTIONS(sampling),
      OPEN_SESSION_OPTIONS(open),
  };
  int code, rest = cmd_parse("chat", "[options]", options, COUNT_OF(options), argc, argv, &code);
  if (rest < 0) return code;
  if (rest > 0) return cmd_usage_error("chat", "unexpected '%s'", argv[1]);
  c.options = (ga_generate_options)GA_GENERATE_OPTIONS_INIT;
  c.sample = (ga_sample_desc)GA_SAMPLE_DESC_INIT;
  sampling_apply(&sampling, &c.options, &c.sample);
  listen_for_interrupt();
  ga_status status = open_model(&open, true, &c.o);
  if (status == GA_OK) {
    c.ids = malloc(((size_t)ga_session_context(c.o.session) + 1) * sizeof *c.ids);
    if (!c.ids) status = fail_nomem("conversation", 0);
  }
  if (status == GA_OK && !ga_model_template(c.o.model)) /* tells why there is none */
    status = chat_ids(c.o.model, NULL, 0, &(int32_t *){NULL}, &(size_t){0});
  if (status == GA_OK && system) status = set_system(&c, system);
  if (status == GA_OK) status = loop(&c);
  clear_chat(&c, 0);
  free(c.messages);
  free(c.ids);
  free(c.answer);
  close_model(&c.o);
  if (status != GA_OK) (void)cmd_fail("chat");
  return status == GA_OK && !c.failed ? EXIT_OK : EXIT_FAILED;
}
