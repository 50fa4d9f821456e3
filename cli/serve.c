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
#include "cli/serve_pull.h"
#include "cmdline/error.h"

typedef struct serve_args {
  engine_args engine;
  sv_options server;
  const char *host, *keys, *cors;
  int64_t port, max_waiting, max_body, max_connections, request_seconds;
  int64_t idle_seconds, drain_seconds, threads, response_store;
  double first_token_seconds;
  bool verbose, allow_pull;
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

static void print_ready(const serve_args *a, const sv_server *server) {
  const char *host = a->host;
  const bool is_v6 = strchr(host, ':') != NULL;
  printf("listening on http://%s%s%s:%d (model ", is_v6 ? "[" : "", host, is_v6 ? "]" : "", sv_server_port(server));
  cmd_put_text(stdout, a->server.model_id, strlen(a->server.model_id));
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

static ga_status serve_model(const serve_args *a, sv_server *server) {
  opened o;
  ga_engine *engine;
  TRY(open_model(&a->engine.open, false, &o));
  ga_status status = engine_open(&a->engine, (int32_t)a->max_waiting, o.model, &engine);
  if (status == GA_OK) status = sv_server_open(server, o.model, engine);
  if (status == GA_OK) status = listen_for_stop();
  if (status == GA_OK) {
    print_ready(a, server);
    wait_for_stop();
    sv_server_drain(server);
    (void)fprintf(stderr, "stopping: %d requests are being answered; a second signal ends at once\n",
                  sv_server_active(server));
    wait_for_requests(a, server);
  }
  sv_server_destroy(server);
  ga_engine_destroy(engine);
  close_model(&o);
  return status;
}

static ga_status serve(serve_args *a) {
  sv_server *server;
  char name[256], path[4096];
  const char *comma = a->engine.alias ? strchr(a->engine.alias, ',') : NULL;
  engine_model_name(&a->engine, name, sizeof name);
  REQUIRE(*name, GA_ERR_ARG, "--alias is empty");
  TRY(find_model(a->engine.open.model, path, sizeof path));
  a->server = (sv_options){.host = a->host,
                           .port = (int32_t)a->port,
                           .model_id = name,
                           .model_path = path,
                           .other_names = comma ? comma + 1 : NULL,
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
  TRY(engine_formats(&a->engine, &a->server.tools, &a->server.thinks));
  TRY(engine_defaults(&a->engine, &a->server.defaults));
  (void)signal(SIGPIPE, SIG_IGN);
  allow_connections(a->max_connections);
  TRY(sv_server_create(&a->server, &server));
  ga_status status = serve_model(a, server);
  a->server.model_id = a->server.model_path = a->server.other_names = NULL;
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
                  .response_store = 256};
  const cmd_option options[] = {
      OPEN_MODEL_OPTIONS(a.engine.open),
      ENGINE_OPTIONS(a.engine),
      {"host", 0, OPT_STRING, &a.host, 0, 0, "HOST",
       "address to listen on; 0.0.0.0 or :: = all, which needs --api-keys"},
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
  if (open_args_check("serve", &a.engine.open) || engine_check("serve", &a.engine)) return EXIT_USAGE;
  listen_for_interrupt();
  return serve(&a) == GA_OK ? EXIT_OK : cmd_fail("serve");
}
