/* Exceptions by status. */
#include "python/ext/core.h"

#include <stdarg.h>
#include <string.h>

typedef struct error_kind {
  ga_status status;
  const char *name, *doc;
  PyObject **base; /* of Python's own, besides gpu_accel.Error; NULL = none */
} error_kind;

#define ERROR_KINDS 15
static PyObject *errors[ERROR_KINDS];

/* The addresses of Python's exceptions are not constants under the stable ABI. */
static void error_kinds(error_kind kinds[ERROR_KINDS]) {
  const error_kind all[ERROR_KINDS] = {
      {GA_OK, "Error", "Base of all errors of GA; `status` is the number of the C API.", NULL},
      {GA_ERR_ARG, "ArgumentError", "An argument is out of range or contradicts another.", &PyExc_ValueError},
      {GA_ERR_SHAPE, "ShapeError", "Shapes or strides do not fit together.", &PyExc_ValueError},
      {GA_ERR_DTYPE, "DtypeError", "The operation does not take this element type.", &PyExc_TypeError},
      {GA_ERR_UNSUPPORTED, "UnsupportedError", "Legal, but nothing built or present can do it.",
       &PyExc_NotImplementedError},
      {GA_ERR_NOMEM, "OutOfMemoryError", "Host or device memory is exhausted.", &PyExc_MemoryError},
      {GA_ERR_DEVICE, "DeviceError", "The device or its driver reported a fault.", &PyExc_RuntimeError},
      {GA_ERR_COMM, "CommError", "A peer or the network failed.", &PyExc_RuntimeError},
      {GA_ERR_IO, "FileError", "A file could not be read or written.", &PyExc_OSError},
      {GA_ERR_FORMAT, "FormatError", "A file or text does not follow its format.", &PyExc_ValueError},
      {GA_ERR_STATE, "StateError", "Called in the wrong order, or on a handle that has failed.", &PyExc_RuntimeError},
      {GA_ERR_TIMEOUT, "TimedOutError", "A bounded wait or number of steps ran out.", &PyExc_TimeoutError},
      {GA_ERR_INTERNAL, "InternalError", "A defect in GA itself.", &PyExc_RuntimeError},
      {GA_ERR_CANCELLED, "CancelledError", "The call was asked to stop.", &PyExc_RuntimeError},
      {GA_ERR_BUSY, "BusyError", "A queue or pool is full for now: try again later.", &PyExc_RuntimeError}};
  memcpy(kinds, all, sizeof all);
}

static PyObject *new_error(const error_kind *kind) {
  PyObject *bases = NULL, *space = NULL, *made = NULL;
  char name[64];
  PyOS_snprintf(name, sizeof name, "gpu_accel.%s", kind->name);
  if (kind->status == GA_OK)
    bases = Py_NewRef(PyExc_Exception);
  else
    bases = PyTuple_Pack(2, errors[0], *kind->base);
  space = bases ? Py_BuildValue("{s:i,s:s}", "status", (int)kind->status, "status_name", ga_status_name(kind->status))
                : NULL;
  if (space) made = PyErr_NewExceptionWithDoc(name, kind->doc, bases, space);
  Py_XDECREF(bases);
  Py_XDECREF(space);
  return made;
}

int pyga_errors_init(PyObject *module) {
  error_kind kinds[ERROR_KINDS];
  error_kinds(kinds);
  for (int i = 0; i < ERROR_KINDS; i++) {
    errors[i] = new_error(&kinds[i]);
    if (!errors[i] || PyModule_AddObjectRef(module, kinds[i].name, errors[i])) return -1;
  }
  return 0;
}

static PyObject *exception_of(ga_status status) {
  return status > 0 && status < ERROR_KINDS ? errors[status] : errors[GA_ERR_INTERNAL];
}

PyObject *pyga_raise(ga_status status) {
  if (PyErr_Occurred()) return NULL;
  const char *text = ga_error_text();
  PyObject *message = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
  if (message) PyErr_SetObject(exception_of(status), message);
  Py_XDECREF(message);
  return NULL;
}

int pyga_fail(ga_status status, const char *format, ...) {
  va_list list;
  va_start(list, format);
  PyErr_FormatV(exception_of(status), format, list);
  va_end(list);
  return -1;
}
