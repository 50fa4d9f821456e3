/* An address as `ga pull` takes it: parsed by libcurl, which fetches it, so that both read it alike. */
#include <stdio.h>
#include <string.h>

#include <curl/curl.h>

#include "cli/pull.h"
#include "cmdline/error.h"
#include "ga/hash.h"

static bool is_loopback_host(const char *host) {
  return !strcmp(host, "127.0.0.1") || !strcmp(host, "localhost") || !strcmp(host, "[::1]");
}

/* A part of the address, or "" when it has none. Freed with curl_free. */
static char *url_part(CURLU *u, CURLUPart part) {
  char *text;
  return curl_url_get(u, part, &text, 0) ? NULL : text;
}

/* What may be shown: no user, password, query or fragment. */
static bool fill_label(CURLU *u, pull_address *out) {
  const bool query = !curl_url_set(u, CURLUPART_FRAGMENT, NULL, 0);
  char *had = url_part(u, CURLUPART_QUERY), *text = NULL;
  const bool cut = had != NULL;
  curl_free(had);
  bool good = query && !curl_url_set(u, CURLUPART_QUERY, NULL, 0) && !curl_url_set(u, CURLUPART_USER, NULL, 0) &&
              !curl_url_set(u, CURLUPART_PASSWORD, NULL, 0) && !curl_url_get(u, CURLUPART_URL, &text, 0);
  if (good) good = (size_t)snprintf(out->label, sizeof out->label, "%s%s", text, cut ? "?..." : "") < sizeof out->label;
  curl_free(text);
  return good;
}

static ga_status check_url(CURLU *u, pull_address *out) {
  char *scheme = url_part(u, CURLUPART_SCHEME), *host = url_part(u, CURLUPART_HOST),
       *user = url_part(u, CURLUPART_USER), *password = url_part(u, CURLUPART_PASSWORD);
  const bool http = scheme && !strcmp(scheme, "http"), secret = user || password;
  const bool good = scheme && host && (!strcmp(scheme, "https") || (http && is_loopback_host(host)));
  out->loopback = good && http;
  curl_free(scheme);
  curl_free(host);
  curl_free(user);
  curl_free(password);
  const bool shown = fill_label(u, out);
  REQUIRE(shown, GA_ERR_ARG, "this address is too long, at most %zu bytes, or cannot be written out",
          sizeof out->label - 1);
  REQUIRE(good, GA_ERR_ARG, "%s: only https addresses are fetched", out->label);
  REQUIRE(!http || !secret, GA_ERR_ARG, "%s: a name or password over http would go unprotected; leave it out",
          out->label);
  return GA_OK;
}

ga_status pull_address_parse(const char *url, pull_address *out) {
  *out = (pull_address){.url = url};
  CURLU *u = curl_url();
  REQUIRE(u, GA_ERR_NOMEM, "libcurl cannot start");
  const CURLUcode rc = curl_url_set(u, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME);
  ga_status status = rc ? ga_error_set(GA_ERR_ARG, "this is no address: %s", curl_url_strerror(rc)) : check_url(u, out);
  curl_url_cleanup(u);
  ga_sha256_of(url, strlen(url), out->sha256);
  return status;
}
