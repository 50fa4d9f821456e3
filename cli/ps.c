/* ga ps, ga stop: the models that a running `ga serve` has loaded. */
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>
#include <jansson.h>

#include "cli/commands.h"
#include "cmdline/error.h"
#include "text/json_io.h"

typedef struct ps_args {
  const char *url, *key;
  bool json;
} ps_args;

#define PS_OPTIONS(a)                                                                                      \
  {"url", 'u', OPT_STRING, &(a).url, 0, 0, "URL", "address of the server"}, {                              \
    "api-key", 0, OPT_STRING, &(a).key, 0, 0, "KEY", "the server's key; $GA_API_KEY keeps it out of sight" \
  }
#define PS_ARGS_INIT \
  { .url = "http://127.0.0.1:8080" }

typedef struct reply_text {
  char *p;
  size_t n;
} reply_text;

static size_t take_reply(char *data, size_t size, size_t n, void *user) {
  enum { MOST = 64 << 20 };
  reply_text *t = user;
  const size_t bytes = size * n;
  char *bigger = t->n + bytes < MOST ? realloc(t->p, t->n + bytes + 1) : NULL;
  if (!bigger) return 0;
  memcpy(bigger + t->n, data, bytes);
  t->p = bigger;
  t->n += bytes;
  return bytes;
}

/* Sends a request and parses the answer; body NULL = GET. */
static ga_status send_to_server(CURL *curl, const ps_args *a, const char *path, const char *body, json_t **out) {
  char url[2048], key[1024];
  const char *secret = a->key ? a->key : getenv("GA_API_KEY");
  reply_text text = {0};
  long http = 0;
  size_t n = strlen(a->url);
  while (n && a->url[n - 1] == '/') n--;
  REQUIRE((size_t)snprintf(url, sizeof url, "%.*s%s", (int)n, a->url, path) < sizeof url, GA_ERR_ARG,
          "--url is longer than %zu bytes", sizeof url);
  (void)snprintf(key, sizeof key, "Authorization: Bearer %.900s", secret ? secret : "none");
  struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
  headers = headers ? curl_slist_append(headers, key) : NULL;
  (void)curl_easy_setopt(curl, CURLOPT_URL, url);
  (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_reply);
  (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, &text);
  if (body) (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
  const CURLcode rc = curl_easy_perform(curl);
  (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &http);
  curl_slist_free_all(headers);
  *out = text.n ? ga_json_load(text.p, text.n, 0, NULL) : NULL;
  free(text.p);
  REQUIRE(rc == CURLE_OK, GA_ERR_IO, "%s: %s; is ga serve running there? (--url)", a->url, curl_easy_strerror(rc));
  const json_t *error = json_object_get(*out, "error");
  const char *why = json_string_value(json_is_object(error) ? json_object_get(error, "message") : error);
  REQUIRE(http == 200 && json_is_object(*out), GA_ERR_IO, "%s: HTTP %ld%s%s", url, http, why ? ": " : "",
          why ? why : "");
  return GA_OK;
}

static ga_status ask_running_server(const ps_args *a, const char *path, const char *body, json_t **out) {
  CURL *curl = curl_easy_init();
  *out = NULL;
  if (!curl) return fail_nomem("request", 0);
  const ga_status status = send_to_server(curl, a, path, body, out);
  curl_easy_cleanup(curl);
  if (status == GA_OK) return GA_OK;
  json_decref(*out);
  *out = NULL;
  return status;
}

static void print_loaded(const json_t *m) {
  const char *name = json_string_value(json_object_get(m, "name")),
             *until = json_string_value(json_object_get(m, "expires_at"));
  const double bytes = json_number_value(json_object_get(m, "size_loaded"));
  const double gpu = json_number_value(json_object_get(m, "size_vram"));
  char memory[32];
  (void)snprintf(memory, sizeof memory, "%.2f GiB",
                 (bytes > 0 ? bytes : json_number_value(json_object_get(m, "size"))) * 0x1p-30);
  printf("%-32s  %10s  %4.0f %%  %7lld  ", name ? name : "", memory, bytes > 0 ? 100 * gpu / bytes : 0.0,
         (long long)json_integer_value(json_object_get(m, "context_length")));
  printf("%s", until && strncmp(until, "2318", 4) ? until : "stays");
  const json_t *rate = json_object_get(m, "expert_hit_rate");
  if (rate) printf("  experts on the GPU %.0f %%", 100 * json_number_value(rate));
  printf("\n");
}

static ga_status list_loaded(const ps_args *a) {
  json_t *answer, *m;
  size_t i;
  TRY(ask_running_server(a, "/api/ps", NULL, &answer));
  json_t *models = json_object_get(answer, "models");
  if (a->json) {
    json_incref(models);
    json_decref(answer);
    return cmd_print_json(models, JSON_INDENT(2));
  }
  if (!json_array_size(models)) (void)fprintf(stderr, "no model is loaded\n");
  if (json_array_size(models)) printf("%-32s  %10s  %6s  %7s  %s\n", "NAME", "MEMORY", "GPU", "CONTEXT", "UNTIL");
  json_array_foreach(models, i, m) print_loaded(m);
  json_decref(answer);
  return GA_OK;
}

int cmd_ps(int argc, char **argv) {
  ps_args a = PS_ARGS_INIT;
  const cmd_option options[] = {PS_OPTIONS(a), {"json", 0, OPT_FLAG, &a.json, 0, 0, NULL, "a JSON array on stdout"}};
  int code, rest = cmd_parse("ps", "[options]", options, COUNT_OF(options), argc, argv, &code);
  if (rest < 0) return code;
  if (rest) return cmd_usage_error("ps", "unexpected '%s'", argv[1]);
  return list_loaded(&a) == GA_OK ? EXIT_OK : cmd_fail("ps");
}

static ga_status stop_model(const ps_args *a, const char *name) {
  json_t *answer, *body = json_pack("{s:s,s:i,s:b}", "model", name, "keep_alive", 0, "stream", 0);
  char *text = body ? ga_json_dump(body, JSON_COMPACT) : NULL;
  json_decref(body);
  if (!text) return fail_nomem("request", strlen(name));
  const ga_status status = ask_running_server(a, "/api/generate", text, &answer);
  json_decref(answer);
  free(text);
  return status;
}

int cmd_stop(int argc, char **argv) {
  ps_args a = PS_ARGS_INIT;
  const cmd_option options[] = {PS_OPTIONS(a)};
  int code, rest = cmd_parse("stop", "[options] MODEL...", options, COUNT_OF(options), argc, argv, &code);
  if (rest < 0) return code;
  if (!rest) return cmd_usage_error("stop", "which model? (ga ps)");
  ga_status status = GA_OK;
  for (int i = 1; i <= rest && status == GA_OK; i++) status = stop_model(&a, argv[i]);
  return status == GA_OK ? EXIT_OK : cmd_fail("stop");
}
