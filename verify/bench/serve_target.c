/* The server that is asked: its address, the key, and the name of its model. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "text/json_io.h"
#include "verify/bench/serve_client.h"

#define KEY_BYTES    4096
#define ANSWER_BYTES ((size_t)4 << 20)

/* --- the address --- */

/* A part of the address, NULL when it has none. Freed with curl_free. */
static char *target_part(CURLU *u, CURLUPart part) {
  char *text;
  return curl_url_get(u, part, &text, 0) ? NULL : text;
}

static bool target_has(CURLU *u, CURLUPart part) {
  char *text = target_part(u, part);
  curl_free(text);
  return text != NULL;
}

static bool target_is_loopback(CURLU *u) {
  char *host = target_part(u, CURLUPART_HOST);
  const bool is = host && (!strncmp(host, "127.", 4) || !strcmp(host, "localhost") || !strcmp(host, "[::1]"));
  curl_free(host);
  return is;
}

/* The address without the slashes at its end, and with "/v1". */
static ga_status write_base(const char *url, client_target *t) {
  size_t n = strlen(url);
  while (n && url[n - 1] == '/') n--;
  const bool has = n > 3 && !memcmp(url + n - 3, "/v1", 3);
  GA_REQUIRE(n + 4 < sizeof t->base, GA_ERR_ARG, "--serve: the address has %zu bytes; at most %zu", n,
             sizeof t->base - 5);
  (void)snprintf(t->base, sizeof t->base, "%.*s%s", (int)n, url, has ? "" : "/v1");
  return GA_OK;
}

static ga_status check_target(CURLU *u, const client_args *a, client_target *t) {
  char *scheme = target_part(u, CURLUPART_SCHEME), *whole = target_part(u, CURLUPART_URL);
  const bool https = scheme && !strcmp(scheme, "https"), http = scheme && !strcmp(scheme, "http");
  ga_status status = GA_OK;
  if (!http && !https)
    status = ga_fail(GA_ERR_ARG, "--serve: the scheme is '%s'; allowed: http, https", scheme ? scheme : "");
  else if (target_has(u, CURLUPART_USER) || target_has(u, CURLUPART_PASSWORD))
    status = ga_fail(GA_ERR_ARG, "--serve: the address has a name or password; give a key by --api-key-file");
  else if (target_has(u, CURLUPART_QUERY) || target_has(u, CURLUPART_FRAGMENT))
    status = ga_fail(GA_ERR_ARG, "--serve: the address has a query or a fragment; give it without");
  else
    status = whole ? write_base(whole, t) : ga_fail_nomem("--serve", sizeof t->base);
  if (status == GA_OK && a->key_path && http && !target_is_loopback(u))
    (void)fprintf(stderr, "ga bench: the key goes over http unprotected\n");
  curl_free(scheme);
  curl_free(whole);
  return status;
}

static ga_status parse_target(const client_args *a, client_target *t) {
  CURLU *u = curl_url();
  GA_REQUIRE(u, GA_ERR_NOMEM, "libcurl cannot start");
  const CURLUcode rc = curl_url_set(u, CURLUPART_URL, a->url, CURLU_NON_SUPPORT_SCHEME);
  const ga_status status =
      rc ? ga_fail(GA_ERR_ARG, "--serve '%.200s': %s", a->url, curl_url_strerror(rc)) : check_target(u, a, t);
  curl_url_cleanup(u);
  if (status == GA_OK)
    (void)snprintf(t->endpoint, sizeof t->endpoint, "%s/%s", t->base, a->chat ? "chat/completions" : "completions");
  return status;
}

/* --- headers --- */

static ga_status add_header(client_target *t, const char *line) {
  struct curl_slist *longer = curl_slist_append(t->headers, line);
  GA_REQUIRE(longer, GA_ERR_NOMEM, "request: no memory for a header");
  t->headers = longer;
  return GA_OK;
}

/* The first line of the file. */
static ga_status add_key(const char *path, client_target *t) {
  static const char before[] = "Authorization: Bearer ";
  char line[sizeof before + KEY_BYTES];
  FILE *f = fopen(path, "r");
  GA_REQUIRE(f, GA_ERR_IO, "%s: %s", path, strerror(errno));
  memcpy(line, before, sizeof before);
  const bool got = fgets(line + sizeof before - 1, KEY_BYTES, f) != NULL;
  (void)fclose(f);
  char *key = line + sizeof before - 1;
  if (got) key[strcspn(key, "\r\n")] = 0;
  GA_REQUIRE(got && *key, GA_ERR_FORMAT, "%s: the first line is empty; it must be a key", path);
  return add_header(t, line);
}

/* --- the model --- */

typedef struct target_answer {
  char *text;
  size_t n;
} target_answer;

static size_t on_models(char *data, size_t each, size_t n, void *user) {
  target_answer *r = user;
  if (r->n + each * n > ANSWER_BYTES) return 0;
  char *larger = realloc(r->text, r->n + each * n + 1);
  if (!larger) return 0;
  r->text = larger;
  memcpy(r->text + r->n, data, each * n);
  r->n += each * n;
  return each * n;
}

static ga_status read_models(long code, const target_answer *r, client_target *t) {
  char text[CLIENT_TEXT];
  if (code == 404 || code == 405) return GA_OK; /* it has no list: requests name no model */
  client_error_text(r->text ? r->text : "", r->n, text);
  GA_REQUIRE(code == 200, GA_ERR_IO, "%s/models: HTTP %ld%s%s", t->base, code, *text ? ": " : "", text);
  json_t *root = ga_json_load(r->text ? r->text : "", r->n, 0, NULL);
  const char *id = json_string_value(json_object_get(json_array_get(json_object_get(root, "data"), 0), "id"));
  const bool good = id && strlen(id) < sizeof t->model;
  if (good) (void)snprintf(t->model, sizeof t->model, "%s", id);
  json_decref(root);
  GA_REQUIRE(good, GA_ERR_FORMAT, "%s/models: this is no list of models; name one by --model", t->base);
  return GA_OK;
}

static ga_status ask_models(client_target *t) {
  char url[1100], detail[CURL_ERROR_SIZE] = "";
  target_answer r = {0};
  long code = 0;
  CURL *c = curl_easy_init();
  GA_REQUIRE(c, GA_ERR_NOMEM, "libcurl cannot start");
  (void)snprintf(url, sizeof url, "%s/models", t->base);
  const bool set = !curl_easy_setopt(c, CURLOPT_URL, url) && !curl_easy_setopt(c, CURLOPT_PROXY, "") &&
                   !curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https") &&
                   !curl_easy_setopt(c, CURLOPT_HTTPHEADER, t->headers) &&
                   !curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_models) &&
                   !curl_easy_setopt(c, CURLOPT_WRITEDATA, &r) && !curl_easy_setopt(c, CURLOPT_ERRORBUFFER, detail) &&
                   !curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, 10L) && !curl_easy_setopt(c, CURLOPT_TIMEOUT, 30L);
  const CURLcode rc = set ? curl_easy_perform(c) : CURLE_OUT_OF_MEMORY;
  (void)curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &code);
  ga_status status =
      rc ? ga_fail(GA_ERR_IO, "%s: %s", t->base, *detail ? detail : curl_easy_strerror(rc)) : read_models(code, &r, t);
  curl_easy_cleanup(c);
  free(r.text);
  return status;
}

ga_status client_target_open(const client_args *a, client_target *t) {
  *t = (client_target){.timeout = a->timeout};
  GA_TRY(parse_target(a, t));
  GA_TRY(add_header(t, "Content-Type: application/json"));
  GA_TRY(add_header(t, "Accept: text/event-stream, application/json"));
  GA_TRY(add_header(t, "Expect:")); /* no pause of a second before a large body */
  if (a->key_path) GA_TRY(add_key(a->key_path, t));
  if (!a->model) return ask_models(t);
  GA_REQUIRE(strlen(a->model) < sizeof t->model, GA_ERR_ARG, "--model: the name has %zu bytes; at most %zu",
             strlen(a->model), sizeof t->model - 1);
  (void)snprintf(t->model, sizeof t->model, "%s", a->model);
  return GA_OK;
}

void client_target_close(client_target *t) {
  curl_slist_free_all(t->headers);
  t->headers = NULL;
}
