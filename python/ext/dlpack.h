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

/* Contents of capsules named "dltensor", before version 1. */
typedef struct dlpack_managed {
  dlpack_tensor tensor;
  void *manager;
  void (*deleter)(struct dlpack_managed *self);
} dlpack_managed;

/* Contents of capsules named "dltensor_versioned". */
typedef struct dlpack_versioned {
  uint32_t major, minor;
  void *manager;
  void (*deleter)(struct dlpack_versioned *self);
  uint64_t flags;
  dlpack_tensor tensor;
} dlpack_versioned;

/* A type's table of C functions: its __dlpack_c_exchange_api__, a capsule named "dlpack_exchange_api". They need the
 * GIL and order no streams. Functions that GA does not call have no parameter types here. */
typedef struct dlpack_exchange {
  uint32_t major, minor;
  const struct dlpack_exchange *previous; /* of an older major version, or NULL */
  void (*allocate)(void);
  void (*managed_of_object)(void);
  void (*object_of_managed)(void);
  /* Describes an object's tensor; the object owns all that *out points to. 0, or -1 with an exception. May be NULL. */
  int (*tensor_of_object)(void *object, dlpack_tensor *out);
  /* Gives the stream on which the producer enqueues its work on a device. 0, or -1 with an exception. May be NULL. */
  int (*current_stream)(int32_t device_type, int32_t device_id, void **out);
} dlpack_exchange;

#endif
