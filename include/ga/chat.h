/* GA, chat templates: from a list of messages to the text a model was trained on.
 *
 * Model files carry a template in the Jinja language. GA runs a bounded subset of it, with the settings of Hugging Face
 * Transformers: trim_blocks, lstrip_blocks, loop controls, and its functions `tojson`, `raise_exception` and
 * `strftime_now`. docs/guide lists the subset. Templates are hostile input: steps, output, memory and nesting are
 * bounded, and a template reads only the variables that it is given. Every failure names its place in the template.
 */
#ifndef GA_CHAT_H
#define GA_CHAT_H

#include "ga/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ga_template ga_template;

/* Value of ga_template_limits.now: the machine's local time. */
#define GA_TEMPLATE_NOW_LOCAL INT64_MIN

/* Limits of one compilation or rendering. 0 in a field stands for its default. */
typedef struct ga_template_limits {
  size_t struct_size;
  uint64_t steps; /* units of work of a rendering, about 100 ns each; default 4 million. Beyond it: GA_ERR_TIMEOUT */
  uint64_t output_bytes; /* bytes of the rendered text; default 32 MiB. Beyond it: GA_ERR_NOMEM */
  /* bytes of all values alive in a rendering, including the text; default 256 MiB. Beyond it: GA_ERR_NOMEM */
  uint64_t memory_bytes;
  uint32_t depth; /* nesting of expressions, statements, macro calls and data; default 400. Beyond it: GA_ERR_TIMEOUT */
  uint32_t nodes; /* nodes of the compiled template; default 200 thousand. Beyond it: GA_ERR_NOMEM */
  /* time that strftime_now prints, as UTC: seconds since 1970-01-01 UTC. GA_TEMPLATE_NOW_LOCAL (the default) = the
   * present in local time */
  int64_t now;
} ga_template_limits;

#define GA_TEMPLATE_LIMITS_INIT \
  { sizeof(ga_template_limits), 0, 0, 0, 0, 0, GA_TEMPLATE_NOW_LOCAL }

/* Compiles a template of `bytes` bytes of UTF-8 with the default limits. The result is immutable and may be used by
 * several threads at once. GA_ERR_FORMAT: the source is not a template; the error text has line, column, the input seen
 * and the input allowed. GA_ERR_UNSUPPORTED: a construct outside the subset. GA_ERR_NOMEM, GA_ERR_TIMEOUT: a limit is
 * exceeded. */
GA_API GA_NODISCARD ga_status ga_template_compile(const char *source, size_t bytes, ga_template **out);
/* Compiles a template as ga_template_compile does, with the caller's limits on nodes and depth. limits NULL = the
 * defaults. */
GA_API GA_NODISCARD ga_status ga_template_compile_limited(const char *source, size_t bytes,
                                                          const ga_template_limits *limits_or_null, ga_template **out);
GA_API void ga_template_destroy(ga_template *tpl); /* NULL is fine */

/* Returns role `index` of the roles that messages may have; NULL if index is beyond the last. First come system,
 * developer, user, assistant, tool and function. Then come the words with which the template compares a role, such as
 * "ipython". Each has 1 to 64 letters, digits, '_' and '-'. The text lives as long as the template. */
GA_API const char *ga_template_role(const ga_template *tpl, int32_t index);

/* Renders with the keys of a JSON object as variables: messages, tools, add_generation_prompt, bos_token, and any
 * other. *text gets *n bytes of UTF-8 and a NUL that is not counted; release it with ga_template_text_free.
 * GA_ERR_FORMAT: json_context is not JSON, or no object; the template refused the messages (raise_exception, whose text
 * is in ga_error_text()); an operation on values that do not have it, such as undefined + 1. GA_ERR_UNSUPPORTED: an
 * unknown filter, test or method. GA_ERR_TIMEOUT, GA_ERR_NOMEM: a limit was exceeded. */
GA_API GA_NODISCARD ga_status ga_template_render(const ga_template *tpl, const char *json_context, size_t bytes,
                                                 const ga_template_limits *limits_or_null, char **text, size_t *n);
GA_API void ga_template_text_free(char *text); /* NULL is fine */

typedef struct ga_chat_message {
  const char *role;    /* "system", "user", "assistant", ...; NUL-terminated UTF-8 */
  const char *content; /* text of the message; NUL-terminated UTF-8 */
} ga_chat_message;

typedef struct ga_chat_options {
  size_t struct_size;
  bool add_generation_prompt;       /* the text ends with the beginning of the assistant's next message */
  const char *bos_token;            /* text of the beginning token; NULL = "" */
  const char *eos_token;            /* text of the end token; NULL = "" */
  const char *extra_json;           /* further variables as a JSON object, NULL = none: "{\"enable_thinking\":false}" */
  const ga_template_limits *limits; /* limits of the rendering; NULL = defaults */
} ga_chat_options;

#define GA_CHAT_OPTIONS_INIT \
  { sizeof(ga_chat_options), false, NULL, NULL, NULL, NULL }

/* Renders plain messages as ga_template_render does for JSON. bos_token, eos_token, add_generation_prompt and the keys
 * of extra_json are variables, too. options may be NULL. Errors and ownership are as for ga_template_render. Text that
 * is not UTF-8 is also GA_ERR_FORMAT. */
GA_API GA_NODISCARD ga_status ga_chat_render(const ga_template *tpl, const ga_chat_message *messages, size_t n_messages,
                                             const ga_chat_options *options, char **text, size_t *n);

/* Makes the token ids of a conversation: it renders as ga_chat_render does, then tokenizes as ga_tokenize does. The
 * template's own text is tokenized with GA_TOK_PARSE_SPECIAL, the messages' text without it: a user who writes
 * "<|im_end|>" ends no turn. Control tokens are made only of bytes of the template, of a message's role that
 * ga_template_role lists, or of a top-level variable whose name ends in "_token". All other bytes are plain text,
 * whatever the template did to them. If no message spells a control token, the ids equal those of the two separate
 * calls. If the model needs a beginning token, it stands first, once. Where options->bos_token or eos_token is NULL,
 * the tokenizer's token is used. Release *ids with ga_chat_ids_free. Errors are those of ga_chat_render and
 * ga_tokenize. */
GA_API GA_NODISCARD ga_status ga_chat_encode(const ga_template *tpl, const ga_tokenizer *tok,
                                             const ga_chat_message *messages, size_t n_messages,
                                             const ga_chat_options *options, int32_t **ids, size_t *n_ids);
/* Makes the token ids of a JSON context as ga_template_render takes it; otherwise like ga_chat_encode. */
GA_API GA_NODISCARD ga_status ga_template_encode(const ga_template *tpl, const ga_tokenizer *tok,
                                                 const char *json_context, size_t bytes,
                                                 const ga_template_limits *limits_or_null, int32_t **ids,
                                                 size_t *n_ids);
GA_API void ga_chat_ids_free(int32_t *ids); /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
