#include "cmdline/likeness.h"

#include <string.h>

/* How many letters must be changed, added, left out or swapped with their neighbour. LIKENESS_MOST bounds both. */
static size_t letters_apart(const char *a, const char *b) {
  const size_t n = strlen(a), m = strlen(b);
  size_t d[LIKENESS_MOST + 1][LIKENESS_MOST + 1];
  for (size_t i = 0; i <= n; i++)
    for (size_t j = 0; j <= m; j++) {
      size_t least = !i ? j : !j ? i : d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      if (i && d[i - 1][j] + 1 < least) least = d[i - 1][j] + 1;
      if (j && d[i][j - 1] + 1 < least) least = d[i][j - 1] + 1;
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      d[i][j] = swapped && d[i - 2][j - 2] + 1 < least ? d[i - 2][j - 2] + 1 : least;
    }
  return d[n][m];
}

size_t likeness(const char *name, const char *other) {
  const size_t a = strlen(name), b = strlen(other);
  if (a > LIKENESS_MOST || b > LIKENESS_MOST) return 0;
  const size_t apart = letters_apart(name, other);
  if (apart > 2 || 2 * apart > (a > b ? a : b)) return 0;
  return 2 * apart + 1 + (*name == *other ? 0 : 3);
}
