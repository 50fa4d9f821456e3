/* Packs codes and scales into the bytes of GGUF's blocks: only the places of bits. src/ref/ref_dequant.c has the
 * formulas that read them. ga_pack_f16 writes the f16 scales; the functions of whole blocks do not touch them.
 *
 * sc, mn: a scale, and a minimum, of each run; q: a code of each element. */
#ifndef GA_BASE_QUANT_PACK_H
#define GA_BASE_QUANT_PACK_H

#include <stdint.h>

/* Writes x rounded to f16, little-endian. */
void ga_pack_f16(uint8_t *p, float x);

/* Packs 32 codes 0..15 into 16 bytes: byte i has element i in its low bits, element i + 16 in its high ones. */
void ga_pack_nibbles(uint8_t *qs, const int *q);
/* Packs 32 codes 0..31: low nibbles into qs[16], fifth bits into qh[4]. */
void ga_pack_five(uint8_t *qh, uint8_t *qs, const int *q);

/* Blocks of 256, this one and the next: sc and mn of 16 runs, 0..15; q 0..3. */
void ga_pack_q2_k(uint8_t *b, const int *sc, const int *mn, const int *q);
/* sc of 16 runs, -32..31; q -4..3. */
void ga_pack_q3_k(uint8_t *b, const int *sc, const int *q);
/* sc and mn of 8 runs, 0..63; q 0..15, or 0..31. */
void ga_pack_q4_k(uint8_t *b, const int *sc, const int *mn, const int *q);
void ga_pack_q5_k(uint8_t *b, const int *sc, const int *mn, const int *q);
/* sc of 16 runs, -128..127; q -32..31. */
void ga_pack_q6_k(uint8_t *b, const int *sc, const int *q);
/* sc of 8 runs, -32..31; q 0..15, indices into the table of iq4. */
void ga_pack_iq4_xs(uint8_t *b, const int *sc, const int *q);

#endif
