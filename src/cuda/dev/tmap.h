/* The type of a tensor map in a kernel's arguments, which has the same bytes on the host and on the device. This file
 * is both C11 and CUDA C. */
#ifndef GA_CUDA_DEV_TMAP_H
#define GA_CUDA_DEV_TMAP_H
#include <stdint.h>

#ifdef __cplusplus
#define GA_KARGS_ALIGN     alignas(64)
#define GA_KARGS_ASSERT(c) static_assert(c, #c)
#else
#define GA_KARGS_ALIGN     _Alignas(64)
#define GA_KARGS_ASSERT(c) _Static_assert(c, #c)
#endif

/* A tensor map (CUtensorMap), which tells the copy engine the shape of a tensor. ga_tensor_map lets the driver fill its
 * words; kernels do not read them. */
typedef struct {
  GA_KARGS_ALIGN uint64_t word[16];
} ga_tmap;

GA_KARGS_ASSERT(sizeof(ga_tmap) == 128);
#endif
