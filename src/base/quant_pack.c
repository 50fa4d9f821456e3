#include "base/quant_pack.h"

#include <string.h>

#include "base/half.h"

void ga_pack_f16(uint8_t *p, float x) {
  ga_f16 h = ga_f32_to_f16(x);
  p[0] = (uint8_t)h;
  p[1] = (uint8_t)(h >> 8);
}

void ga_pack_nibbles(uint8_t *qs, const int *q) {
  for (int j = 0; j < 16; j++) qs[j] = (uint8_t)(q[j] | q[j + 16] << 4);
}

void ga_pack_five(uint8_t *qh, uint8_t *qs, const int *q) {
  int low[32];
  memset(qh, 0, 4);
  for (int e = 0; e < 32; e++) {
    low[e] = q[e] & 15;
    qh[e / 8] = (uint8_t)(qh[e / 8] | (q[e] >> 4) << e % 8);
  }
  ga_pack_nibbles(qs, low);
}

/* --- blocks of 256 --- */

void ga_pack_q2_k(uint8_t *b, const int *sc, const int *mn, const int *q) {
  memset(b + 16, 0, 64);
  for (int i = 0; i < 16; i++) b[i] = (uint8_t)(sc[i] | mn[i] << 4);
  for (int e = 0; e < 256; e++) {
    uint8_t *p = b + 16 + 32 * (e / 128) + e % 32;
    *p = (uint8_t)(*p | q[e] << 2 * (e % 128 / 32));
  }
}

void ga_pack_q3_k(uint8_t *b, const int *sc, const int *q) {
  memset(b, 0, 108);
  for (int i = 0; i < 16; i++) {
    int s = sc[i] + 32;
    b[96 + i % 8] = (uint8_t)(b[96 + i % 8] | (s & 15) << 4 * (i / 8));
    b[104 + i % 4] = (uint8_t)(b[104 + i % 4] | (s >> 4) << 2 * (i / 4));
  }
  for (int e = 0; e < 256; e++) {
    int h = e / 128, j = e % 128 / 32, l = e % 32;
    b[32 + 32 * h + l] = (uint8_t)(b[32 + 32 * h + l] | ((q[e] + 4) & 3) << 2 * j);
    if (q[e] >= 0) b[l] = (uint8_t)(b[l] | 1 << (4 * h + j));
  }
}

/* Eight pairs of 6 bits in 12 bytes, as q4_k and q5_k keep them. */
static void pack_six_bits(uint8_t *s, const int *sc, const int *mn) {
  for (int j = 0; j < 4; j++) {
    s[j] = (uint8_t)(sc[j] | (sc[j + 4] >> 4) << 6);
    s[j + 4] = (uint8_t)(mn[j] | (mn[j + 4] >> 4) << 6);
    s[j + 8] = (uint8_t)((sc[j + 4] & 15) | (mn[j + 4] & 15) << 4);
  }
}

static void pack_k_nibbles(uint8_t *qs, const int *q) {
  for (int i = 0; i < 128; i++) {
    const int *p = q + 64 * (i / 32) + i % 32;
    qs[i] = (uint8_t)((p[0] & 15) | (p[32] & 15) << 4);
  }
}

void ga_pack_q4_k(uint8_t *b, const int *sc, const int *mn, const int *q) {
  pack_six_bits(b + 4, sc, mn);
  pack_k_nibbles(b + 16, q);
}

void ga_pack_q5_k(uint8_t *b, const int *sc, const int *mn, const int *q) {
  pack_six_bits(b + 4, sc, mn);
  pack_k_nibbles(b + 48, q);
  memset(b + 16, 0, 32);
  for (int e = 0; e < 256; e++) b[16 + e % 32] = (uint8_t)(b[16 + e % 32] | (q[e] >> 4) << e / 32);
}

void ga_pack_q6_k(uint8_t *b, const int *sc, const int *q) {
  memset(b, 0, 192);
  for (int i = 0; i < 16; i++) b[192 + i] = (uint8_t)(int8_t)sc[i];
  for (int e = 0; e < 256; e++) {
    int h = e / 128, k = e % 128 / 32, l = e % 32, c = q[e] + 32, at = 64 * h + 32 * (k & 1) + l;
    b[at] = (uint8_t)(b[at] | (c & 15) << (k < 2 ? 0 : 4));
    b[128 + 32 * h + l] = (uint8_t)(b[128 + 32 * h + l] | (c >> 4) << 2 * k);
  }
}

void ga_pack_iq4_xs(uint8_t *b, const int *sc, const int *q) {
  int high = 0;
  memset(b + 2, 0, 6);
  for (int i = 0; i < 8; i++) {
    ga_pack_nibbles(b + 8 + 16 * i, q + 32 * i);
    b[4 + i / 2] = (uint8_t)(b[4 + i / 2] | ((sc[i] + 32) & 15) << 4 * (i & 1));
    high |= (sc[i] + 32) >> 4 << 2 * i;
  }
  b[2] = (uint8_t)high;
  b[3] = (uint8_t)(high >> 8);
}
