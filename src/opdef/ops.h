/* The ops, by number and by name. A kernel of op `name` gets ga_<name>_desc and ga_<name>_io. If the op has a fused
 * form (opdef/fused.h), it gets ga_<name>_fused_desc and ga_<name>_fused_io instead. Collectives, from all_reduce on,
 * share ga_collective_desc and ga_collective_io.
 *
 * Ops are declared in src/op/<op>.toml, from which opdef/op_list.h and the descriptors are made.
 *
 * ga_kernel.dtype has the types of w, x, y in kernels of gemm and pack; of q, kv, o in kernels of attn; of x, y in
 * others. */
#ifndef GA_OPDEF_OPS_H
#define GA_OPDEF_OPS_H

#include "core/op.h"
#include "opdef/op_list.h"

enum {
#define X(name) GA_OP_##name,
  GA_OPS(X)
#undef X
      GA_OP_COUNT
};

/* The descriptors of the ops. */
#define X(name) extern const ga_op_info ga_opdef_##name;
GA_OPS(X)
#undef X

/* The arguments of GA_OP_pack. */
typedef struct ga_pack_io {
  const void *src;
  void *dst;
} ga_pack_io;

#endif
