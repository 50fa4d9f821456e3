#include "serve/names.h"

#include <stdio.h>
#include <string.h>

#define SV_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

enum { SV_ROLE_NAME = 64 };

static bool sv_is_name(const json_t *v, size_t most, const char *characters) {
  const size_t n = json_string_length(v);
  return json_is_string(v) && n && n <= most && strspn(json_string_value(v), characters) == n;
}

bool sv_check_role(const json_t *role, sv_fail *fail) {
  return sv_is_name(role, SV_ROLE_NAME, SV_LETTERS "_-") ||
         sv_refuse_value(fail, "messages.role", role,
                         "system, developer, user, assistant, tool, function, or a role that the model's chat template "
                         "names");
}

static bool sv_knows_role(const ga_template *tpl, const char *role) {
  const char *known;
  for (int32_t i = 0; (known = ga_template_role(tpl, i)); i++)
    if (!strcmp(known, role)) return true;
  return false;
}

static bool sv_refuse_role(const ga_template *tpl, size_t index, const char *role, sv_fail *fail) {
  char list[512] = "";
  const char *known;
  for (int32_t i = 0; (known = ga_template_role(tpl, i)); i++) {
    const size_t n = strlen(list);
    if (n + strlen(known) + 3 > sizeof list) break;
    (void)snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", known);
  }
  return sv_refuse(fail, 400, NULL, "messages.role", "messages[%zu] has the role \"%s\"; it must be one of %s.", index,
                   role, list);
}

bool sv_check_roles(const ga_template *tpl, const json_t *messages, sv_fail *fail) {
  const json_t *message;
  size_t i;
  json_array_foreach(messages, i, message) {
    const char *role = json_string_value(json_object_get(message, "role"));
    if (!role || !sv_knows_role(tpl, role)) return sv_refuse_role(tpl, i, role ? role : "", fail);
  }
  return true;
}

bool sv_check_function(const char *field, const json_t *name, sv_fail *fail) {
  if (sv_is_name(name, SV_FUNCTION_NAME, SV_LETTERS "_-.:/")) return true;
  if (!name) return sv_refuse(fail, 400, NULL, field, "%s is missing.", field);
  return sv_refuse_value(fail, field, name, "1 to 128 letters, digits, '_', '-', '.', ':' and '/'");
}

bool sv_check_variables(const json_t *kwargs, sv_fail *fail) {
  static const char token[] = "_token";
  json_t *object = (json_t *)(uintptr_t)kwargs; /* iterators want it writable */
  for (void *it = json_object_iter(object); it; it = json_object_iter_next(object, it)) {
    const char *key = json_object_iter_key(it);
    const size_t n = json_object_iter_key_len(it);
    const bool is_token = n >= sizeof token - 1 && !strcmp(key + n - (sizeof token - 1), token);
    if (is_token || !strcmp(key, "tools"))
      return sv_refuse(fail, 400, NULL, "chat_template_kwargs", "chat_template_kwargs has \"%.60s\", which %s.", key,
                       is_token ? "belongs to the model" : "is a field of the request");
  }
  return true;
}
