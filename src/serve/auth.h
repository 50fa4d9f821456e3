/* API keys. Only hashes of them are kept. */
#ifndef GA_SERVE_AUTH_H
#define GA_SERVE_AUTH_H

#include "ga/hash.h"

typedef struct sv_key {
  char hash[GA_SHA256_TEXT_BYTES];
  char name[48];   /* for the log; "key N" when the file gives none */
  uint64_t tenant; /* never 0 */
} sv_key;

typedef struct sv_keys {
  sv_key *p;
  size_t n;
} sv_keys;

/* One key a line: `key` or `name:key`. Empty lines and those that begin with # are passed over. */
ga_status sv_keys_load(const char *path, sv_keys *out);
void sv_keys_free(sv_keys *keys);
/* The key of an Authorization header ("Bearer KEY"), NULL when there is none. header may be NULL. Takes the same time
 * whichever key it is. */
const sv_key *sv_keys_find(const sv_keys *keys, const char *header);
/* The same for the key itself, as X-Api-Key has it. */
const sv_key *sv_keys_find_key(const sv_keys *keys, const char *key);

#endif
