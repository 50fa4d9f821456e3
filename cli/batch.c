/* ga batch: a file of requests through one engine, as fast as it goes. The requests are answered by a server of this
 * process's own (src/serve), so that an answer is what `ga serve` would give. Killed half-way and run again, it goes on
 * behind what is in the output. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <curl/curl.h>

#include "cli/batch_file.h"
#include "cli/engine_args.h"
#include "cmdline/error.h"
#include "serve/serve.h"
#include "text/json_io.h"

enum { MAX_IN_FLIGHT = 1024, RETRY_MS = 200 };

typedef struct batch_args {
  engine_args engine;
  const char *out;
  int64_t in_flight;
  bool skips_malformed;
} batch_args;

/* A request under way. */
typedef struct flight {
  CURL *curl;
  batch_line line;
  char *sent; /* its body */
  char *body; /* of the answer */
  size_t n, room;
  bool no_memory, busy;
} flight;

typedef struct batch {
  const batch_args *args;
  batch_in in;
  batch_out out;
  int64_t n_lines, n_done, n_failed, n_tokens;
  sv_server *server;
  char key[40], base[64];
  struct curl_slist *headers;
  CURLM *multi;
  flight *flights;
  int32_t n_flights;
  bool input_over;
} batch;

/* --- one request --- */

static size_t take_bytes(char *data, size_t size, size_t n, void *user) {
  flight *f = user;
  const size_t bytes = size * n;
  if (f->n + bytes + 1 > f->room) {
    const size_t room = (f->n + bytes + 1) * 2;
    char *bigger = realloc(f->body, room);
    f->no_memory = !bigger;
    if (!bigger) return 0;
    f->body = bigger;
    f->room = room;
  }
  memcpy(f->body + f->n, data, bytes);
  f->n += bytes;
  return bytes;
}

static ga_status send_request(batch *b, flight *f) {
  char url[1024];
  f->n = 0;
  if (!f->sent) f->sent = ga_json_dump(f->line.body, JSON_COMPACT | JSON_REAL_PRECISION(17));
  if (!f->sent) return fail_nomem("request", 0);
  REQUIRE((size_t)snprintf(url, sizeof url, "%s%s", b->base, f->line.url) < sizeof url, GA_ERR_FORMAT,
          "%s, line %lld: url is too long", b->in.path, (long long)f->line.number);
  curl_easy_reset(f->curl);
  (void)curl_easy_setopt(f->curl, CURLOPT_URL, url);
  (void)curl_easy_setopt(f->curl, CURLOPT_NOPROXY, "*");
  (void)curl_easy_setopt(f->curl, CURLOPT_HTTPHEADER, b->headers);
  (void)curl_easy_setopt(f->curl, CURLOPT_POSTFIELDS, f->sent);
  (void)curl_easy_setopt(f->curl, CURLOPT_WRITEFUNCTION, take_bytes);
  (void)curl_easy_setopt(f->curl, CURLOPT_WRITEDATA, f);
  (void)curl_easy_setopt(f->curl, CURLOPT_PRIVATE, f);
  REQUIRE(curl_multi_add_handle(b->multi, f->curl) == CURLM_OK, GA_ERR_IO, "batch: curl takes no more requests");
  f->busy = true;
  return GA_OK;
}

/* Sends the next request that has no answer yet. */
static ga_status send_next(batch *b, flight *f) {
  while (!b->input_over) {
    TRY(batch_in_next(&b->in, &f->line));
    b->input_over = !f->line.json;
    if (b->input_over) return GA_OK;
    if (!batch_out_has(&b->out, f->line.custom_id)) return send_request(b, f);
    batch_line_free(&f->line);
  }
  return GA_OK;
}

static void count_tokens(batch *b, const flight *f) {
  json_error_t error;
  json_t *answer = ga_json_load(f->body, f->n, GA_JSON_PYTHON, &error);
  b->n_tokens += json_integer_value(json_object_get(json_object_get(answer, "usage"), "completion_tokens"));
  json_decref(answer);
}

/* An answer has come. A full queue is asked again; a server that has failed ends the batch, and nothing is written. */
static ga_status take_answer(batch *b, flight *f, CURLcode result) {
  long http = 0;
  (void)curl_multi_remove_handle(b->multi, f->curl);
  (void)curl_easy_getinfo(f->curl, CURLINFO_RESPONSE_CODE, &http);
  f->busy = false;
  if (f->no_memory) return fail_nomem("answer", f->n);
  REQUIRE(result == CURLE_OK, GA_ERR_IO, "%s, line %lld: %s", b->in.path, (long long)f->line.number,
          curl_easy_strerror(result));
  REQUIRE(http != 503, GA_ERR_STATE, "%s, line %lld: the engine has ended: %.*s", b->in.path, (long long)f->line.number,
          f->n < 300 ? (int)f->n : 300, f->n ? f->body : "");
  if (http == 429) {
    const struct timespec pause = {0, RETRY_MS * 1000000L};
    (void)nanosleep(&pause, NULL);
    return send_request(b, f);
  }
  TRY(batch_out_put(&b->out, &f->line, http, f->n ? f->body : "", f->n));
  b->n_done++;
  b->n_failed += http != 200;
  if (http == 200) count_tokens(b, f);
  free(f->sent);
  f->sent = NULL;
  batch_line_free(&f->line);
  cmd_progress("requests", (uint64_t)b->n_done, (uint64_t)b->n_lines);
  return send_next(b, f);
}

/* --- all --- */

static int32_t busy_flights(const batch *b) {
  int32_t n = 0;
  for (int32_t i = 0; i < b->n_flights; i++) n += b->flights[i].busy;
  return n;
}

static ga_status run_flights(batch *b) {
  for (int32_t i = 0; i < b->n_flights; i++) TRY(send_next(b, &b->flights[i]));
  while (busy_flights(b)) {
    int running, left;
    REQUIRE(!interrupted(), GA_ERR_CANCELLED, "stopped; %lld of %lld requests are answered, the same command goes on",
            (long long)b->n_done, (long long)b->n_lines);
    REQUIRE(curl_multi_perform(b->multi, &running) == CURLM_OK &&
                curl_multi_poll(b->multi, NULL, 0, 200, NULL) == CURLM_OK,
            GA_ERR_IO, "batch: curl has failed");
    for (CURLMsg *m; (m = curl_multi_info_read(b->multi, &left)) != NULL;) {
      char *user = NULL;
      if (m->msg != CURLMSG_DONE) continue;
      const CURLcode result = m->data.result;
      (void)curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &user);
      TRY(take_answer(b, (flight *)(void *)user, result));
    }
  }
  return GA_OK;
}

/* A key that nobody else on this machine has: the server listens on a port of the loopback. */
static ga_status write_key(batch *b, char *path) {
  unsigned char bytes[16];
  REQUIRE(getrandom(bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes, GA_ERR_IO, "random numbers: %s", strerror(errno));
  for (size_t i = 0; i < sizeof bytes; i++) (void)snprintf(b->key + 2 * i, 3, "%02x", bytes[i]);
  const int fd = mkstemp(path);
  REQUIRE(fd >= 0, GA_ERR_IO, "%s: %s", path, strerror(errno));
  const bool written = dprintf(fd, "%s\n", b->key) > 0;
  (void)close(fd);
  REQUIRE(written, GA_ERR_IO, "%s: %s", path, strerror(errno));
  return GA_OK;
}

static ga_status start_server(batch *b, const char *name, const opened *o, ga_engine *engine) {
  char path[] = "/tmp/ga-batch-XXXXXX", header[128];
  sv_options so = {.host = "127.0.0.1",
                   .model_id = name,
                   .keys_path = path,
                   .max_body = (size_t)1 << 30,
                   .max_connections = MAX_IN_FLIGHT + 16,
                   .request_seconds = 3600,
                   .idle_seconds = 3600,
                   .max_waiting = MAX_IN_FLIGHT};
  TRY(engine_profile(&b->args->engine, &so.profile));
  ga_status status = engine_formats(&b->args->engine, &so.profile, &so.tools, &so.thinks);
  if (status == GA_OK) status = write_key(b, path);
  if (status == GA_OK) status = sv_server_create(&so, &b->server);
  sv_profile_free(&so.profile);
  (void)unlink(path);
  TRY(status);
  (void)snprintf(b->base, sizeof b->base, "http://127.0.0.1:%d", sv_server_port(b->server));
  (void)snprintf(header, sizeof header, "Authorization: Bearer %s", b->key);
  b->headers = curl_slist_append(NULL, "Content-Type: application/json");
  b->headers = b->headers ? curl_slist_append(b->headers, header) : NULL;
  if (!b->headers) return fail_nomem("batch", 0);
  return sv_server_open(b->server, o->model, engine);
}

static ga_status make_flights(batch *b) {
  const int64_t asked = b->args->in_flight, sequences = b->args->engine.max_sequences;
  b->n_flights = (int32_t)(asked ? asked : sequences ? 2 * sequences : 64);
  if (b->n_flights > MAX_IN_FLIGHT) b->n_flights = MAX_IN_FLIGHT;
  b->flights = calloc((size_t)b->n_flights, sizeof *b->flights);
  b->multi = curl_multi_init();
  if (!b->flights || !b->multi) return fail_nomem("batch", 0);
  for (int32_t i = 0; i < b->n_flights; i++) {
    b->flights[i].curl = curl_easy_init();
    if (!b->flights[i].curl) return fail_nomem("batch", 0);
  }
  return GA_OK;
}

static void end_flights(batch *b) {
  for (int32_t i = 0; b->flights && i < b->n_flights; i++) {
    flight *f = &b->flights[i];
    if (f->busy) (void)curl_multi_remove_handle(b->multi, f->curl);
    curl_easy_cleanup(f->curl);
    batch_line_free(&f->line);
    free(f->sent);
    free(f->body);
  }
  free(b->flights);
  (void)curl_multi_cleanup(b->multi);
  curl_slist_free_all(b->headers);
}

static ga_status run_requests(batch *b) {
  char name[256];
  opened o;
  ga_engine *engine;
  engine_model_name(&b->args->engine, name, sizeof name);
  REQUIRE(*name, GA_ERR_ARG, "--alias is empty");
  TRY(open_model(&b->args->engine.open, false, &o));
  ga_status status = engine_open(&b->args->engine, MAX_IN_FLIGHT, o.model, &engine);
  if (status == GA_OK) status = start_server(b, name, &o, engine);
  if (status == GA_OK) status = make_flights(b);
  if (status == GA_OK) status = run_flights(b);
  end_flights(b);
  sv_server_destroy(b->server);
  ga_engine_destroy(engine);
  close_model(&o);
  return status;
}

static double seconds_now(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void tell_skipped(const char *fault) {
  (void)fprintf(stderr, "ga batch: passed over: ");
  cmd_put_text(stderr, fault, strlen(fault));
  (void)putc('\n', stderr);
}

static ga_status answer_file(const batch_args *a, const char *input) {
  batch b = {.args = a};
  TRY(batch_in_open(input, &b.in));
  b.in.skips_malformed = a->skips_malformed;
  b.in.skipped = tell_skipped;
  ga_status status = batch_out_check(a->out, &b.in);
  if (status == GA_OK) status = batch_in_check(&b.in, &b.n_lines);
  const int64_t n_skipped = b.in.n_skipped;
  if (status == GA_OK) status = batch_out_open(a->out, &b.out);
  const int64_t before = (int64_t)b.out.done.n;
  const double start = seconds_now();
  b.n_done = before;
  if (status == GA_OK) status = run_requests(&b);
  batch_in_close(&b.in);
  batch_out_close(&b.out);
  TRY(status);
  if (n_skipped)
    (void)fprintf(stderr, "%lld malformed line%s passed over\n", (long long)n_skipped, n_skipped == 1 ? "" : "s");
  (void)fprintf(stderr, "%lld request%s, %lld of them before; %lld were refused; %lld tokens in %.1f s\n",
                (long long)b.n_done, b.n_done == 1 ? "" : "s", (long long)before, (long long)b.n_failed,
                (long long)b.n_tokens, seconds_now() - start);
  return GA_OK;
}

int cmd_batch(int argc, char **argv) {
  batch_args a = {.engine = ENGINE_ARGS_INIT};
  const cmd_option options[] = {
      {"output", 'o', OPT_STRING, &a.out, 0, 0, "FILE",
       "where answers go; requests that have an answer there are skipped"},
      {"in-flight", 0, OPT_INT, &a.in_flight, 0, MAX_IN_FLIGHT, "N",
       "requests in flight at once; 0 = twice --max-sequences, or 64 without it"},
      {"skip-malformed", 0, OPT_FLAG, &a.skips_malformed, 0, 0, NULL,
       "pass over lines that are no requests, instead of answering none"},
      OPEN_MODEL_OPTIONS(a.engine.open),
      ENGINE_OPTIONS(a.engine),
  };
  int code,
      rest = cmd_parse("batch", "-o FILE [options] REQUESTS.jsonl", options, COUNT_OF(options), argc, argv, &code);
  if (rest < 0) return code;
  if (rest != 1) return cmd_usage_error("batch", "give one file of requests, a JSON object a line");
  if (!strcmp(argv[1], "-")) return cmd_usage_error("batch", "the requests must be a file, which is read twice; not -");
  if (open_args_check("batch", &a.engine.open) || engine_check("batch", &a.engine)) return EXIT_USAGE;
  if (!a.out) return cmd_usage_error("batch", "-o FILE is missing: where the answers go");
  if (cmd_check_out("batch", a.out)) return EXIT_USAGE;
  listen_for_interrupt();
  (void)signal(SIGPIPE, SIG_IGN);
  return answer_file(&a, argv[1]) == GA_OK ? EXIT_OK : interrupted() ? cmd_fail("batch"),
         EXIT_STOPPED : cmd_fail("batch");
}
