/* What follows from a row of attn_any.def: dtype, D, BM, BN, warps, blocks */
#ifndef GA_CUDA_KERN_ATTN_ATTN_ANY_ROWS_H
#define GA_CUDA_KERN_ATTN_ATTN_ANY_ROWS_H

#define GA_ATTN_ANY_ID(dtype, d, bm, bn, warps) "attn_fwd_" #dtype "_d" #d "_any_sm80_" #bm "x" #bn "w" #warps
#define GA_ATTN_ANY_SOURCE                      "src/cuda/kern/attn/attn_fwd_sm80.cu"
#define GA_ATTN_ANY_PARAMS(dtype, d, bm, bn, warps, blocks) \
  "DTYPE=" #dtype ",D=" #d ",BM=" #bm ",BN=" #bn ",WARPS=" #warps ",BLOCKS=" #blocks
/* Q, two blocks of K and V, four tile records: OFF_* of the kernel. */
#define GA_ATTN_ANY_SMEM(d, bm, bn) (((bm) + 4 * (bn)) * (d)*2 + 192)
/* Behind every row made for one generation; the tightest head first. */
#define GA_ATTN_ANY_SCORE(d) (50 - (d) / 32)

/* What follows from a row of attn_rows.def: type, D, keys, warps, stages, meet. */
#define GA_ATTN_DECODE_ID(type, d, keys, warps, stages) \
  "attn_" #type "_d" #d "_decode_sm90a_" #keys "x" #warps "x" #stages
#define GA_ATTN_DECODE_SOURCE "src/cuda/kern/attn/attn_decode_sm90a.cu"
#define GA_ATTN_DECODE_PARAMS(TYPE, d, keys, warps, stages, meet) \
  "KV=" #TYPE ",D=" #d ",KEYS=" #keys ",WARPS=" #warps ",STAGES=" #stages ",MEET=" #meet
/* Q_BYTES, RING_BYTES with its PITCH and SCALE_BYTES, SENT_BYTES and OWN_BYTES of the kernel. */
#define GA_ATTN_DECODE_PITCH(TYPE, d)       GA_ATTN_DECODE_PITCH_##TYPE(d)
#define GA_ATTN_DECODE_PITCH_F16(d)         (2 * (d))
#define GA_ATTN_DECODE_PITCH_BF16(d)        (2 * (d))
#define GA_ATTN_DECODE_PITCH_E4M3(d)        (d)
#define GA_ATTN_DECODE_PITCH_Q8_0(d)        (((d) / 32 * 34 + 16) / 16 * 16)
#define GA_ATTN_DECODE_PITCH_Q4_0(d)        (((d) / 32 * 18 + 16) / 16 * 16)
#define GA_ATTN_DECODE_Q_F16                32
#define GA_ATTN_DECODE_Q_BF16               64
#define GA_ATTN_DECODE_Q_E4M3               32
#define GA_ATTN_DECODE_Q_Q8_0               32
#define GA_ATTN_DECODE_Q_Q4_0               32
#define GA_ATTN_DECODE_SCALES_F16(d, keys)  0
#define GA_ATTN_DECODE_SCALES_BF16(d, keys) 0
#define GA_ATTN_DECODE_SCALES_E4M3(d, keys) ((d) < 8 * (keys) ? 8 * (keys) : (d))
#define GA_ATTN_DECODE_SCALES_Q8_0(d, keys) 0
#define GA_ATTN_DECODE_SCALES_Q4_0(d, keys) 0
#define GA_ATTN_DECODE_SMEM(TYPE, d, keys, warps, stages, meet)                                              \
  ((d)*GA_ATTN_DECODE_Q_##TYPE +                                                                             \
   (warps) * (stages) * (2 * (keys)*GA_ATTN_DECODE_PITCH(TYPE, d) + GA_ATTN_DECODE_SCALES_##TYPE(d, keys)) + \
   ((meet) ? (2 * (d) + 16) * 32 : 0) + 192 + 8 * (d))

#endif
