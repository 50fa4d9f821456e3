/* API keys of the server's clients. Only hashes of the keys are kept. */
#ifndef GA_SERVE_AUTH_H
#define GA_SERVE_AUTH_H

#include "ga/hash.h"

typedef struct sv_key {
  char hash[GA_SHA256_TEXT_BYTES];
  char name[48];   /* name of the key in the log; "key N" if the file of keys gives no name */
  uint64_t tenant; /* owner of the requests with this key, as ga_request_options.tenant; never 0 */
} sv_key;

typedef struct sv_keys {
  sv_key *p;
  size_t n;
} sv_keys;

/* Reads a file of API keys with one key a line: `key` or `name:key`. Empty lines and lines that begin with # are
 * ignored. The caller frees *out with sv_keys_free. */
ga_status sv_keys_load(const char *path, sv_keys *out);
void sv_keys_free(sv_keys *keys);
/* Returns the key that an Authorization header ("Bearer KEY") has; NULL: it has none of the keys. header may be NULL.
 * The time that the search takes does not depend on the key. */
const sv_key *sv_keys_find(const sv_keys *keys, const char *header);
/* Returns the key whose text is `key`, which the header X-Api-Key has; NULL: there is no such key. */
const sv_key *sv_keys_find_key(const sv_keys *keys, const char *key);

#endif
