/* A CUDA device: memory, arithmetic, launches. The kernels are src/cuda/kern/probe. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "cuda/kern/probe/probe_args.h"
#include "cuda/rt/cuda.h"
#include "verify/probe/probe.h"

#define SPAN          4096 /* 16-byte units that a block of a streaming kernel takes at once */
#define MAX_BLOCKS    4096
#define MAX_SAMPLES   64
#define LINE_BYTES    128
#define WGMMA_SHARED  (96 * 1024)
#define SHARED_KERNEL 16384

typedef struct rig {
  probe *p;
  ga_ctx *ctx;
  int sms;
  ga_event *start, *stop;
  void *src, *dst, *cycles; /* device; src and dst have `bytes` */
  size_t bytes;
  double clk; /* cycles of the block that took longest, in the launch timed last */
} rig;

static ga_status load_probe(rig *r, const char *id, ga_function **out) {
  const cuda_image *image = cuda_image_of(id);
  GA_REQUIRE(image, GA_ERR_UNSUPPORTED, "probe: %s is not in this build (%s)", id, ga_cuda_build_text());
  return ga_function_load(r->ctx, image->data, id, out);
}

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static ga_status read_cycles(rig *r, uint32_t blocks) {
  int64_t cycles[MAX_BLOCKS];
  const uint32_t n = blocks < MAX_BLOCKS ? blocks : MAX_BLOCKS;
  GA_TRY(ga_copy_to_host(r->ctx, cycles, r->cycles, n * sizeof cycles[0], NULL));
  r->clk = 0;
  for (uint32_t i = 0; i < n; i++) r->clk = fmax(r->clk, (double)cycles[i]);
  return GA_OK;
}

/* Median seconds of a launch over the given time. */
static ga_status time_launch(rig *r, ga_function *f, const ga_launch *l, const ga_kargs_probe *a, double *median) {
  double x[MAX_SAMPLES], ms, spent = 0;
  int n = 0;
  for (int warm = 0; warm < 2; warm++) GA_TRY(ga_function_launch(f, l, a, NULL));
  while (n < MAX_SAMPLES && (n < 3 || spent < r->p->seconds) && !(r->p->brief && n)) {
    GA_TRY(ga_event_record(r->ctx, r->start, NULL));
    GA_TRY(ga_function_launch(f, l, a, NULL));
    GA_TRY(ga_event_record(r->ctx, r->stop, NULL));
    GA_TRY(ga_event_elapsed(r->start, r->stop, &ms));
    spent += x[n++] = ms * 1e-3;
  }
  qsort(x, (size_t)n, sizeof x[0], ascending);
  *median = x[n / 2];
  return read_cycles(r, l->grid[0]);
}

/* One kernel, loaded for the occasion. blocks, threads, shared memory, and what its arguments have besides the buffers.
 * */
static ga_status run_probe(rig *r, const char *id, uint32_t blocks, uint32_t threads, uint32_t shared, ga_kargs_probe a,
                           double *seconds) {
  ga_function *f;
  ga_launch l = GA_LAUNCH_INIT;
  l.grid[0] = blocks;
  l.block[0] = threads;
  l.shared_bytes = shared;
  a.src = r->src;
  a.dst = r->dst;
  a.cycles = r->cycles;
  GA_TRY(load_probe(r, id, &f));
  ga_status status = time_launch(r, f, &l, &a, seconds);
  ga_function_destroy(f);
  return status;
}

/* --- memory --- */

static ga_status memory_bandwidth(rig *r) {
  static const struct {
    const char *id, *name;
    double moved; /* bytes for each byte of the buffer */
  } what[] = {
      {"probe_copy_sm80", "copy_gbs", 2}, {"probe_read_sm80", "read_gbs", 1}, {"probe_write_sm80", "write_gbs", 1}};
  const int64_t all = (int64_t)(r->bytes / 16), l2 = (int64_t)(r->ctx->device->caps.l2_bytes / 4 / 16 / SPAN * SPAN);
  double s, one;
  for (size_t i = 0; i < GA_COUNT_OF(what); i++) {
    GA_TRY(probe_step(r->p, what[i].name));
    /* Blocks that stay and walk, or a block a span: the better of the two. */
    GA_TRY(run_probe(r, what[i].id, (uint32_t)(2 * r->sms), 512, SHARED_KERNEL, (ga_kargs_probe){.n = all, .rounds = 1},
                     &s));
    GA_TRY(run_probe(r, what[i].id, (uint32_t)(all / SPAN), 512, SHARED_KERNEL, (ga_kargs_probe){.n = all, .rounds = 1},
                     &one));
    probe_put(r->p, what[i].moved * (double)r->bytes / fmin(s, one) * 1e-9, "%s", what[i].name);
  }
  if (!l2 || l2 > all) return GA_OK;
  GA_TRY(run_probe(r, "probe_read_sm80", (uint32_t)(2 * r->sms), 512, SHARED_KERNEL,
                   (ga_kargs_probe){.n = l2, .rounds = 50}, &s));
  probe_put(r->p, 50 * (double)l2 * 16 / s * 1e-9, "l2_read_gbs"); /* a quarter of L2, again and again */
  return GA_OK;
}

/* A chain of lines through `bytes` of memory: nanoseconds and cycles of one dependent load. */
static ga_status latency(rig *r, const char *name, size_t bytes) {
  const int32_t rounds = r->p->brief ? 16 : 50000;
  int64_t lines = 1;
  double s;
  void *src = r->src;
  while (2 * lines * LINE_BYTES <= (int64_t)bytes && lines < (int64_t)1 << 26) lines *= 2;
  GA_TRY(probe_step(r->p, name));
  r->src = r->dst; /* lines are written to dst, and followed there */
  ga_status status =
      run_probe(r, "probe_lines_sm80", (uint32_t)r->sms, 512, SHARED_KERNEL, (ga_kargs_probe){.n = lines}, &s);
  /* Launches go on where the one before ended: the first pass brings what fits into L2, what does not fit stays new. */
  const int64_t zeros[2] = {0};
  if (status == GA_OK) status = ga_copy_to_device(r->ctx, r->cycles, zeros, sizeof zeros, NULL);
  if (status == GA_OK)
    status =
        run_probe(r, "probe_chase_sm80", 1, 512, SHARED_KERNEL, (ga_kargs_probe){.n = lines, .rounds = rounds}, &s);
  r->src = src;
  if (status != GA_OK) return status;
  probe_put(r->p, r->clk / rounds, "%s_latency_cycles", name);
  probe_put(r->p, s / rounds * 1e9, "%s_latency_ns", name);
  return GA_OK;
}

static ga_status shared_memory(rig *r) {
  const int32_t rounds = r->p->brief ? 4 : 20000;
  double s;
  GA_TRY(probe_step(r->p, "shared memory"));
  GA_TRY(run_probe(r, "probe_shared_read_sm80", (uint32_t)r->sms, 512, SHARED_KERNEL,
                   (ga_kargs_probe){.rounds = rounds}, &s));
  probe_put(r->p, 512.0 * 8 * 16 * rounds / r->clk, "shared_read_bytes_clk_sm");
  GA_TRY(run_probe(r, "probe_shared_chase_sm80", 1, 512, SHARED_KERNEL, (ga_kargs_probe){.rounds = rounds}, &s));
  probe_put(r->p, r->clk / rounds, "shared_latency_cycles");
  return GA_OK;
}

/* --- arithmetic --- */

static ga_status math(rig *r) {
  static const struct {
    const char *id, *name;
    double each; /* operations of one of 512 threads in a round */
  } what[] = {{"probe_fma_sm80", "f32_fma", 2 * 8 * 16},
              {"probe_exp2_sm80", "f32_exp2", 8},
              {"probe_mma_bf16_sm80", "mma_bf16", 8 * 2.0 * 16 * 8 * 16 / 32}};
  const int32_t rounds = r->p->brief ? 2 : 50000;
  double s;
  for (size_t i = 0; i < GA_COUNT_OF(what); i++) {
    const double ops = what[i].each * 512 * rounds;
    GA_TRY(probe_step(r->p, what[i].name));
    GA_TRY(run_probe(r, what[i].id, (uint32_t)r->sms, 512, 0, (ga_kargs_probe){.rounds = rounds}, &s));
    probe_put(r->p, ops / r->clk, i == 1 ? "%s_ops_clk_sm" : "%s_flop_clk_sm", what[i].name);
    if (i != 1) probe_put(r->p, ops * r->sms / s * 1e-12, "%s_tflops", what[i].name);
  }
  return GA_OK;
}

typedef struct product {
  const char *type;
  int k;        /* of one product */
  int cols[16]; /* N of those that are measured; 0 ends */
} product;

static double wgmma_flops(const product *t, int n, int rounds) {
  return 2.0 * 2 * 64 * n * t->k * 32 * rounds;
} /* two warpgroups, 32 products */

/* Rates by N, in cycles: what clocks and power do is left out. */
static ga_status wgmma_rates(rig *r, const product *t, const char *id) {
  const int *cols = t->cols;
  const double seconds = r->p->seconds;
  double s;
  r->p->seconds /= 8;
  for (int i = 0; cols[i]; i++)
    for (int regs = 0; regs < 2; regs++) {
      const int32_t rounds = r->p->brief ? 1 : 128 * 256 / cols[i];
      GA_TRY(probe_step(r->p, id));
      GA_TRY(run_probe(r, id, (uint32_t)r->sms, 256, WGMMA_SHARED,
                       (ga_kargs_probe){.rounds = rounds, .cols = cols[i], .from_registers = regs}, &s));
      probe_put(r->p, wgmma_flops(t, cols[i], rounds) / r->clk, "wgmma_%s_n%d_%s_flop_clk_sm", t->type, cols[i],
                regs ? "rs" : "ss");
    }
  r->p->seconds = seconds;
  return GA_OK;
}

/* As fast as power allows: one second of products, of which the second half counts. */
static ga_status wgmma_sustained(rig *r, const product *t, ga_function *f) {
  const ga_kargs_probe a = {
      .src = r->src, .dst = r->dst, .cycles = r->cycles, .rounds = r->p->brief ? 1 : 2000, .cols = 256};
  const double seconds = r->p->brief ? 0 : fmax(1, 3 * r->p->seconds);
  ga_launch l = GA_LAUNCH_INIT;
  ga_telemetry g = {0};
  double ms, spent = 0, counted = 0, best = 0;
  int n = 0;
  l.grid[0] = (uint32_t)r->sms;
  l.block[0] = 256;
  l.shared_bytes = WGMMA_SHARED;
  do {
    GA_TRY(ga_event_record(r->ctx, r->start, NULL));
    for (int i = 0; i < 4; i++) GA_TRY(ga_function_launch(f, &l, &a, NULL));
    GA_TRY(ga_event_record(r->ctx, r->stop, NULL));
    if (r->ctx->device->instruments && spent > 0.9 * seconds && g.sm_mhz == 0)
      r->ctx->device->instruments->read(r->ctx->device, &g);
    GA_TRY(ga_event_elapsed(r->start, r->stop, &ms));
    const double rate = 4 * wgmma_flops(t, 256, a.rounds) * r->sms / (ms * 1e-3) * 1e-12;
    best = fmax(best, rate);
    if (spent >= seconds / 2) counted += ms * 1e-3, n++;
    spent += ms * 1e-3;
  } while (spent < seconds);
  probe_put(r->p, best, "%s_best_tflops", t->type);
  probe_put(r->p, 4.0 * n * wgmma_flops(t, 256, a.rounds) * r->sms / counted * 1e-12, "%s_tflops", t->type);
  if (g.sm_mhz > 0) probe_put(r->p, g.sm_mhz, "%s_load_mhz", t->type);
  if (g.watts > 0) probe_put(r->p, g.watts, "%s_load_watts", t->type);
  if (g.celsius > 0) probe_put(r->p, g.celsius, "%s_load_celsius", t->type);
  return GA_OK;
}

static ga_status wgmma(rig *r, const product *t) {
  char id[64];
  ga_function *f;
  if (!(r->ctx->device->caps.isas >> GA_ISA_sm90a & 1)) return GA_OK;
  (void)snprintf(id, sizeof id, "probe_wgmma_%s_sm90a", t->type);
  GA_TRY(wgmma_rates(r, t, id));
  GA_TRY(probe_step(r->p, "sustained load"));
  GA_TRY(load_probe(r, id, &f));
  ga_status status = wgmma_sustained(r, t, f);
  ga_function_destroy(f);
  return status;
}

/* --- launches --- */

static ga_status launch_many(rig *r, ga_function *f, int n) {
  const ga_launch l = {.struct_size = sizeof l, .grid = {1, 1, 1}, .block = {32, 1, 1}};
  const ga_kargs_probe a = {.cycles = r->cycles};
  for (int i = 0; i < n; i++) GA_TRY(ga_function_launch(f, &l, &a, NULL));
  return GA_OK;
}

static ga_status time_graph(rig *r, ga_function *f, int n) {
  ga_graph *graph;
  double ms, best = HUGE_VAL;
  GA_TRY(ga_graph_begin(r->ctx, NULL));
  ga_status status = launch_many(r, f, n);
  GA_TRY(ga_graph_end(r->ctx, NULL, &graph));
  for (int i = 0; i < 5 && status == GA_OK; i++) {
    status = ga_event_record(r->ctx, r->start, NULL);
    if (status == GA_OK) status = ga_graph_launch(r->ctx, graph, NULL);
    if (status == GA_OK) status = ga_event_record(r->ctx, r->stop, NULL);
    if (status == GA_OK) status = ga_event_elapsed(r->start, r->stop, &ms);
    if (status == GA_OK) best = fmin(best, ms);
  }
  ga_graph_destroy(graph);
  if (status == GA_OK) probe_put(r->p, best * 1e3 / n, "graph_node_us");
  return status;
}

/* An empty kernel: what the host pays for a launch, what the device needs between two in a stream, and in a graph. */
static ga_status probe_launches(rig *r) {
  const int n = r->p->brief ? 4 : 1000;
  ga_function *f;
  double ms = 0, host = 0;
  GA_TRY(probe_step(r->p, "launches"));
  GA_TRY(load_probe(r, "probe_nothing_sm80", &f));
  ga_status status = launch_many(r, f, n);
  if (status == GA_OK) status = ga_stream_sync(r->ctx, NULL);
  if (status == GA_OK) status = ga_event_record(r->ctx, r->start, NULL);
  host = ga_seconds();
  if (status == GA_OK) status = launch_many(r, f, n);
  host = ga_seconds() - host;
  if (status == GA_OK) status = ga_event_record(r->ctx, r->stop, NULL);
  if (status == GA_OK) status = ga_event_elapsed(r->start, r->stop, &ms);
  if (status == GA_OK) {
    probe_put(r->p, host * 1e6 / n, "launch_host_us");
    probe_put(r->p, ms * 1e3 / n, "launch_us");
    if (!r->p->brief) status = time_graph(r, f, n); /* the emulator records none */
  }
  ga_function_destroy(f);
  return status;
}

static ga_status probe_all(rig *r) {
  static const product types[] = {{"bf16", 16, {8, 16, 32, 64, 80, 96, 112, 128, 160, 176, 192, 256}},
                                  {"f16", 16, {8, 16, 32, 64, 80, 96, 112, 128, 160, 176, 192, 256}},
                                  {"e4m3", 32, {8, 16, 32, 64, 96, 128, 160, 192, 224, 256}}};
  GA_TRY(memory_bandwidth(r));
  GA_TRY(latency(r, "l2", r->p->brief ? 4096 : (size_t)r->ctx->device->caps.l2_bytes / 4));
  GA_TRY(latency(r, "memory", r->bytes));
  GA_TRY(shared_memory(r));
  GA_TRY(math(r));
  for (size_t i = 0; i < GA_COUNT_OF(types); i++) GA_TRY(wgmma(r, &types[i]));
  return probe_launches(r);
}

/* Twenty times L2, in whole spans. */
static ga_status open_rig(rig *r) {
  const ga_caps *caps = &r->ctx->device->caps;
  size_t want = r->p->brief ? 0 : (size_t)ga_min_i64((int64_t)caps->l2_bytes * 20, (int64_t)caps->memory_bytes / 8);
  r->bytes = (want / (SPAN * 16) + 1) * SPAN * 16;
  GA_TRY(ga_event_create(r->ctx, &r->start));
  GA_TRY(ga_event_create(r->ctx, &r->stop));
  GA_TRY(ga_buffer_alloc_for(r->ctx, MAX_BLOCKS * sizeof(int64_t), "probe", &r->cycles));
  GA_TRY(ga_buffer_alloc_for(r->ctx, r->bytes, "probe", &r->src));
  GA_TRY(ga_buffer_alloc_for(r->ctx, r->bytes, "probe", &r->dst));
  double s; /* src is written before it is read */
  void *dst = r->dst;
  r->dst = r->src;
  const ga_kargs_probe all = {.n = (int64_t)(r->bytes / 16), .rounds = 1};
  ga_status status = run_probe(r, "probe_write_sm80", (uint32_t)r->sms, 512, SHARED_KERNEL, all, &s);
  r->dst = dst;
  return status;
}

ga_status probe_gpu(probe *p) {
  rig r = {.p = p, .ctx = p->ctx, .sms = p->ctx->device->caps.sms};
  p->total = 83;
  ga_status status = open_rig(&r);
  if (status == GA_OK) status = probe_all(&r);
  ga_buffer_free(p->ctx, r.src);
  ga_buffer_free(p->ctx, r.dst);
  ga_buffer_free(p->ctx, r.cycles);
  ga_event_destroy(r.start);
  ga_event_destroy(r.stop);
  return status;
}
