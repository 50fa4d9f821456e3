/* Formats: their names, and the markers that tell them in a chat template. */
#include <string.h>

#include "serve/tool_calls.h"

static bool has_text(const char *text, size_t bytes, const char *marker) {
  return memmem(text, bytes, marker, strlen(marker)) != NULL;
}

tool_format tool_format_detect(const char *text, size_t bytes) {
  if (has_text(text, bytes, "[TOOL_CALLS]")) return TOOL_FORMAT_MISTRAL;
  if (has_text(text, bytes, "<function=") && has_text(text, bytes, "<parameter=")) return TOOL_FORMAT_QWEN3_CODER;
  if (has_text(text, bytes, "<tool_call>")) return TOOL_FORMAT_HERMES;
  /* Templates of Llama 3.2 have no tag; they ask for the object in these words. */
  if (has_text(text, bytes, "<|python_tag|>") || has_text(text, bytes, "\"parameters\": dictionary of argument name"))
    return TOOL_FORMAT_LLAMA3;
  return TOOL_FORMAT_NONE;
}

static const struct {
  const char *name;
  tool_format format;
} format_names[] = {
    {"none", TOOL_FORMAT_NONE},     {"hermes", TOOL_FORMAT_HERMES},
    {"qwen", TOOL_FORMAT_HERMES},   {"qwen3_coder", TOOL_FORMAT_QWEN3_CODER},
    {"llama3", TOOL_FORMAT_LLAMA3}, {"mistral", TOOL_FORMAT_MISTRAL},
    {"auto", TOOL_FORMAT_AUTO},
};
enum { N_FORMAT_NAMES = sizeof format_names / sizeof format_names[0] };

bool tool_format_by_name(const char *name, tool_format *out) {
  for (int i = 0; i < N_FORMAT_NAMES; i++) {
    if (strcmp(name, format_names[i].name) != 0) continue;
    *out = format_names[i].format;
    return true;
  }
  return false;
}

const char *tool_format_name(tool_format format) {
  for (int i = 0; i < N_FORMAT_NAMES; i++)
    if (format == format_names[i].format) return format_names[i].name;
  return "unknown";
}
