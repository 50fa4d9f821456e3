#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "serve/accept.h"
#include "serve/attach.h"
#include "serve/embed.h"
#include "serve/models.h"
#include "serve/routes.h"

/* --- the beginning --- */

static ga_status sv_find_address(sv_server *s, struct sockaddr_storage *out) {
  const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
  struct addrinfo *found = NULL;
  char port[16];
  (void)snprintf(port, sizeof port, "%d", s->o.port);
  const int rc = getaddrinfo(s->o.host, port, &hints, &found);
  if (rc) return ga_error_set(GA_ERR_ARG, "host '%s': %s", s->o.host, gai_strerror(rc));
  memcpy(out, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  const struct sockaddr_in *v4 = (const void *)out;
  const struct sockaddr_in6 *v6 = (const void *)out;
  s->is_loopback =
      out->ss_family == AF_INET ? ntohl(v4->sin_addr.s_addr) >> 24 == 127 : IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
  return GA_OK;
}

/* The socket, so that what is wrong with the address has a text. */
static ga_status sv_listen(sv_server *s, int *out) {
  struct sockaddr_storage address;
  const int on = 1;
  ga_status status = sv_find_address(s, &address);
  if (status != GA_OK) return status;
  const socklen_t bytes = address.ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
  const int fd = *out = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return ga_error_set(GA_ERR_IO, "host '%s': %s", s->o.host, strerror(errno));
  (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* a port that was used a moment ago */
  socklen_t length = sizeof address;
  if (bind(fd, (struct sockaddr *)&address, bytes) || listen(fd, 1024) ||
      getsockname(fd, (struct sockaddr *)&address, &length)) {
    const int why = errno;
    (void)close(fd);
    *out = -1;
    return ga_error_set(GA_ERR_IO, "host %s, port %d: %s%s", s->o.host, s->o.port, strerror(why),
                        why == EADDRINUSE ? "; another program listens there, choose another --port" : "");
  }
  s->port = ntohs(address.ss_family == AF_INET ? ((struct sockaddr_in *)&address)->sin_port
                                               : ((struct sockaddr_in6 *)&address)->sin6_port);
  return GA_OK;
}

static unsigned sv_threads(const sv_server *s) {
  const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  if (s->o.threads > 0) return (unsigned)s->o.threads;
  return cpus < 4 ? 2 : cpus > 16 ? 8 : (unsigned)cpus / 2;
}

/* Bytes of a connection's buffer: a head of SV_HEAD_BYTES and what the library makes of it. Its unused pages take no
 * memory. */
enum { SV_CONNECTION_BYTES = 65536 };

static ga_status sv_start_http(sv_server *s) {
  const unsigned threads = sv_threads(s), most = (unsigned)s->o.max_connections;
  ga_status status = sv_listen(s, &s->listen_fd);
  if (status != GA_OK) return status;
  /* The acceptor keeps the limit; the library divides its own among threads. */
  s->daemon = MHD_start_daemon(
      MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ITC, 0, NULL, NULL,
      sv_on_request, s, MHD_OPTION_THREAD_POOL_SIZE, threads, MHD_OPTION_CONNECTION_LIMIT, most + 2 * threads,
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)SV_CONNECTION_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
      (unsigned)s->o.idle_seconds, MHD_OPTION_URI_LOG_CALLBACK, sv_on_target, s, MHD_OPTION_NOTIFY_COMPLETED,
      sv_on_completed, s, MHD_OPTION_NOTIFY_CONNECTION, sv_on_connection, s, MHD_OPTION_END);
  if (!s->daemon)
    return ga_error_set(GA_ERR_IO, "server: cannot start HTTP with %u threads and %u connections", threads, most);
  const sv_accept_options accept = {s->listen_fd, s->daemon, most, (double)s->o.request_seconds};
  return sv_acceptor_start(&accept, &s->acceptor);
}

static bool sv_copy_text(const char **text) {
  if (!*text) return true;
  *text = strdup(*text);
  return *text != NULL;
}

static ga_status sv_copy_options(sv_server *s, const sv_options *o) {
  s->o = *o;
  s->o.keys_path = NULL;
  s->o.profile = (sv_profile){0};
  const char **const texts[] = {&s->o.host, &s->o.model_id, &s->o.cors_origin, &s->o.other_names, &s->o.model_path};
  bool ok = true;
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) ok &= sv_copy_text(texts[i]);
  if (!ok) return ga_error_set(GA_ERR_NOMEM, "server: no memory");
  return sv_profile_copy(&o->profile, &s->o.profile, &s->given);
}

ga_status sv_server_create(const sv_options *options, sv_server **out) {
  sv_server *s = *out = calloc(1, sizeof *s);
  if (!s) return ga_error_set(GA_ERR_NOMEM, "server: no memory");
  s->host = s;
  s->listen_fd = -1;
  sv_metrics_init(&s->metrics);
  s->routes = sv_routes;
  s->created = time(NULL);
  json_object_seed(0); /* before there are threads */
  if (getrandom(&s->id_seed, sizeof s->id_seed, GRND_NONBLOCK) != (ssize_t)sizeof s->id_seed)
    s->id_seed = (uint64_t)s->created << 20 ^ (uint64_t)getpid();
  ga_status status = sv_copy_options(s, options);
  if (status == GA_OK && options->keys_path) status = sv_keys_load(options->keys_path, &s->keys);
  if (status == GA_OK && s->o.most_turns && !(s->turns = sv_turns_create(s->o.most_turns)))
    status = ga_error_set(GA_ERR_NOMEM, "server: no memory");
  if (status == GA_OK) status = sv_wake_start(&s->wake);
  if (status == GA_OK) status = sv_crew_start(&s->crew);
  if (status == GA_OK) status = sv_start_http(s);
  if (status != GA_OK) {
    sv_server_destroy(s);
    *out = NULL;
  }
  return status;
}

ga_status sv_server_open(sv_server *s, ga_model *model, ga_engine *engine) {
  ga_status status = s->o.model_path ? sv_facts_read(s->o.model_path, &s->facts) : GA_OK;
  if (status == GA_OK) status = sv_server_attach(s, model, engine);
  if (status == GA_OK) atomic_store(&s->phase, SV_READY);
  return status;
}

ga_status sv_server_offer(sv_server *s, const sv_models_options *options) {
  ga_status status = sv_models_start(s, options, &s->models);
  if (status == GA_OK && options->n == 1) status = sv_models_load_first(s->models);
  if (status == GA_OK) atomic_store(&s->phase, SV_READY);
  return status;
}

int32_t sv_server_port(const sv_server *s) { return s->port; }
bool sv_server_is_loopback(const sv_server *s) { return s->is_loopback; }
int32_t sv_server_active(const sv_server *s) { return atomic_load(&s->active); }

/* --- the end --- */

void sv_server_drain(sv_server *s) { atomic_store(&s->phase, SV_DRAINING); }

void sv_server_destroy(sv_server *s) {
  const struct timespec pause = {0, 10 * 1000 * 1000};
  if (!s) return;
  atomic_store(&s->phase, SV_ENDING);
  sv_acceptor_stop(s->acceptor);
  if (s->listen_fd >= 0) (void)close(s->listen_fd);
  if (s->daemon) {
    sv_wake_end_waiting(s->wake);
    /* Those that wait get their error, unless they do not read. */
    for (int i = 0; i < 200 && sv_server_active(s); i++) (void)nanosleep(&pause, NULL);
    sv_crew_stop(s->crew); /* no connection may be suspended when the daemon stops */
    MHD_stop_daemon(s->daemon);
  }
  sv_crew_stop(s->crew);
  sv_crew_destroy(s->crew);
  sv_models_stop(s->models);
  sv_embedder_stop(s->embedder);
  sv_wake_stop(s->wake);
  sv_keys_free(&s->keys);
  sv_metrics_destroy(&s->metrics);
  sv_turns_destroy(s->turns);
  free((void *)(uintptr_t)s->o.host);
  free((void *)(uintptr_t)s->o.model_id);
  free((void *)(uintptr_t)s->o.other_names);
  free((void *)(uintptr_t)s->o.model_path);
  free((void *)(uintptr_t)s->o.cors_origin);
  sv_profile_free(&s->o.profile);
  ga_template_destroy(s->given);
  free(s);
}
