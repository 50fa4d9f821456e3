/* Random calls of the C API on a CPU: descriptions whose fields stand near and beyond their limits are planned; those
 * that are taken and small are run over buffers of the exact size, with guards around them. A finding is a signal, a
 * sanitizer's report, a guard that changed, or an error without a text.
 * Usage: random_calls COUNT [SEED]: the calls of seeds SEED to SEED + COUNT - 1; a call prints its seed if it fails. */
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define CLOSE(p, n) __asan_poison_memory_region((p), (n))
#define OPEN(p, n)  __asan_unpoison_memory_region((p), (n))
#else
#define CLOSE(p, n) (void)(p), (void)(n)
#define OPEN(p, n)  (void)(p), (void)(n)
#endif

#include "base/rng.h"
#include "core/ctx.h"
#include "ga/attn.h"
#include "ga/attn_bwd.h"
#include "ga/attn_quant.h"
#include "ga/experts.h"
#include "ga/mla.h"
#include "opdef/fused.h"

enum { GUARD = 64, TENSORS = 16, ELEMENTS_MAX = 1 << 13, DESC_MAX = GA_DESC_MAX_BYTES };

/* What a field of a description is: a size, a stride, a small number with its range, a type, a factor, flags. */
typedef enum kind { SIZE, STRIDE, NUMBER, TYPE, FACTOR, FLAGS } kind;

typedef struct field {
  size_t at;
  kind kind;
  int32_t least, most; /* of NUMBER and SIZE: where most draws lie; of FLAGS: the bits; of TYPE: any type where most */
} field;

/* A pointer of the io: its elements are `rows` rows of `width`, `stride` apart. */
typedef struct tensor {
  size_t at;
  int32_t dtype;
  int64_t rows, width, stride;
  bool may_be_null;
  int64_t ints; /* 0, or values of i32 are -1 to here: beyond what is allowed, seldom */
} tensor;

typedef struct op_case {
  const char *name;
  const void *init; /* GA_*_DESC_INIT */
  size_t desc_bytes, io_bytes;
  const field *fields;
  size_t n_fields;
  int (*tensors)(const void *desc, tensor *t);
  ga_status (*plan)(ga_ctx *ctx, const void *desc, ga_plan **out);
  ga_status (*run)(const ga_plan *plan, const void *io, void *workspace, ga_stream *stream);
} op_case;

static uint64_t random_below(ga_rng *rng, uint64_t n) { return ga_rng_below(rng, n); }

/* --- the ops --- */

#define D(op, name, ...) \
  { offsetof(ga_##op##_desc, name), __VA_ARGS__ }
#define P(op, name) offsetof(ga_##op##_io, name)

static const field norm_fields[] = {
    D(norm, rows, SIZE, 0, 5),       D(norm, width, SIZE, 0, 40), D(norm, x_stride, STRIDE, 0, 0),
    D(norm, y_stride, STRIDE, 0, 0), D(norm, kind, NUMBER, 0, 2), D(norm, x_dtype, TYPE, 0, 0),
    D(norm, y_dtype, TYPE, 0, 0),    D(norm, eps, FACTOR, 0, 0),  D(norm, residual_stride, STRIDE, 0, 0)};
static int norm_tensors(const void *desc, tensor *t) {
  const ga_norm_desc *d = desc;
  t[0] = (tensor){P(norm, x), d->x_dtype, d->rows, d->width, d->x_stride, false, 0};
  t[1] = (tensor){P(norm, y), d->y_dtype, d->rows, d->width, d->y_stride, false, 0};
  t[2] = (tensor){P(norm, weight), GA_F32, 1, d->width, 0, true, 0};
  t[3] = (tensor){P(norm, bias), GA_F32, 1, d->width, 0, true, 0};
  t[4] = (tensor){P(norm, residual), d->y_dtype, d->rows, d->width, d->residual_stride, true, 0};
  return 5;
}

static const field rope_fields[] = {D(rope, tokens, SIZE, 0, 5),    D(rope, x_stride, STRIDE, 0, 0),
                                    D(rope, heads, NUMBER, 1, 4),   D(rope, head_dim, NUMBER, 1, 20),
                                    D(rope, rot_dim, NUMBER, 0, 8), D(rope, pairs, NUMBER, 0, 1),
                                    D(rope, x_dtype, TYPE, 0, 0),   D(rope, magnitude, FACTOR, 0, 0)};
static int rope_tensors(const void *desc, tensor *t) {
  const ga_rope_desc *d = desc;
  t[0] = (tensor){P(rope, x), d->x_dtype, d->tokens, (int64_t)d->heads * d->head_dim, d->x_stride, false, 0};
  t[1] = (tensor){P(rope, positions), GA_I32, 1, d->tokens, 0, false, 1 << 20};
  t[2] = (tensor){P(rope, inv_freq), GA_F32, 1, d->rot_dim / 2, 0, false, 0};
  return 3;
}

static const field act_fields[] = {D(act, rows, SIZE, 0, 5),       D(act, width, SIZE, 0, 40),
                                   D(act, x_stride, STRIDE, 0, 0), D(act, g_stride, STRIDE, 0, 0),
                                   D(act, y_stride, STRIDE, 0, 0), D(act, act, NUMBER, 0, 3),
                                   D(act, dtype, TYPE, 0, 0)};
static int act_tensors(const void *desc, tensor *t) {
  const ga_act_desc *d = desc;
  t[0] = (tensor){P(act, x), d->dtype, d->rows, d->width, d->x_stride, false, 0};
  t[1] = (tensor){P(act, g), d->dtype, d->rows, d->width, d->g_stride, true, 0};
  t[2] = (tensor){P(act, y), d->dtype, d->rows, d->width, d->y_stride, false, 0};
  return 3;
}

static const field add_fields[] = {
    D(add, rows, SIZE, 0, 5),       D(add, width, SIZE, 0, 40),     D(add, x_stride, STRIDE, 0, 0),
    D(add, b_stride, STRIDE, 0, 0), D(add, y_stride, STRIDE, 0, 0), D(add, b_rows, SIZE, 0, 2),
    D(add, dtype, TYPE, 0, 0),      D(add, scale, FACTOR, 0, 0),    D(add, factor_stride, STRIDE, 0, 0)};
static int add_tensors(const void *desc, tensor *t) {
  const ga_add_desc *d = desc;
  t[0] = (tensor){P(add, x), d->dtype, d->rows, d->width, d->x_stride, false, 0};
  t[1] = (tensor){P(add, b), d->dtype, d->b_rows, d->width, d->b_stride, true, 0};
  t[2] = (tensor){P(add, y), d->dtype, d->rows, d->width, d->y_stride, false, 0};
  t[3] = (tensor){P(add, factors), GA_F32, d->rows, 1, d->factor_stride, false, 0};
  return d->factor_stride ? 4 : 3;
}

static const field softmax_fields[] = {D(softmax, rows, SIZE, 0, 5),       D(softmax, width, SIZE, 0, 40),
                                       D(softmax, x_stride, STRIDE, 0, 0), D(softmax, y_stride, STRIDE, 0, 0),
                                       D(softmax, scale, FACTOR, 0, 0),    D(softmax, log, NUMBER, 0, 1)};
static int softmax_tensors(const void *desc, tensor *t) {
  const ga_softmax_desc *d = desc;
  t[0] = (tensor){P(softmax, x), GA_F32, d->rows, d->width, d->x_stride, false, 0};
  t[1] = (tensor){P(softmax, y), GA_F32, d->rows, d->width, d->y_stride, false, 0};
  return 2;
}

static const field embed_fields[] = {D(embed, tokens, SIZE, 0, 5),  D(embed, vocab, SIZE, 0, 9),
                                     D(embed, width, SIZE, 0, 40),  D(embed, y_stride, STRIDE, 0, 0),
                                     D(embed, w_dtype, TYPE, 0, 1), D(embed, y_dtype, TYPE, 0, 0),
                                     D(embed, scale, FACTOR, 0, 0), D(embed, reserved, NUMBER, 0, 0)};
static int embed_tensors(const void *desc, tensor *t) {
  const ga_embed_desc *d = desc;
  t[0] = (tensor){P(embed, ids), GA_I32, 1, d->tokens, 0, false, d->vocab};
  t[1] = (tensor){P(embed, table), d->w_dtype, d->vocab, d->width, d->width, false, 0};
  t[2] = (tensor){P(embed, y), d->y_dtype, d->tokens, d->width, d->y_stride, false, 0};
  return 3;
}

static const field kv_store_fields[] = {D(kv_store, tokens, SIZE, 0, 5),     D(kv_store, slots, SIZE, 0, 9),
                                        D(kv_store, k_stride, STRIDE, 0, 0), D(kv_store, v_stride, STRIDE, 0, 0),
                                        D(kv_store, heads, NUMBER, 1, 3),    D(kv_store, head_dim, NUMBER, 1, 40),
                                        D(kv_store, v_dim, NUMBER, 0, 40),   D(kv_store, x_dtype, TYPE, 0, 0),
                                        D(kv_store, kv_dtype, TYPE, 0, 1),   D(kv_store, reserved, NUMBER, 0, 0)};
static int kv_store_tensors(const void *desc, tensor *t) {
  const ga_kv_store_desc *d = desc;
  const int64_t k = (int64_t)d->heads * d->head_dim, v = (int64_t)d->heads * d->v_dim;
  t[0] = (tensor){P(kv_store, k), d->x_dtype, d->tokens, k, d->k_stride, false, 0};
  t[1] = (tensor){P(kv_store, v), d->x_dtype, d->tokens, v, d->v_stride, false, 0};
  t[2] = (tensor){P(kv_store, slot), GA_I32, 1, d->tokens, 0, false, d->slots};
  t[3] = (tensor){P(kv_store, k_cache), d->kv_dtype, d->slots, k, k, false, 0};
  t[4] = (tensor){P(kv_store, v_cache), d->kv_dtype, d->slots, v, v, false, 0};
  t[5] = (tensor){P(kv_store, k_scale), GA_F32, d->heads, d->slots, d->slots, false, 0};
  t[6] = (tensor){P(kv_store, v_scale), GA_F32, d->heads, d->slots, d->slots, false, 0};
  return 7;
}

static const field convert_fields[] = {D(convert, rows, SIZE, 0, 5),     D(convert, width, SIZE, 0, 40),
                                       D(convert, x_dtype, TYPE, 0, 1),  D(convert, y_dtype, TYPE, 0, 1),
                                       D(convert, scales, NUMBER, 0, 2), D(convert, reserved, NUMBER, 0, 0)};
static int convert_tensors(const void *desc, tensor *t) {
  const ga_convert_desc *d = desc;
  const int64_t blocks = (d->width + 127) / 128;
  t[0] = (tensor){P(convert, x), d->x_dtype, d->rows, d->width, d->width, false, 0};
  t[1] = (tensor){P(convert, y), d->y_dtype, d->rows, d->width, d->width, false, 0};
  t[2] = (tensor){P(convert, scale), GA_F32, blocks, d->scales == 2 ? (d->rows + 127) / 128 : d->rows, 0, false, 0};
  t[2].stride = t[2].width;
  return 3;
}

static const field gemm_fields[] = {
    D(gemm, m, SIZE, 0, 5),          D(gemm, n, SIZE, 0, 20),         D(gemm, k, SIZE, 0, 40),
    D(gemm, x_stride, STRIDE, 0, 0), D(gemm, y_stride, STRIDE, 0, 0), D(gemm, w_stride, STRIDE, 0, 0),
    D(gemm, w_dtype, TYPE, 0, 1),    D(gemm, x_dtype, TYPE, 0, 0),    D(gemm, y_dtype, TYPE, 0, 0),
    D(gemm, w_layout, NUMBER, 0, 0), D(gemm, act, NUMBER, 0, 3),      D(gemm, flags, FLAGS, 0, 487),
    D(gemm, scale, FACTOR, 0, 0),    D(gemm, scales, NUMBER, 0, 0)};
static int gemm_tensors(const void *desc, tensor *t) {
  const ga_gemm_desc *d = desc;
  const bool xt = d->flags & GA_GEMM_XT, wt = d->flags & GA_GEMM_WT;
  t[0] = (tensor){P(gemm, x), d->x_dtype, xt ? d->k : d->m, xt ? d->m : d->k, d->x_stride, false, 0};
  t[1] = (tensor){P(gemm, w), d->w_dtype, wt ? d->k : d->n, wt ? d->n : d->k, d->w_stride, false, 0};
  t[2] = (tensor){P(gemm, y), d->y_dtype, d->m, d->n, d->y_stride, false, 0};
  t[3] = (tensor){P(gemm, bias), GA_F32, 1, d->n, 0, false, 0};
  t[4] = (tensor){P(gemm, gate), d->y_dtype, d->m, d->n, d->y_stride, false, 0};
  t[5] = (tensor){P(gemm, residual), d->y_dtype, d->m, d->n, d->y_stride, false, 0};
  t[6] = (tensor){P(gemm, x_scale), GA_F32, 1, d->scales == 2 ? (d->k + 127) / 128 * d->m : 1, 0, false, 0};
  t[7] = (tensor){P(gemm, w_scale), GA_F32, (d->n + 127) / 128, (d->k + 127) / 128, (d->k + 127) / 128, false, 0};
  if (d->scales == 1) t[7].rows = t[7].width = t[7].stride = 1;
  return 8;
}

static const field sample_fields[] = {D(sample, vocab, SIZE, 1, 600),
                                      D(sample, temperature, FACTOR, 0, 0),
                                      D(sample, top_p, FACTOR, 0, 0),
                                      D(sample, min_p, FACTOR, 0, 0),
                                      D(sample, typical_p, FACTOR, 0, 0),
                                      D(sample, repetition_penalty, FACTOR, 0, 0),
                                      D(sample, presence_penalty, FACTOR, 0, 0),
                                      D(sample, frequency_penalty, FACTOR, 0, 0),
                                      D(sample, top_k, NUMBER, 0, 40)};
enum { HISTORY = 7 };
static int sample_tensors(const void *desc, tensor *t) {
  const ga_sample_desc *d = desc;
  t[0] = (tensor){P(sample, logits), GA_F32, 1, d->vocab, 0, false, 0};
  t[1] = (tensor){P(sample, history), GA_I32, 1, HISTORY, 0, false, d->vocab};
  t[2] = (tensor){P(sample, bias), GA_I32, 1, 2 * HISTORY, 0, false, d->vocab};
  t[3] = (tensor){P(sample, rng), GA_I64, 1, 4, 0, false, 0};
  t[4] = (tensor){P(sample, id), GA_I32, 1, 1, 0, false, 0};
  t[5] = (tensor){P(sample, logprob), GA_F32, 1, 1, 0, true, 0};
  return 6;
}

static const field attn_fields[] = {D(attn, batch, SIZE, 0, 2),
                                    D(attn, max_q, SIZE, 0, 9),
                                    D(attn, max_kv, SIZE, 0, 20),
                                    D(attn, q_heads, NUMBER, 1, 4),
                                    D(attn, kv_heads, NUMBER, 1, 2),
                                    D(attn, head_dim, NUMBER, 1, 40),
                                    D(attn, v_dim, NUMBER, 0, 0),
                                    D(attn, q_dtype, TYPE, 0, 0),
                                    D(attn, kv_dtype, TYPE, 0, 0),
                                    D(attn, o_dtype, TYPE, 0, 0),
                                    D(attn, flags, FLAGS, 0, 57),
                                    D(attn, window, NUMBER, 0, 9),
                                    D(attn, page_size, NUMBER, 0, 0),
                                    D(attn, scale, FACTOR, 0, 0),
                                    D(attn, softcap, FACTOR, 0, 0),
                                    D(attn, kv_segments, NUMBER, 0, 0),
                                    D(attn, q_scale_tokens, NUMBER, 0, 0),
                                    D(attn, reserved, NUMBER, 0, 0),
                                    D(attn, q_stretches, NUMBER, 0, 0),
                                    D(attn, kv_stretches, NUMBER, 0, 0)};
/* Dense and without 8-bit inputs; what else is taken is not run: -1. */
static int attn_tensors(const void *desc, tensor *t) {
  const ga_attn_desc *d = desc;
  const uint32_t dense = GA_ATTN_CAUSAL | GA_ATTN_LSE | GA_ATTN_SINKS | GA_ATTN_ALIBI;
  if (d->flags & ~dense || d->kv_segments || d->q_stretches || d->kv_dtype == GA_E4M3) return -1;
  const int64_t q = d->batch * d->max_q * d->q_heads, kv = d->batch * d->max_kv * d->kv_heads;
  t[0] = (tensor){P(attn, q), d->q_dtype, q, d->head_dim, d->head_dim, false, 0};
  t[1] = (tensor){P(attn, k), d->kv_dtype, kv, d->head_dim, d->head_dim, false, 0};
  t[2] = (tensor){P(attn, v), d->kv_dtype, kv, d->v_dim, d->v_dim, false, 0};
  t[3] = (tensor){P(attn, o), d->o_dtype, q, d->v_dim, d->v_dim, false, 0};
  t[4] = (tensor){P(attn, lse), GA_F32, 1, q, 0, false, 0};
  t[5] = (tensor){P(attn, sinks), GA_F32, 1, d->q_heads, 0, false, 0};
  t[6] = (tensor){P(attn, alibi), GA_F32, 1, d->q_heads, 0, false, 0};
  return 7;
}

static const field attn_bwd_fields[] = {
    D(attn_bwd, batch, SIZE, 0, 2),      D(attn_bwd, max_q, SIZE, 0, 9),       D(attn_bwd, max_kv, SIZE, 0, 20),
    D(attn_bwd, total_q, NUMBER, 0, 0),  D(attn_bwd, total_kv, NUMBER, 0, 0),  D(attn_bwd, q_heads, NUMBER, 1, 4),
    D(attn_bwd, kv_heads, NUMBER, 1, 2), D(attn_bwd, head_dim, NUMBER, 1, 40), D(attn_bwd, v_dim, NUMBER, 0, 0),
    D(attn_bwd, dtype, TYPE, 0, 0),      D(attn_bwd, grad_dtype, TYPE, 0, 0),  D(attn_bwd, flags, FLAGS, 0, 25),
    D(attn_bwd, window, NUMBER, 0, 9),   D(attn_bwd, scale, FACTOR, 0, 0),     D(attn_bwd, softcap, FACTOR, 0, 0)};
static int attn_bwd_tensors(const void *desc, tensor *t) {
  const ga_attn_bwd_desc *d = desc;
  if (d->flags & GA_ATTN_VARLEN) return -1;
  const int64_t q = d->batch * d->max_q * d->q_heads, kv = d->batch * d->max_kv * d->kv_heads, k = d->head_dim,
                v = d->v_dim;
  const tensor all[] = {{P(attn_bwd, q), d->dtype, q, k, k, false, 0},
                        {P(attn_bwd, k), d->dtype, kv, k, k, false, 0},
                        {P(attn_bwd, v), d->dtype, kv, v, v, false, 0},
                        {P(attn_bwd, o), d->dtype, q, v, v, false, 0},
                        {P(attn_bwd, dout), d->dtype, q, v, v, false, 0},
                        {P(attn_bwd, lse), GA_F32, 1, q, 0, false, 0},
                        {P(attn_bwd, dq), d->grad_dtype, q, k, k, false, 0},
                        {P(attn_bwd, dk), d->grad_dtype, kv, k, k, false, 0},
                        {P(attn_bwd, dv), d->grad_dtype, kv, v, v, false, 0},
                        {P(attn_bwd, dsinks), GA_F32, 1, d->q_heads, 0, false, 0},
                        {P(attn_bwd, sinks), GA_F32, 1, d->q_heads, 0, false, 0},
                        {P(attn_bwd, alibi), GA_F32, 1, d->q_heads, 0, false, 0}};
  memcpy(t, all, sizeof all);
  return (int)GA_COUNT_OF(all);
}

static const field attn_quant_fields[] = {
    D(attn_quant, batch, SIZE, 0, 2),       D(attn_quant, tokens, SIZE, 0, 9),    D(attn_quant, heads, NUMBER, 1, 3),
    D(attn_quant, dim, NUMBER, 1, 40),      D(attn_quant, x_dtype, TYPE, 0, 0),   D(attn_quant, kind, NUMBER, 0, 1),
    D(attn_quant, hadamard, NUMBER, 0, 0),  D(attn_quant, rot_dim, NUMBER, 0, 0), D(attn_quant, pairs, NUMBER, 0, 1),
    D(attn_quant, magnitude, FACTOR, 0, 0), D(attn_quant, centre, NUMBER, 0, 0)};
static int attn_quant_tensors(const void *desc, tensor *t) {
  const ga_attn_quant_desc *d = desc;
  const int64_t rows = d->batch * d->heads, padded = (d->tokens + 127) / 128 * 128;
  const int64_t scales = d->scale_tokens ? (d->tokens + d->scale_tokens - 1) / d->scale_tokens : 1;
  t[0] = (tensor){P(attn_quant, x), d->x_dtype, rows * d->tokens, d->dim, d->dim, false, 0};
  t[1] = (tensor){
      P(attn_quant, y), GA_U8, rows * d->dim, d->kind ? padded : d->tokens, d->kind ? padded : d->tokens, false, 0};
  t[2] = (tensor){P(attn_quant, scale), GA_F32, rows, scales, scales, false, 0};
  t[3] = (tensor){P(attn_quant, positions), GA_I32, d->batch, d->tokens, d->tokens, false, 1 << 20};
  t[4] = (tensor){P(attn_quant, inv_freq), GA_F32, 1, d->rot_dim / 2, 0, false, 0};
  t[5] = (tensor){P(attn_quant, mean), GA_F32, rows, d->dim, d->dim, false, 0};
  return 6;
}

static const field route_fields[] = {
    D(route, tokens, SIZE, 0, 5),       D(route, logits_stride, STRIDE, 0, 0), D(route, vocab, SIZE, 0, 3),
    D(route, n_experts, NUMBER, 1, 12), D(route, top_k, NUMBER, 1, 4),         D(route, scores, NUMBER, 0, 3),
    D(route, n_groups, NUMBER, 0, 2),   D(route, top_k_groups, NUMBER, 0, 2),  D(route, group_score, NUMBER, 0, 1),
    D(route, renorm, NUMBER, 1, 2),     D(route, norm_eps, FACTOR, 0, 0),      D(route, scale, FACTOR, 0, 0),
    D(route, flags, FLAGS, 0, 1)};
static int route_tensors(const void *desc, tensor *t) {
  const ga_route_desc *d = desc;
  const int64_t slots = d->tokens * d->top_k;
  t[0] = (tensor){P(route, logits), GA_F32, d->tokens, d->n_experts, d->logits_stride, false, 0};
  t[1] = (tensor){P(route, bias), GA_F32, 1, d->n_experts, 0, true, 0};
  t[2] = (tensor){P(route, expert_scale), GA_F32, 1, d->n_experts, 0, true, 0};
  t[3] = (tensor){P(route, token_ids), GA_I32, 1, d->tokens, 0, false, d->vocab};
  t[4] = (tensor){P(route, table), GA_I32, d->vocab, d->top_k, d->top_k, false, d->n_experts};
  t[5] = (tensor){P(route, experts), GA_I32, 1, slots, 0, false, 0};
  t[6] = (tensor){P(route, weights), GA_F32, 1, slots, 0, false, 0};
  t[7] = (tensor){P(route, counts), GA_I32, 1, d->n_experts, 0, false, 0};
  t[8] = (tensor){P(route, offsets), GA_I32, 1, (int64_t)d->n_experts + 1, 0, false, 0};
  t[9] = (tensor){P(route, order), GA_I32, 1, slots, 0, false, 0};
  t[10] = (tensor){P(route, place), GA_I32, 1, slots, 0, false, 0};
  return 11;
}

static const field expert_gemm_fields[] = {D(expert_gemm, tokens, SIZE, 0, 4),
                                           D(expert_gemm, n, SIZE, 0, 20),
                                           D(expert_gemm, k, SIZE, 0, 40),
                                           D(expert_gemm, x_stride, STRIDE, 0, 0),
                                           D(expert_gemm, y_stride, STRIDE, 0, 0),
                                           D(expert_gemm, expert_rows, SIZE, 0, 0),
                                           D(expert_gemm, n_experts, NUMBER, 1, 6),
                                           D(expert_gemm, top_k, NUMBER, 1, 3),
                                           D(expert_gemm, form, NUMBER, 0, 1),
                                           D(expert_gemm, w_dtype, TYPE, 0, 1),
                                           D(expert_gemm, w_layout, NUMBER, 0, 0),
                                           D(expert_gemm, act, NUMBER, 0, 0),
                                           D(expert_gemm, clamp, NUMBER, 0, 0),
                                           D(expert_gemm, flags, FLAGS, 0, 31),
                                           D(expert_gemm, reserved, NUMBER, 0, 0),
                                           D(expert_gemm, x_dtype, NUMBER, GA_F32, GA_F32),
                                           D(expert_gemm, y_dtype, NUMBER, GA_F32, GA_F32)};
/* Native stacks; what else is taken is not run: -1. */
static int expert_gemm_tensors(const void *desc, tensor *t) {
  const ga_expert_gemm_desc *d = desc;
  if (d->w_layout != GA_LAYOUT_NATIVE) return -1;
  const bool in = d->form == GA_EXPERT_IN;
  const int64_t slots = d->tokens * d->top_k, rows = d->n_experts * d->expert_rows;
  t[0] = (tensor){P(expert_gemm, x), d->x_dtype, in ? d->tokens : slots, d->k, d->x_stride, false, 0};
  t[1] = (tensor){P(expert_gemm, w), d->w_dtype, rows, d->k, d->k, false, 0};
  t[2] = (tensor){P(expert_gemm, w_gate), d->w_dtype, rows, d->k, d->k, false, 0};
  t[3] = (tensor){P(expert_gemm, bias), GA_F32, 1, rows, 0, false, 0};
  t[4] = (tensor){P(expert_gemm, bias_gate), GA_F32, 1, rows, 0, false, 0};
  t[5] = (tensor){P(expert_gemm, y), d->y_dtype, in ? slots : d->tokens, d->n, d->y_stride, false, 0};
  t[6] = (tensor){P(expert_gemm, residual), d->y_dtype, d->tokens, d->n, d->y_stride, false, 0};
  t[7] = (tensor){P(expert_gemm, experts), GA_I32, 1, slots, 0, false, d->n_experts};
  t[8] = (tensor){P(expert_gemm, weights), GA_F32, 1, slots, 0, false, 0};
  t[9] = (tensor){P(expert_gemm, offsets), GA_I32, 1, (int64_t)d->n_experts + 1, 0, false, slots + 1};
  t[10] = (tensor){P(expert_gemm, order), GA_I32, 1, slots, 0, false, slots};
  t[11] = (tensor){P(expert_gemm, place), GA_I32, 1, slots, 0, false, slots};
  return 12;
}

/* Packed sequences and pages: planned, not run. */
static const field mla_fields[] = {
    D(mla, batch, SIZE, 0, 2),         D(mla, max_q, SIZE, 0, 9),       D(mla, max_kv, SIZE, 0, 20),
    D(mla, q_stride, STRIDE, 0, 0),    D(mla, o_stride, STRIDE, 0, 0),  D(mla, lse_stride, STRIDE, 0, 0),
    D(mla, q_heads, NUMBER, 1, 4),     D(mla, head_dim, NUMBER, 8, 40), D(mla, v_dim, NUMBER, 1, 8),
    D(mla, q_dtype, TYPE, 0, 0),       D(mla, kv_dtype, TYPE, 0, 0),    D(mla, o_dtype, TYPE, 0, 0),
    D(mla, page_size, NUMBER, 1, 128), D(mla, flags, FLAGS, 0, 3),      D(mla, scale, FACTOR, 0, 0),
    D(mla, reserved, NUMBER, 0, 0)};
static int mla_tensors(const void *desc, tensor *t) {
  (void)desc, (void)t;
  return -1;
}

static const field mla_store_fields[] = {
    D(mla_store, tokens, SIZE, 0, 5),      D(mla_store, slots, SIZE, 0, 9),     D(mla_store, x_stride, STRIDE, 0, 0),
    D(mla_store, v_dim, NUMBER, 1, 40),    D(mla_store, rot_dim, NUMBER, 0, 8), D(mla_store, pairs, NUMBER, 0, 1),
    D(mla_store, x_dtype, TYPE, 0, 0),     D(mla_store, kv_dtype, TYPE, 0, 0),  D(mla_store, norm_eps, FACTOR, 0, 0),
    D(mla_store, magnitude, FACTOR, 0, 0), D(mla_store, reserved, NUMBER, 0, 0)};
static int mla_store_tensors(const void *desc, tensor *t) {
  const ga_mla_store_desc *d = desc;
  const int64_t row = (int64_t)d->v_dim + d->rot_dim;
  t[0] = (tensor){P(mla_store, x), d->x_dtype, d->tokens, row, d->x_stride, false, 0};
  t[1] = (tensor){P(mla_store, norm), GA_F32, 1, d->v_dim, 0, true, 0};
  t[2] = (tensor){P(mla_store, slot), GA_I32, 1, d->tokens, 0, false, d->slots};
  t[3] = (tensor){P(mla_store, positions), GA_I32, 1, d->tokens, 0, false, 1 << 20};
  t[4] = (tensor){P(mla_store, inv_freq), GA_F32, 1, d->rot_dim / 2, 0, false, 0};
  t[5] = (tensor){P(mla_store, cache), d->kv_dtype, d->slots, row, row, false, 0};
  return 6;
}

#define OPS(X)                \
  X(norm, NORM)               \
  X(rope, ROPE)               \
  X(act, ACT)                 \
  X(add, ADD)                 \
  X(softmax, SOFTMAX)         \
  X(embed, EMBED)             \
  X(kv_store, KV_STORE)       \
  X(convert, CONVERT)         \
  X(gemm, GEMM)               \
  X(sample, SAMPLE)           \
  X(attn, ATTN)               \
  X(attn_bwd, ATTN_BWD)       \
  X(attn_quant, ATTN_QUANT)   \
  X(route, ROUTE)             \
  X(expert_gemm, EXPERT_GEMM) \
  X(mla, MLA)                 \
  X(mla_store, MLA_STORE)

#define WRAP(op, OP)                                                                                        \
  static const ga_##op##_desc op##_init = GA_##OP##_DESC_INIT;                                              \
  static ga_status plan_##op(ga_ctx *c, const void *d, ga_plan **out) { return ga_##op##_plan(c, d, out); } \
  static ga_status run_##op(const ga_plan *p, const void *io, void *workspace, ga_stream *stream) {         \
    return ga_##op##_run(p, io, workspace, stream);                                                         \
  }
OPS(WRAP)

#define CASE(op, OP)         \
  {#op,                      \
   &op##_init,               \
   sizeof(ga_##op##_desc),   \
   sizeof(ga_##op##_io),     \
   op##_fields,              \
   GA_COUNT_OF(op##_fields), \
   op##_tensors,             \
   plan_##op,                \
   run_##op},
static const op_case cases[] = {OPS(CASE)};

/* --- drawing a description --- */

static int64_t odd_int(ga_rng *rng) {
  static const int64_t limits[] = {0,
                                   1,
                                   128,
                                   1024,
                                   16384,
                                   65536,
                                   1 << 24,
                                   INT32_MAX,
                                   (int64_t)1 << 32,
                                   (int64_t)1 << 40,
                                   (int64_t)1 << 60,
                                   INT64_MAX - 2};
  const int64_t v = limits[random_below(rng, GA_COUNT_OF(limits))] + (int64_t)random_below(rng, 3) - 1;
  return random_below(rng, 4) ? v : random_below(rng, 8) ? -v : (int64_t)ga_rng_u64(rng);
}

static float factor(ga_rng *rng, bool odd) {
  static const float values[] = {0, -1, 1e-30F, 1e30F, 3.4e38F, -3.4e38F, NAN, INFINITY, -INFINITY};
  return odd ? values[random_below(rng, GA_COUNT_OF(values))] : 0.25F + 0.5F * (float)random_below(rng, 2);
}

static int32_t any_type(ga_rng *rng, bool odd, bool all) {
  static const int32_t plain[] = {GA_F32, GA_F32, GA_F16, GA_BF16};
  if (odd) return (int32_t)random_below(rng, 44) - 3;
  if (!all || random_below(rng, 2)) return plain[random_below(rng, GA_COUNT_OF(plain))];
  return random_below(rng, 5) ? GA_Q4_0 + (int32_t)random_below(rng, 14) : GA_E4M3;
}

static void draw_field(ga_rng *rng, const field *f, bool odd, unsigned char *desc) {
  const int64_t small = f->least + (int64_t)random_below(rng, (uint64_t)(f->most - f->least) + 1);
  const int64_t size = odd ? odd_int(rng) : random_below(rng, 4) ? small : small * 32 % 256;
  const int64_t stride = odd ? odd_int(rng) : random_below(rng, 8) ? 0 : (int64_t)random_below(rng, 300);
  const int32_t number = (int32_t)(odd ? odd_int(rng) : random_below(rng, 8) ? small : small * 32 % 256);
  const int32_t type = any_type(rng, odd, f->most);
  const float x = factor(rng, odd);
  const uint32_t flags = odd ? 1U << random_below(rng, 32)
                             : (uint32_t)(random_below(rng, 2) ? random_below(rng, 256) & (uint64_t)f->most : 0);
  switch (f->kind) {
  case SIZE: memcpy(desc + f->at, &size, sizeof size); break;
  case STRIDE: memcpy(desc + f->at, &stride, sizeof stride); break;
  case NUMBER: memcpy(desc + f->at, &number, sizeof number); break;
  case TYPE: memcpy(desc + f->at, &type, sizeof type); break;
  case FACTOR: memcpy(desc + f->at, &x, sizeof x); break;
  case FLAGS: memcpy(desc + f->at, &flags, sizeof flags); break;
  }
}

/* --- buffers --- */

typedef struct buffer {
  unsigned char *base;
  size_t bytes;
} buffer;

/* Bytes that it reaches over, or -1 when that is too much to try. */
static int64_t io_bytes(const tensor *t) {
  const ga_dtype_traits *info = ga_dtype_info((ga_dtype)t->dtype);
  if (!info) return -1;
  if (t->width && t->rows > ELEMENTS_MAX) return -1;
  if (t->rows <= 0 || t->width <= 0) return 0;
  const double n = (double)(t->rows - 1) * (double)t->stride + (double)t->width;
  if (n > ELEMENTS_MAX) return -1;
  return ((int64_t)n + info->block_elems - 1) / info->block_elems * info->block_bytes;
}

/* Guards before and behind, which a sanitizer lets nobody read. */
static unsigned char *make_buffer(ga_rng *rng, buffer *b, const tensor *t, size_t bytes) {
  b->bytes = bytes;
  b->base = aligned_alloc(64, (2 * GUARD + bytes + 63) / 64 * 64);
  if (!b->base) abort();
  memset(b->base, 0xA5, GUARD);
  memset(b->base + GUARD + bytes, 0xA5, GUARD);
  unsigned char *p = b->base + GUARD;
  const bool tame = random_below(rng, 4) != 0;
  for (size_t i = 0; i + 4 <= bytes; i += 4) {
    const int32_t n = t->ints
                          ? (int32_t)random_below(rng, (uint64_t)(t->ints < INT32_MAX - 2 ? t->ints : INT32_MAX - 2) +
                                                           (random_below(rng, 32) ? 1 : 2)) -
                                1
                          : 0;
    const float x = (float)random_below(rng, 1000) / 500 - 1;
    const uint32_t any = (uint32_t)ga_rng_u64(rng);
    if (t->ints)
      memcpy(p + i, &n, 4);
    else if (tame && t->dtype == GA_F32)
      memcpy(p + i, &x, 4);
    else
      memcpy(p + i, &any, 4);
  }
  for (size_t i = bytes / 4 * 4; i < bytes; i++) p[i] = (unsigned char)random_below(rng, 256);
  CLOSE(b->base, GUARD);
  CLOSE(b->base + GUARD + bytes, GUARD);
  return p;
}

static bool is_whole(const buffer *b) {
  OPEN(b->base, 2 * GUARD + b->bytes);
  for (size_t i = 0; i < GUARD; i++)
    if (b->base[i] != 0xA5 || b->base[GUARD + b->bytes + i] != 0xA5) return false;
  return true;
}

/* --- one call --- */

static volatile uint64_t seed_now;
static const char *volatile op_now = "";
static uint64_t planned, ran;

static void fail(const char *what) {
  (void)fprintf(stderr, "random_calls: seed %llu, %s: %s\n", (unsigned long long)seed_now, op_now, what);
  exit(1);
}

/* A signal or a sanitizer's report tells its seed, too. */
static void tell_seed(void) {
  char line[96];
  const int bytes = snprintf(line, sizeof line, "random_calls: seed %llu, %s\n", (unsigned long long)seed_now, op_now);
  if (write(2, line, (size_t)bytes) < 0) _exit(2);
}

#if !defined(__SANITIZE_ADDRESS__)
static void on_signal(int n) {
  tell_seed();
  _exit(n);
}
#endif

static void count_status(ga_status status) {
  if (status != GA_OK && !ga_error_text()[0]) fail("an error without a text");
}

/* What packing says that W takes; -1: too much to try. */
static int64_t packed_w_bytes(const ga_plan *plan, int64_t native) {
  const ga_gemm_desc *g = (const void *)plan->desc;
  ga_pack_desc d = GA_PACK_DESC_INIT;
  uint64_t bytes;
  if (g->w_layout == GA_LAYOUT_NATIVE || native < 0) return native;
  d.n = g->n;
  d.k = g->k;
  d.w_dtype = g->w_dtype;
  d.w_layout = g->w_layout;
  if (ga_pack_bytes(plan->ctx, &d, &bytes) != GA_OK) fail("packed weights that nothing packs");
  return bytes < 64 * ELEMENTS_MAX ? (int64_t)bytes : -1;
}

static void run_random(const op_case *c, const ga_plan *plan, ga_rng *rng) {
  tensor t[TENSORS];
  buffer b[TENSORS];
  int64_t bytes[TENSORS];
  GA_ALIGNED(16) unsigned char io[1024] = {0};
  const int n = c->tensors(plan->desc, t);
  for (int i = 0; i < n; i++)
    if ((bytes[i] = io_bytes(&t[i])) < 0) return;
  if (!strcmp(c->name, "gemm") && (bytes[1] = packed_w_bytes(plan, bytes[1])) < 0) return;
  if (n < 0 || ga_plan_workspace_bytes(plan) > 1 << 20) return;
  const int odd = random_below(rng, 8) ? -1 : (int)random_below(rng, (uint64_t)n);
  for (int i = 0; i < n; i++) {
    unsigned char *p = make_buffer(rng, &b[i], &t[i], (size_t)bytes[i]);
    if (t[i].may_be_null && random_below(rng, 2)) p = NULL;
    if (i == odd) p = random_below(rng, 2) ? NULL : b[i].base + GUARD - 1 - random_below(rng, 3);
    const ga_dtype_traits *info = ga_dtype_info((ga_dtype)t[i].dtype);
    if (i == odd && p && (info->is_quant || info->block_bytes == 1)) p = b[i].base + GUARD; /* any address will do */
    if (i == odd && p && (uintptr_t)p % (uintptr_t)info->block_bytes == 0) p = NULL;
    memcpy(io + t[i].at, &p, sizeof p);
  }
  if (!strcmp(c->name, "sample")) {
    ga_sample_io *s = (void *)io;
    s->n_history = s->n_bias = random_below(rng, 2)   ? HISTORY
                               : random_below(rng, 8) ? 0
                                                      : -(int64_t)random_below(rng, 9);
  }
  void *workspace = aligned_alloc(256, (ga_plan_workspace_bytes(plan) + 511) / 256 * 256);
  if (!workspace) abort();
  count_status(c->run(plan, io, workspace, NULL));
  ran++;
  free(workspace);
  for (int i = 0; i < n; i++) {
    if (!is_whole(&b[i])) fail("wrote beyond a buffer");
    free(b[i].base);
  }
}

static void call(ga_ctx *ctx, uint64_t seed) {
  GA_ALIGNED(16) unsigned char desc[DESC_MAX] = {0};
  ga_rng rng;
  ga_plan *plan;
  seed_now = seed;
  ga_rng_seed(&rng, seed);
  const op_case *c = &cases[random_below(&rng, GA_COUNT_OF(cases))];
  op_now = c->name;
  memcpy(desc, c->init, c->desc_bytes);
  const uint64_t odd = random_below(&rng, 2) ? 0 : 1 + random_below(&rng, 2); /* fields beyond what is usual */
  for (size_t i = 0; i < c->n_fields; i++) draw_field(&rng, &c->fields[i], false, desc);
  for (uint64_t i = 0; i < odd; i++) draw_field(&rng, &c->fields[random_below(&rng, c->n_fields)], true, desc);
  if (random_below(&rng, 64) == 0) memset(desc, (int)random_below(&rng, 256), sizeof(size_t)); /* struct_size */
  const ga_status status = c->plan(ctx, desc, &plan);
  count_status(status);
  if ((status == GA_OK) != (plan != NULL)) fail("a plan and an error, or neither");
  if (!plan) return;
  planned++;
  run_random(c, plan, &rng);
  ga_plan_destroy(plan);
}

int main(int argc, char **argv) {
  const uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000,
                 first = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  ga_ctx *ctx;
  o.device = "cpu";
  o.threads = 1;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_set_death_callback(tell_seed);
#else
  static const int signals[] = {SIGFPE, SIGBUS, SIGILL, SIGSEGV, SIGABRT, SIGALRM};
  for (size_t i = 0; i < GA_COUNT_OF(signals); i++) (void)signal(signals[i], on_signal);
#endif
  if (ga_ctx_create(&o, &ctx) != GA_OK) fail(ga_error_text());
  for (uint64_t seed = first; seed < first + count; seed++) {
    if (seed % 256 == 0) (void)alarm(60);
    call(ctx, seed);
  }
  ga_ctx_destroy(ctx);
  (void)printf("%" PRIu64 " calls: %" PRIu64 " planned, %" PRIu64 " ran\n", count, planned, ran);
  return 10 * planned < count || 10 * ran < count; /* too few to mean anything */
}
