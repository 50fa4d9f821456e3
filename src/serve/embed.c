#include "serve/embed.h"

#include <stdlib.h>
#include <string.h>

struct sv_embedder {
  sv_server *server;
  pthread_mutex_t lock;
  pthread_cond_t news, idle;
  pthread_t thread;
  sv_embed_job *first, *running;
  int32_t n_waiting;
  bool is_stopping;
};

/* --- the thread --- */

static void sv_embed_one(sv_embedder *e, sv_embed_job *job) {
  for (size_t i = 0; i < job->n && job->status == GA_OK && !atomic_load(&job->is_dropped); i++) {
    float *const out = job->vectors + i * job->width;
    const sv_ids *ids = &job->ids[i];
    job->status = job->ranks ? ga_rank_ids(e->server->model, ids->p, (int32_t)ids->n, job->n_query, out)
                             : ga_embed_vector(e->server->model, ids->p, (int32_t)ids->n, out, job->width);
    if (job->status != GA_OK) (void)snprintf(job->error, sizeof job->error, "%s", ga_error_text());
  }
}

static void *sv_embed_thread(void *user) {
  sv_embedder *e = user;
  (void)pthread_mutex_lock(&e->lock);
  while (!e->is_stopping) {
    sv_embed_job *job = e->running = e->first;
    if (!job) {
      (void)pthread_cond_wait(&e->news, &e->lock);
      continue;
    }
    e->first = job->next;
    e->n_waiting--;
    (void)pthread_mutex_unlock(&e->lock);
    sv_embed_one(e, job);
    atomic_store(&job->is_done, true);
    sv_waiter_notify(&job->w);
    (void)pthread_mutex_lock(&e->lock);
    e->running = NULL;
    (void)pthread_cond_broadcast(&e->idle);
  }
  (void)pthread_mutex_unlock(&e->lock);
  return NULL;
}

ga_status sv_embedder_start(sv_server *s, sv_embedder **out) {
  sv_embedder *e = *out = calloc(1, sizeof *e);
  if (!e) return ga_error_set(GA_ERR_NOMEM, "server: no memory");
  e->server = s;
  (void)pthread_mutex_init(&e->lock, NULL);
  (void)pthread_cond_init(&e->news, NULL);
  (void)pthread_cond_init(&e->idle, NULL);
  if (!pthread_create(&e->thread, NULL, sv_embed_thread, e)) return GA_OK;
  free(e);
  *out = NULL;
  return ga_error_set(GA_ERR_NOMEM, "server: cannot start a thread");
}

void sv_embedder_stop(sv_embedder *e) {
  if (!e) return;
  (void)pthread_mutex_lock(&e->lock);
  e->is_stopping = true;
  (void)pthread_cond_signal(&e->news);
  (void)pthread_mutex_unlock(&e->lock);
  (void)pthread_join(e->thread, NULL);
  (void)pthread_cond_destroy(&e->idle);
  (void)pthread_cond_destroy(&e->news);
  (void)pthread_mutex_destroy(&e->lock);
  free(e);
}

static bool sv_embed_submit(sv_embedder *e, sv_embed_job *job, sv_fail *fail) {
  (void)pthread_mutex_lock(&e->lock);
  const bool ok = e->n_waiting < e->server->o.max_waiting;
  sv_embed_job **last = &e->first;
  while (*last) last = &(*last)->next;
  if (ok) {
    *last = job;
    e->n_waiting++;
    (void)pthread_cond_signal(&e->news);
  }
  (void)pthread_mutex_unlock(&e->lock);
  if (!ok) sv_count_rejected(&e->server->host->metrics);
  return ok || sv_refuse(fail, 429, "queue_full", NULL, "The server has too many requests waiting; try again later.");
}

/* Takes it out of the queue, or waits for the text that is being evaluated. */
static void sv_embed_drop(sv_embedder *e, sv_embed_job *job) {
  atomic_store(&job->is_dropped, true);
  (void)pthread_mutex_lock(&e->lock);
  for (sv_embed_job **p = &e->first; *p; p = &(*p)->next) {
    if (*p != job) continue;
    *p = job->next;
    e->n_waiting--;
    break;
  }
  while (e->running == job) (void)pthread_cond_wait(&e->idle, &e->lock);
  (void)pthread_mutex_unlock(&e->lock);
}

/* --- a request --- */

static void sv_embed_free(void *user) {
  sv_embed_job *job = user;
  sv_embed_drop(job->server->embedder, job);
  sv_waiter_remove(&job->w);
  for (size_t i = 0; i < job->n; i++) free(job->ids[i].p);
  free(job->ids);
  free(job->vectors);
  json_decref(job->body);
  free(job);
}

bool sv_embed_model(sv_embed_job *job, const json_t *body, sv_fail *fail) {
  const char *model = NULL;
  return sv_read_string(body, "model", &model, fail) && sv_is_model(job->server, model, fail);
}

/* Cuts ids that are beyond the context; the last one, which ends a text, stays. */
static void sv_cut_ids(const sv_server *s, sv_ids *ids) {
  const size_t most = (size_t)s->context;
  if (ids->n <= most) return;
  ids->p[most - 1] = ids->p[ids->n - 1];
  ids->n = most;
}

bool sv_embed_inputs(sv_embed_job *job, const json_t *body, const char *key, bool cuts, sv_call *call) {
  const sv_server *s = job->server;
  const sv_params params = {.add_special = true, .parse_special = job->parses_special};
  sv_prompt *prompts = NULL;
  size_t n = 0;
  job->width = (size_t)ga_model_get_info(s->model)->embedding_width;
  bool ok = sv_read_prompts(body, key, s->vocab, SV_MAX_INPUTS, &prompts, &n, &call->fail);
  if (ok) job->ids = calloc(n, sizeof *job->ids);
  if (ok) job->vectors = calloc(n * job->width, sizeof *job->vectors);
  if (ok && (!job->ids || !job->vectors)) ok = sv_refuse_nomem(&call->fail);
  for (size_t i = 0; ok && i < n; i++) {
    sv_ids *ids = &job->ids[job->n++];
    ok = sv_encode_prompt(s, &prompts[i], &params, ids, &call->fail);
    if (ok && cuts) sv_cut_ids(s, ids);
    ok = ok && sv_fits_context(s, ids->n, 0, key, &call->fail);
    call->n_prompt += (int64_t)ids->n;
  }
  sv_prompts_free(prompts, n);
  return ok;
}

static sv_embed_job *sv_embed_begin(sv_call *call, const sv_embed_form *form) {
  sv_server *s = call->server;
  if (!sv_is_ready(s, &call->fail)) return NULL;
  if (!s->embedder) {
    (void)sv_refuse(&call->fail, 400, "not_an_embedding_model", "model",
                    "%s generates text; it makes no embeddings. Serve an encoder for these.", s->o.model_id);
    return NULL;
  }
  json_t *body = sv_call_json(call);
  sv_embed_job *job = body ? calloc(1, sizeof *job) : NULL;
  if (body && !job) (void)sv_refuse_nomem(&call->fail);
  if (job) {
    job->server = s;
    job->body = json_incref(body);
    job->start = sv_seconds();
    job->w.connection = call->connection;
    job->w.fd = sv_call_fd(call);
    sv_waiter_add(s->wake, &job->w);
    if (!form->read(job, body, call) || !sv_embed_submit(s->embedder, job, &call->fail)) {
      sv_embed_free(job);
      job = NULL;
    }
  }
  json_decref(body);
  return job;
}

enum MHD_Result sv_run_embed(sv_call *call, const sv_embed_form *form) {
  if (!call->job) {
    call->job = sv_embed_begin(call, form);
    call->job_free = sv_embed_free;
    if (!call->job) return sv_reply_fail(call);
  }
  sv_embed_job *job = call->job;
  for (;;) {
    if (job->w.gone) return MHD_NO;
    if (atomic_load(&job->is_done)) break;
    if (atomic_load(&call->host->phase) == SV_ENDING) {
      (void)sv_refuse(&call->fail, 503, "shutting_down", NULL, "The server is shutting down.");
      return sv_reply_fail(call);
    }
    if (sv_waiter_suspend(&job->w)) return MHD_YES;
  }
  if (job->status == GA_OK) {
    sv_text t = {0};
    form->put(&t, job, call);
    return sv_reply_json(call, &t);
  }
  (void)sv_refuse_status(&call->fail, job->status, "input", job->error);
  return sv_reply_fail(call);
}
