/* The structs of DLPack 1.x (dmlc.github.io/dlpack), as its specification lays them out. */
#ifndef GA_PYTHON_DLPACK_H
#define GA_PYTHON_DLPACK_H

#include <stdint.h>

enum { DLPACK_CPU = 1, DLPACK_CUDA = 2, DLPACK_CUDA_HOST = 3, DLPACK_CUDA_MANAGED = 13 };
enum {
  DLPACK_INT = 0,
  DLPACK_UINT = 1,
  DLPACK_FLOAT = 2,
  DLPACK_BFLOAT = 4,
  DLPACK_FLOAT8_E4M3FN = 10,
  DLPACK_FLOAT8_E5M2 = 12
};
enum { DLPACK_READ_ONLY = 1, DLPACK_IS_COPIED = 2 };

typedef struct dlpack_tensor {
  void *data;
  int32_t device_type, device_id;
  int32_t n_dims;
  uint8_t type_code, type_bits;
  uint16_t type_lanes;
  int64_t *shape, *strides; /* in elements; strides NULL = contiguous */
  uint64_t byte_offset;
} dlpack_tensor;

/* Behind capsules named "dltensor", before version 1. */
typedef struct dlpack_managed {
  dlpack_tensor tensor;
  void *manager;
  void (*deleter)(struct dlpack_managed *self);
} dlpack_managed;

/* Behind capsules named "dltensor_versioned". */
typedef struct dlpack_versioned {
  uint32_t major, minor;
  void *manager;
  void (*deleter)(struct dlpack_versioned *self);
  uint64_t flags;
  dlpack_tensor tensor;
} dlpack_versioned;

#endif
