/* What ga bench prints, and its JSON. */
#include <stdio.h>

#include "verify/bench/bench.h"

static const char *const unit_names[BENCH_N_UNITS] = {"f32", "bf16", "f16", "fp8"};

/* On a GPU products of 16 and 8 bits run on matrix units. */
bench_unit bench_unit_of(const ga_kernel *k) {
  if ((k->op != GA_OP_attn && k->op != GA_OP_gemm) || !bench_on_gpu(k)) return BENCH_F32;
  switch (k->dtype[k->op == GA_OP_gemm ? 1 : 0]) {
  case GA_BF16: return BENCH_BF16;
  case GA_F16: return BENCH_F16;
  case GA_E4M3:
  case GA_E5M2: return BENCH_FP8;
  default: return BENCH_F32;
  }
}

void bench_report_head(const ga_ctx *ctx, const bench_ceiling *c) {
  printf("%s", ga_ctx_device_text(ctx));
  if (c->read_gbs > 0) printf("; ceilings: %.1f GB/s read", c->read_gbs);
  for (int i = 0; i < BENCH_N_UNITS; i++)
    if (c->gflops[i] > 0)
      printf(", %.1f %s %s", c->gflops[i] * (c->gflops[i] < 1e5 ? 1 : 1e-3), c->gflops[i] < 1e5 ? "GFLOP/s" : "TFLOP/s",
             unit_names[i]);
  if (bench_has_clock(ctx->device) && !(c->read_gbs > 0)) printf("; ceilings: not known, ga probe measures them");
  printf("\n");
}

void bench_report_line(const bench_ceiling *c, const bench_result *r) {
  const double gbs = r->bytes / r->median * 1e-9, gflops = r->flops / r->median * 1e-9;
  const bench_unit unit = bench_unit_of(r->kernel);
  printf("%-40s %-32s %10.2f us [%.2f %.2f] %7.2f GB/s", r->kernel->id, r->shape, r->median * 1e6, r->p10 * 1e6,
         r->p90 * 1e6, gbs);
  if (c->read_gbs > 0) printf(" %5.1f%% of read", 100 * gbs / c->read_gbs);
  if (r->flops > 0 && gflops < 1e5) printf(" %8.2f GFLOP/s", gflops);
  if (r->flops > 0 && gflops >= 1e5) printf(" %8.2f TFLOP/s", gflops * 1e-3);
  if (r->flops > 0 && c->gflops[unit] > 0) printf(" %5.1f%% of %s", 100 * gflops / c->gflops[unit], unit_names[unit]);
  printf(" (predicted %.2f us)", r->predicted * 1e6);
  if (r->mhz > 0) printf(" %4.0f MHz", r->mhz);
  if (r->watts > 0) printf(" %3.0f W", r->watts);
  printf("\n");
  (void)fflush(stdout);
}

/* Figures that are not known are left out. */
static void put_figure(json_t *row, const char *key, double x) {
  if (x > 0) (void)json_object_set_new(row, key, json_real(x));
}

void bench_report_json(json_t *rows, const bench_ceiling *c, const bench_result *r) {
  const double gbs = r->bytes / r->median * 1e-9, gflops = r->flops / r->median * 1e-9;
  const bench_unit unit = bench_unit_of(r->kernel);
  json_t *row = json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:i, s:f, s:f, s:f}", "id", r->kernel->id, "op",
                          ga_op_name(r->kernel->op), "shape", r->shape, "timer", r->timer, "samples",
                          (json_int_t)r->samples, "calls", (json_int_t)r->calls, "sets", r->n_sets, "median_us",
                          r->median * 1e6, "p10_us", r->p10 * 1e6, "p90_us", r->p90 * 1e6);
  (void)json_object_set_new(row, "gflops", json_real(gflops));
  (void)json_object_set_new(row, "gbs", json_real(gbs));
  if (c->read_gbs > 0) put_figure(row, "percent_of_read", 100 * gbs / c->read_gbs);
  if (c->gflops[unit] > 0) put_figure(row, "percent_of_flops", 100 * gflops / c->gflops[unit]);
  put_figure(row, "predicted_us", r->predicted * 1e6);
  put_figure(row, "sm_mhz", r->mhz);
  put_figure(row, "watts", r->watts);
  (void)json_array_append_new(rows, row);
}

json_t *bench_report_all(ga_ctx *ctx, const bench_options *o, const bench_ceiling *c, json_t *rows) {
  json_t *all =
      json_pack("{s:s, s:s, s:s, s:i, s:f, s:b}", "version", ga_version(), "device", o->device, "text",
                ga_ctx_device_text(ctx), "threads", ga_ctx_threads(ctx), "read_gbs", c->read_gbs, "hot", o->hot);
  ga_telemetry g = {0};
  if (ctx->device->instruments) ctx->device->instruments->read(ctx->device, &g);
  for (int i = 0; i < BENCH_N_UNITS; i++) {
    char key[32];
    (void)snprintf(key, sizeof key, "%s_gflops", unit_names[i]);
    if (i == BENCH_F32 || c->gflops[i] > 0) (void)json_object_set_new(all, key, json_real(c->gflops[i]));
  }
  put_figure(all, "memory_mhz", g.memory_mhz);
  put_figure(all, "celsius", g.celsius);
  (void)json_object_set_new(all, "rows", rows);
  return all;
}
