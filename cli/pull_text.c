/* A short answer of a server, into memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#include "cli/pull.h"
#include "cmdline/error.h"
#include "cmdline/interrupt.h"

enum { MOST = 8 << 20 };

typedef struct answer {
  char *text;
  size_t n;
  bool too_long;
} answer;

static size_t keep_bytes(char *data, size_t each, size_t n, void *user) {
  answer *a = user;
  const size_t bytes = each * n;
  a->too_long = a->n + bytes > MOST;
  char *bigger = a->too_long ? NULL : realloc(a->text, a->n + bytes + 1);
  if (!bigger) return 0;
  memcpy(bigger + a->n, data, bytes);
  a->text = bigger;
  a->n += bytes;
  a->text[a->n] = 0;
  return bytes;
}

static int should_end(void *user, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up) {
  (void)user, (void)total, (void)now, (void)up_total, (void)up;
  return interrupted();
}

static ga_status perform(CURL *c, const pull_address *from, answer *a) {
  char detail[CURL_ERROR_SIZE] = "";
  TRY(pull_curl_options(c, from));
  const bool set =
      !curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, keep_bytes) && !curl_easy_setopt(c, CURLOPT_WRITEDATA, a) &&
      !curl_easy_setopt(c, CURLOPT_ERRORBUFFER, detail) && !curl_easy_setopt(c, CURLOPT_TIMEOUT, from->most_seconds) &&
      !curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L) && !curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, should_end);
  REQUIRE(set, GA_ERR_INTERNAL, "libcurl refuses an option");
  const CURLcode rc = curl_easy_perform(c);
  (void)curl_easy_setopt(c, CURLOPT_ERRORBUFFER, NULL); /* c outlives `detail` */
  REQUIRE(rc != CURLE_ABORTED_BY_CALLBACK, GA_ERR_CANCELLED, "stopped");
  REQUIRE(!a->too_long, GA_ERR_FORMAT, "%s: the answer is longer than %d bytes", from->label, MOST);
  if (rc) return pull_curl_error(c, from, *detail ? detail : curl_easy_strerror(rc));
  return GA_OK;
}

ga_status pull_text(const pull_address *from, char **text) {
  answer a = {0};
  CURL *c = curl_easy_init();
  *text = NULL;
  REQUIRE(c, GA_ERR_NOMEM, "libcurl cannot start");
  ga_status status = perform(c, from, &a);
  curl_easy_cleanup(c);
  if (status == GA_OK && !a.text) status = ga_error_set(GA_ERR_FORMAT, "%s: the answer is empty", from->label);
  if (status == GA_OK)
    *text = a.text;
  else
    free(a.text);
  return status;
}
