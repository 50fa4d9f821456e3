#include "cli/hub_web.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmdline/error.h"

static const char *token_path(char path[4096]) {
  const char *own = getenv("HF_TOKEN_PATH"), *hf = getenv("HF_HOME"), *cache = getenv("XDG_CACHE_HOME"),
             *home = getenv("HOME");
  int n = -1;
  if (own && *own) return own;
  if (hf && *hf)
    n = snprintf(path, 4096, "%s/token", hf);
  else if (cache && *cache)
    n = snprintf(path, 4096, "%s/huggingface/token", cache);
  else if (home && *home)
    n = snprintf(path, 4096, "%s/.cache/huggingface/token", home);
  return n > 0 && n < 4096 ? path : NULL;
}

/* An error names the place alone: the text may be a secret that is nearly right. */
ga_status hub_token(char token[512]) {
  char path[4096];
  const char *given = getenv("HF_TOKEN"), *place = "HF_TOKEN";
  token[0] = 0;
  if (given && *given) {
    REQUIRE(strlen(given) < 512, GA_ERR_ARG, "HF_TOKEN has %zu characters; at most 511", strlen(given));
    (void)snprintf(token, 512, "%s", given);
  } else {
    place = token_path(path);
    FILE *f = place ? fopen(place, "r") : NULL;
    if (f && !fgets(token, 512, f)) token[0] = 0;
    if (f) (void)fclose(f);
  }
  for (size_t n = strlen(token); n && isspace((unsigned char)token[n - 1]);) token[--n] = 0;
  for (const char *p = token; *p; p++)
    REQUIRE(isgraph((unsigned char)*p), GA_ERR_ARG, "the hub's token has a character that none has (%s)", place);
  return GA_OK;
}

ga_status hub_url(const char *rest, char *url, size_t capacity) {
  const char *endpoint = getenv("HF_ENDPOINT");
  if (!endpoint || !*endpoint) endpoint = "https://huggingface.co";
  size_t n = strlen(endpoint);
  while (n && endpoint[n - 1] == '/') n--;
  const int k = snprintf(url, capacity, "%.*s/%s", (int)n, endpoint, rest);
  REQUIRE(k > 0 && (size_t)k < capacity, GA_ERR_ARG, "the hub's address for %.80s is too long", rest);
  return GA_OK;
}
