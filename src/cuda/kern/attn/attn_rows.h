/* What follows from a row of attn.def. */
#ifndef GA_CUDA_ATTN_ROWS_H
#define GA_CUDA_ATTN_ROWS_H

#define GA_ATTN_ID(op, dtype, d, dv, mask, arch, bm, bn, st, sched) op##_##dtype##_d##d##v##dv##_##mask##_##arch##_##bm##x##bn##x##st##_##sched
#define GA_ATTN_PANELS(d) (((d) + 63) / 64)
#define GA_ATTN_THREADS(bm) ((bm) == 64 ? 160 : 128 + 2 * (bm))
/* Q, stages of K and V, staging of O, barriers, four tile records; the kernel asserts the same number. */
#define GA_ATTN_SMEM(d, dv, bm, bn, st, store)                                                                                               \
    ((bm) / 64 * GA_ATTN_PANELS(d) * 8192 + (st) * (GA_ATTN_PANELS(d) + GA_ATTN_PANELS(dv)) * (bn) * 128 +                                   \
     ((store) ? 0 : (bm) / 64 * GA_ATTN_PANELS(dv) * 8192) + (8 * (2 * ((bm) / 64) + 4 * (st)) + 15) / 16 * 16 + 192)
#endif
