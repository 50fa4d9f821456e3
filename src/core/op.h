/* An op as core sees it: a number, and a descriptor with everything else that core needs to know. Descriptors and the
 * names of numbers are in src/opdef. */
#ifndef GA_CORE_OP_H
#define GA_CORE_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Number of an op, its index in ga_ops. */
typedef int32_t ga_op;
typedef struct ga_kernel ga_kernel;

/* Largest size of a description in bytes. Descriptions grow (docs/adr/0003-growing-structs.md). Each must stay at least
 * GA_DESC_ROOM_BYTES below the limit. */
#define GA_DESC_MAX_BYTES  256
#define GA_DESC_ROOM_BYTES 64

/* Number of arithmetic operations, and of bytes read and written, of a call. */
typedef struct ga_work {
  double flops, bytes;
} ga_work;

typedef struct ga_op_info {
  const char *name;
  /* Size of the description that kernels get, in bytes. */
  uint32_t desc_bytes;
  /* Returns the work of a call, counted as if each input were read once. */
  ga_work (*work)(const void *desc);
  /* Writes sizes and types of the description as readable text. */
  void (*shape)(const void *desc, char *text, size_t capacity);
  /* Returns the feature that a description asks for and the kernel lacks by its op_flags (static text); NULL when it
   * lacks nothing. A NULL function: kernels lack nothing. */
  const char *(*lacks)(const ga_kernel *kernel, const void *desc);
  /* Returns true when the choice must not depend on the size of the call. Kernels are then compared for *typical, which
   * becomes desc with a typical size. A NULL function: the choice always depends on the size. */
  bool (*typical)(const void *desc, void *typical);
  /* Returns true when two kernels give the same bits. The planner first chooses a kernel for *typical. It then chooses
   * for desc among the kernels with the same bits. A NULL function: the kernel chosen for *typical always runs. */
  bool (*same_order)(const ga_kernel *a, const ga_kernel *b);
  /* Returns true when each call of the op must end with a call of another op. *op is then the other op's number, and
   * `after` its complete description. A NULL function: no call needs another op. */
  bool (*after)(const void *desc, ga_op *op, void *after);
} ga_op_info;

/* Table of all ops, in src/opdef/ops.c. */
extern const ga_op_info *const ga_ops[];
extern const int32_t ga_n_ops;

/* Returns the descriptor of an op. Numbers without an op get a descriptor named "none". */
const ga_op_info *ga_op_info_of(ga_op op);
static inline const char *ga_op_name(ga_op op) { return ga_op_info_of(op)->name; }

#endif
