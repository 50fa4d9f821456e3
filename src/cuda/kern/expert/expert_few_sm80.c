#include <math.h>

#include "base/mem.h"
#include "base/status.h"
#include "cuda/kern/expert/expert.h"
#include "cuda/kern/gemm/gemm.h"

#define MOST_GROUP_ROWS 8
#define MOST_WARPS      32
#define STATIC_BYTES    3072 /* shared memory that the kernel declares, and more */
#define SET_BYTES       (GA_PACKED_ROWS * 8 * (int64_t)sizeof(float)) /* sums of a warp for a part */
#define BLOCKS_AN_SM    3 /* where there are enough groups: so that multiprocessors end at about the same time */

/* How a launch is cut. */
typedef struct few_shape {
  int64_t tiles, units, groups, group_rows, shares, parts, slots, x_bytes, sum_bytes, shared_bytes;
} few_shape;

static bool few_is_sorted(const ga_expert_gemm_desc *d) { return d->flags & GA_EXPERT_SORTED; }
/* Returns whether an expert's rows are multiplied together. */
static bool few_has_runs(const ga_expert_gemm_desc *d) { return d->flags & (GA_EXPERT_SORTED | GA_EXPERT_IN_TURN); }
static bool few_has_token(const ga_expert_gemm_desc *d) { return d->form == GA_EXPERT_OUT && !few_is_sorted(d); }
/* Returns whether slots' results are written first, and added up by a second launch. */
static bool few_has_results(const ga_expert_gemm_desc *d) { return d->form == GA_EXPERT_OUT && few_is_sorted(d); }
static int64_t few_slots(const ga_expert_gemm_desc *d) { return d->tokens * d->top_k; }

/* X of a block in bf16, and its sums. */
static void set_x_bytes(few_shape *s, const ga_expert_gemm_desc *d) {
  const cuda_unit *u = cuda_unit_of(d->w_dtype);
  const int64_t groups = s->units * u->k / 32, copies = 2 * s->group_rows, runs = u->dtype == GA_Q2_K ? 2 : 1,
                slots = few_has_token(d) ? d->top_k : 1;
  s->x_bytes = slots * groups * copies * 64;
  s->sum_bytes = cuda_gemm_has_min(d->w_dtype) ? slots * groups * runs * ga_min_i64(copies, 8) * 4 : 0;
}

/* Sets the largest number of parts of which a warp has units, and the bytes of a block. */
static void set_shares(few_shape *s, const ga_expert_gemm_desc *d, int64_t shares, int64_t warps) {
  s->shares = ga_max_i64(1, ga_min_i64(shares, s->tiles));
  const int64_t run = ga_div_up(ga_div_up(s->tiles, s->shares) * s->parts * s->units, warps);
  s->slots = (run + s->units - 2) / s->units + 1;
  set_x_bytes(s, d);
  if (few_has_token(d)) /* where results of slots follow X */
    s->x_bytes =
        ga_max_i64(s->x_bytes, ga_div_up(s->tiles, s->shares) * GA_PACKED_ROWS * d->top_k * (int64_t)sizeof(float));
  s->shared_bytes = s->x_bytes + s->sum_bytes + warps * s->slots * SET_BYTES;
}

/* Returns how many groups there are at most: an expert's last group may have few rows. */
static int64_t few_most_groups(const ga_expert_gemm_desc *d, int64_t group_rows) {
  if (few_has_token(d)) return d->tokens;
  if (d->flags & GA_EXPERT_IN_TURN) return d->n_experts * ga_div_up(ga_div_up(d->tokens, d->n_experts), group_rows);
  if (!few_is_sorted(d)) return few_slots(d);
  return ga_min_i64(few_slots(d), few_slots(d) / group_rows + ga_min_i64(d->n_experts, few_slots(d)));
}

/* Groups get as many rows as shared memory has room for. There are as many blocks as fill the device once, or a few
 * times where that makes them end together. */
static few_shape few_shape_of(const ga_kernel *k, const ga_expert_gemm_desc *d, const ga_caps *caps) {
  const int64_t warps = ((const cuda_expert_few_variant *)k->impl)->base.threads / 32,
                limit = caps->smem_bytes - STATIC_BYTES;
  const cuda_unit *u = cuda_unit_of(d->w_dtype);
  few_shape s = {.tiles = ga_div_up(d->n, GA_PACKED_ROWS), .units = ga_div_up(d->k, u->k)};
  s.parts = few_has_token(d) ? d->top_k : d->flags & GA_EXPERT_GATED ? 2 : 1;
  for (s.group_rows = few_has_runs(d) ? MOST_GROUP_ROWS : 1;; s.group_rows /= 2) {
    set_shares(&s, d, s.tiles, warps);
    if (s.shared_bytes <= limit || s.group_rows == 1) break;
  }
  s.groups = few_most_groups(d, s.group_rows);
  const int64_t blocks = 2 * s.groups <= caps->sms ? caps->sms : BLOCKS_AN_SM * caps->sms;
  set_shares(&s, d, blocks / s.groups, warps);
  while (s.shared_bytes > limit && s.shares < s.tiles) set_shares(&s, d, 2 * s.shares, warps);
  return s;
}

const char *cuda_expert_packed_refusal(const ga_kernel *k, const ga_expert_gemm_desc *d) {
  const int64_t most = (int64_t)1 << 28;
  if (d->w_layout != (int32_t)k->layout) return "the weights have another layout";
  if (d->w_dtype != (int32_t)k->dtype[0]) return "w_dtype is another";
  if (d->x_dtype != GA_F32 || d->y_dtype != GA_F32) return "x and y must be f32";
  if (d->k == 0) return "k is 0";
  return d->n > most || d->k > most ? "n or k is too large" : NULL;
}

const char *cuda_expert_few_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_expert_gemm_desc *d = desc;
  const char *refusal = cuda_expert_packed_refusal(k, d);
  if (refusal || cuda_expert_is_empty(d)) return refusal;
  const few_shape s = few_shape_of(k, d, caps);
  if (s.shared_bytes > (int64_t)caps->smem_bytes - STATIC_BYTES) return "shared memory is too small";
  return s.groups * s.shares > INT32_MAX || s.tiles * s.parts * s.units > INT32_MAX / MOST_WARPS ? "too many rows"
                                                                                                 : NULL;
}

/* Clocks of 1.98 GHz, measured on an H200 with q4_k, mxfp4 and bf16 (docs/log/experts.md): each group reads its
 * expert's matrices, and multiplies their elements. */
double cuda_expert_few_cost(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  enum { LAUNCH = 8000, BYTES = 1800 /* a clock */, ELEMENTS = 1600 };
  const ga_expert_gemm_desc *d = desc;
  if (cuda_expert_is_empty(d)) return 0;
  const ga_dtype_traits *t = ga_dtype_info((ga_dtype)d->w_dtype);
  const double slots = (double)few_slots(d),
               groups = few_has_runs(d) ? cuda_expert_groups(d, few_shape_of(k, d, caps).group_rows) : slots,
               elements = groups * (double)d->n * (double)d->k * (d->flags & GA_EXPERT_GATED ? 2 : 1),
               bytes = elements * t->block_bytes / t->block_elems;
  return cuda_clocks_us(caps, (int64_t)(LAUNCH + fmax(bytes / BYTES, elements / ELEMENTS)));
}

const char *cuda_expert_few_plan(const ga_kernel *k, const void *desc, ga_plan_steps *steps) {
  const ga_expert_gemm_desc *d = desc;
  if (cuda_expert_is_empty(d)) return NULL;
  const char *why = ga_plan_steps_add(steps, k, NULL, 0);
  return why ? why : cuda_expert_plan_sum(((const cuda_expert_few_variant *)k->impl)->sum, d, steps);
}

ga_status cuda_expert_few(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  const ga_expert_gemm_desc *d = desc;
  const cuda_variant *v = k->impl;
  if (cuda_expert_is_empty(d)) return GA_OK;
  GA_TRY(cuda_expert_check_io(stream, k, d, io, 16));
  const few_shape s = few_shape_of(k, d, &stream->device->caps);
  ga_kargs_expert_few args = {.e = cuda_expert_kargs(d, io),
                              .tiles = (int32_t)s.tiles,
                              .units = (int32_t)s.units,
                              .group_rows = (int32_t)s.group_rows,
                              .shares = (int32_t)s.shares,
                              .slots = (int32_t)s.slots,
                              .x_bytes = (int32_t)s.x_bytes,
                              .sum_bytes = (int32_t)s.sum_bytes};
  if (few_has_results(d)) args.e.results = workspace;
  const cuda_launch l = {.grid = {(uint32_t)(s.groups * s.shares), 1, 1},
                         .block = {v->threads, 1, 1},
                         .shared_bytes = (uint32_t)s.shared_bytes,
                         .dependent = true};
  return cuda_enqueue(stream, k, &l, &args);
}
