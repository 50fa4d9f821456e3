/* Arrays that come in: the buffer protocol, and which protocol an object has. */
#include "python/ext/core.h"

#include <string.h>

void pyga_view_release(pyga_view *view) {
  if (view->has_buffer) PyBuffer_Release(&view->buffer);
  view->has_buffer = false;
  Py_CLEAR(view->owner);
}

bool pyga_view_is_contiguous(const pyga_view *view) {
  int64_t expect = 1;
  for (int32_t i = view->n_dims - 1; i >= 0; i--) {
    if (view->dim[i] == 0) return true;
    if (view->dim[i] != 1 && view->stride[i] != expect) return false;
    expect *= view->dim[i];
  }
  return true;
}

/* Bytes from the first element to the end of the last one; 0 for empty arrays. */
static int64_t view_span(const pyga_view *view) {
  const ga_dtype_traits *traits = ga_dtype_info(view->dtype);
  int64_t last = 0;
  for (int32_t i = 0; i < view->n_dims; i++) {
    if (view->dim[i] == 0) return 0;
    last += (view->dim[i] - 1) * view->stride[i];
  }
  return traits->is_quant ? (last + traits->block_elems) / traits->block_elems * traits->block_bytes
                          : (last + 1) * traits->block_bytes;
}

bool pyga_view_overlaps_itself(const pyga_view *view) {
  int32_t order[PY_MAX_DIMS], n = 0;
  if (view_span(view) == 0) return false;
  for (int32_t i = 0; i < view->n_dims; i++) { /* by stride, the least first */
    int32_t at = n;
    if (view->dim[i] == 1) continue;
    for (; at > 0 && view->stride[order[at - 1]] > view->stride[i]; at--) order[at] = order[at - 1];
    order[at] = i;
    n++;
  }
  int64_t reach = 1; /* elements that the dimensions so far reach over */
  for (int32_t k = 0; k < n; k++) {
    if (view->stride[order[k]] < reach) return true;
    reach += (view->dim[order[k]] - 1) * view->stride[order[k]];
  }
  return false;
}

static bool is_same_view(const pyga_view *a, const pyga_view *b) {
  if (a->data != b->data || a->dtype != b->dtype) return false;
  int64_t n[2] = {1, 1};
  for (int32_t i = 0; i < a->n_dims; i++) n[0] *= a->dim[i];
  for (int32_t i = 0; i < b->n_dims; i++) n[1] *= b->dim[i];
  if (pyga_view_is_contiguous(a) && pyga_view_is_contiguous(b)) return n[0] == n[1];
  if (a->n_dims != b->n_dims) return false;
  for (int32_t i = 0; i < a->n_dims; i++)
    if (a->dim[i] != b->dim[i] || a->stride[i] != b->stride[i]) return false;
  return true;
}

/* Rows at one distance, `step` bytes: those of the dimension with the largest stride. Returns the bytes of a row, or 0
 * when the rows themselves overlap. */
static int64_t row_span(const pyga_view *view, int64_t *step) {
  const ga_dtype_traits *traits = ga_dtype_info(view->dtype);
  int32_t outer = -1;
  for (int32_t i = 0; i < view->n_dims; i++)
    if (view->dim[i] > 1 && (outer < 0 || view->stride[i] > view->stride[outer])) outer = i;
  if (outer < 0) return 0;
  pyga_view row = *view;
  row.dim[outer] = 1;
  *step = view->stride[outer] / traits->block_elems * traits->block_bytes;
  const int64_t bytes = view_span(&row);
  return bytes <= *step ? bytes : 0;
}

bool pyga_views_overlap(const pyga_view *a, const pyga_view *b) {
  const int64_t a_bytes = view_span(a), b_bytes = view_span(b);
  const uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
  if (!a_bytes || !b_bytes || a->is_cuda != b->is_cuda || x >= y + (uintptr_t)b_bytes || y >= x + (uintptr_t)a_bytes)
    return false;
  if (is_same_view(a, b)) return false;
  int64_t a_step = 0, b_step = 0;
  const int64_t a_row = row_span(a, &a_step), b_row = row_span(b, &b_step);
  if (!a_row || !b_row || a_step != b_step) return true;
  const int64_t away = (int64_t)y - (int64_t)x, from_a = (away % a_step + a_step) % a_step;
  return from_a < a_row || from_a + b_row > a_step;
}

static void list_text(char *text, size_t capacity, int32_t n, const int64_t *values) {
  size_t used = 0;
  text[0] = 0;
  for (int32_t i = 0; i < n; i++) {
    const int wrote = PyOS_snprintf(text + used, capacity - used, "%s%lld", i ? ", " : "", (long long)values[i]);
    if (wrote < 0 || used + (size_t)wrote >= capacity) return;
    used += (size_t)wrote;
  }
}

void pyga_view_text(const pyga_view *view, char *text, size_t capacity) {
  char dims[192], strides[192];
  list_text(dims, sizeof dims, view->n_dims, view->dim);
  list_text(strides, sizeof strides, view->n_dims, view->stride);
  PyOS_snprintf(text, capacity, "%s [%s] strides [%s]", ga_dtype_name(view->dtype), dims, strides);
}

static bool format_is_foreign(char order) {
  const uint16_t one = 1;
  const bool little = *(const uint8_t *)&one == 1;
  return little ? order == '>' || order == '!' : order == '<';
}

ga_dtype pyga_dtype_of_format(const char *format, Py_ssize_t itemsize, const char **why) {
  *why = "allowed are f32, f16, f64, i8, u8, i16, u16, i32, i64";
  if (!format) return GA_U8;
  if (strchr("@=<>!|", format[0]) && format[0]) {
    if (format_is_foreign(format[0]) && itemsize > 1) {
      *why = "its byte order is not this machine's";
      return GA_DTYPE_NONE;
    }
    format++;
  }
  if (!format[0] || format[1]) return GA_DTYPE_NONE;
  switch (format[0]) {
  case 'f': return GA_F32;
  case 'e': return GA_F16;
  case 'd': return GA_F64;
  case 'b': return GA_I8;
  case 'B': return GA_U8;
  case 'h':
  case 'H': return GA_I16; /* no op takes i16: asarray() names what the bits are */
  case 'i':
  case 'l':
  case 'q': return itemsize == 4 ? GA_I32 : itemsize == 8 ? GA_I64 : GA_DTYPE_NONE;
  default: return GA_DTYPE_NONE;
  }
}

/* Strides of dims of size 1, and of empty arrays, mean nothing: they become those of a contiguous array. */
static void view_normalise(pyga_view *view) {
  static double nothing; /* where empty arrays lie, whose own address need not be aligned */
  bool is_empty = false;
  for (int32_t i = 0; i < view->n_dims; i++) is_empty |= view->dim[i] == 0;
  if (is_empty && !view->is_cuda) view->data = &nothing;
  int64_t inner = 1;
  for (int32_t i = view->n_dims - 1; i >= 0; i--) {
    if (view->dim[i] == 1 || is_empty)
      view->stride[i] = inner;
    else
      inner = view->stride[i] * view->dim[i];
  }
}

static int view_finish(pyga_view *view, const char *what) {
  for (int32_t i = 0; i < view->n_dims; i++)
    if (view->stride[i] < 0 && view->dim[i] > 1)
      return pyga_fail(GA_ERR_SHAPE, "%s: stride of dimension %d is %lld elements; allowed are 0 and more", what,
                       (int)i, (long long)view->stride[i]);
  view_normalise(view);
  const ga_dtype_traits *traits = ga_dtype_info(view->dtype);
  const uintptr_t address = (uintptr_t)view->data;
  const uintptr_t unit = traits->is_quant ? 1 : (uintptr_t)traits->block_bytes;
  if (address % unit)
    return pyga_fail(GA_ERR_ARG, "%s: address %p is no multiple of %d bytes, as %s needs", what, view->data, (int)unit,
                     traits->name);
  return 0;
}

static int buffer_strides(pyga_view *view, const char *what) {
  const Py_buffer *b = &view->buffer;
  if (b->ndim > PY_MAX_DIMS)
    return pyga_fail(GA_ERR_SHAPE, "%s: has %d dimensions; allowed are at most %d", what, b->ndim, PY_MAX_DIMS);
  if (b->suboffsets)
    for (int i = 0; i < b->ndim; i++)
      if (b->suboffsets[i] >= 0) return pyga_fail(GA_ERR_SHAPE, "%s: has suboffsets; allowed are plain strides", what);
  view->n_dims = b->ndim;
  int64_t contiguous = 1;
  for (int i = b->ndim - 1; i >= 0; i--) {
    view->dim[i] = b->shape[i];
    view->stride[i] = b->strides ? b->strides[i] / b->itemsize : contiguous; /* ctypes gives none, though asked */
    contiguous *= b->shape[i];
    if (b->strides && b->strides[i] % b->itemsize && b->shape[i] > 1)
      return pyga_fail(GA_ERR_SHAPE,
                       "%s: stride of dimension %d is %zd bytes; allowed are multiples of the %zd bytes of an element",
                       what, i, b->strides[i], b->itemsize);
  }
  return 0;
}

static int buffer_view(PyObject *object, const char *what, pyga_view *view) {
  if (PyObject_GetBuffer(object, &view->buffer, PyBUF_FULL_RO)) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    pyga_fail(
        GA_ERR_DTYPE,
        "%s: its memory cannot be seen: %S; asarray(x.view('u1' or 'u2'), dtype=...) names types that NumPy lacks",
        what, value ? value : Py_None);
    Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(trace);
    return -1;
  }
  view->has_buffer = true;
  const char *why = NULL;
  view->dtype = pyga_dtype_of_format(view->buffer.format, view->buffer.itemsize, &why);
  if (view->dtype == GA_DTYPE_NONE)
    return pyga_fail(GA_ERR_DTYPE, "%s: element format is '%s'; %s", what, view->buffer.format, why);
  view->data = view->buffer.buf;
  view->read_only = view->buffer.readonly;
  return buffer_strides(view, what);
}

static int attribute_view(PyObject *object, const char *what, pyga_view *view) {
  if (pyga_has_dlpack(object)) return pyga_dlpack_view(object, what, view);
  PyObject *interface = PyObject_GetAttrString(object, "__cuda_array_interface__");
  if (!interface) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "%s: %R has none of buffer protocol, __dlpack__, __cuda_array_interface__", what,
                 (PyObject *)Py_TYPE(object));
    return -1;
  }
  view->owner = Py_NewRef(object);
  const int bad = pyga_cuda_interface_view(interface, what, view);
  Py_DECREF(interface);
  return bad;
}

int pyga_view_get(PyObject *object, const char *what, pyga_view *view) {
  memset(view, 0, sizeof *view);
  int bad = 0;
  if (Py_IS_TYPE(object, pyga_array_type)) {
    *view = ((pyga_array *)object)->view;
    view->owner = Py_NewRef(object);
    view->has_buffer = false;
    return 0;
  }
  if (PyObject_CheckBuffer(object))
    bad = buffer_view(object, what, view);
  else
    bad = attribute_view(object, what, view);
  if (!bad) bad = view_finish(view, what);
  if (bad) pyga_view_release(view);
  return bad ? -1 : 0;
}

int pyga_view_check(const pyga_view *view, const pyga_context *c, const char *what, bool write) {
  if (view->is_cuda != c->is_cuda || (view->is_cuda && view->device != c->device)) {
    char seen[24] = "the CPU";
    if (view->is_cuda) PyOS_snprintf(seen, sizeof seen, "cuda:%d", (int)view->device);
    return pyga_fail(GA_ERR_ARG, "%s: lies on %s; allowed is the device of the context, %s", what, seen,
                     ga_ctx_device_name(c->ctx));
  }
  if (write && view->read_only)
    return pyga_fail(GA_ERR_ARG, "%s: is read-only; allowed is an array that may be written", what);
  return 0;
}
