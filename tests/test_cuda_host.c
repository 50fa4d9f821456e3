/* The host side of the CUDA backend over a driver that needs no GPU (mockcu.h): texts, order, memory, loading. */
#include <math.h>

#include "cuda/kern/layer/layer_args.h"
#include "cuda/rt/nccl.h"
#include "cuda/rt/nvml.h"
#include "tests/cuda_rig.h"
#include "verify/bench/energy.h"

/* --- opening --- */

static void driver_missing_or_foreign(void **state) {
  (void)state;
  ga_cu cu;
  assert_int_equal(ga_cu_open("libga_no_such_driver.so.1", &cu), GA_ERR_UNSUPPORTED);
  assert_text("no CUDA driver on this machine: libga_no_such_driver.so.1");
  assert_int_equal(ga_cu_open("libm.so.6", &cu), GA_ERR_UNSUPPORTED);
  assert_text("lacks cuInit; 12.0 or newer");
}

static void refuse_device(const char *device, ga_status status, const char *text) {
  ga_ctx *ctx;
  assert_int_equal(open_as(device, &ctx), status);
  assert_null(ctx);
  assert_text(text);
  assert_int_equal(mockcu.live, 0);
}

static void opening_texts(void **state) {
  (void)state;
  mockcu.init_rc = CUDA_ERROR_NO_DEVICE;
  refuse_device("cuda:0", GA_ERR_UNSUPPORTED, "finds no device");
  mockcu.init_rc = 803;
  refuse_device("cuda:0", GA_ERR_UNSUPPORTED, "does not start: cuInit: CUDA_ERROR_MOCK (803): told to fail");
  mockcu.init_rc = 0;
  mockcu.version = 11080;
  refuse_device("cuda:0", GA_ERR_UNSUPPORTED, "is for CUDA 11.8; 12.0 or newer is needed");
  mockcu.version = 12040;
  mockcu.major = 7;
  mockcu.minor = 5;
  refuse_device("cuda:0", GA_ERR_UNSUPPORTED, "Mock 0 has compute capability 7.5; 8.0 or newer");
  mockcu.major = 9;
  refuse_device("cuda:2", GA_ERR_ARG, "device cuda:2: this machine has cuda:0 to cuda:1");
  refuse_device("cuda:one", GA_ERR_ARG, "cuda:one");
  refuse_device("cuda:-1", GA_ERR_ARG, "cuda:-1");
  mockcu.devices = 0;
  refuse_device("cuda", GA_ERR_UNSUPPORTED, "finds no device");
  mockcu.devices = 1;
  setenv("GA_JIT", "perhaps", 1);
  refuse_device("cuda", GA_ERR_ARG, "GA_JIT is 'perhaps'; allowed: off, auto, force");
  unsetenv("GA_JIT");
  mockcu.fail_name = "cuDevicePrimaryCtxRetain"; /* other programs have all of the memory */
  mockcu.fail_rc = CUDA_ERROR_OUT_OF_MEMORY;
  refuse_device("cuda", GA_ERR_NOMEM, "cuda:0: no context: cuDevicePrimaryCtxRetain: ");
  mockcu.fail_name = NULL;
}

static uint32_t isas_of(int major, int minor) {
  mockcu.major = major;
  mockcu.minor = minor;
  ga_ctx *ctx = open_cuda();
  uint32_t isas = ctx->device->caps.isas;
  assert_int_equal(ctx->device->n_kernels, 2 + rows_without_code()); /* those with an image */
  ga_ctx_destroy(ctx);
  return isas;
}

static void capabilities(void **state) {
  (void)state;
  const uint32_t sm80 = 1u << GA_ISA_sm80, sm90a = 1u << GA_ISA_sm90a;
  assert_int_equal(isas_of(8, 6), sm80);
  assert_int_equal(isas_of(9, 0), sm80 | sm90a);
  assert_int_equal(isas_of(10, 0), sm80);
}

static char logged[256];

static void keep_line(void *user, ga_log_level level, const char *text) {
  (void)user;
  (void)level;
  (void)snprintf(logged, sizeof logged, "%s", text);
}

static void auto_is(const char *name) {
  ga_ctx *ctx;
  assert_int_equal(open_as(NULL, &ctx), GA_OK);
  assert_string_equal(ga_ctx_device_name(ctx), name);
  ga_ctx_destroy(ctx);
}

/* A GPU that works is taken; one that cannot is left, and the log says why; one that fails is an error. */
static void taken_by_auto(void **state) {
  (void)state;
  static const cuda_image none[] = {{0}};
  ga_ctx *ctx;
  ga_log_set(keep_line, NULL, GA_LOG_INFO);
  auto_is("cuda:0");
  assert_string_equal(logged, "");
  mockcu.version = 11080;
  auto_is("cpu");
  assert_string_equal(logged, "device auto: not cuda: the CUDA driver is for CUDA 11.8; 12.0 or newer is needed");
  mockcu.version = 12040;
  cuda_replace_tables(none, no_sources);
  auto_is("cpu");
  assert_non_null(strstr(logged, "no kernel"));
  (void)reset(NULL);
  mockcu.fail_name = "cuDevicePrimaryCtxRetain";
  mockcu.fail_rc = CUDA_ERROR_OUT_OF_MEMORY;
  const ga_status failed = open_as("auto", &ctx);
  ga_log_set(NULL, NULL, GA_LOG_INFO);
  assert_int_equal(failed, GA_ERR_NOMEM);
  assert_null(ctx);
}

/* --- instruments --- */

static int nvml_broken; /* entry points that fail, bit by bit */

static nvmlReturn_t nvml_handle(const char *bus, nvmlDevice_t *device) {
  assert_string_equal(bus, "0000:00:00.0");
  *device = NULL;
  return nvml_broken & 1;
}
static nvmlReturn_t nvml_clock(nvmlDevice_t device, int clock, unsigned *mhz) {
  (void)device;
  *mhz = clock == NVML_CLOCK_SM ? 1980 : 3201;
  return nvml_broken & 2;
}
static nvmlReturn_t nvml_power(nvmlDevice_t device, unsigned *milliwatts) {
  (void)device;
  *milliwatts = 612500;
  return 0;
}
static unsigned long long energy_mj;
static int energy_asked;

static nvmlReturn_t nvml_energy(nvmlDevice_t device, unsigned long long *mj) {
  (void)device;
  *mj = energy_mj;
  energy_asked++;
  return 0;
}
static nvmlReturn_t nvml_temperature(nvmlDevice_t device, int sensor, unsigned *celsius) {
  (void)device;
  assert_int_equal(sensor, NVML_TEMPERATURE_GPU);
  *celsius = 44;
  return 0;
}

static const ga_nvml nvml_mock = {.DeviceGetHandleByPciBusId = nvml_handle,
                                  .DeviceGetClockInfo = nvml_clock,
                                  .DeviceGetPowerUsage = nvml_power,
                                  .DeviceGetTotalEnergyConsumption = nvml_energy,
                                  .DeviceGetTemperature = nvml_temperature};

static void instruments(void **state) {
  (void)state;
  ga_ctx *ctx = open_cuda();
  ga_telemetry g;
  energy_mj = 7000000000;
  ga_nvml_replace(&nvml_mock);
  ctx->device->instruments->read(ctx->device, &g);
  assert_true(g.sm_mhz == 1980 && g.memory_mhz == 3201 && g.celsius == 44);
  assert_true(fabs(g.watts - 612.5) < 1e-9 && fabs(g.joules - 7e6) < 1e-3);
  nvml_broken = 2; /* one instrument less */
  ctx->device->instruments->read(ctx->device, &g);
  assert_true(g.sm_mhz == 0 && g.memory_mhz == 0 && g.celsius == 44);
  nvml_broken = 1; /* another device's library */
  ctx->device->instruments->read(ctx->device, &g);
  assert_true(g.celsius == 0 && g.watts == 0 && g.joules == 0);
  nvml_broken = 0;
  ga_nvml_replace(NULL);
  ga_ctx_destroy(ctx);
}

/* The counter is asked at the ends of a window alone; devices are added up; one without a counter, and one that stands
 * still, are told. */
static void energy_of_a_window(void **state) {
  (void)state;
  ga_ctx *ctx = open_cuda(), *both[2] = {ctx, ctx};
  energy_meter m = {.ctx = both, .n = 1};
  energy_window w;
  assert_int_equal(energy_begin(&m), GA_ERR_UNSUPPORTED);
  assert_non_null(strstr(ga_error_text(), "energy: cuda:0 shows no energy counter"));
  ga_nvml_replace(&nvml_mock);
  energy_mj = 5000;
  energy_asked = 0;
  assert_int_equal(energy_begin(&m), GA_OK);
  assert_true(energy_seconds(&m) >= 0);
  assert_int_equal(energy_asked, 1);
  assert_int_equal(energy_end(&m, &w), GA_ERR_STATE);
  assert_non_null(strstr(ga_error_text(), "the counter did not move"));
  energy_mj = 8500;
  assert_int_equal(energy_end(&m, &w), GA_OK);
  assert_int_equal(energy_asked, 3);
  assert_true(fabs(w.joules - 3.5) < 1e-9 && w.seconds >= 0 && w.seconds < 60);
  m.n = 2;
  assert_int_equal(energy_begin(&m), GA_OK);
  energy_mj = 9500;
  assert_int_equal(energy_end(&m, &w), GA_OK);
  assert_true(fabs(w.joules - 2.0) < 1e-9);
  ga_nvml_replace(NULL);
  ga_ctx_destroy(ctx);
}

/* --- ops on the device --- */

static void copies(void **state) {
  (void)state;
  ga_ctx *ctx = open_cuda();
  char in[1000], out[1000];
  void *buffer;
  for (size_t i = 0; i < sizeof in; i++) in[i] = (char)(i * 7);
  assert_int_equal(ga_buffer_alloc(ctx, sizeof in, &buffer), GA_OK);
  assert_int_equal((uintptr_t)buffer % 256, 0);
  assert_int_equal(ga_copy_to_device(ctx, buffer, in, sizeof in, NULL), GA_OK);
  assert_int_equal(ga_copy_to_host(ctx, out, buffer, sizeof out, NULL), GA_OK);
  assert_memory_equal(in, out, sizeof in);
  assert_int_equal(ga_copy_to_host(ctx, out, NULL, 4, NULL), GA_ERR_ARG);
  assert_text("copy to host: device is null");
  ga_buffer_free(ctx, buffer);
  ga_ctx_destroy(ctx);
}

static void launches_and_loads_once(void **state) {
  (void)state;
  ga_ctx *ctx = open_cuda();
  data v;
  assert_int_equal(mockcu.loads, 0);
  assert_int_equal(make_data(ctx, &v), GA_OK);
  for (int i = 0; i < 3; i++) assert_int_equal(launch_one_add(ctx, &v, NULL), GA_OK);
  assert_int_equal(mockcu.loads, 1);
  assert_int_equal(mockcu.launches, 3);
  assert_ptr_equal(mockcu.loaded_image, image);
  assert_string_equal(mockcu.last.id, ADD);
  assert_int_equal(mockcu.last.grid[0], 3); /* a unit a row */
  assert_int_equal(mockcu.last.block[0], 256);
  ga_kargs_add a;
  memcpy(&a, mockcu.last.args, sizeof a);
  assert_true(a.x == v.x && a.b == v.b && a.y == v.y && a.rows == 3 && a.width == 100);
  assert_int_equal(a.vec16, 1);
  assert_int_equal(ga_stream_sync(ctx, NULL), GA_OK);
  free_data(ctx, &v);
  ga_ctx_destroy(ctx);
}

static void faults_name_the_kernel(void **state) {
  (void)state;
  ga_ctx *ctx = open_cuda();
  data v;
  assert_int_equal(make_data(ctx, &v), GA_OK);
  mockcu.fail_name = "cuModuleLoadData";
  mockcu.fail_rc = 209;
  assert_int_equal(launch_one_add(ctx, &v, NULL), GA_ERR_DEVICE);
  assert_text(ADD ": cuModuleLoadData: CUDA_ERROR_MOCK (209)");
  mockcu.fail_name = "cuLaunchKernelEx";
  mockcu.fail_rc = 701;
  assert_int_equal(launch_one_add(ctx, &v, NULL), GA_ERR_DEVICE);
  assert_text(ADD ": cuLaunchKernelEx: CUDA_ERROR_MOCK (701): told to fail");
  mockcu.fail_name = NULL;
  assert_int_equal(launch_one_add(ctx, &v, NULL), GA_OK);
  mockcu.fail_name = "cuStreamSynchronize";
  mockcu.fail_rc = 700;
  assert_int_equal(ga_stream_sync(ctx, NULL), GA_ERR_DEVICE);
  assert_text("cuda:0: the last kernel enqueued was " ADD);
  assert_text("illegal memory access");
  mockcu.fail_name = NULL;
  free_data(ctx, &v);
  ga_ctx_destroy(ctx);
}

static void bad_arguments(void **state) {
  (void)state;
  ga_ctx *ctx = open_cuda(), *other;
  assert_int_equal(open_as("cuda:1", &other), GA_OK);
  data v, w;
  float host[300];
  assert_int_equal(make_data(ctx, &v), GA_OK);
  w = v;
  w.y = (char *)v.y + 2;
  assert_int_equal(launch_one_add(ctx, &w, NULL), GA_ERR_ARG);
  assert_text("add: y is at ");
  assert_text("must be a multiple of 4 bytes");
  w = v;
  w.b = host;
  assert_int_equal(launch_one_add(ctx, &w, NULL), GA_ERR_ARG);
  assert_text(ADD ": b is at ");
  assert_text("which is no memory of cuda:0");
  assert_int_equal(launch_one_add(other, &v, NULL), GA_ERR_ARG); /* the mock's memory is all of device 0 */
  assert_text(ADD ": x is memory of cuda:0; the stream is on cuda:1");
  ga_stream *theirs;
  assert_int_equal(ga_stream_create(other, &theirs), GA_OK);
  assert_int_equal(launch_one_add(ctx, &v, theirs), GA_ERR_ARG);
  assert_text("add: the stream is of another context, on cuda:1; this one is on cuda:0");
  w.x = NULL;
  assert_int_equal(launch_one_add(ctx, &w, NULL), GA_ERR_ARG);
  assert_text("add: x is null");
  assert_int_equal(mockcu.launches, 0);
  assert_int_equal(ga_buffer_alloc(NULL, 1, &w.x), GA_ERR_ARG);
  ga_stream_destroy(theirs);
  free_data(ctx, &v);
  ga_ctx_destroy(other);
  ga_ctx_destroy(ctx);
}

/* --- memory --- */

static void out_of_memory_says_who(void **state) {
  (void)state;
  ga_ctx *ctx = open_cuda();
  void *a, *b, *c;
  assert_int_equal(ga_buffer_alloc_for(ctx, 1000, "weights", &a), GA_OK);
  assert_int_equal(ga_buffer_alloc_for(ctx, 3000, "kv cache", &b), GA_OK);
  assert_int_equal(ga_buffer_alloc(ctx, (size_t)2 << 30, &c), GA_ERR_NOMEM);
  assert_null(c);
  assert_text("cuda:0: out of device memory: 2147483648 bytes asked for, ");
  assert_text("of 1073741824 free; pool: 20384 in use, 4096 idle; held here: kv cache 3000 (1), weights 1000 (1)");
  ga_buffer_free(ctx, a);
  ga_buffer_free(ctx, b);
  ga_ctx_destroy(ctx);
}

static void memory_figures(void **state) {
  (void)state;
  ga_ctx *ctx = open_cuda();
  ga_memory_info m = GA_MEMORY_INFO_INIT;
  void *a, *b;
  char text[64];
  assert_int_equal(ga_buffer_alloc(ctx, 5000, &a), GA_OK);
  assert_int_equal(ga_buffer_alloc(ctx, 1000, &b), GA_OK);
  ga_buffer_free(ctx, a);
  assert_int_equal(ga_ctx_memory(ctx, &m), GA_OK);
  assert_int_equal(m.used_bytes, 1000);
  assert_int_equal(m.used_peak_bytes, 6000);
  assert_int_equal(m.buffers, 1);
  assert_int_equal(m.total_bytes, 1 << 30);
  assert_true(m.pooled_bytes >= 1000 + 4096 && m.idle > 0.5 && m.idle < 1);
  ga_ctx_memory_text(ctx, text, sizeof text);
  assert_string_equal(text, "buffers 1000 (1)");
  assert_int_equal(ga_ctx_memory_trim(ctx), GA_OK);
  ga_buffer_free(ctx, b);
  ga_ctx_memory_text(ctx, text, sizeof text);
  assert_string_equal(text, "nothing");
  m.struct_size = 8;
  assert_int_equal(ga_ctx_memory(ctx, &m), GA_ERR_ARG);
  ga_ctx_destroy(ctx);
}

/* Whichever call of the driver fails, no stream is made. */
static void each_call_of_a_stream_fails(void **state) {
  (void)state;
  ga_ctx *ctx = open_cuda();
  ga_status status = GA_ERR_DEVICE;
  int failures = 0;
  for (long n = 1; status != GA_OK; n++) {
    ga_stream *stream;
    mockcu.fail_call = mockcu.calls + n;
    mockcu.fail_rc = 999;
    status = ga_stream_create(ctx, &stream);
    const bool failed = mockcu.calls >= mockcu.fail_call;
    mockcu.fail_call = 0;
    if (failed && status == GA_OK) fail_msg("the error of call %ld is passed over", n);
    failures += failed;
    if (status == GA_OK)
      ga_stream_destroy(stream);
    else
      assert_null(stream);
  }
  assert_true(failures > 2);
  ga_ctx_destroy(ctx);
}

static ga_nccl nccl = {.version = 22803};

ga_status __wrap_ga_nccl_load(const ga_nccl **out);
ga_status __wrap_ga_nccl_load(const ga_nccl **out) {
  *out = &nccl;
  return GA_OK;
}

/* Ranks find by it whether two of them have one device: containers of one host have several names, and one boot id. */
static void place_of_a_device(void **state) {
  (void)state;
  char boot[40] = "", want[80];
  FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
  if (!f || fscanf(f, "%39s", boot) != 1) boot[0] = 0;
  if (f) (void)fclose(f);
  ga_ctx *ctx = open_cuda();
  ga_link_facts facts;
  assert_int_equal(ctx->device->links->load(ctx->device, &facts), GA_OK);
  assert_string_equal(facts.version, "2.28.3");
  (void)snprintf(want, sizeof want, "0000:00:00.0 %s", boot);
  if (*boot) assert_string_equal(facts.place, want);
  ga_ctx_destroy(ctx);
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, reset, no_leaks)
  const struct CMUnitTest tests[] = {
      T(driver_missing_or_foreign),
      T(opening_texts),
      T(capabilities),
      T(taken_by_auto),
      T(instruments),
      T(energy_of_a_window),
      T(copies),
      T(launches_and_loads_once),
      T(faults_name_the_kernel),
      T(bad_arguments),
      T(out_of_memory_says_who),
      T(memory_figures),
      T(each_call_of_a_stream_fails),
      T(place_of_a_device),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
