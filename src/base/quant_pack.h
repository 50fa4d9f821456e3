/* Packs codes and scales into the bytes of GGUF blocks; only the positions of bits are defined here.
 * src/ref/ref_dequant.c has the formulas that read them. ga_pack_f16 writes the f16 scales; the functions for whole
 * blocks leave them unchanged.
 *
 * Parameters: a run is the elements of a block that share a scale. sc has the integer scale of each run, mn the integer
 * minimum of each run, and q the code of each element. */
#ifndef GA_BASE_QUANT_PACK_H
#define GA_BASE_QUANT_PACK_H

#include <stdint.h>

/* Writes x, rounded to f16, little-endian to p. */
void ga_pack_f16(uint8_t *p, float x);

/* Packs 32 codes 0 to 15 into 16 bytes. Byte i has element i in its low bits and element i + 16 in its high bits. */
void ga_pack_nibbles(uint8_t *qs, const int *q);
/* Packs 32 codes 0 to 31: low nibbles into qs[16], fifth bits into qh[4]. */
void ga_pack_five(uint8_t *qh, uint8_t *qs, const int *q);

/* Packs a q2_k block of 256 elements: sc and mn of 16 runs, 0 to 15; q 0 to 3. */
void ga_pack_q2_k(uint8_t *b, const int *sc, const int *mn, const int *q);
/* Packs a q3_k block of 256 elements: sc of 16 runs, -32 to 31; q -4 to 3. */
void ga_pack_q3_k(uint8_t *b, const int *sc, const int *q);
/* Pack a q4_k or q5_k block of 256 elements: sc and mn of 8 runs, 0 to 63; q 0 to 15 (q4_k) or 0 to 31 (q5_k). */
void ga_pack_q4_k(uint8_t *b, const int *sc, const int *mn, const int *q);
void ga_pack_q5_k(uint8_t *b, const int *sc, const int *mn, const int *q);
/* Packs a q6_k block of 256 elements: sc of 16 runs, -128 to 127; q -32 to 31. */
void ga_pack_q6_k(uint8_t *b, const int *sc, const int *q);
/* Packs an iq4_xs block of 256 elements: sc of 8 runs, -32 to 31; q 0 to 15, indices into the 16 values of iq4_nl. */
void ga_pack_iq4_xs(uint8_t *b, const int *sc, const int *q);

#endif
