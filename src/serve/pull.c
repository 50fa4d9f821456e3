#include "serve/pull.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "serve/models.h"
#include "serve/ollama.h"

enum { SV_MAX_PULLS = 4 }; /* at once */

/* One request. Its thread calls the program's function, which reports to it. */
typedef struct sv_pull {
  sv_waiter w; /* must be the first field */
  sv_server *server;
  pthread_t thread;
  bool has_thread, streams;
  char name[512];
  atomic_bool is_cancelled;
  pthread_mutex_t lock;
  /* The fields below are shared with the thread. */
  sv_text lines; /* lines that were not sent yet */
  bool has_ended;
  sv_fail fail; /* http 0: nothing failed */
  /* The fields below belong to the HTTP thread. */
  sv_text out;
  size_t sent;
} sv_pull;

/* --- the thread --- */

static bool sv_on_progress(void *context, const char *what, uint64_t done, uint64_t total) {
  sv_pull *p = context;
  if (what) {
    (void)pthread_mutex_lock(&p->lock);
    sv_puts(&p->lines, "{\"status\":");
    sv_puts_json(&p->lines, what);
    sv_putf(&p->lines, ",\"digest\":\"\",\"total\":%llu,\"completed\":%llu}\n", (unsigned long long)total,
            (unsigned long long)done);
    (void)pthread_mutex_unlock(&p->lock);
    sv_waiter_notify(&p->w);
  }
  return !atomic_load(&p->is_cancelled);
}

static void *sv_pull_thread(void *user) {
  sv_pull *p = user;
  const sv_options *o = &p->server->o;
  const ga_status status = o->pull(o->user, p->name, sv_on_progress, p);
  (void)pthread_mutex_lock(&p->lock);
  if (status == GA_OK)
    sv_puts(&p->lines, "{\"status\":\"success\"}\n");
  else
    (void)sv_refuse(&p->fail, status == GA_ERR_ARG ? 400 : 500, NULL, "model", "%s", ga_error_text());
  if (status != GA_OK) {
    sv_ollama_put_fail(&p->lines, &p->fail);
    sv_puts(&p->lines, "\n");
  }
  p->has_ended = true;
  (void)pthread_mutex_unlock(&p->lock);
  sv_waiter_notify(&p->w);
  return NULL;
}

/* --- the request --- */

static void sv_pull_free(void *user) {
  sv_pull *p = user;
  atomic_store(&p->is_cancelled, true);
  if (p->has_thread) {
    (void)pthread_join(p->thread, NULL);
    (void)atomic_fetch_sub(&p->server->n_pulls, 1);
  }
  sv_waiter_remove(&p->w);
  (void)pthread_mutex_destroy(&p->lock);
  sv_text_free(&p->lines);
  sv_text_free(&p->out);
  free(p);
}

/* Returns whether a name is a path outside of the models' folder: "/x", "./x", "../x" or "x/../y". */
static bool sv_is_path(const char *name) {
  const size_t n = strlen(name);
  return *name == '/' || *name == '.' || strstr(name, "/../") || (n > 3 && !strcmp(name + n - 3, "/.."));
}

/* Names of Ollama's for models of the hub begin with a host. An address is refused: a client may not choose the hosts
 * to which this machine connects. So is a path: a client may not ask which files this machine has. */
static bool sv_read_pull_name(sv_pull *p, const json_t *body, sv_fail *fail) {
  static const char *const hosts[] = {"hf.co/", "huggingface.co/"};
  const char *model = NULL, *name = NULL, *prefix = "";
  if (!sv_read_string(body, "model", &model, fail) || !sv_read_string(body, "name", &name, fail) ||
      !sv_read_bool(body, "stream", &p->streams, fail))
    return false;
  if (!model) model = name;
  if (!model) return sv_refuse(fail, 400, "missing_required_parameter", "model", "model is missing.");
  for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
    if (strncmp(model, hosts[i], strlen(hosts[i])) != 0) continue;
    model += strlen(hosts[i]);
    prefix = "hf:";
  }
  const size_t n = sv_ollama_name_bytes(model);
  if (!n || *model == '-' || sv_is_path(model) || strstr(model, "://") || n + strlen(prefix) >= sizeof p->name)
    return sv_refuse_value(fail, "model", sv_field(body, name && model == name ? "name" : "model"),
                           "a name that ga pull --list has, or hf:ORGANISATION/REPOSITORY");
  (void)snprintf(p->name, sizeof p->name, "%s%.*s", prefix, (int)n, model);
  return true;
}

/* Returns whether there is nothing to fetch: the server's own model, or one on this machine. */
static bool sv_is_here(const sv_server *s, const char *name) {
  char path[4096];
  size_t index;
  return sv_find_model(s, name, &index) || ga_model_path(name, path, sizeof path) == GA_OK;
}

static bool sv_pull_start(sv_pull *p, sv_fail *fail) {
  sv_server *s = p->server;
  if (sv_is_here(s, p->name)) {
    sv_puts(&p->lines, "{\"status\":\"pulling manifest\"}\n{\"status\":\"success\"}\n");
    p->has_ended = true;
    return true;
  }
  if (!s->o.pull)
    return sv_refuse(fail, 403, "pull_not_allowed", "model",
                     "\"%.100s\" is not here, and this server fetches no models; --allow-pull would allow it.",
                     p->name);
  if (atomic_fetch_add(&s->n_pulls, 1) >= SV_MAX_PULLS) {
    (void)atomic_fetch_sub(&s->n_pulls, 1);
    return sv_refuse(fail, 429, "queue_full", NULL, "The server fetches %d models already; try again later.",
                     SV_MAX_PULLS);
  }
  sv_puts(&p->lines, "{\"status\":\"pulling manifest\"}\n");
  p->has_thread = !pthread_create(&p->thread, NULL, sv_pull_thread, p);
  if (p->has_thread) return true;
  (void)atomic_fetch_sub(&s->n_pulls, 1);
  return sv_refuse_nomem(fail);
}

static sv_pull *sv_pull_begin(sv_call *call) {
  json_t *body = sv_is_ready(call->server, &call->fail) ? sv_call_json(call) : NULL;
  sv_pull *p = body ? calloc(1, sizeof *p) : NULL;
  if (body && !p) (void)sv_refuse_nomem(&call->fail);
  if (p) {
    p->server = call->server;
    p->streams = true;
    p->w.connection = call->connection;
    p->w.fd = sv_call_fd(call);
    (void)pthread_mutex_init(&p->lock, NULL);
    sv_waiter_add(call->server->wake, &p->w);
    if (!sv_read_pull_name(p, body, &call->fail) || !sv_pull_start(p, &call->fail)) {
      sv_pull_free(p);
      p = NULL;
    }
  }
  json_decref(body);
  return p;
}

/* Moves the thread's lines to p->out. Returns whether it has ended. */
static bool sv_pull_take(sv_pull *p) {
  (void)pthread_mutex_lock(&p->lock);
  sv_put(&p->out, p->lines.p ? p->lines.p : "", p->lines.n);
  p->out.failed |= p->lines.failed;
  sv_text_drop(&p->lines, p->lines.n);
  const bool has_ended = p->has_ended;
  (void)pthread_mutex_unlock(&p->lock);
  return has_ended;
}

static ssize_t sv_read_pull_lines(void *user, uint64_t position, char *to, size_t most) {
  sv_pull *p = user;
  (void)position;
  for (;;) {
    if (p->sent == p->out.n) {
      sv_text_drop(&p->out, p->sent);
      p->sent = 0;
    }
    const bool has_ended = sv_pull_take(p);
    if (p->out.failed || p->w.gone) return MHD_CONTENT_READER_END_WITH_ERROR;
    const size_t left = p->out.n - p->sent, n = left < most ? left : most;
    if (n) {
      memcpy(to, p->out.p + p->sent, n);
      p->sent += n;
      return (ssize_t)n;
    }
    if (has_ended) return MHD_CONTENT_READER_END_OF_STREAM;
    if (atomic_load(&p->server->host->phase) == SV_ENDING) return MHD_CONTENT_READER_END_WITH_ERROR;
    if (sv_waiter_suspend(&p->w)) return 0;
  }
}

static enum MHD_Result sv_pull_whole(sv_call *call, sv_pull *p) {
  while (!sv_pull_take(p)) {
    if (p->w.gone || atomic_load(&p->server->host->phase) == SV_ENDING) return MHD_NO;
    if (sv_waiter_suspend(&p->w)) return MHD_YES;
  }
  if (p->fail.http) {
    call->fail = p->fail;
    return sv_reply_fail(call);
  }
  sv_text t = {0};
  sv_puts(&t, "{\"status\":\"success\"}");
  return sv_reply_json(call, &t);
}

enum MHD_Result sv_run_ollama_pull(sv_call *call) {
  if (!call->job) {
    call->job = sv_pull_begin(call);
    call->job_free = sv_pull_free;
    if (!call->job) return sv_reply_fail(call);
  }
  sv_pull *p = call->job;
  if (!p->streams) return sv_pull_whole(call, p);
  struct MHD_Response *response =
      MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 8192, sv_read_pull_lines, p, NULL);
  return sv_reply_with(call, 200, "application/x-ndjson", response);
}
