#include "cli/hub_search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "cli/hub_web.h"
#include "cli/pull.h"
#include "cmdline/error.h"
#include "names/hub.h"
#include "text/json_io.h"

/* Writes text as a value in a query: all but letters, digits and -._~ as %XX (RFC 3986, 2.3). */
static ga_status encode_value(const char *text, char *out, size_t capacity) {
  static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  size_t n = 0;
  for (const char *p = text; *p; p++) {
    REQUIRE(n + 4 < capacity, GA_ERR_ARG, "the text has %zu bytes, which are too many for a search", strlen(text));
    n += (size_t)snprintf(out + n, capacity - n, strchr(plain, *p) ? "%c" : "%%%02X", (unsigned char)*p);
  }
  out[n] = 0;
  return GA_OK;
}

/* Takes a repository over, unless its name is none that `ga pull` takes. */
static bool take_repo(const json_t *o, hub_repo *out) {
  ga_hub_name parsed;
  const char *id = json_string_value(json_object_get(o, "id")),
             *when = json_string_value(json_object_get(o, "lastModified"));
  const json_t *gated = json_object_get(o, "gated");
  *out = (hub_repo){0};
  if (!id || snprintf(out->name, sizeof out->name, "hf:%s", id) >= (int)sizeof out->name) return false;
  if (ga_hub_parse(out->name, &parsed) != GA_OK || *parsed.file || *parsed.tag) return false;
  out->downloads = json_integer_value(json_object_get(o, "downloads"));
  out->likes = json_integer_value(json_object_get(o, "likes"));
  out->is_gated = json_is_true(gated) || json_is_string(gated); /* "auto", "manual" */
  if (when && strspn(when, "0123456789-") == 10) (void)snprintf(out->updated, sizeof out->updated, "%.10s", when);
  return true;
}

static ga_status take_repos(const char *text, const char *label, int64_t most, hub_repo **out, size_t *n) {
  json_error_t error;
  json_t *list = ga_json_load(text, strlen(text), 0, &error);
  ga_status status = GA_OK;
  if (!json_is_array(list)) status = ga_error_set(GA_ERR_FORMAT, "%s: the answer is no list of repositories", label);
  if (status == GA_OK && !(*out = calloc((size_t)most + 1, sizeof **out)))
    status = fail_nomem("repositories", (size_t)most * sizeof **out);
  for (size_t i = 0; status == GA_OK && i < json_array_size(list) && *n < (size_t)most; i++)
    *n += take_repo(json_array_get(list, i), &(*out)[*n]);
  json_decref(list);
  return status;
}

ga_status hub_search(const char *text, const char *format, int64_t most, long seconds, hub_repo **out, size_t *n) {
  char value[1024], rest[1536], url[4096], token[512], *answer;
  pull_address from;
  *out = NULL;
  *n = 0;
  TRY(encode_value(text, value, sizeof value));
  (void)snprintf(rest, sizeof rest, "api/models?search=%s&filter=%s&sort=downloads&direction=-1&limit=%lld", value,
                 format, (long long)most);
  TRY(hub_token(token));
  TRY(hub_url(rest, url, sizeof url));
  TRY(pull_address_parse(url, &from));
  from.token = token;
  from.most_seconds = seconds;
  TRY(pull_text(&from, &answer));
  const ga_status status = take_repos(answer, from.label, most, out, n);
  free(answer);
  return status;
}
