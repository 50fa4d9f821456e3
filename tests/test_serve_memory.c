/* A server whose every single allocation fails in turn, for every kind of request: the answer is an error of its own
 * making, a closed connection, or the answer that memory would have given; afterwards the server answers as before.
 * Allocations of the engine's thread are those of test_engine_faults.c. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "serve/serve.h"
#include "tests/alloc_faults.h"
#include "tests/tiny_model.h"
#include "text/json_io.h"

/* --- a client --- */

typedef struct reply {
  int http; /* 0: the connection was closed */
  char *body, *all;
} reply;

static int32_t port;
static int padding; /* spaces after the body, so that it is large enough for the server's crew */

static int connect_to_server(void) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const struct timeval patience = {.tv_sec = 60};
  assert_true(fd >= 0);
  assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
  assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
  return fd;
}

static bool send_all(int fd, const char *p, size_t n) {
  for (ssize_t sent; n; p += sent, n -= (size_t)sent)
    if ((sent = send(fd, p, n, MSG_NOSIGNAL)) <= 0) return false;
  return true;
}

/* Sends one request, and reads until the server closes. */
static reply ask_server(const char *method, const char *path, const char *body) {
  char head[512];
  reply r = {0};
  size_t n = 0, room = 1 << 16;
  ssize_t got = 0;
  const int fd = connect_to_server(), bytes = (int)strlen(body) + padding;
  char *padded = malloc((size_t)bytes + 1);
  assert_non_null(padded);
  (void)snprintf(padded, (size_t)bytes + 1, "%-*s", bytes, body);
  (void)snprintf(head, sizeof head,
                 "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
                 "Content-Length: %d\r\n\r\n",
                 method, path, bytes);
  r.all = malloc(room);
  assert_non_null(r.all);
  if (send_all(fd, head, strlen(head)) && send_all(fd, padded, (size_t)bytes))
    while (n + 1 < room && (got = recv(fd, r.all + n, room - n - 1, 0)) > 0) n += (size_t)got;
  close(fd);
  free(padded);
  r.all[n] = 0;
  if (sscanf(r.all, "HTTP/1.1 %d", &r.http) != 1) r.http = 0;
  r.body = strstr(r.all, "\r\n\r\n");
  r.body = r.body ? r.body + 4 : r.all + n;
  return r;
}

/* --- what answers have in common --- */

/* What differs from one answer to the next. */
static void drop_volatile(json_t *v) {
  /* The last digits of log-probabilities depend on what else was in a step. */
  static const char *const names[] = {"id",
                                      "created",
                                      "created_at",
                                      "total_duration",
                                      "expires_at",
                                      "prompt_eval_duration",
                                      "eval_duration",
                                      "timings",
                                      "usage",
                                      "system_fingerprint",
                                      "tokens_cached",
                                      "logprob",
                                      "token_logprobs",
                                      "top_logprobs",
                                      "completion_probabilities"};
  const char *key;
  json_t *inner;
  size_t i;
  for (i = 0; i < sizeof names / sizeof *names; i++) (void)json_object_del(v, names[i]);
  json_object_foreach(v, key, inner) drop_volatile(inner);
  json_array_foreach(v, i, inner) drop_volatile(inner);
}

/* A stream that the server did not end: its client sees that. */
static bool is_cut_reply(const reply *a) {
  const size_t n = strlen(a->all);
  return strstr(a->all, "chunked") && (n < 5 || strcmp(a->all + n - 5, "0\r\n\r\n") != 0);
}

/* Both streams say their end, or none does. */
static bool has_same_end(const char *a, const char *b) {
  static const char *const ends[] = {"[DONE]", "message_stop", "\"stop\":true", "event: response.incomplete",
                                     "\"done\":true"};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (!strstr(a, ends[i]) != !strstr(b, ends[i])) return false;
  return true;
}

static bool is_same_answer(const reply *a, const reply *want) {
  if (a->http != want->http || is_cut_reply(a)) return false;
  json_t *x = ga_json_load(a->body, strlen(a->body), JSON_ALLOW_NUL, NULL);
  json_t *y = ga_json_load(want->body, strlen(want->body), JSON_ALLOW_NUL, NULL);
  drop_volatile(x);
  drop_volatile(y);
  /* Streams and metrics are no JSON. */
  const bool same = y ? x && json_equal(x, y) : has_same_end(a->body, want->body) && (*a->body || !*want->body);
  json_decref(x);
  json_decref(y);
  return same;
}

/* A stream that has begun ends with an error, or is cut. */
static bool is_error(const reply *a) {
  const bool in_stream = strstr(a->all, "chunked") && strstr(a->body, "\"error\":");
  return a->http == 0 || a->http == 503 || is_cut_reply(a) || in_stream;
}

/* --- requests --- */

#define USER "{\"role\":\"user\",\"content\":\"HELLO WORLD\"}"
#define TOOL                                                                                                 \
  "{\"type\":\"function\",\"function\":{\"name\":\"add\",\"description\":\"ADDS\",\"parameters\":{\"type\":" \
  "\"object\","                                                                                              \
  "\"properties\":{\"a\":{\"type\":\"string\"}}}}}"
#define CALL                                                                                                     \
  "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c1\",\"type\":\"function\",\"function\":{" \
  "\"name\":\"add\",\"arguments\":\"{\\\"a\\\": "                                                                \
  "1}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"2\"}"

typedef struct request_kind {
  const char *method, *path, *body;
  int http; /* without faults */
} request_kind;

static const request_kind kinds[] = {
    {"GET", "/health", "", 200},
    {"GET", "/version", "", 200},
    {"GET", "/metrics", "", 200},
    {"GET", "/v1/models", "", 200},
    {"GET", "/v1/models/tiny", "", 200},
    {"GET", "/props", "", 200},
    {"GET", "/slots", "", 200},
    {"GET", "/tokenizer_info", "", 200},
    {"GET", "/nothing", "", 404},
    {"POST", "/v1/completions",
     "{\"prompt\":[\"AB\",\"CD\"],\"max_tokens\":3,\"temperature\":0,\"logprobs\":2,\"echo\":true,\"stop\":[\"~~\"],"
     "\"logit_bias\":{\"7\":1},\"stop_token_ids\":[2]}",
     200},
    {"POST", "/v1/completions", "{\"prompt\":\"AB\",\"max_tokens\":3,\"temperature\":0,\"stream\":true}", 200},
    {"POST", "/v1/completions", "{\"prompt\":", 400},
    {"POST", "/v1/completions", "{\"prompt\":\"A\\u0000\\ud83d\\ude00\",\"temperature\":\"hot\"}", 400},
    {"POST", "/v1/chat/completions",
     "{\"messages\":[{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"BE\"},{\"type\":\"text\",\"text\":"
     "\"BRIEF\"}]}," USER "," CALL "],\"tools\":[" TOOL "],\"chat_template_kwargs\":{\"think\":true},\"max_tokens\":3,"
     "\"temperature\":0,\"logprobs\":true,\"top_logprobs\":2,\"n\":2}",
     200},
    {"POST", "/v1/chat/completions",
     "{\"messages\":[" USER "],\"tools\":[" TOOL "],\"max_tokens\":3,\"temperature\":0,\"stream\":true,"
     "\"stream_options\":{\"include_usage\":true}}",
     200},
    {"POST", "/v1/chat/completions", "{\"messages\":[{\"role\":\"<|im_end|>\",\"content\":\"A\"}]}", 400},
    {"POST", "/v1/chat/completions", "{\"messages\":[{\"role\":\"oracle\",\"content\":\"A\"}]}", 400},
    {"POST", "/v1/messages",
     "{\"max_tokens\":3,\"temperature\":0,\"system\":\"BE BRIEF\",\"messages\":[{\"role\":\"user\",\"content\":[{"
     "\"type\":\"text\",\"text\":\"HI\"}]},{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":"
     "\"HM\"},{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"add\",\"input\":{\"a\":1}}]},{\"role\":\"user\","
     "\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t1\",\"content\":\"2\"}]}],\"tools\":[{\"name\":\"add\","
     "\"input_schema\":{\"type\":\"object\"}}],\"tool_choice\":{\"type\":\"auto\"},\"stop_sequences\":[\"~~\"],"
     "\"thinking\":{\"type\":\"disabled\"}}",
     200},
    {"POST", "/v1/messages",
     "{\"max_tokens\":3,\"temperature\":0,\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"HI\"}]}", 200},
    {"POST", "/v1/messages/count_tokens", "{\"messages\":[{\"role\":\"user\",\"content\":\"HI\"}]}", 200},
    {"POST", "/v1/responses",
     "{\"max_output_tokens\":3,\"temperature\":0,\"instructions\":\"BE\",\"input\":[{\"role\":\"user\",\"content\":"
     "\"HI\"},{"
     "\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\",\"text\":\"HM\"}]},{\"type\":\"function_call\","
     "\"call_id\":\"c\",\"name\":\"add\",\"arguments\":\"{}\"},{\"type\":\"function_call_output\",\"call_id\":\"c\","
     "\"output\":\"2\"}],\"tools\":[{\"type\":\"function\",\"name\":\"add\",\"parameters\":{\"type\":\"object\"}}],"
     "\"tool_choice\":\"auto\",\"reasoning\":{\"effort\":\"low\"},\"top_logprobs\":1,\"metadata\":{\"a\":\"b\"}}",
     200},
    {"POST", "/v1/responses", "{\"max_output_tokens\":3,\"temperature\":0,\"stream\":true,\"input\":\"HI\"}", 200},
    {"POST", "/v1/responses/input_tokens", "{\"input\":\"HI\"}", 200},
    {"POST", "/v1/responses", "{\"input\":\"HI\",\"previous_response_id\":\"resp_none\"}", 400},
    {"GET", "/v1/responses/resp_none", "", 404},
    {"POST", "/api/chat",
     "{\"stream\":false,\"options\":{\"num_predict\":3,\"temperature\":0,\"stop\":[\"~~\"]},\"messages\":[" USER
     ",{\"role\":"
     "\"assistant\",\"content\":\"\",\"tool_calls\":[{\"function\":{\"name\":\"add\",\"arguments\":{\"a\":1}}}]},{"
     "\"role\":"
     "\"tool\",\"content\":\"2\",\"tool_name\":\"add\"}],\"tools\":[" TOOL "],\"think\":\"low\",\"keep_alive\":\"5m\"}",
     200},
    {"POST", "/api/chat", "{\"options\":{\"num_predict\":3,\"temperature\":0},\"messages\":[" USER "]}", 200},
    {"POST", "/api/generate",
     "{\"stream\":false,\"prompt\":\"HI\",\"system\":\"BE\",\"options\":{\"num_predict\":3,\"temperature\":0}}", 200},
    {"POST", "/api/generate",
     "{\"stream\":false,\"prompt\":\"HI\",\"raw\":true,\"options\":{\"num_predict\":3,\"temperature\":0}}", 200},
    {"POST", "/api/generate", "{\"keep_alive\":\"soon\"}", 400},
    {"GET", "/api/tags", "", 200},
    {"GET", "/api/ps", "", 200},
    {"GET", "/api/version", "", 200},
    {"POST", "/api/show", "{\"model\":\"tiny:latest\"}", 200},
    {"POST", "/api/delete", "", 405},
    {"POST", "/tokenize", "{\"prompt\":\"HELLO\",\"return_token_strs\":true}", 200},
    {"POST", "/tokenize", "{\"messages\":[" USER "]}", 200},
    {"POST", "/tokenize", "{\"content\":\"HELLO\",\"with_pieces\":true}", 200},
    {"POST", "/detokenize", "{\"tokens\":[40,41,42]}", 200},
    {"POST", "/completion",
     "{\"prompt\":[\"AB\",40],\"n_predict\":3,\"temperature\":0,\"n_probs\":2,\"response_fields\":[\"content\","
     "\"generation_settings/n_predict\",\"stop_type\"]}",
     200},
    {"POST", "/completion", "{\"prompt\":\"AB\",\"n_predict\":3,\"temperature\":0,\"stream\":true}", 200},
    {"POST", "/infill", "{\"input_prefix\":\"A\",\"input_suffix\":\"B\",\"n_predict\":2}", 400},
    {"POST", "/apply-template", "{\"messages\":[" USER "," CALL "],\"tools\":[" TOOL "]}", 200},
};

static const request_kind encoder_kinds[] = {
    {"POST", "/v1/embeddings", "{\"input\":[\"ab c\",\"d\"]}", 200},
    {"POST", "/v1/embeddings", "{\"input\":\"ab\",\"encoding_format\":\"base64\"}", 200},
    {"POST", "/v1/embeddings", "{\"input\":5}", 400},
    {"POST", "/v1/rerank", "{\"query\":\"ab\",\"documents\":[\"c\",{\"text\":\"d\"}],\"return_documents\":true}", 200},
    {"POST", "/api/embed", "{\"input\":[\"ab c\",\"d\"]}", 200},
    {"POST", "/embedding", "{\"content\":[\"ab c\",\"d\"]}", 200},
};

static void check_server_alive(const request_kind *kind, long n) {
  const reply r = ask_server("GET", "/health", "");
  if (r.http != 200) fail_msg("%s, allocation %ld: then /health is %d", kind->path, n, r.http);
  free(r.all);
}

/* How many allocations failed, one a request; with `and_later` all that follow, too, until the reply is here. */
static long sweep_kind(const request_kind *kind, bool and_later) {
  const reply want = ask_server(kind->method, kind->path, kind->body);
  if (want.http != kind->http) fail_msg("%s %s: %d: %s", kind->path, kind->body, want.http, want.body);
  long n = 1;
  for (bool done = false; !done; n++) {
    faults_after(n, and_later);
    const reply r = ask_server(kind->method, kind->path, kind->body);
    done = !atomic_load(&faults_made);
    faults_after(0, false);
    const bool is_good = is_same_answer(&r, &want) || (!done && is_error(&r));
    if (!is_good) fail_msg("%s %s\nallocation %ld: %d %s", kind->path, kind->body, n, r.http, r.body);
    free(r.all);
    check_server_alive(kind, n);
    assert_true(n < 100000);
  }
  const reply again = ask_server(kind->method, kind->path, kind->body);
  if (!is_same_answer(&again, &want)) fail_msg("%s: afterwards %d %s", kind->path, again.http, again.body);
  free(again.all);
  free(want.all);
  return n - 1;
}

static void sweep_kinds(const request_kind *list, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const long one = sweep_kind(&list[i], false), all = sweep_kind(&list[i], true);
    padding = *list[i].body ? 9000 : 0;
    const long large = sweep_kind(&list[i], false);
    padding = 0;
    print_message("%-26s %4ld and %4ld allocations, %4ld with a large body\n", list[i].path, one, all, large);
  }
}

/* --- servers --- */

/* What load_given gives: a model that is open already. */
static sv_loaded given;

static ga_status load_given(void *user, size_t index, sv_loaded *out) {
  (void)user, (void)index;
  *out = given;
  return GA_OK;
}

static void keep_given(void *user, sv_loaded *loaded) { (void)user, (void)loaded; }

static void with_server(const char *path, ga_model *model, ga_engine *engine, const request_kind *list, size_t n) {
  sv_server *server;
  const sv_options o = {.host = "127.0.0.1",
                        .model_id = "tiny",
                        .model_path = path,
                        .max_body = 1 << 20,
                        .max_connections = 16,
                        .request_seconds = 60,
                        .idle_seconds = 60,
                        .threads = 1,
                        .max_waiting = 16,
                        .most_turns = 1 << 20,
                        .tools = TOOL_FORMAT_HERMES,
                        .thinks = true};
  faults_n_exempt = 0;
  faults_exempt_threads();
  assert_int_equal(sv_server_create(&o, &server), GA_OK);
  const sv_model_source source = {.id = "tiny", .path = path};
  const sv_models_options models = {
      .source = &source, .n = 1, .load = load_given, .unload = keep_given, .keep_seconds = -1};
  given = (sv_loaded){.model = model, .engine = engine, .tools = o.tools, .thinks = o.thinks};
  assert_int_equal(sv_server_offer(server, &models), GA_OK);
  port = sv_server_port(server);
  sweep_kinds(list, n);
  sv_server_destroy(server);
}

static ga_ctx *cpu_context(void) {
  ga_ctx *ctx;
  ga_ctx_options co = GA_CTX_OPTIONS_INIT;
  co.device = "cpu";
  co.threads = 1;
  assert_int_equal(ga_ctx_create(&co, &ctx), GA_OK);
  return ctx;
}

static void test_requests(void **state) {
  (void)state;
  ga_ctx *ctx = cpu_context();
  ga_model *model;
  ga_engine *engine;
  ga_engine_options eo = GA_ENGINE_OPTIONS_INIT;
  eo.context = 1024;
  eo.max_sequences = 4;
  tiny_context = 1024;
  tiny_template = "{% for m in messages %}{{ m.role }}:{{ m.content }}{% for c in m.tool_calls or [] %}{{ "
                  "c.function|tojson }}{% endfor %}{{ eos_token }}{% endfor %}{% if tools %}{{ tools|tojson }}{% endif "
                  "%}{# <think> <tool_call> #}";
  if (tiny_make("llama", TINY_VOCAB) != GA_OK) fail_msg("%s", ga_error_text());
  if (ga_model_load(ctx, tiny_path, NULL, &model) != GA_OK) fail_msg("%s", ga_error_text());
  assert_int_equal(ga_engine_create(model, &eo, &engine), GA_OK);
  with_server(tiny_path, model, engine, kinds, sizeof kinds / sizeof *kinds);
  ga_engine_destroy(engine);
  ga_model_destroy(model);
  ga_ctx_destroy(ctx);
}

/* The cross-encoder of tests/data/rank with letters as its tokens. */
static void make_encoder(const char *folder) {
  static const char *const files[] = {"config.json", "model.safetensors"};
  char from[512], to[512];
  for (int i = 0; i < 2; i++) {
    (void)snprintf(from, sizeof from, "%s/rank/bert/%s", GA_TEST_DATA, files[i]);
    (void)snprintf(to, sizeof to, "%s/%s", folder, files[i]);
    assert_int_equal(symlink(from, to), 0);
  }
  (void)snprintf(to, sizeof to, "%s/tokenizer.json", folder);
  FILE *f = fopen(to, "w");
  assert_non_null(f);
  (void)fprintf(f, "{\"added_tokens\":[");
  static const char *const special[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]"};
  for (int i = 0; i < 4; i++)
    (void)fprintf(f, "%s{\"id\":%d,\"content\":\"%s\",\"special\":true}", i ? "," : "", i, special[i]);
  (void)fprintf(f, "],\"normalizer\":{\"type\":\"BertNormalizer\",\"lowercase\":true},\"pre_tokenizer\":{\"type\":"
                   "\"BertPreTokenizer\"},\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{"
                   "\"SpecialToken\":{\"id\":\"[CLS]\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{"
                   "\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":0}}],\"special_tokens\":{}},\"model\":{\"type\":"
                   "\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\",\"vocab\":{");
  for (int i = 0; i < 4; i++) (void)fprintf(f, "\"%s\":%d,", special[i], i);
  for (int i = 0; i < 26; i++) (void)fprintf(f, "\"%c\":%d,", 'a' + i, 4 + i);
  for (int i = 0; i < 26; i++) (void)fprintf(f, "\"##%c\":%d%s", 'a' + i, 30 + i, i < 25 ? "," : "}}}");
  assert_int_equal(fclose(f), 0);
}

static void remove_encoder(const char *folder) {
  static const char *const files[] = {"config.json", "model.safetensors", "tokenizer.json"};
  char path[512];
  for (int i = 0; i < 3; i++) {
    (void)snprintf(path, sizeof path, "%s/%s", folder, files[i]);
    (void)unlink(path);
  }
  (void)rmdir(folder);
}

static void test_embeddings(void **state) {
  (void)state;
  char folder[] = "/tmp/ga-encoder-XXXXXX";
  ga_ctx *ctx = cpu_context();
  ga_model *model;
  assert_non_null(mkdtemp(folder));
  make_encoder(folder);
  if (ga_model_load(ctx, folder, NULL, &model) != GA_OK) fail_msg("%s", ga_error_text());
  with_server(folder, model, NULL, encoder_kinds, sizeof encoder_kinds / sizeof *encoder_kinds);
  ga_model_destroy(model);
  ga_ctx_destroy(ctx);
  remove_encoder(folder);
}

/* Files: configuration, tokenizer and weights of a folder, of which every allocation fails in turn. */
static void test_folder_memory(void **state) {
  (void)state;
  char folder[] = "/tmp/ga-encoder-XXXXXX";
  assert_non_null(mkdtemp(folder));
  make_encoder(folder);
  faults_n_exempt = 0;
  for (int later = 0; later < 2; later++) {
    long n = 1;
    for (bool done = false; !done; n++) {
      ga_model_file *file = NULL;
      ga_tokenizer *tok = NULL;
      faults_after(n, later);
      ga_status status = ga_model_file_open(folder, &file);
      if (status == GA_OK) status = ga_tokenizer_from_model(file, &tok);
      done = !atomic_load(&faults_made);
      faults_after(0, false);
      if (status != (done ? GA_OK : GA_ERR_NOMEM)) fail_msg("allocation %ld: %d %s", n, (int)status, ga_error_text());
      ga_tokenizer_destroy(tok);
      ga_model_file_destroy(file);
      assert_true(n < 100000);
    }
    print_message("a folder: %ld allocations\n", n - 1);
  }
  remove_encoder(folder);
}

/* --- tool calls in answers --- */

typedef struct heard {
  char text[1024];
  size_t n;
} heard;

static void hear(heard *h, const char *text, size_t n) {
  assert_true(h->n + n < sizeof h->text);
  memcpy(h->text + h->n, text, n);
  h->n += n;
}
static void hear_content(void *user, const char *text, size_t n) { hear(user, text, n); }
static void hear_call(void *user, size_t index, const char *name) {
  (void)index;
  hear(user, "{", 1);
  hear(user, name, strlen(name));
}
static void hear_arguments(void *user, size_t index, const char *json, size_t n) {
  (void)index;
  hear(user, json, n);
}
static void hear_end(void *user, size_t index) {
  (void)index;
  hear(user, "}", 1);
}

/* False: the parser said that memory is short. */
static bool parse_answer(tool_format format, const char *text, heard *h) {
  const tool_sink sink = {h, hear_content, hear_call, hear_arguments, hear_end, NULL};
  tool_parser *p;
  *h = (heard){0};
  if (tool_parser_create(format, &p) != GA_OK) return false;
  const bool good = tool_parser_push(p, text, strlen(text), &sink) == GA_OK;
  if (good) tool_parser_finish(p, &sink);
  tool_parser_destroy(p);
  return good;
}

/* A call is never given out as text because memory was short. */
static void test_tool_calls(void **state) {
  (void)state;
  static const struct {
    tool_format format;
    const char *text;
  } answers[] = {
      {TOOL_FORMAT_HERMES, "a<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": [1, \"\\n\"]}}\n</tool_call>"},
      {TOOL_FORMAT_QWEN3_CODER, "<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n<parameter=y>\na b\n"
                                "</parameter>\n<parameter=z>\n[1, {}]\n</parameter>\n</function>\n</tool_call>"},
      {TOOL_FORMAT_LLAMA3, "{\"name\": \"f\", \"parameters\": {\"x\": 1.5}}"},
      {TOOL_FORMAT_MISTRAL, "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"x\": null}}]"},
      {TOOL_FORMAT_MISTRAL, "[TOOL_CALLS]f[ARGS]{\"x\": 1}"},
  };
  faults_n_exempt = 0;
  for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
    heard want, got;
    assert_true(parse_answer(answers[i].format, answers[i].text, &want));
    assert_non_null(strstr(want.text, "{f{"));
    for (long n = 1;; n++) {
      faults_after(n, false);
      const bool good = parse_answer(answers[i].format, answers[i].text, &got);
      const bool done = !atomic_load(&faults_made);
      faults_after(0, false);
      if (good && strcmp(got.text, want.text) != 0)
        fail_msg("allocation %ld: '%s', must be '%s'", n, got.text, want.text);
      if (done) break;
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_tool_calls), cmocka_unit_test(test_folder_memory),
                                     cmocka_unit_test(test_embeddings), cmocka_unit_test(test_requests)};
  faults_install();
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  tiny_remove();
  return failed;
}
