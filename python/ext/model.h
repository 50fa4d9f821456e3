/* Python module, models. */
#ifndef GA_PYTHON_MODEL_H
#define GA_PYTHON_MODEL_H

#include "python/ext/core.h"

#include "ga/llm.h"

typedef struct pyga_model {
  PyObject_HEAD pyga_context *context;
  PyObject *owner;     /* the Model whose weights these are, or NULL */
  ga_model *model;     /* NULL with vocab_only */
  ga_tokenizer *vocab; /* with vocab_only, else NULL: the model has one */
} pyga_model;

extern PyTypeObject *pyga_model_type;
/* Checks that a model may be used. -1 with a StateError: it has no weights (vocab_only), or an engine uses its
 * context. */
int pyga_model_ready(const pyga_model *model, const char *op);
/* Makes a list of token ids from any sequence of ints or an i32 array; free with PyMem_Free. NULL with an exception. */
int32_t *pyga_ids(PyObject *value, const char *what, int32_t *n);

#endif
