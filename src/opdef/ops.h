/* The ops, by number and by name. A row of op `name` gets ga_<name>_desc and ga_<name>_io; where the op has a fused
 * form (opdef/fused.h), ga_<name>_fused_desc and ga_<name>_fused_io. Collectives, from all_reduce on, share
 * ga_collective_desc and ga_collective_io.
 *
 * ga_kernel.dtype has the types of w, x, y in rows of gemm and pack; of q, kv, o in rows of attn; of x, y in others. */
#ifndef GA_OPDEF_OPS_H
#define GA_OPDEF_OPS_H

#include "core/op.h"
#include "ga/attn.h"
#include "ga/attn_bwd.h"
#include "ga/attn_quant.h"
#include "opdef/fused.h"

/* clang-format off */
#define GA_OPS(X) \
  X(gemm) X(pack) X(attn) X(norm) X(rope) X(act) X(add) X(softmax) X(embed) X(kv_store) X(convert) X(sample) \
  X(attn_merge) \
  X(attn_bwd) X(attn_quant) \
  X(all_reduce) X(all_gather) X(reduce_scatter) X(all_to_all) X(send_recv)
/* clang-format on */

enum {
#define X(name) GA_OP_##name,
  GA_OPS(X)
#undef X
      GA_OP_COUNT
};

/* The op's descriptor, defined in a file of this folder. */
#define X(name) extern const ga_op_info ga_opdef_##name;
GA_OPS(X)
#undef X

/* Arguments of GA_OP_pack. */
typedef struct ga_pack_io {
  const void *src;
  void *dst;
} ga_pack_io;

#endif
