/* NVML, NVIDIA's management library, loaded at run time: clocks, power, temperature. Values are from the NVML API
 * reference. */
#ifndef GA_CUDA_RT_NVML_H
#define GA_CUDA_RT_NVML_H

#include "core/device.h"

typedef int nvmlReturn_t; /* 0: NVML_SUCCESS */
typedef struct nvmlDevice_st *nvmlDevice_t;

enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2, NVML_TEMPERATURE_GPU = 0 };

/* GA_NVML_SYMBOLS lists NVML's functions as X(name, symbol in the library, parameters). */
/* clang-format off */
#define GA_NVML_SYMBOLS(X) \
  X(Init, nvmlInit_v2, (void)) \
  X(DeviceGetHandleByPciBusId, nvmlDeviceGetHandleByPciBusId_v2, (const char *bus, nvmlDevice_t *device)) \
  X(DeviceGetClockInfo, nvmlDeviceGetClockInfo, (nvmlDevice_t device, int clock, unsigned *mhz)) \
  X(DeviceGetPowerUsage, nvmlDeviceGetPowerUsage, (nvmlDevice_t device, unsigned *milliwatts)) \
  X(DeviceGetTotalEnergyConsumption, nvmlDeviceGetTotalEnergyConsumption, \
    (nvmlDevice_t device, unsigned long long *mj)) \
  X(DeviceGetTemperature, nvmlDeviceGetTemperature, (nvmlDevice_t device, int sensor, unsigned *celsius))
/* clang-format on */

typedef struct ga_nvml {
#define X(name, symbol, params) nvmlReturn_t(*name) params;
  GA_NVML_SYMBOLS(X)
#undef X
} ga_nvml;

/* Returns NVML's functions, which are loaded and initialised on first use. Returns NULL if the library is not found or
 * does not start. */
const ga_nvml *ga_nvml_load(void);

/* Reads the telemetry of the device at PCI address `bus` ("0000:1b:00.0"). Fields that the device does not report are
 * 0. */
void ga_nvml_telemetry(const char *bus, ga_telemetry *out);

/* Replaces NVML by `mock`, for tests. NULL: the real library is used again. Not thread-safe. */
void ga_nvml_replace(const ga_nvml *mock);

#endif
