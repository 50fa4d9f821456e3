/* Causal attention with grouped queries on the CPU, compared with plain C: O = softmax(Q K^T / sqrt(D)) V.
 *   cc -std=c11 attention.c -o attention $(pkg-config --cflags --libs ga) -lm */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <ga/attn.h>

enum { TOKENS = 100, HEADS = 4, KV_HEADS = 2, DIM = 64 };

static float q[TOKENS * HEADS * DIM], k[TOKENS * KV_HEADS * DIM], v[TOKENS * KV_HEADS * DIM], o[TOKENS * HEADS * DIM];

static ga_status call_attention(void) {
  ga_ctx_options options = GA_CTX_OPTIONS_INIT;
  ga_attn_desc desc = GA_ATTN_DESC_INIT;
  const ga_attn_io io = {.q = q, .k = k, .v = v, .o = o};
  ga_ctx *ctx = NULL;
  options.device = "cpu"; /* on a CPU device pointers are host pointers */
  desc.batch = 1, desc.max_q = desc.max_kv = TOKENS;
  desc.q_heads = HEADS, desc.kv_heads = KV_HEADS, desc.head_dim = desc.v_dim = DIM;
  desc.q_dtype = desc.kv_dtype = desc.o_dtype = GA_F32;
  desc.flags = GA_ATTN_CAUSAL;
  ga_status status = ga_ctx_create(&options, &ctx);
  if (status == GA_OK) status = ga_attn(ctx, &desc, &io, NULL);
  if (status == GA_OK) status = ga_stream_sync(ctx, NULL);
  ga_ctx_destroy(ctx);
  return status;
}

/* Computes one element of O. Tensors are [token, head, dim]. */
static double plain_element(int token, int head, int d) {
  const int kv = head / (HEADS / KV_HEADS);
  double sum = 0, weighted = 0;
  for (int t = 0; t <= token; t++) {
    double s = 0;
    for (int i = 0; i < DIM; i++)
      s += (double)q[(token * HEADS + head) * DIM + i] * (double)k[(t * KV_HEADS + kv) * DIM + i];
    sum += exp(s / sqrt(DIM));
    weighted += exp(s / sqrt(DIM)) * (double)v[(t * KV_HEADS + kv) * DIM + d];
  }
  return weighted / sum;
}

int main(void) {
  double worst = 0;
  srand(1);
  for (int i = 0; i < TOKENS * HEADS * DIM; i++) q[i] = (float)rand() / (float)RAND_MAX - 0.5f;
  for (int i = 0; i < TOKENS * KV_HEADS * DIM; i++) k[i] = q[i] * 2, v[i] = (float)rand() / (float)RAND_MAX;
  if (call_attention() != GA_OK) return fprintf(stderr, "%s\n", ga_error_text()), 1;
  for (int i = 0; i < TOKENS * HEADS * DIM; i++)
    worst = fmax(worst, fabs((double)o[i] - plain_element(i / (HEADS * DIM), i / DIM % HEADS, i % DIM)));
  printf("largest difference %.2g\n", worst);
  return !(worst < 1e-5);
}
