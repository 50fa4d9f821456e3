#include "serve/admit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "serve/nearest.h"

enum { SV_SHORT_BODY = 65536 };

static const char *sv_header(const sv_call *call, const char *name) {
  return MHD_lookup_connection_value(call->connection, MHD_HEADER_KIND, name);
}

static bool sv_route_has(const sv_route *r, const char *url) {
  const size_t n = strlen(r->path);
  return n > 1 && r->path[n - 1] == '/' ? !strncmp(url, r->path, n) : !strcmp(url, r->path);
}

void sv_list_methods(const sv_call *call, char out[SV_METHODS_BYTES]) {
  size_t n = 0;
  *out = 0;
  for (const sv_route *r = call->server->routes; r->method; r++)
    if (sv_route_has(r, call->url) && n < SV_METHODS_BYTES)
      n += (size_t)snprintf(out + n, SV_METHODS_BYTES - n, "%s%s", n ? ", " : "", r->method);
}

static bool sv_find_route(sv_call *call) {
  const char *method = strcmp(call->method, "HEAD") ? call->method : "GET";
  for (const sv_route *r = call->server->routes; r->method; r++) {
    if (!sv_route_has(r, call->url)) continue;
    call->route = r;
    if (!strcmp(method, r->method)) return true;
  }
  if (!call->route) {
    call->nearest = sv_nearest_route(call->server->routes, call->url);
    return sv_refuse(&call->fail, 404, "not_found", NULL, "There is no %.100s here; the nearest path is %.100s.",
                     call->url, call->nearest->path);
  }
  char allowed[SV_METHODS_BYTES];
  sv_list_methods(call, allowed);
  return sv_refuse(&call->fail, 405, "method_not_allowed", NULL, "%.20s is not allowed for %s; allowed: %s.",
                   call->method, call->route->path, allowed);
}

bool sv_is_local_host(const char *host) {
  const char *end = strrchr(host, ':');
  if (*host == '[') return strchr(host, ']') != NULL; /* an IPv6 address */
  const size_t n = end ? (size_t)(end - host) : strlen(host);
  if (n && strspn(host, "0123456789.") >= n) return true;
  static const char name[] = "localhost";
  const size_t length = sizeof name - 1;
  if (n < length || strncasecmp(host + n - length, name, length) != 0) return false;
  return n == length || host[n - length - 1] == '.';
}

/* A page that a browser shows may send requests here without being allowed to read the answers. */
static bool sv_check_page(sv_call *call) {
  const sv_server *s = call->server;
  const char *host = *call->authority ? call->authority : NULL, *origin = sv_header(call, "Origin");
  if (s->is_loopback && !s->keys.n && host && !sv_is_local_host(host))
    return sv_refuse(&call->fail, 403, "host_not_allowed", NULL,
                     "The Host header is \"%.100s\"; without API keys this server answers to localhost and addresses.",
                     host);
  if (!origin || (strcmp(call->method, "POST") != 0 && strcmp(call->method, "DELETE") != 0)) return true;
  if (s->o.cors_origin && (!strcmp(s->o.cors_origin, "*") || !strcmp(s->o.cors_origin, origin))) return true;
  const char *name = strstr(origin, "://");
  if (name && host && !strcasecmp(name + 3, host)) return true;
  return sv_refuse(&call->fail, 403, "origin_not_allowed", NULL,
                   "The page \"%.100s\" may not use this server; --cors-origin would allow it.", origin);
}

static bool sv_check_key(sv_call *call) {
  const sv_keys *keys = &call->server->keys;
  if (!keys->n || (call->route && call->route->is_public)) return true;
  call->key = sv_keys_find(keys, sv_header(call, "Authorization"));
  if (!call->key) call->key = sv_keys_find_key(keys, sv_header(call, "X-Api-Key"));
  return call->key ||
         sv_refuse(&call->fail, 401, "invalid_api_key", NULL,
                   "The API key is missing or wrong; send it as Authorization: Bearer KEY, or as X-Api-Key: KEY");
}

bool sv_refuse_body(const sv_server *s, sv_fail *fail) {
  return sv_refuse(fail, 413, "body_too_large", NULL, "The body is larger than %zu bytes.", s->o.max_body);
}

/* application/json, perhaps with parameters. */
static bool sv_is_json_type(const char *type) {
  static const char json[] = "application/json";
  const size_t n = sizeof json - 1;
  if (strncasecmp(type, json, n) != 0) return false;
  type += n + strspn(type + n, " \t");
  return !*type || *type == ';';
}

static bool sv_check_body(sv_call *call) {
  const char *length = sv_header(call, "Content-Length"), *type = sv_header(call, "Content-Type");
  if (strcmp(call->method, "POST") != 0) return true;
  if (type && !sv_is_json_type(type))
    return sv_refuse(&call->fail, 415, "unsupported_media_type", NULL,
                     "The Content-Type is \"%.60s\"; it must be application/json.", type);
  if (length && strtoull(length, NULL, 10) > call->server->o.max_body) return sv_refuse_body(call->server, &call->fail);
  return true;
}

bool sv_admit(sv_call *call) {
  if (!sv_check_page(call)) return false;
  if (!strcmp(call->method, "OPTIONS") && call->server->o.cors_origin) {
    const sv_route *r = call->server->routes;
    while (r->method && strcmp(r->method, "OPTIONS") != 0) r++;
    call->route = r;
    return true;
  }
  const bool found = sv_find_route(call);
  if (!sv_check_key(call)) return false;
  return found && sv_check_body(call);
}

bool sv_has_long_body(const sv_call *call) {
  const char *length = sv_header(call, "Content-Length");
  return sv_header(call, "Transfer-Encoding") || (length && strtoull(length, NULL, 10) > SV_SHORT_BODY);
}
