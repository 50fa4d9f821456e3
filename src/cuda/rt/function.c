/* The caller's own kernels, those of the build that are no rows of the table, and tensor maps. */
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "cuda/rt/cuda.h"
#include "ga/launch.h"

#define SHARED_DEFAULT_BYTES (48 * 1024) /* more must be asked for */

typedef struct own_function {
  ga_function base;
  CUmodule module;
  CUfunction function;
  uint32_t shared_bytes; /* asked for so far */
  char name[128];
} own_function;

static ga_status load_function(const cuda_device *d, const void *image, own_function *f) {
  GA_TRY(cuda_enter(d));
  CUresult rc = d->cu->ModuleLoadData(&f->module, image);
  if (rc != CUDA_SUCCESS) return ga_fail_in(ga_cu_fail(d->cu, rc, "cuModuleLoadData"), "%s", f->name);
  rc = d->cu->ModuleGetFunction(&f->function, f->module, f->name);
  if (rc == CUDA_SUCCESS) return GA_OK;
  ga_status status = ga_fail_in(ga_cu_fail(d->cu, rc, "cuModuleGetFunction"), "%s", f->name);
  (void)d->cu->ModuleUnload(f->module);
  return status;
}

ga_status cuda_function_load(ga_device *device, const void *image, const char *name, ga_function **out) {
  void *p;
  *out = NULL;
  GA_REQUIRE(strlen(name) < sizeof((own_function *)0)->name, GA_ERR_ARG, "function: name is longer than 127 bytes");
  GA_TRY(ga_mem_zalloc(1, sizeof(own_function), "function", &p));
  own_function *f = p;
  f->base.device = device;
  f->shared_bytes = SHARED_DEFAULT_BYTES;
  memcpy(f->name, name, strlen(name) + 1);
  ga_status status = load_function((const cuda_device *)device, image, f);
  if (status != GA_OK) {
    ga_mem_free(f);
    return status;
  }
  *out = &f->base;
  return GA_OK;
}

ga_status cuda_kernel_load(ga_device *device, const char *id, ga_function **out) {
  const cuda_image *image = cuda_image_of(id);
  *out = NULL;
  GA_REQUIRE(image, GA_ERR_UNSUPPORTED, "%s: %s is not in this build", device->name, id);
  return cuda_function_load(device, image->data, id, out);
}

void cuda_function_destroy(ga_function *function) {
  own_function *f = (own_function *)function;
  cuda_device *d = (cuda_device *)function->device;
  cuda_enter_late(d);
  if (d->last_id == f->name) d->last_id = NULL;
  (void)d->cu->ModuleUnload(f->module);
  ga_mem_free(f);
}

ga_status cuda_function_launch(ga_function *function, const ga_launch *launch, const void *args, ga_stream *stream) {
  own_function *f = (own_function *)function;
  const cuda_device *d = (const cuda_device *)function->device;
  cuda_launch l = {.shared_bytes = launch->shared_bytes, .dependent = launch->flags & GA_LAUNCH_DEPENDENT};
  memcpy(l.grid, launch->grid, sizeof l.grid);
  memcpy(l.block, launch->block, sizeof l.block);
  memcpy(l.cluster, launch->cluster, sizeof l.cluster);
  GA_TRY(cuda_enter(d));
  if (l.shared_bytes > f->shared_bytes) {
    CUresult rc = d->cu->FuncSetAttribute(f->function, CU_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)l.shared_bytes);
    if (rc != CUDA_SUCCESS) return ga_fail_in(ga_cu_fail(d->cu, rc, "cuFuncSetAttribute"), "%s", f->name);
    f->shared_bytes = l.shared_bytes;
  }
  return cuda_start(stream, f->function, f->name, &l, args);
}

static int map_type(int32_t dtype) {
  switch (dtype) {
  case GA_F32: return CU_TMAP_FLOAT32;
  case GA_F16: return CU_TMAP_FLOAT16;
  case GA_BF16: return CU_TMAP_BFLOAT16;
  case GA_I32: return CU_TMAP_INT32;
  default: return CU_TMAP_UINT8;
  }
}

/* The stride of a dimension of one element is never used; it must be legal all the same. */
ga_status cuda_tensor_map(ga_device *device, const ga_tensor_map_desc *t, void *map) {
  const cuda_device *d = (const cuda_device *)device;
  const uint64_t bytes = (uint64_t)ga_dtype_info((ga_dtype)t->dtype)->block_bytes;
  const int swizzles[] = {CU_TMAP_SWIZZLE_NONE, CU_TMAP_SWIZZLE_32B, CU_TMAP_SWIZZLE_64B, CU_TMAP_SWIZZLE_NONE,
                          CU_TMAP_SWIZZLE_128B};
  uint64_t dims[GA_TENSOR_MAP_DIMS], strides[GA_TENSOR_MAP_DIMS];
  uint32_t box[GA_TENSOR_MAP_DIMS], ones[GA_TENSOR_MAP_DIMS];
  for (int i = 0; i < t->n_dims; i++) {
    dims[i] = (uint64_t)t->dim[i];
    box[i] = (uint32_t)t->box[i];
    ones[i] = 1;
    if (i) strides[i - 1] = t->dim[i] == 1 && !t->stride[i] ? 16 : (uint64_t)t->stride[i] * bytes;
  }
  GA_TRY(cuda_enter(d));
  GA_CU(d->cu, TensorMapEncodeTiled, map, map_type(t->dtype), (unsigned)t->n_dims, t->data, dims, strides, box, ones,
        CU_TMAP_INTERLEAVE_NONE, swizzles[t->swizzle / 32], CU_TMAP_L2_256B, CU_TMAP_OOB_ZERO);
  return GA_OK;
}
