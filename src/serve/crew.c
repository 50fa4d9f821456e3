#include "serve/crew.h"

#include <pthread.h>
#include <stdlib.h>

enum { SV_SMALL, SV_HUGE, SV_CREW_THREADS };

struct sv_crew {
  pthread_mutex_t lock;
  pthread_cond_t news;
  pthread_t threads[SV_CREW_THREADS];
  int n_threads;
  sv_task *first[SV_CREW_THREADS], *last[SV_CREW_THREADS];
  bool is_stopping;
};

static _Thread_local bool sv_in_crew;

bool sv_is_crew_thread(void) { return sv_in_crew; }

/* NULL: there is none for the thread. The caller holds the lock. */
static sv_task *sv_take_task(sv_crew *crew, int thread) {
  const int kind = thread == SV_HUGE && crew->first[SV_HUGE] ? SV_HUGE : SV_SMALL;
  sv_task *task = crew->first[kind];
  if (task) crew->first[kind] = task->next;
  return task;
}

static void sv_crew_work(sv_crew *crew, int thread) {
  sv_in_crew = true;
  (void)pthread_mutex_lock(&crew->lock);
  for (;;) {
    sv_task *task = sv_take_task(crew, thread);
    if (!task && crew->is_stopping) break;
    if (!task) {
      (void)pthread_cond_wait(&crew->news, &crew->lock);
      continue;
    }
    (void)pthread_mutex_unlock(&crew->lock);
    task->run(task);
    (void)pthread_mutex_lock(&crew->lock);
  }
  (void)pthread_mutex_unlock(&crew->lock);
}

static void *sv_small_thread(void *crew) {
  sv_crew_work(crew, SV_SMALL);
  return NULL;
}

static void *sv_huge_thread(void *crew) {
  sv_crew_work(crew, SV_HUGE);
  return NULL;
}

ga_status sv_crew_start(sv_crew **out) {
  static void *(*const mains[SV_CREW_THREADS])(void *) = {sv_small_thread, sv_huge_thread};
  sv_crew *crew = *out = calloc(1, sizeof *crew);
  if (!crew) return ga_error_set(GA_ERR_NOMEM, "server: no memory");
  (void)pthread_mutex_init(&crew->lock, NULL);
  (void)pthread_cond_init(&crew->news, NULL);
  for (int i = 0; i < SV_CREW_THREADS; i++) {
    if (pthread_create(&crew->threads[i], NULL, mains[i], crew)) {
      sv_crew_stop(crew);
      sv_crew_destroy(crew);
      *out = NULL;
      return ga_error_set(GA_ERR_NOMEM, "server: cannot start a thread");
    }
    crew->n_threads++;
  }
  return GA_OK;
}

bool sv_crew_put(sv_crew *crew, sv_task *task, bool is_urgent) {
  const int kind = task->bytes >= SV_CREW_HUGE_BYTES ? SV_HUGE : SV_SMALL;
  (void)pthread_mutex_lock(&crew->lock);
  const bool ok = !crew->is_stopping;
  sv_task **first = &crew->first[kind];
  if (ok && (is_urgent || !*first)) {
    task->next = *first;
    if (!*first) crew->last[kind] = task;
    *first = task;
  } else if (ok) {
    task->next = NULL;
    crew->last[kind]->next = task;
    crew->last[kind] = task;
  }
  (void)pthread_cond_broadcast(&crew->news);
  (void)pthread_mutex_unlock(&crew->lock);
  return ok;
}

void sv_crew_stop(sv_crew *crew) {
  if (!crew) return;
  (void)pthread_mutex_lock(&crew->lock);
  crew->is_stopping = true;
  (void)pthread_cond_broadcast(&crew->news);
  (void)pthread_mutex_unlock(&crew->lock);
  while (crew->n_threads) (void)pthread_join(crew->threads[--crew->n_threads], NULL);
}

void sv_crew_destroy(sv_crew *crew) {
  if (!crew) return;
  (void)pthread_cond_destroy(&crew->news);
  (void)pthread_mutex_destroy(&crew->lock);
  free(crew);
}
