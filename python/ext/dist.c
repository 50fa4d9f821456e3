/* Distributed attention over threads of this process (ga/dist.h): each rank has a thread and a context of its own. */
#include "ga/dist.h"

#include "python/ext/core.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_RANKS  256
#define RING_CHUNKS 4 /* of a rank, by default, where the method cuts its tokens into pieces */

/* What all ranks read. */
typedef struct ring {
  const ga_dist_layout *layout;
  const ga_dist_plan *plan;
  const float *q, *k, *v;
  float *o;
  int64_t q_width, k_width, v_width, o_width, q_heads; /* floats of a token */
  atomic_bool *stop;                                   /* set by a signal: the ranks end */
} ring;

typedef struct rank_work {
  const ring *ring;
  ga_comm *comm;
  ga_ctx *ctx;
  ga_dist_exec *exec;
  float *memory; /* q, k, v, o, lse of the rank's tokens */
  pthread_t thread;
  bool started;
  ga_status status;
  char text[512];
} rank_work;

static ga_status rank_rows(const rank_work *w, const float *all, int64_t width, float *rows) {
  const ga_dist_layout *l = w->ring->layout;
  return ga_dist_permute(l, ga_dist_layout_id(l), ga_comm_rank(w->comm), all, (size_t)width * sizeof *all, rows);
}

static ga_status rank_attend(rank_work *w) {
  const ring *r = w->ring;
  const int64_t tokens = ga_dist_layout_tokens(r->layout, ga_comm_rank(w->comm));
  const int64_t floats = r->q_width + r->k_width + r->v_width + r->o_width + r->q_heads;
  ga_ctx_options options = GA_CTX_OPTIONS_INIT;
  options.device = "cpu", options.threads = 1;
  w->memory = malloc(((size_t)(tokens * floats) + 1) * sizeof(float));
  if (!w->memory) return GA_ERR_NOMEM;
  float *q = w->memory, *k = q + tokens * r->q_width, *v = k + tokens * r->k_width, *o = v + tokens * r->v_width;
  ga_dist_tensors io = GA_DIST_TENSORS_INIT;
  io.q_layout = io.kv_layout = ga_dist_layout_id(r->layout);
  io.q = q, io.k = k, io.v = v, io.o = o, io.lse = o + tokens * r->o_width;
  ga_status status = ga_ctx_create(&options, &w->ctx);
  if (status == GA_OK) status = rank_rows(w, r->q, r->q_width, q);
  if (status == GA_OK) status = rank_rows(w, r->k, r->k_width, k);
  if (status == GA_OK) status = rank_rows(w, r->v, r->v_width, v);
  if (status == GA_OK) status = ga_dist_exec_create(r->plan, w->comm, w->ctx, &w->exec);
  if (status == GA_OK) status = ga_dist_exec_run(w->exec, &io);
  if (status != GA_OK) return status;
  return ga_dist_unpermute(r->layout, io.q_layout, ga_comm_rank(w->comm), o, (size_t)r->o_width * sizeof *o, r->o);
}

static int ring_stops(void *user) { return atomic_load((atomic_bool *)user); }

static void *ring_thread(void *arg) {
  rank_work *w = arg;
  ga_abort_set(ring_stops, w->ring->stop);
  ga_abort_ops_set(ring_stops, w->ring->stop);
  w->status = rank_attend(w);
  if (w->status != GA_OK) {
    (void)snprintf(w->text, sizeof w->text, "%s", w->status == GA_ERR_NOMEM ? "a rank's tensors" : ga_error_text());
    ga_comm_abort(w->comm, w->text);
  }
  return NULL;
}

/* The rank that failed by itself, rather than since another one did; NULL: none failed. */
static const rank_work *culprit(const rank_work *work, int32_t ranks) {
  const rank_work *found = NULL;
  for (int32_t i = 0; i < ranks; i++) {
    if (work[i].status == GA_OK) continue;
    if (work[i].status != GA_ERR_COMM) return &work[i];
    if (!found) found = &work[i];
  }
  return found;
}

/* Waits for a rank, and looks for signals meanwhile; without the GIL. */
static void ring_join(const rank_work *w, PyThreadState **state) {
  struct timespec until;
  for (;;) {
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 100000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    if (pthread_timedjoin_np(w->thread, NULL, &until) != ETIMEDOUT) return;
    if (atomic_load(w->ring->stop)) continue;
    PyEval_RestoreThread(*state);
    if (PyErr_CheckSignals()) {
      atomic_store(w->ring->stop, true);
      ga_comm_abort(w->comm, "interrupted");
    }
    *state = PyEval_SaveThread();
  }
}

static ga_status ring_run(const ring *r, rank_work *work, int32_t ranks, double timeout, char *text, size_t capacity,
                          PyThreadState **state) {
  ga_comm *comms[MOST_RANKS] = {0};
  ga_comm_threads_options options = GA_COMM_THREADS_OPTIONS_INIT;
  options.ranks = ranks, options.timeout = timeout;
  ga_status status = ga_comm_threads_create(&options, comms);
  if (status != GA_OK) {
    (void)snprintf(text, capacity, "%s", ga_error_text());
    return status;
  }
  for (int32_t i = 0; i < ranks; i++) {
    work[i].ring = r, work[i].comm = comms[i];
    work[i].started = !pthread_create(&work[i].thread, NULL, ring_thread, &work[i]);
    if (work[i].started) continue;
    work[i].status = GA_ERR_NOMEM;
    (void)snprintf(work[i].text, sizeof work[i].text, "thread of rank %d of %d", (int)i, (int)ranks);
    ga_comm_abort(comms[i], work[i].text);
  }
  for (int32_t i = 0; i < ranks; i++)
    if (work[i].started) ring_join(&work[i], state);
  for (int32_t i = 0; i < ranks; i++) {
    ga_dist_exec_destroy(work[i].exec);
    ga_comm_destroy(comms[i]);
    ga_ctx_destroy(work[i].ctx);
    free(work[i].memory);
  }
  const rank_work *failed = culprit(work, ranks);
  if (failed) (void)snprintf(text, capacity, "%s", failed->text);
  return failed ? failed->status : GA_OK;
}

/* ---- from Python ---- */

enum {
  RING_Q,
  RING_K,
  RING_V,
  RING_RANKS,
  RING_METHOD,
  RING_CAUSAL,
  RING_WINDOW,
  RING_TIMEOUT,
  RING_PIECES,
  RING_ARGS
};
static const char *const ring_names[] = {"q",      "k",      "v",       "ranks",  "method",
                                         "causal", "window", "timeout", "chunks", NULL};

static int ring_view(const pyga_args *a, int index, const pyga_context *host, pyga_view *view) {
  static const char *const what[] = {"distributed_attention: q", "distributed_attention: k",
                                     "distributed_attention: v"};
  char text[512];
  if (!a->value[index]) {
    PyErr_Format(PyExc_TypeError, "%s is missing", what[index]);
    return -1;
  }
  if (pyga_view_get(a->value[index], what[index], view) || pyga_view_check(view, host, what[index], false)) return -1;
  if (view->dtype == GA_F32 && view->n_dims == 4 && pyga_view_is_contiguous(view)) return 0;
  pyga_view_text(view, text, sizeof text);
  return pyga_fail(GA_ERR_SHAPE, "%s: is %s; allowed is f32 [batch, tokens, heads, dim], contiguous", what[index],
                   text);
}

/* Batches are documents; those, heads and dims are int32_t in ga/dist.h. */
static int ring_sizes(const pyga_view *view, const char *name) {
  for (int i = 0; i < 4; i++)
    if (i != 1 && view->dim[i] > INT32_MAX)
      return pyga_fail(GA_ERR_SHAPE, "distributed_attention: %s: dimension %d is %lld; allowed are at most %d", name, i,
                       (long long)view->dim[i], (int)INT32_MAX);
  return 0;
}

static int ring_shapes(const pyga_view v[3]) {
  const int64_t *q = v[0].dim, *k = v[1].dim, *w = v[2].dim;
  if (ring_sizes(&v[0], "q") || ring_sizes(&v[1], "k") || ring_sizes(&v[2], "v")) return -1;
  if (k[0] == q[0] && w[0] == q[0] && k[1] == q[1] && w[1] == q[1] && w[2] == k[2] && k[3] == q[3]) return 0;
  return pyga_fail(
      GA_ERR_SHAPE,
      "distributed_attention: q [%lld, %lld, %lld, %lld], k [%lld, %lld, %lld, %lld], v [%lld, %lld, %lld, "
      "%lld]; allowed are equal batches and tokens, heads of v as of k, dim of k as of q",
      (long long)q[0], (long long)q[1], (long long)q[2], (long long)q[3], (long long)k[0], (long long)k[1],
      (long long)k[2], (long long)k[3], (long long)w[0], (long long)w[1], (long long)w[2], (long long)w[3]);
}

/* Each sequence of the batch is a document. */
static ga_status ring_plan(const pyga_view v[3], ga_dist_desc *desc, int32_t ranks, int32_t chunks,
                           ga_dist_layout **layout, ga_dist_plan **plan) {
  ga_dist_layout_desc l = GA_DIST_LAYOUT_DESC_INIT;
  int64_t *lengths = malloc((size_t)(v[0].dim[0] + 1) * sizeof *lengths);
  if (!lengths) return GA_ERR_NOMEM;
  for (int64_t i = 0; i < v[0].dim[0]; i++) lengths[i] = v[0].dim[1];
  const int32_t order = ga_dist_method_order(desc->method);
  l.order = order ? order : GA_DIST_CONTIGUOUS;
  l.chunks = chunks ? chunks : l.order == GA_DIST_CHUNKS || l.order == GA_DIST_PIECES ? RING_CHUNKS : 0;
  l.ranks = ranks, l.documents = (int32_t)v[0].dim[0], l.lengths = lengths;
  ga_status status = ga_dist_layout_create(&l, layout);
  desc->q = *layout;
  if (status == GA_OK) status = ga_dist_plan_create(desc, plan);
  free(lengths);
  return status;
}

static PyObject *ring_result(const pyga_view v[3], ga_dist_desc *desc, int32_t ranks, int32_t chunks, double timeout,
                             pyga_context *host) {
  const int64_t dims[4] = {v[0].dim[0], v[0].dim[1], v[0].dim[2], v[2].dim[3]};
  ga_dist_layout *layout = NULL;
  ga_dist_plan *plan = NULL;
  char text[512] = "";
  pyga_array *o = pyga_array_new(host, GA_F32, 4, dims);
  rank_work *work = o ? calloc((size_t)ranks, sizeof *work) : NULL;
  if (!o) return NULL;
  ga_status status = GA_ERR_NOMEM;
  atomic_bool stop = false;
  PyThreadState *state = PyEval_SaveThread();
  if (work) {
    status = ring_plan(v, desc, ranks, chunks, &layout, &plan);
    (void)snprintf(text, sizeof text, "%s", status == GA_OK ? "" : ga_error_text());
  }
  if (status == GA_OK) {
    const ring r = {layout,
                    plan,
                    v[0].data,
                    v[1].data,
                    v[2].data,
                    o->view.data,
                    v[0].dim[2] * v[0].dim[3],
                    v[1].dim[2] * v[1].dim[3],
                    v[2].dim[2] * v[2].dim[3],
                    dims[2] * dims[3],
                    dims[2],
                    &stop};
    status = ring_run(&r, work, ranks, timeout, text, sizeof text, &state);
  }
  ga_dist_plan_destroy(plan);
  ga_dist_layout_destroy(layout);
  PyEval_RestoreThread(state);
  free(work);
  if (status == GA_OK && !PyErr_Occurred()) return (PyObject *)o;
  Py_DECREF((PyObject *)o);
  if (PyErr_Occurred()) return NULL;
  pyga_fail(status, "distributed_attention: %s", text);
  return NULL;
}

static PyObject *module_distributed_attention(PyObject *module, PyObject *const *args, Py_ssize_t n,
                                              PyObject *keywords) {
  (void)module;
  pyga_args a;
  pyga_view v[3] = {{0}, {0}, {0}};
  PyObject *result = NULL;
  pyga_context *host = pyga_context_for(NULL, 0);
  ga_dist_desc desc = GA_DIST_DESC_INIT;
  int32_t ranks = 2, chunks = 0;
  bool causal = false;
  float timeout = 600;
  if (!host || pyga_args_get(&a, "distributed_attention", ring_names, 3, args, n, keywords)) return NULL;
  const bool bad = pyga_arg_i32(&a, RING_RANKS, 1, MOST_RANKS, &ranks) ||
                   pyga_arg_i32(&a, RING_PIECES, 1, 1024, &chunks) || pyga_arg_text(&a, RING_METHOD, &desc.method) ||
                   pyga_arg_bool(&a, RING_CAUSAL, &causal) || pyga_arg_float(&a, RING_TIMEOUT, &timeout) ||
                   pyga_arg_int(&a, RING_WINDOW, 0, (int64_t)1 << 40, &desc.window) ||
                   ring_view(&a, RING_Q, host, &v[0]) || ring_view(&a, RING_K, host, &v[1]) ||
                   ring_view(&a, RING_V, host, &v[2]) || ring_shapes(v);
  if (!bad) {
    desc.q_heads = (int32_t)v[0].dim[2], desc.kv_heads = (int32_t)v[1].dim[2];
    desc.head_dim = (int32_t)v[0].dim[3], desc.v_dim = (int32_t)v[2].dim[3];
    desc.flags = causal ? GA_DIST_CAUSAL : 0;
    result = ring_result(v, &desc, ranks, chunks, (double)timeout, host);
  }
  for (int i = 0; i < 3; i++) pyga_view_release(&v[i]);
  return result;
}

static PyObject *module_distributed_methods(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  PyObject *dict = PyDict_New();
  for (size_t i = 0; dict && ga_dist_method_name(i); i++) {
    const char *name = ga_dist_method_name(i);
    PyObject *text = PyUnicode_FromString(ga_dist_method_text(name));
    if (!text || PyDict_SetItemString(dict, name, text)) Py_CLEAR(dict);
    Py_XDECREF(text);
  }
  return dict;
}

int pyga_dist_init(PyObject *module) {
  static PyMethodDef functions[] = {
      {"distributed_attention", PY_METHOD(module_distributed_attention), METH_FASTCALL | METH_KEYWORDS,
       "distributed_attention(q, k, v, *, ranks=2, method='zigzag', causal=False, window=0, timeout=600,\n"
       "                      chunks=None)\n\n"
       "attention() by a published method over ranks that are threads of this process, with one CPU thread each.\n"
       "q, k, v [batch, tokens, heads, dim] f32, contiguous, on the CPU; as many queries as keys. timeout: seconds "
       "that a rank\n"
       "waits for another. chunks: pieces of a rank, for methods whose layout has them ('balanced'), 4 by default. "
       "Methods: distributed_methods(). Raises ShapeError, ArgumentError, CommError, "
       "TimedOutError."},
      {"distributed_methods", module_distributed_methods, METH_NOARGS,
       "distributed_methods()\n\nA dict of methods of distributed_attention: name, and what it is."},
      {NULL, NULL, 0, NULL}};
  return PyModule_AddFunctions(module, functions);
}
