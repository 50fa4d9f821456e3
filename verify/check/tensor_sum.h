/* Sums as a GPU's tensor cores compute them, for plain evaluations (docs/log/sums.md). */
#ifndef GA_VERIFY_CHECK_TENSOR_SUM_H
#define GA_VERIFY_CHECK_TENSOR_SUM_H

#include <stdint.h>

enum { CHECK_E4M3_STEP = 32 /* number of products that one instruction adds */ };

typedef struct check_e4m3 {
  double x[CHECK_E4M3_STEP];
  int e[CHECK_E4M3_STEP]; /* exponents as the format stores them; subnormal numbers have the smallest one */
} check_e4m3;

typedef struct check_e4m3_codes {
  double x[256];
  int e[256];
} check_e4m3_codes;

void check_e4m3_set(check_e4m3 *o, int i, double x);
/* Fills a table with the number and the exponent of each e4m3 code. */
void check_e4m3_tabulate(check_e4m3_codes *t);
/* Sets CHECK_E4M3_STEP numbers from their e4m3 codes, with the table. */
void check_e4m3_load(check_e4m3 *o, const check_e4m3_codes *t, const uint8_t *codes);
/* Returns sum + the dot product of a and b, as tensor cores compute it. Products are aligned to the largest exponent
 * and keep 13 bits below it. The result is truncated to 13 fraction bits. */
float check_e4m3_add(float sum, const check_e4m3 *a, const check_e4m3 *b);
/* Returns the dot product of k 16-bit numbers as tensor cores compute it. Products are added 16 at a time, and bits
 * that do not fit are truncated (Fasi et al. 2021; Li et al. 2024, arXiv 2403.00232). */
float check_tensor_dot(const float *x, const float *w, int64_t k);

#endif
