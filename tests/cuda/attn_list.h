/* cc -E -P -x c -I src attn_list.h: one line per row of the table, as attn_lib.py and attn_build.sh read it. */
#include "cuda/kern/attn/attn_rows.h"
#define GA_KERNEL_ATTN(op, dtype, d, dv, mask, arch, bm, bn, st, sched, turn, qreg, store, resident, blocks, features, \
                       ...)                                                                                            \
  op##_##dtype##_d##d##v##dv##_##mask##_##arch##_##bm##x##bn##x##st##_##sched dtype d dv mask bm bn st turn qreg store \
      resident blocks features                                                                                         \
      GA_ATTN_SMEM(GA_ATTN_SHORT(sched), d, dv, bm, bn, st, store, resident)
#include "cuda/kern/attn/attn.def"
