/* GA, kernels of your own, compiled with nvcc or NVRTC, for example on the tile layer (ga/tile/, docs/guide). They run
 * on a context's streams together with GA's. No CUDA runtime is linked. CUDA devices; others: GA_ERR_UNSUPPORTED.
 */
#ifndef GA_LAUNCH_H
#define GA_LAUNCH_H

#include "ga/ctx.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ga_function ga_function;

/* Loads one kernel. image: a cubin, a fat binary, or PTX text with its NUL; not needed afterwards. name: an extern "C"
 * kernel of the image with one parameter, a struct by value (__grid_constant__). Release with ga_function_destroy,
 * before ctx and after its launches. */
GA_API GA_NODISCARD ga_status ga_function_load(ga_ctx *ctx, const void *image, const char *name, ga_function **out);
GA_API void ga_function_destroy(ga_function *function); /* NULL is fine */

enum { GA_LAUNCH_DEPENDENT = 1 /* may start while the previous launch is still running: see grid_dependency_wait */ };

typedef struct ga_launch {
  size_t struct_size;
  uint32_t grid[3], block[3]; /* blocks, threads */
  uint32_t cluster[3];        /* blocks of a cluster; zeros = none. grid must be a multiple */
  uint32_t shared_bytes;      /* dynamic shared memory, at most what the device lets a block have */
  uint32_t flags;
  uint32_t reserved; /* 0 */
} ga_launch;
#define GA_LAUNCH_INIT \
  { sizeof(ga_launch), {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, 0, 0, 0 }

/* Enqueues; may be recorded in a graph. args: the kernel's parameter, copied. stream NULL = the context's own. */
GA_API GA_NODISCARD ga_status ga_function_launch(ga_function *function, const ga_launch *launch, const void *args,
                                                 ga_stream *stream);

#define GA_TENSOR_MAP_DIMS 5

/* A tensor in device memory, as bulk tensor copies (TMA) see it. */
typedef struct ga_tensor_map_desc {
  size_t struct_size;
  void *data;                         /* a multiple of 16 bytes */
  int32_t dtype;                      /* GA_F32, GA_F16, GA_BF16, GA_I32, or any type of one byte */
  int32_t n_dims;                     /* 1 to 5 */
  int64_t dim[GA_TENSOR_MAP_DIMS];    /* elements; dim[0] is contiguous */
  int64_t stride[GA_TENSOR_MAP_DIMS]; /* elements from one index to the next; stride[0] = 1, the others multiples of 16
                                         bytes */
  int32_t box[GA_TENSOR_MAP_DIMS];    /* elements of one copy, 1 to 256 each; box[0] a multiple of 16 bytes */
  int32_t swizzle;                    /* bytes: 0, 32, 64, 128; box[0] no wider */
} ga_tensor_map_desc;
#define GA_TENSOR_MAP_DESC_INIT \
  { sizeof(ga_tensor_map_desc), NULL, 0, 0, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}, 128 }

/* Writes the 128 bytes of a CUtensorMap to map, which lies at a multiple of 64 bytes (ga_tmap). Elements outside read
 * as 0. */
GA_API GA_NODISCARD ga_status ga_tensor_map(ga_ctx *ctx, const ga_tensor_map_desc *desc, void *map);

#ifdef __cplusplus
}
#endif
#endif
