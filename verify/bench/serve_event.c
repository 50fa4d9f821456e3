/* What the JSON of an answer says. */
#include <stdio.h>
#include <string.h>

#include "text/json_io.h"
#include "verify/bench/serve_client.h"

static bool is_filled_text(const json_t *value) { return json_string_length(value) > 0; }

/* Text of completions; text, reasoning or calls of tools of chat. */
static bool choice_has_text(const json_t *choice) {
  const json_t *delta = json_object_get(choice, "delta");
  return is_filled_text(json_object_get(choice, "text")) || is_filled_text(json_object_get(delta, "content")) ||
         is_filled_text(json_object_get(delta, "reasoning_content")) ||
         is_filled_text(json_object_get(delta, "reasoning")) ||
         json_array_size(json_object_get(delta, "tool_calls")) > 0;
}

static int64_t usage_count(const json_t *usage, const char *name) {
  const json_t *n = json_object_get(usage, name);
  return json_is_integer(n) && json_integer_value(n) >= 0 ? json_integer_value(n) : -1;
}

/* The message of an object that reports an error; "" when it reports none. */
static void error_of_json(const json_t *root, char out[CLIENT_TEXT]) {
  const json_t *error = json_object_get(root, "error"), *message = json_object_get(error, "message");
  if (!json_is_string(message)) message = error;
  if (!json_is_string(message)) message = json_object_get(root, "detail");
  *out = 0;
  if (json_is_string(message))
    (void)snprintf(out, CLIENT_TEXT, "%s", json_string_value(message));
  else if (error && !json_is_null(error))
    (void)snprintf(out, CLIENT_TEXT, "an error without a message");
}

bool client_event_read(const char *data, size_t bytes, client_event *out) {
  *out = (client_event){.prompt_tokens = -1, .output_tokens = -1};
  out->done = bytes == 6 && !memcmp(data, "[DONE]", 6);
  if (out->done) return true;
  json_t *root = ga_json_load(data, bytes, JSON_ALLOW_NUL, NULL);
  if (!json_is_object(root)) {
    json_decref(root);
    return false;
  }
  const json_t *choice = json_array_get(json_object_get(root, "choices"), 0), *usage = json_object_get(root, "usage");
  out->choice = choice != NULL;
  out->text = choice_has_text(choice);
  out->prompt_tokens = usage_count(usage, "prompt_tokens");
  out->output_tokens = usage_count(usage, "completion_tokens");
  if (!choice) error_of_json(root, out->error);
  json_decref(root);
  return true;
}

void client_error_text(const char *body, size_t bytes, char out[CLIENT_TEXT]) {
  json_t *root = ga_json_load(body, bytes, JSON_ALLOW_NUL, NULL);
  *out = 0;
  if (root) error_of_json(root, out);
  json_decref(root);
  if (*out) return;
  size_t n = 0;
  while (n < bytes && n < CLIENT_TEXT - 1 && body[n] != '\n' && body[n] != '\r' && body[n]) n++;
  memcpy(out, body, n);
  out[n] = 0;
}
