#include "serve/auth.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { SV_MAX_KEY = 1024, SV_MAX_KEYS = 65536 };

void sv_keys_free(sv_keys *keys) {
  free(keys->p);
  *keys = (sv_keys){0};
}

static ga_status sv_add_key(sv_keys *keys, const char *path, size_t line, const char *text) {
  const char *colon = strchr(text, ':'), *key = colon ? colon + 1 : text;
  if (!*key) return ga_error_set(GA_ERR_FORMAT, "%s:%zu: the key is empty", path, line);
  if (keys->n == SV_MAX_KEYS) return ga_error_set(GA_ERR_FORMAT, "%s: more than %d keys", path, SV_MAX_KEYS);
  sv_key *p = realloc(keys->p, (keys->n + 1) * sizeof *p);
  if (!p) return ga_error_set(GA_ERR_NOMEM, "%s: no memory for keys", path);
  keys->p = p;
  p += keys->n++;
  ga_sha256_of(key, strlen(key), p->hash);
  if (colon)
    (void)snprintf(p->name, sizeof p->name, "%.*s", (int)(colon - text), text);
  else
    (void)snprintf(p->name, sizeof p->name, "key %zu", keys->n);
  char head[17];
  memcpy(head, p->hash, 16);
  head[16] = 0;
  p->tenant = strtoull(head, NULL, 16) | 1;
  return GA_OK;
}

ga_status sv_keys_load(const char *path, sv_keys *out) {
  char line[SV_MAX_KEY + 2];
  size_t number = 0;
  ga_status status = GA_OK;
  *out = (sv_keys){0};
  FILE *f = fopen(path, "r");
  if (!f) return ga_error_set(GA_ERR_IO, "%s: %s", path, strerror(errno));
  while (status == GA_OK && fgets(line, sizeof line, f)) {
    size_t n = strlen(line);
    number++;
    if (n == sizeof line - 1 && line[n - 1] != '\n')
      status = ga_error_set(GA_ERR_FORMAT, "%s:%zu: longer than %d bytes", path, number, SV_MAX_KEY);
    while (n && strchr(" \t\r\n", line[n - 1])) line[--n] = 0;
    const char *text = line + strspn(line, " \t");
    if (status == GA_OK && *text && *text != '#') status = sv_add_key(out, path, number, text);
  }
  if (status == GA_OK && ferror(f)) status = ga_error_set(GA_ERR_IO, "%s: %s", path, strerror(errno));
  (void)fclose(f);
  explicit_bzero(line, sizeof line);
  if (status == GA_OK && !out->n) status = ga_error_set(GA_ERR_FORMAT, "%s: no keys in it", path);
  if (status != GA_OK) sv_keys_free(out);
  return status;
}

const sv_key *sv_keys_find(const sv_keys *keys, const char *header) {
  if (!header || strncasecmp(header, "Bearer ", 7) != 0) return NULL;
  return sv_keys_find_key(keys, header + 7 + strspn(header + 7, " "));
}

const sv_key *sv_keys_find_key(const sv_keys *keys, const char *key) {
  char hash[GA_SHA256_TEXT_BYTES];
  size_t found = keys->n;
  if (!key) return NULL;
  ga_sha256_of(key, strlen(key), hash);
  for (size_t i = 0; i < keys->n; i++) {
    unsigned different = 0;
    for (size_t k = 0; k < GA_SHA256_TEXT_BYTES - 1; k++)
      different |= (unsigned char)hash[k] ^ (unsigned char)keys->p[i].hash[k];
    found = different ? found : i;
  }
  return found < keys->n ? &keys->p[found] : NULL;
}
