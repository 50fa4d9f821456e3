/* The arithmetic of products, as an H200 gave it bit by bit (docs/log/sums.md): the products of one instruction and the
 * addend are exact, are aligned to the largest of their exponents, cut below a fixed fraction bit, added without error,
 * and the sum is cut to the fraction bits of the accumulator. */
#include <math.h>
#include <string.h>

#include "emu/machine.h"

static inline float from_f16(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fffu;
  uint32_t u = rest << 13;
  float x;
  if (rest >= 0x7c00) {
    u |= 0x7f800000;
  } else if (rest >= 0x0400) {
    u += (127u - 15u) << 23;
  } else { /* subnormal: an integer times 2^-24 */
    x = (float)rest * 0x1p-24f;
    memcpy(&u, &x, 4);
  }
  u |= sign;
  memcpy(&x, &u, 4);
  return x;
}

static inline float from_bf16(uint16_t h) {
  uint32_t u = (uint32_t)h << 16;
  float x;
  memcpy(&x, &u, 4);
  return x;
}

/* 8-bit floats: e4m3 has no infinity and one NaN (Micikevicius et al. 2022), e5m2 is the upper half of an f16. */
static inline float from_e4m3(uint8_t v) {
  float x = v & 0x78 ? ldexpf((float)(8 + (v & 7)), (v >> 3 & 15) - 10) : ldexpf((float)(v & 7), -9);
  if ((v & 0x7f) == 0x7f) x = NAN;
  return v & 0x80 ? -x : x;
}
static const float *table(int type) {
  static float tables[3][256];
  static bool made;
  for (int i = 0; !made && i < 256; i++) {
    tables[0][i] = from_e4m3((uint8_t)i);
    tables[1][i] = from_f16((uint16_t)(i << 8));
    tables[2][i] = (float)(int8_t)i;
  }
  made = true;
  return tables[type == EMU_WGMMA_E4M3 ? 0 : type == EMU_WGMMA_E5M2 ? 1 : 2];
}

int emu_bytes_of(int type) { return type <= EMU_WGMMA_F16 ? 2 : type == EMU_WGMMA_TF32 ? 4 : 1; }

/* in: n contiguous values; out: every stride-th place. */
void emu_decode(int type, float *out, const void *in, int n, int stride) {
  const uint16_t *h = in;
  const uint8_t *b = in;
  if (type == EMU_WGMMA_F16) {
    for (int i = 0; i < n; i++) out[i * stride] = from_f16(h[i]);
  } else if (type == EMU_WGMMA_BF16) {
    for (int i = 0; i < n; i++) out[i * stride] = from_bf16(h[i]);
  } else if (type == EMU_WGMMA_TF32) {
    for (int i = 0; i < n; i++) {
      uint32_t u = ((const uint32_t *)in)[i] & ~0x1fffu;
      memcpy(&out[i * stride], &u, 4);
    }
  } else {
    const float *t = table(type);
    for (int i = 0; i < n; i++) out[i * stride] = t[b[i]];
  }
}

/* --- sums --- */

/* fraction: bits kept below the largest exponent; keep: bits of the result's significand. */
typedef struct sum_rule {
  int fraction, keep, least; /* least: the exponent of subnormal inputs */
} sum_rule;

static const sum_rule rules[] = {
    [EMU_WGMMA_BF16] = {25, 24, -126}, [EMU_WGMMA_F16] = {25, 24, -14},   [EMU_WGMMA_E4M3] = {13, 14, -6},
    [EMU_WGMMA_E5M2] = {13, 14, -14},  [EMU_WGMMA_TF32] = {25, 24, -126}, [EMU_WGMMA_S8] = {0}};

enum { ZERO = -1000, SPECIAL = 3000, COLUMNS = 256, DEPTH = 32 };

static inline uint32_t bits_of(float x) {
  uint32_t u;
  memcpy(&u, &x, 4);
  return u;
}

static inline float float_of(uint32_t u) {
  float x;
  memcpy(&x, &u, 4);
  return x;
}

/* Exponents as the adder takes them: of the format's fields, not of the values, so that subnormals have the least one.
 * */
static inline int exponent(float x, int least) {
  int e = (int)(bits_of(x) >> 23 & 255) - 127;
  return bits_of(x) << 1 == 0 ? ZERO : e == 128 ? SPECIAL : e < least ? least : e;
}

EMU_VECTOR static void exponents_of(int *restrict e, const float *restrict x, int n, int least) {
  for (int i = 0; i < n; i++) e[i] = exponent(x[i], least);
}

/* One sum, in any range: products are exact in double, and so are aligned sums of 33 terms. */
static float sum_slowly(float c, const float *a, const int *ea, const float *b, const int *eb, int n, int k,
                        const sum_rule *r) {
  if (c != c) return float_of(0x7fffffff);
  int top = exponent(c, -126);
  double plain = c, sum = 0;
  for (int i = 0; i < k; i++) {
    int e = ea[i] + eb[i * n];
    top = e > top ? e : top;
    plain += (double)a[i] * (double)b[i * n]; /* infinities and NaN come out right */
  }
  if (!isfinite(plain)) return plain != plain ? float_of(0x7fffffff) : (float)plain;
  if (top < -500) return 0;
  for (int i = 0; i < k; i++) sum += trunc(ldexp((double)a[i] * (double)b[i * n], r->fraction - top));
  sum += trunc(ldexp(c, r->fraction - top));
  if (sum == 0) return 0;
  int e;
  (void)frexp(sum, &e);
  int last = e - r->keep, lowest = -149 - (top - r->fraction); /* of the significand; of subnormal results */
  last = last < lowest ? lowest : last;
  return (float)ldexp(ldexp(trunc(ldexp(sum, -last)), last), top - r->fraction);
}

/* 16 columns of one row, of which the first `w` are wanted. Where a column's exponents leave the range in which 32-bit
 * arithmetic is exact, all of them are summed slowly. Vectors, as gcc has them: loops over 16 are turned into worse
 * code. */
typedef float floats16 __attribute__((vector_size(64)));
typedef int32_t ints16 __attribute__((vector_size(64)));

static inline __attribute__((always_inline)) void sum_row(float *restrict c, const float *restrict a,
                                                          const int *restrict ea, const float *restrict b,
                                                          const int *restrict eb, int n, int w, int k,
                                                          const sum_rule *r) {
  ints16 t, odd, e, f, bits, beyond, sum = {0};
  floats16 scale, v;
  memcpy(&bits, c, 64);
  e = (bits >> 23 & 255) - 127;
  t = e - (e == -127) + ((bits << 1 == 0) & (ZERO + 126)) + ((e == 128) & SPECIAL); /* as exponent() */
  odd = t;
  for (int i = 0; i < k; i += 2) { /* two chains of maxima */
    memcpy(&e, eb + i * n, 64);
    memcpy(&f, eb + (i + 1) * n, 64);
    e = t - (e + ea[i]);
    f = odd - (f + ea[i + 1]);
    t -= e & e >> 31;
    odd -= f & f >> 31;
  }
  e = t - odd;
  t -= e & e >> 31;
  t &= ~(t < -500);             /* nothing but zeros (masked keys): their sum is 0 at any scale */
  beyond = (t + 80) | (90 - t); /* the sign tells */
  int32_t any = 0, top[16];
  memcpy(top, &beyond, 64);
  for (int x = 0; x < 16; x++) any |= top[x];
  memcpy(top, &t, 64);
  if (__builtin_expect(any < 0, 0)) {
    for (int x = 0; x < w; x++) c[x] = sum_slowly(c[x], a, ea, b + x, eb + x, n, k, r);
    return;
  }
  bits = (r->fraction + 127 - t) << 23;
  memcpy(&scale, &bits, 64);
  for (int i = 0; i < k; i++) {
    memcpy(&v, b + i * n, 64);
    sum += __builtin_convertvector(v * a[i] * scale, ints16);
  }
  memcpy(&v, c, 64);
  const ints16 addend = __builtin_convertvector(v * scale, ints16);
  for (int x = 0; x < w; x++) {
    double s = (double)sum[x] + (double)addend[x];
    uint64_t u;
    memcpy(&u, &s, 8);
    u &= ~(uint64_t)0 << (53 - r->keep);
    memcpy(&s, &u, 8);
    c[x] = (float)s * float_of((uint32_t)(top[x] - r->fraction + 127) << 23);
  }
}

static inline __attribute__((always_inline)) bool none_but_zeros(const float *x, int n) {
  uint32_t any = 0;
  for (int i = 0; i < n; i++) any |= bits_of(x[i]);
  return any << 1 == 0;
}

static inline __attribute__((always_inline)) int largest(const int *x, int n) {
  int most = ZERO;
  for (int i = 0; i < n; i++) most = x[i] > most ? x[i] : most;
  return most;
}

/* c (rows x n) += a (rows x k) b (k x n); n a multiple of 8; 8 floats behind c and b may be read. */
EMU_VECTOR static void add_exact(float *restrict c, const float *restrict a, const float *restrict b, int rows, int n,
                                 int k, const sum_rule *r) {
  static int ea[64 * DEPTH], eb[DEPTH * COLUMNS + 8];
  exponents_of(ea, a, rows * k, r->least);
  exponents_of(eb, b, k * n, r->least);
  const bool finite = largest(eb, k * n) < SPECIAL;
  for (int row = 0; row < rows; row++) {
    if (finite && none_but_zeros(a + row * k, k) && none_but_zeros(c + row * n, n)) { /* rows past the end of A */
      memset(c + row * n, 0, (size_t)n * sizeof *c);
      continue;
    }
    for (int j = 0; j < n; j += 16)
      sum_row(c + row * n + j, a + row * k, ea + row * k, b + j, eb + j, n, n - j < 16 ? 8 : 16, k, r);
  }
}

/* The same for speed, in f32 and in order of k. Blocks of 4 rows by 16 columns of c stay in registers over the 16 steps
 * of k. */
EMU_VECTOR __attribute__((optimize("fp-contract=fast"))) static void
add_fast(float *restrict c, const float *restrict a, const float *restrict b, int n) {
  for (int j = 0; j + 16 <= n; j += 16)
    for (int r = 0; r < 64; r += 4) {
      float t[4][16];
      for (int i = 0; i < 4; i++)
        for (int x = 0; x < 16; x++) t[i][x] = c[(r + i) * n + j + x];
      for (int k = 0; k < 16; k++)
        for (int i = 0; i < 4; i++)
          for (int x = 0; x < 16; x++) t[i][x] += a[(r + i) * 16 + k] * b[k * n + j + x];
      for (int i = 0; i < 4; i++)
        for (int x = 0; x < 16; x++) c[(r + i) * n + j + x] = t[i][x];
    }
  for (int j = n / 16 * 16; j < n; j++)
    for (int r = 0; r < 64; r++)
      for (int k = 0; k < 16; k++) c[r * n + j] += a[r * 16 + k] * b[k * n + j];
}

/* Sums of 32 products stay below 2^24. */
EMU_VECTOR static void add_s8(float *restrict c, const float *restrict a, const float *restrict b, int rows, int n,
                              int depth) {
  for (int r = 0; r < rows; r++)
    for (int j = 0; j < n; j++) {
      float s = 0;
      for (int k = 0; k < depth; k++) s += a[r * depth + k] * b[k * n + j];
      c[r * n + j] = float_of(bits_of(c[r * n + j]) + (uint32_t)(int32_t)s);
    }
}

void emu_multiply(int type, float *c, const float *a, const float *b, int n) {
  if (type == EMU_WGMMA_S8)
    add_s8(c, a, b, 64, n, 32);
  else if (emu_bytes_of(type) == 2 && !emu_opt.checks)
    add_fast(c, a, b, n);
  else
    add_exact(c, a, b, 64, n, emu_k_of(type), &rules[type]);
}

/* mma.sync of 8-bit floats has no instruction of its own on an H200: two of f16, the first of the k whose k % 4 is 0 or
 * 1, from zero; then the addend is added with one rounding. */
static void multiply_mma_f8(float *c, const float *a, const float *b) {
  float sum[16 * 8 + 8] = {0}, ha[16 * 16], hb[16 * 8 + 8] = {0};
  for (int half = 0; half < 2; half++) {
    for (int k = 0; k < 16; k++) {
      int from = k / 2 * 4 + k % 2 + 2 * half;
      for (int r = 0; r < 16; r++) ha[r * 16 + k] = a[r * 32 + from];
      memcpy(hb + k * 8, b + from * 8, 8 * sizeof *b);
    }
    add_exact(sum, ha, hb, 16, 8, 16, &rules[EMU_WGMMA_F16]);
  }
  for (int i = 0; i < 16 * 8; i++) {
    c[i] += sum[i];
    if (c[i] != c[i]) c[i] = float_of(0x7fffffff);
  }
}

void emu_multiply_mma(int type, int k, float *c, const float *a, const float *b) {
  if (type == EMU_WGMMA_S8)
    add_s8(c, a, b, 16, 8, k);
  else if (emu_bytes_of(type) == 1)
    multiply_mma_f8(c, a, b);
  else
    add_exact(c, a, b, 16, 8, k, &rules[type]);
}
