/* A level: so many streams that are busy all the time, or requests that come at random times. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/rng.h"
#include "base/status.h"
#include "cmdline/cmd.h"
#include "cmdline/interrupt.h"
#include "verify/bench/serve_client.h"

#define WAIT_MS        100 /* longest wait for the network, then Ctrl-C is looked for */
#define PAUSED_MS      10  /* while a stream pauses after a failure */
#define LOST_AFTER     20  /* refused connections in a row */
#define LEAST_REQUESTS 16
#define LEVEL_SECONDS  10.0 /* of arrivals, when nothing says how many */

/* --- the pool --- */

/* Streams are sockets: as many files as this process may have. */
static void raise_file_limit(void) {
  struct rlimit r;
  if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur >= r.rlim_max) return;
  r.rlim_cur = r.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &r);
}

ga_status client_pool_create(const client_args *a, const client_target *t, const json_t *lines, client_pool **out) {
  client_pool *p = calloc(1, sizeof *p);
  *out = NULL;
  GA_REQUIRE(p, GA_ERR_NOMEM, "bench: no memory");
  p->args = a;
  p->target = t;
  p->lines = lines;
  p->multi = curl_multi_init();
  raise_file_limit();
  if (!p->multi) {
    client_pool_destroy(p);
    return ga_fail(GA_ERR_NOMEM, "libcurl cannot start");
  }
  *out = p;
  return GA_OK;
}

void client_pool_destroy(client_pool *p) {
  if (!p) return;
  for (int i = 0; i < p->n; i++) {
    if (p->streams[i]->busy) (void)curl_multi_remove_handle(p->multi, p->streams[i]->curl);
    client_stream_destroy(p->streams[i]);
  }
  (void)curl_multi_cleanup(p->multi);
  free(p);
}

/* --- one level --- */

typedef struct client_run {
  client_pool *pool;
  const client_args *args;
  client_level *l;
  bool open_loop;
  int64_t requests;                       /* 0 = no end but of time */
  double start, now, due, end, tail_from; /* due: of the next arrival; end: of the last answer */
  int in_flight, most;                    /* most: streams that may be used */
  int refused;                            /* in a row */
  ga_rng rng;
} client_run;

/* Is there another request to start, now or later? */
static bool run_has_more(const client_run *r) {
  const double next = r->open_loop ? r->due : r->now;
  return !interrupted() && !r->l->lost && (!r->requests || r->l->started < r->requests) &&
         (!(r->args->seconds > 0) || next - r->start < r->args->seconds);
}

/* A stream that may start; a new one where the pool has too few. *out is NULL when all are busy or pause. */
static ga_status find_stream(client_run *r, client_stream **out) {
  client_pool *p = r->pool;
  *out = NULL;
  for (int i = 0; i < p->n && i < r->most; i++) {
    client_stream *s = p->streams[i];
    if (s->busy || (!r->open_loop && s->not_before > r->now)) continue;
    *out = s;
    return GA_OK;
  }
  if (p->n >= r->most) return GA_OK;
  GA_TRY(client_stream_create(p->target, out));
  p->streams[p->n++] = *out;
  return GA_OK;
}

static ga_status start_one(client_run *r, client_stream *s) {
  client_pool *p = r->pool;
  char *body = client_body(p->args, p->target, p->lines, p->n_bodies++);
  GA_REQUIRE(body, GA_ERR_NOMEM, "bench: no memory for a request");
  const double now = ga_seconds(), due = r->open_loop ? r->due : now;
  if (now - due > r->l->late) r->l->late = now - due;
  GA_TRY(client_stream_start(s, p->multi, body, due));
  r->l->started++;
  r->in_flight++;
  /* The times between Poisson arrivals have an exponential distribution. */
  if (r->open_loop) r->due -= log(1 - ga_rng_unit(&r->rng)) / r->l->level;
  return GA_OK;
}

static ga_status start_all(client_run *r) {
  while (run_has_more(r) && (!r->open_loop || r->due <= r->now)) {
    client_stream *s;
    GA_TRY(find_stream(r, &s));
    if (!s) break;
    GA_TRY(start_one(r, s));
    r->now = ga_seconds();
  }
  return GA_OK;
}

static void show_progress(const client_run *r) {
  char what[40];
  const double by_time = r->args->seconds > 0 ? (r->now - r->start) / r->args->seconds : 0,
               by_count = r->requests ? (double)(r->l->completed + r->l->failed) / (double)r->requests : 0,
               share = by_time > by_count ? by_time : by_count;
  (void)snprintf(what, sizeof what, "%s %g", r->open_loop ? "rate" : "streams", r->l->level);
  cmd_progress(what, (uint64_t)(share < 1 ? share * 1000 : 999), 1000);
}

static ga_status finish_one(client_run *r, CURL *curl, CURLcode rc) {
  client_stream *s = NULL;
  (void)curl_easy_getinfo(curl, CURLINFO_PRIVATE, (char **)&s);
  GA_REQUIRE(s, GA_ERR_INTERNAL, "bench: libcurl has lost a stream");
  GA_TRY(client_stream_finish(s, r->pool->multi, rc, r->args, r->l));
  r->now = r->end = ga_seconds();
  r->in_flight--;
  r->refused = !strcmp(s->kind, "refused") ? r->refused + 1 : 0;
  if (r->refused >= LOST_AFTER) r->l->lost = true;
  if (!run_has_more(r) && !(r->tail_from > 0)) r->tail_from = r->now;
  show_progress(r);
  return GA_OK;
}

static ga_status finish_requests(client_run *r) {
  CURLMsg *m;
  int left, running;
  const CURLMcode rc = curl_multi_perform(r->pool->multi, &running);
  GA_REQUIRE(!rc, GA_ERR_IO, "bench: %s", curl_multi_strerror(rc));
  while ((m = curl_multi_info_read(r->pool->multi, &left)))
    if (m->msg == CURLMSG_DONE) GA_TRY(finish_one(r, m->easy_handle, m->data.result));
  return GA_OK;
}

/* Waits for the network, at most until the next start. */
static ga_status wait_for_more(client_run *r) {
  int ms = WAIT_MS;
  r->now = ga_seconds();
  const bool more = run_has_more(r);
  if (more && !r->open_loop && r->in_flight < r->most) ms = r->l->failed ? PAUSED_MS : 0;
  if (more && r->open_loop) {
    const double until = r->due - r->now;
    if (until < WAIT_MS * 1e-3) ms = until > 0 ? (int)(until * 1e3) : r->in_flight < r->most ? 0 : WAIT_MS;
  }
  const CURLMcode rc = curl_multi_poll(r->pool->multi, NULL, 0, ms, NULL);
  GA_REQUIRE(!rc, GA_ERR_IO, "bench: %s", curl_multi_strerror(rc));
  return GA_OK;
}

/* Ctrl-C: what is under way is given up. */
static void give_up_rest(client_run *r) {
  for (int i = 0; i < r->pool->n; i++) {
    client_stream *s = r->pool->streams[i];
    if (!s->busy) continue;
    (void)curl_multi_remove_handle(r->pool->multi, s->curl);
    s->busy = false;
    r->l->unfinished++;
  }
}

static ga_status run_to_end(client_run *r) {
  r->start = r->due = r->end = r->now = ga_seconds();
  if (r->open_loop) r->due -= log(1 - ga_rng_unit(&r->rng)) / r->l->level;
  do {
    GA_TRY(start_all(r));
    GA_TRY(finish_requests(r));
    if (r->in_flight || run_has_more(r)) GA_TRY(wait_for_more(r));
    r->now = ga_seconds();
  } while (!interrupted() && (r->in_flight || run_has_more(r)));
  return GA_OK;
}

static double own_cpu_seconds(void) {
  struct rusage u;
  if (getrusage(RUSAGE_SELF, &u)) return 0;
  return (double)u.ru_utime.tv_sec + (double)u.ru_stime.tv_sec +
         1e-6 * ((double)u.ru_utime.tv_usec + (double)u.ru_stime.tv_usec);
}

static int64_t default_requests(const client_args *a, double level) {
  const double n = a->open_loop ? ceil(level * LEVEL_SECONDS) : 4 * level;
  return n > LEAST_REQUESTS ? (int64_t)n : LEAST_REQUESTS;
}

ga_status client_run_level(client_pool *p, double level, client_level *out) {
  const client_args *a = p->args;
  client_run r = {.pool = p, .args = a, .l = out, .open_loop = a->open_loop, .requests = a->requests};
  *out = (client_level){.level = level};
  if (!r.requests && !(a->seconds > 0)) r.requests = default_requests(a, level);
  r.most = a->open_loop ? CLIENT_MAX_STREAMS : (int)level;
  ga_rng_seed(&r.rng, a->seed + p->n_bodies);
  const double cpu = own_cpu_seconds();
  const ga_status status = run_to_end(&r);
  give_up_rest(&r);
  out->stopped = interrupted();
  out->duration = r.end - r.start;
  if (!a->open_loop && r.tail_from > 0) out->tail = r.end - r.tail_from;
  if (r.now > r.start) out->cpu = (own_cpu_seconds() - cpu) / (r.now - r.start);
  cmd_progress("", 1, 1);
  return status;
}

/* --- before all levels --- */

ga_status client_first_request(client_pool *p) {
  const client_args *all = p->args;
  client_args one = *all;
  client_level l;
  one.open_loop = false;
  one.requests = 1;
  one.seconds = 0;
  if (one.decode.most > 4) one.decode = (client_range){4, 4};
  p->args = &one;
  ga_status status = client_run_level(p, 1, &l);
  p->args = all;
  if (status == GA_OK && interrupted()) status = ga_fail(GA_ERR_CANCELLED, "stopped");
  if (status == GA_OK && l.n_errors) {
    const client_error *e = &l.errors[0];
    status = ga_fail(GA_ERR_IO, "%s: %s%s%s", p->target->endpoint, e->kind, *e->text ? ": " : "", e->text);
  }
  client_level_free(&l);
  return status;
}
