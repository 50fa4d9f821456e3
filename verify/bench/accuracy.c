/* ga bench --error: what e4m3 costs attention on the outlier test of FlashAttention-3 (arXiv 2407.08608, section 4.3):
 * entries N(0, 1) and, one in a thousand, N(0, 100) on top. Root-mean-square error against the oracle on the numbers
 * before rounding. */
#include <math.h>
#include <stdlib.h>

#include "base/half.h"
#include "base/mem.h"
#include "base/status.h"
#include "cmdline/cmd.h"
#include "core/ctx.h"
#include "opdef/attn_fp8.h"
#include "verify/bench/bench.h"

enum {
  TOKENS = 512,
  HEADS = 2,
  DIM = 128,
  ELEMS = TOKENS * HEADS * DIM,
  SCALES = HEADS * TOKENS,
  BLOCK = GA_ATTN_FP8_BLOCK
};

/* A way of scaling: the type of Q and K, and how many tokens of a head share a scale of Q, K and V; 0: the whole tensor
 * does. V is e4m3. */
typedef struct way {
  const char *name;
  int32_t dtype, tokens[3];
  bool hadamard; /* of Q and K */
} way;

typedef struct trial {
  ga_ctx *ctx, *ref;    /* the device; the oracles */
  ga_bf16 *bf16[3];     /* q, k, v, host */
  float *f32[3], *want; /* bf16's values; the oracle's O */
  float *got;
  uint64_t seed;
} trial;

/* Numbers are rounded to bf16 before anything else: what attention is given. */
static void draw_trial(trial *t) {
  ga_rng rng;
  ga_rng_seed(&rng, t->seed);
  for (int i = 0; i < 3; i++)
    for (int64_t e = 0; e < ELEMS; e++) {
      double x = ga_rng_normal(&rng);
      if (ga_rng_below(&rng, 1000) == 0) x += 10 * ga_rng_normal(&rng);
      t->bf16[i][e] = ga_f32_to_bf16((float)x);
      t->f32[i][e] = ga_bf16_to_f32(t->bf16[i][e]);
    }
}

static ga_attn_desc problem(int32_t q, int32_t kv, int32_t o) {
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.max_q = d.max_kv = TOKENS;
  d.q_heads = d.kv_heads = HEADS;
  d.head_dim = DIM;
  d.q_dtype = q;
  d.kv_dtype = kv;
  d.o_dtype = o;
  return d;
}

static double rms_error(const trial *t) {
  double sum = 0;
  for (int64_t i = 0; i < ELEMS; i++)
    sum += ((double)t->got[i] - (double)t->want[i]) * ((double)t->got[i] - (double)t->want[i]);
  return sqrt(sum / ELEMS);
}

/* --- device buffers of one evaluation --- */

typedef struct buffers {
  ga_ctx *ctx;
  void *x, *in[3], *scale[3], *o;
} buffers;

static void free_all(buffers *b) {
  void *all[] = {b->x, b->in[0], b->in[1], b->in[2], b->scale[0], b->scale[1], b->scale[2], b->o};
  for (size_t i = 0; i < GA_COUNT_OF(all); i++) ga_buffer_free(b->ctx, all[i]);
}

static ga_status alloc_buffers(ga_ctx *ctx, buffers *b) {
  *b = (buffers){.ctx = ctx};
  GA_TRY(ga_buffer_alloc(ctx, ELEMS * sizeof(float), &b->x));
  GA_TRY(ga_buffer_alloc(ctx, ELEMS * sizeof(float), &b->o));
  for (int i = 0; i < 3; i++) {
    GA_TRY(ga_buffer_alloc(ctx, ELEMS * sizeof(float), &b->in[i]));
    GA_TRY(ga_buffer_alloc(ctx, SCALES * sizeof(float), &b->scale[i]));
  }
  return GA_OK;
}

/* O as floats into t->got. */
static ga_status take_buffers(trial *t, const buffers *b, int32_t o_dtype) {
  if (o_dtype == GA_F32) return ga_copy_to_host(b->ctx, t->got, b->o, ELEMS * sizeof(float), NULL);
  void *half;
  GA_TRY(ga_mem_alloc(ELEMS * sizeof(ga_bf16), "results", &half));
  const ga_status status = ga_copy_to_host(b->ctx, half, b->o, ELEMS * sizeof(ga_bf16), NULL);
  for (int64_t i = 0; i < ELEMS && status == GA_OK; i++) t->got[i] = ga_bf16_to_f32(((ga_bf16 *)half)[i]);
  ga_mem_free(half);
  return status;
}

/* --- evaluations --- */

static ga_status in_f32(trial *t, ga_ctx *ctx, float *out) {
  buffers b;
  ga_status status;
  const ga_attn_desc d = problem(GA_F32, GA_F32, GA_F32);
  GA_TRY_OUT(alloc_buffers(ctx, &b));
  for (int i = 0; i < 3; i++) GA_TRY_OUT(ga_copy_to_device(ctx, b.in[i], t->f32[i], ELEMS * sizeof(float), NULL));
  const ga_attn_io io = {.q = b.in[0], .k = b.in[1], .v = b.in[2], .o = b.o};
  GA_TRY_OUT(ga_attn(ctx, &d, &io, NULL));
  GA_TRY_OUT(ga_copy_to_host(ctx, out, b.o, ELEMS * sizeof(float), NULL));
out:
  free_all(&b);
  return status;
}

static ga_status in_bf16(trial *t) {
  buffers b;
  ga_status status;
  const ga_attn_desc d = problem(GA_BF16, GA_BF16, GA_BF16);
  GA_TRY_OUT(alloc_buffers(t->ctx, &b));
  for (int i = 0; i < 3; i++) GA_TRY_OUT(ga_copy_to_device(t->ctx, b.in[i], t->bf16[i], ELEMS * sizeof(ga_bf16), NULL));
  const ga_attn_io io = {.q = b.in[0], .k = b.in[1], .v = b.in[2], .o = b.o};
  GA_TRY_OUT(ga_attn(t->ctx, &d, &io, NULL));
  GA_TRY_OUT(take_buffers(t, &b, GA_BF16));
out:
  free_all(&b);
  return status;
}

/* Input i with a scale for each block; for a whole tensor a second time, with the largest of those. */
static ga_status quantise_trial(trial *t, buffers *b, int i, const way *w) {
  ga_attn_quant_desc d = GA_ATTN_QUANT_DESC_INIT;
  d.tokens = TOKENS;
  d.heads = HEADS;
  d.dim = DIM;
  d.kind = i == 2 ? GA_ATTN_QUANT_VALUES : GA_ATTN_QUANT_ROWS;
  d.y_dtype = i < 2 ? w->dtype : GA_E4M3;
  d.scale_tokens = w->tokens[i] ? w->tokens[i] : BLOCK;
  d.hadamard = w->hadamard && i < 2;
  ga_attn_quant_io io = {.x = b->x, .y = b->in[i], .scale = b->scale[i]};
  float made[HEADS * TOKENS / BLOCK];
  GA_TRY(ga_copy_to_device(b->ctx, b->x, t->bf16[i], ELEMS * sizeof(ga_bf16), NULL));
  GA_TRY(ga_attn_quant(b->ctx, &d, &io, NULL));
  if (w->tokens[i]) return GA_OK;
  GA_TRY(ga_copy_to_host(b->ctx, made, b->scale[i], sizeof made, NULL));
  for (size_t s = 1; s < GA_COUNT_OF(made); s++) made[0] = fmaxf(made[0], made[s]);
  GA_TRY(ga_copy_to_device(b->ctx, b->scale[i], made, sizeof made[0], NULL));
  d.scale_tokens = 0;
  io.given = (ga_attn_scale){.data = b->scale[i]};
  return ga_attn_quant(b->ctx, &d, &io, NULL);
}

static ga_attn_desc scaled(const way *w) {
  ga_attn_desc d = problem(w->dtype, GA_E4M3, GA_BF16);
  d.q_scale_tokens = w->tokens[0];
  d.kv_scale_tokens = w->tokens[1];
  return d;
}

static ga_status in_8_bits(trial *t, ga_ctx *ctx, const way *w) {
  buffers b;
  ga_status status;
  const ga_attn_desc d = scaled(w);
  GA_TRY_OUT(alloc_buffers(ctx, &b));
  for (int i = 0; i < 3; i++) GA_TRY_OUT(quantise_trial(t, &b, i, w));
  ga_attn_io io = {.q = b.in[0], .k = b.in[1], .v = b.in[2], .o = b.o};
  ga_attn_scale *const scale[3] = {&io.q_scale, &io.k_scale, &io.v_scale};
  for (int i = 0; i < 3; i++) {
    const int32_t tokens = w->tokens[i];
    *scale[i] = (ga_attn_scale){.data = b.scale[i], .head = tokens ? TOKENS / tokens : 0, .block = tokens > 0};
  }
  GA_TRY_OUT(ga_attn(ctx, &d, &io, NULL));
  GA_TRY_OUT(take_buffers(t, &b, GA_BF16));
out:
  free_all(&b);
  return status;
}

/* --- the report --- */

/* The device when it can do `d`; else the oracles, whose weights and sums are not rounded. */
static ga_ctx *device_of(trial *t, const ga_attn_desc *d) {
  ga_plan *plan = NULL;
  const bool can = ga_attn_plan(t->ctx, d, &plan) == GA_OK;
  ga_plan_destroy(plan);
  return can ? t->ctx : t->ref;
}

static ga_status report_trial(trial *t) {
  static const way ways[] = {{"e4m3, a scale per tensor", GA_E4M3, {0, 0, 0}, false},
                             {"e4m3, a scale per block", GA_E4M3, {BLOCK, BLOCK, BLOCK}, false},
                             {"e4m3, Hadamard, per tensor", GA_E4M3, {0, 0, 0}, true},
                             {"e4m3, Hadamard, per block", GA_E4M3, {BLOCK, BLOCK, BLOCK}, true},
                             {"int8, Hadamard, Q per token", GA_I8, {1, BLOCK, BLOCK}, true}};
  const ga_attn_desc bf16 = problem(GA_BF16, GA_BF16, GA_BF16), int8 = scaled(&ways[GA_COUNT_OF(ways) - 1]);
  ga_ctx *const placement = device_of(t, &int8);
  double first = 0;
  (void)printf("%d tokens, %d heads of %d, outliers 1 in 1000; root-mean-square error of O; 8 bits on %s\n", TOKENS,
               HEADS, DIM, placement == t->ref ? "ref (weights and sums not rounded)" : placement->device->name);
  GA_TRY(in_f32(t, t->ref, t->want));
  if (device_of(t, &bf16) == t->ctx) {
    GA_TRY(in_bf16(t));
    (void)printf("%-28s %.3e\n", "bf16", rms_error(t));
  }
  for (size_t i = 0; i < GA_COUNT_OF(ways); i++) {
    GA_TRY(in_8_bits(t, placement, &ways[i]));
    const double error = rms_error(t);
    if (i == 0) first = error;
    (void)printf("%-28s %.3e  %.2f x lower\n", ways[i].name, error, first / error);
  }
  return GA_OK;
}

static ga_status run_trial(trial *t, const bench_options *o) {
  ga_ctx_options options = GA_CTX_OPTIONS_INIT;
  options.device = o->device;
  options.threads = o->threads;
  GA_TRY(ga_ctx_create(&options, &t->ctx));
  options.device = "ref";
  GA_TRY(ga_ctx_create(&options, &t->ref));
  void *p;
  for (int i = 0; i < 3; i++) {
    GA_TRY(ga_mem_alloc(ELEMS * sizeof(ga_bf16), "inputs", &p));
    t->bf16[i] = p;
    GA_TRY(ga_mem_alloc(ELEMS * sizeof(float), "inputs", &p));
    t->f32[i] = p;
  }
  GA_TRY(ga_mem_alloc(ELEMS * sizeof(float), "results", &p));
  t->want = p;
  GA_TRY(ga_mem_alloc(ELEMS * sizeof(float), "results", &p));
  t->got = p;
  draw_trial(t);
  return report_trial(t);
}

int bench_accuracy(const bench_options *o) {
  trial t = {.seed = o->seed};
  const ga_status status = run_trial(&t, o);
  for (int i = 0; i < 3; i++) {
    ga_mem_free(t.bf16[i]);
    ga_mem_free(t.f32[i]);
  }
  ga_mem_free(t.want);
  ga_mem_free(t.got);
  ga_ctx_destroy(t.ctx);
  ga_ctx_destroy(t.ref);
  return status == GA_OK ? EXIT_OK : cmd_fail("bench");
}
