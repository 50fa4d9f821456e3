/* Python module, handlers that XLA calls: XLA's call frame, and a call on a device.
 *
 * The first part declares the call frame of XLA's typed FFI (its C API of version 0.1 and later), as far as these
 * handlers read it. One module serves every jaxlib whose frames begin like this, and none is needed to build it. XLA
 * sets each struct's struct_size to the bytes that it knows. A struct that is too short, or of another major version,
 * is an error before anything else of it is read. */
#ifndef GA_PYTHON_JAX_H
#define GA_PYTHON_JAX_H

#include "python/ext/core.h"

#include "ga/attn.h"
#include "ga/attn_bwd.h"
#include "ga/layer.h"

/* ---- XLA's call frame ---- */

enum { XLA_MAJOR = 0, XLA_MINOR = 1 };         /* the oldest version with these layouts */
enum { XLA_EXECUTE = 3 };                      /* stage */
enum { XLA_METADATA = 1 };                     /* kind of an extension */
enum { XLA_ATTR_SCALAR = 3, XLA_ATTR_STRING }; /* kinds of attributes; of arguments and results 1 is a buffer */
enum { XLA_S8 = 2, XLA_S32 = 4, XLA_U8 = 6, XLA_F16 = 10, XLA_F32 = 11, XLA_BF16 = 16 };

typedef struct xla_extension {
  size_t struct_size;
  int kind;
  struct xla_extension *next;
} xla_extension;

typedef struct xla_version {
  size_t struct_size;
  xla_extension *extensions;
  int major, minor;
} xla_version;

/* Properties of a handler, which XLA reads before the first call. */
typedef struct xla_metadata {
  size_t struct_size;
  xla_version version;
  uint32_t traits; /* 1: may be recorded into a command buffer */
} xla_metadata;

typedef struct xla_metadata_extension {
  xla_extension base;
  xla_metadata *metadata;
} xla_metadata_extension;

typedef struct xla_buffer {
  size_t struct_size;
  xla_extension *extensions;
  int dtype; /* XLA_F32, ... */
  void *data;
  int64_t rank;
  int64_t *dims;
} xla_buffer;

typedef struct xla_span {
  const char *data;
  size_t bytes;
} xla_span;

typedef struct xla_scalar {
  int dtype;
  void *value;
} xla_scalar;

/* Arguments, or results. */
typedef struct xla_values {
  size_t struct_size;
  xla_extension *extensions;
  int64_t size;
  int *kinds;
  void **values;
} xla_values;

typedef struct xla_attributes {
  size_t struct_size;
  xla_extension *extensions;
  int64_t size;
  int *kinds;
  xla_span **names;
  void **values; /* xla_scalar, or xla_span of a string */
} xla_attributes;

typedef struct xla_new_error {
  size_t struct_size;
  xla_extension *extensions;
  const char *message;
  int code;
} xla_new_error;

typedef struct xla_get_stream {
  size_t struct_size;
  xla_extension *extensions;
  void *context, *stream; /* stream: out */
} xla_get_stream;

typedef struct xla_get_device {
  size_t struct_size;
  xla_extension *extensions;
  void *context;
  int32_t ordinal; /* out */
} xla_get_device;

typedef struct xla_allocate {
  size_t struct_size;
  xla_extension *extensions;
  void *context;
  size_t bytes, alignment;
  void *data; /* out */
} xla_allocate;

typedef struct xla_free {
  size_t struct_size;
  xla_extension *extensions;
  void *context;
  size_t bytes;
  void *data;
} xla_free;

typedef struct xla_error_text {
  size_t struct_size;
  xla_extension *extensions;
  void *error;
  const char *message; /* out */
} xla_error_text;

typedef struct xla_destroy_error {
  size_t struct_size;
  xla_extension *extensions;
  void *error;
} xla_destroy_error;

/* Each function returns an error, or NULL. */
typedef struct xla_api {
  size_t struct_size;
  xla_extension *extensions;
  xla_version version;
  const void *internal;
  void *(*error_create)(xla_new_error *);
  void (*error_text)(xla_error_text *);
  void (*error_destroy)(xla_destroy_error *);
  void *handler_register;
  void *(*stream_get)(xla_get_stream *);
  void *type_register, *context_get, *state_set, *state_get;
  void *(*allocate)(xla_allocate *);
  void *(*free)(xla_free *);
  void *thread_schedule, *thread_count, *future_create, *future_set, *future_fail, *run_id;
  void *(*device_get)(xla_get_device *);
} xla_api;

typedef struct xla_frame {
  size_t struct_size;
  xla_extension *extensions;
  const xla_api *api;
  void *context;
  int stage;
  xla_values arguments, results;
  xla_attributes attributes;
} xla_frame;

/* ---- a call ---- */

#define JAX_MAX_BUFFERS 12

typedef struct jax_device jax_device;

/* A value in f32 that is converted from or to a CPU array of 16 bits. */
typedef struct jax_copy {
  void *f32;
  const xla_buffer *result; /* the result to convert to; NULL: made of an argument */
} jax_copy;

typedef struct jax_call {
  const char *op; /* for texts */
  const xla_frame *frame;
  bool is_cuda;
  jax_device *device; /* its lock is held */
  ga_ctx *ctx;
  ga_stream *stream;
  int32_t n_copies;
  jax_copy copies[JAX_MAX_BUFFERS];
  char text[256]; /* text of an error found here; empty: ga_error_text() has the text */
} jax_call;

/* The functions of an op that plan and run, with one signature for all ops. */
typedef struct jax_form {
  ga_status (*plan)(ga_ctx *ctx, const void *desc, ga_plan **out);
  ga_status (*run)(const ga_plan *plan, const void *io, void *workspace, ga_stream *stream);
} jax_form;

#define JAX_FORM(op)                                                                          \
  static ga_status op##_plan_any(ga_ctx *ctx, const void *desc, ga_plan **out) {              \
    return ga_##op##_plan(ctx, desc, out);                                                    \
  }                                                                                           \
  static ga_status op##_run_any(const ga_plan *plan, const void *io, void *w, ga_stream *s) { \
    return ga_##op##_run(plan, io, w, s);                                                     \
  }                                                                                           \
  static const jax_form form_##op = {op##_plan_any, op##_run_any};

/* A handler's work: fills a description from the frame and runs it. */
typedef ga_status (*jax_work)(jax_call *call);
/* Runs a handler's work: checks the frame, locks the device, and turns a status into an error of XLA. Returns NULL, or
 * the error. Called by XLA's threads without the GIL. */
void *jax_handle(const xla_frame *frame, const char *op, bool is_cuda, jax_work work);

/* Sets an error's text, formatted as by printf, after the op's name. Returns the status. */
ga_status jax_fail(jax_call *call, ga_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Argument or result number `index`; NULL with an error text when the frame has fewer. */
const xla_buffer *jax_argument(jax_call *call, int64_t index);
const xla_buffer *jax_result(jax_call *call, int64_t index);
/* Read an attribute. GA_ERR_ARG: there is none of that name and type. */
ga_status jax_int(jax_call *call, const char *name, int32_t *out);
ga_status jax_float(jax_call *call, const char *name, float *out);
/* Reads a text, cut at `capacity`, always NUL-terminated. */
ga_status jax_text(jax_call *call, const char *name, char *text, size_t capacity);
ga_dtype jax_dtype(const xla_buffer *buffer);
/* The product of dimensions first to last - 1. */
int64_t jax_product(const xla_buffer *buffer, int64_t first, int64_t last);

/* Gives the elements of an argument, and their type, for the device's kernels: f16 and bf16 of a CPU become f32. */
ga_status jax_take(jax_call *call, const xla_buffer *argument, const void **data, ga_dtype *dtype);
/* Gives the memory for a result. A CPU writes 16-bit results in f32; they are converted when the work has ended. */
ga_status jax_make(jax_call *call, const xla_buffer *result, void **data, ga_dtype *dtype);
/* Makes or finds the plan of a description, and enqueues it. */
ga_status jax_run(jax_call *call, const jax_form *form, const void *desc, size_t desc_bytes, const void *io);

#endif
