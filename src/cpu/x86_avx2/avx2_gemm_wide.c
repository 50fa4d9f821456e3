/* KERNEL    gemm_<type>_prefill_avx2_16x4: packed weights widened to 16 bits, times activations of 15 bits
 * COMPUTES  out[c][r] = sum over blocks of 32: d_x[c] * d_w[r] * ((codes[r] - offset) . q[c]) + m_w[r] * sum_x[c]
 * CONTRACT  any m and n, k a multiple of 32; integer part exact, f32 sums in order of blocks
 * DATA      X f32 -> 15 bits in the workspace, once a call: [groups of 4 columns][k / 32]
 *           8 blocks of a panel -> 16 bits and f32 scales on the stack, used for all columns
 *           vpmaddwd with 2 broadcast activations; lane = row
 * BUDGET    16 x 4 tile: 8 registers of sums, 2 of W, 1 of X; the 8 KiB of W stay in the first-level cache
 *           256 products take 16 vpmaddwd and 16 vpaddd. Two digits of 8 bits take as many vpmaddubsw and vpaddw, and
 *           twice the broadcasts, and have to be joined */
#include <string.h>

#include "cpu/x86_avx2/avx2_gemm_wide.h"
#include "cpu/x86_avx2/x16_avx2.h"
#include "cpu/x86_avx2/x16_load_avx2.h"

/* Activations of a block and `cols` columns, dwords: q [16 steps][cols], d [cols], sum [2 runs][cols]. */
#define ACT_DWORDS(cols) (19 * (cols))

#define CHUNK_PANELS 4 /* a piece of work has at most so many */

typedef struct wide_job {
  const ga_gemm_desc *desc;
  const ga_gemm_io *io;
  const ga_wide_impl *impl;
  const ga_x16_format *format;
  int32_t *acts; /* [groups of columns][k / 32][ACT_DWORDS(columns of the group)] */
  float *sums;   /* [threads][m][16] */
  int64_t panels, panel_bytes, chunk;
} wide_job;

/* --- weights --- */

GA_INLINE void keep_words(int16_t *to, int part, __m256i x) {
  _mm256_store_si256((__m256i *)(void *)(to + 16 * part), x);
}

/* The signed scale of run `run` of 8 rows (q6_k, q3_k), in both words of each dword. */
GA_INLINE __m256i scale_words(const uint8_t *head, int64_t at, int run, int part) {
  const __m256i scale = _mm256_cvtepi8_epi32(x16_load_bytes(head + 32 + 32 * at + 16 * run, part));
  return _mm256_shuffle_epi8(
      scale, _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13)));
}

/* scale[run]: what codes are multiplied with, when folds. */
GA_INLINE void widen_part(const x16_block *w, int part, const int folds, const int offset, const __m256i scale[2],
                          ga_wide_block *out) {
  const __m256i off = _mm256_set1_epi16((short)offset), low = _mm256_set1_epi16(255);
  GA_UNROLL for (int t = 0; t < 8; t++) {
    __m256i even = _mm256_sub_epi16(_mm256_and_si256(w->q[t], low), off),
            odd = _mm256_sub_epi16(_mm256_srli_epi16(w->q[t], 8), off);
    if (folds) {
      even = _mm256_mullo_epi16(even, scale[t / 4]);
      odd = _mm256_mullo_epi16(odd, scale[t / 4]);
    }
    keep_words(out->w[2 * t], part, even);
    keep_words(out->w[2 * t + 1], part, odd);
  }
}

/* Types of two runs whose scales are integers and have no minimum: at most 32 x 128 with them, which 15-bit activations
 * multiply to below 2^31 in a block. */
enum {
  FOLDS_q6_k = 1,
  FOLDS_q3_k = 1,
  FOLDS_q2_k = 0,
  FOLDS_q4_0 = 0,
  FOLDS_q4_1 = 0,
  FOLDS_q5_0 = 0,
  FOLDS_q5_1 = 0,
  FOLDS_q8_0 = 0,
  FOLDS_q4_k = 0,
  FOLDS_q5_k = 0,
  FOLDS_iq4_nl = 0,
  FOLDS_iq4_xs = 0,
  FOLDS_mxfp4 = 0,
  FOLDS_nvfp4 = 0
};

/* Constant after inlining: all but panel, k, first, n and out. */
GA_INLINE void widen_blocks(x16_loader load, const int group, const int head_bytes, const int record_bytes,
                            const int runs, const int folds, const int offset, const int has_min, const uint8_t *panel,
                            int64_t k, int64_t first, int64_t n, ga_wide_block *out) {
  const int64_t heads = (k / 32 + group - 1) / group;
  const uint8_t *record = panel + ((heads * head_bytes + 63) & ~(int64_t)63) + first * record_bytes;
  for (int64_t b = first; b < first + n; b++, record += record_bytes, out++) {
    const uint8_t *head = panel + b / group * head_bytes;
    GA_UNROLL for (int part = 0; part < 2; part++) {
      x16_block w;
      __m256i scale[2];
      load(head, record, b % group, part, &w);
      if (folds) {
        scale[0] = scale_words(head, b % group, 0, part);
        scale[1] = scale_words(head, b % group, 1, part);
        w.d[0] = x16_halves(head, part);
      }
      widen_part(&w, part, folds, offset, scale, out);
      GA_UNROLL for (int run = 0; run < 2; run++) {
        if (run == runs || (run && folds)) break;
        _mm256_store_ps(out->d[run] + 8 * part, w.d[run]);
        if (has_min) _mm256_store_ps(out->m[run] + 8 * part, w.m[run]);
      }
    }
  }
}

/* --- products --- */

GA_INLINE __m256i two(const int32_t *q) { return _mm256_set1_epi32(*q); }

/* Constant after inlining: runs, has_min, cols. */
GA_INLINE void multiply(const int runs, const int has_min, const int cols, const ga_wide_block *w, const int32_t *x,
                        int64_t n, float *out) {
  __m256 sum[GA_WIDE_COLS][2];
  GA_UNROLL for (int c = 0; c < cols; c++) {
    sum[c][0] = _mm256_load_ps(out + 16 * c);
    sum[c][1] = _mm256_load_ps(out + 16 * c + 8);
  }
  for (int64_t b = 0; b < n; b++, w++, x += ACT_DWORDS(cols)) {
    const float *d = (const float *)(const void *)(x + 16 * cols), *total = d + cols;
    GA_UNROLL for (int run = 0; run < runs; run++) {
      __m256i dot[GA_WIDE_COLS][2];
      GA_UNROLL for (int c = 0; c < cols; c++) dot[c][0] = dot[c][1] = _mm256_setzero_si256();
      GA_UNROLL_2 for (int s = 16 / runs * run; s < 16 / runs * (run + 1); s++) {
        const __m256i w0 = _mm256_load_si256((const __m256i *)(const void *)w->w[s]),
                      w1 = _mm256_load_si256((const __m256i *)(const void *)(w->w[s] + 16));
        GA_UNROLL for (int c = 0; c < cols; c++) {
          const __m256i q = two(x + s * cols + c);
          dot[c][0] = _mm256_add_epi32(dot[c][0], _mm256_madd_epi16(w0, q));
          dot[c][1] = _mm256_add_epi32(dot[c][1], _mm256_madd_epi16(w1, q));
        }
      }
      GA_UNROLL for (int c = 0; c < cols; c++) {
        const __m256 dx = _mm256_set1_ps(d[c]);
        GA_UNROLL for (int part = 0; part < 2; part++) {
          const __m256 scale = _mm256_mul_ps(_mm256_load_ps(w->d[run] + 8 * part), dx);
          sum[c][part] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot[c][part]), scale, sum[c][part]);
          if (has_min)
            sum[c][part] = _mm256_fmadd_ps(_mm256_load_ps(w->m[run] + 8 * part), _mm256_set1_ps(total[run * cols + c]),
                                           sum[c][part]);
        }
      }
    }
  }
  GA_UNROLL for (int c = 0; c < cols; c++) {
    _mm256_store_ps(out + 16 * c, sum[c][0]);
    _mm256_store_ps(out + 16 * c + 8, sum[c][1]);
  }
}

/* --- activations --- */

/* Elements of a step in the order of ga_wide_block: 0 2 1 3. */
GA_INLINE __m256i pair_steps(__m256i words) {
  return _mm256_shuffle_epi8(
      words, _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15)));
}

/* 16 dwords of two vectors of 8 words' pairs, to out[s * cols]: the packs work in halves, so that steps come as 0 2 | 1
 * 3 of 8 elements. */
GA_INLINE void store_steps(__m256i first, __m256i second, int64_t cols, int32_t *out) {
  GA_ALIGNED(32) int32_t q[8];
  _mm256_store_si256((__m256i *)(void *)q, pair_steps(_mm256_packs_epi32(first, second)));
  static const int step[8] = {0, 1, 4, 5, 2, 3, 6, 7};
  for (int i = 0; i < 8; i++) out[step[i] * cols] = q[i];
}

GA_INLINE int32_t sum_lanes(__m256i a) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

GA_INLINE uint32_t max_lanes(__m256i a) {
  __m128i m = _mm_max_epu32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4e));
  return (uint32_t)_mm_cvtsi128_si32(_mm_max_epu32(m, _mm_shuffle_epi32(m, 0xb1)));
}

/* One block of one column, as ga_x16_quantise rounds it. */
static void round_block(int runs, const float *x, int64_t cols, int32_t *out) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256 v[4];
  __m256i q[4], most_bits = _mm256_setzero_si256();
  for (int i = 0; i < 4; i++) {
    v[i] = _mm256_loadu_ps(x + 8 * i);
    most_bits = _mm256_max_epu32(most_bits, _mm256_and_si256(_mm256_castps_si256(v[i]), magnitude));
  }
  const uint32_t bits = max_lanes(most_bits); /* as integers NaN is above everything */
  const float most = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128((int)bits)));
  const bool tiny = bits < 0x0d800000u; /* 2^-100 */
  const __m256 inverse = _mm256_set1_ps(tiny ? 0.0f : GA_X16_STEPS / most);
  for (int i = 0; i < 4; i++) /* the conversion makes an infinity or NaN the smallest integer */
    q[i] = _mm256_max_epi32(_mm256_set1_epi32(-16256), _mm256_cvtps_epi32(_mm256_mul_ps(v[i], inverse)));
  store_steps(q[0], q[1], cols, out);
  store_steps(q[2], q[3], cols, out + 8 * cols);
  const float d = tiny ? 0.0f : most / GA_X16_STEPS;
  const int32_t s0 = sum_lanes(_mm256_add_epi32(q[0], q[1])), s1 = sum_lanes(_mm256_add_epi32(q[2], q[3]));
  float *floats = (float *)(void *)(out + 16 * cols);
  floats[0] = d;
  floats[cols] = d * (float)(runs == 2 ? s0 : s0 + s1);
  floats[2 * cols] = d * (float)s1;
}

/* Columns of the group that starts at column c. */
GA_INLINE int64_t wide_cols(int64_t m, int64_t c) { return ga_min_i64(GA_WIDE_COLS, m - c); }

static void round_columns(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const wide_job *job = arg;
  const ga_gemm_desc *d = job->desc;
  const int64_t blocks = d->k / 32;
  for (int64_t i = begin; i < end; i++) {
    const int64_t c = i / GA_WIDE_COLS * GA_WIDE_COLS, cols = wide_cols(d->m, c);
    const float *x = (const float *)job->io->x + i * d->x_stride;
    int32_t *to = job->acts + c * blocks * ACT_DWORDS(1) + (i - c);
    for (int64_t b = 0; b < blocks; b++) round_block(job->format->runs, x + 32 * b, cols, to + b * ACT_DWORDS(cols));
  }
}

/* --- scheduling --- */

static void multiply_wide(const wide_job *job, int64_t panel, float *sums) {
  const ga_gemm_desc *d = job->desc;
  const uint8_t *w = (const uint8_t *)job->io->w + panel * job->panel_bytes;
  const int64_t col = panel * GA_X16_ROWS, width = ga_min_i64(GA_X16_ROWS, d->n - col), blocks = d->k / 32;
  GA_ALIGNED(64) ga_wide_block wide[GA_WIDE_BLOCKS];
  memset(sums, 0, (size_t)d->m * GA_X16_ROWS * sizeof *sums);
  for (int64_t b = 0; b < blocks; b += GA_WIDE_BLOCKS) {
    const int64_t n = ga_min_i64(GA_WIDE_BLOCKS, blocks - b);
    job->impl->unpack(w, d->k, b, n, wide);
    for (int64_t c = 0; c < d->m; c += GA_WIDE_COLS) {
      const int64_t cols = wide_cols(d->m, c);
      job->impl->micro[cols](wide, job->acts + c * blocks * ACT_DWORDS(1) + b * ACT_DWORDS(cols), n,
                             sums + c * GA_X16_ROWS);
    }
  }
  ga_x16_epilogue_avx2(d, job->io, 0, d->m, col, width, sums, GA_X16_ROWS);
}

static void multiply_chunk(void *arg, int64_t i, int thread) {
  const wide_job *job = arg;
  const int64_t end = ga_min_i64((i + 1) * job->chunk, job->panels);
  for (int64_t p = i * job->chunk; p < end; p++) multiply_wide(job, p, job->sums + thread * job->desc->m * GA_X16_ROWS);
}

static uint64_t act_bytes(const ga_gemm_desc *d) {
  uint64_t bytes;
  const bool fits = ga_mul_ok((uint64_t)(d->k / 32) * ACT_DWORDS(1) * sizeof(int32_t), (uint64_t)d->m, &bytes);
  return fits && ga_add_ok(bytes, 63, &bytes) ? bytes & ~(uint64_t)63 : UINT64_MAX;
}

uint64_t ga_cpu_gemm_wide_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel;
  const ga_gemm_desc *d = desc;
  const uint64_t threads = caps->threads > 1 ? (uint64_t)caps->threads : 1;
  uint64_t bytes;
  if (!ga_mul_ok(threads * GA_X16_ROWS * sizeof(float), (uint64_t)d->m, &bytes)) return UINT64_MAX;
  return ga_add_ok(bytes, act_bytes(d), &bytes) ? bytes : UINT64_MAX;
}

ga_status ga_cpu_gemm_wide(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                           ga_stream *stream) {
  wide_job job = {.desc = desc, .io = io, .impl = kernel->impl, .format = ga_x16_format_of(kernel->dtype[0])};
  const ga_gemm_desc *d = desc;
  if (d->m == 0 || d->n == 0) return GA_OK;
  job.acts = workspace;
  job.sums = (float *)(void *)((uint8_t *)workspace + act_bytes(d));
  job.panels = ga_div_up(d->n, GA_X16_ROWS);
  job.panel_bytes = x16_panel_bytes(job.format, d->k);
  ga_pool *pool = cpu_gemm_is_small(d) ? NULL : cpu_pool(stream);
  const int threads = pool ? ga_pool_threads(pool) : 1;
  job.chunk = ga_max_i64(1, ga_min_i64(CHUNK_PANELS, ga_div_up(job.panels, 4 * threads)));
  ga_pool_run_ranges(pool, d->m, 1, round_columns, &job);
  ga_pool_run(pool, ga_div_up(job.panels, job.chunk), multiply_chunk, &job);
  return GA_OK;
}

/* --- types --- */

#define MICRO(runs, has_min, cols)                                                                                    \
  static void multiply_##runs##_##has_min##_##cols(const ga_wide_block *w, const int32_t *x, int64_t n, float *out) { \
    multiply(runs, has_min, cols, w, x, n, out);                                                                      \
  }
#define MICROS(runs, has_min) \
  MICRO(runs, has_min, 1)     \
  MICRO(runs, has_min, 2)     \
  MICRO(runs, has_min, 3)     \
  MICRO(runs, has_min, 4)
MICROS(1, 0)
MICROS(1, 1)
MICROS(2, 0)
MICROS(2, 1)

#define FOLDED_RUNS(name, runs) (FOLDS_##name ? 1 : (runs))
#define MICRO_OF(name, runs, has_min, cols) \
  (FOLDED_RUNS(name, runs) == 1 ? multiply_1_##has_min##_##cols : multiply_2_##has_min##_##cols)

#define IMPL(name, group, head, record, runs, offset, has_min, most)                                                  \
  static void widen_##name(const uint8_t *panel, int64_t k, int64_t first, int64_t n, ga_wide_block *out) {           \
    widen_blocks(x16_load_##name, group, head, record, runs, FOLDS_##name, offset, has_min, panel, k, first, n, out); \
  }                                                                                                                   \
  const ga_wide_impl ga_wide_##name##_avx2 = {.unpack = widen_##name,                                                 \
                                              .micro = {[1] = MICRO_OF(name, runs, has_min, 1),                       \
                                                        [2] = MICRO_OF(name, runs, has_min, 2),                       \
                                                        [3] = MICRO_OF(name, runs, has_min, 3),                       \
                                                        [4] = MICRO_OF(name, runs, has_min, 4)}};
GA_X16_QUANTS(IMPL)
