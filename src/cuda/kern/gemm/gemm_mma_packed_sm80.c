#include "base/mem.h"
#include "base/status.h"
#include "core/cost.h"
#include "cuda/kern/gemm/gemm.h"

#define MMA_PACKED_COLS 8 /* rows of X a launch takes */
#define COUNTERS        (CUDA_COUNTER_BYTES / (int64_t)sizeof(int32_t))

/* How a launch is cut. */
typedef struct mma_packed_shape {
  int64_t tiles, units, splits, groups, copies, slots, x_units, shared_bytes;
} mma_packed_shape;

/* X in bf16 and its sums, of so many units. */
static int64_t x_bytes(const cuda_unit *u, int64_t units, int64_t copies) {
  const int64_t groups = units * u->k / 32, runs = u->dtype == GA_Q2_K ? 2 : 1;
  return groups * copies * 64 +
         (cuda_gemm_has_min(u->dtype) ? groups * runs * ga_min_i64(copies, MMA_PACKED_COLS) * 4 : 0);
}

/* Tiles that a run of units which one warp sums may touch. */
static int64_t slots_of(const mma_packed_shape *s, int64_t warps) {
  const int64_t most = ga_div_up(s->units, s->splits), least = s->units / s->splits;
  const int64_t run = ga_div_up(ga_div_up(s->tiles, s->groups) * most, warps);
  return (run + least - 2) / least + 1;
}

/* X gets at most two thirds of shared memory: k is cut into parts until it fits. Then rows into groups, one a
 * multiprocessor. All of it follows from m, so that with GA_GEMM_INVARIANT every launch is cut as one of 8. */
static mma_packed_shape shape_of(const ga_kernel *k, const ga_gemm_desc *d, const ga_caps *caps) {
  const int64_t warps = ((const cuda_variant *)k->impl)->threads / 32;
  const cuda_unit *u = cuda_unit_of(d->w_dtype);
  const int64_t m = d->flags & GA_GEMM_INVARIANT ? MMA_PACKED_COLS : ga_min_i64(d->m, MMA_PACKED_COLS),
                limit = caps->smem_bytes - 1024; /* static shared memory */
  mma_packed_shape s = {.tiles = ga_div_up(d->n, GA_PACKED_ROWS), .units = ga_div_up(d->k, u->k), .splits = 1};
  s.copies = m <= 1 ? 2 : m <= 2 ? 4 : m <= 4 ? 8 : 16;
  while (s.splits < s.units && x_bytes(u, ga_div_up(s.units, s.splits), s.copies) > limit / 3 * 2) s.splits++;
  s.x_units = ga_div_up(s.units, s.splits);
  s.groups = ga_max_i64(1, ga_min_i64(s.tiles, caps->sms / s.splits));
  for (;; s.groups = ga_min_i64(s.tiles, 2 * s.groups)) {
    s.slots = slots_of(&s, warps);
    s.shared_bytes =
        x_bytes(u, s.x_units, s.copies) + warps * s.slots * GA_PACKED_ROWS * MMA_PACKED_COLS * (int64_t)sizeof(float);
    if (s.shared_bytes <= limit || s.groups >= s.tiles) return s;
  }
}

const char *cuda_gemm_mma_packed_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_gemm_desc *d = desc;
  const char *refusal = cuda_gemm_packed_refusal(k, d);
  if (refusal) return refusal;
  if (ga_gemm_one_product(desc)) return ga_gemm_one_product(desc);
  if (d->n > (int64_t)1 << 28 || d->k > (int64_t)1 << 28) return "n or k is too large";
  if (d->m == 0 || d->n == 0) return NULL;
  const mma_packed_shape s = shape_of(k, d, caps);
  if (s.shared_bytes > (int64_t)caps->smem_bytes - 1024) return "shared memory is too small";
  return s.splits > 1 && s.groups > COUNTERS ? "too many parts" : NULL;
}

/* W is read once for each 8 rows of X. */
double cuda_gemm_mma_packed_cost(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_gemm_desc *d = desc;
  const ga_dtype_traits *t = ga_dtype_info((ga_dtype)d->w_dtype);
  const ga_work work = {.bytes = (double)d->n * (double)d->k * t->block_bytes / t->block_elems};
  return (double)ga_div_up(d->m, MMA_PACKED_COLS) * ga_work_us(&work, caps) * 100 / k->speed;
}

uint64_t cuda_gemm_mma_packed_workspace(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_gemm_desc *d = desc;
  if (d->m == 0 || d->n == 0) return 0;
  const mma_packed_shape s = shape_of(k, d, caps);
  return s.splits == 1 ? 0 : (uint64_t)(s.splits * MMA_PACKED_COLS * s.tiles * GA_PACKED_ROWS) * sizeof(float);
}

ga_status cuda_gemm_mma_packed(const ga_kernel *k, const void *desc, const void *io, void *workspace,
                               ga_stream *stream) {
  const ga_gemm_desc *d = desc;
  const ga_gemm_io *a = io;
  const cuda_variant *v = k->impl;
  if (d->m == 0 || d->n == 0) return GA_OK;
  GA_TRY(cuda_gemm_check_io(stream, k, d, a, 16));
  for (int64_t row = 0; row < d->m; row += MMA_PACKED_COLS) { /* W is read once for each 8 rows of X */
    ga_gemm_desc piece = *d;
    piece.m = ga_min_i64(MMA_PACKED_COLS, d->m - row);
    const mma_packed_shape s = shape_of(k, &piece, &stream->device->caps);
    ga_kargs_gemm args = cuda_gemm_kargs(&piece, a);
    args.x = (const float *)a->x + row * d->x_stride;
    args.y = (float *)a->y + row * d->y_stride;
    if (args.gate) args.gate = (const float *)a->gate + row * d->y_stride;
    if (args.residual) args.residual = (const float *)a->residual + row * d->y_stride;
    args.partial = workspace;
    args.counter = (int32_t *)(uintptr_t)cuda_counters_of(stream);
    args.splits = (int32_t)s.splits;
    args.groups = (int32_t)s.groups;
    args.tiles = (int32_t)s.tiles;
    args.units = (int32_t)s.units;
    args.copies = (int32_t)s.copies;
    args.slots = (int32_t)s.slots;
    args.x_units = (int32_t)s.x_units;
    const cuda_launch l = {.grid = {(uint32_t)(s.groups * s.splits), 1, 1},
                           .block = {v->threads, 1, 1},
                           .shared_bytes = (uint32_t)s.shared_bytes,
                           .dependent = true};
    GA_TRY(cuda_enqueue(stream, k, &l, &args));
  }
  return GA_OK;
}
