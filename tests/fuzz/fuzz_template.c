/* Chat templates. Input: template, NUL, context as JSON (without a NUL: an empty context). Bounds are low, so that each
 * input is quick; every rendering ends in text or in an error with a text, and gives the same twice. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ga/chat.h"
#include "jinja/jinja.h"
#include "tests/fuzz/fuzz.h"

static void require_true(bool condition) {
  if (!condition) abort();
}

static const ga_template_limits limits = {
    .struct_size = sizeof limits, .steps = 20000, .output_bytes = 1 << 16, .memory_bytes = 1 << 22, .depth = 100};

static ga_status render(const ga_template *tpl, const char *context, size_t n, char **text, size_t *n_text) {
  return ga_template_render(tpl, context, n, &limits, text, n_text);
}

/* Tracing changes no text; it may reach a bound sooner. */
static void trace(const ga_template *tpl, const char *context, size_t n, const char *want, size_t n_want) {
  char *text;
  uint8_t *marks;
  size_t n_text, marked = 0;
  if (ga_jj_render_traced(tpl, context, n, &limits, &text, &marks, &n_text) != GA_OK) return;
  require_true(want && n_text == n_want && !memcmp(text, want, n_want));
  for (size_t i = 0; i < n_text; i++) marked += marks[i] != 0; /* all of them are there */
  require_true(marked <= n_text);
  ga_mem_free(text);
  ga_mem_free(marks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
  size_t n_source = nul ? (size_t)(nul - data) : size;
  const char *context = nul ? (const char *)nul + 1 : "{}";
  size_t n_context = nul ? size - n_source - 1 : 2, n, n_again;
  ga_template *tpl;
  char *text, *again;
  ga_status status = ga_template_compile((const char *)data, n_source, &tpl);
  if (status != GA_OK) {
    require_true(!tpl && *ga_error_text());
    return 0;
  }
  status = render(tpl, context, n_context, &text, &n);
  require_true((status == GA_OK) == (text != NULL) && (status == GA_OK || *ga_error_text()));
  require_true(render(tpl, context, n_context, &again, &n_again) == status && n == n_again &&
               (!n || !memcmp(text, again, n)));
  trace(tpl, context, n_context, text, n);
  ga_template_text_free(text);
  ga_template_text_free(again);
  ga_template_destroy(tpl);
  return 0;
}
