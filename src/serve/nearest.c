#include "serve/nearest.h"

#include <string.h>

enum {
  SV_COMPARED = 96, /* letters of a path that are compared */
  SV_TYPOS = 2      /* changed letters that count as a slip */
};

static size_t sv_shorter(size_t n) { return n < SV_COMPARED ? n : SV_COMPARED; }

static size_t sv_fewest(size_t a, size_t b) { return a < b ? a : b; }

/* Counts the letters to insert, remove or change between two paths (Levenshtein). */
static size_t sv_distance(const char *a, const char *b) {
  const size_t n = sv_shorter(strlen(a)), m = sv_shorter(strlen(b));
  size_t row[SV_COMPARED + 1];
  for (size_t k = 0; k <= m; k++) row[k] = k;
  for (size_t i = 1; i <= n; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t k = 1; k <= m; k++) {
      const size_t changed = diagonal + (a[i - 1] != b[k - 1]);
      diagonal = row[k];
      row[k] = sv_fewest(changed, sv_fewest(row[k], row[k - 1]) + 1);
    }
  }
  return row[m];
}

static bool sv_ends_with(const char *url, const char *path) {
  const size_t n = strlen(url), m = strlen(path);
  return m > 1 && n > m && !strcmp(url + n - m, path);
}

static bool sv_goes_on(const char *url, const char *path) {
  size_t n = strlen(url);
  while (n > 1 && url[n - 1] == '/') n--;
  return n > 1 && !strncmp(url, path, n) && path[n] == '/' && path[n + 1];
}

/* Orders the ways of being near. The longest end of a path wins, and the shortest continuation. */
static size_t sv_how_far(const char *url, const char *path) {
  const size_t changes = sv_distance(url, path);
  if (changes <= SV_TYPOS && path[1]) return changes;
  if (sv_ends_with(url, path)) return 2 * (size_t)SV_COMPARED - sv_shorter(strlen(path));
  if (sv_goes_on(url, path)) return 2 * (size_t)SV_COMPARED + strlen(path);
  return 4 * (size_t)SV_COMPARED + changes;
}

const sv_route *sv_nearest_route(const sv_route *routes, const char *url) {
  const sv_route *best = routes;
  size_t least = SIZE_MAX;
  for (const sv_route *r = routes; r->method; r++) {
    if (*r->path != '/') continue;
    const size_t far = sv_how_far(url, r->path);
    if (far >= least) continue;
    least = far;
    best = r;
  }
  return best;
}
