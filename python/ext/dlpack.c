/* DLPack in and out, and __cuda_array_interface__. */
#include "python/ext/dlpack.h"

#include "python/ext/core.h"

#include <stdlib.h>
#include <string.h>

static const struct {
  ga_dtype dtype;
  uint8_t code, bits;
} dlpack_types[] = {{GA_F32, DLPACK_FLOAT, 32},         {GA_F16, DLPACK_FLOAT, 16},      {GA_BF16, DLPACK_BFLOAT, 16},
                    {GA_F64, DLPACK_FLOAT, 64},         {GA_I8, DLPACK_INT, 8},          {GA_I16, DLPACK_INT, 16},
                    {GA_I16, DLPACK_UINT, 16}, /* in only: the first row of a type is what goes out */
                    {GA_I32, DLPACK_INT, 32},           {GA_I64, DLPACK_INT, 64},        {GA_U8, DLPACK_UINT, 8},
                    {GA_E4M3, DLPACK_FLOAT8_E4M3FN, 8}, {GA_E5M2, DLPACK_FLOAT8_E5M2, 8}};
enum { DLPACK_TYPES = sizeof dlpack_types / sizeof dlpack_types[0] };

static int tensor_device(const dlpack_tensor *t, const char *what, pyga_view *view) {
  switch (t->device_type) {
  case DLPACK_CPU:
  case DLPACK_CUDA_HOST: return 0;
  case DLPACK_CUDA:
  case DLPACK_CUDA_MANAGED:
    view->is_cuda = true;
    view->device = t->device_id;
    return 0;
  default:
    return pyga_fail(GA_ERR_ARG, "%s: lies on DLPack device type %d; allowed are 1 (CPU), 2 (CUDA), 3 and 13", what,
                     (int)t->device_type);
  }
}

static int view_of_tensor(const dlpack_tensor *t, const char *what, pyga_view *view) {
  if (t->n_dims < 0 || t->n_dims > PY_MAX_DIMS)
    return pyga_fail(GA_ERR_SHAPE, "%s: has %d dimensions; allowed are at most %d", what, (int)t->n_dims, PY_MAX_DIMS);
  for (int i = 0; i < DLPACK_TYPES; i++)
    if (dlpack_types[i].code == t->type_code && dlpack_types[i].bits == t->type_bits && t->type_lanes == 1)
      view->dtype = dlpack_types[i].dtype;
  if (view->dtype == GA_DTYPE_NONE)
    return pyga_fail(GA_ERR_DTYPE,
                     "%s: element type is DLPack code %d of %d bits; allowed are f32, f16, bf16, f64, e4m3, e5m2, i8, "
                     "u8, i16, i32, i64",
                     what, (int)t->type_code, (int)t->type_bits);
  view->data = (char *)t->data + t->byte_offset;
  view->n_dims = t->n_dims;
  int64_t inner = 1;
  for (int32_t i = t->n_dims - 1; i >= 0; i--) {
    view->dim[i] = t->shape[i];
    view->stride[i] = t->strides ? t->strides[i] : inner;
    inner *= t->shape[i];
  }
  return tensor_device(t, what, view);
}

enum { ORDER_NOTHING = -1, ORDER_LEGACY = 1 }; /* stream= of __dlpack__ on a GPU; 1 is the legacy default stream */

static PyObject *dlpack_names(PyObject *object, bool versioned, long stream) {
  int32_t index;
  PyObject *names = PyDict_New(), *version = versioned ? Py_BuildValue("(ii)", 1, 1) : NULL;
  PyObject *order = pyga_device_of(object, &index) == 1 ? PyLong_FromLong(stream) : NULL;
  const bool bad = !names || (version && PyDict_SetItemString(names, "max_version", version)) ||
                   (order && PyDict_SetItemString(names, "stream", order)) || PyErr_Occurred();
  Py_XDECREF(version), Py_XDECREF(order);
  if (bad) Py_CLEAR(names);
  return names;
}

static PyObject *call_method(PyObject *object, bool versioned, long stream) {
  PyObject *method = PyObject_GetAttrString(object, "__dlpack__");
  PyObject *empty = method ? PyTuple_New(0) : NULL;
  PyObject *names = empty ? dlpack_names(object, versioned, stream) : NULL;
  PyObject *capsule = names ? PyObject_Call(method, empty, names) : NULL;
  Py_XDECREF(method), Py_XDECREF(empty), Py_XDECREF(names);
  return capsule;
}

static PyObject *call_dlpack(PyObject *object, long stream) {
  PyObject *capsule = call_method(object, true, stream);
  if (capsule || !PyErr_ExceptionMatches(PyExc_TypeError)) return capsule;
  PyErr_Clear(); /* from before version 1 */
  return call_method(object, false, stream);
}

/* The capsule stays unconsumed as owner: its destructor calls the deleter when the last reference goes. */
static int view_of_capsule(PyObject *capsule, const char *what, pyga_view *view) {
  view->owner = capsule;
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    const dlpack_versioned *v = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (v->major != 1)
      return pyga_fail(GA_ERR_FORMAT, "%s: DLPack version is %u.%u; allowed is 1", what, (unsigned)v->major,
                       (unsigned)v->minor);
    if (v->flags & DLPACK_IS_COPIED)
      return pyga_fail(GA_ERR_ARG, "%s: __dlpack__ gave a copy; allowed is the memory itself", what);
    view->read_only = v->flags & DLPACK_READ_ONLY;
    return view_of_tensor(&v->tensor, what, view);
  }
  if (PyCapsule_IsValid(capsule, "dltensor")) {
    const dlpack_managed *m = PyCapsule_GetPointer(capsule, "dltensor");
    return view_of_tensor(&m->tensor, what, view);
  }
  return pyga_fail(GA_ERR_FORMAT, "%s: __dlpack__ gave %R; allowed is a capsule of DLPack", what, capsule);
}

/* The table of an object's type, or NULL. Those of the types seen last are kept: a look-up costs more than the rest. */
static const dlpack_exchange *exchange_of(PyObject *object) {
  enum { KEPT = 4 };
  static struct {
    PyTypeObject *type; /* owned, so that no other type takes its address */
    const dlpack_exchange *table;
  } kept[KEPT];
  static unsigned next;
  PyTypeObject *type = Py_TYPE(object);
  for (int i = 0; i < KEPT; i++)
    if (kept[i].type == type) return kept[i].table;
  PyObject *capsule = PyObject_GetAttrString((PyObject *)type, "__dlpack_c_exchange_api__");
  const dlpack_exchange *table = capsule ? PyCapsule_GetPointer(capsule, "dlpack_exchange_api") : NULL;
  PyErr_Clear();
  while (table && table->major > 1) table = table->previous;
  if (table && (table->major != 1 || !table->tensor_of_object)) table = NULL;
  Py_XDECREF(capsule);
  PyObject *former = (PyObject *)kept[next % KEPT].type;
  kept[next % KEPT].type = (PyTypeObject *)Py_NewRef((PyObject *)type);
  kept[next++ % KEPT].table = table;
  Py_XDECREF(former); /* last: it may run code that comes here */
  return table;
}

/* The table says nothing of read-only memory, and its producers have none: a frozen tensor is not known as such. */
static int view_by_exchange(const dlpack_exchange *table, PyObject *object, const char *what, pyga_view *view) {
  dlpack_tensor tensor;
  if (table->tensor_of_object(object, &tensor)) return -1;
  view->owner = Py_NewRef(object);
  return view_of_tensor(&tensor, what, view);
}

int pyga_dlpack_view(PyObject *object, const char *what, pyga_view *view) {
  const dlpack_exchange *table = exchange_of(object);
  if (table) return view_by_exchange(table, object, what, view);
  PyObject *capsule = call_dlpack(object, ORDER_NOTHING);
  return capsule ? view_of_capsule(capsule, what, view) : -1;
}

bool pyga_has_dlpack(PyObject *object) {
  return exchange_of(object) != NULL || PyObject_HasAttrString(object, "__dlpack__");
}

static int interface_pointer(PyObject *interface, const char *what, pyga_view *view) {
  PyObject *data = PyDict_GetItemString(interface, "data");
  unsigned long long address = 0;
  int read_only = 0;
  if (!data || !PyTuple_Check(data) || !PyArg_ParseTuple(data, "Kp", &address, &read_only)) {
    PyErr_Clear();
    return pyga_fail(GA_ERR_FORMAT, "%s: __cuda_array_interface__ has no data (address, read-only)", what);
  }
  view->data = (void *)(uintptr_t)address;
  view->read_only = read_only != 0;
  view->is_cuda = true;
  return 0;
}

static int interface_tuple(PyObject *tuple, const char *what, int64_t *out, int32_t *n) {
  const Py_ssize_t size = tuple && PyTuple_Check(tuple) ? PyTuple_Size(tuple) : -1;
  if (size < 0 || size > PY_MAX_DIMS)
    return pyga_fail(GA_ERR_FORMAT, "%s: __cuda_array_interface__: shape or strides are no tuple of at most %d", what,
                     PY_MAX_DIMS);
  for (Py_ssize_t i = 0; i < size; i++) {
    out[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
    if (out[i] == -1 && PyErr_Occurred()) return -1;
  }
  *n = (int32_t)size;
  return 0;
}

/* typestr as NumPy's: byte order, kind, bytes: "<f4". */
static ga_dtype dtype_of_typestr(const char *text) {
  static const struct {
    const char *name;
    ga_dtype dtype;
  } known[] = {{"f4", GA_F32}, {"f2", GA_F16}, {"f8", GA_F64}, {"i1", GA_I8},
               {"u1", GA_U8},  {"i2", GA_I16}, {"i4", GA_I32}, {"i8", GA_I64}};
  if (!text || !text[0] || text[0] == '>') return GA_DTYPE_NONE;
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (!strcmp(text + 1, known[i].name)) return known[i].dtype;
  return GA_DTYPE_NONE;
}

int pyga_cuda_interface_view(PyObject *interface, const char *what, pyga_view *view) {
  if (!PyDict_Check(interface)) return pyga_fail(GA_ERR_FORMAT, "%s: __cuda_array_interface__ is no dict", what);
  PyObject *type = PyDict_GetItemString(interface, "typestr");
  const char *text = type && PyUnicode_Check(type) ? PyUnicode_AsUTF8AndSize(type, NULL) : NULL;
  view->dtype = dtype_of_typestr(text);
  if (view->dtype == GA_DTYPE_NONE)
    return pyga_fail(GA_ERR_DTYPE,
                     "%s: typestr is '%s'; allowed are f2, f4, f8, i1, i2, i4, i8, u1 in this machine's byte order",
                     what, text ? text : "");
  if (interface_pointer(interface, what, view) ||
      interface_tuple(PyDict_GetItemString(interface, "shape"), what, view->dim, &view->n_dims))
    return -1;
  PyObject *strides = PyDict_GetItemString(interface, "strides");
  const int64_t size = ga_dtype_info(view->dtype)->block_bytes;
  int32_t n = view->n_dims;
  if (strides && strides != Py_None && interface_tuple(strides, what, view->stride, &n)) return -1;
  if (n != view->n_dims)
    return pyga_fail(GA_ERR_FORMAT, "%s: %d strides for %d dimensions", what, (int)n, (int)view->n_dims);
  int64_t inner = size;
  for (int32_t i = view->n_dims - 1; i >= 0; i--) {
    if (!strides || strides == Py_None) view->stride[i] = inner;
    if (view->stride[i] % size)
      return pyga_fail(GA_ERR_SHAPE, "%s: stride of dimension %d is %lld bytes; allowed are multiples of %d", what,
                       (int)i, (long long)view->stride[i], (int)size);
    inner *= view->dim[i];
    view->stride[i] /= size;
  }
  return 0;
}

int pyga_device_of(PyObject *object, int32_t *index) {
  *index = 0;
  if (Py_IS_TYPE(object, pyga_array_type)) {
    *index = ((pyga_array *)object)->view.device;
    return ((pyga_array *)object)->view.is_cuda;
  }
  if (PyObject_CheckBuffer(object)) return 0;
  const dlpack_exchange *table = exchange_of(object);
  dlpack_tensor tensor;
  if (table && !table->tensor_of_object(object, &tensor)) {
    *index = tensor.device_id;
    return tensor.device_type == DLPACK_CUDA || tensor.device_type == DLPACK_CUDA_MANAGED;
  }
  PyErr_Clear();
  PyObject *pair = PyObject_CallMethod(object, "__dlpack_device__", NULL);
  if (pair && PyTuple_Check(pair) && PyTuple_Size(pair) == 2) {
    const long type = PyLong_AsLong(PyTuple_GetItem(pair, 0));
    *index = (int32_t)PyLong_AsLong(PyTuple_GetItem(pair, 1));
    Py_DECREF(pair);
    PyErr_Clear();
    return type == DLPACK_CUDA || type == DLPACK_CUDA_MANAGED;
  }
  Py_XDECREF(pair);
  PyErr_Clear();
  return PyObject_HasAttrString(object, "__cuda_array_interface__") ? 1 : -1;
}

/* ---- order ---- */

/* "stream" of version 3: 1 is the legacy default stream, 2 that of the thread; None: nothing to wait for. */
static int interface_stream(PyObject *object, void **stream) {
  PyObject *interface = PyObject_GetAttrString(object, "__cuda_array_interface__");
  PyObject *value = interface && PyDict_Check(interface) ? PyDict_GetItemString(interface, "stream") : NULL;
  int found = interface ? value && value != Py_None : -1;
  if (found == 1) *stream = PyLong_AsVoidPtr(value);
  if (found == 1 && PyErr_Occurred()) found = -1;
  if (*stream == (void *)ORDER_LEGACY) *stream = NULL;
  Py_XDECREF(interface);
  return found;
}

int pyga_producer_stream(PyObject *object, void **stream) {
  int32_t index;
  *stream = NULL;
  if (Py_IS_TYPE(object, pyga_array_type) || pyga_device_of(object, &index) != 1) return 0;
  const dlpack_exchange *table = exchange_of(object);
  if (table && table->current_stream) return table->current_stream(DLPACK_CUDA, index, stream) ? -1 : 1;
  if (!PyObject_HasAttrString(object, "__dlpack__")) return interface_stream(object, stream);
  PyObject *capsule = call_dlpack(object, ORDER_LEGACY);
  Py_XDECREF(capsule);
  return capsule ? 1 : -1;
}

PyObject *pyga_module_producer_stream(PyObject *module, PyObject *object) {
  void *stream;
  (void)module;
  const int found = pyga_producer_stream(object, &stream);
  if (found < 0) return NULL;
  return found ? PyLong_FromVoidPtr(stream) : Py_NewRef(Py_None);
}

/* ---- out ---- */

typedef struct exported {
  union {
    dlpack_versioned versioned;
    dlpack_managed old;
  } as;
  PyObject *array;
  int64_t shape[PY_MAX_DIMS], strides[PY_MAX_DIMS];
} exported;

static void exported_free(exported *e) {
  if (!e) return;
  const PyGILState_STATE state = PyGILState_Ensure(); /* a consumer may let go on any thread */
  Py_DECREF(e->array);
  PyGILState_Release(state);
  free(e);
}

static void versioned_deleter(dlpack_versioned *self) { exported_free(self->manager); }
static void managed_deleter(dlpack_managed *self) { exported_free(self->manager); }

/* A capsule that nobody consumed: consumers rename it to "used_...". */
static void capsule_end(PyObject *capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    dlpack_versioned *v = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    v->deleter(v);
  } else if (PyCapsule_IsValid(capsule, "dltensor")) {
    dlpack_managed *m = PyCapsule_GetPointer(capsule, "dltensor");
    m->deleter(m);
  }
}

static int fill_tensor(dlpack_tensor *t, exported *e, const pyga_view *view) {
  int type = -1;
  for (int i = DLPACK_TYPES - 1; i >= 0; i--)
    if (dlpack_types[i].dtype == view->dtype) type = i;
  if (type < 0) {
    PyErr_Format(PyExc_BufferError, "__dlpack__: DLPack has no type for %s; bytes() gives it as u8",
                 ga_dtype_name(view->dtype));
    return -1;
  }
  memcpy(e->shape, view->dim, sizeof e->shape);
  memcpy(e->strides, view->stride, sizeof e->strides);
  *t = (dlpack_tensor){.data = view->data,
                       .device_type = view->is_cuda ? DLPACK_CUDA : DLPACK_CPU,
                       .device_id = view->is_cuda ? view->device : 0,
                       .n_dims = view->n_dims,
                       .type_code = dlpack_types[type].code,
                       .type_bits = dlpack_types[type].bits,
                       .type_lanes = 1,
                       .shape = e->shape,
                       .strides = e->strides};
  return 0;
}

static PyObject *export_array(pyga_array *array, bool versioned) {
  exported *e = calloc(1, sizeof *e);
  if (!e) return PyErr_NoMemory();
  if (fill_tensor(versioned ? &e->as.versioned.tensor : &e->as.old.tensor, e, &array->view)) {
    free(e);
    return NULL;
  }
  PyObject *capsule = NULL;
  if (versioned) {
    e->as.versioned.major = 1;
    e->as.versioned.flags = array->view.read_only ? DLPACK_READ_ONLY : 0;
    e->as.versioned.manager = e;
    e->as.versioned.deleter = versioned_deleter;
    capsule = PyCapsule_New(&e->as.versioned, "dltensor_versioned", capsule_end);
  } else {
    e->as.old.manager = e;
    e->as.old.deleter = managed_deleter;
    capsule = PyCapsule_New(&e->as.old, "dltensor", capsule_end);
  }
  if (!capsule)
    free(e);
  else
    e->array = Py_NewRef((PyObject *)array);
  return capsule;
}

static bool device_pair_is(PyObject *pair, const pyga_view *view) {
  if (!pair || pair == Py_None) return true;
  int type = 0, id = 0;
  if (!PyTuple_Check(pair) || !PyArg_ParseTuple(pair, "ii", &type, &id)) {
    PyErr_Clear();
    return false;
  }
  return type == (view->is_cuda ? DLPACK_CUDA : DLPACK_CPU) && (!view->is_cuda || id == view->device);
}

PyObject *pyga_array_dlpack(PyObject *self, PyObject *args, PyObject *kwargs) {
  static char names[4][16] = {"stream", "max_version", "dl_device", "copy"};
  char *list[] = {names[0], names[1], names[2], names[3], NULL};
  PyObject *stream = NULL, *version = NULL, *device = NULL, *copy = NULL;
  pyga_array *array = (pyga_array *)self;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO", list, &stream, &version, &device, &copy)) return NULL;
  if ((copy && copy == Py_True) || !device_pair_is(device, &array->view)) {
    PyErr_SetString(PyExc_BufferError, "__dlpack__: gives the memory itself: no copy, no other device");
    return NULL;
  }
  int major = 0, minor = 0;
  if (version && version != Py_None && (!PyTuple_Check(version) || !PyArg_ParseTuple(version, "ii", &major, &minor)))
    return NULL;
  if (array->view.read_only && major < 1) {
    PyErr_SetString(PyExc_BufferError, "__dlpack__: a read-only array needs max_version (1, 0)");
    return NULL;
  }
  return export_array(array, major >= 1);
}

PyObject *pyga_array_dlpack_device(PyObject *self, PyObject *unused) {
  (void)unused;
  const pyga_view *view = &((pyga_array *)self)->view;
  return Py_BuildValue("(ii)", view->is_cuda ? DLPACK_CUDA : DLPACK_CPU, view->is_cuda ? (int)view->device : 0);
}

static PyObject *int_tuple(int32_t n, const int64_t *values, int64_t times) {
  PyObject *tuple = PyTuple_New(n);
  for (int32_t i = 0; tuple && i < n; i++) {
    PyObject *value = PyLong_FromLongLong(values[i] * times);
    if (!value || PyTuple_SetItem(tuple, i, value)) Py_CLEAR(tuple);
  }
  return tuple;
}

PyObject *pyga_array_cuda_interface(PyObject *self, void *unused) {
  (void)unused;
  const pyga_view *view = &((pyga_array *)self)->view;
  static const char *const typestr[] = {[GA_F32] = "<f4", [GA_F16] = "<f2", [GA_F64] = "<f8", [GA_I8] = "|i1",
                                        [GA_I16] = "<i2", [GA_I32] = "<i4", [GA_I64] = "<i8", [GA_U8] = "|u1"};
  const char *type = view->dtype <= GA_U8 ? typestr[view->dtype] : NULL;
  if (!view->is_cuda || !type) {
    PyErr_SetString(PyExc_AttributeError, "__cuda_array_interface__: of plain types on a GPU only");
    return NULL;
  }
  PyObject *shape = int_tuple(view->n_dims, view->dim, 1);
  PyObject *strides = int_tuple(view->n_dims, view->stride, ga_dtype_info(view->dtype)->block_bytes);
  if (!shape || !strides) {
    Py_XDECREF(shape), Py_XDECREF(strides);
    return NULL;
  }
  return Py_BuildValue("{s:N,s:N,s:s,s:(KO),s:i}", "shape", shape, "strides", strides, "typestr", type, "data",
                       (unsigned long long)(uintptr_t)view->data, view->read_only ? Py_True : Py_False, "version", 3);
}
