#include "cli/templates.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/open.h"
#include "cmdline/error.h"

/* The formats as their models' cards describe them. */
static const struct {
  const char *name, *source;
} known[] = {
    {"chatml", "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
               "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"},
    {"gemma", "{{ bos_token }}{% for m in messages %}<start_of_turn>"
              "{{ 'model' if m.role == 'assistant' else 'user' }}\n{{ m.content | trim }}<end_of_turn>\n{% endfor %}"
              "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"},
    {"llama3", "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
               "{{ m.content | trim }}<|eot_id|>{% endfor %}"
               "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"},
    {"mistral", "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %} {{ m.content | trim }}"
                "{{ eos_token }}{% elif m.role == 'system' %}[INST] {{ m.content }}[/INST]{% else %}"
                "[INST] {{ m.content }}[/INST]{% endif %}{% endfor %}"},
    {"plain", "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}\n\n{% else %}"
              "{{ 'Assistant' if m.role == 'assistant' else 'User' }}: {{ m.content }}\n{% endif %}{% endfor %}"
              "{% if add_generation_prompt %}Assistant:{% endif %}"},
};

const char *template_names(void) { return "chatml, gemma, llama3, mistral, plain"; }

static const char *source_of_name(const char *name) {
  for (size_t i = 0; i < COUNT_OF(known); i++)
    if (!strcmp(name, known[i].name)) return known[i].source;
  return NULL;
}

static ga_status copy_source(const char *source, char **out) {
  *out = strdup(source);
  return *out ? GA_OK : fail_nomem("chat template", strlen(source));
}

/* Returns whether braces hold expressions that Go's template language has and Jinja lacks: fields, or keywords. */
static bool is_of_go(const char *text) {
  static const char *const words[] = {"if ", "range ", "else", "end", "with ", "define ", "block ", "template "};
  for (const char *at = text; (at = strstr(at, "{{"));) {
    at += 2 + (at[2] == '-');
    at += strspn(at, " \t\n");
    if (*at == '.' || *at == '$') return true;
    for (size_t i = 0; i < COUNT_OF(words); i++) {
      const size_t n = strlen(words[i]);
      if (!strncmp(at, words[i], n) && (words[i][n - 1] == ' ' || strchr(" }-", at[n]))) return true;
    }
  }
  return false;
}

ga_status template_of_named(const char *text, char **source) {
  const char *named = source_of_name(text);
  *source = NULL;
  if (named) return copy_source(named, source);
  REQUIRE(!is_of_go(text), GA_ERR_UNSUPPORTED,
          "TEMPLATE is in Go's language, as Ollama's are; GA takes Jinja, as Hugging Face's are, or a name of %s",
          template_names());
  REQUIRE(strchr(text, '{'), GA_ERR_ARG, "TEMPLATE '%.60s': neither Jinja nor a name of %s", text, template_names());
  return copy_source(text, source);
}

ga_status template_read(const char *name_or_file, char **text) {
  const char *named = source_of_name(name_or_file);
  size_t bytes;
  *text = NULL;
  if (named) return copy_source(named, text);
  REQUIRE(!access(name_or_file, F_OK), GA_ERR_ARG, "--chat-template '%s': no such file, and no name of %s",
          name_or_file, template_names());
  TRY(read_text(name_or_file, text, &bytes));
  const size_t n = strlen(*text);
  if (n == bytes) return GA_OK;
  free(*text);
  *text = NULL;
  return ga_error_set(GA_ERR_FORMAT, "%s: byte %zu is NUL; a chat template is text", name_or_file, n);
}

ga_status template_open(const char *name_or_file, ga_template **out) {
  char *text;
  *out = NULL;
  TRY(template_read(name_or_file, &text));
  ga_status status = ga_template_compile(text, strlen(text), out);
  if (status != GA_OK) status = ga_error_set(status, "%s: %s", name_or_file, ga_error_text());
  free(text);
  return status;
}
