/* Python module, models. */
#ifndef GA_PYTHON_MODEL_H
#define GA_PYTHON_MODEL_H

#include "python/ext/core.h"

#include "ga/llm.h"

typedef struct pyga_model {
  PyObject_HEAD pyga_context *context;
  ga_model *model;
} pyga_model;

extern PyTypeObject *pyga_model_type;
/* A list of token ids from any sequence of ints or an i32 array; freed with PyMem_Free. NULL with an exception. */
int32_t *pyga_ids(PyObject *value, const char *what, int32_t *n);

#endif
