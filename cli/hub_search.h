/* Searching the listing of the hub. */
#ifndef GA_CLI_HUB_SEARCH_H
#define GA_CLI_HUB_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ga/base.h"

enum { HUB_MOST_FOUND = 100 }; /* largest number of repositories of one search */

typedef struct hub_repo {
  char name[264]; /* hf:ORGANISATION/REPOSITORY */
  int64_t downloads, likes;
  char updated[11]; /* date of the last change, as 2026-11-29; "" = not known */
  bool is_gated;    /* its files need a token of someone who has accepted its terms */
} hub_repo;

/* Finds repositories whose names contain the words of `text` and that have files of a format ("gguf" or "safetensors"),
 * ordered by downloads. most: at most so many. seconds: the search fails after this time; 0 = no limit. The
 * caller frees *out with free. */
ga_status hub_search(const char *text, const char *format, int64_t most, long seconds, hub_repo **out, size_t *n);

#endif
