/* Context: a device with its memory and kernels, and the lock that makes it safe from several threads. */
#include "python/ext/core.h"
#include "python/ext/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

PyTypeObject *pyga_context_type;

#define MOST_DEVICES 16
static PyObject *default_cpu, *default_cuda[MOST_DEVICES];

static pyga_context *all_contexts; /* under the GIL */

PyThreadState *pyga_enter(pyga_context *c) {
  c->calls++;
  PyThreadState *state = PyEval_SaveThread();
  pthread_mutex_lock(&c->lock);
  c->holder = pthread_self();
  return state;
}

void pyga_leave(pyga_context *c, PyThreadState *state) {
  c->holder = 0;
  pthread_mutex_unlock(&c->lock);
  PyEval_RestoreThread(state);
  c->calls--;
}

/* ---- signals ---- */

#define LOOK_NS 50000000 /* between looks at signals, which take the GIL */

/* Remembers when look_for_signals last ran on this thread, and the Python state that it takes the GIL with. */
typedef struct signal_look {
  PyThreadState *state;
  int64_t last_ns;
} signal_look;

static _Thread_local signal_look signals;

static int64_t monotonic_ns(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int look_for_signals(void *user) {
  signal_look *look = user;
  const int64_t now = monotonic_ns();
  if (now - look->last_ns < LOOK_NS) return 0;
  look->last_ns = now;
  PyEval_RestoreThread(look->state);
  const int raised = PyErr_CheckSignals();
  look->state = PyEval_SaveThread();
  return raised;
}

int pyga_progress(void *user, uint64_t done, uint64_t total) {
  (void)user, (void)done, (void)total;
  return signals.state ? look_for_signals(&signals) : 0;
}

/* Python runs signal handlers on its first thread alone. */
PyThreadState *pyga_begin(pyga_context *c) {
  PyThreadState *state = pyga_enter(c);
  if (gettid() == getpid()) {
    signals = (signal_look){state, monotonic_ns()};
    ga_abort_ops_set(look_for_signals, &signals);
  }
  return state;
}

ga_status pyga_end(pyga_context *c, PyThreadState *state, ga_status status) {
  ga_abort_ops_set(NULL, NULL);
  signals.state = NULL;
  pyga_leave(c, state);
  return PyErr_Occurred() ? GA_ERR_CANCELLED : status;
}

/* ---- fork ---- */

/* Runs in a fork, whose only thread is the one that forked. A context that was in use is half-way through a call which
 * nobody will end. Drivers of GPUs do not work in a fork. */
static void contexts_after_fork(void) {
  for (pyga_context *c = all_contexts; c; c = c->next) {
    const bool free_now = !c->is_cuda && !c->engines && !pthread_mutex_trylock(&c->lock);
    if (free_now) pthread_mutex_unlock(&c->lock);
    if (!free_now) (void)pthread_mutex_init(&c->lock, NULL);
    c->is_stale |= !free_now;
    c->calls = 0;
    c->holder = 0;
  }
  if (default_cpu && ((pyga_context *)default_cpu)->is_stale) default_cpu = NULL;
  memset(default_cuda, 0, sizeof default_cuda);
}

static void unlist_context(const pyga_context *gone) {
  for (pyga_context **at = &all_contexts; *at; at = &(*at)->next)
    if (*at == gone) {
      *at = gone->next;
      return;
    }
}

int pyga_context_ready(const pyga_context *c, const char *op) {
  if (c->is_stale)
    return pyga_fail(GA_ERR_STATE,
                     "%s: the context %s when process %d was forked; allowed is one that is opened after fork()", op,
                     c->is_cuda ? "was one of a GPU" : "was in use", (int)getpid());
  if (c->holder && pthread_equal(c->holder, pthread_self()))
    return pyga_fail(GA_ERR_STATE,
                     "%s: a call on this context is under way in this thread, which a signal handler has "
                     "interrupted; allowed is another Context",
                     op);
  if (c->engines)
    return pyga_fail(GA_ERR_STATE, "%s: an engine lives on this context and uses it alone; make another Context", op);
  return 0;
}

static int stream_keep(pyga_context *c, void *native, ga_stream *stream) {
  pyga_stream *more = realloc(c->streams, ((size_t)c->n_streams + 1) * sizeof *more);
  if (!more) return PyErr_NoMemory(), -1;
  c->streams = more;
  more[c->n_streams++] = (pyga_stream){native, stream};
  return 0;
}

int pyga_context_stream(pyga_context *c, const char *op, PyObject *handle, ga_stream **out) {
  if (!c->is_cuda)
    return pyga_fail(GA_ERR_ARG, "%s: stream is %R; allowed on %s is None", op, handle, ga_ctx_device_name(c->ctx));
  void *native = PyLong_AsVoidPtr(handle);
  if (PyErr_Occurred()) return -1;
  for (int32_t i = 0; i < c->n_streams; i++)
    if (c->streams[i].native == native) {
      *out = c->streams[i].stream;
      return 0;
    }
  PyThreadState *state = pyga_enter(c);
  const ga_status status = ga_stream_wrap(c->ctx, native, out);
  pyga_leave(c, state);
  if (status != GA_OK) return pyga_raise(status), -1;
  if (!stream_keep(c, native, *out)) return 0;
  ga_stream_destroy(*out);
  return -1;
}

int pyga_context_wait_for(pyga_context *c, const char *op, PyObject *object) {
  void *native;
  ga_stream *stream;
  const int found = pyga_producer_stream(object, &native);
  if (found <= 0) return found;
  PyObject *handle = PyLong_FromVoidPtr(native);
  const int bad = !handle || pyga_context_stream(c, op, handle, &stream);
  Py_XDECREF(handle);
  if (bad) return -1;
  PyThreadState *state = pyga_enter(c);
  const ga_status status = ga_stream_sync(c->ctx, stream);
  pyga_leave(c, state);
  return status == GA_OK ? 0 : (pyga_raise(status), -1);
}

static PyObject *context_forget_stream(PyObject *object, PyObject *handle) {
  pyga_context *self = (pyga_context *)object;
  const void *native = PyLong_AsVoidPtr(handle);
  if (PyErr_Occurred()) return NULL;
  for (int32_t i = self->n_streams - 1; i >= 0; i--) {
    if (self->streams[i].native != native) continue;
    ga_stream *stream = self->streams[i].stream;
    self->streams[i] = self->streams[--self->n_streams];
    PyThreadState *state = pyga_enter(self);
    ga_stream_destroy(stream);
    pyga_leave(self, state);
    Py_RETURN_NONE;
  }
  pyga_fail(GA_ERR_ARG, "forget_stream: %R; allowed are streams that an op was given", handle);
  return NULL;
}

static pyga_context *context_make(const ga_ctx_options *options) {
  pyga_context *self = (pyga_context *)PyType_GenericAlloc(pyga_context_type, 0);
  if (!self) return NULL;
  ga_status status = GA_OK;
  Py_BEGIN_ALLOW_THREADS;
  status = ga_ctx_create(options, &self->ctx);
  Py_END_ALLOW_THREADS;
  if (status != GA_OK)
    pyga_raise(status);
  else if (pthread_mutex_init(&self->lock, NULL))
    PyErr_NoMemory();
  else
    self->has_lock = true;
  if (!self->has_lock) {
    Py_DECREF(self);
    return NULL;
  }
  self->next = all_contexts;
  all_contexts = self;
  const char *name = ga_ctx_device_name(self->ctx);
  self->is_cuda = sscanf(name, "cuda:%d", &self->device) == 1;
  self->own_memory = strcmp(name, "cpu") && strcmp(name, "ref");
  return self;
}

static PyObject *context_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  (void)type;
  static char names[3][16] = {"device", "threads", "disable_kernels"};
  char *list[] = {names[0], names[1], names[2], NULL};
  ga_ctx_options options = GA_CTX_OPTIONS_INIT;
  int threads = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|ziz:Context", list, &options.device, &threads,
                                   &options.disable_kernels))
    return NULL;
  options.threads = threads;
  return (PyObject *)context_make(&options);
}

static void context_dealloc(PyObject *object) {
  pyga_context *self = (pyga_context *)object;
  PyTypeObject *type = Py_TYPE(object);
  unlist_context(self);
  if (self->ctx && !self->is_stale) {
    Py_BEGIN_ALLOW_THREADS;
    for (int32_t i = 0; i < self->n_streams; i++) ga_stream_destroy(self->streams[i].stream);
    ga_ctx_destroy(self->ctx);
    Py_END_ALLOW_THREADS;
  }
  free(self->streams);
  if (self->has_lock) pthread_mutex_destroy(&self->lock);
  PyObject_Free(object);
  Py_DECREF(type);
}

static pyga_context *default_context(const char *device, PyObject **slot) {
  if (*slot) return (pyga_context *)*slot;
  ga_ctx_options options = GA_CTX_OPTIONS_INIT;
  options.device = device;
  pyga_context *made = context_make(&options);
  if (made && *slot) { /* another thread was faster while the device opened */
    Py_DECREF(made);
  } else
    *slot = (PyObject *)made;
  return (pyga_context *)*slot;
}

static pyga_context *context_of_device(int is_cuda, int32_t index) {
  if (is_cuda != 1) return default_context("cpu", &default_cpu);
  if (index < 0 || index >= MOST_DEVICES) {
    pyga_fail(GA_ERR_ARG, "device cuda:%d: allowed are 0 to %d", (int)index, MOST_DEVICES - 1);
    return NULL;
  }
  char name[24];
  PyOS_snprintf(name, sizeof name, "cuda:%d", (int)index);
  return default_context(name, &default_cuda[index]);
}

pyga_context *pyga_context_for(PyObject *const *values, Py_ssize_t n) {
  int32_t index = 0;
  for (Py_ssize_t i = 0; i < n; i++) {
    if (PyUnicode_Check(values[i])) continue;
    const int found = pyga_device_of(values[i], &index);
    if (found >= 0) return context_of_device(found, index);
  }
  return context_of_device(0, 0);
}

static PyObject *context_sync(PyObject *object, PyObject *unused) {
  (void)unused;
  pyga_context *self = (pyga_context *)object;
  if (pyga_context_ready(self, "sync")) return NULL;
  PyThreadState *state = pyga_enter(self);
  const ga_status status = ga_stream_sync(self->ctx, NULL);
  pyga_leave(self, state);
  return status == GA_OK ? Py_NewRef(Py_None) : pyga_raise(status);
}

static PyObject *context_memory(PyObject *object, PyObject *unused) {
  (void)unused;
  pyga_context *self = (pyga_context *)object;
  ga_memory_info info = GA_MEMORY_INFO_INIT;
  if (pyga_context_ready(self, "memory")) return NULL;
  PyThreadState *state = pyga_enter(self);
  const ga_status status = ga_ctx_memory(self->ctx, &info);
  pyga_leave(self, state);
  if (status != GA_OK) return pyga_raise(status);
  return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K,s:K}", "total_bytes", (unsigned long long)info.total_bytes,
                       "free_bytes", (unsigned long long)info.free_bytes, "used_bytes",
                       (unsigned long long)info.used_bytes, "used_peak_bytes", (unsigned long long)info.used_peak_bytes,
                       "pooled_bytes", (unsigned long long)info.pooled_bytes, "pooled_peak_bytes",
                       (unsigned long long)info.pooled_peak_bytes, "buffers", (unsigned long long)info.buffers);
}

static int dims_of(PyObject *shape, int64_t dims[PY_MAX_DIMS], int32_t *n) {
  PyObject *tuple = PyLong_Check(shape) ? PyTuple_Pack(1, shape) : PySequence_Tuple(shape);
  if (!tuple) return -1;
  int bad = 0;
  const Py_ssize_t size = PyTuple_Size(tuple);
  if (size > PY_MAX_DIMS)
    bad = pyga_fail(GA_ERR_SHAPE, "empty: %zd dimensions; allowed are at most %d", size, PY_MAX_DIMS);
  for (Py_ssize_t i = 0; !bad && i < size; i++) {
    dims[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
    if (dims[i] == -1 && PyErr_Occurred())
      bad = -1;
    else if (dims[i] < 0 || dims[i] > (int64_t)1 << 40)
      bad = pyga_fail(GA_ERR_SHAPE, "empty: dimension %zd is %lld; allowed are 0 to 2^40", i, (long long)dims[i]);
  }
  Py_DECREF(tuple);
  *n = (int32_t)size;
  return bad;
}

static PyObject *context_empty(PyObject *object, PyObject *args) {
  PyObject *shape = NULL, *type = NULL;
  int64_t dims[PY_MAX_DIMS];
  int32_t n = 0;
  if (!PyArg_ParseTuple(args, "O|O:empty", &shape, &type) || dims_of(shape, dims, &n)) return NULL;
  const ga_dtype dtype = type ? pyga_dtype_arg(type, "empty: dtype") : GA_F32;
  if (dtype == GA_DTYPE_NONE) return NULL;
  return (PyObject *)pyga_array_new((pyga_context *)object, dtype, n, dims);
}

/* The bytes of a contiguous view, or -1. */
static int64_t view_bytes(const pyga_view *view, const char *what) {
  int64_t elems = 1;
  uint64_t bytes = 0;
  for (int32_t i = 0; i < view->n_dims; i++) elems *= view->dim[i];
  if (!pyga_view_is_contiguous(view)) {
    char text[512];
    pyga_view_text(view, text, sizeof text);
    return pyga_fail(GA_ERR_SHAPE, "%s: is %s; allowed is a contiguous array", what, text);
  }
  const ga_status status = ga_dtype_bytes(view->dtype, elems, &bytes);
  if (status != GA_OK) pyga_raise(status);
  return status == GA_OK ? (int64_t)bytes : -1;
}

static PyObject *context_to_device(PyObject *object, PyObject *source) {
  pyga_context *self = (pyga_context *)object;
  pyga_view view;
  pyga_array *made = NULL;
  if (pyga_context_ready(self, "to_device") || pyga_view_get(source, "to_device: x", &view)) return NULL;
  const int64_t bytes = view_bytes(&view, "to_device: x");
  if (bytes >= 0 && view.is_cuda)
    pyga_fail(GA_ERR_ARG, "to_device: x: lies on cuda:%d; allowed is the CPU", (int)view.device);
  else if (bytes >= 0)
    made = pyga_array_new(self, view.dtype, view.n_dims, view.dim);
  if (made && bytes) {
    PyThreadState *state = pyga_enter(self);
    const ga_status status = ga_copy_to_device(self->ctx, made->view.data, view.data, (size_t)bytes, NULL);
    pyga_leave(self, state);
    if (status != GA_OK) {
      pyga_raise(status);
      Py_CLEAR(made);
    }
  }
  pyga_view_release(&view);
  return (PyObject *)made;
}

static PyObject *context_to_host(PyObject *object, PyObject *source) {
  pyga_context *self = (pyga_context *)object;
  pyga_view view;
  pyga_array *made = NULL;
  if (pyga_context_ready(self, "to_host") || pyga_view_get(source, "to_host: x", &view)) return NULL;
  int64_t bytes = view_bytes(&view, "to_host: x");
  if (bytes >= 0 && pyga_view_check(&view, self, "to_host: x", false)) bytes = -1;
  if (bytes >= 0 && self->is_cuda && pyga_context_wait_for(self, "to_host", source)) bytes = -1;
  pyga_context *host = bytes >= 0 ? context_of_device(0, 0) : NULL;
  if (host) made = pyga_array_new(host, view.dtype, view.n_dims, view.dim);
  if (made && bytes) {
    PyThreadState *state = pyga_enter(self);
    const ga_status status = ga_copy_to_host(self->ctx, made->view.data, view.data, (size_t)bytes, NULL);
    pyga_leave(self, state);
    if (status != GA_OK) {
      pyga_raise(status);
      Py_CLEAR(made);
    }
  }
  pyga_view_release(&view);
  return (PyObject *)made;
}

static PyObject *context_device(PyObject *object, void *unused) {
  (void)unused;
  return PyUnicode_FromString(ga_ctx_device_name(((pyga_context *)object)->ctx));
}

static PyObject *context_device_text(PyObject *object, void *unused) {
  (void)unused;
  return PyUnicode_FromString(ga_ctx_device_text(((pyga_context *)object)->ctx));
}

static PyObject *context_threads(PyObject *object, void *unused) {
  (void)unused;
  return PyLong_FromLong(ga_ctx_threads(((pyga_context *)object)->ctx));
}

static PyObject *context_repr(PyObject *object) {
  return PyUnicode_FromFormat("<gpu_accel.Context %s>", ga_ctx_device_name(((pyga_context *)object)->ctx));
}

static PyObject *module_default_context(PyObject *module, PyObject *args) {
  (void)module;
  const char *device = "cpu";
  int index = 0;
  if (!PyArg_ParseTuple(args, "|s:default_context", &device)) return NULL;
  if (strcmp(device, "cpu") && sscanf(device, "cuda:%d", &index) != 1) {
    pyga_fail(GA_ERR_ARG, "default_context: device is '%s'; allowed are 'cpu' and 'cuda:N'", device);
    return NULL;
  }
  return Py_XNewRef((PyObject *)context_of_device(device[1] == 'u', index));
}

static PyMethodDef module_methods[] = {
    {"default_context", module_default_context, METH_VARARGS,
     "default_context(device='cpu')\n\nThe context that functions without one use; opened when first asked for."},
    {NULL, NULL, 0, NULL}};

int pyga_context_init(PyObject *module) {
  if (pthread_atfork(NULL, NULL, contexts_after_fork)) return PyErr_NoMemory(), -1;
  static PyMethodDef own[] = {
      {"sync", context_sync, METH_NOARGS, "sync()\n\nWaits for all work; raises DeviceError for faults of it."},
      {"forget_stream", context_forget_stream, METH_O,
       "forget_stream(stream)\n\nBefore a CUDA stream that ops were given is destroyed: GA lets go of it."},
      {"memory", context_memory, METH_NOARGS, "memory()\n\nA dict of bytes: total, free, used, pooled."},
      {"empty", context_empty, METH_VARARGS, "empty(shape, dtype='f32')\n\nA new Array on this device, not cleared."},
      {"to_device", context_to_device, METH_O,
       "to_device(x)\n\nCopies a contiguous array of the CPU to a new Array of this device."},
      {"to_host", context_to_host, METH_O,
       "to_host(x)\n\nCopies a contiguous array of this device to a new Array of the CPU."}};
  enum { OWN = sizeof own / sizeof own[0] };
  static PyMethodDef methods[OWN + PYGA_OP_METHODS + 1]; /* the rest is zeros: the end */
  memcpy(methods, own, sizeof own);
  pyga_op_methods(methods + OWN);
  static PyGetSetDef getters[] = {
      {"device", context_device, NULL, "'cpu', 'ref' or 'cuda:N'.", NULL},
      {"device_text", context_device_text, NULL, "One line for people: chip, instruction sets, memory, threads.", NULL},
      {"threads", context_threads, NULL, "CPU threads, counting the caller.", NULL},
      {NULL, NULL, NULL, NULL, NULL}};
  static const char doc[] =
      "Context(device='auto', threads=0, disable_kernels=None)\n\n"
      "A device with its memory and kernels. device: 'auto', 'cpu', 'ref' (slow, exact sums) or 'cuda:N'.\n"
      "Any number of threads may share one: calls take turns, and the GIL is released meanwhile.\n"
      "Every op of the module is a method too; all arrays of a call lie on the context's device.\n"
      "stream=, which every op takes on a GPU: a CUDA stream as an int (torch: current_stream().cuda_stream). The "
      "call\n"
      "then returns when its work is enqueued there; the stream lives as long as the context, or until "
      "forget_stream().";
  PyType_Slot slots[] = {{Py_tp_new, PY_SLOT(context_new)},
                         {Py_tp_dealloc, PY_SLOT(context_dealloc)},
                         {Py_tp_methods, methods},
                         {Py_tp_getset, getters},
                         {Py_tp_repr, PY_SLOT(context_repr)},
                         {Py_tp_doc, PY_SLOT(doc)},
                         {0, NULL}};
  PyType_Spec spec = {"gpu_accel.Context", sizeof(pyga_context), 0, Py_TPFLAGS_DEFAULT, slots};
  pyga_context_type = pyga_type_add(module, &spec);
  return pyga_context_type ? PyModule_AddFunctions(module, module_methods) : -1;
}
