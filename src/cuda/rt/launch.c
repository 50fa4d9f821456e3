/* Kernels by id: images, loaded when a plan that runs them is made, and launching. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "cuda/rt/cuda.h"
#include "cuda/rt/jit.h"
#include "cuda/rt/nvtx.h"

#define SHARED_DEFAULT_BYTES (48 * 1024) /* more must be asked for */

static const cuda_image *images = ga_cuda_images;
static bool is_sorted = true; /* by id, as the build's table is */
static const cuda_source *sources = ga_cuda_sources;

void cuda_replace_tables(const cuda_image *new_images, const cuda_source *new_sources) {
  const cuda_image *table = new_images ? new_images : ga_cuda_images;
  bool sorted = true;
  for (const cuda_image *i = table; i->id && i[1].id; i++) sorted &= strcmp(i->id, i[1].id) < 0;
  is_sorted = sorted; /* at no time true of a table that is not: ranks of the emulator come here at the same time */
  images = table;
  sources = new_sources ? new_sources : ga_cuda_sources;
}

static int compare_id(const void *id, const void *i) { return strcmp(id, ((const cuda_image *)i)->id); }

/* Opening a device looks up each of several hundred rows. Tables of tests need not be sorted. */
const cuda_image *cuda_image_of(const char *id) {
  const cuda_image *i = images;
  size_t n = 0;
  while (images[n].id) n++;
  if (is_sorted) return bsearch(id, images, n, sizeof *images, compare_id);
  while (i->id && strcmp(i->id, id) != 0) i++;
  return i->id ? i : NULL;
}

const cuda_source *cuda_source_of(const char *path) {
  for (const cuda_source *s = sources; s->path; s++)
    if (!strcmp(s->path, path)) return s;
  return NULL;
}

/* --- loading --- */

static ga_status load_module(cuda_device *d, const ga_kernel *k, const void *image, cuda_function *f) {
  const cuda_variant *v = k->impl;
  CUmodule module;
  CUfunction function;
  CUresult rc = d->cu->ModuleLoadData(&module, image);
  if (rc != CUDA_SUCCESS) return ga_fail_in(ga_cu_fail(d->cu, rc, "cuModuleLoadData"), "%s", k->id);
  rc = d->cu->ModuleGetFunction(&function, module, k->id);
  if (rc == CUDA_SUCCESS && v->shared_bytes > SHARED_DEFAULT_BYTES)
    rc = d->cu->FuncSetAttribute(function, CU_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                 (int)ga_min_i64(v->shared_bytes, (int64_t)d->base.caps.smem_bytes - v->static_bytes));
  if (rc != CUDA_SUCCESS) {
    ga_status status = ga_fail_in(ga_cu_fail(d->cu, rc, "loading"), "%s", k->id);
    (void)d->cu->ModuleUnload(module);
    return status;
  }
  *f = (cuda_function){.module = module, .function = function};
  return GA_OK;
}

static ga_status load_image(cuda_device *d, const ga_kernel *k, cuda_function *f) {
  const cuda_image *image = cuda_jit_forced() ? NULL : cuda_image_of(k->id);
  if (image) return load_module(d, k, image->data, f);
  void *made;
  size_t bytes;
  GA_TRY(cuda_jit(k, ((const cuda_variant *)k->impl)->params, d->capability, &made, &bytes));
  ga_status status = load_module(d, k, made, f);
  ga_mem_free(made);
  return status;
}

/* Where k stands in a table of n rows; n: it does not. */
static size_t place_in(const ga_kernel *rows, size_t n, const ga_kernel *k) {
  const uintptr_t first = (uintptr_t)rows, at = (uintptr_t)k;
  return at < first || at - first >= n * sizeof *k ? n : (size_t)(at - first) / sizeof *k;
}

/* Plans hold rows of the device's own table; steps are rows of the build's. */
static ga_status index_of(const cuda_device *d, const ga_kernel *k, size_t *index) {
  size_t n;
  const ga_kernel *all = cuda_rows(&n);
  *index = place_in(d->rows, d->base.n_kernels, k);
  if (*index < d->base.n_kernels) return GA_OK;
  const size_t at = place_in(all, n, k);
  if (at < n && d->row_at[at] >= 0) {
    *index = (size_t)d->row_at[at];
    return GA_OK;
  }
  return ga_fail(GA_ERR_UNSUPPORTED, "%s: this build has no code of it (%s)", k->id, ga_cuda_build_text());
}

static ga_status function_of(cuda_device *d, const ga_kernel *k, CUfunction *out) {
  size_t i;
  GA_TRY(index_of(d, k, &i));
  if (!d->functions[i].module) GA_TRY(load_image(d, k, &d->functions[i]));
  *out = d->functions[i].function;
  return GA_OK;
}

ga_status cuda_prepare(ga_device *device, const ga_kernel *kernel) {
  cuda_device *d = (cuda_device *)device;
  CUfunction function;
  if (!kernel->impl) return GA_OK; /* a row that enqueues copies alone */
  GA_TRY(cuda_enter(d));
  return function_of(d, kernel, &function);
}

/* --- launching --- */

enum { ATTRIBUTES = 2 };

static unsigned fill_attributes(const cuda_launch *l, CUlaunchAttribute attributes[ATTRIBUTES]) {
  unsigned n = 0;
  memset(attributes, 0, ATTRIBUTES * sizeof attributes[0]);
  if (l->cluster[0]) {
    attributes[n].id = CU_LAUNCH_CLUSTER_DIMENSION;
    attributes[n].value.cluster.x = l->cluster[0];
    attributes[n].value.cluster.y = l->cluster[1];
    attributes[n++].value.cluster.z = l->cluster[2];
  }
  if (l->dependent) {
    attributes[n].id = CU_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION;
    attributes[n++].value.programmatic = 1;
  }
  return n;
}

ga_status cuda_start(ga_stream *stream, CUfunction function, const char *id, const cuda_launch *l, const void *args) {
  cuda_device *d = cuda_device_of(stream);
  CUlaunchAttribute attributes[ATTRIBUTES];
  const CUlaunchConfig config = {.grid_x = l->grid[0],
                                 .grid_y = l->grid[1],
                                 .grid_z = l->grid[2],
                                 .block_x = l->block[0],
                                 .block_y = l->block[1],
                                 .block_z = l->block[2],
                                 .shared_bytes = l->shared_bytes,
                                 .stream = cuda_handle_of(stream),
                                 .attributes = attributes,
                                 .n_attributes = fill_attributes(l, attributes)};
  void *params[1];
  memcpy(params, &args, sizeof args); /* the driver's prototype lacks const; it only reads */
  const cuda_nvtx *nvtx = cuda_nvtx_load();
  if (nvtx) (void)nvtx->push(id);
  CUresult rc = d->cu->LaunchKernelEx(&config, function, params, NULL);
  if (nvtx) (void)nvtx->pop();
  if (rc != CUDA_SUCCESS) return ga_fail_in(ga_cu_fail(d->cu, rc, "cuLaunchKernelEx"), "%s", id);
  d->last_id = id;
  return GA_OK;
}

ga_status cuda_enqueue(ga_stream *stream, const ga_kernel *kernel, const cuda_launch *l, const void *args) {
  cuda_device *d = cuda_device_of(stream);
  CUfunction function;
  GA_TRY(cuda_enter(d));
  GA_TRY(function_of(d, kernel, &function));
  return cuda_start(stream, function, kernel->id, l, args);
}

ga_status cuda_check_pointer(ga_stream *stream, const ga_kernel *kernel, const char *name, const void *p,
                             size_t align) {
  const cuda_device *d = cuda_device_of(stream);
  int ordinal;
  if (!p) return GA_OK;
  GA_REQUIRE((uintptr_t)p % align == 0, GA_ERR_ARG, "%s: %s is at %p; must be a multiple of %zu bytes", kernel->id,
             name, p, align);
  CUresult rc = d->cu->PointerGetAttribute(&ordinal, CU_POINTER_DEVICE_ORDINAL, (CUdeviceptr)(uintptr_t)p);
  if (rc == CUDA_ERROR_INVALID_VALUE && d->host_pointers) return GA_OK;
  GA_REQUIRE(rc != CUDA_ERROR_INVALID_VALUE, GA_ERR_ARG, "%s: %s is at %p, which is no memory of %s", kernel->id, name,
             p, d->base.name);
  if (rc != CUDA_SUCCESS) return ga_fail_in(ga_cu_fail(d->cu, rc, "cuPointerGetAttribute"), "%s: %s", kernel->id, name);
  GA_REQUIRE(ordinal == d->ordinal, GA_ERR_ARG, "%s: %s is memory of cuda:%d; the stream is on %s", kernel->id, name,
             ordinal, d->base.name);
  return GA_OK;
}
