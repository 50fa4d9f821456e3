/* Python module, ops: one table row for each op. A call fills a description and an io struct from Python's arguments.
 * It then runs at once, becomes a Plan, or runs through a Plan. */
#ifndef GA_PYTHON_OPS_H
#define GA_PYTHON_OPS_H

#include "python/ext/core.h"

#include "ga/attn.h"
#include "ga/attn_bwd.h"
#include "ga/attn_quant.h"
#include "ga/layer.h"
#include "ga/sample.h"

#define PYGA_MAX_VIEWS   24
#define PYGA_MAX_RESULTS 4
/* Methods of a Context: one for each op, and plan(). */
#define PYGA_OP_COUNT   14
#define PYGA_OP_METHODS (PYGA_OP_COUNT + 1)

struct pyga_op;

typedef struct pyga_call {
  const struct pyga_op *op;
  pyga_context *context;
  ga_stream *stream; /* the caller's, which the caller waits for; NULL: the context's own */
  pyga_args args;
  char what[64]; /* "gemm: x", of the current view */
  int32_t n_views, n_results;
  PyObject *results[PYGA_MAX_RESULTS]; /* owned */
  union {
    ga_gemm_desc gemm;
    ga_attn_desc attn;
    ga_attn_bwd_desc attn_bwd;
    ga_attn_quant_desc attn_quant;
    ga_norm_desc norm;
    ga_rope_desc rope;
    ga_act_desc act;
    ga_add_desc add;
    ga_softmax_desc softmax;
    ga_embed_desc embed;
    ga_kv_store_desc kv_store;
    ga_convert_desc convert;
    ga_sample_desc sample;
  } desc;
  size_t desc_bytes;
  union {
    ga_gemm_io gemm;
    ga_attn_io attn;
    ga_attn_bwd_io attn_bwd;
    ga_attn_quant_io attn_quant;
    ga_norm_io norm;
    ga_rope_io rope;
    ga_act_io act;
    ga_add_io add;
    ga_softmax_io softmax;
    ga_embed_io embed;
    ga_kv_store_io kv_store;
    ga_convert_io convert;
    ga_sample_io sample;
  } io;
  /* Values that the io struct points to. */
  uint64_t rng[4];
  int32_t token;
  float logprob;
  ga_logit_bias *bias;
  pyga_view views[PYGA_MAX_VIEWS];
  int8_t view_of[PYGA_MAX_VIEWS]; /* argument of each view; -1 = a new result */
  bool view_written[PYGA_MAX_VIEWS];
} pyga_call;

typedef struct pyga_op {
  const char *name, *doc;
  const char *const *names; /* the last ones are "workspace" and "stream" */
  Py_ssize_t positional;
  int (*fill)(pyga_call *call);
  ga_status (*plan)(ga_ctx *ctx, const pyga_call *call, ga_plan **out);
  ga_status (*run)(const ga_plan *plan, const pyga_call *call, void *workspace);
  ga_status (*both)(ga_ctx *ctx, const pyga_call *call);
  int (*finish)(pyga_call *call); /* makes results that are no arrays; NULL = there are none */
} pyga_op;

/* Starts call->desc and call->io of an op. */
#define PYGA_BEGIN(call, op, INIT)               \
  do {                                           \
    (call)->desc.op = (ga_##op##_desc)INIT;      \
    (call)->io.op = (ga_##op##_io){0};           \
    (call)->desc_bytes = sizeof(ga_##op##_desc); \
  } while (0)

/* The forms of an op, with one signature for all ops. */
#define PYGA_FORMS(op)                                                                          \
  static ga_status op##_form_plan(ga_ctx *ctx, const pyga_call *call, ga_plan **out) {          \
    return ga_##op##_plan(ctx, &call->desc.op, out);                                            \
  }                                                                                             \
  static ga_status op##_form_run(const ga_plan *plan, const pyga_call *call, void *workspace) { \
    return ga_##op##_run(plan, &call->io.op, workspace, call->stream);                          \
  }                                                                                             \
  static ga_status op##_form_both(ga_ctx *ctx, const pyga_call *call) {                         \
    return ga_##op(ctx, &call->desc.op, &call->io.op, call->stream);                            \
  }

/* Writes "op: argument" to call->what. */
const char *pyga_what(pyga_call *call, int index);
/* Gives the view of an argument on the call's device. An argument that is not given: pyga_in sets *out to NULL,
 * pyga_need raises an exception. */
int pyga_in(pyga_call *call, int index, pyga_view **out);
int pyga_need(pyga_call *call, int index, pyga_view **out);
/* Gives the view of an argument that is read and written, as pyga_need does; it becomes a result. */
int pyga_in_out(pyga_call *call, int index, pyga_view **out);
/* Gives the array to write: the argument, which must have this type and shape, or a new one. It becomes a result. */
int pyga_out(pyga_call *call, int index, ga_dtype dtype, int32_t n_dims, const int64_t *dims, pyga_view **out);
/* As pyga_out, for results of which an op writes a part: a new array is 0. */
int pyga_out_cleared(pyga_call *call, int index, ga_dtype dtype, int32_t n_dims, const int64_t *dims, pyga_view **out);
/* Gives n contiguous elements of a type, of any shape; NULL when not given. n -1: any number, which *seen gets. */
int pyga_vector(pyga_call *call, int index, ga_dtype dtype, int64_t n, int64_t *seen, const void **out);
/* Reads a view [..., width] as rows, which must all lie at the same distance. */
int pyga_rows(pyga_call *call, int index, const pyga_view *view, int64_t *rows, int64_t *width, int64_t *stride);
/* Raises ShapeError with the view's shape and the shapes allowed. Returns -1. */
int pyga_bad_shape(pyga_call *call, int index, const pyga_view *view, const char *allowed);
/* Reads the dtype named by an argument; *out is unchanged when it is not given. */
int pyga_dtype_of_arg(pyga_call *call, int index, ga_dtype *out);

/* Parses arguments and fills the structs; -1 with an exception. pyga_call_end releases everything, also after a
 * failure. */
int pyga_call_begin(pyga_call *call, const pyga_op *op, pyga_context *context, PyObject *const *args, Py_ssize_t n,
                    PyObject *keywords);
/* The results of a call, as one object or a tuple; NULL with an exception. */
PyObject *pyga_call_results(pyga_call *call);
void pyga_call_end(pyga_call *call);

extern const pyga_op pyga_op_gemm, pyga_op_attention, pyga_op_attention_backward, pyga_op_attn_quant,
    pyga_op_attention_8bit, pyga_op_norm, pyga_op_rope, pyga_op_act, pyga_op_add, pyga_op_softmax, pyga_op_embed,
    pyga_op_convert, pyga_op_kv_store, pyga_op_sample;
extern const pyga_op *const pyga_op_table[PYGA_OP_COUNT];
/* Writes PYGA_OP_METHODS rows. */
void pyga_op_methods(PyMethodDef *methods);
PyObject *pyga_context_plan(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *keywords);

#endif
