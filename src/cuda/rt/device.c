/* Opening and closing a device. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/status.h"
#include "cuda/rt/costs.h"
#include "cuda/rt/cuda.h"
#include "cuda/rt/jit.h"
#include "cuda/rt/nccl.h"
#include "cuda/rt/nvml.h"
#include "cuda/rt/targets.h"

static void unload(cuda_device *d) {
  for (size_t i = 0; d->functions && i < d->base.n_kernels; i++)
    if (d->functions[i].module) (void)d->cu->ModuleUnload(d->functions[i].module);
}

static void device_destroy(ga_device *device) {
  cuda_device *d = (cuda_device *)device;
  if (d->context) {
    cuda_enter_late(d);
    unload(d);
    cuda_memory_close(d);
    (void)d->cu->DevicePrimaryCtxRelease(d->device);
  }
  ga_mem_free(d->kept);
  ga_mem_free(d->functions);
  ga_mem_free(d->rows);
  ga_mem_free(d->row_at);
  ga_mem_free(d);
}

static void read_telemetry(ga_device *device, ga_telemetry *out) {
  ga_nvml_telemetry(((const cuda_device *)device)->bus, out);
}

static const ga_device_ops device_ops = {
    .destroy = device_destroy,
    .alloc = cuda_alloc,
    .alloc_zeroed = cuda_alloc_zeroed,
    .free = cuda_free,
    .memory = cuda_memory,
    .trim = cuda_trim,
    .host_alloc = cuda_host_alloc,
    .host_free = cuda_host_free,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
    .copy_in_later = cuda_copy_in_later,
    .copy_out_later = cuda_copy_out_later,
    .copy_within = cuda_copy_within,
    .copy_rows = cuda_copy_rows,
    .stream_create = cuda_stream_create,
    .stream_destroy = cuda_stream_destroy,
    .stream_sync = cuda_stream_sync,
    .stream_query = cuda_stream_query,
    .event_create = cuda_event_create,
    .event_destroy = cuda_event_destroy,
    .event_record = cuda_event_record,
    .event_wait = cuda_event_wait,
    .event_sync = cuda_event_sync,
    .event_query = cuda_event_query,
    .event_elapsed = cuda_event_elapsed,
};
static const ga_graphs device_graphs = {.begin = cuda_graph_begin,
                                        .end = cuda_graph_end,
                                        .launch = cuda_graph_launch,
                                        .destroy = cuda_graph_destroy,
                                        .record_event = cuda_event_record_in_graph};
static const ga_code device_code = {.prepare = cuda_prepare,
                                    .load = cuda_function_load,
                                    .load_kernel = cuda_kernel_load,
                                    .destroy = cuda_function_destroy,
                                    .launch = cuda_function_launch};
static const ga_tensor_maps device_tensor_maps = {.make = cuda_tensor_map};
static const ga_wrapping device_wrapping = {.wrap = cuda_stream_wrap, .is_recorded = cuda_stream_recorded};
static const ga_peers device_peers = {.copy = cuda_copy_peer, .send = cuda_send_peer};
static const ga_pinning device_pinning = {.pin = cuda_host_pin, .unpin = cuda_host_unpin};
static const ga_sharing device_sharing = {.alloc = cuda_share_alloc,
                                          .open = cuda_share_open,
                                          .close = cuda_share_close,
                                          .fill = cuda_fill,
                                          .write_value = cuda_value_write,
                                          .wait_value = cuda_value_wait};
static const ga_link_library device_links = {.name = "nccl",
                                             .load = cuda_link_load,
                                             .id = cuda_link_id,
                                             .open = cuda_link_open,
                                             .exchange = cuda_link_exchange,
                                             .check = cuda_link_check,
                                             .abort = cuda_link_abort,
                                             .close = cuda_link_close};
static const ga_instruments device_instruments = {.read = read_telemetry};

static const ga_device device_base = {.ops = &device_ops,
                                      .graphs = &device_graphs,
                                      .code = &device_code,
                                      .tensor_maps = &device_tensor_maps,
                                      .wrapping = &device_wrapping,
                                      .peers = &device_peers,
                                      .pinning = &device_pinning,
                                      .sharing = &device_sharing,
                                      .links = &device_links,
                                      .instruments = &device_instruments};

static ga_status attribute(const cuda_device *d, int which, int *value) {
  GA_CU(d->cu, DeviceGetAttribute, value, which, d->device);
  return GA_OK;
}

static ga_status read_caps(cuda_device *d) {
  int major, minor, sms, smem, l2, pools, pageable;
  size_t memory;
  char chip[96] = "";
  GA_TRY(attribute(d, CU_ATTR_COMPUTE_CAPABILITY_MAJOR, &major));
  GA_TRY(attribute(d, CU_ATTR_COMPUTE_CAPABILITY_MINOR, &minor));
  GA_TRY(attribute(d, CU_ATTR_MULTIPROCESSOR_COUNT, &sms));
  GA_TRY(attribute(d, CU_ATTR_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &smem));
  GA_TRY(attribute(d, CU_ATTR_L2_CACHE_SIZE, &l2));
  GA_TRY(attribute(d, CU_ATTR_MEMORY_POOLS_SUPPORTED, &pools));
  GA_TRY(attribute(d, CU_ATTR_PAGEABLE_MEMORY_ACCESS, &pageable));
  GA_CU(d->cu, DeviceTotalMem, &memory, d->device);
  GA_CU(d->cu, DeviceGetPCIBusId, d->bus, (int)sizeof d->bus, d->device);
  GA_CU(d->cu, DeviceGetName, chip, (int)sizeof chip - 1, d->device);
  d->capability = 10 * major + minor;
  const uint32_t isas = cuda_isas_of(d->capability);
  GA_REQUIRE(isas, GA_ERR_UNSUPPORTED, "%s: %s has compute capability %d.%d; 8.0 or newer is needed", d->base.name,
             chip, major, minor);
  GA_REQUIRE(pools, GA_ERR_UNSUPPORTED, "%s: %s has no stream-ordered memory pools here", d->base.name, chip);
  d->host_pointers = pageable != 0;
  d->base.caps = (ga_caps){.isas = isas,
                           .threads = 1,
                           .sms = sms,
                           .smem_bytes = (uint32_t)smem,
                           .memory_bytes = memory,
                           .l2_bytes = (uint64_t)l2,
                           .rates = &cuda_costs_of_chip(chip)->rates};
  (void)snprintf(d->base.text, sizeof d->base.text, "%s, compute %d.%d, %d SMs, %.1f GiB, CUDA %d.%d", chip, major,
                 minor, sms, (double)memory * 0x1p-30, d->cu->version / 1000, d->cu->version % 1000 / 10);
  return GA_OK;
}

/* There is an image in this build, or NVRTC can make one, of the row and of its helpers; or it needs none. */
static bool can_run(const ga_kernel *k) {
  if (k->impl && !cuda_image_of(k->id) && !cuda_jit_can(k)) return false;
  for (const ga_kernel *const *helper = k->helpers; helper && *helper; helper++)
    if (!can_run(*helper)) return false;
  return true;
}

/* Without any code in the build a device is of no use, although some rows need none. */
static bool has_code(const ga_kernel *all, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (all[i].impl && can_run(&all[i])) return true;
  return false;
}

/* Copies the rows that can run. */
static ga_status pick_rows(cuda_device *d) {
  size_t n;
  void *p;
  cuda_jit_mode mode;
  const ga_kernel *all = cuda_rows(&n);
  GA_TRY(cuda_jit_mode_of(&mode));
  GA_TRY(ga_mem_zalloc(n + 1, sizeof(ga_kernel), "kernel table", &p));
  d->rows = p;
  GA_TRY(ga_mem_zalloc(n + 1, sizeof(int32_t), "kernel table", &p));
  d->row_at = p;
  const bool any = has_code(all, n);
  for (size_t i = 0; i < n; i++) {
    d->row_at[i] = any && can_run(&all[i]) ? (int32_t)d->base.n_kernels : -1;
    if (d->row_at[i] >= 0) d->rows[d->base.n_kernels++] = all[i];
  }
  d->base.kernels = d->rows;
  GA_TRY(ga_mem_zalloc(n + 1, sizeof(cuda_function), "kernel table", &p));
  d->functions = p;
  return GA_OK;
}

static ga_status open_device(cuda_device *d) {
  CUcontext context;
  GA_CU(d->cu, DeviceGet, &d->device, d->ordinal);
  GA_TRY(read_caps(d));
  GA_TRY(pick_rows(d));
  const CUresult rc = d->cu->DevicePrimaryCtxRetain(&context, d->device); /* takes some 500 MiB of the GPU */
  if (rc != CUDA_SUCCESS)
    return ga_fail_in(ga_cu_fail(d->cu, rc, "cuDevicePrimaryCtxRetain"), "%s: no context", d->base.name);
  d->context = context;
  GA_TRY(cuda_enter(d));
  return cuda_memory_open(d);
}

/* "0", "3"; "" is the first device. */
static ga_status parse_ordinal(const ga_cu *cu, const char *spec, int *ordinal) {
  char *end;
  int count;
  GA_CU(cu, DeviceGetCount, &count);
  GA_REQUIRE(count > 0, GA_ERR_UNSUPPORTED, "the CUDA driver finds no device");
  bool digits = spec[0] != '-' && spec[0] != '+' && spec[0] != ' ';
  long i = strtol(spec, &end, 10);
  char more[32] = "";
  if (count > 1) (void)snprintf(more, sizeof more, " to cuda:%d", count - 1);
  GA_REQUIRE(digits && !*end && i >= 0 && i < count, GA_ERR_ARG, "device cuda:%s: this machine has cuda:0%s", spec,
             more);
  *ordinal = (int)i;
  return GA_OK;
}

static ga_status cuda_open(const char *spec, int threads, ga_device **out) {
  (void)threads;
  *out = NULL;
  const ga_cu *cu;
  int ordinal = 0;
  void *p;
  GA_TRY(ga_cu_load(&cu));
  GA_TRY(parse_ordinal(cu, spec, &ordinal));
  GA_TRY(ga_mem_zalloc(1, sizeof(cuda_device), "device", &p));
  cuda_device *d = p;
  d->cu = cu;
  d->ordinal = ordinal;
  d->base = device_base;
  (void)snprintf(d->base.name, sizeof d->base.name, "cuda:%d", ordinal);
  ga_status status = open_device(d);
  if (status != GA_OK) {
    device_destroy(&d->base);
    return status;
  }
  *out = &d->base;
  return GA_OK;
}

const ga_backend ga_cuda_backend = {.name = "cuda", .kernels = cuda_rows, .open = cuda_open, .rank = 10};
