/* Codes and scales into the bytes of GGUF's blocks: where each bit lies, and nothing else. src/ref/ref_dequant.c has
 * the formulas that read them. Scales in f16 are put by ga_pack_f16; the functions of whole blocks leave them alone.
 *
 * sc, mn: a scale, and a minimum, of each run; q: a code of each element. */
#ifndef GA_BASE_QUANT_PACK_H
#define GA_BASE_QUANT_PACK_H

#include <stdint.h>

/* x rounded to f16, little-endian. */
void ga_pack_f16(uint8_t *p, float x);

/* 32 codes 0..15 in 16 bytes: element e low for e < 16, e - 16 high. */
void ga_pack_nibbles(uint8_t *qs, const int *q);
/* 32 codes 0..31: low nibbles to qs[16], fifth bits to qh[4]. */
void ga_pack_five(uint8_t *qh, uint8_t *qs, const int *q);

/* Blocks of 256. sc and mn of 16 runs, 0..15; q 0..3. */
void ga_pack_q2_k(uint8_t *b, const int *sc, const int *mn, const int *q);
/* sc of 16 runs, -32..31; q -4..3. */
void ga_pack_q3_k(uint8_t *b, const int *sc, const int *q);
/* sc and mn of 8 runs, 0..63; q 0..15, or 0..31. */
void ga_pack_q4_k(uint8_t *b, const int *sc, const int *mn, const int *q);
void ga_pack_q5_k(uint8_t *b, const int *sc, const int *mn, const int *q);
/* sc of 16 runs, -128..127; q -32..31. */
void ga_pack_q6_k(uint8_t *b, const int *sc, const int *q);
/* sc of 8 runs, -32..31; q 0..15, places in the table of iq4. */
void ga_pack_iq4_xs(uint8_t *b, const int *sc, const int *q);

#endif
