/* EngineBase and Request over ga/engine.h. Waits release the GIL and look for signals ten times a second. */
#include "python/ext/model.h"

#include "ga/engine.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static PyTypeObject *engine_type, *request_type;

typedef struct pyga_engine {
  PyObject_HEAD pyga_model *model;
  ga_engine *engine;
  pthread_mutex_t lock; /* no call is under way while the engine is destroyed */
  bool has_lock;
} pyga_engine;

typedef struct pyga_request {
  PyObject_HEAD pyga_engine *engine;
  ga_request *request;
  int event_fd; /* readable when something is new; -1 = none */
} pyga_request;

/* ---- engine ---- */

static PyObject *engine_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char names[11][20] = {"model",         "n_ctx",      "max_sequences",   "step_tokens",
                               "max_waiting",   "kv_tokens",  "kv_dtype",        "prefix_cache",
                               "deterministic", "swap_bytes", "offload_prefixes"};
  char *list[] = {names[0], names[1], names[2], names[3], names[4],  names[5],
                  names[6], names[7], names[8], names[9], names[10], NULL};
  ga_engine_options o = GA_ENGINE_OPTIONS_INIT;
  PyObject *model = NULL, *dtype = NULL;
  int context = 0, sequences = 0, step = 0, waiting = 0, cache = 1, same_bits = 0, offload = 0;
  long long kv_tokens = 0, swap_bytes = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|iiiiLOppLp:Engine", list, pyga_model_type, &model, &context,
                                   &sequences, &step, &waiting, &kv_tokens, &dtype, &cache, &same_bits, &swap_bytes,
                                   &offload))
    return NULL;
  o.context = context, o.max_sequences = sequences, o.step_tokens = step, o.max_waiting = waiting,
  o.kv_tokens = kv_tokens;
  o.swap_bytes = swap_bytes;
  o.flags = (uint32_t)((cache ? 0 : GA_ENGINE_NO_PREFIX_CACHE) | (same_bits ? GA_ENGINE_DETERMINISTIC : 0) |
                       (offload ? GA_ENGINE_OFFLOAD_PREFIXES : 0));
  if (dtype && dtype != Py_None) {
    const ga_dtype kv = pyga_dtype_arg(dtype, "Engine: kv_dtype");
    if (kv == GA_DTYPE_NONE) return NULL;
    o.kv_dtype = (int32_t)kv;
  }
  pyga_context *c = ((pyga_model *)model)->context;
  if (pyga_model_ready((pyga_model *)model, "Engine")) return NULL;
  if (c->sessions) {
    pyga_fail(GA_ERR_STATE, "Engine: %d sessions live on this context; allowed are none, for an engine uses it alone",
              (int)c->sessions);
    return NULL;
  }
  pyga_engine *self = (pyga_engine *)PyType_GenericAlloc(type, 0);
  if (!self) return NULL;
  if (pthread_mutex_init(&self->lock, NULL)) {
    Py_DECREF(self);
    return PyErr_NoMemory();
  }
  self->has_lock = true;
  self->model = (pyga_model *)Py_NewRef(model);
  c->engines++;
  while (c->calls) { /* calls that began before: none begins from now on */
    Py_BEGIN_ALLOW_THREADS;
    usleep(200);
    Py_END_ALLOW_THREADS;
  }
  PyThreadState *state = pyga_enter(c);
  const ga_status status = ga_engine_create(self->model->model, &o, &self->engine);
  pyga_leave(c, state);
  if (status != GA_OK) {
    c->engines--;
    pyga_raise(status);
    Py_CLEAR(self);
  }
  return (PyObject *)self;
}

/* In a fork locks may be held by threads that it lacks: none is touched. */
static int engine_is_here(const pyga_engine *self, const char *what) {
  if (!self->model->context->is_stale) return 0;
  return pyga_fail(GA_ERR_STATE,
                   "%s: the engine is of the process from which process %d was forked; allowed is one that is made "
                   "after fork()",
                   what, (int)getpid());
}

static void engine_end(pyga_engine *self) {
  ga_engine *engine = NULL;
  if (self->model->context->is_stale) {
    self->engine = NULL;
    return;
  }
  Py_BEGIN_ALLOW_THREADS;
  pthread_mutex_lock(&self->lock);
  engine = self->engine;
  self->engine = NULL;
  ga_engine_destroy(engine);
  pthread_mutex_unlock(&self->lock);
  Py_END_ALLOW_THREADS;
  if (engine) self->model->context->engines--;
}

static void engine_dealloc(PyObject *object) {
  pyga_engine *self = (pyga_engine *)object;
  PyTypeObject *type = Py_TYPE(object);
  if (self->has_lock) {
    if (self->engine) engine_end(self);
    pthread_mutex_destroy(&self->lock);
  }
  Py_XDECREF((PyObject *)self->model);
  pyga_free_object(type, object);
  Py_DECREF(type);
}

static PyObject *engine_close(PyObject *object, PyObject *unused) {
  (void)unused;
  engine_end((pyga_engine *)object);
  Py_RETURN_NONE;
}

static PyObject *engine_counts(PyObject *object, PyObject *unused) {
  (void)unused;
  pyga_engine *self = (pyga_engine *)object;
  ga_engine_stats s = GA_ENGINE_STATS_INIT;
  ga_status status = GA_OK;
  bool is_closed = false;
  if (engine_is_here(self, "stats")) return NULL;
  Py_BEGIN_ALLOW_THREADS;
  pthread_mutex_lock(&self->lock);
  is_closed = !self->engine;
  if (!is_closed) status = ga_engine_get_stats(self->engine, &s);
  pthread_mutex_unlock(&self->lock);
  Py_END_ALLOW_THREADS;
  if (is_closed) return pyga_fail(GA_ERR_STATE, "Engine: it is closed"), NULL;
  if (status != GA_OK) return pyga_raise(status);
  return Py_BuildValue("{s:i,s:i,s:L,s:L,s:L,s:K,s:K,s:K,s:K,s:K,s:K,s:d,s:i,s:i,s:K,s:K}", "running", (int)s.running,
                       "waiting", (int)s.waiting, "kv_pages", (long long)s.kv_pages, "kv_pages_used",
                       (long long)s.kv_pages_used, "kv_pages_cached", (long long)s.kv_pages_cached, "steps",
                       (unsigned long long)s.steps, "prompt_tokens", (unsigned long long)s.prompt_tokens,
                       "generated_tokens", (unsigned long long)s.generated_tokens, "prefix_hits",
                       (unsigned long long)s.prefix_hits, "preemptions", (unsigned long long)s.preemptions, "refused",
                       (unsigned long long)s.refused, "busy_seconds", s.busy_seconds, "context", (int)s.context,
                       "max_sequences", (int)s.max_sequences, "expert_lookups", (unsigned long long)s.expert_lookups,
                       "expert_hits", (unsigned long long)s.expert_hits);
}

/* ---- request ---- */

/* On the engine's thread: no Python, no GA. */
static void request_notify(void *user) {
  const uint64_t one = 1;
  const int fd = (int)(intptr_t)user;
  while (write(fd, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

enum {
  SUBMIT_IDS,
  SUBMIT_MAX_TOKENS,
  SUBMIT_TEMPERATURE,
  SUBMIT_TOP_P,
  SUBMIT_MIN_P,
  SUBMIT_TYPICAL_P,
  SUBMIT_REPETITION,
  SUBMIT_PRESENCE,
  SUBMIT_FREQUENCY,
  SUBMIT_TOP_K,
  SUBMIT_SEED,
  SUBMIT_MIN_TOKENS,
  SUBMIT_STOP_IDS,
  SUBMIT_LOGPROBS,
  SUBMIT_PROMPT_LOGPROBS,
  SUBMIT_IGNORE_EOS,
  SUBMIT_LOGIT_BIAS,
  SUBMIT_PRIORITY,
  SUBMIT_TENANT,
  SUBMIT_CACHE_SALT,
  SUBMIT_DEADLINE,
  SUBMIT_KEEP_SECONDS,
  SUBMIT_EVENTS
};

typedef struct submit_call {
  pyga_args args;
  ga_request_options options;
  ga_sample_desc sample;
  int32_t *ids, *stop;
  ga_logit_bias *bias;
} submit_call;

static int submit_sample(submit_call *s) {
  ga_sample_desc *d = &s->sample;
  float *const number[] = {
      &d->temperature,      &d->top_p, &d->min_p, &d->typical_p, &d->repetition_penalty, &d->presence_penalty,
      &d->frequency_penalty};
  for (int i = 0; i < 7; i++)
    if (pyga_arg_float(&s->args, SUBMIT_TEMPERATURE + i, number[i])) return -1;
  if (pyga_arg_i32(&s->args, SUBMIT_TOP_K, 0, INT32_MAX, &d->top_k)) return -1;
  if (s->args.value[SUBMIT_SEED]) s->options.seed = PyLong_AsUnsignedLongLongMask(s->args.value[SUBMIT_SEED]);
  s->options.sample = d;
  return PyErr_Occurred() ? -1 : 0;
}

static int submit_bias(submit_call *s) {
  PyObject *dict = s->args.value[SUBMIT_LOGIT_BIAS], *key = NULL, *value = NULL;
  Py_ssize_t place = 0;
  if (!dict) return 0;
  if (!PyDict_Check(dict))
    return PyErr_SetString(PyExc_TypeError, "submit: logit_bias: a dict of id: bias is wanted"), -1;
  s->bias = calloc((size_t)PyDict_Size(dict) + 1, sizeof *s->bias);
  if (!s->bias) return PyErr_NoMemory(), -1;
  while (PyDict_Next(dict, &place, &key, &value)) {
    s->bias[s->options.n_bias].id = (int32_t)PyLong_AsLong(key);
    s->bias[s->options.n_bias++].bias = (float)PyFloat_AsDouble(value);
    if (PyErr_Occurred()) return -1;
  }
  s->options.bias = s->bias;
  return 0;
}

static int submit_fill(submit_call *s) {
  ga_request_options *o = &s->options;
  int64_t tenant = 0;
  float deadline = 0, keep = 0;
  if (!s->args.value[SUBMIT_IDS]) return PyErr_SetString(PyExc_TypeError, "submit: ids is missing"), -1;
  s->ids = pyga_ids(s->args.value[SUBMIT_IDS], "submit: ids", &o->n_ids);
  if (!s->ids) return -1;
  if (s->args.value[SUBMIT_STOP_IDS]) {
    s->stop = pyga_ids(s->args.value[SUBMIT_STOP_IDS], "submit: stop_ids", &o->n_stop_ids);
    if (!s->stop) return -1;
  }
  o->ids = s->ids, o->stop_ids = s->stop;
  if (pyga_arg_i32(&s->args, SUBMIT_MAX_TOKENS, -1, INT32_MAX, &o->max_tokens) ||
      pyga_arg_i32(&s->args, SUBMIT_MIN_TOKENS, 0, INT32_MAX, &o->min_tokens) ||
      pyga_arg_i32(&s->args, SUBMIT_LOGPROBS, -1, GA_MAX_TOP_LOGPROBS, &o->logprobs) ||
      pyga_arg_bool(&s->args, SUBMIT_PROMPT_LOGPROBS, &o->prompt_logprobs) ||
      pyga_arg_bool(&s->args, SUBMIT_IGNORE_EOS, &o->ignore_eog) ||
      pyga_arg_i32(&s->args, SUBMIT_PRIORITY, INT32_MIN, INT32_MAX, &o->priority) ||
      pyga_arg_int(&s->args, SUBMIT_TENANT, 0, INT64_MAX, &tenant) ||
      pyga_arg_text(&s->args, SUBMIT_CACHE_SALT, &o->cache_salt) ||
      pyga_arg_float(&s->args, SUBMIT_DEADLINE, &deadline) || pyga_arg_float(&s->args, SUBMIT_KEEP_SECONDS, &keep))
    return -1;
  o->tenant = (uint64_t)tenant;
  o->first_token_deadline = (double)deadline;
  o->keep_seconds = (double)keep;
  return submit_sample(s) || submit_bias(s) ? -1 : 0;
}

static const char *const submit_names[] = {"ids",
                                           "max_tokens",
                                           "temperature",
                                           "top_p",
                                           "min_p",
                                           "typical_p",
                                           "repetition_penalty",
                                           "presence_penalty",
                                           "frequency_penalty",
                                           "top_k",
                                           "seed",
                                           "min_tokens",
                                           "stop_ids",
                                           "logprobs",
                                           "prompt_logprobs",
                                           "ignore_eos",
                                           "logit_bias",
                                           "priority",
                                           "tenant",
                                           "cache_salt",
                                           "first_token_deadline",
                                           "keep_seconds",
                                           "events",
                                           NULL};

static ga_status submit_locked(pyga_engine *self, const ga_request_options *options, ga_request **out,
                               bool *is_closed) {
  ga_status status = GA_OK;
  Py_BEGIN_ALLOW_THREADS;
  pthread_mutex_lock(&self->lock);
  *is_closed = !self->engine;
  if (self->engine) status = ga_engine_submit(self->engine, options, out);
  pthread_mutex_unlock(&self->lock);
  Py_END_ALLOW_THREADS;
  return status;
}

static PyObject *engine_submit(PyObject *object, PyObject *const *args, Py_ssize_t n, PyObject *keywords) {
  pyga_engine *self = (pyga_engine *)object;
  submit_call s = {.options = GA_REQUEST_OPTIONS_INIT, .sample = GA_SAMPLE_DESC_INIT};
  pyga_request *made = NULL;
  bool events = false, is_closed = false;
  int bad = engine_is_here(self, "submit") || pyga_args_get(&s.args, "submit", submit_names, 2, args, n, keywords);
  if (!bad) bad = submit_fill(&s) || pyga_arg_bool(&s.args, SUBMIT_EVENTS, &events);
  if (!bad) made = (pyga_request *)PyType_GenericAlloc(request_type, 0);
  if (made) {
    made->event_fd = events ? eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) : -1;
    if (made->event_fd >= 0) {
      s.options.notify = request_notify;
      s.options.user = (void *)(intptr_t)made->event_fd;
    }
    const ga_status status = submit_locked(self, &s.options, &made->request, &is_closed);
    made->engine = (pyga_engine *)Py_NewRef(object);
    if (is_closed)
      pyga_fail(GA_ERR_STATE, "submit: the engine is closed");
    else if (status != GA_OK)
      pyga_raise(status);
    if (is_closed || status != GA_OK) Py_CLEAR(made);
  }
  PyMem_Free(s.ids);
  PyMem_Free(s.stop);
  free(s.bias);
  return (PyObject *)made;
}

static void request_dealloc(PyObject *object) {
  pyga_request *self = (pyga_request *)object;
  PyTypeObject *type = Py_TYPE(object);
  Py_BEGIN_ALLOW_THREADS;
  ga_request_destroy(self->request);
  Py_END_ALLOW_THREADS;
  if (self->engine && self->event_fd >= 0) close(self->event_fd);
  Py_XDECREF((PyObject *)self->engine);
  PyObject_Free(object);
  Py_DECREF(type);
}

static PyObject *output_tuple(const pyga_request *self, const ga_request_output *out) {
  static const char *const kinds[] = {"pending", "prompt", "token", "end"};
  static const char *const finishes[] = {"length", "stop", "context", "cancelled"};
  if (out->event == GA_REQUEST_PENDING) Py_RETURN_NONE;
  if (out->event == GA_REQUEST_END) {
    if (out->status != GA_OK && out->status != GA_ERR_CANCELLED) {
      ga_status set = ga_error_set((ga_status)out->status, "%s", ga_request_error(self->request));
      return pyga_raise(set);
    }
    const char *why = out->status == GA_ERR_CANCELLED ? finishes[3] : finishes[out->finish & 3];
    return Py_BuildValue("(ssss)", kinds[3], why, NULL, NULL);
  }
  PyObject *top = PyList_New(0);
  for (int32_t i = 0; top && i < out->n_top; i++) {
    PyObject *pair = Py_BuildValue("(id)", (int)out->top[i].id, (double)out->top[i].logprob);
    if (!pair || PyList_Append(top, pair)) Py_CLEAR(top);
    Py_XDECREF(pair);
  }
  if (!top) return NULL;
  return Py_BuildValue("(sidN)", kinds[out->event], (int)out->id, (double)out->logprob, top);
}

/* One poll after the other of at most 100 ms, so that Ctrl-C is heard. */
static PyObject *request_poll(PyObject *object, PyObject *args) {
  pyga_request *self = (pyga_request *)object;
  int timeout = -1, left = 0;
  if (!PyArg_ParseTuple(args, "|i:poll", &timeout)) return NULL;
  left = timeout;
  for (;;) {
    ga_request_output out = GA_REQUEST_OUTPUT_INIT;
    const int slice = left < 0 || left > 100 ? 100 : left;
    ga_status status = ga_request_poll(self->request, 0, &out);
    if (status == GA_OK && out.event == GA_REQUEST_PENDING && slice) {
      Py_BEGIN_ALLOW_THREADS;
      status = ga_request_poll(self->request, slice, &out);
      Py_END_ALLOW_THREADS;
    }
    if (status != GA_OK) return pyga_raise(status);
    if (left > 0) left -= slice;
    if (out.event != GA_REQUEST_PENDING || left == 0) return output_tuple(self, &out);
    if (PyErr_CheckSignals()) return NULL;
  }
}

static PyObject *request_cancel(PyObject *object, PyObject *unused) {
  (void)unused;
  ga_request_cancel(((pyga_request *)object)->request);
  Py_RETURN_NONE;
}

static PyObject *request_fileno(PyObject *object, PyObject *unused) {
  (void)unused;
  return PyLong_FromLong(((pyga_request *)object)->event_fd);
}

static PyObject *request_info(PyObject *object, void *unused) {
  (void)unused;
  ga_request_info i = GA_REQUEST_INFO_INIT;
  const ga_status status = ga_request_get_info(((pyga_request *)object)->request, &i);
  if (status != GA_OK) return pyga_raise(status);
  return Py_BuildValue("{s:i,s:i,s:i,s:i,s:d,s:d,s:d}", "n_prompt", (int)i.n_prompt, "n_cached", (int)i.n_cached,
                       "n_generated", (int)i.n_generated, "n_preempted", (int)i.n_preempted, "queue_seconds",
                       i.queue_seconds, "first_token_seconds", i.first_token_seconds, "total_seconds", i.total_seconds);
}

static PyObject *engine_model(PyObject *object, void *unused) {
  (void)unused;
  return Py_NewRef((PyObject *)((pyga_engine *)object)->model);
}

static int request_type_init(PyObject *module) {
  static PyMethodDef methods[] = {
      {"poll", request_poll, METH_VARARGS,
       "poll(timeout_ms=-1)\n\nThe next event: ('token' or 'prompt', id, logprob, top), ('end', reason, None, None), "
       "or None in time."},
      {"cancel", request_cancel, METH_NOARGS, "cancel()\n\nAsks for the end; returns at once."},
      {"fileno", request_fileno, METH_NOARGS,
       "fileno()\n\nA descriptor that is readable when something is new, -1 = none."},
      {NULL, NULL, 0, NULL}};
  static PyGetSetDef getters[] = {
      {"info", request_info, NULL, "A dict: n_prompt, n_cached, n_generated, seconds.", NULL},
      {NULL, NULL, NULL, NULL, NULL}};
  PyType_Slot slots[] = {
      {Py_tp_dealloc, PY_SLOT(request_dealloc)}, {Py_tp_methods, methods}, {Py_tp_getset, getters}, {0, NULL}};
  PyType_Spec spec = {"gpu_accel.RequestBase", sizeof(pyga_request), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  request_type = pyga_type_add(module, &spec);
  return request_type ? 0 : -1;
}

int pyga_engine_init(PyObject *module) {
  static PyMethodDef methods[] = {
      {"_submit", PY_METHOD(engine_submit), METH_FASTCALL | METH_KEYWORDS, NULL},
      {"stats", engine_counts, METH_NOARGS, "stats()\n\nA dict of counts since the start."},
      {"close", engine_close, METH_NOARGS, "close()\n\nCancels what runs and ends the engine's thread."},
      {NULL, NULL, 0, NULL}};
  static PyGetSetDef getters[] = {{"model", engine_model, NULL, "The Model that it runs.", NULL},
                                  {NULL, NULL, NULL, NULL, NULL}};
  PyType_Slot slots[] = {{Py_tp_new, PY_SLOT(engine_new)},
                         {Py_tp_dealloc, PY_SLOT(engine_dealloc)},
                         {Py_tp_methods, methods},
                         {Py_tp_getset, getters},
                         {0, NULL}};
  PyType_Spec spec = {"gpu_accel.EngineBase", sizeof(pyga_engine), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  engine_type = pyga_type_add(module, &spec);
  return engine_type && !request_type_init(module) ? 0 : -1;
}
