#include "cuda/kern/gemm/gemm.h"

#include "base/mem.h"
#include "base/status.h"
#include "cuda/kern/gemm/gemm_args.h"
#include "cuda/rt/cuda.h"

#define BLOCKS_PER_SM 8 /* of 256 threads: a full multiprocessor */

static size_t bytes_of(int32_t dtype) {
  const ga_dtype_traits *t = ga_dtype_info((ga_dtype)dtype);
  return t->is_quant ? 1 : (size_t)t->block_bytes;
}

/* Of the activations: what the row asks for. */
static size_t align_of(const ga_kernel *k, int32_t dtype) { return k->align ? (size_t)k->align : bytes_of(dtype); }

ga_status cuda_gemm_check_io(ga_stream *stream, const ga_kernel *k, const ga_gemm_desc *d, const ga_gemm_io *a,
                             size_t w_align) {
  GA_TRY(cuda_check_pointer(stream, k, "x", a->x, align_of(k, d->x_dtype)));
  GA_TRY(cuda_check_pointer(stream, k, "w", a->w, w_align));
  GA_TRY(cuda_check_pointer(stream, k, "y", a->y, align_of(k, d->y_dtype)));
  if (d->flags & GA_GEMM_BIAS) GA_TRY(cuda_check_pointer(stream, k, "bias", a->bias, sizeof(float)));
  if (d->flags & GA_GEMM_GLU) GA_TRY(cuda_check_pointer(stream, k, "gate", a->gate, align_of(k, d->y_dtype)));
  if (d->flags & GA_GEMM_RESIDUAL)
    GA_TRY(cuda_check_pointer(stream, k, "residual", a->residual, align_of(k, d->y_dtype)));
  if (d->scales) GA_TRY(cuda_check_pointer(stream, k, "x_scale", a->x_scale, sizeof(float)));
  if (d->scales) GA_TRY(cuda_check_pointer(stream, k, "w_scale", a->w_scale, sizeof(float)));
  return GA_OK;
}

ga_kargs_gemm cuda_gemm_kargs(const ga_gemm_desc *d, const ga_gemm_io *a) {
  return (ga_kargs_gemm){.x = a->x,
                         .w = a->w,
                         .y = a->y,
                         .bias = d->flags & GA_GEMM_BIAS ? a->bias : NULL,
                         .gate = d->flags & GA_GEMM_GLU ? a->gate : NULL,
                         .residual = d->flags & GA_GEMM_RESIDUAL ? a->residual : NULL,
                         .m = d->m,
                         .n = d->n,
                         .k = d->k,
                         .x_stride = d->x_stride,
                         .y_stride = d->y_stride,
                         .w_dtype = d->w_dtype,
                         .x_dtype = d->x_dtype,
                         .y_dtype = d->y_dtype,
                         .act = d->act,
                         .scale = d->scale,
                         .splits = 1};
}

ga_kargs_gemm_plain cuda_gemm_plain_kargs(const ga_gemm_desc *d, const ga_gemm_io *a) {
  return (ga_kargs_gemm_plain){.g = cuda_gemm_kargs(d, a),
                               .w_stride = d->w_stride,
                               .x_scale = d->scales ? a->x_scale : NULL,
                               .w_scale = d->scales ? a->w_scale : NULL,
                               .layout = (int32_t)(d->flags & (GA_GEMM_XT | GA_GEMM_WT)),
                               .scales = d->scales};
}

/* --- weights as in the file --- */

const char *cuda_gemm_native_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)k, (void)caps;
  const ga_gemm_desc *d = desc;
  return d->w_layout == GA_LAYOUT_NATIVE ? ga_gemm_one_product(d) : "the weights are packed";
}

ga_status cuda_gemm_native(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_gemm_desc *d = desc;
  const cuda_variant *v = k->impl;
  if (d->m == 0 || d->n == 0) return GA_OK;
  GA_TRY(cuda_gemm_check_io(stream, k, d, io, bytes_of(d->w_dtype)));
  const ga_kargs_gemm_plain args = cuda_gemm_plain_kargs(d, io);
  const int64_t units = ga_div_up(d->n, v->threads / 32) * ga_div_up(d->m, 8);
  const int64_t most = (int64_t)stream->device->caps.sms * BLOCKS_PER_SM;
  const cuda_launch l = {
      .grid = {(uint32_t)ga_min_i64(units, most), 1, 1}, .block = {v->threads, 1, 1}, .dependent = true};
  return cuda_enqueue(stream, k, &l, &args);
}

/* --- 16-bit operands --- */

#define MMA_SIDE 128 /* of a tile */

const char *cuda_gemm_mma_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_gemm_desc *d = desc;
  const cuda_variant *v = k->impl;
  if (ga_gemm_one_product(d)) return ga_gemm_one_product(d);
  if (d->w_layout != GA_LAYOUT_NATIVE) return "the weights are packed";
  if (d->w_dtype != (int32_t)k->dtype[0] || d->x_dtype != (int32_t)k->dtype[1]) return "x and w must be of its dtype";
  if (d->x_stride % 8 || d->w_stride % 8 || d->y_stride % 8) return "strides must be multiples of 8";
  if (d->m > INT32_MAX / 2 || d->n > INT32_MAX / 2 || d->k > INT32_MAX / 2)
    return "too large: at most 2^30 rows, columns, k";
  if (ga_div_up(d->m, MMA_SIDE) * ga_div_up(d->n, MMA_SIDE) > INT32_MAX) return "too many tiles";
  return v->shared_bytes > caps->smem_bytes ? "shared memory is too small" : NULL;
}

ga_status cuda_gemm_mma(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_gemm_desc *d = desc;
  const cuda_variant *v = k->impl;
  if (d->m == 0 || d->n == 0) return GA_OK;
  GA_TRY(cuda_gemm_check_io(stream, k, d, io, 16));
  const ga_kargs_gemm_plain args = cuda_gemm_plain_kargs(d, io);
  const cuda_launch l = {.grid = {(uint32_t)(ga_div_up(d->m, MMA_SIDE) * ga_div_up(d->n, MMA_SIDE)), 1, 1},
                         .block = {v->threads, 1, 1},
                         .shared_bytes = v->shared_bytes,
                         .dependent = true};
  return cuda_enqueue(stream, k, &l, &args);
}

/* --- packed weights --- */

const cuda_unit *cuda_unit_of(int32_t dtype) {
  static const cuda_unit units[] = {
#define X(name, number, k, bytes) {GA_##name, k, bytes},
      GA_PACKED_TYPES(X)
#undef X
  };
#define X(name, number, k, bytes) _Static_assert(GA_##name == number, "numbers of types are pinned");
  GA_PACKED_TYPES(X)
#undef X
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
    if (units[i].dtype == dtype) return &units[i];
  return NULL;
}

const char *cuda_pack_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_pack_desc *d = desc;
  if (d->w_layout != (int32_t)k->layout) return "it makes another layout";
  return cuda_unit_of(d->w_dtype) ? NULL : "there is no packed form of this type";
}

uint64_t cuda_pack_bytes(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)k, (void)caps;
  const ga_pack_desc *d = desc;
  const cuda_unit *u = cuda_unit_of(d->w_dtype);
  return (uint64_t)ga_div_up(d->n, GA_PACKED_ROWS) * (uint64_t)ga_div_up(d->k, u->k) * (uint64_t)u->bytes;
}

ga_status cuda_pack(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_pack_desc *d = desc;
  const ga_pack_io *a = io;
  const cuda_variant *v = k->impl;
  const cuda_unit *u = cuda_unit_of(d->w_dtype);
  if (d->n == 0 || d->k == 0) return GA_OK;
  GA_TRY(cuda_check_pointer(stream, k, "src", a->src, bytes_of(d->w_dtype)));
  GA_TRY(cuda_check_pointer(stream, k, "dst", a->dst, 16));
  const ga_kargs_pack args = {.src = a->src,
                              .dst = a->dst,
                              .n = d->n,
                              .k = d->k,
                              .units = ga_div_up(d->k, u->k),
                              .w_dtype = d->w_dtype,
                              .unit_k = u->k,
                              .unit_bytes = u->bytes};
  const int64_t warps = ga_div_up(d->n, GA_PACKED_ROWS) * args.units,
                most = (int64_t)stream->device->caps.sms * BLOCKS_PER_SM;
  const cuda_launch l = {.grid = {(uint32_t)ga_min_i64(ga_div_up(warps, v->threads / 32), most), 1, 1},
                         .block = {v->threads, 1, 1}};
  return cuda_enqueue(stream, k, &l, &args);
}

int32_t cuda_gemm_fit(const ga_gemm_desc *d, const ga_caps *caps, int64_t clocks) {
  enum { RATE = 2048, MILLION = 1000000 }; /* multiply-adds a clock and multiprocessor */
  return (int32_t)(MILLION *
                   ((double)d->m * (double)d->n * (double)d->k / ((double)caps->sms * RATE * (double)clocks)));
}

#define T16_COLS 8 /* rows of X a launch takes */
#define COUNTERS (CUDA_COUNTER_BYTES / (int64_t)sizeof(int32_t))

/* How a launch is cut. */
typedef struct t16_shape {
  int64_t tiles, units, splits, groups, copies, slots, x_units, shared_bytes;
} t16_shape;

/* PACKED_MIN of dev/tile/packed.h */
static bool has_min(int32_t dtype) {
  return dtype == GA_Q4_1 || dtype == GA_Q5_1 || dtype == GA_Q4_K || dtype == GA_Q5_K || dtype == GA_Q2_K;
}

/* X in bf16 and its sums, of so many units. */
static int64_t x_bytes(const cuda_unit *u, int64_t units, int64_t copies) {
  const int64_t groups = units * u->k / 32, runs = u->dtype == GA_Q2_K ? 2 : 1;
  return groups * copies * 64 + (has_min(u->dtype) ? groups * runs * ga_min_i64(copies, T16_COLS) * 4 : 0);
}

/* Tiles that a run of units which one warp sums may touch. */
static int64_t slots_of(const t16_shape *s, int64_t warps) {
  const int64_t most = ga_div_up(s->units, s->splits), least = s->units / s->splits;
  const int64_t run = ga_div_up(ga_div_up(s->tiles, s->groups) * most, warps);
  return (run + least - 2) / least + 1;
}

/* X gets at most two thirds of shared memory: k is cut into parts until it fits. Then rows into groups, one a
 * multiprocessor. */
static t16_shape shape_of(const ga_kernel *k, const ga_gemm_desc *d, const ga_caps *caps) {
  const int64_t warps = ((const cuda_variant *)k->impl)->threads / 32;
  const cuda_unit *u = cuda_unit_of(d->w_dtype);
  const int64_t m = ga_min_i64(d->m, T16_COLS), limit = caps->smem_bytes - 1024; /* static shared memory */
  t16_shape s = {.tiles = ga_div_up(d->n, GA_PACKED_ROWS), .units = ga_div_up(d->k, u->k), .splits = 1};
  s.copies = m <= 1 ? 2 : m <= 2 ? 4 : m <= 4 ? 8 : 16;
  while (s.splits < s.units && x_bytes(u, ga_div_up(s.units, s.splits), s.copies) > limit / 3 * 2) s.splits++;
  s.x_units = ga_div_up(s.units, s.splits);
  s.groups = ga_max_i64(1, ga_min_i64(s.tiles, caps->sms / s.splits));
  for (;; s.groups = ga_min_i64(s.tiles, 2 * s.groups)) {
    s.slots = slots_of(&s, warps);
    s.shared_bytes =
        x_bytes(u, s.x_units, s.copies) + warps * s.slots * GA_PACKED_ROWS * T16_COLS * (int64_t)sizeof(float);
    if (s.shared_bytes <= limit || s.groups >= s.tiles) return s;
  }
}

const char *cuda_gemm_packed_refusal(const ga_kernel *k, const ga_gemm_desc *d) {
  if (d->w_layout != (int32_t)k->layout) return "the weights have another layout";
  if (d->w_dtype != (int32_t)k->dtype[0]) return "w_dtype is another";
  if (d->x_dtype != GA_F32 || d->y_dtype != GA_F32) return "x and y must be f32";
  if (d->flags & GA_GEMM_XT) return "x must have k contiguous";
  return d->k == 0 ? "k is 0" : NULL;
}

const char *cuda_gemm_t16_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_gemm_desc *d = desc;
  const char *refusal = cuda_gemm_packed_refusal(k, d);
  if (refusal) return refusal;
  if (ga_gemm_one_product(d)) return ga_gemm_one_product(d);
  if (d->n > (int64_t)1 << 28 || d->k > (int64_t)1 << 28) return "n or k is too large";
  if (d->m == 0 || d->n == 0) return NULL;
  const t16_shape s = shape_of(k, d, caps);
  if (s.shared_bytes > (int64_t)caps->smem_bytes - 1024) return "shared memory is too small";
  return s.splits > 1 && s.groups > COUNTERS ? "too many parts" : NULL;
}

uint64_t cuda_gemm_t16_workspace(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_gemm_desc *d = desc;
  if (d->m == 0 || d->n == 0) return 0;
  const t16_shape s = shape_of(k, d, caps);
  return s.splits == 1 ? 0 : (uint64_t)(s.splits * T16_COLS * s.tiles * GA_PACKED_ROWS) * sizeof(float);
}

ga_status cuda_gemm_t16(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  const ga_gemm_desc *d = desc;
  const ga_gemm_io *a = io;
  const cuda_variant *v = k->impl;
  if (d->m == 0 || d->n == 0) return GA_OK;
  GA_TRY(cuda_gemm_check_io(stream, k, d, a, 16));
  for (int64_t row = 0; row < d->m; row += T16_COLS) { /* W is read once for each 8 rows of X */
    ga_gemm_desc piece = *d;
    piece.m = ga_min_i64(T16_COLS, d->m - row);
    const t16_shape s = shape_of(k, &piece, &stream->device->caps);
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
