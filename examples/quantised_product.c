/* Y = X W^T with W in Q8_0, GGUF's blocks of 32 int8 numbers and an f16 scale, compared with plain C.
 *   cc -std=c11 quantised_product.c -o quantised_product $(pkg-config --cflags --libs ga) -lm */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <ga/gemm.h>

enum { M = 3, N = 96, K = 256, BLOCK = 32 };

typedef struct q8_block {
  uint16_t scale; /* f16 */
  int8_t q[BLOCK];
} q8_block;

#define SCALE      0.015625 /* 2^-6; real weights have the block's largest magnitude / 127 here */
#define SCALE_BITS 0x2400   /* as f16 */

static float x[M * K], y[M * N], w[N * K];
static q8_block blocks[N * K / BLOCK];

static void quantise(void) {
  for (int i = 0; i < N * K; i++) {
    blocks[i / BLOCK].scale = SCALE_BITS;
    blocks[i / BLOCK].q[i % BLOCK] = (int8_t)lrint((double)w[i] / SCALE);
  }
}

static ga_status multiply_q8(void) {
  ga_ctx_options options = GA_CTX_OPTIONS_INIT;
  ga_gemm_desc desc = GA_GEMM_DESC_INIT;
  const ga_gemm_io io = {.x = x, .w = blocks, .y = y};
  ga_ctx *ctx = NULL;
  options.device = "cpu"; /* on a GPU: ga_buffer_alloc, ga_copy_to_device (ga/ctx.h) */
  desc.m = M, desc.n = N, desc.k = K;
  desc.w_dtype = GA_Q8_0;
  ga_status status = ga_ctx_create(&options, &ctx);
  if (status == GA_OK) status = ga_gemm(ctx, &desc, &io, NULL);
  if (status == GA_OK) status = ga_stream_sync(ctx, NULL);
  ga_ctx_destroy(ctx);
  return status;
}

int main(void) {
  double worst = 0, largest = 0;
  srand(1);
  for (int i = 0; i < M * K; i++) x[i] = (float)rand() / (float)RAND_MAX - 0.5f;
  for (int i = 0; i < N * K; i++) w[i] = (float)(rand() % 255 - 127) * (float)SCALE;
  quantise();
  if (multiply_q8() != GA_OK) return fprintf(stderr, "%s\n", ga_error_text()), 1;
  for (int i = 0; i < M * N; i++) {
    double sum = 0;
    for (int j = 0; j < K; j++) sum += (double)x[i / N * K + j] * (double)w[i % N * K + j];
    worst = fmax(worst, fabs(sum - (double)y[i]));
    largest = fmax(largest, fabs(sum));
  }
  printf("largest difference %.2g of %.3g\n", worst, largest);
  return !(worst < 0.02 * largest); /* a CPU rounds X to 8 bits, too */
}
