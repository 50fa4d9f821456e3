/* Array: memory that an op wrote, or a view of somebody else's under another element type. */
#include "python/ext/core.h"

#include <structmember.h>

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

PyTypeObject *pyga_array_type;

static void array_sizes(pyga_array *a) {
  const ga_dtype_traits *traits = ga_dtype_info(a->view.dtype);
  for (int32_t i = 0; i < a->view.n_dims; i++) {
    a->shape_bytes[i] = (Py_ssize_t)a->view.dim[i];
    a->stride_bytes[i] = (Py_ssize_t)(a->view.stride[i] * traits->block_bytes);
  }
}

static int array_memory(pyga_array *a, pyga_context *c, uint64_t bytes) {
  const uint64_t rounded = (bytes + 64) & ~(uint64_t)63; /* never 0 */
  if (!c->own_memory) {
    a->memory = aligned_alloc(64, rounded);
    if (!a->memory) return pyga_fail(GA_ERR_NOMEM, "new Array: %llu bytes", (unsigned long long)bytes);
    return 0;
  }
  PyThreadState *state = pyga_enter(c);
  const ga_status status = ga_buffer_alloc_for(c->ctx, rounded, "python arrays", &a->memory);
  pyga_leave(c, state);
  if (status != GA_OK) {
    pyga_raise(status);
    return -1;
  }
  a->context = (pyga_context *)Py_NewRef((PyObject *)c);
  return 0;
}

pyga_array *pyga_array_new(pyga_context *c, ga_dtype dtype, int32_t n_dims, const int64_t *dims) {
  int64_t elems = 1;
  uint64_t bytes = 0;
  bool overflow = false;
  for (int32_t i = 0; i < n_dims; i++) overflow |= __builtin_mul_overflow(elems, dims[i], &elems);
  ga_status status = GA_OK;
  if (overflow || elems < 0) {
    pyga_fail(GA_ERR_SHAPE, "new Array: the product of its dimensions overflows");
    return NULL;
  }
  status = ga_dtype_bytes(dtype, elems, &bytes);
  if (status != GA_OK) return (pyga_array *)pyga_raise(status);
  pyga_array *a = (pyga_array *)PyType_GenericAlloc(pyga_array_type, 0);
  if (!a) return NULL;
  if (array_memory(a, c, bytes)) {
    Py_DECREF(a);
    return NULL;
  }
  a->view =
      (pyga_view){.data = a->memory, .dtype = dtype, .n_dims = n_dims, .is_cuda = c->is_cuda, .device = c->device};
  int64_t inner = 1;
  for (int32_t i = n_dims - 1; i >= 0; i--) {
    a->view.dim[i] = dims[i];
    a->view.stride[i] = inner;
    inner *= dims[i];
  }
  array_sizes(a);
  return a;
}

static void array_dealloc(PyObject *object) {
  pyga_array *a = (pyga_array *)object;
  PyTypeObject *type = Py_TYPE(object);
  pyga_view_release(&a->view);
  if (a->weak) PyObject_ClearWeakRefs(object);
  if (a->context && !a->context->is_stale) {
    PyThreadState *state = pyga_enter(a->context);
    ga_buffer_free(a->context->ctx, a->memory);
    pyga_leave(a->context, state);
  }
  if (!a->context) free(a->memory);
  Py_XDECREF((PyObject *)a->context);
  PyObject_Free(object);
  Py_DECREF(type);
}

static const char *const array_formats[] = {[GA_F32] = "f", [GA_F16] = "e", [GA_F64] = "d", [GA_I8] = "b",
                                            [GA_I16] = "h", [GA_I32] = "i", [GA_I64] = "q", [GA_U8] = "B"};

static int array_getbuffer(PyObject *object, Py_buffer *out, int flags) {
  pyga_array *a = (pyga_array *)object;
  const char *format = a->view.dtype <= GA_U8 ? array_formats[a->view.dtype] : NULL;
  const char *why = NULL;
  if (a->view.is_cuda)
    why = "the array lies on a GPU: Context.to_host() copies it";
  else if (!format)
    why = "the buffer protocol has no such element type: use __dlpack__ or bytes()";
  else if ((flags & PyBUF_WRITABLE) && a->view.read_only)
    why = "the array is read-only";
  else if (!pyga_view_is_contiguous(&a->view) &&
           ((flags & PyBUF_STRIDES) != PyBUF_STRIDES || (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS))
    why = "the array is not contiguous";
  if (why) {
    PyErr_Format(PyExc_BufferError, "Array of %s: %s", ga_dtype_name(a->view.dtype), why);
    return -1;
  }
  Py_ssize_t elems = 1;
  const Py_ssize_t size = ga_dtype_info(a->view.dtype)->block_bytes;
  for (int32_t i = 0; i < a->view.n_dims; i++) elems *= (Py_ssize_t)a->view.dim[i];
  *out = (Py_buffer){.buf = a->view.data,
                     .obj = Py_NewRef(object),
                     .len = elems * size,
                     .itemsize = size,
                     .readonly = a->view.read_only,
                     .ndim = a->view.n_dims};
  out->format = (flags & PyBUF_FORMAT) ? (char *)(uintptr_t)format : NULL;
  out->shape = (flags & PyBUF_ND) ? a->shape_bytes : NULL;
  out->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? a->stride_bytes : NULL;
  return 0;
}

ga_dtype pyga_dtype_arg(PyObject *value, const char *what) {
  const char *name = PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, NULL) : NULL;
  PyObject *text = NULL;
  if (!name) { /* numpy.float32 and torch.float32 say their names */
    PyErr_Clear();
    text = PyObject_GetAttrString(value, "__name__");
    if (!text) {
      PyErr_Clear();
      text = PyObject_Str(value);
    }
    name = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
  }
  static const char *const others[][2] = {{"float32", "f32"},        {"float16", "f16"},     {"bfloat16", "bf16"},
                                          {"float64", "f64"},        {"int8", "i8"},         {"int16", "i16"},
                                          {"int32", "i32"},          {"int64", "i64"},       {"uint8", "u8"},
                                          {"float8_e4m3fn", "e4m3"}, {"float8_e5m2", "e5m2"}};
  ga_dtype dtype = GA_DTYPE_NONE;
  if (name && !strncmp(name, "torch.", 6)) name += 6;
  for (size_t i = 0; name && i < sizeof others / sizeof others[0]; i++)
    if (!strcmp(name, others[i][0])) name = others[i][1];
  if (name) dtype = ga_dtype_from_name(name);
  if (dtype == GA_DTYPE_NONE)
    pyga_fail(GA_ERR_DTYPE, "%s: %R is no element type; allowed are names such as 'f32', 'bf16', 'q4_k'", what, value);
  Py_XDECREF(text);
  return dtype;
}

/* A view of src's memory as elements of another type: the last dimension is cut anew. */
static int reinterpret(pyga_view *view, ga_dtype dtype) {
  const ga_dtype_traits *from = ga_dtype_info(view->dtype), *to = ga_dtype_info(dtype);
  const int32_t last = view->n_dims - 1;
  if (last < 0 || from->is_quant || (view->dim[last] > 1 && view->stride[last] != 1))
    return pyga_fail(GA_ERR_SHAPE, "asarray: x: a view as %s needs plain elements, contiguous along the last dimension",
                     to->name);
  const int64_t bytes = view->dim[last] * from->block_bytes;
  if (bytes % to->block_bytes)
    return pyga_fail(GA_ERR_SHAPE, "asarray: x: the last dimension has %lld bytes; %s needs a multiple of %d",
                     (long long)bytes, to->name, (int)to->block_bytes);
  if (!to->is_quant && (uintptr_t)view->data % (uintptr_t)to->block_bytes)
    return pyga_fail(GA_ERR_ARG, "asarray: x: address %p is no multiple of %d bytes, as %s needs", view->data,
                     (int)to->block_bytes, to->name);
  for (int32_t i = 0; i < last; i++) {
    const int64_t stride = view->stride[i] * from->block_bytes;
    if (stride % to->block_bytes && view->dim[i] > 1)
      return pyga_fail(GA_ERR_SHAPE, "asarray: x: stride of dimension %d is %lld bytes; %s needs a multiple of %d",
                       (int)i, (long long)stride, to->name, (int)to->block_bytes);
    view->stride[i] = stride / to->block_bytes * to->block_elems;
  }
  view->dim[last] = bytes / to->block_bytes * to->block_elems;
  view->dtype = dtype;
  return 0;
}

PyObject *pyga_module_asarray(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *keywords) {
  (void)module;
  static const char *const names[] = {"x", "dtype", NULL};
  pyga_args a;
  pyga_view view;
  if (pyga_args_get(&a, "asarray", names, 2, args, n, keywords)) return NULL;
  if (!a.value[0]) {
    PyErr_SetString(PyExc_TypeError, "asarray: x is missing");
    return NULL;
  }
  ga_dtype dtype = GA_DTYPE_NONE;
  if (a.value[1]) {
    dtype = pyga_dtype_arg(a.value[1], "asarray: dtype");
    if (dtype == GA_DTYPE_NONE) return NULL;
  }
  if (pyga_view_get(a.value[0], "asarray: x", &view)) return NULL;
  pyga_array *made = NULL;
  if (dtype == GA_DTYPE_NONE || dtype == view.dtype || !reinterpret(&view, dtype))
    made = (pyga_array *)PyType_GenericAlloc(pyga_array_type, 0);
  if (!made) {
    pyga_view_release(&view);
    return NULL;
  }
  made->view = view;
  array_sizes(made);
  return (PyObject *)made;
}

/* The memory as u8, for types that other protocols do not have. */
static PyObject *array_bytes(PyObject *object, PyObject *unused) {
  (void)unused;
  const pyga_view *view = &((pyga_array *)object)->view;
  const ga_dtype_traits *traits = ga_dtype_info(view->dtype);
  pyga_array *made = (pyga_array *)PyType_GenericAlloc(pyga_array_type, 0);
  if (!made) return NULL;
  made->view = *view;
  made->view.has_buffer = false;
  made->view.owner = Py_NewRef(object);
  made->view.dtype = GA_U8;
  for (int32_t i = 0; i < view->n_dims; i++)
    made->view.stride[i] = view->stride[i] / traits->block_elems * traits->block_bytes;
  if (view->n_dims > 0) {
    made->view.stride[view->n_dims - 1] = 1;
    made->view.dim[view->n_dims - 1] = view->dim[view->n_dims - 1] / traits->block_elems * traits->block_bytes;
  }
  array_sizes(made);
  return (PyObject *)made;
}

/* For NumPy, which takes the buffer where there is one and asks this where there is none. */
static PyObject *array_array(PyObject *object, PyObject *args, PyObject *kwargs) {
  static char names[2][8] = {"dtype", "copy"};
  char *list[] = {names[0], names[1], NULL};
  PyObject *dtype = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:__array__", list, &dtype, &copy)) return NULL;
  const pyga_view *view = &((pyga_array *)object)->view;
  if (view->is_cuda) {
    pyga_fail(GA_ERR_ARG, "Array of %s: lies on cuda:%d, where NumPy sees nothing; allowed is Context.to_host(array)",
              ga_dtype_name(view->dtype), (int)view->device);
    return NULL;
  }
  if (view->dtype > GA_U8 || !array_formats[view->dtype]) {
    pyga_fail(GA_ERR_DTYPE,
              "Array of %s: NumPy has no such type; allowed are convert(array, 'f32'), the bytes of array.bytes(), and "
              "torch.from_dlpack(array) where PyTorch has the type",
              ga_dtype_name(view->dtype));
    return NULL;
  }
  PyObject *memory = PyMemoryView_FromObject(object), *numpy = memory ? PyImport_ImportModule("numpy") : NULL;
  PyObject *made =
      numpy ? PyObject_CallMethod(numpy, copy == Py_True ? "array" : "asarray", "OO", memory, dtype) : NULL;
  Py_XDECREF(memory);
  Py_XDECREF(numpy);
  return made;
}

static PyObject *array_numpy(PyObject *object, PyObject *unused) {
  (void)unused;
  PyObject *numpy = PyImport_ImportModule("numpy");
  PyObject *made = numpy ? PyObject_CallMethod(numpy, "asarray", "O", object) : NULL;
  Py_XDECREF(numpy);
  return made;
}

static PyObject *int_list(const int64_t *values, int32_t n) {
  PyObject *tuple = PyTuple_New(n);
  for (int32_t i = 0; tuple && i < n; i++) {
    PyObject *value = PyLong_FromLongLong(values[i]);
    if (!value || PyTuple_SetItem(tuple, i, value)) Py_CLEAR(tuple);
  }
  return tuple;
}

static PyObject *array_shape(PyObject *object, void *unused) {
  (void)unused;
  const pyga_view *view = &((pyga_array *)object)->view;
  return int_list(view->dim, view->n_dims);
}

static PyObject *array_n_dims(PyObject *object, void *unused) {
  (void)unused;
  return PyLong_FromLong(((pyga_array *)object)->view.n_dims);
}

static PyObject *array_strides(PyObject *object, void *unused) {
  (void)unused;
  const pyga_view *view = &((pyga_array *)object)->view;
  return int_list(view->stride, view->n_dims);
}

static PyObject *array_dtype(PyObject *object, void *unused) {
  (void)unused;
  return PyUnicode_FromString(ga_dtype_name(((pyga_array *)object)->view.dtype));
}

static PyObject *array_device(PyObject *object, void *unused) {
  (void)unused;
  const pyga_view *view = &((pyga_array *)object)->view;
  return view->is_cuda ? PyUnicode_FromFormat("cuda:%d", (int)view->device) : PyUnicode_FromString("cpu");
}

static PyObject *array_repr(PyObject *object) {
  const pyga_view *view = &((pyga_array *)object)->view;
  char text[512];
  pyga_view_text(view, text, sizeof text);
  return PyUnicode_FromFormat("<gpu_accel.Array %s on %s>", text, view->is_cuda ? "cuda" : "cpu");
}

/* ---- len() and [] ---- */

static Py_ssize_t array_length(PyObject *object) {
  const pyga_view *view = &((pyga_array *)object)->view;
  if (view->n_dims > 0) return (Py_ssize_t)view->dim[0];
  PyErr_SetString(PyExc_TypeError, "len() of an Array without dimensions");
  return -1;
}

/* Takes elements [start, start + step * n) of dimension d; n -1: one, and the dimension goes. */
static int index_dim(pyga_view *view, int32_t *d, int64_t start, int64_t step, int64_t n) {
  const ga_dtype_traits *traits = ga_dtype_info(view->dtype);
  if (traits->is_quant && *d == view->n_dims - 1 && !(start == 0 && step == 1 && n == view->dim[*d]))
    return pyga_fail(GA_ERR_UNSUPPORTED,
                     "Array of %s: an index of the last dimension; allowed are indices of the others", traits->name);
  view->data = (char *)view->data + start * view->stride[*d] / traits->block_elems * traits->block_bytes;
  if (n >= 0) {
    view->dim[*d] = n;
    view->stride[(*d)++] *= step;
    return 0;
  }
  for (int32_t i = *d; i + 1 < view->n_dims; i++)
    view->dim[i] = view->dim[i + 1], view->stride[i] = view->stride[i + 1];
  view->n_dims--;
  return 0;
}

static int index_number(pyga_view *view, int32_t *d, PyObject *index) {
  const int64_t size = view->dim[*d];
  const Py_ssize_t seen = PyNumber_AsSsize_t(index, PyExc_IndexError);
  if (seen == -1 && PyErr_Occurred()) return -1;
  if (seen < -size || seen >= size) {
    PyErr_Format(PyExc_IndexError, "index %zd of dimension %d, which has %lld", seen, (int)*d, (long long)size);
    return -1;
  }
  return index_dim(view, d, seen < 0 ? seen + size : seen, 1, -1);
}

static int index_slice(pyga_view *view, int32_t *d, PyObject *slice) {
  Py_ssize_t start = 0, stop = 0, step = 0;
  if (PySlice_Unpack(slice, &start, &stop, &step)) return -1;
  const Py_ssize_t n = PySlice_AdjustIndices((Py_ssize_t)view->dim[*d], &start, &stop, step);
  if (step < 0) return pyga_fail(GA_ERR_ARG, "Array: a slice has step %zd; allowed are 1 and more", step);
  return index_dim(view, d, n ? start : 0, step, n);
}

/* Applies one index after the other; `...` stands for as many dimensions as are left. */
static int index_all(pyga_view *view, PyObject *tuple) {
  const Py_ssize_t n = PyTuple_Size(tuple);
  Py_ssize_t used = 0;
  int32_t d = 0;
  for (Py_ssize_t i = 0; i < n; i++) used += PyTuple_GetItem(tuple, i) != Py_Ellipsis;
  if (used > view->n_dims || n - used > 1) {
    PyErr_Format(PyExc_IndexError, "%zd indices, %zd of them '...'; the Array has %d dimensions", n, n - used,
                 (int)view->n_dims);
    return -1;
  }
  const int32_t skipped = view->n_dims - (int32_t)used;
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *index = PyTuple_GetItem(tuple, i);
    if (index == Py_Ellipsis)
      d += skipped;
    else if (PySlice_Check(index) ? index_slice(view, &d, index) : index_number(view, &d, index))
      return -1;
  }
  return 0;
}

static double half_number(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double size = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
  if (exponent == 31) size = fraction ? (double)NAN : (double)INFINITY;
  return bits >> 15 ? -size : size;
}

/* One element of a plain type of the CPU as a number of Python's. */
static PyObject *element_number(const pyga_view *view) {
  const void *p = view->data;
  switch (view->dtype) {
  case GA_F32: return PyFloat_FromDouble((double)*(const float *)p);
  case GA_F64: return PyFloat_FromDouble(*(const double *)p);
  case GA_F16: return PyFloat_FromDouble(half_number(*(const uint16_t *)p));
  case GA_BF16: {
    const uint32_t bits = (uint32_t) * (const uint16_t *)p << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return PyFloat_FromDouble((double)x);
  }
  case GA_I8: return PyLong_FromLong(*(const int8_t *)p);
  case GA_U8: return PyLong_FromLong(*(const uint8_t *)p);
  case GA_I16: return PyLong_FromLong(*(const int16_t *)p);
  case GA_I32: return PyLong_FromLong(*(const int32_t *)p);
  case GA_I64: return PyLong_FromLongLong(*(const int64_t *)p);
  default:
    return pyga_fail(GA_ERR_UNSUPPORTED, "Array of %s: one element; allowed are slices", ga_dtype_name(view->dtype)),
           NULL;
  }
}

static PyObject *array_index(PyObject *object, PyObject *index) {
  const pyga_view *from = &((pyga_array *)object)->view;
  pyga_view view = *from;
  PyObject *tuple = PyTuple_Check(index) ? Py_NewRef(index) : PyTuple_Pack(1, index);
  const int bad = !tuple || index_all(&view, tuple);
  Py_XDECREF(tuple);
  if (bad) return NULL;
  if (view.n_dims == 0 && from->n_dims > 0 && !view.is_cuda) return element_number(&view);
  pyga_array *made = (pyga_array *)PyType_GenericAlloc(pyga_array_type, 0);
  if (!made) return NULL;
  view.has_buffer = false;
  view.owner = Py_NewRef(object);
  made->view = view;
  array_sizes(made);
  return (PyObject *)made;
}

/* For iteration, which ends at the IndexError. */
static PyObject *array_item(PyObject *object, Py_ssize_t i) {
  PyObject *index = PyLong_FromSsize_t(i), *made = index ? array_index(object, index) : NULL;
  Py_XDECREF(index);
  return made;
}

int pyga_array_init(PyObject *module) {
  static PyMethodDef methods[] = {
      {"__dlpack__", PY_METHOD(pyga_array_dlpack), METH_VARARGS | METH_KEYWORDS,
       "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)\n\nA capsule of DLPack 1 or older."},
      {"__dlpack_device__", pyga_array_dlpack_device, METH_NOARGS, "__dlpack_device__()\n\n(device type, index)."},
      {"bytes", array_bytes, METH_NOARGS, "bytes()\n\nThe same memory as u8, for types that NumPy does not have."},
      {"__array__", PY_METHOD(array_array), METH_VARARGS | METH_KEYWORDS,
       "__array__(dtype=None, copy=None)\n\nAs a NumPy array; DtypeError for types that NumPy lacks."},
      {"numpy", array_numpy, METH_NOARGS, "numpy()\n\nThe same memory as a NumPy array (numpy is imported here)."},
      {NULL, NULL, 0, NULL}};
  static PyGetSetDef getters[] = {
      {"shape", array_shape, NULL, "Tuple of dimensions, slowest first; of quantised types in elements.", NULL},
      {"ndim", array_n_dims, NULL, "Number of dimensions.", NULL},
      {"strides", array_strides, NULL, "Tuple of strides, in elements.", NULL},
      {"dtype", array_dtype, NULL, "Name of the element type: 'f32', 'bf16', 'q4_k'.", NULL},
      {"device", array_device, NULL, "'cpu' or 'cuda:N'.", NULL},
      {"__cuda_array_interface__", pyga_array_cuda_interface, NULL, "Of plain types on a GPU.", NULL},
      {NULL, NULL, NULL, NULL, NULL}};
  static PyMemberDef members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(pyga_array, weak), READONLY, NULL},
                                  {NULL, 0, 0, 0, NULL}};
  static const char doc[] = "An array of GA: a result, or a view (asarray, an index of numbers, slices and '...'). It "
                            "gives its memory away without a copy by the\n"
                            "buffer protocol (numpy.asarray(a)), __dlpack__ and __cuda_array_interface__.";
  PyType_Slot slots[] = {{Py_tp_dealloc, PY_SLOT(array_dealloc)},
                         {Py_tp_methods, methods},
                         {Py_tp_getset, getters},
                         {Py_tp_repr, PY_SLOT(array_repr)},
                         {Py_bf_getbuffer, PY_SLOT(array_getbuffer)},
                         {Py_mp_length, PY_SLOT(array_length)},
                         {Py_sq_item, PY_SLOT(array_item)},
                         {Py_mp_subscript, PY_SLOT(array_index)},
                         {Py_tp_members, members},
                         {Py_tp_doc, PY_SLOT(doc)},
                         {0, NULL}};
  PyType_Spec spec = {"gpu_accel.Array", sizeof(pyga_array), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                      slots};
  static PyMethodDef module_methods[] = {
      {"asarray", PY_METHOD(pyga_module_asarray), METH_FASTCALL | METH_KEYWORDS,
       "asarray(x, dtype=None)\n\nAn Array over the memory of x, nothing copied. dtype: read the bytes as this type, "
       "for types\n"
       "that NumPy lacks: asarray(u16_array, dtype='bf16'), asarray(u8_rows, dtype='q4_k')."},
      {"_producer_stream", pyga_module_producer_stream, METH_O,
       "_producer_stream(x)\n\nThe CUDA stream, an int, that a call without stream= waits for before it reads x; or "
       "None."},
      {NULL, NULL, 0, NULL}};
  pyga_array_type = pyga_type_add(module, &spec);
  return pyga_array_type ? PyModule_AddFunctions(module, module_methods) : -1;
}
