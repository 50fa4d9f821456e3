/* Python module, shared parts: input arrays, result arrays, contexts, arguments and errors.
 *
 * Built over CPython's stable ABI of 3.11. Every entry holds the interpreter's lock (GIL) unless it says otherwise. */
#ifndef GA_PYTHON_CORE_H
#define GA_PYTHON_CORE_H

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pthread.h>

#include <stdatomic.h>

#include "ga/ctx.h"

#define PY_MAX_DIMS 8
/* ISO C has no cast between code and data; every system with Python has one. */
#define PY_SLOT(f)   (__extension__(void *)(f))
#define PY_METHOD(f) ((PyCFunction)(void (*)(void))(f))

/* ---- errors ---- */

int pyga_errors_init(PyObject *module);
/* Raises the exception of a status with the thread's ga_error_text(); an exception that is set already stays. Returns
 * NULL. */
PyObject *pyga_raise(ga_status status);
/* Raises the exception of a status with a text formatted as by PyUnicode_FromFormat. Returns -1. */
int pyga_fail(ga_status status, const char *format, ...);

/* ---- contexts ---- */

/* A stream of the caller's, wrapped at its first use. */
typedef struct pyga_stream {
  void *native;
  ga_stream *stream;
} pyga_stream;

typedef struct pyga_context {
  PyObject_HEAD ga_ctx *ctx;
  pthread_mutex_t lock; /* held around each call on ctx; taken with the GIL released, or by trylock */
  bool has_lock;
  bool is_cuda;
  bool own_memory;           /* arrays lie in device memory and calls return early: GPUs, emulated or not */
  int32_t device;            /* index among GPUs */
  int32_t engines;           /* number of engines on it; an engine uses it alone */
  int32_t sessions;          /* number of sessions on it */
  int32_t calls;             /* number of calls between pyga_enter and pyga_leave */
  bool is_stale;             /* in a fork: the context was in use then, or is one of a GPU; no call on it may run */
  _Atomic(pthread_t) holder; /* thread that holds the lock; 0 = none */
  struct pyga_context *next; /* of all contexts */
  pyga_stream *streams;
  int32_t n_streams; /* all counts and streams change under the GIL */
} pyga_context;

extern PyTypeObject *pyga_context_type;
int pyga_context_init(PyObject *module);
/* Releases the GIL and takes the context's lock; pyga_leave undoes both. */
PyThreadState *pyga_enter(pyga_context *c);
void pyga_leave(pyga_context *c, PyThreadState *state);
/* As pyga_enter and pyga_leave, for work that may take long: signals are looked for meanwhile. pyga_end returns status,
 * or GA_ERR_CANCELLED with the exception of a signal handler. */
PyThreadState *pyga_begin(pyga_context *c);
ga_status pyga_end(pyga_context *c, PyThreadState *state, ga_status status);
/* A ga_progress_fn for calls between pyga_begin and pyga_end: looks for signals, whatever the device. */
int pyga_progress(void *user, uint64_t done, uint64_t total);
/* Checks that a context may be used. -1 with an exception: an engine uses it, this thread does already, or it is of the
 * process that this one was forked from. */
int pyga_context_ready(const pyga_context *c, const char *op);
/* Finds or wraps the ga_stream of a native handle, an int. -1 with an exception. */
int pyga_context_stream(pyga_context *c, const char *op, PyObject *handle, ga_stream **out);
/* Makes the context wait for the work that the producer of an array on this GPU has enqueued. -1 with an exception. */
int pyga_context_wait_for(pyga_context *c, const char *op, PyObject *object);
/* The default context of the device that the first array among the values lies on; borrowed. NULL with an exception. */
pyga_context *pyga_context_for(PyObject *const *values, Py_ssize_t n);

/* ---- input arrays ---- */

typedef struct pyga_view {
  void *data;
  ga_dtype dtype;
  int32_t n_dims;
  bool read_only, is_cuda;
  int32_t device;
  int64_t dim[PY_MAX_DIMS], stride[PY_MAX_DIMS]; /* stride in elements; as in a contiguous array for dims of size 1 */
  /* The owner of the memory: one of the three. */
  PyObject *owner;
  Py_buffer buffer;
  bool has_buffer;
} pyga_view;

/* Fills a view of any object that has the buffer protocol, __dlpack__ or __cuda_array_interface__. what: "gemm: x", for
 * error texts. Copies nothing. Release with pyga_view_release, which also takes a zeroed view. */
int pyga_view_get(PyObject *object, const char *what, pyga_view *view);
void pyga_view_release(pyga_view *view);
/* Checks that a view is on the device of c and, with `write`, may be written. -1 with an exception. */
int pyga_view_check(const pyga_view *view, const pyga_context *c, const char *what, bool write);
bool pyga_view_is_contiguous(const pyga_view *view);
/* Returns true when two elements of a view have one address. */
bool pyga_view_overlaps_itself(const pyga_view *view);
/* Returns true when two views share memory and are not the same view. Views that lie between each other's rows at equal
 * distances share none; at other distances they count as sharing. */
bool pyga_views_overlap(const pyga_view *a, const pyga_view *b);
/* Writes a view's type and shape: "f32 [2, 3] strides [3, 1]". */
void pyga_view_text(const pyga_view *view, char *text, size_t capacity);
/* True when an object supports DLPack, by its type's table of C functions or its method __dlpack__. */
bool pyga_has_dlpack(PyObject *object);
int pyga_dlpack_view(PyObject *object, const char *what, pyga_view *view);
int pyga_cuda_interface_view(PyObject *interface, const char *what, pyga_view *view);
/* The device that an object reports: 1 and *index for a GPU, 0 for the CPU, -1 for an object that is no array. Raises
 * nothing. */
int pyga_device_of(PyObject *object, int32_t *index);
/* Finds the stream to wait for before an object is read. 1: *stream, where NULL = the legacy default stream. 0: no wait
 * is needed. -1 with an exception. Without a table of C functions, __dlpack__ is called to make that stream wait for
 * the producer's work. */
int pyga_producer_stream(PyObject *object, void **stream);
PyObject *pyga_module_producer_stream(PyObject *module, PyObject *object);
/* The element type of a format of the struct module and an item size; GA_DTYPE_NONE, and the reason in *why, when there
 * is none. */
ga_dtype pyga_dtype_of_format(const char *format, Py_ssize_t itemsize, const char **why);

/* ---- result arrays ---- */

typedef struct pyga_array {
  PyObject_HEAD pyga_view view;
  pyga_context *context; /* owner of device memory, which is freed to it; else NULL */
  void *memory;          /* owned; NULL for a view of other memory */
  Py_ssize_t shape_bytes[PY_MAX_DIMS], stride_bytes[PY_MAX_DIMS];
  PyObject *weak; /* list of weak references */
} pyga_array;

extern PyTypeObject *pyga_array_type;
int pyga_array_init(PyObject *module);
/* Makes an array of new memory on the context's device, not cleared. */
pyga_array *pyga_array_new(pyga_context *c, ga_dtype dtype, int32_t n_dims, const int64_t *dims);
PyObject *pyga_array_dlpack(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *pyga_array_dlpack_device(PyObject *self, PyObject *unused);
PyObject *pyga_array_cuda_interface(PyObject *self, void *unused);
PyObject *pyga_module_asarray(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* Reads a dtype's name, or None. GA_DTYPE_NONE with an exception for other values. */
ga_dtype pyga_dtype_arg(PyObject *value, const char *what);

/* ---- arguments ---- */

#define PY_MAX_ARGS 32

/* The arguments of one call in the order of `names`, which ends with NULL. An argument that is not given, or None, is
 * NULL. */
typedef struct pyga_args {
  const char *op;
  const char *const *names;
  PyObject *value[PY_MAX_ARGS];
} pyga_args;

/* Reads arguments; the first `positional` ones may be given by position. */
int pyga_args_get(pyga_args *a, const char *op, const char *const *names, Py_ssize_t positional, PyObject *const *args,
                  Py_ssize_t n, PyObject *keywords);
/* Read an argument; *out is unchanged when it is not given. -1 with an exception for a value of another kind. */
int pyga_arg_int(const pyga_args *a, int index, int64_t least, int64_t most, int64_t *out);
int pyga_arg_i32(const pyga_args *a, int index, int32_t least, int32_t most, int32_t *out);
int pyga_arg_float(const pyga_args *a, int index, float *out);
/* Reads the scale of attention's logits, which is any number: C takes 0 for its default, Python None. */
int pyga_arg_scale(const pyga_args *a, int index, float *out);
/* Returns the scale as C takes it: 0 becomes the smallest normal number, with which all weights are equal. */
float pyga_scale(float scale);
int pyga_arg_bool(const pyga_args *a, int index, bool *out);
int pyga_arg_text(const pyga_args *a, int index, const char **out);
/* Reads an argument that is one of `words`, which ends with NULL; *out is its index. */
int pyga_arg_word(const pyga_args *a, int index, const char *const *words, int32_t *out);

/* ---- parts of the module ---- */

int pyga_plan_init(PyObject *module);
int pyga_ops_init(PyObject *module);
int pyga_model_init(PyObject *module);
int pyga_engine_init(PyObject *module);
int pyga_dist_init(PyObject *module);
int pyga_jax_init(PyObject *module);
/* Makes a type and puts it into the module under the last part of its name. */
PyTypeObject *pyga_type_add(PyObject *module, PyType_Spec *spec);
/* Frees an object's memory by its type's tp_free, for types that Python classes derive from. */
void pyga_free_object(PyTypeObject *type, PyObject *object);

#endif
