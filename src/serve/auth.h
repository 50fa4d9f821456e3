/* API keys. Only their hashes are kept. */
#ifndef GA_SERVE_AUTH_H
#define GA_SERVE_AUTH_H

#include "ga/hash.h"

typedef struct sv_key {
  char hash[GA_SHA256_TEXT_BYTES];
  char name[48];   /* name for the log; "key N" if the file gives none */
  uint64_t tenant; /* ga_request_options.tenant of requests with the key; never 0 */
} sv_key;

typedef struct sv_keys {
  sv_key *p;
  size_t n;
} sv_keys;

/* Reads a file with one key a line: `key` or `name:key`. Empty lines and lines that begin with # are ignored. */
ga_status sv_keys_load(const char *path, sv_keys *out);
void sv_keys_free(sv_keys *keys);
/* Finds the key of an Authorization header ("Bearer KEY"); NULL: there is none. header may be NULL. The time does
 * not depend on the key. */
const sv_key *sv_keys_find(const sv_keys *keys, const char *header);
/* Finds a key by its text, as the header X-Api-Key has it. */
const sv_key *sv_keys_find_key(const sv_keys *keys, const char *key);

#endif
