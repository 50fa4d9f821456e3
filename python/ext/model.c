/* Model, Session, Detokenizer: weights, one sequence, and text from ids. What is convenient stands in Python. */
#include "python/ext/model.h"

#include <string.h>

PyTypeObject *pyga_model_type;
static PyTypeObject *session_type, *detok_type;

int32_t *pyga_ids(PyObject *value, const char *what, int32_t *n) {
  PyObject *list = PySequence_List(value);
  if (!list) {
    PyErr_Format(PyExc_TypeError, "%s: a sequence of token ids is wanted, not %R", what, (PyObject *)Py_TYPE(value));
    return NULL;
  }
  const Py_ssize_t size = PyList_Size(list);
  int32_t *ids = PyMem_Malloc((size_t)(size + 1) * sizeof *ids);
  if (!ids) PyErr_NoMemory();
  for (Py_ssize_t i = 0; ids && i < size; i++) {
    PyObject *item = PyNumber_Index(PyList_GetItem(list, i));
    const long long id = item ? PyLong_AsLongLong(item) : -1;
    Py_XDECREF(item);
    if (!PyErr_Occurred() && (id < 0 || id > INT32_MAX))
      pyga_fail(GA_ERR_ARG, "%s: id %zd is %lld; allowed are 0 to %d", what, i, id, INT32_MAX);
    ids[i] = (int32_t)id;
    if (PyErr_Occurred()) {
      PyMem_Free(ids);
      ids = NULL;
    }
  }
  Py_DECREF(list);
  if (ids && size > INT32_MAX) {
    PyMem_Free(ids);
    ids = NULL;
    pyga_fail(GA_ERR_SHAPE, "%s: has %zd ids", what, size);
  }
  *n = (int32_t)size;
  return ids;
}

static PyObject *ids_list(const int32_t *ids, size_t n) {
  PyObject *list = PyList_New((Py_ssize_t)n);
  for (size_t i = 0; list && i < n; i++) {
    PyObject *id = PyLong_FromLong(ids[i]);
    if (!id || PyList_SetItem(list, (Py_ssize_t)i, id)) Py_CLEAR(list);
  }
  return list;
}

static PyObject *text_object(ga_text text) {
  return PyUnicode_DecodeUTF8(text.data, (Py_ssize_t)text.bytes, "replace");
}

/* ---- Model ---- */

int pyga_model_ready(const pyga_model *model, const char *op) {
  if (model->model) return pyga_context_ready(model->context, op);
  return pyga_fail(GA_ERR_STATE, "%s: the model was opened with vocab_only=True and has no weights", op);
}

/* The tokenizer alone: the file may hold no weights at all. */
static ga_status vocab_open(const char *name, ga_tokenizer **out) {
  char path[4096];
  ga_model_file *file = NULL;
  ga_status status = ga_model_path(name, path, sizeof path);
  if (status == GA_OK) status = ga_model_file_open(path, &file);
  if (status == GA_OK) status = ga_tokenizer_from_model(file, out);
  ga_model_file_destroy(file);
  return status;
}

/* A Model in a context, yet empty. */
static pyga_model *model_in(PyTypeObject *type, PyObject *context) {
  if (pyga_context_ready((pyga_context *)context, "Model")) return NULL;
  pyga_model *self = (pyga_model *)PyType_GenericAlloc(type, 0);
  if (self) self->context = (pyga_context *)Py_NewRef(context);
  return self;
}

static PyObject *model_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char names[8][16] = {"path",  "context",    "gpu_layers", "no_mmap",
                              "n_ctx", "vocab_only", "n_cpu_moe",  "expert_cache"};
  char *list[] = {names[0], names[1], names[2], names[3], names[4], names[5], names[6], names[7], NULL};
  PyObject *path = NULL, *context = NULL;
  int gpu_layers = -1, no_mmap = 0, n_ctx = 0, vocab_only = 0, n_cpu_moe = -1;
  unsigned long long expert_cache = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O!|ipipiK:ModelBase", list, PyUnicode_FSConverter, &path,
                                   pyga_context_type, &context, &gpu_layers, &no_mmap, &n_ctx, &vocab_only, &n_cpu_moe,
                                   &expert_cache))
    return NULL;
  pyga_model *self = model_in(type, context);
  if (self) {
    ga_session_options session = GA_SESSION_OPTIONS_INIT;
    ga_model_options options = GA_MODEL_OPTIONS_INIT;
    session.context = n_ctx;
    options.gpu_layers = gpu_layers, options.n_cpu_moe = n_cpu_moe, options.expert_cache = expert_cache,
    options.no_mmap = no_mmap != 0, options.session = &session;
    options.progress = pyga_progress;
    const char *text = PyBytes_AsString(path);
    PyThreadState *state = pyga_begin(self->context);
    ga_status status =
        vocab_only ? vocab_open(text, &self->vocab) : ga_model_load(self->context->ctx, text, &options, &self->model);
    status = pyga_end(self->context, state, status);
    if (status != GA_OK) {
      pyga_raise(status);
      Py_CLEAR(self);
    }
  }
  Py_DECREF(path);
  return (PyObject *)self;
}

/* The model that is shared is only read: an engine may use it meanwhile. */
static PyObject *model_share(PyObject *object, PyObject *args) {
  pyga_model *from = (pyga_model *)object;
  PyObject *context = NULL;
  if (!PyArg_ParseTuple(args, "O!:_share", pyga_context_type, &context)) return NULL;
  if (!from->model) {
    pyga_fail(GA_ERR_STATE, "share: the model was opened with vocab_only=True and has no weights");
    return NULL;
  }
  pyga_model *self = model_in(Py_TYPE(object), context);
  if (!self) return NULL;
  self->owner = Py_NewRef(object);
  PyThreadState *state = pyga_enter(self->context);
  const ga_status status = ga_model_share(from->model, self->context->ctx, &self->model);
  pyga_leave(self->context, state);
  if (status != GA_OK) {
    pyga_raise(status);
    Py_CLEAR(self);
  }
  return (PyObject *)self;
}

static void model_dealloc(PyObject *object) {
  pyga_model *self = (pyga_model *)object;
  PyTypeObject *type = Py_TYPE(object);
  if (self->context && !self->context->is_stale) {
    PyThreadState *state = pyga_enter(self->context);
    ga_model_destroy(self->model);
    ga_tokenizer_destroy(self->vocab);
    pyga_leave(self->context, state);
  }
  Py_XDECREF((PyObject *)self->context);
  Py_XDECREF(self->owner);
  pyga_free_object(type, object);
  Py_DECREF(type);
}

static const ga_tokenizer *model_tokenizer(const pyga_model *self) {
  const ga_tokenizer *tok = self->model ? ga_model_tokenizer(self->model) : self->vocab;
  if (!tok) pyga_fail(GA_ERR_UNSUPPORTED, "Model: the file has no tokenizer");
  return tok;
}

static PyObject *model_tokenize(PyObject *object, PyObject *args) {
  const char *text = NULL;
  Py_ssize_t bytes = 0;
  int add = 1, parse = 0;
  size_t n = 0;
  if (!PyArg_ParseTuple(args, "s#|pp:tokenize", &text, &bytes, &add, &parse)) return NULL;
  const ga_tokenizer *tok = model_tokenizer((pyga_model *)object);
  if (!tok) return NULL;
  const uint32_t flags = (add ? GA_TOK_ADD_SPECIAL : 0) | (parse ? GA_TOK_PARSE_SPECIAL : 0);
  const size_t capacity = (size_t)bytes + 16; /* most tokenizers give no more ids than bytes */
  int32_t *ids = PyMem_Malloc(capacity * sizeof *ids);
  if (!ids) return PyErr_NoMemory();
  ga_status status = GA_OK;
  Py_BEGIN_ALLOW_THREADS;
  status = ga_tokenize(tok, text, (size_t)bytes, flags, ids, capacity, &n);
  Py_END_ALLOW_THREADS;
  if (status == GA_ERR_SHAPE && n > capacity) {
    PyMem_Free(ids);
    ids = PyMem_Malloc(n * sizeof *ids);
    if (!ids) return PyErr_NoMemory();
    status = ga_tokenize(tok, text, (size_t)bytes, flags, ids, n, &n);
  }
  PyObject *list = status == GA_OK ? ids_list(ids, n) : pyga_raise(status);
  PyMem_Free(ids);
  return list;
}

static PyObject *model_detokenize(PyObject *object, PyObject *args) {
  PyObject *value = NULL, *made = NULL;
  int special = 0, n = 0;
  size_t bytes = 0;
  if (!PyArg_ParseTuple(args, "O|p:detokenize", &value, &special)) return NULL;
  const ga_tokenizer *tok = model_tokenizer((pyga_model *)object);
  int32_t *ids = tok ? pyga_ids(value, "detokenize: ids", &n) : NULL;
  if (!ids) return NULL;
  const uint32_t flags = special ? GA_DETOK_SPECIAL : 0;
  ga_status status = ga_detokenize(tok, ids, (size_t)n, flags, NULL, 0, &bytes);
  char *text = status == GA_OK || status == GA_ERR_SHAPE ? PyMem_Malloc(bytes + 1) : NULL;
  if (text) status = ga_detokenize(tok, ids, (size_t)n, flags, text, bytes, &bytes);
  if (status != GA_OK)
    pyga_raise(status);
  else
    made = PyUnicode_DecodeUTF8(text, (Py_ssize_t)bytes, "replace");
  PyMem_Free(text);
  PyMem_Free(ids);
  return made;
}

static PyObject *model_encode_json(PyObject *object, PyObject *args) {
  const pyga_model *self = (pyga_model *)object;
  const char *json = NULL, *source = NULL;
  Py_ssize_t bytes = 0, source_bytes = 0;
  int32_t *ids = NULL;
  size_t n = 0;
  int has_tools = 0;
  ga_template *own = NULL; /* compiled for this call; microseconds */
  if (!PyArg_ParseTuple(args, "s#|z#p:encode_json", &json, &bytes, &source, &source_bytes, &has_tools)) return NULL;
  const ga_tokenizer *tok = model_tokenizer(self);
  if (!tok) return NULL;
  ga_status status = source ? ga_template_compile(source, (size_t)source_bytes, &own) : GA_OK;
  if (status != GA_OK) return pyga_raise(status);
  const ga_template *tpl = own;
  if (!tpl && self->model) tpl = (has_tools ? ga_model_tool_template : ga_model_template)(self->model);
  if (!tpl) {
    const char *why = self->model ? ga_model_template_error(self->model) : "";
    pyga_fail(GA_ERR_UNSUPPORTED, "chat_ids: the model has no chat template%s%s", why[0] ? ": " : "", why);
    return NULL;
  }
  Py_BEGIN_ALLOW_THREADS;
  status = ga_template_encode(tpl, tok, json, (size_t)bytes, NULL, &ids, &n);
  Py_END_ALLOW_THREADS;
  PyObject *list = status == GA_OK ? ids_list(ids, n) : pyga_raise(status);
  ga_chat_ids_free(ids);
  ga_template_destroy(own);
  return list;
}

static PyObject *model_embed_ids(PyObject *object, PyObject *value) {
  pyga_model *self = (pyga_model *)object;
  int32_t n = 0;
  if (pyga_model_ready(self, "embed")) return NULL;
  int32_t *ids = pyga_ids(value, "embed: ids", &n);
  if (!ids) return NULL;
  const int64_t width = ga_model_get_info(self->model)->embedding_width;
  pyga_context *host = pyga_context_for(NULL, 0);
  pyga_array *made = host ? pyga_array_new(host, GA_F32, 1, &width) : NULL;
  if (made) {
    PyThreadState *state = pyga_begin(self->context);
    ga_status status = ga_embed_vector(self->model, ids, n, made->view.data, (size_t)width);
    status = pyga_end(self->context, state, status);
    if (status != GA_OK) {
      pyga_raise(status);
      Py_CLEAR(made);
    }
  }
  PyMem_Free(ids);
  return (PyObject *)made;
}

static PyObject *model_is_eog(PyObject *object, PyObject *value) {
  const long id = PyLong_AsLong(value);
  if (id == -1 && PyErr_Occurred()) return NULL;
  const ga_tokenizer *tok = model_tokenizer((pyga_model *)object);
  return tok ? PyBool_FromLong(ga_tokenizer_is_eog(tok, (int32_t)id)) : NULL;
}

static PyObject *model_special(PyObject *object, PyObject *value) {
  static const char *const names[] = {"bos",        "eos",        "eot",     "eom",      "unk",
                                      "sep",        "pad",        "cls",     "mask",     "fim_prefix",
                                      "fim_suffix", "fim_middle", "fim_pad", "fim_repo", "fim_file"};
  const ga_tokenizer *tok = model_tokenizer((pyga_model *)object);
  if (!tok) return NULL;
  for (int i = 0; PyUnicode_Check(value) && i < (int)(sizeof names / sizeof *names); i++)
    if (!PyUnicode_CompareWithASCIIString(value, names[i])) {
      const int32_t id = ga_tokenizer_special(tok, (ga_tok_special)i);
      return id < 0 ? Py_NewRef(Py_None) : PyLong_FromLong(id);
    }
  pyga_fail(
      GA_ERR_ARG,
      "special: name is %R; allowed are 'bos', 'eos', 'eot', 'eom', 'unk', 'sep', 'pad', 'cls', 'mask', 'fim_prefix', "
      "'fim_suffix', 'fim_middle', 'fim_pad', 'fim_repo', 'fim_file'",
      value);
  return NULL;
}

static PyObject *model_piece(PyObject *object, PyObject *value) {
  const long id = PyLong_AsLong(value);
  if (id == -1 && PyErr_Occurred()) return NULL;
  const ga_tokenizer *tok = model_tokenizer((pyga_model *)object);
  if (!tok) return NULL;
  const ga_text piece = ga_tokenizer_piece(tok, (int32_t)id);
  return PyBytes_FromStringAndSize(piece.data, (Py_ssize_t)piece.bytes);
}

static PyObject *model_info(PyObject *object, void *unused) {
  (void)unused;
  const pyga_model *self = (pyga_model *)object;
  if (!self->model)
    return Py_BuildValue("{s:i,s:n}", "vocab", (int)ga_tokenizer_size(self->vocab), "tokens",
                         (Py_ssize_t)ga_tokenizer_size(self->vocab));
  const ga_model_info *m = ga_model_get_info(self->model);
  const ga_tokenizer *tok = ga_model_tokenizer(self->model);
  return Py_BuildValue("{s:s,s:s,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:O,s:i,s:K,s:K,s:K,s:n}", "arch", m->arch, "name",
                       m->name, "n_layers", (int)m->n_layers, "width", (int)m->width, "ff_width", (int)m->ff_width,
                       "n_heads", (int)m->n_heads, "n_kv_heads", (int)m->n_kv_heads, "head_dim", (int)m->head_dim,
                       "vocab", (int)m->vocab, "context", (int)m->context, "window", (int)m->window, "is_encoder",
                       m->is_encoder ? Py_True : Py_False, "embedding_width", (int)m->embedding_width, "n_params",
                       (unsigned long long)m->n_params, "weight_bytes", (unsigned long long)m->weight_bytes,
                       "kv_token_bytes", (unsigned long long)m->kv_token_bytes, "tokens",
                       (Py_ssize_t)(tok ? ga_tokenizer_size(tok) : 0));
}

static PyObject *model_context(PyObject *object, void *unused) {
  (void)unused;
  return Py_NewRef((PyObject *)((pyga_model *)object)->context);
}

static int model_type_init(PyObject *module) {
  static PyMethodDef methods[] = {
      {"_tokenize", model_tokenize, METH_VARARGS, NULL},
      {"_detokenize", model_detokenize, METH_VARARGS, NULL},
      {"_encode_json", model_encode_json, METH_VARARGS, NULL},
      {"_embed_ids", model_embed_ids, METH_O, NULL},
      {"_share", model_share, METH_VARARGS, NULL},
      {"is_eog", model_is_eog, METH_O, "is_eog(id)\n\nDoes generation end with this token?"},
      {"special", model_special, METH_O, "special(name)\n\nId of 'bos', 'eos', ... or None."},
      {"piece", model_piece, METH_O, "piece(id)\n\nThe bytes that a token stands for."},
      {NULL, NULL, 0, NULL}};
  static PyGetSetDef getters[] = {
      {"info", model_info, NULL,
       "A dict: arch, name, n_layers, width, vocab, context, ...; with vocab_only vocab and tokens alone.", NULL},
      {"context", model_context, NULL, "The Context that the model was loaded to.", NULL},
      {NULL, NULL, NULL, NULL, NULL}};
  PyType_Slot slots[] = {{Py_tp_new, PY_SLOT(model_new)},
                         {Py_tp_dealloc, PY_SLOT(model_dealloc)},
                         {Py_tp_methods, methods},
                         {Py_tp_getset, getters},
                         {0, NULL}};
  PyType_Spec spec = {"gpu_accel.ModelBase", sizeof(pyga_model), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  pyga_model_type = pyga_type_add(module, &spec);
  return pyga_model_type ? 0 : -1;
}

/* ---- Session ---- */

typedef struct pyga_session {
  PyObject_HEAD pyga_model *model;
  ga_session *session;
} pyga_session;

static PyObject *session_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char names[5][16] = {"model", "n_ctx", "n_batch", "kv_dtype", "deterministic"};
  char *list[] = {names[0], names[1], names[2], names[3], names[4], NULL};
  PyObject *model = NULL, *dtype = NULL;
  ga_session_options options = GA_SESSION_OPTIONS_INIT;
  int context = 0, batch = 0, same_bits = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|iiOp:Session", list, pyga_model_type, &model, &context, &batch,
                                   &dtype, &same_bits))
    return NULL;
  options.context = context, options.batch = batch, options.flags = same_bits ? GA_SESSION_DETERMINISTIC : 0;
  if (dtype && dtype != Py_None) {
    const ga_dtype kv = pyga_dtype_arg(dtype, "Session: kv_dtype");
    if (kv == GA_DTYPE_NONE) return NULL;
    options.kv_dtype = (int32_t)kv;
  }
  pyga_context *c = ((pyga_model *)model)->context;
  if (pyga_model_ready((pyga_model *)model, "Session")) return NULL;
  pyga_session *self = (pyga_session *)PyType_GenericAlloc(type, 0);
  if (!self) return NULL;
  self->model = (pyga_model *)Py_NewRef(model);
  c->sessions++;
  PyThreadState *state = pyga_enter(c);
  const ga_status status = ga_session_create(self->model->model, &options, &self->session);
  pyga_leave(c, state);
  if (status != GA_OK) {
    Py_DECREF(self);
    return pyga_raise(status);
  }
  return (PyObject *)self;
}

static void session_dealloc(PyObject *object) {
  pyga_session *self = (pyga_session *)object;
  PyTypeObject *type = Py_TYPE(object);
  if (self->model) {
    if (!self->model->context->is_stale) {
      PyThreadState *state = pyga_enter(self->model->context);
      ga_session_destroy(self->session);
      pyga_leave(self->model->context, state);
    }
    self->model->context->sessions--;
    Py_DECREF(self->model);
  }
  PyObject_Free(object);
  Py_DECREF(type);
}

static PyObject *session_eval(PyObject *object, PyObject *args) {
  pyga_session *self = (pyga_session *)object;
  PyObject *value = NULL;
  int n_logits = 1, n = 0;
  if (!PyArg_ParseTuple(args, "O|i:eval", &value, &n_logits) || pyga_context_ready(self->model->context, "eval"))
    return NULL;
  int32_t *ids = pyga_ids(value, "eval: ids", &n);
  if (!ids) return NULL;
  pyga_context *host = pyga_context_for(NULL, 0);
  const int64_t dims[2] = {n_logits, ga_model_get_info(self->model->model)->vocab};
  pyga_array *made = NULL;
  ga_status status = GA_OK;
  if (n_logits < 0 || n_logits > n)
    pyga_fail(GA_ERR_ARG, "eval: n_logits is %d; allowed are 0 to %d", n_logits, n);
  else if (host)
    made = pyga_array_new(host, GA_F32, 2, dims);
  if (made) {
    PyThreadState *state = pyga_begin(self->model->context);
    status = ga_session_eval(self->session, ids, n, n_logits ? made->view.data : NULL, n_logits, pyga_progress, NULL);
    status = pyga_end(self->model->context, state, status);
    if (status != GA_OK) {
      pyga_raise(status);
      Py_CLEAR(made);
    }
  }
  PyMem_Free(ids);
  return (PyObject *)made;
}

static PyObject *session_rewind(PyObject *object, PyObject *value) {
  pyga_session *self = (pyga_session *)object;
  const long n = PyLong_AsLong(value);
  if ((n == -1 && PyErr_Occurred()) || pyga_context_ready(self->model->context, "rewind")) return NULL;
  if (n < 0 || n > INT32_MAX) return pyga_fail(GA_ERR_ARG, "rewind: n is %ld; allowed are 0 to %d", n, INT32_MAX), NULL;
  PyThreadState *state = pyga_enter(self->model->context);
  const ga_status status = ga_session_rewind(self->session, (int32_t)n);
  pyga_leave(self->model->context, state);
  return status == GA_OK ? Py_NewRef(Py_None) : pyga_raise(status);
}

static PyObject *session_length(PyObject *object, void *unused) {
  (void)unused;
  return PyLong_FromLong(ga_session_length(((pyga_session *)object)->session));
}

static PyObject *session_context(PyObject *object, void *unused) {
  (void)unused;
  return PyLong_FromLong(ga_session_context(((pyga_session *)object)->session));
}

static int session_type_init(PyObject *module) {
  static PyMethodDef methods[] = {
      {"eval", session_eval, METH_VARARGS,
       "eval(ids, n_logits=1)\n\nAppends ids; logits of the last n_logits of them, [n_logits, vocab] f32."},
      {"rewind", session_rewind, METH_O, "rewind(n)\n\nForgets all but the first n tokens."},
      {NULL, NULL, 0, NULL}};
  static PyGetSetDef getters[] = {{"length", session_length, NULL, "Tokens so far.", NULL},
                                  {"n_ctx", session_context, NULL, "Tokens that fit.", NULL},
                                  {NULL, NULL, NULL, NULL, NULL}};
  static const char doc[] = "Session(model, n_ctx=0, n_batch=0, kv_dtype=None, deterministic=False)\n\nOne growing "
                            "sequence with its KV cache.";
  PyType_Slot slots[] = {{Py_tp_new, PY_SLOT(session_new)}, {Py_tp_dealloc, PY_SLOT(session_dealloc)},
                         {Py_tp_methods, methods},          {Py_tp_getset, getters},
                         {Py_tp_doc, PY_SLOT(doc)},         {0, NULL}};
  PyType_Spec spec = {"gpu_accel.Session", sizeof(pyga_session), 0, Py_TPFLAGS_DEFAULT, slots};
  session_type = pyga_type_add(module, &spec);
  return session_type ? 0 : -1;
}

/* ---- Detokenizer ---- */

typedef struct pyga_detok {
  PyObject_HEAD pyga_model *model;
  ga_detok *detok;
} pyga_detok;

static PyObject *detok_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char names[3][16] = {"model", "special", "continued"};
  char *list[] = {names[0], names[1], names[2], NULL};
  PyObject *model = NULL;
  int special = 0, continued = 1;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|pp:Detokenizer", list, pyga_model_type, &model, &special,
                                   &continued))
    return NULL;
  const ga_tokenizer *tok = model_tokenizer((pyga_model *)model);
  pyga_detok *self = tok ? (pyga_detok *)PyType_GenericAlloc(type, 0) : NULL;
  if (!self) return NULL;
  self->model = (pyga_model *)Py_NewRef(model);
  const ga_status status =
      ga_detok_create(tok, (special ? GA_DETOK_SPECIAL : 0) | (continued ? GA_DETOK_CONTINUE : 0), &self->detok);
  if (status != GA_OK) {
    Py_DECREF(self);
    return pyga_raise(status);
  }
  return (PyObject *)self;
}

static void detok_dealloc(PyObject *object) {
  pyga_detok *self = (pyga_detok *)object;
  PyTypeObject *type = Py_TYPE(object);
  ga_detok_destroy(self->detok);
  Py_XDECREF((PyObject *)self->model);
  PyObject_Free(object);
  Py_DECREF(type);
}

/* The GIL is held all through: a detokeniser belongs to one thread at a time. */
static PyObject *detok_push(PyObject *object, PyObject *value) {
  const long id = PyLong_AsLong(value);
  if (id == -1 && PyErr_Occurred()) return NULL;
  ga_text text = {0};
  const ga_status status = ga_detok_push(((pyga_detok *)object)->detok, (int32_t)id, &text);
  return status == GA_OK ? text_object(text) : pyga_raise(status);
}

static PyObject *detok_flush(PyObject *object, PyObject *unused) {
  (void)unused;
  return text_object(ga_detok_flush(((pyga_detok *)object)->detok));
}

int pyga_model_init(PyObject *module) {
  static PyMethodDef methods[] = {
      {"push", detok_push, METH_O, "push(id)\n\nText that this id completes, possibly ''."},
      {"flush", detok_flush, METH_NOARGS, "flush()\n\nWhat was held back, and a fresh start."},
      {NULL, NULL, 0, NULL}};
  static const char doc[] =
      "Detokenizer(model, special=False, continued=True)\n\nStreaming detokeniser: ids in, whole characters out.";
  PyType_Slot slots[] = {{Py_tp_new, PY_SLOT(detok_new)},
                         {Py_tp_dealloc, PY_SLOT(detok_dealloc)},
                         {Py_tp_methods, methods},
                         {Py_tp_doc, PY_SLOT(doc)},
                         {0, NULL}};
  PyType_Spec spec = {"gpu_accel.Detokenizer", sizeof(pyga_detok), 0, Py_TPFLAGS_DEFAULT, slots};
  if (model_type_init(module) || session_type_init(module)) return -1;
  detok_type = pyga_type_add(module, &spec);
  return detok_type ? 0 : -1;
}
