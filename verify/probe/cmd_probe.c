/* ga probe: options and report. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "cmdline/cmd.h"
#include "cmdline/interrupt.h"
#include "verify/probe/probe.h"
#include "verify/verify.h"

void probe_put(probe *p, double value, const char *name, ...) {
  char text[64];
  va_list args;
  va_start(args, name);
  (void)vsnprintf(text, sizeof text, name, args);
  va_end(args);
  (void)json_object_set_new(p->figures, text, json_real(value));
}

ga_status probe_step(probe *p, const char *what) {
  cmd_progress(what, (uint64_t)p->done, (uint64_t)p->total);
  if (p->done < p->total - 1) p->done++;
  GA_REQUIRE(!interrupted(), GA_ERR_CANCELLED, "stopped");
  return GA_OK;
}

/* "read_gbs" -> "read", "GB/s". */
static void print_figure(const char *name, double value) {
  static const char *const units[][2] = {{"_gbs", "GB/s"},
                                         {"_tflops", "TFLOP/s"},
                                         {"_gflops", "GFLOP/s"},
                                         {"_ns", "ns"},
                                         {"_us", "us"},
                                         {"_mhz", "MHz"},
                                         {"_watts", "W"},
                                         {"_cycles", "cycles"},
                                         {"_flop_clk_sm", "FLOP a cycle and SM"},
                                         {"_bytes_clk_sm", "bytes a cycle and SM"},
                                         {"_ops_clk_sm", "a cycle and SM"},
                                         {"_celsius", "C"}};
  size_t n = strlen(name);
  const char *unit = "";
  for (size_t i = 0; i < GA_COUNT_OF(units); i++) {
    const size_t tail = strlen(units[i][0]);
    if (n <= tail || strcmp(name + n - tail, units[i][0])) continue;
    n -= tail;
    unit = units[i][1];
    break;
  }
  printf("%-36.*s %12.4g %s\n", (int)n, name, value, unit);
}

static json_t *report_of(const probe *p) {
  return json_pack("{s:s, s:s, s:s, s:i, s:O}", "version", ga_version(), "device", ga_ctx_device_name(p->ctx), "text",
                   ga_ctx_device_text(p->ctx), "threads", ga_ctx_threads(p->ctx), "figures", p->figures);
}

static ga_status report_probe(const probe *p, const char *out, bool json) {
  char path[512];
  const char *name;
  json_t *figure, *all = report_of(p);
  const bool keep = out || probe_path(p->ctx, path, sizeof path);
  GA_REQUIRE(all, GA_ERR_NOMEM, "probe: no memory");
  ga_status status = keep ? probe_write(out ? out : path, all) : GA_OK;
  if (json) {
    const ga_status printed = cmd_print_json(all, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    return status != GA_OK ? status : printed;
  }
  printf("%s\n", ga_ctx_device_text(p->ctx));
  json_object_foreach(p->figures, name, figure) print_figure(name, json_number_value(figure));
  if (status == GA_OK && keep) printf("kept in %s\n", out ? out : path);
  if (!keep) printf("not kept: neither XDG_CACHE_HOME nor HOME is set\n");
  json_decref(all);
  return status;
}

int cmd_probe(int argc, char **argv) {
  const char *device = "auto", *out = NULL;
  int64_t threads = 0;
  bool json = false;
  probe p = {.seconds = 0.3};
  const cmd_option options[] = {
      {"device", 0, OPT_STRING, &device, 0, 0, "NAME", "cpu, cuda:N, auto"},
      {"threads", 't', OPT_INT, &threads, 0, 1024, "N", "CPU threads, 0 = one per usable CPU"},
      {"time", 0, OPT_FLOAT, &p.seconds, 0.001, 60, "SECONDS", "for each figure"},
      {"brief", 0, OPT_FLAG, &p.brief, 0, 0, NULL, "run everything once, with the least work, to see that it runs"},
      {"out", 'o', OPT_STRING, &out, 0, 0, "FILE",
       "write the figures to this file, not to the one that ga bench reads"},
      {"json", 0, OPT_FLAG, &json, 0, 0, NULL, "JSON on stdout"},
  };
  int code, rest = cmd_parse("probe", "[options]", options, GA_COUNT_OF(options), argc, argv, &code);
  if (rest < 0) return code;
  if (rest > 0) return cmd_usage_error("probe", "unexpected '%s'", argv[1]);
  listen_for_interrupt();
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = device;
  o.threads = (int32_t)threads;
  if (ga_ctx_create(&o, &p.ctx) != GA_OK) return cmd_fail("probe");
  p.figures = json_object();
  ga_status status = p.ctx->device->caps.sms ? probe_gpu(&p) : probe_cpu(&p);
  cmd_progress("probe", 1, 1);
  if (status == GA_OK) status = report_probe(&p, out, json);
  ga_ctx_destroy(p.ctx);
  json_decref(p.figures);
  return status == GA_OK ? EXIT_OK : cmd_fail("probe");
}
