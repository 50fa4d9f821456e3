/* GA, kernels of your own, compiled with nvcc or NVRTC, for example on the tile layer (ga/tile/, docs/guide). They run
 * on a context's streams together with GA's. No CUDA runtime is linked. On devices other than CUDA's the functions
 * return GA_ERR_UNSUPPORTED.
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

/* A launch with this flag may start while the previous launch is still running. Its kernel calls grid_dependency_wait
 * (ga/tile) to wait for the previous launch. */
enum { GA_LAUNCH_DEPENDENT = 1 };

typedef struct ga_launch {
  size_t struct_size;
  uint32_t grid[3];  /* number of blocks in each dimension */
  uint32_t block[3]; /* number of threads of a block in each dimension */
  /* blocks of a cluster in each dimension; zeros = no clusters. Each dimension of grid must be a multiple of the
   * cluster's */
  uint32_t cluster[3];
  uint32_t shared_bytes; /* bytes of dynamic shared memory, at most the device's limit for a block */
  uint32_t flags;        /* GA_LAUNCH_DEPENDENT or 0 */
  uint32_t reserved;     /* must be 0 */
} ga_launch;
#define GA_LAUNCH_INIT \
  { sizeof(ga_launch), {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, 0, 0, 0 }

/* Enqueues a launch, which may be recorded in a graph. args: the kernel's parameter, which is copied. stream NULL =
 * the context's own. */
GA_API GA_NODISCARD ga_status ga_function_launch(ga_function *function, const ga_launch *launch, const void *args,
                                                 ga_stream *stream);

#define GA_TENSOR_MAP_DIMS 5

/* Describes a tensor in device memory for bulk tensor copies (TMA). */
typedef struct ga_tensor_map_desc {
  size_t struct_size;
  void *data;                      /* address in device memory, a multiple of 16 bytes */
  int32_t dtype;                   /* GA_F32, GA_F16, GA_BF16, GA_I32, or any type of one byte */
  int32_t n_dims;                  /* number of dimensions, 1 to 5 */
  int64_t dim[GA_TENSOR_MAP_DIMS]; /* elements in each dimension; dim[0] is contiguous */
  /* elements between neighbours in each dimension; stride[0] = 1, the others are multiples of 16 bytes */
  int64_t stride[GA_TENSOR_MAP_DIMS];
  /* elements of one copy in each dimension, 1 to 256; box[0] is a multiple of 16 bytes */
  int32_t box[GA_TENSOR_MAP_DIMS];
  int32_t swizzle; /* bytes of the swizzle: 0, 32, 64 or 128. box[0] must not be wider */
} ga_tensor_map_desc;
#define GA_TENSOR_MAP_DESC_INIT \
  { sizeof(ga_tensor_map_desc), NULL, 0, 0, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}, 128 }

/* Writes the 128 bytes of a CUtensorMap to `map`, whose address must be a multiple of 64, as a ga_tmap (ga/tile) has
 * it. Copies read elements outside of the tensor as 0. */
GA_API GA_NODISCARD ga_status ga_tensor_map(ga_ctx *ctx, const ga_tensor_map_desc *desc, void *map);

#ifdef __cplusplus
}
#endif
#endif
