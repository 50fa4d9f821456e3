/* Conversations in files. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/conversation.h"
#include "cmdline/error.h"
#include "text/json_io.h"

static json_t *json_of(const chat *c) {
  json_t *list = json_array(), *all = json_pack("{s:o}", "messages", list);
  if (!all) return NULL; /* and the list is released */
  for (size_t i = 0; i < c->n_messages; i++) {
    const char *text = c->messages[i].content;
    json_t *m = json_pack("{s:s, s:o}", "role", c->messages[i].role, "content", cmd_json_text(text, strlen(text)));
    if (json_array_append_new(list, m)) {
      json_decref(all);
      return NULL;
    }
  }
  return all;
}

ga_status chat_save(chat *c, const char *path, bool replace) {
  REQUIRE(strlen(path) < sizeof c->saved, GA_ERR_ARG, "the file's name has %zu bytes; at most %zu", strlen(path),
          sizeof c->saved - 1);
  struct stat st;
  REQUIRE(stat(path, &st) || S_ISREG(st.st_mode), GA_ERR_ARG, "%s is no regular file; give another name", path);
  REQUIRE(replace || access(path, F_OK) || !strcmp(path, c->saved), GA_ERR_STATE,
          "%s is there; /save -f %s writes over it", path, path);
  json_t *all = json_of(c);
  char *text = all ? ga_json_dump(all, JSON_INDENT(2)) : NULL;
  json_decref(all);
  if (!text) return fail_nomem("conversation", 0);
  sv_text line = {0};
  sv_putf(&line, "%s\n", text);
  free(text);
  const ga_status status = line.failed ? fail_nomem("conversation", 0) : replace_file(path, line.p, line.n, 0600);
  sv_text_free(&line);
  if (status == GA_OK && c->saved != path) (void)snprintf(c->saved, sizeof c->saved, "%s", path);
  return status;
}

/* One of the names that messages have, which lives as long as the program. */
static const char *known_role(const char *role) {
  static const char *const roles[] = {"system", "user", "assistant"};
  for (size_t i = 0; role && i < COUNT_OF(roles); i++)
    if (!strcmp(role, roles[i])) return roles[i];
  return NULL;
}

static ga_status take_messages(chat *c, const char *path, const json_t *list) {
  const size_t n = json_array_size(list);
  REQUIRE(n, GA_ERR_FORMAT, "%s: is no conversation: it must be an object with \"messages\", an array", path);
  for (size_t i = 0; i < n; i++) {
    const json_t *m = json_array_get(list, i);
    const char *role = known_role(json_string_value(json_object_get(m, "role"))),
               *content = json_string_value(json_object_get(m, "content"));
    REQUIRE(role && content, GA_ERR_FORMAT,
            "%s, message %zu: must have a \"role\" of system, user or assistant, and a \"content\" that is a text",
            path, i + 1);
    REQUIRE(!i || strcmp(role, "system"), GA_ERR_FORMAT, "%s, message %zu: the system message must be the first", path,
            i + 1);
    TRY(chat_push(c, role, content));
  }
  return GA_OK;
}

ga_status chat_load(chat *c, const char *path) {
  json_error_t error;
  REQUIRE(strlen(path) < sizeof c->saved, GA_ERR_ARG, "the file's name has %zu bytes; at most %zu", strlen(path),
          sizeof c->saved - 1);
  struct stat st;
  REQUIRE(!access(path, R_OK) && !stat(path, &st), GA_ERR_IO, "%s: %s", path, strerror(errno));
  REQUIRE(!S_ISDIR(st.st_mode), GA_ERR_ARG, "%s is a folder; must be a file that /save wrote", path);
  json_t *all = ga_json_load_file(path, JSON_REJECT_DUPLICATES, &error);
  const bool no_memory = !all && json_error_code(&error) == json_error_out_of_memory;
  REQUIRE(all, no_memory ? GA_ERR_NOMEM : GA_ERR_FORMAT, "%s, line %d: %s", path, error.line, error.text);
  chat next = {0};
  ga_status status = take_messages(&next, path, json_object_get(all, "messages"));
  json_decref(all);
  if (status != GA_OK) {
    chat_clear(&next, 0);
    free(next.messages);
    return status;
  }
  chat_clear(c, 0);
  free(c->messages);
  c->messages = next.messages;
  c->n_messages = next.n_messages;
  c->capacity = next.capacity;
  if (c->saved != path) (void)snprintf(c->saved, sizeof c->saved, "%s", path);
  return GA_OK;
}
