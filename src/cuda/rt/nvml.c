#include "cuda/rt/nvml.h"

#include <pthread.h>

#include "cuda/rt/symbol.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static ga_nvml loaded;
static bool is_loaded;
static const ga_nvml *replacement;

void ga_nvml_replace(const ga_nvml *mock) { replacement = mock; }

/* Without RTLD_GLOBAL, and never closed: the driver may use it too. */
static void load_nvml(void) {
  void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return;
#define X(name, symbol, params) \
  if (!cuda_symbol(library, #symbol, &loaded.name)) return;
  GA_NVML_SYMBOLS(X)
#undef X
  is_loaded = loaded.Init() == 0;
}

const ga_nvml *ga_nvml_load(void) {
  if (replacement) return replacement;
  (void)pthread_once(&once, load_nvml);
  return is_loaded ? &loaded : NULL;
}

void ga_nvml_telemetry(const char *bus, ga_telemetry *out) {
  const ga_nvml *nvml = ga_nvml_load();
  nvmlDevice_t device;
  unsigned x;
  unsigned long long energy;
  *out = (ga_telemetry){0};
  if (!nvml || nvml->DeviceGetHandleByPciBusId(bus, &device)) return;
  if (!nvml->DeviceGetClockInfo(device, NVML_CLOCK_SM, &x)) out->sm_mhz = x;
  if (!nvml->DeviceGetClockInfo(device, NVML_CLOCK_MEM, &x)) out->memory_mhz = x;
  if (!nvml->DeviceGetPowerUsage(device, &x)) out->watts = x * 1e-3;
  if (!nvml->DeviceGetTotalEnergyConsumption(device, &energy)) out->joules = (double)energy * 1e-3;
  if (!nvml->DeviceGetTemperature(device, NVML_TEMPERATURE_GPU, &x)) out->celsius = x;
}
