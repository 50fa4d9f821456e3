/* ga run: one prompt, one answer, streamed. */
#include <stdlib.h>
#include <string.h>

#include "cli/logprobs.h"
#include "cli/render.h"
#include "cli/sampling.h"
#include "cmdline/error.h"
#include "cmdline/words.h"
#include "names/names.h"
#include "serve/stops.h"

typedef struct run_args {
  open_args open;
  sampling_args sampling;
  const char *prompt, *file, *system;
  int64_t logprobs; /* -1: none */
  bool no_template, json, special, quiet, ignore_eog;
} run_args;

/* Text as it comes: straight out, or gathered for --json. */
typedef struct sink {
  bool json, failed, stopped; /* stopped: by a stop string */
  render render;              /* where it is written as it comes */
  sv_text text;               /* what is sure, and not written yet where it is written as it comes */
  sv_stops stops;
  ga_text stop[COUNT_OF(((cmd_texts *)0)->item)];
  int32_t *ids; /* for --logprobs */
  size_t n_ids, room;
} sink;

static bool add_id(sink *s, int32_t id) {
  if (s->n_ids == s->room) {
    const size_t room = s->room ? s->room * 2 : 256;
    int32_t *bigger = realloc(s->ids, room * sizeof *bigger);
    if (!bigger) return false;
    s->ids = bigger;
    s->room = room;
  }
  s->ids[s->n_ids++] = id;
  return true;
}

static bool write_out(sink *s) {
  s->failed |= s->text.failed;
  if (s->json || s->failed) return !s->failed;
  s->failed = !render_put(&s->render, s->text.p ? s->text.p : "", s->text.n);
  s->text.n = 0;
  return !s->failed;
}

static int on_text(void *user, int32_t id, const char *text, size_t bytes) {
  sink *s = user;
  if (interrupted()) return 1;
  if (s->json && id != GA_TOK_NONE && !add_id(s, id)) return s->failed = true;
  s->stopped = sv_stops_push(&s->stops, text, bytes, &s->text) >= 0;
  return !write_out(s) || s->stopped;
}

static int on_prompt(void *user, uint64_t done, uint64_t total) {
  (void)user;
  if (total > 512) cmd_progress("prompt", done, total);
  return interrupted();
}

static bool uses_template(const run_args *a, const opened *o) {
  return !a->no_template && (chat_template(o) || *ga_model_template_error(o->model));
}

/* The prompt's ids: through the chat template where the model has one, unless --no-template. */
static ga_status prompt_ids(const run_args *a, const opened *o, const char *prompt, size_t bytes, int32_t **ids,
                            size_t *n) {
  const ga_tokenizer *tok = ga_model_tokenizer(o->model);
  if (!uses_template(a, o)) {
    REQUIRE(!a->system, GA_ERR_ARG, "--system needs a model with a chat template, and not --no-template");
    return encode(tok, prompt, bytes, GA_TOK_ADD_SPECIAL | (a->special ? GA_TOK_PARSE_SPECIAL : 0u), ids, n);
  }
  REQUIRE(bytes, GA_ERR_ARG, "the prompt is empty; --no-template starts from nothing");
  REQUIRE(strlen(prompt) == bytes, GA_ERR_ARG, "the prompt has a NUL byte; use --no-template");
  const char *system = a->system ? a->system : o->named.system;
  if (!a->system && system && !*system) system = NULL; /* a Modelfile that takes the one of its base away */
  ga_chat_message messages[2] = {{"system", system}, {"user", prompt}};
  return chat_ids(o, system ? messages : messages + 1, system ? 2 : 1, ids, n);
}

static ga_status print_run_json(const run_args *a, const ga_generate_result *r, const sink *s, const char *device,
                                json_t *logprobs) {
  static const char *const finishes[] = {"length", "stop", "context", "interrupted"};
  int32_t decoded = r->n_generated > 1 ? r->n_generated - 1 : 0;
  const char *model = a->open.model;
  json_t *o =
      json_pack("{s:o, s:s, s:s%, s:s, s:i, s:i, s:f, s:f, s:f, s:f}", "model", cmd_json_text(model, strlen(model)),
                "device", device, "text", s->text.p ? s->text.p : "", s->text.n, "finish",
                s->stopped ? "stop" : finishes[r->finish], "prompt_tokens", r->n_prompt, "generated_tokens",
                r->n_generated, "prompt_seconds", r->prompt_seconds, "generate_seconds", r->generate_seconds,
                "prefill_tok_s", r->prompt_seconds > 0 ? r->n_prompt / r->prompt_seconds : 0.0, "decode_tok_s",
                r->generate_seconds > 0 ? decoded / r->generate_seconds : 0.0);
  if (logprobs) (void)json_object_set_new(o, "logprobs", logprobs);
  TRY(cmd_print_json(o, JSON_INDENT(2)));
  printf("\n");
  return GA_OK;
}

static ga_status report_json(const run_args *a, opened *o, const ga_generate_result *r, const sink *s, int32_t last) {
  json_t *logprobs = NULL;
  if (a->logprobs >= 0)
    TRY(logprobs_json(o->session, o->model, r->n_prompt, last, s->ids, (int32_t)s->n_ids, (int32_t)a->logprobs,
                      &logprobs));
  return print_run_json(a, r, s, ga_ctx_device_name(o->ctx), logprobs);
}

static ga_status set_run_options(const run_args *a, const opened *o, sink *s, ga_generate_options *go,
                                 ga_sample_desc *sample) {
  sampling_args sampling = a->sampling;
  TRY(sampling_fill(&sampling, o->path, &o->named, uses_template(a, o)));
  sampling_apply(&sampling, go, sample);
  go->show_special = a->special;
  go->ignore_eog = a->ignore_eog;
  go->text = on_text;
  go->progress = on_prompt;
  go->user = s;
  for (size_t i = 0; i < sampling.stop.n; i++)
    s->stop[i] = (ga_text){sampling.stop.item[i], strlen(sampling.stop.item[i])};
  s->stops = (sv_stops){.stop = s->stop, .n = sampling.stop.n};
  return GA_OK;
}

/* What the stop strings held back, the end of the line, and what is told of the answer. */
static ga_status finish_run(const run_args *a, opened *o, sink *s, const ga_generate_result *r, int32_t last) {
  if (!s->stopped) sv_stops_flush(&s->stops, &s->text);
  (void)write_out(s);
  if (!s->json && !render_end(&s->render)) s->failed = true;
  REQUIRE(!s->failed || !s->text.failed, GA_ERR_NOMEM, "answer: out of memory after %zu bytes", s->text.n);
  REQUIRE(!s->failed, GA_ERR_IO, "stdout: cannot write");
  if (a->json) return report_json(a, o, r, s, last);
  if (a->quiet) return GA_OK;
  if (!s->stopped) print_cut(r);
  print_speed(r);
  return GA_OK;
}

/* Prints that the prompt is continued and not answered, unless an option asks for it. */
static void tell_completion(const run_args *a, const opened *o) {
  if (a->no_template || a->quiet || a->json || uses_template(a, o)) return;
  words_print(stderr, 2, "(no chat template: the model continues the prompt; --chat-template NAME makes it answer)\n");
}

/* A text that the model only continues is no Markdown. */
static void begin_rendering(sink *s, bool is_markdown) {
  if (s->json) return;
  render_begin(&s->render, stdout);
  s->render.colour = s->render.colour && is_markdown;
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
  ga_status status = set_run_options(a, &o, &s, &go, &sample);
  if (status == GA_OK) status = prompt_ids(a, &o, prompt, bytes, &ids, &n);
  if (status == GA_OK && n > INT32_MAX) status = ga_error_set(GA_ERR_SHAPE, "prompt of %zu tokens", n);
  if (status == GA_OK && n == 0) status = ga_error_set(GA_ERR_ARG, "the prompt is empty");
  if (status == GA_OK) tell_completion(a, &o);
  if (status == GA_OK) begin_rendering(&s, uses_template(a, &o));
  if (status == GA_OK) status = ga_generate(o.session, ids, (int32_t)n, &go, &r);
  if (status == GA_OK)
    status = finish_run(a, &o, &s, &r, ids[n - 1]);
  else if (s.render.tty)
    (void)render_end(&s.render); /* what it held back; the error has a line of its own */
  free(ids);
  free(s.ids);
  sv_text_free(&s.text);
  sv_stops_free(&s.stops);
  close_model(&o);
  return status;
}

/* Words after the options are one prompt, as a shell's echo takes them; malloc'd. */
static char *join_words(char **words, int n) {
  sv_text t = {0};
  for (int i = 0; i < n; i++) {
    if (i) sv_puts(&t, " ");
    sv_puts(&t, words[i]);
  }
  if (!t.failed && !t.p) sv_puts(&t, "");
  if (t.failed) sv_text_free(&t);
  return t.p;
}

static int answer_words(run_args *a, int n_words, char **words) {
  char *text = NULL;
  size_t bytes = a->prompt ? strlen(a->prompt) : 0;
  ga_status status = GA_OK;
  listen_for_interrupt();
  if (n_words) {
    text = join_words(words, n_words);
    status = text ? GA_OK : fail_nomem("prompt", 0);
    bytes = text ? strlen(text) : 0;
  } else if (!a->prompt) {
    status = read_text(a->file ? a->file : "-", &text, &bytes);
  }
  if (status == GA_OK) status = generate(a, text ? text : a->prompt, bytes);
  free(text);
  return status == GA_OK ? EXIT_OK : cmd_fail("run");
}

int cmd_run(int argc, char **argv) {
  run_args a = {
      .open = {.model = ga_known_models[0].name, OPEN_ARGS_INIT}, .sampling = SAMPLING_DEFAULTS, .logprobs = -1};
  const cmd_option options[] = {
      OPEN_MODEL_OPTIONS(a.open),
      {"prompt", 'p', OPT_STRING, &a.prompt, 0, 0, "TEXT",
       "the prompt; else --file, else words after the options, else stdin"},
      {"file", 'f', OPT_STRING, &a.file, 0, 0, "FILE", "read the prompt from a file; - is stdin"},
      {"system", 0, OPT_STRING, &a.system, 0, 0, "TEXT", "system message, for models with a chat template"},
      OPEN_TEMPLATE_OPTION(a.open),
      {"no-template", 0, OPT_FLAG, &a.no_template, 0, 0, NULL, "do not use the model's chat template"},
      {"special", 0, OPT_FLAG, &a.special, 0, 0, NULL,
       "show control tokens; with --no-template also read them in the prompt"},
      {"ignore-eos", 0, OPT_FLAG, &a.ignore_eog, 0, 0, NULL, "go on after the end of the answer"},
      {"quiet", 'q', OPT_FLAG, &a.quiet, 0, 0, NULL,
       "print no notes on stderr: speed, a cut answer, a missing template"},
      {"json", 0, OPT_FLAG, &a.json, 0, 0, NULL, "one JSON object on stdout instead of a stream"},
      {"logprobs", 0, OPT_INT, &a.logprobs, 0, LOGPROBS_MOST, "N",
       "with --json: log-probability of each token, and of the N likeliest at its place"},
      SAMPLING_OPTIONS(a.sampling),
      OPEN_TRACE_OPTION(a.open),
      OPEN_SESSION_OPTIONS(a.open),
  };
  int code, rest = cmd_parse("run", "[options] [PROMPT...]", options, COUNT_OF(options), argc, argv, &code);
  if (rest < 0) return code;
  if ((a.prompt != NULL) + (a.file != NULL) + (rest > 0) > 1)
    return cmd_usage_error("run", "the prompt is given twice");
  if (a.logprobs >= 0 && !a.json) return cmd_usage_error("run", "--logprobs needs --json");
  if (a.no_template && a.open.chat_template)
    return cmd_usage_error("run", "--chat-template and --no-template exclude each other");
  if (sampling_check("run", &a.sampling) || open_args_check("run", &a.open)) return EXIT_USAGE;
  return answer_words(&a, rest, argv + 1);
}
