/* Recording a stream's work as a graph and replaying it. */
#include "base/mem.h"
#include "base/status.h"
#include "cuda/rt/cuda.h"

typedef struct cuda_graph {
  ga_graph base;
  CUgraphExec exec;
  CUdeviceptr
      counters; /* the recorded launches': a replay may run beside other work of the stream it was recorded on */
} cuda_graph;

static void drop_counters(cuda_device *d, CUdeviceptr *counters) {
  if (*counters) cuda_free(&d->base, (void *)(uintptr_t)*counters);
  *counters = 0;
}

ga_status cuda_graph_begin(ga_stream *stream) {
  cuda_device *d = cuda_device_of(stream);
  cuda_stream *s = (cuda_stream *)stream;
  GA_TRY(cuda_enter(d));
  GA_TRY(cuda_zeroed(d, CUDA_COUNTER_BYTES, &s->graph_counters));
  CUresult rc = d->cu->StreamBeginCapture(s->handle, CU_CAPTURE_RELAXED);
  if (rc == CUDA_SUCCESS) return GA_OK;
  drop_counters(d, &s->graph_counters);
  return ga_cu_fail(d->cu, rc, "cuStreamBeginCapture");
}

static ga_status instantiate(cuda_device *d, CUgraph recorded, ga_graph **out) {
  void *p;
  GA_TRY(ga_mem_zalloc(1, sizeof(cuda_graph), "graph", &p));
  cuda_graph *g = p;
  g->base.device = &d->base;
  CUresult rc = d->cu->GraphInstantiate(&g->exec, recorded, 0);
  if (rc != CUDA_SUCCESS) {
    ga_mem_free(g);
    return ga_cu_fail(d->cu, rc, "cuGraphInstantiate");
  }
  *out = &g->base;
  return GA_OK;
}

ga_status cuda_graph_end(ga_stream *stream, ga_graph **out) {
  cuda_device *d = cuda_device_of(stream);
  cuda_stream *s = (cuda_stream *)stream;
  CUgraph recorded = NULL;
  *out = NULL;
  cuda_enter_late(d); /* the recording must end in any case */
  CUresult rc = d->cu->StreamEndCapture(s->handle, &recorded);
  ga_status status = rc == CUDA_SUCCESS ? GA_OK : ga_cu_fail(d->cu, rc, "cuStreamEndCapture");
  if (status == GA_OK) status = instantiate(d, recorded, out);
  if (recorded) (void)d->cu->GraphDestroy(recorded);
  if (status != GA_OK) {
    drop_counters(d, &s->graph_counters);
    return status;
  }
  ((cuda_graph *)*out)->counters = s->graph_counters;
  s->graph_counters = 0;
  return GA_OK;
}

ga_status cuda_graph_launch(ga_graph *graph, ga_stream *stream) {
  cuda_device *d = cuda_device_of(stream);
  GA_TRY(cuda_enter(d));
  GA_CU(d->cu, GraphLaunch, ((cuda_graph *)graph)->exec, cuda_handle_of(stream));
  return GA_OK;
}

/* The driver keeps a graph that is under way until it ends; its counters are freed behind it. */
void cuda_graph_destroy(ga_graph *graph) {
  cuda_graph *g = (cuda_graph *)graph;
  cuda_device *d = (cuda_device *)graph->device;
  cuda_enter_late(d);
  (void)d->cu->GraphExecDestroy(g->exec);
  drop_counters(d, &g->counters);
  ga_mem_free(g);
}
