#include "verify/dist/words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

int32_t dist_word_index(const char *const *names, size_t n, const char *word) {
  for (size_t i = 0; i < n; i++)
    if (!strcmp(names[i], word)) return (int32_t)i;
  return -1;
}

ga_status dist_read_numbers(const char *option, const char *like, const char *text, int64_t **out, int32_t *count) {
  size_t n = 1;
  for (const char *p = text; *p; p++) n += *p == ',';
  *out = calloc(n, sizeof **out);
  if (!*out) return ga_fail_nomem("lengths", n * sizeof **out);
  const char *p = text;
  for (size_t i = 0; i < n; i++) {
    char *end;
    errno = 0;
    (*out)[i] = strtoll(p, &end, 10);
    GA_REQUIRE(end != p && !errno && (*end == ',' || !*end) && (*out)[i] >= 0, GA_ERR_ARG, "--%s '%.100s': must be %s",
               option, text, like);
    p = end + 1;
  }
  *count = (int32_t)n;
  return GA_OK;
}

bool dist_next_word(const char *list, size_t *at, char word[DIST_WORD_BYTES]) {
  const char *const p = list + *at;
  const size_t n = strcspn(p, ",");
  if (!*p) return false;
  (void)snprintf(word, DIST_WORD_BYTES, "%.*s", (int)n, p);
  *at += n + (p[n] == ',');
  return true;
}
