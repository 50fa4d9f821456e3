/* Handlers that XLA calls: devices with their locks, streams and plans, and what all handlers do. */
#include "python/ext/jax.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_DEVICES 16
#define MOST_PLANS   128

typedef struct kept_plan {
  const jax_form *form;
  ga_plan *plan;
  void *desc;
  size_t desc_bytes;
} kept_plan;

typedef struct kept_stream {
  void *native;
  ga_stream *stream;
} kept_stream;

/* A context of its own, apart from those of Python: XLA's threads hold no GIL. Opened by the first call, lives as long
 * as the process, as XLA's devices do. */
struct jax_device {
  pthread_mutex_t lock; /* held during a call: on a GPU while it enqueues */
  ga_ctx *ctx;
  kept_plan plans[MOST_PLANS]; /* a ring: the oldest plan goes first */
  int32_t n_plans, next_plan;
  kept_stream *streams;
  int32_t n_streams;
};

static jax_device cpu_device = {.lock = PTHREAD_MUTEX_INITIALIZER};
static jax_device gpu_devices[MOST_DEVICES];
static pthread_once_t gpus_once = PTHREAD_ONCE_INIT;

static void gpus_init(void) {
  for (int i = 0; i < MOST_DEVICES; i++) pthread_mutex_init(&gpu_devices[i].lock, NULL);
}

/* ---- the frame ---- */

ga_status jax_fail(jax_call *call, ga_status status, const char *format, ...) {
  va_list list;
  va_start(list, format);
  const int n = snprintf(call->text, sizeof call->text, "%s: ", call->op);
  if (n > 0 && (size_t)n < sizeof call->text) vsnprintf(call->text + n, sizeof call->text - (size_t)n, format, list);
  va_end(list);
  return status;
}

static const xla_buffer *buffer_at(jax_call *call, const xla_values *values, const char *what, int64_t index) {
  const xla_buffer *buffer = index < values->size && values->kinds[index] == 1 ? values->values[index] : NULL;
  if (buffer && buffer->struct_size >= sizeof(xla_buffer)) return buffer;
  jax_fail(call, GA_ERR_ARG, "%s %d is no array; gpu_accel.jax hands them over", what, (int)index);
  return NULL;
}

const xla_buffer *jax_argument(jax_call *call, int64_t index) {
  return buffer_at(call, &call->frame->arguments, "argument", index);
}

const xla_buffer *jax_result(jax_call *call, int64_t index) {
  return buffer_at(call, &call->frame->results, "result", index);
}

static const void *xla_attribute(const jax_call *call, const char *name, int kind) {
  const xla_attributes *a = &call->frame->attributes;
  const size_t bytes = strlen(name);
  for (int64_t i = 0; i < a->size; i++)
    if (a->kinds[i] == kind && a->names[i]->bytes == bytes && !memcmp(a->names[i]->data, name, bytes))
      return a->values[i];
  return NULL;
}

/* A scalar of four bytes. */
static ga_status scalar(jax_call *call, const char *name, int dtype, void *out) {
  const xla_scalar *found = xla_attribute(call, name, XLA_ATTR_SCALAR);
  if (!found || found->dtype != dtype)
    return jax_fail(call, GA_ERR_ARG, "%s is missing or of another type; gpu_accel.jax hands it over", name);
  memcpy(out, found->value, 4);
  return GA_OK;
}

ga_status jax_int(jax_call *call, const char *name, int32_t *out) { return scalar(call, name, XLA_S32, out); }
ga_status jax_float(jax_call *call, const char *name, float *out) { return scalar(call, name, XLA_F32, out); }

ga_status jax_text(jax_call *call, const char *name, char *text, size_t capacity) {
  const xla_span *found = xla_attribute(call, name, XLA_ATTR_STRING);
  if (!found) return jax_fail(call, GA_ERR_ARG, "%s is missing; gpu_accel.jax hands it over", name);
  const size_t bytes = found->bytes < capacity ? found->bytes : capacity - 1;
  memcpy(text, found->data, bytes);
  text[bytes] = 0;
  return GA_OK;
}

ga_dtype jax_dtype(const xla_buffer *buffer) {
  switch (buffer->dtype) {
  case XLA_F32: return GA_F32;
  case XLA_F16: return GA_F16;
  case XLA_BF16: return GA_BF16;
  case XLA_S32: return GA_I32;
  case XLA_S8: return GA_I8;
  case XLA_U8: return GA_U8;
  default: return GA_DTYPE_NONE;
  }
}

int64_t jax_product(const xla_buffer *buffer, int64_t first, int64_t last) {
  int64_t n = 1;
  for (int64_t i = first; i < last; i++) n *= buffer->dims[i];
  return n;
}

/* ---- arrays of 16 bits on a CPU, whose rows take f32 ---- */

static bool is_wide(const jax_call *call, ga_dtype dtype) {
  return call->is_cuda || (dtype != GA_F16 && dtype != GA_BF16);
}

static ga_status copy_new(jax_call *call, const xla_buffer *buffer, const xla_buffer *result, void **f32) {
  if (call->n_copies == JAX_MAX_BUFFERS) return jax_fail(call, GA_ERR_INTERNAL, "more than %d copies", JAX_MAX_BUFFERS);
  const size_t bytes = (size_t)jax_product(buffer, 0, buffer->rank) * sizeof(float);
  *f32 = NULL;
  const ga_status status = bytes ? ga_buffer_alloc(call->ctx, bytes, f32) : GA_OK;
  if (status == GA_OK) call->copies[call->n_copies++] = (jax_copy){*f32, result};
  return status;
}

static ga_status cpu_convert(jax_call *call, int64_t n, ga_dtype from, const void *x, ga_dtype to, void *y) {
  ga_convert_desc d = GA_CONVERT_DESC_INIT;
  const ga_convert_io io = {.x = x, .y = y};
  d.rows = 1, d.width = n;
  d.x_dtype = (int32_t)from, d.y_dtype = (int32_t)to;
  return n ? ga_convert(call->ctx, &d, &io, NULL) : GA_OK;
}

ga_status jax_take(jax_call *call, const xla_buffer *argument, const void **data, ga_dtype *dtype) {
  void *f32 = NULL;
  *data = argument->data;
  *dtype = jax_dtype(argument);
  if (is_wide(call, *dtype)) return GA_OK;
  ga_status status = copy_new(call, argument, NULL, &f32);
  if (status == GA_OK)
    status = cpu_convert(call, jax_product(argument, 0, argument->rank), *dtype, argument->data, GA_F32, f32);
  *data = f32;
  *dtype = GA_F32;
  return status;
}

ga_status jax_make(jax_call *call, const xla_buffer *result, void **data, ga_dtype *dtype) {
  *data = result->data;
  *dtype = jax_dtype(result);
  if (is_wide(call, *dtype)) return GA_OK;
  *dtype = GA_F32;
  return copy_new(call, result, result, data);
}

/* Converts results, unless the work has failed, and frees the copies. */
static ga_status copies_end(jax_call *call, ga_status status) {
  for (int32_t i = 0; i < call->n_copies; i++) {
    const xla_buffer *r = call->copies[i].result;
    if (r && status == GA_OK)
      status = cpu_convert(call, jax_product(r, 0, r->rank), GA_F32, call->copies[i].f32, jax_dtype(r), r->data);
    ga_buffer_free(call->ctx, call->copies[i].f32);
  }
  return status;
}

/* ---- plans ---- */

static ga_status plan_for(jax_call *call, const jax_form *form, const void *desc, size_t bytes, const ga_plan **out) {
  jax_device *d = call->device;
  for (int32_t i = 0; i < d->n_plans; i++)
    if (d->plans[i].form == form && d->plans[i].desc_bytes == bytes && !memcmp(d->plans[i].desc, desc, bytes)) {
      *out = d->plans[i].plan;
      return GA_OK;
    }
  kept_plan made = {.form = form, .desc = malloc(bytes), .desc_bytes = bytes};
  if (!made.desc) return jax_fail(call, GA_ERR_NOMEM, "no memory for a plan");
  memcpy(made.desc, desc, bytes);
  const ga_status status = form->plan(d->ctx, desc, &made.plan);
  if (status != GA_OK) {
    free(made.desc);
    return status;
  }
  kept_plan *slot = &d->plans[d->next_plan];
  if (d->n_plans == MOST_PLANS) {
    ga_plan_destroy(slot->plan);
    free(slot->desc);
  } else
    d->n_plans++;
  d->next_plan = (d->next_plan + 1) % MOST_PLANS;
  *slot = made;
  *out = made.plan;
  return GA_OK;
}

/* Notes what GA asked XLA for, and what XLA says; frees the error. */
static ga_status xla_refused(jax_call *call, void *error, ga_status status, const char *what, size_t bytes) {
  const xla_api *api = call->frame->api;
  xla_error_text text = {.struct_size = sizeof text, .error = error};
  if (error) api->error_text(&text);
  jax_fail(call, status, "%s (%zu bytes): XLA says: %s", what, bytes, text.message ? text.message : "nothing");
  xla_destroy_error destroy = {.struct_size = sizeof destroy, .error = error};
  if (error) api->error_destroy(&destroy);
  return status;
}

/* A GPU's workspace is XLA's: given back as soon as the work is enqueued, since XLA hands it to what comes later in the
 * stream. XLA promises multiples of 16 alone, plans want multiples of 256. */
static ga_status run_on_gpu(jax_call *call, const jax_form *form, const ga_plan *plan, const void *io, size_t bytes) {
  const xla_api *api = call->frame->api;
  void *const context = call->frame->context;
  if (!bytes) return form->run(plan, io, NULL, call->stream);
  xla_allocate take = {.struct_size = sizeof take, .context = context, .bytes = bytes + 256, .alignment = 16};
  void *error = api->allocate(&take);
  if (error || !take.data) return xla_refused(call, error, GA_ERR_NOMEM, "no workspace", take.bytes);
  char *const workspace = (char *)take.data + (256 - (uintptr_t)take.data % 256) % 256;
  const ga_status status = form->run(plan, io, workspace, call->stream);
  xla_free give = {.struct_size = sizeof give, .context = context, .bytes = take.bytes, .data = take.data};
  error = api->free(&give);
  if (!error) return status;
  const ga_status refused = xla_refused(call, error, GA_ERR_DEVICE, "the workspace stays taken", take.bytes);
  return status == GA_OK ? refused : status;
}

ga_status jax_run(jax_call *call, const jax_form *form, const void *desc, size_t desc_bytes, const void *io) {
  const ga_plan *plan = NULL;
  void *workspace = NULL;
  ga_status status = plan_for(call, form, desc, desc_bytes, &plan);
  if (status != GA_OK) return status;
  const size_t bytes = ga_plan_workspace_bytes(plan);
  if (call->is_cuda) return run_on_gpu(call, form, plan, io, bytes);
  if (bytes) status = ga_buffer_alloc(call->ctx, bytes, &workspace);
  if (status == GA_OK) status = form->run(plan, io, workspace, NULL);
  ga_buffer_free(call->ctx, workspace);
  return status;
}

/* ---- devices ---- */

static ga_status gpu_of(jax_call *call, int32_t *ordinal) {
  const xla_api *api = call->frame->api;
  if (api->struct_size < offsetof(xla_api, device_get) + sizeof api->device_get || !api->device_get)
    return jax_fail(call, GA_ERR_UNSUPPORTED,
                    "XLA's table has %zu bytes; allowed on a GPU are %zu and more: a newer jaxlib", api->struct_size,
                    sizeof *api);
  xla_get_device ask = {.struct_size = sizeof(size_t) + 2 * sizeof(void *) + sizeof(int32_t),
                        .context = call->frame->context};
  void *error = api->device_get(&ask);
  if (error) return xla_refused(call, error, GA_ERR_DEVICE, "no device", 0);
  if (ask.ordinal < 0 || ask.ordinal >= MOST_DEVICES)
    return jax_fail(call, GA_ERR_ARG, "device cuda:%d; allowed are 0 to %d", (int)ask.ordinal, MOST_DEVICES - 1);
  *ordinal = ask.ordinal;
  return GA_OK;
}

static ga_status stream_of(jax_call *call) {
  jax_device *d = call->device;
  xla_get_stream ask = {.struct_size = sizeof ask, .context = call->frame->context};
  void *error = call->frame->api->stream_get(&ask);
  if (error) return xla_refused(call, error, GA_ERR_DEVICE, "no stream", 0);
  for (int32_t i = 0; i < d->n_streams; i++)
    if (d->streams[i].native == ask.stream) {
      call->stream = d->streams[i].stream;
      return GA_OK;
    }
  kept_stream *more = realloc(d->streams, ((size_t)d->n_streams + 1) * sizeof *more);
  if (!more) return jax_fail(call, GA_ERR_NOMEM, "no memory for a stream");
  d->streams = more;
  const ga_status status = ga_stream_wrap(d->ctx, ask.stream, &call->stream);
  if (status == GA_OK) more[d->n_streams++] = (kept_stream){ask.stream, call->stream};
  return status;
}

static ga_status device_open(jax_call *call, int32_t ordinal) {
  char name[24];
  ga_ctx_options options = GA_CTX_OPTIONS_INIT;
  snprintf(name, sizeof name, call->is_cuda ? "cuda:%d" : "cpu", (int)ordinal);
  options.device = name;
  return ga_ctx_create(&options, &call->device->ctx);
}

static ga_status on_device(jax_call *call, jax_work work) {
  int32_t ordinal = 0;
  ga_status status = GA_OK;
  call->device = &cpu_device;
  if (call->is_cuda) {
    pthread_once(&gpus_once, gpus_init);
    status = gpu_of(call, &ordinal);
    if (status != GA_OK) return status;
    call->device = &gpu_devices[ordinal];
  }
  pthread_mutex_lock(&call->device->lock);
  if (!call->device->ctx) status = device_open(call, ordinal);
  call->ctx = call->device->ctx;
  if (status == GA_OK && call->is_cuda) status = stream_of(call);
  if (status == GA_OK) status = copies_end(call, work(call));
  pthread_mutex_unlock(&call->device->lock);
  return status;
}

/* ---- handlers ---- */

/* Says which version these handlers were written for; XLA refuses one that it no longer serves. */
static bool tell_metadata(const xla_frame *frame) {
  for (xla_extension *e = frame->extensions; e; e = e->next)
    if (e->kind == XLA_METADATA) {
      xla_metadata *m = ((xla_metadata_extension *)e)->metadata;
      m->version.struct_size = offsetof(xla_version, minor) + sizeof m->version.minor;
      m->version.extensions = NULL;
      m->version.major = XLA_MAJOR, m->version.minor = XLA_MINOR;
      m->traits = 0; /* workspaces are given back at once: no command buffer */
      return true;
    }
  return false;
}

/* The number of a status among absl's codes. */
static int absl_code(ga_status status) {
  switch (status) {
  case GA_ERR_ARG:
  case GA_ERR_SHAPE:
  case GA_ERR_DTYPE: return 3;        /* INVALID_ARGUMENT */
  case GA_ERR_NOMEM: return 8;        /* RESOURCE_EXHAUSTED */
  case GA_ERR_STATE: return 9;        /* FAILED_PRECONDITION */
  case GA_ERR_UNSUPPORTED: return 12; /* UNIMPLEMENTED */
  default: return 13;                 /* INTERNAL */
  }
}

static void *xla_error(const xla_frame *frame, ga_status status, const char *text) {
  xla_new_error made = {.message = text, .code = absl_code(status)};
  made.struct_size = offsetof(xla_new_error, code) + sizeof made.code;
  return frame->api->error_create(&made);
}

void *jax_handle(const xla_frame *frame, const char *op, bool is_cuda, jax_work work) {
  jax_call call = {.op = op, .frame = frame, .is_cuda = is_cuda};
  if (tell_metadata(frame)) return NULL;
  /* A CPU needs errors alone; gpu_of asks for the rest. Without error_create nobody can be told. */
  const xla_api *api = frame->api;
  if (frame->struct_size < sizeof *frame || api->version.major != XLA_MAJOR || api->version.minor < XLA_MINOR ||
      api->struct_size < offsetof(xla_api, error_destroy) + sizeof api->error_destroy) {
    snprintf(call.text, sizeof call.text,
             "%s: XLA's FFI is of version %d.%d, its frame %zu bytes; allowed are %d.%d and later of %d, and %zu bytes "
             "or more",
             op, api->version.major, api->version.minor, frame->struct_size, XLA_MAJOR, XLA_MINOR, XLA_MAJOR,
             sizeof *frame);
    return xla_error(frame, GA_ERR_UNSUPPORTED, call.text);
  }
  if (frame->stage != XLA_EXECUTE) return NULL;
  const ga_status status = on_device(&call, work);
  if (status == GA_OK) return NULL;
  return xla_error(frame, status, call.text[0] ? call.text : ga_error_text());
}
