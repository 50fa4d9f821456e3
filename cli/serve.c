/* ga serve: an HTTP server with the interface of OpenAI. */
#include "serve/serve.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "cli/engine_args.h"
#include "cli/serve_models.h"
#include "cli/serve_pull.h"
#include "cmdline/error.h"
#include "serve/duration.h"

typedef struct serve_args {
  engine_args engine;
  sv_options server;
  const char *host, *keys, *cors;
  int64_t port, max_waiting, max_body, max_connections, request_seconds;
  int64_t idle_seconds, drain_seconds, threads, response_store;
  double first_token_seconds;
  bool verbose, allow_pull;
  cmd_texts models;
  const char *keep_alive;
  double keep_seconds, memory_gib;
  int64_t max_models;
} serve_args;

/* --- signals --- */

static int stop_pipe[2] = {-1, -1};
static volatile sig_atomic_t n_stops;

static void on_stop(int number) {
  const int was = errno;
  if (n_stops) { /* the second one ends the process when this handler returns */
    (void)signal(number, SIG_DFL);
    (void)raise(number);
  }
  n_stops = 1;
  if (write(stop_pipe[1], "", 1) < 0) { /* the flag is set anyway */
  }
  errno = was;
}

static ga_status listen_for_stop(void) {
  struct sigaction action = {.sa_handler = on_stop, .sa_flags = SA_RESTART};
  REQUIRE(!pipe(stop_pipe), GA_ERR_IO, "pipe: %s", strerror(errno));
  (void)sigaction(SIGINT, &action, NULL);
  (void)sigaction(SIGTERM, &action, NULL);
  return GA_OK;
}

static void wait_for_stop(void) {
  struct pollfd p = {.fd = stop_pipe[0], .events = POLLIN};
  while (!n_stops) (void)poll(&p, 1, -1);
}

/* --- the server --- */

/* Each connection is a file to the system, which often allows 1024 unless it is asked. */
static void allow_connections(int64_t n) {
  struct rlimit limit;
  const rlim_t wanted = (rlim_t)n + 256;
  if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
  if (setrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur < wanted)
    (void)fprintf(stderr, "warning: the system allows %llu open files, --max-connections is %lld\n",
                  (unsigned long long)limit.rlim_cur, (long long)n);
}

static void print_log(void *user, const char *line) {
  char now[32] = "";
  struct tm t;
  const time_t seconds = time(NULL);
  (void)user;
  if (gmtime_r(&seconds, &t)) (void)strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ ", &t);
  flockfile(stderr);
  (void)fputs(now, stderr);
  cmd_put_text(stderr, line, strlen(line));
  (void)putc('\n', stderr);
  funlockfile(stderr);
}

static void print_ready(const serve_args *a, const sv_server *server, const serve_models *m) {
  const char *host = a->host;
  const bool is_v6 = strchr(host, ':') != NULL;
  printf("listening on http://%s%s%s:%d (", is_v6 ? "[" : "", host, is_v6 ? "]" : "", sv_server_port(server));
  if (m->n == 1) {
    printf("model ");
    cmd_put_text(stdout, m->source[0].id, strlen(m->source[0].id));
  } else {
    printf("%zu models, loaded when they are used", m->n);
  }
  printf(")\n");
  (void)fflush(stdout);
  if (!sv_server_is_loopback(server) && !a->keys)
    (void)fprintf(stderr, "warning: whoever reaches %s may use this server: there are no --api-keys\n", host);
}

/* Until nothing is answered any more, or --drain-seconds are over. */
static void wait_for_requests(const serve_args *a, const sv_server *server) {
  const struct timespec pause = {0, 20 * 1000 * 1000};
  for (int64_t left = a->drain_seconds * 50; left > 0 && sv_server_active(server); left--)
    (void)nanosleep(&pause, NULL);
}

/* Serves until a signal comes. */
static ga_status serve_models_until_stop(serve_args *a, serve_models *m, sv_server *server) {
  const sv_models_options options = {.source = m->source,
                                     .n = m->n,
                                     .load = serve_models_load,
                                     .unload = serve_models_unload,
                                     .user = m,
                                     .keep_seconds = a->keep_seconds,
                                     .most_loaded = (int32_t)a->max_models};
  TRY(sv_server_offer(server, &options));
  TRY(listen_for_stop());
  print_ready(a, server, m);
  wait_for_stop();
  sv_server_drain(server);
  (void)fprintf(stderr, "stopping: %d requests are being answered; a second signal ends at once\n",
                sv_server_active(server));
  wait_for_requests(a, server);
  return GA_OK;
}

static ga_status serve(serve_args *a, serve_models *m) {
  sv_server *server;
  m->max_waiting = (int32_t)a->max_waiting;
  m->memory_gib = a->memory_gib;
  a->server = (sv_options){.host = a->host,
                           .port = (int32_t)a->port,
                           .model_id = m->source[0].id,
                           .keys_path = a->keys,
                           .cors_origin = a->cors,
                           .max_body = (size_t)a->max_body << 20,
                           .max_connections = (int32_t)a->max_connections,
                           .request_seconds = (int32_t)a->request_seconds,
                           .idle_seconds = (int32_t)a->idle_seconds,
                           .threads = (int32_t)a->threads,
                           .first_token_seconds = a->first_token_seconds,
                           .max_waiting = (int32_t)a->max_waiting,
                           .most_turns = (size_t)a->response_store << 20,
                           .pull = a->allow_pull ? serve_pull : NULL,
                           .log = a->verbose ? print_log : NULL};
  (void)signal(SIGPIPE, SIG_IGN);
  allow_connections(a->max_connections);
  TRY(sv_server_create(&a->server, &server));
  const ga_status status = serve_models_until_stop(a, m, server);
  sv_server_destroy(server);
  a->server.model_id = NULL;
  return status;
}

static ga_status find_and_serve(serve_args *a) {
  serve_models m;
  ga_status status = serve_models_find(&a->engine, &a->models, &m);
  if (status == GA_OK) status = serve(a, &m);
  serve_models_free(&m);
  return status;
}

int cmd_serve(int argc, char **argv) {
  serve_args a = {.engine = ENGINE_ARGS_INIT,
                  .host = "127.0.0.1",
                  .port = 8080,
                  .max_waiting = 1024,
                  .max_body = 32,
                  .max_connections = 4096,
                  .request_seconds = 60,
                  .idle_seconds = 120,
                  .drain_seconds = 30,
                  .response_store = 256,
                  .keep_alive = "-1"};
  const cmd_option options[] = {
      {"model", 'm', OPT_LIST, &a.models, 0, 0, "MODEL",
       "file, folder, name of a pulled model (ga list), or hf:ORG/REPOSITORY[:TYPE]; several are loaded when they are "
       "used. A folder of models: all of them"},
      {"no-mmap", 0, OPT_FLAG, &a.engine.open.no_mmap, 0, 0, NULL,
       "read the model into memory instead of mapping its file, which may then change"},
      OPEN_DEVICE_OPTIONS(a.engine.open),
      {"keep-alive", 0, OPT_STRING, &a.keep_alive, 0, 0, "TIME",
       "time after which an idle model is unloaded: seconds, or 5m; -1 = when memory is short"},
      {"max-models", 0, OPT_INT, &a.max_models, 0, 1024, "N", "models that are loaded at once; 0 = as memory allows"},
      {"memory", 0, OPT_FLOAT, &a.memory_gib, 0, 1e6, "GIB", "host memory for models; 0 = most of the machine's"},
      ENGINE_OPTIONS(a.engine),
      {"host", 0, OPT_STRING, &a.host, 0, 0, "HOST",
       "address to listen on; 0.0.0.0 or :: = all. Without --api-keys whoever reaches it may use the server"},
      {"port", 'p', OPT_INT, &a.port, 0, 65535, "PORT", "port to listen on; 0 = any that is free"},
      {"api-keys", 0, OPT_STRING, &a.keys, 0, 0, "FILE", "keys that requests must show, KEY or NAME:KEY a line"},
      {"cors-origin", 0, OPT_STRING, &a.cors, 0, 0, "ORIGIN", "web pages of this origin may use the server; * = all"},
      {"max-waiting", 0, OPT_INT, &a.max_waiting, 1, 1 << 20, "N", "requests that may wait; beyond it they get 429"},
      {"first-token-seconds", 0, OPT_FLOAT, &a.first_token_seconds, 0, 1e6, "S",
       "requests that wait longer get 503; 0 = they wait"},
      {"max-body", 0, OPT_INT, &a.max_body, 1, 1024, "MIB", "largest body of a request, in MiB"},
      {"max-connections", 0, OPT_INT, &a.max_connections, 1, 1000000, "N", "connections at once"},
      {"request-seconds", 0, OPT_INT, &a.request_seconds, 1, 86400, "S", "time for a client to send its request"},
      {"idle-seconds", 0, OPT_INT, &a.idle_seconds, 1, 86400, "S",
       "close a connection on which nothing was sent for so long"},
      {"drain-seconds", 0, OPT_INT, &a.drain_seconds, 0, 86400, "S",
       "after SIGTERM or Ctrl-C: time for answers to end"},
      {"allow-pull", 0, OPT_FLAG, &a.allow_pull, 0, 0, NULL,
       "clients may fetch models into the models' folder by /api/pull; known names and hf: alone"},
      {"response-store", 0, OPT_INT, &a.response_store, 0, 1 << 20, "MIB",
       "memory for what /v1/responses keeps until the server ends, in MiB; 0 = nothing is kept"},
      {"http-threads", 0, OPT_INT, &a.threads, 0, 64, "N", "threads of HTTP; 0 = by the number of CPUs"},
      {"verbose", 'v', OPT_FLAG, &a.verbose, 0, 0, NULL, "a line for each request on stderr; never prompts or keys"},
  };
  int code, rest = cmd_parse("serve", "[options]", options, COUNT_OF(options), argc, argv, &code);
  if (rest < 0) return code;
  if (rest > 0) return cmd_usage_error("serve", "unexpected '%s'", argv[1]);
  for (size_t i = 0; i < (a.models.n ? a.models.n : 1); i++) {
    if (a.models.n) a.engine.open.model = a.models.item[i];
    if (open_args_check("serve", &a.engine.open)) return EXIT_USAGE;
  }
  if (engine_check("serve", &a.engine)) return EXIT_USAGE;
  if (!sv_read_duration(a.keep_alive, &a.keep_seconds))
    return cmd_usage_error("serve", "--keep-alive '%s': must be seconds, or a time such as 5m; -1 = no limit",
                           a.keep_alive);
  listen_for_interrupt();
  return find_and_serve(&a) == GA_OK ? EXIT_OK : cmd_fail("serve");
}
