/* A call of an op: its arrays, its outputs, and the run itself. */
#include "python/ext/ops.h"

#include <stdlib.h>
#include <string.h>

const char *pyga_what(pyga_call *call, int index) {
  const size_t room = sizeof call->what - 1;
  const size_t op = strlen(call->op->name);
  const char *name = call->args.names[index];
  memcpy(call->what, call->op->name, op);
  memcpy(call->what + op, ": ", 2);
  size_t n = strlen(name);
  if (n > room - op - 2) n = room - op - 2;
  memcpy(call->what + op + 2, name, n);
  call->what[op + 2 + n] = 0;
  return call->what;
}

static int call_view(pyga_call *call, int index, bool write, pyga_view **out) {
  PyObject *value = call->args.value[index];
  *out = NULL;
  if (!value) return 0;
  pyga_view *view = &call->views[call->n_views];
  const char *what = pyga_what(call, index);
  if (pyga_view_get(value, what, view)) return -1;
  call->view_of[call->n_views] = (int8_t)index;
  call->view_written[call->n_views++] = write;
  *out = view;
  return pyga_view_check(view, call->context, what, write);
}

static int call_missing(pyga_call *call, int index) {
  PyErr_Format(PyExc_TypeError, "%s is missing", pyga_what(call, index));
  return -1;
}

static void call_result(pyga_call *call, PyObject *owned) { call->results[call->n_results++] = owned; }

int pyga_in(pyga_call *call, int index, pyga_view **out) { return call_view(call, index, false, out); }

int pyga_need(pyga_call *call, int index, pyga_view **out) {
  return call->args.value[index] ? call_view(call, index, false, out) : call_missing(call, index);
}

int pyga_in_out(pyga_call *call, int index, pyga_view **out) {
  if (!call->args.value[index]) return call_missing(call, index);
  if (call_view(call, index, true, out)) return -1;
  call_result(call, Py_NewRef(call->args.value[index]));
  return 0;
}

int pyga_bad_shape(pyga_call *call, int index, const pyga_view *view, const char *allowed) {
  char text[512];
  pyga_view_text(view, text, sizeof text);
  return pyga_fail(GA_ERR_SHAPE, "%s: is %s; allowed is %s", pyga_what(call, index), text, allowed);
}

static void dims_text(char *text, size_t capacity, ga_dtype dtype, int32_t n, const int64_t *dims) {
  size_t used = (size_t)PyOS_snprintf(text, capacity, "%s [", ga_dtype_name(dtype));
  for (int32_t i = 0; i < n && used + 24 < capacity; i++)
    used += (size_t)PyOS_snprintf(text + used, capacity - used, "%s%lld", i ? ", " : "", (long long)dims[i]);
  PyOS_snprintf(text + used, capacity - used, "]");
}

int pyga_out(pyga_call *call, int index, ga_dtype dtype, int32_t n_dims, const int64_t *dims, pyga_view **out) {
  if (call->args.value[index]) {
    if (pyga_in_out(call, index, out)) return -1;
    char text[256];
    bool same = (*out)->n_dims == n_dims && (*out)->dtype == dtype;
    for (int32_t i = 0; same && i < n_dims; i++) same = (*out)->dim[i] == dims[i];
    if (same) return 0;
    dims_text(text, sizeof text, dtype, n_dims, dims);
    return pyga_bad_shape(call, index, *out, text);
  }
  pyga_array *made = pyga_array_new(call->context, dtype, n_dims, dims);
  if (!made) return -1;
  call_result(call, (PyObject *)made);
  pyga_view *view = &call->views[call->n_views];
  call->view_of[call->n_views++] = -1;
  *view = made->view;
  view->owner = NULL; /* the result keeps it */
  *out = view;
  return 0;
}

int pyga_out_cleared(pyga_call *call, int index, ga_dtype dtype, int32_t n_dims, const int64_t *dims, pyga_view **out) {
  const ga_dtype_traits *traits = ga_dtype_info(dtype);
  size_t bytes = (size_t)traits->block_bytes;
  if (pyga_out(call, index, dtype, n_dims, dims, out)) return -1;
  if (call->args.value[index]) return 0;
  for (int32_t i = 0; i < n_dims; i++) bytes *= (size_t)dims[i];
  if (!call->context->own_memory) {
    memset((*out)->data, 0, bytes);
    return 0;
  }
  void *zeros = calloc(bytes + 1, 1);
  if (!zeros) return PyErr_NoMemory(), -1;
  PyThreadState *state = pyga_enter(call->context);
  const ga_status status = ga_copy_to_device(call->context->ctx, (*out)->data, zeros, bytes, call->stream);
  pyga_leave(call->context, state);
  free(zeros);
  return status == GA_OK ? 0 : (pyga_raise(status), -1);
}

int pyga_vector(pyga_call *call, int index, ga_dtype dtype, int64_t n, int64_t *seen, const void **out) {
  pyga_view *view = NULL;
  *out = NULL;
  if (pyga_in(call, index, &view)) return -1;
  if (!view) return 0;
  int64_t elems = 1;
  for (int32_t i = 0; i < view->n_dims; i++) elems *= view->dim[i];
  if (view->dtype != dtype)
    return pyga_fail(GA_ERR_DTYPE, "%s: is %s; allowed is %s", pyga_what(call, index), ga_dtype_name(view->dtype),
                     ga_dtype_name(dtype));
  if (!pyga_view_is_contiguous(view)) return pyga_bad_shape(call, index, view, "a contiguous array");
  if (n >= 0 && elems != n)
    return pyga_fail(GA_ERR_SHAPE, "%s: has %lld elements; allowed are %lld", pyga_what(call, index), (long long)elems,
                     (long long)n);
  if (seen) *seen = elems;
  *out = view->data;
  return 0;
}

int pyga_rows(pyga_call *call, int index, const pyga_view *view, int64_t *rows, int64_t *width, int64_t *stride) {
  const int32_t last = view->n_dims - 1;
  if (last < 0 || (view->dim[last] > 1 && view->stride[last] != 1))
    return pyga_bad_shape(call, index, view, "an array [..., width], contiguous along the last dimension");
  *width = view->dim[last];
  *rows = 1;
  *stride = 0;
  for (int32_t i = last - 1; i >= 0; i--) {
    if (view->dim[i] == 1) continue;
    if (*stride && view->stride[i] != *stride * *rows)
      return pyga_bad_shape(call, index, view, "leading dimensions that lie at one distance");
    if (!*stride) *stride = view->stride[i];
    *rows *= view->dim[i];
    if (*rows > 1 && *stride < *width) return pyga_bad_shape(call, index, view, "rows that do not overlap");
  }
  if (!*rows) *stride = 0;
  return 0;
}

int pyga_dtype_of_arg(pyga_call *call, int index, ga_dtype *out) {
  if (!call->args.value[index]) return 0;
  *out = pyga_dtype_arg(call->args.value[index], pyga_what(call, index));
  return *out == GA_DTYPE_NONE ? -1 : 0;
}

/* Refuses a written array whose elements share memory with one another, or in part with another argument. One that is
 * exactly another argument is the op's to allow. */
static int check_overlaps(pyga_call *call) {
  for (int32_t i = 0; i < call->n_views; i++) {
    if (call->view_of[i] < 0 || !call->view_written[i]) continue;
    if (pyga_view_overlaps_itself(&call->views[i]))
      return pyga_bad_shape(call, call->view_of[i], &call->views[i], "an array whose elements do not overlap");
    for (int32_t k = 0; k < call->n_views; k++)
      if (k != i && call->view_of[k] >= 0 && pyga_views_overlap(&call->views[i], &call->views[k]))
        return pyga_fail(GA_ERR_ARG, "%s: shares memory with %s; allowed is memory of its own, or all of an input",
                         pyga_what(call, call->view_of[i]), call->args.names[call->view_of[k]]);
  }
  return 0;
}

/* Index of "workspace"; "stream" follows, the last name. */
static int workspace_index(const pyga_op *op) {
  int i = 0;
  while (op->names[i + 2]) i++;
  return i;
}

int pyga_call_begin(pyga_call *call, const pyga_op *op, pyga_context *context, PyObject *const *args, Py_ssize_t n,
                    PyObject *keywords) {
  call->op = op;
  call->context = context;
  call->n_views = call->n_results = 0;
  call->bias = NULL;
  call->stream = NULL;
  if (pyga_context_ready(context, op->name)) return -1;
  if (pyga_args_get(&call->args, op->name, op->names, op->positional, args, n, keywords)) return -1;
  PyObject *stream = call->args.value[workspace_index(op) + 1];
  if (stream && pyga_context_stream(context, op->name, stream, &call->stream)) return -1;
  return op->fill(call) || check_overlaps(call) ? -1 : 0;
}

void pyga_call_end(pyga_call *call) {
  for (int32_t i = 0; i < call->n_views; i++) pyga_view_release(&call->views[i]);
  for (int32_t i = 0; i < call->n_results; i++) Py_XDECREF(call->results[i]);
  free(call->bias);
}

PyObject *pyga_call_results(pyga_call *call) {
  if (call->op->finish && call->op->finish(call)) return NULL;
  if (call->n_results == 1) return Py_NewRef(call->results[0]);
  PyObject *tuple = PyTuple_New(call->n_results);
  for (int32_t i = 0; tuple && i < call->n_results; i++)
    if (PyTuple_SetItem(tuple, i, Py_NewRef(call->results[i]))) Py_CLEAR(tuple);
  return tuple;
}

/* Those of a call on the context's own stream. */
static int wait_for_producers(pyga_call *call) {
  if (!call->context->is_cuda || call->stream) return 0;
  for (int i = 0; call->op->names[i]; i++) {
    PyObject *value = call->args.value[i];
    if (!value || PyUnicode_Check(value) || PyLong_Check(value) || PyFloat_Check(value)) continue;
    if (pyga_context_wait_for(call->context, call->op->name, value)) return -1;
  }
  return 0;
}

static PyObject *call_at_once(const pyga_op *op, pyga_context *context, PyObject *const *args, Py_ssize_t n,
                              PyObject *keywords) {
  pyga_call call;
  PyObject *result = NULL;
  int bad = pyga_call_begin(&call, op, context, args, n, keywords);
  if (!bad && call.args.value[workspace_index(op)])
    bad = pyga_fail(GA_ERR_ARG, "%s: workspace: allowed in Plan.run() only", op->name);
  if (!bad) bad = wait_for_producers(&call);
  if (!bad) {
    PyThreadState *state = pyga_begin(context);
    ga_status status = op->both(context->ctx, &call);
    if (status == GA_OK && context->own_memory && !call.stream) status = ga_stream_sync(context->ctx, NULL);
    status = pyga_end(context, state, status);
    result = status == GA_OK ? pyga_call_results(&call) : pyga_raise(status);
  }
  pyga_call_end(&call);
  return result;
}

/* A Python function and a method of Context for each op: the table's order is that of pyga_op_table. */
// clang-format off
#define OPS(X) \
  X(gemm) X(attention) X(attention_backward) X(attn_quant) X(attention_8bit) X(norm) X(rope) X(act) X(add) \
  X(softmax) X(embed) X(convert) X(kv_store) X(sample)
// clang-format on

#define ENTRIES(op)                                                                                           \
  static PyObject *method_##op(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *keywords) {     \
    return call_at_once(&pyga_op_##op, (pyga_context *)self, args, n, keywords);                              \
  }                                                                                                           \
  static PyObject *function_##op(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *keywords) { \
    (void)module;                                                                                             \
    pyga_context *c = pyga_context_for(args, n + (keywords ? PyTuple_Size(keywords) : 0));                    \
    return c ? call_at_once(&pyga_op_##op, c, args, n, keywords) : NULL;                                      \
  }
OPS(ENTRIES)

#define TABLE_ROW(op) &pyga_op_##op,
const pyga_op *const pyga_op_table[PYGA_OP_COUNT] = {OPS(TABLE_ROW)};

static const PyCFunction entries[][2] = {
#define ENTRY_ROW(op) {PY_METHOD(method_##op), PY_METHOD(function_##op)},
    OPS(ENTRY_ROW)};

static void methods_of(PyMethodDef *methods, int form) {
  for (int i = 0; i < PYGA_OP_COUNT; i++)
    methods[i] =
        (PyMethodDef){pyga_op_table[i]->name, entries[i][form], METH_FASTCALL | METH_KEYWORDS, pyga_op_table[i]->doc};
}

void pyga_op_methods(PyMethodDef *methods) {
  methods_of(methods, 0);
  methods[PYGA_OP_COUNT] =
      (PyMethodDef){"plan", PY_METHOD(pyga_context_plan), METH_FASTCALL | METH_KEYWORDS,
                    "plan(op, *args, **kwargs)\n\nThe Plan of a call of that op with these arguments; "
                    "nothing runs.\nctx.plan('gemm', x, w).describe()"};
}

int pyga_ops_init(PyObject *module) {
  static PyMethodDef functions[PYGA_OP_COUNT + 1];
  methods_of(functions, 1);
  return PyModule_AddFunctions(module, functions);
}

/* ---- plans ---- */

typedef struct pyga_plan {
  PyObject_HEAD pyga_context *context;
  const pyga_op *op;
  ga_plan *plan;
  size_t desc_bytes;
  unsigned char desc[sizeof(((pyga_call *)0)->desc)];
} pyga_plan;

static PyTypeObject *plan_type;

static const pyga_op *op_named(PyObject *name) {
  for (int i = 0; PyUnicode_Check(name) && i < PYGA_OP_COUNT; i++)
    if (!PyUnicode_CompareWithASCIIString(name, pyga_op_table[i]->name)) return pyga_op_table[i];
  pyga_fail(GA_ERR_ARG, "plan: op is %R; allowed are the names of the ops, such as 'gemm'", name);
  return NULL;
}

PyObject *pyga_context_plan(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *keywords) {
  pyga_context *context = (pyga_context *)self;
  if (n < 1) {
    PyErr_SetString(PyExc_TypeError, "plan: op is missing");
    return NULL;
  }
  const pyga_op *op = op_named(args[0]);
  pyga_call call;
  if (!op) return NULL;
  pyga_plan *made = NULL;
  if (!pyga_call_begin(&call, op, context, args + 1, n - 1, keywords))
    made = (pyga_plan *)PyType_GenericAlloc(plan_type, 0);
  if (made) {
    PyThreadState *state = pyga_enter(context);
    const ga_status status = op->plan(context->ctx, &call, &made->plan);
    pyga_leave(context, state);
    made->op = op;
    made->context = (pyga_context *)Py_NewRef(self);
    made->desc_bytes = call.desc_bytes;
    memcpy(made->desc, &call.desc, call.desc_bytes);
    if (status != GA_OK) {
      pyga_raise(status);
      Py_CLEAR(made);
    }
  }
  pyga_call_end(&call);
  return (PyObject *)made;
}

static void plan_dealloc(PyObject *object) {
  pyga_plan *self = (pyga_plan *)object;
  PyTypeObject *type = Py_TYPE(object);
  if (self->context) {
    PyThreadState *state = pyga_enter(self->context);
    ga_plan_destroy(self->plan);
    pyga_leave(self->context, state);
    Py_DECREF(self->context);
  }
  PyObject_Free(object);
  Py_DECREF(type);
}

/* The caller's workspace, or a new one for this run; *keep holds a new one. */
static int plan_workspace(const pyga_plan *self, pyga_call *call, void **data, pyga_array **keep) {
  const int64_t bytes = (int64_t)ga_plan_workspace_bytes(self->plan);
  const int index = workspace_index(self->op);
  pyga_view *view = NULL;
  if (call->args.value[index]) {
    if (call->n_views >= PYGA_MAX_VIEWS || call_view(call, index, true, &view)) return -1;
    int64_t given = ga_dtype_info(view->dtype)->block_bytes;
    for (int32_t i = 0; i < view->n_dims; i++) given *= view->dim[i];
    if (given < bytes || !pyga_view_is_contiguous(view) || (uintptr_t)view->data % 256)
      return pyga_fail(GA_ERR_ARG,
                       "%s: workspace: %lld bytes at %p; allowed are %lld and more, contiguous, at a multiple of 256",
                       self->op->name, (long long)given, view->data, (long long)bytes);
    *data = view->data;
  } else if (bytes) {
    const int64_t padded = bytes + 256;
    *keep = pyga_array_new(self->context, GA_U8, 1, &padded);
    if (!*keep) return -1;
    *data = (char *)(*keep)->view.data + (256 - (uintptr_t)(*keep)->view.data % 256) % 256;
  }
  return 0;
}

static PyObject *plan_run(PyObject *object, PyObject *const *args, Py_ssize_t n, PyObject *keywords) {
  pyga_plan *self = (pyga_plan *)object;
  pyga_call call;
  PyObject *result = NULL;
  void *workspace = NULL;
  pyga_array *keep = NULL;
  int bad = pyga_call_begin(&call, self->op, self->context, args, n, keywords);
  if (!bad && memcmp(self->desc, &call.desc, self->desc_bytes))
    bad = pyga_fail(GA_ERR_SHAPE, "%s: this plan was made for other shapes, strides, types or options", self->op->name);
  if (!bad) bad = plan_workspace(self, &call, &workspace, &keep) || check_overlaps(&call);
  if (!bad) bad = wait_for_producers(&call);
  if (!bad) {
    PyThreadState *state = pyga_begin(self->context);
    ga_status status = self->op->run(self->plan, &call, workspace);
    if (status == GA_OK && self->context->own_memory && !call.stream) status = ga_stream_sync(self->context->ctx, NULL);
    status = pyga_end(self->context, state, status);
    result = status == GA_OK ? pyga_call_results(&call) : pyga_raise(status);
  }
  Py_XDECREF((PyObject *)keep);
  pyga_call_end(&call);
  return result;
}

static PyObject *plan_describe(PyObject *object, PyObject *unused) {
  (void)unused;
  char *text = malloc(65536);
  if (!text) return PyErr_NoMemory();
  ga_plan_describe(((pyga_plan *)object)->plan, text, 65536);
  PyObject *made = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
  free(text);
  return made;
}

static PyObject *plan_kernel(PyObject *object, void *unused) {
  (void)unused;
  return PyUnicode_FromString(ga_plan_kernel_id(((pyga_plan *)object)->plan));
}

static PyObject *plan_bytes(PyObject *object, void *unused) {
  (void)unused;
  return PyLong_FromSize_t(ga_plan_workspace_bytes(((pyga_plan *)object)->plan));
}

static PyObject *plan_op(PyObject *object, void *unused) {
  (void)unused;
  return PyUnicode_FromString(((pyga_plan *)object)->op->name);
}

int pyga_plan_init(PyObject *module) {
  static PyMethodDef methods[] = {
      {"run", PY_METHOD(plan_run), METH_FASTCALL | METH_KEYWORDS,
       "run(*args, workspace=None, **kwargs)\n\nRuns with other arrays of the same shapes, strides and types; the "
       "arguments are those "
       "of the op.\nShapeError when they differ from the plan's."},
      {"describe", plan_describe, METH_NOARGS, "describe()\n\nThe chosen kernel, why, and why the others were not."},
      {NULL, NULL, 0, NULL}};
  static PyGetSetDef getters[] = {{"kernel", plan_kernel, NULL, "Id of the chosen kernel.", NULL},
                                  {"workspace_bytes", plan_bytes, NULL, "Bytes of workspace that a run needs.", NULL},
                                  {"op", plan_op, NULL, "Name of the op.", NULL},
                                  {NULL, NULL, NULL, NULL, NULL}};
  static const char doc[] = "What Context.plan() chose. Immutable; any number of threads may run it.";
  PyType_Slot slots[] = {{Py_tp_dealloc, PY_SLOT(plan_dealloc)},
                         {Py_tp_methods, methods},
                         {Py_tp_getset, getters},
                         {Py_tp_doc, PY_SLOT(doc)},
                         {0, NULL}};
  PyType_Spec spec = {"gpu_accel.Plan", sizeof(pyga_plan), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                      slots};
  plan_type = pyga_type_add(module, &spec);
  return plan_type ? 0 : -1;
}
