/* The module gpu_accel._core. */
#include "python/ext/ops.h"

#include <math.h>
#include <string.h>

PyTypeObject *pyga_type_add(PyObject *module, PyType_Spec *spec) {
  PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
  if (type && PyModule_AddObjectRef(module, strrchr(spec->name, '.') + 1, type)) Py_CLEAR(type);
  return (PyTypeObject *)type;
}

void pyga_free_object(PyTypeObject *type, PyObject *object) {
  const freefunc give_back = __extension__(freefunc) PyType_GetSlot(type, Py_tp_free);
  give_back(object);
}

static int rope_numbers(const pyga_args *a, ga_rope_params *p) {
  double *const number[] = {&p->base, &p->factor, &p->original_context, &p->beta_fast, &p->beta_slow, &p->attn_factor};
  for (int i = 0; i < 6; i++) {
    if (!a->value[2 + i]) continue;
    *number[i] = PyFloat_AsDouble(a->value[2 + i]);
    if (PyErr_Occurred()) return -1;
  }
  return 0;
}

static PyObject *module_rope_freqs(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *keywords) {
  (void)module;
  static const char *const names[] = {"rot_dim",   "scaling",   "base",        "factor",       "original_context",
                                      "beta_fast", "beta_slow", "attn_factor", "freq_factors", NULL};
  static const char *const kinds[] = {"none", "linear", "yarn", NULL};
  pyga_args a;
  ga_rope_params p = GA_ROPE_PARAMS_INIT;
  pyga_view factors = {0};
  if (pyga_args_get(&a, "rope_freqs", names, 2, args, n, keywords) || pyga_arg_i32(&a, 0, 0, 16384, &p.rot_dim) ||
      pyga_arg_word(&a, 1, kinds, &p.scaling) || rope_numbers(&a, &p))
    return NULL;
  if (a.value[8]) {
    if (pyga_view_get(a.value[8], "rope_freqs: freq_factors", &factors)) return NULL;
    if (factors.dtype != GA_F32 || factors.is_cuda || factors.n_dims != 1 || factors.dim[0] != p.rot_dim / 2 ||
        !pyga_view_is_contiguous(&factors)) {
      pyga_view_release(&factors);
      pyga_fail(GA_ERR_SHAPE, "rope_freqs: freq_factors: allowed is f32 [%d], contiguous, on the CPU",
                (int)(p.rot_dim / 2));
      return NULL;
    }
    p.freq_factors = factors.data;
  }
  PyObject *result = NULL;
  pyga_context *host = pyga_context_for(NULL, 0);
  const int64_t dim = p.rot_dim / 2;
  pyga_array *freq = host ? pyga_array_new(host, GA_F32, 1, &dim) : NULL;
  float magnitude = 1.0f;
  if (freq) {
    const ga_status status = ga_rope_freqs(&p, freq->view.data, &magnitude);
    if (status != GA_OK)
      pyga_raise(status);
    else
      result = Py_BuildValue("(Od)", (PyObject *)freq, (double)magnitude);
  }
  Py_XDECREF((PyObject *)freq);
  pyga_view_release(&factors);
  return result;
}

static PyObject *module_rng(PyObject *module, PyObject *seed) {
  (void)module;
  const unsigned long long value = PyLong_AsUnsignedLongLongMask(seed);
  if (PyErr_Occurred()) return NULL;
  pyga_context *host = pyga_context_for(NULL, 0);
  const int64_t dim = 4;
  pyga_array *made = host ? pyga_array_new(host, GA_I64, 1, &dim) : NULL;
  if (made) ga_sample_seed(made->view.data, value);
  return (PyObject *)made;
}

static PyObject *module_version(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  return PyUnicode_FromString(ga_version());
}

static PyObject *module_devices(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && ga_backend_name(i); i++) {
    PyObject *name = PyUnicode_FromString(ga_backend_name(i));
    if (!name || PyList_Append(list, name)) Py_CLEAR(list);
    Py_XDECREF(name);
  }
  return list;
}

static PyMethodDef functions[] = {
    {"rope_freqs", PY_METHOD(module_rope_freqs), METH_FASTCALL | METH_KEYWORDS,
     "rope_freqs(rot_dim, scaling='none', *, base=10000, factor=1, original_context=0, beta_fast=0, beta_slow=0, "
     "attn_factor=0,\n"
     "           freq_factors=None)\n\n(inv_freq [rot_dim / 2] f32 on the CPU, magnitude), for rope(). scaling: "
     "'none', 'linear', 'yarn'."},
    {"rng", module_rng, METH_O, "rng(seed)\n\nState of a generator for sample(): i64 [4]."},
    {"version", module_version, METH_NOARGS, "version()\n\n'MAJOR.MINOR.PATCH' of the library inside."},
    {"backends", module_devices, METH_NOARGS, "backends()\n\nNames that a Context's device may begin with."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {.m_base = PyModuleDef_HEAD_INIT,
                                        .m_name = "gpu_accel._core",
                                        .m_doc = "The C half of gpu_accel.",
                                        .m_size = -1,
                                        .m_methods = functions};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void) {
  PyObject *module = PyModule_Create(&definition);
  if (!module) return NULL;
  if (pyga_errors_init(module) || pyga_context_init(module) || pyga_array_init(module) || pyga_plan_init(module) ||
      pyga_ops_init(module) || pyga_model_init(module) || pyga_engine_init(module) || pyga_dist_init(module) ||
      pyga_jax_init(module))
    Py_CLEAR(module);
  return module;
}
