/* The part of the mock driver that orders and launches work. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mockcu_internal.h"

CUresult mock_idle(CUstream stream) {
  object *s = mock_is(stream, STREAM);
  if (s && !s->capturing) return 0;
  mock_misuse("a stream that captures");
  return ERR_CAPTURE;
}

/* --- streams, events, graphs --- */

CUresult mock_StreamCreate(CUstream *stream, unsigned flags) {
  STEP_IN("cuStreamCreate");
  if (flags != CU_STREAM_NON_BLOCKING) mock_misuse("a stream that waits for the default one");
  *stream = mock_make(STREAM);
  return 0;
}
CUresult mock_StreamIsCapturing(CUstream stream, int *status) {
  STEP_IN("cuStreamIsCapturing");
  const object *s = mock_is(stream, STREAM);
  if (!s) return CUDA_ERROR_INVALID_VALUE;
  *status = s->capturing;
  return 0;
}
CUstream mockcu_caller_stream(void) {
  CUstream stream;
  return mock_StreamCreate(&stream, CU_STREAM_NON_BLOCKING) ? NULL : stream;
}
bool mockcu_caller_begins(CUstream stream) {
  const bool begun = !mock_StreamBeginCapture(stream, CU_CAPTURE_RELAXED);
  mockcu.caller_records = begun;
  return begun;
}
void mockcu_caller_ends(CUstream stream) {
  CUgraph graph;
  mockcu.caller_records = false;
  if (!mock_StreamEndCapture(stream, &graph)) (void)mock_GraphDestroy(graph);
}
void mockcu_caller_drops(CUstream stream) { (void)mock_StreamDestroy(stream); }
CUresult mock_StreamDestroy(CUstream stream) { return mock_drop("cuStreamDestroy", stream, STREAM); }
CUresult mock_StreamSynchronize(CUstream stream) {
  STEP_IN("cuStreamSynchronize");
  mock_reads_done(stream);
  return mock_idle(stream);
}
CUresult mock_StreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  (void)flags;
  STEP_IN("cuStreamWaitEvent");
  if (!mock_is(stream, STREAM) || !mock_is(event, EVENT)) return 1;
  mock_reads_follow(stream, ((object *)event)->on);
  return 0;
}
CUresult mock_StreamBeginCapture(CUstream stream, int mode) {
  STEP_IN("cuStreamBeginCapture");
  if (mode != CU_CAPTURE_RELAXED) mock_misuse("mode of a capture");
  if (mock_idle(stream)) return ERR_CAPTURE;
  ((object *)stream)->capturing = true;
  ((object *)stream)->nodes = 0;
  return 0;
}
/* The capture ends even when the call is told to fail. */
CUresult mock_StreamEndCapture(CUstream stream, CUgraph *graph) {
  CUresult rc = mock_step("cuStreamEndCapture");
  object *s = mock_is(stream, STREAM);
  if (!s || !s->capturing) {
    mock_misuse("ends what was not begun");
    return ERR_CAPTURE;
  }
  s->capturing = false;
  if (rc) return rc;
  *graph = mock_make(GRAPH);
  return 0;
}
CUresult mock_GraphInstantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  (void)flags;
  STEP_IN("cuGraphInstantiate");
  if (!mock_is(graph, GRAPH)) return 1;
  *exec = mock_make(EXEC);
  return 0;
}
CUresult mock_GraphLaunch(CUgraphExec exec, CUstream stream) {
  STEP_IN("cuGraphLaunch");
  mockcu.graph_launches++;
  return mock_is(exec, EXEC) ? mock_idle(stream) : 1;
}
CUresult mock_GraphExecDestroy(CUgraphExec exec) { return mock_drop("cuGraphExecDestroy", exec, EXEC); }
CUresult mock_GraphDestroy(CUgraph graph) { return mock_drop("cuGraphDestroy", graph, GRAPH); }
CUresult mock_EventCreate(CUevent *event, unsigned flags) {
  (void)flags;
  STEP_IN("cuEventCreate");
  *event = mock_make(EVENT);
  return 0;
}
CUresult mock_EventDestroy(CUevent event) { return mock_drop("cuEventDestroy", event, EVENT); }
CUresult mock_EventRecord(CUevent event, CUstream stream) {
  STEP_IN("cuEventRecord");
  if (!mock_is(event, EVENT) || !mock_is(stream, STREAM)) return 1;
  ((object *)event)->on = (object *)stream;
  return 0;
}
CUresult mock_EventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  return flags == CU_EVENT_RECORD_EXTERNAL ? mock_EventRecord(event, stream) : 1;
}
CUresult mock_EventSynchronize(CUevent event) {
  STEP_IN("cuEventSynchronize");
  if (!mock_is(event, EVENT)) return 1;
  mock_reads_done(((object *)event)->on);
  return 0;
}
CUresult mock_EventQuery(CUevent event) {
  STEP_IN("cuEventQuery");
  if (!mock_is(event, EVENT)) return 1;
  mock_reads_done(((object *)event)->on);
  return 0;
}
CUresult mock_EventElapsedTime(float *ms, CUevent start, CUevent end) {
  STEP_IN("cuEventElapsedTime");
  *ms = 1.5f;
  return mock_is(start, EVENT) && mock_is(end, EVENT) ? 0 : 1;
}

/* --- modules, launches --- */

CUresult mock_ModuleLoadData(CUmodule *module, const void *image) {
  STEP_IN("cuModuleLoadData");
  if (!image) mock_misuse("an image that is null");
  mockcu.loads++;
  mockcu.loaded_image = image;
  *module = mock_make(MODULE);
  return 0;
}
CUresult mock_ModuleUnload(CUmodule module) { return mock_drop("cuModuleUnload", module, MODULE); }
CUresult mock_ModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  STEP_IN("cuModuleGetFunction");
  object *m = mock_is(module, MODULE), *f = calloc(1, sizeof *f);
  if (!m || !f) abort();
  f->what = FUNCTION;
  f->shared_most = 48 * 1024;
  (void)snprintf(f->name, sizeof f->name, "%s", name);
  m->function = f;
  *function = (CUfunction)f;
  return 0;
}
CUresult mock_FuncSetAttribute(CUfunction function, int attribute, int value) {
  STEP_IN("cuFuncSetAttribute");
  object *f = mock_is(function, FUNCTION);
  if (!f) return 1;
  if (attribute == CU_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES) f->shared_most = value;
  return value <= (int)SHARED_MOST ? 0 : CUDA_ERROR_INVALID_VALUE;
}
CUresult mock_FuncGetAttribute(int *value, int attribute, CUfunction function) {
  (void)attribute;
  STEP_IN("cuFuncGetAttribute");
  *value = 0;
  return mock_is(function, FUNCTION) ? 0 : 1;
}
static bool legal(const CUlaunchConfig *c, const object *f) {
  uint64_t threads = (uint64_t)c->block_x * c->block_y * c->block_z;
  if (!c->grid_x || !c->grid_y || !c->grid_z || c->grid_x > 0x7fffffffu || c->grid_y > 65535 || c->grid_z > 65535)
    return false;
  return threads && threads <= 1024 && c->block_z <= 64 && c->shared_bytes <= (unsigned)f->shared_most &&
         c->n_attributes <= 2;
}
CUresult mock_LaunchKernelEx(const CUlaunchConfig *c, CUfunction function, void **params, void **extra) {
  STEP_IN("cuLaunchKernelEx");
  object *f = mock_is(function, FUNCTION), *s = mock_is(c->stream, STREAM);
  if (!f || !s || extra || !params || !params[0]) {
    mock_misuse("handles or parameters");
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!legal(c, f)) {
    mock_misuse("a shape that no device launches");
    return ERR_LAUNCH_RESOURCES;
  }
  mock_launch *l = &mockcu.last;
  *l = (mock_launch){.grid = {c->grid_x, c->grid_y, c->grid_z},
                     .block = {c->block_x, c->block_y, c->block_z},
                     .shared_bytes = c->shared_bytes,
                     .n_attributes = c->n_attributes,
                     .captured = s->capturing,
                     .stream = c->stream};
  (void)snprintf(l->id, sizeof l->id, "%s", f->name);
  memcpy(l->args, params[0], mockcu.args_bytes);
  mockcu.launches++;
  mockcu.nodes += s->capturing;
  return 0;
}
CUresult mock_TensorMapEncodeTiled(void *map, int type, unsigned rank, void *base, const uint64_t *dims,
                                   const uint64_t *strides_bytes, const uint32_t *box, const uint32_t *element_strides,
                                   int interleave, int swizzle, int l2, int oob) {
  (void)type, (void)interleave, (void)swizzle, (void)l2, (void)oob;
  STEP("cuTensorMapEncodeTiled");
  bool ok = (uintptr_t)map % 64 == 0 && (uintptr_t)base % 16 == 0 && rank >= 1 && rank <= 5;
  for (unsigned i = 0; ok && i < rank; i++) {
    ok = dims[i] >= 1 && dims[i] <= (uint64_t)1 << 32 && box[i] >= 1 && box[i] <= 256 && element_strides[i] == 1;
    if (ok && i + 1 < rank) ok = strides_bytes[i] % 16 == 0 && strides_bytes[i] < (uint64_t)1 << 40;
  }
  if (!ok) mock_misuse("a tensor map");
  memset(map, 0x7a, 128);
  return ok ? 0 : CUDA_ERROR_INVALID_VALUE;
}

ga_cu mockcu_table = {
#define X(name_, symbol, params) .name_ = mock_##name_,
    GA_CU_SYMBOLS(X)
#undef X
};
