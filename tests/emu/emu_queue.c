#include "tests/emu/emu_queue.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct emu_stream {
  emu_work *first, **last;
  emu_graph *graph; /* while it records */
  struct emu_stream *next;
} emu_stream;

static pthread_mutex_t lock;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static emu_stream *streams;
static size_t n_kept;
static CUresult late_fault; /* of work that was done later than enqueued */

static void make_lock(void) {
  pthread_mutexattr_t attr;
  (void)pthread_mutexattr_init(&attr);
  (void)pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
  (void)pthread_mutex_init(&lock, &attr);
}

int emu_enter(void) {
  (void)pthread_once(&once, make_lock);
  (void)pthread_mutex_lock(&lock);
  return 0;
}

void emu_leave(const int *unused) {
  (void)unused;
  (void)pthread_mutex_unlock(&lock);
}

static bool is_due(const emu_work *w) {
  if (w->kind == EMU_FOLLOW) return emu_event_has_passed(w->event, w->turn);
  if (w->kind != EMU_AWAIT) return true;
  const uint32_t now = __atomic_load_n((const uint32_t *)w->src, __ATOMIC_ACQUIRE);
  return (int32_t)(now - w->value) >= 0;
}

bool emu_event_ask(emu_event *e) {
  if (e->n_under == e->room) {
    const size_t room = e->room ? 2 * e->room : 8;
    uint64_t *p = realloc(e->under, room * sizeof *p);
    if (!p) return false;
    e->under = p;
    e->room = room;
  }
  e->under[e->n_under++] = ++e->asked;
  return true;
}

void emu_event_pass(emu_event *e, uint64_t turn) {
  for (size_t i = 0; i < e->n_under; i++)
    if (e->under[i] == turn) {
      e->under[i] = e->under[--e->n_under];
      return;
    }
}

bool emu_event_has_passed(const emu_event *e, uint64_t turn) {
  for (size_t i = 0; i < e->n_under; i++)
    if (e->under[i] == turn) return false;
  return true;
}

void emu_event_let_go(emu_event *event) {
  if (!event || --event->users) return;
  free(event->under);
  free(event);
}

static void drop_work(emu_work *w) {
  emu_event_let_go(w->event);
  free(w->owned);
  free(w);
}

static void do_kept(emu_stream *s) {
  emu_work *w = s->first;
  s->first = w->next;
  if (!s->first) s->last = &s->first;
  n_kept--;
  const CUresult rc = emu_do(w);
  if (rc != CUDA_SUCCESS && late_fault == CUDA_SUCCESS) late_fault = rc;
  drop_work(w);
}

void emu_pump(void) {
  for (bool moved = n_kept > 0; moved;) {
    moved = false;
    for (emu_stream *s = streams; s; s = s->next)
      for (; s->first && is_due(s->first); moved = true) do_kept(s);
  }
}

/* Appends a copy to a list. */
static CUresult append_work(emu_work ***last, const emu_work *work, size_t own) {
  emu_work *w = malloc(sizeof *w);
  if (!w) return CUDA_ERROR_OUT_OF_MEMORY;
  *w = *work;
  w->next = NULL;
  w->own = own;
  if (own) {
    w->owned = malloc(own);
    if (!w->owned) {
      free(w);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(w->owned, w->kind == EMU_LAUNCH ? w->launch.args : w->src, own);
    w->src = w->launch.args = w->owned;
  }
  if (w->event) w->event->users++;
  **last = w;
  *last = &w->next;
  return CUDA_SUCCESS;
}

static CUresult keep_work(emu_stream *s, const emu_work *work, size_t own) {
  const CUresult rc = append_work(&s->last, work, own);
  n_kept += rc == CUDA_SUCCESS;
  return rc;
}

static bool is_under_record(const emu_graph *graph) {
  for (const emu_stream *s = streams; s && graph; s = s->next)
    if (s->graph == graph) return true;
  return false;
}

/* One list keeps the work of all streams of a recording, in the order in which it was enqueued: a valid one. */
CUresult emu_submit(CUstream stream, const emu_work *work, size_t own) {
  emu_stream *s = (emu_stream *)(void *)stream;
  if (work->kind == EMU_FOLLOW && !s->graph && is_under_record(work->event->graph)) s->graph = work->event->graph;
  if (work->kind == EMU_RECORD) work->event->graph = s->graph;
  if (s->graph) return append_work(&s->graph->last, work, own);
  emu_pump();
  if (s->first || !is_due(work)) return keep_work(s, work, own);
  const CUresult rc = emu_do(work);
  emu_pump();
  return rc;
}

CUresult emu_record_begin(CUstream stream) {
  emu_stream *s = (emu_stream *)(void *)stream;
  if (s->graph) return CUDA_ERROR_INVALID_VALUE;
  s->graph = calloc(1, sizeof *s->graph);
  if (!s->graph) return CUDA_ERROR_OUT_OF_MEMORY;
  s->graph->last = &s->graph->first;
  s->graph->users = 1;
  return CUDA_SUCCESS;
}

CUresult emu_record_end(CUstream stream, emu_graph **out) {
  emu_stream *s = (emu_stream *)(void *)stream;
  *out = s->graph;
  for (emu_stream *x = streams; x; x = x->next)
    if (x->graph == *out) x->graph = NULL;
  return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool emu_is_recording(CUstream stream) { return stream && ((const emu_stream *)(const void *)stream)->graph; }

CUresult emu_graph_run(const emu_graph *graph, CUstream stream) {
  for (const emu_work *w = graph->first; w; w = w->next) {
    const CUresult rc = emu_submit(stream, w, w->own);
    if (rc != CUDA_SUCCESS) return rc;
  }
  return CUDA_SUCCESS;
}

void emu_graph_let_go(emu_graph *graph) {
  if (!graph || --graph->users) return;
  for (emu_work *w = graph->first, *next; w; w = next) {
    next = w->next;
    drop_work(w);
  }
  free(graph);
}

bool emu_is_drained(CUstream stream) {
  emu_pump();
  return !((const emu_stream *)(const void *)stream)->first;
}

CUresult emu_stream_new(CUstream *out) {
  emu_stream *s = calloc(1, sizeof *s);
  if (!s) return CUDA_ERROR_OUT_OF_MEMORY;
  s->last = &s->first;
  s->next = streams;
  streams = s;
  *out = (CUstream)(void *)s;
  return CUDA_SUCCESS;
}

/* Nothing may be kept. */
CUresult emu_stream_drop(CUstream stream) {
  emu_stream *s = (emu_stream *)(void *)stream, **at = &streams;
  if (s->first) return CUDA_ERROR_INVALID_VALUE;
  while (*at != s) at = &(*at)->next;
  *at = s->next;
  free(s);
  return CUDA_SUCCESS;
}

CUresult emu_late_fault(void) {
  const CUresult rc = late_fault;
  late_fault = CUDA_SUCCESS;
  return rc;
}
