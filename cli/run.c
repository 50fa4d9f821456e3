/* ga run: one prompt, one answer, streamed. */
#include <stdlib.h>
#include <string.h>

#include "cli/error.h"
#include "cli/models.h"
#include "cli/sampling.h"
#include "cli/terminal.h"

typedef struct run_args {
  open_args open;
  sampling_args sampling;
  const char *prompt, *file, *system;
  bool no_template, json, special, quiet, ignore_eog;
} run_args;

/* Text as it comes: straight out, or gathered for --json. */
typedef struct sink {
  bool json;
  char *text;
  size_t bytes, capacity;
  bool failed;
} sink;

static int on_text(void *user, int32_t id, const char *text, size_t bytes) {
  (void)id;
  sink *s = user;
  if (interrupted()) return 1;
  if (!s->json) {
    s->failed = !terminal_write(stdout, text, bytes);
    return s->failed;
  }
  if (s->bytes + bytes + 1 > s->capacity) {
    size_t capacity = (s->bytes + bytes + 1) * 2;
    char *p = realloc(s->text, capacity);
    if (!p) return s->failed = true;
    s->text = p;
    s->capacity = capacity;
  }
  memcpy(s->text + s->bytes, text, bytes);
  s->bytes += bytes;
  s->text[s->bytes] = 0;
  return 0;
}

static int on_prompt(void *user, uint64_t done, uint64_t total) {
  (void)user;
  if (total > 512) cmd_progress("prompt", done, total);
  return interrupted();
}

/* The prompt's ids: through the chat template where the model has one, unless --no-template. */
static ga_status prompt_ids(const run_args *a, const ga_model *model, const char *prompt, size_t bytes, int32_t **ids,
                            size_t *n) {
  const ga_tokenizer *tok = ga_model_tokenizer(model);
  const bool has_template = ga_model_template(model) || *ga_model_template_error(model);
  if (a->no_template || !has_template) {
    REQUIRE(!a->system, GA_ERR_ARG, "--system needs a model with a chat template, and not --no-template");
    return encode(tok, prompt, bytes, GA_TOK_ADD_SPECIAL | (a->special ? GA_TOK_PARSE_SPECIAL : 0u), ids, n);
  }
  REQUIRE(bytes, GA_ERR_ARG, "the prompt is empty; --no-template starts from nothing");
  REQUIRE(strlen(prompt) == bytes, GA_ERR_ARG, "the prompt has a NUL byte; use --no-template");
  ga_chat_message messages[2] = {{"system", a->system}, {"user", prompt}};
  return chat_ids(model, a->system ? messages : messages + 1, a->system ? 2 : 1, ids, n);
}

static ga_status print_run_json(const run_args *a, const ga_generate_result *r, const sink *s, const char *device) {
  static const char *const finishes[] = {"length", "stop", "context", "interrupted"};
  int32_t decoded = r->n_generated > 1 ? r->n_generated - 1 : 0;
  const char *model = a->open.model;
  json_t *o = json_pack("{s:o, s:s, s:s%, s:s, s:i, s:i, s:f, s:f, s:f, s:f}", "model",
                        cmd_json_text(model, strlen(model)), "device", device, "text", s->text ? s->text : "", s->bytes,
                        "finish", finishes[r->finish], "prompt_tokens", r->n_prompt, "generated_tokens", r->n_generated,
                        "prompt_seconds", r->prompt_seconds, "generate_seconds", r->generate_seconds, "prefill_tok_s",
                        r->prompt_seconds > 0 ? r->n_prompt / r->prompt_seconds : 0.0, "decode_tok_s",
                        r->generate_seconds > 0 ? decoded / r->generate_seconds : 0.0);
  TRY(cmd_print_json(o, JSON_INDENT(2)));
  printf("\n");
  return GA_OK;
}

static ga_status generate(const run_args *a, const char *prompt, size_t bytes) {
  opened o;
  int32_t *ids = NULL;
  size_t n = 0;
  TRY(open_model(&a->open, true, &o));
  sink s = {.json = a->json};
  ga_generate_options go = GA_GENERATE_OPTIONS_INIT;
  ga_generate_result r = GA_GENERATE_RESULT_INIT;
  ga_sample_desc sample = GA_SAMPLE_DESC_INIT;
  sampling_apply(&a->sampling, &go, &sample);
  go.show_special = a->special;
  go.ignore_eog = a->ignore_eog;
  go.text = on_text;
  go.progress = on_prompt;
  go.user = &s;
  ga_status status = prompt_ids(a, o.model, prompt, bytes, &ids, &n);
  if (status == GA_OK && n > INT32_MAX) status = ga_error_set(GA_ERR_SHAPE, "prompt of %zu tokens", n);
  if (status == GA_OK && n == 0) status = ga_error_set(GA_ERR_ARG, "the prompt is empty");
  if (status == GA_OK) status = ga_generate(o.session, ids, (int32_t)n, &go, &r);
  if (status == GA_OK && s.failed)
    status = s.json ? fail_nomem("answer", s.capacity) : ga_error_set(GA_ERR_IO, "stdout: cannot write");
  if (status == GA_OK && a->json) status = print_run_json(a, &r, &s, ga_ctx_device_name(o.ctx));
  if (status == GA_OK && !a->json) printf("\n");
  if (status == GA_OK && !a->json && !a->quiet) print_speed(&r);
  free(ids);
  free(s.text);
  close_model(&o);
  return status;
}

int cmd_run(int argc, char **argv) {
  run_args a = {.open = {.model = known_models[0].name, OPEN_ARGS_INIT}, .sampling = SAMPLING_DEFAULTS};
  const cmd_option options[] = {
      OPEN_MODEL_OPTIONS(a.open),
      {"prompt", 'p', OPT_STRING, &a.prompt, 0, 0, "TEXT",
       "the prompt; else --file, else words after the options, else stdin"},
      {"file", 'f', OPT_STRING, &a.file, 0, 0, "FILE", "read the prompt from a file; - is stdin"},
      {"system", 0, OPT_STRING, &a.system, 0, 0, "TEXT", "system message, for models with a chat template"},
      {"no-template", 0, OPT_FLAG, &a.no_template, 0, 0, NULL, "do not use the model's chat template"},
      {"special", 0, OPT_FLAG, &a.special, 0, 0, NULL,
       "show control tokens; with --no-template also read them in the prompt"},
      {"ignore-eos", 0, OPT_FLAG, &a.ignore_eog, 0, 0, NULL, "go on after the end of the answer"},
      {"quiet", 'q', OPT_FLAG, &a.quiet, 0, 0, NULL, "no speed on stderr"},
      {"json", 0, OPT_FLAG, &a.json, 0, 0, NULL, "one JSON object on stdout instead of a stream"},
      SAMPLING_OPTIONS(a.sampling),
      OPEN_SESSION_OPTIONS(a.open),
  };
  int code, rest = cmd_parse("run", "[options] [PROMPT]", options, COUNT_OF(options), argc, argv, &code);
  if (rest < 0) return code;
  if (rest > 1) return cmd_usage_error("run", "one prompt, not %d; quote it", rest);
  if ((a.prompt != NULL) + (a.file != NULL) + (rest == 1) > 1)
    return cmd_usage_error("run", "the prompt is given twice");
  if (rest == 1) a.prompt = argv[1];
  listen_for_interrupt();
  char *text = NULL;
  size_t bytes = a.prompt ? strlen(a.prompt) : 0;
  if (!a.prompt && read_text(a.file ? a.file : "-", &text, &bytes) != GA_OK) return cmd_fail("run");
  ga_status status = generate(&a, a.prompt ? a.prompt : text, bytes);
  free(text);
  return status == GA_OK ? EXIT_OK : cmd_fail("run");
}
