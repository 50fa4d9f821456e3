/* Arguments of a call, by place and by name. */
#include "python/ext/core.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <string.h>

static int args_index(const pyga_args *a, PyObject *name) {
  for (int i = 0; a->names[i]; i++)
    if (PyUnicode_CompareWithASCIIString(name, a->names[i]) == 0) return i;
  return -1;
}

int pyga_args_get(pyga_args *a, const char *op, const char *const *names, Py_ssize_t positional, PyObject *const *args,
                  Py_ssize_t n, PyObject *keywords) {
  memset(a, 0, sizeof *a);
  a->op = op;
  a->names = names;
  if (n > positional) {
    PyErr_Format(PyExc_TypeError, "%s: %zd arguments without a name; allowed are at most %zd", op, n, positional);
    return -1;
  }
  for (Py_ssize_t i = 0; i < n; i++) a->value[i] = args[i] == Py_None ? NULL : args[i];
  const Py_ssize_t n_keys = keywords ? PyTuple_Size(keywords) : 0;
  for (Py_ssize_t i = 0; i < n_keys; i++) {
    PyObject *name = PyTuple_GetItem(keywords, i);
    const int index = args_index(a, name);
    if (index < 0) {
      PyErr_Format(PyExc_TypeError, "%s: no argument is named '%U'", op, name);
      return -1;
    }
    if (index < n) {
      PyErr_Format(PyExc_TypeError, "%s: argument '%s' is given twice", op, names[index]);
      return -1;
    }
    a->value[index] = args[n + i] == Py_None ? NULL : args[n + i];
  }
  return 0;
}

int pyga_arg_int(const pyga_args *a, int index, int64_t least, int64_t most, int64_t *out) {
  PyObject *value = a->value[index];
  if (!value) return 0;
  PyObject *number = PyNumber_Index(value);
  if (!number) {
    PyErr_Format(PyExc_TypeError, "%s: %s: a whole number is wanted, not %R", a->op, a->names[index], value);
    return -1;
  }
  int overflow = 0;
  const long long seen = PyLong_AsLongLongAndOverflow(number, &overflow);
  Py_DECREF(number);
  if (overflow || seen < least || seen > most)
    return pyga_fail(GA_ERR_ARG, "%s: %s is %R; allowed are %lld to %lld", a->op, a->names[index], value,
                     (long long)least, (long long)most);
  *out = seen;
  return 0;
}

int pyga_arg_i32(const pyga_args *a, int index, int32_t least, int32_t most, int32_t *out) {
  int64_t wide = *out;
  if (pyga_arg_int(a, index, least, most, &wide)) return -1;
  *out = (int32_t)wide;
  return 0;
}

int pyga_arg_float(const pyga_args *a, int index, float *out) {
  PyObject *value = a->value[index];
  if (!value) return 0;
  const double seen = PyFloat_AsDouble(value);
  if (PyErr_Occurred()) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "%s: %s: a number is wanted, not %R", a->op, a->names[index], value);
    return -1;
  }
  *out = (float)seen;
  return 0;
}

float pyga_scale(float scale) { return scale == 0 ? FLT_MIN : scale; }

int pyga_arg_scale(const pyga_args *a, int index, float *out) {
  if (pyga_arg_float(a, index, out)) return -1;
  if (a->value[index]) *out = pyga_scale(*out);
  return 0;
}

int pyga_arg_bool(const pyga_args *a, int index, bool *out) {
  PyObject *value = a->value[index];
  if (!value) return 0;
  const int seen = PyObject_IsTrue(value);
  if (seen < 0) return -1;
  *out = seen != 0;
  return 0;
}

int pyga_arg_text(const pyga_args *a, int index, const char **out) {
  PyObject *value = a->value[index];
  if (!value) return 0;
  if (!PyUnicode_Check(value)) {
    PyErr_Format(PyExc_TypeError, "%s: %s: a text is wanted, not %R", a->op, a->names[index], value);
    return -1;
  }
  *out = PyUnicode_AsUTF8AndSize(value, NULL);
  return *out ? 0 : -1;
}

int pyga_arg_word(const pyga_args *a, int index, const char *const *words, int32_t *out) {
  const char *seen = NULL;
  if (pyga_arg_text(a, index, &seen)) return -1;
  if (!seen) return 0;
  char allowed[256] = "";
  size_t used = 0;
  for (int32_t i = 0; words[i]; i++) {
    if (!strcmp(words[i], seen)) {
      *out = i;
      return 0;
    }
    const int n = PyOS_snprintf(allowed + used, sizeof allowed - used, "%s'%s'", i ? ", " : "", words[i]);
    if (n > 0 && used + (size_t)n < sizeof allowed) used += (size_t)n;
  }
  return pyga_fail(GA_ERR_ARG, "%s: %s is '%s'; allowed are %s", a->op, a->names[index], seen, allowed);
}
