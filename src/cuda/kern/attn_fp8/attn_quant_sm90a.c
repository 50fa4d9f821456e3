#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "cuda/kern/attn_fp8/attn_fp8_args.h"
#include "cuda/kern/attn_fp8/attn_fp8_sm90a.h"
#include "opdef/attn_fp8.h"

#define ALIGN_BYTES 16
#define MOST_UNITS  ((int64_t)1 << 30) /* their index is 32-bit, with room for a grid */
/* Of the means' step: columns of a unit; blocks of a unit at most, a cluster; tokens of a block that pay for its start.
 * */
#define MEANS_COLUMNS 64
#define MEANS_PARTS   8
#define MEANS_TOKENS  512

static int64_t quant_units_of(const ga_attn_quant_desc *d) {
  uint64_t pairs, units;
  if (!ga_mul_ok((uint64_t)d->batch, (uint64_t)d->heads, &pairs)) return INT64_MAX;
  return ga_mul_ok(pairs, (uint64_t)ga_div_up(d->tokens, GA_ATTN_FP8_BLOCK), &units) && units < INT64_MAX
             ? (int64_t)units
             : INT64_MAX;
}

const char *cuda_attn_quant_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_attn_quant_desc *d = desc;
  const cuda_attn_quant_variant *v = k->impl;
  if (d->x_dtype != (int32_t)k->dtype[0]) return "x_dtype is another";
  if (d->y_dtype != (int32_t)k->dtype[1]) return "y_dtype is another";
  if (d->kind != v->kind) return v->kind == GA_ATTN_QUANT_VALUES ? "values alone" : "rows alone";
  if (d->dim != v->d) return "dim is another";
  if (quant_units_of(d) > MOST_UNITS || d->tokens > MOST_UNITS)
    return "too many tokens: at most 2^30 blocks of 128, of all heads";
  if (d->centre && d->tokens && d->batch * d->heads > INT32_MAX / MEANS_PARTS / (d->dim / MEANS_COLUMNS))
    return "too many heads for their means: at most 2^31 columns / 8";
  return NULL;
}

static ga_status check_strides(const ga_kernel *k, const char *name, const ga_attn_strides *s, int64_t step) {
  GA_REQUIRE(s->batch >= 0 && s->token >= 0 && s->head >= 0 && s->batch % step == 0 && s->token % step == 0 &&
                 s->head % step == 0,
             GA_ERR_ARG, "%s: %s has strides %lld, %lld, %lld; must be multiples of %lld", k->id, name,
             (long long)s->batch, (long long)s->token, (long long)s->head, (long long)step);
  return GA_OK;
}

static ga_status check_tensors(ga_stream *stream, const ga_kernel *k, const ga_attn_quant_io *a) {
  GA_TRY(cuda_check_pointer(stream, k, "x", a->x, ALIGN_BYTES));
  GA_TRY(cuda_check_pointer(stream, k, "y", a->y, ALIGN_BYTES));
  GA_TRY(cuda_check_pointer(stream, k, "scale", a->scale, sizeof(float)));
  GA_TRY(cuda_check_pointer(stream, k, "given", a->given.data, sizeof(float)));
  GA_TRY(cuda_check_pointer(stream, k, "positions", a->positions, sizeof(int32_t)));
  GA_TRY(cuda_check_pointer(stream, k, "inv_freq", a->inv_freq, sizeof(float)));
  GA_TRY(cuda_check_pointer(stream, k, "mean", a->mean, sizeof(float)));
  GA_TRY(check_strides(k, "x", &a->x_stride, ALIGN_BYTES / 2));
  return check_strides(k, "y", &a->y_stride, ALIGN_BYTES);
}

/* As ga_kargs_attn_quant has them: of 32 dims the even ones in the lower half of a word, both halves backwards. */
static void fill_signs(uint32_t seed, uint32_t *word, int32_t dim) {
  uint64_t sign[GA_ATTN_FP8_DIM_MAX / 64];
  ga_attn_quant_signs(seed, sign);
  for (int32_t i = 0; i < dim; i++)
    word[i / 32] |= (uint32_t)(sign[i / 64] >> i % 64 & 1) << (15 - i % 32 / 2 + i % 2 * 16);
}

static ga_kargs_attn_quant args_of(const ga_attn_quant_desc *d, const ga_attn_quant_io *a) {
  ga_kargs_attn_quant args = {.x = a->x,
                              .y = a->y,
                              .scale = a->scale,
                              .given = a->given.data,
                              .positions = a->positions,
                              .inv_freq = a->inv_freq,
                              .x_batch = a->x_stride.batch,
                              .x_token = a->x_stride.token,
                              .x_head = a->x_stride.head,
                              .y_batch = a->y_stride.batch,
                              .y_token = a->y_stride.token,
                              .y_head = a->y_stride.head,
                              .given_batch = a->given.batch,
                              .given_head = a->given.head,
                              .tokens = (int32_t)d->tokens,
                              .heads = d->heads,
                              .blocks = d->scale_tokens ? (int32_t)ga_div_up(d->tokens, d->scale_tokens) : 0,
                              .units_per_head = (int32_t)ga_div_up(d->tokens, GA_ATTN_FP8_BLOCK),
                              .units = (int32_t)quant_units_of(d),
                              .scale_tokens = d->scale_tokens,
                              .hadamard = d->hadamard,
                              .rot_dim = d->rot_dim,
                              .pairs = d->pairs,
                              .magnitude = d->magnitude,
                              .centre = d->centre,
                              .mean = a->mean};
  fill_signs(d->seed, args.sign, d->dim);
  return args;
}

/* Before the values, which read what it writes. */
static ga_status launch_means(const ga_plan_step *step, const void *desc, const void *io, void *workspace,
                              ga_stream *stream) {
  (void)workspace;
  const ga_attn_quant_desc *d = desc;
  const cuda_variant *v = step->row->impl;
  GA_TRY(check_tensors(stream, step->chosen, io));
  ga_kargs_attn_quant args = args_of(d, io);
  args.parts = 1;
  while (args.parts < MEANS_PARTS && d->tokens > (int64_t)args.parts * MEANS_TOKENS) args.parts *= 2;
  args.units_per_head = d->dim / MEANS_COLUMNS;
  args.units = (int32_t)(d->batch * d->heads * args.units_per_head);
  const cuda_launch l = {.grid = {(uint32_t)(args.units * args.parts), 1, 1},
                         .block = {v->threads, 1, 1},
                         .cluster = {(uint32_t)args.parts, 1, 1},
                         .shared_bytes = v->shared_bytes,
                         .dependent = true};
  return cuda_enqueue(stream, step->row, &l, &args);
}

ga_status cuda_attn_quant(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_attn_quant_desc *d = desc;
  const cuda_attn_quant_variant *v = k->impl;
  GA_TRY(check_tensors(stream, k, io));
  const ga_kargs_attn_quant args = args_of(d, io);
  const int64_t most = (int64_t)stream->device->caps.sms * v->blocks;
  const cuda_launch l = {.grid = {(uint32_t)ga_min_i64(args.units, most), 1, 1},
                         .block = {v->base.threads, 1, 1},
                         .shared_bytes = v->base.shared_bytes,
                         .dependent = true};
  return cuda_enqueue(stream, k, &l, &args);
}

const char *cuda_attn_quant_plan(const ga_kernel *k, const void *desc, ga_plan_steps *steps) {
  const ga_attn_quant_desc *d = desc;
  if (d->batch == 0 || d->tokens == 0) return NULL;
  const char *why =
      d->centre ? ga_plan_steps_add(steps, ((const cuda_attn_quant_variant *)k->impl)->means, launch_means, 0) : NULL;
  return why ? why : ga_plan_steps_add(steps, k, NULL, 0);
}
