/* KERNEL    gemm_<type>_any_avx2_16x4: packed weights times activations of 15 bits
 * COMPUTES  out[c][r] = sum over blocks of 32: d_x[c] * (d_w[r] * (codes[r] - offset) . q[c]) + m_w[r] * sum_x[c],
 *           q = 128 high + low
 * CONTRACT  one panel of 16 rows, 1 to 4 columns, k a multiple of 32; integer part exact, f32 sums in order of blocks.
 *           Blocks that share a head are summed first, then times its d. Every number of columns has the same bits.
 * DATA      32-byte loads of codes -> bytes -> vpmaddubsw with 4 broadcast activations; as many steps are added in 16
 *           bits as cannot overflow, then vpmaddwd with ones: lane = row
 *           Codes of 8 bits would overflow in one step: they are widened to 16 bits and take q as it is, by vpmaddwd
 *           One column takes both halves of the rows together, so that an activation is broadcast once */
#include "cpu/x86_avx2/x16_avx2.h"
#include "cpu/x86_avx2/x16_load_avx2.h"

/* Bytes ahead of the record that are asked for, as in avx512_gemm_x16.c. */
#define PREFETCH 3072

/* How the codes of a type are read by one column: bits of a code, TABLE for places in a table, 0 by its loader. */
enum { TABLE = 9 };
enum {
  KIND_q4_0 = 4,
  KIND_q4_1 = 4,
  KIND_q4_k = 4,
  KIND_q5_0 = 5,
  KIND_q5_1 = 5,
  KIND_q5_k = 5,
  KIND_q6_k = 6,
  KIND_q8_0 = 8,
  KIND_iq4_nl = TABLE,
  KIND_iq4_xs = TABLE,
  KIND_q2_k = 0,
  KIND_q3_k = 0,
  KIND_mxfp4 = 0,
  KIND_nvfp4 = 0
};

GA_INLINE __m256i four(const int8_t *digits, int t) {
  int32_t q;
  memcpy(&q, digits + 4 * t, sizeof q);
  return _mm256_set1_epi32(q);
}

/* Steps of codes up to `most` whose pairs of products, 2 * 127 * most each, fit in 16 bits together: 8, 4, 2 or 0. */
#define STEPS(most) ((most)*254 * 8 <= 32767 ? 8 : (most)*254 * 4 <= 32767 ? 4 : (most)*254 * 2 <= 32767 ? 2 : 0)

/* sum + 128 high + low of pairs in 16 bits. */
GA_INLINE __m256i join_digits(__m256i high, __m256i low, __m256i sum) {
  sum = _mm256_add_epi32(sum, _mm256_madd_epi16(high, _mm256_set1_epi16(128)));
  return _mm256_add_epi32(sum, _mm256_madd_epi16(low, _mm256_set1_epi16(1)));
}

/* Adds the products of step t, codes of 8 bits with words as ga_x16_quantise_avx2 puts them. */
GA_INLINE __m256i dot_wide(__m256i codes, const ga_x16_act *x, int t, __m256i sum) {
  const __m256i even = _mm256_and_si256(codes, _mm256_set1_epi16(255)), odd = _mm256_srli_epi16(codes, 8);
  sum = _mm256_add_epi32(sum, _mm256_madd_epi16(even, four(x->high, 2 * t)));
  return _mm256_add_epi32(sum, _mm256_madd_epi16(odd, four(x->high, 2 * t + 1)));
}

/* Adds the products of steps from .. from + n - 1 (4 or 8 of them) to sum. */
GA_INLINE __m256i dot_run(const int most, const int from, const int n, const x16_block *w, const ga_x16_act *x,
                          __m256i sum) {
  const int fit = STEPS(most) ? STEPS(most) : 1, together = fit < n ? fit : n, parts = n / together;
  GA_UNROLL for (int p = 0; p < parts; p++) {
    __m256i high = _mm256_setzero_si256(), low = high;
    GA_UNROLL for (int i = 0; i < together; i++) {
      const int t = from + p * together + i;
      if (STEPS(most)) {
        high = _mm256_add_epi16(high, _mm256_maddubs_epi16(w->q[t], four(x->high, t)));
        low = _mm256_add_epi16(low, _mm256_maddubs_epi16(w->q[t], four(x->low, t)));
      } else {
        sum = dot_wide(w->q[t], x, t, sum);
      }
    }
    if (STEPS(most)) sum = join_digits(high, low, sum);
  }
  return sum;
}

/* --- one column, both halves of the rows --- */

/* Codes of steps t and t + 4. */
GA_INLINE void two_codes(const int kind, const uint8_t *record, int t, int part, __m256i *first, __m256i *second) {
  const __m256i v = x16_codes(record + (kind == 5 ? 64 : kind == 6 ? 128 : 0), t, part);
  *first = x16_low(v);
  *second = x16_high(v);
  if (kind == 5) {
    const __m256i h = x16_codes(record, 0, part);
    *first = x16_insert(*first, h, t, 4, 16);
    *second = x16_insert(*second, h, t + 4, 4, 16);
  }
  if (kind == 6) {
    *first = x16_insert(*first, x16_codes(record, 0, part), 2 * t, 4, 48);
    *second = x16_insert(*second, x16_codes(record, 1, part), 2 * t, 4, 48);
  }
  if (kind == TABLE) {
    *first = x16_lookup(x16_iq4_table(), *first);
    *second = x16_lookup(x16_iq4_table(), *second);
  }
}

/* Codes of 4, 5 and 6 bits: dot[run]. `together` steps t, and as many t + 4, fit in 16 bits: 4, or 2 of 6 bits. */
GA_INLINE void dot_narrow(const int kind, const uint8_t *record, const ga_x16_act *x, __m256i dot[2][2]) {
  const int together = kind == 6 ? 2 : 4, last = kind == 6;
  GA_UNROLL for (int from = 0; from < 4; from += together) {
    __m256i high[2][2], low[2][2]; /* [part][steps t, t + 4] */
    GA_UNROLL for (int part = 0; part < 2; part++) GA_UNROLL for (int i = 0; i < 2; i++) high[part][i] = low[part][i] =
        _mm256_setzero_si256();
    GA_UNROLL for (int t = from; t < from + together; t++) {
      const __m256i h0 = four(x->high, t), l0 = four(x->low, t), h1 = four(x->high, t + 4), l1 = four(x->low, t + 4);
      GA_UNROLL for (int part = 0; part < 2; part++) {
        __m256i first, second;
        two_codes(kind, record, t, part, &first, &second);
        const int at = kind != 4; /* all 8 steps of 4 bits fit */
        high[part][0] = _mm256_add_epi16(high[part][0], _mm256_maddubs_epi16(first, h0));
        low[part][0] = _mm256_add_epi16(low[part][0], _mm256_maddubs_epi16(first, l0));
        high[part][at] = _mm256_add_epi16(high[part][at], _mm256_maddubs_epi16(second, h1));
        low[part][at] = _mm256_add_epi16(low[part][at], _mm256_maddubs_epi16(second, l1));
      }
    }
    GA_UNROLL for (int part = 0; part < 2; part++) {
      dot[0][part] = join_digits(high[part][0], low[part][0], dot[0][part]);
      if (kind != 4) dot[last][part] = join_digits(high[part][1], low[part][1], dot[last][part]);
    }
  }
}

/* Codes of 8 bits. */
GA_INLINE void dot_bytes(const int kind, const uint8_t *record, const ga_x16_act *x, __m256i dot[2]) {
  GA_UNROLL for (int t = 0; t < 4; t++) {
    GA_UNROLL for (int part = 0; part < 2; part++) {
      __m256i first = x16_codes(record, t, part), second = x16_codes(record, t + 4, part);
      if (kind == TABLE) two_codes(kind, record, t, part, &first, &second);
      dot[part] = dot_wide(first, x, t, dot[part]);
      dot[part] = dot_wide(second, x, t + 4, dot[part]);
    }
  }
}

/* --- scales --- */

/* Sums of 8 rows: over blocks since the last head, and over heads. A head of one block needs no `total`. */
typedef struct row_sums {
  __m256 dot, min, total;
} row_sums;

/* Integer products of run `run` times the scale of q6_k; wraps, and the sum of both runs does not. */
GA_INLINE __m256i scale_q6_k(const uint8_t *head, int64_t at, int run, int part, __m256i dot) {
  const __m256i scale = _mm256_cvtepi8_epi32(x16_load_bytes(head + 32 + 32 * at + 16 * run, part));
  return _mm256_mullo_epi32(dot, scale);
}

GA_INLINE void add_block(const int group, const int has_min, const int kind, const uint8_t *head, int64_t at, int part,
                         const ga_x16_act *x, __m256i dot, row_sums *sums) {
  const __m256 products = _mm256_cvtepi32_ps(dot), dx = _mm256_set1_ps(x->d);
  __m256 scale = dx;
  if (group == 1) {
    scale = _mm256_mul_ps(x16_halves(head, part), dx);
  } else if (kind == TABLE) {
    scale = _mm256_mul_ps(x16_signed(head + 32 + 16 * at, part), dx);
  } else if (kind != 6) {
    scale = _mm256_mul_ps(x16_unsigned(head + 64 + 16 * at, part), dx);
  }
  sums->dot = _mm256_fmadd_ps(products, scale, sums->dot);
  if (has_min) {
    const __m256 total = _mm256_set1_ps(x->sum[0].f);
    const __m256 min = group == 1 ? x16_halves(head + 32, part) : x16_unsigned(head + 192 + 16 * at, part);
    sums->min = _mm256_fmadd_ps(min, total, sums->min);
  }
}

/* After the last block of a head. */
GA_INLINE void add_head(const int group, const int has_min, const uint8_t *head, int part, row_sums *sums) {
  if (group == 1) return;
  sums->total = _mm256_fmadd_ps(x16_halves(head, part), sums->dot, sums->total);
  if (has_min) sums->total = _mm256_fnmadd_ps(x16_halves(head + 32, part), sums->min, sums->total);
  sums->dot = sums->min = _mm256_setzero_ps();
}

GA_INLINE void store_sums(const int group, const int has_min, const row_sums *sums, float *out) {
  const __m256 blocks = has_min ? _mm256_add_ps(sums->dot, sums->min) : sums->dot;
  _mm256_storeu_ps(out, group == 1 ? blocks : sums->total);
}

GA_INLINE row_sums no_sums(void) { return (row_sums){_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()}; }

GA_INLINE void prefetch_record(const int record_bytes, const uint8_t *record) {
  GA_UNROLL for (int i = 0; i < record_bytes; i += 64) _mm_prefetch((const char *)record + PREFETCH + i, _MM_HINT_T0);
}

/* What the codes' offset adds to the integer products of a run. */
GA_INLINE __m256i offset_sum(const int has_min, const ga_x16_act *x, int run) {
  return has_min ? _mm256_setzero_si256() : _mm256_set1_epi32(x->sum[run].i);
}

/* --- panels --- */

/* Constant after inlining here and below: group to cols. */
GA_INLINE void dot_column(const int group, const int head_bytes, const int record_bytes, const int has_min,
                          const int kind, const uint8_t *head, const uint8_t *record, const ga_x16_act *x,
                          int64_t blocks, float *out) {
  row_sums sums[2] = {no_sums(), no_sums()};
  for (int64_t b = 0; b < blocks; b += group, head += head_bytes) {
    for (int64_t at = 0; at < group; at++, record += record_bytes, x++) {
      __m256i dot[2][2]; /* [run][part] */
      prefetch_record(record_bytes, record);
      GA_UNROLL for (int run = 0; run < 2; run++) dot[run][0] = dot[run][1] = offset_sum(has_min, x, run);
      if (kind >= 8)
        dot_bytes(kind, record, x, dot[0]);
      else
        dot_narrow(kind, record, x, dot);
      GA_UNROLL for (int part = 0; part < 2; part++) {
        if (kind == 6)
          dot[0][part] = _mm256_add_epi32(scale_q6_k(head, at, 0, part, dot[0][part]),
                                          scale_q6_k(head, at, 1, part, dot[1][part]));
        add_block(group, has_min, kind, head, at, part, x, dot[0][part], &sums[part]);
      }
    }
    GA_UNROLL for (int part = 0; part < 2; part++) add_head(group, has_min, head, part, &sums[part]);
  }
  GA_UNROLL for (int part = 0; part < 2; part++) store_sums(group, has_min, &sums[part], out + 8 * part);
}

GA_INLINE void dot_columns(x16_loader load, const int group, const int head_bytes, const int record_bytes,
                           const int runs, const int has_min, const int most, const int kind, const int cols,
                           const uint8_t *head, const uint8_t *record, const ga_x16_act *x, int64_t blocks,
                           float *out) {
  row_sums sums[2][4];
  GA_UNROLL for (int c = 0; c < cols; c++) sums[0][c] = sums[1][c] = no_sums();
  for (int64_t b = 0; b < blocks; b += group, head += head_bytes, record += group * record_bytes, x += group * cols) {
    GA_UNROLL for (int part = 0; part < 2; part++) {
      for (int64_t at = 0; at < group; at++) {
        x16_block w;
        if (part == 0) prefetch_record(record_bytes, record + at * record_bytes);
        load(head, record + at * record_bytes, at, part, &w);
        GA_UNROLL for (int c = 0; c < cols; c++) {
          const ga_x16_act *q = x + at * cols + c;
          __m256i dot = dot_run(most, 0, 8 / runs, &w, q, offset_sum(has_min, q, 0));
          if (kind == 6)
            dot =
                _mm256_add_epi32(scale_q6_k(head, at, 0, part, dot),
                                 scale_q6_k(head, at, 1, part, dot_run(most, 4, 4, &w, q, offset_sum(has_min, q, 1))));
          add_block(group, has_min, kind, head, at, part, q, dot, &sums[part][c]);
        }
      }
      GA_UNROLL for (int c = 0; c < cols; c++) add_head(group, has_min, head, part, &sums[part][c]);
    }
  }
  GA_UNROLL for (int part = 0; part < 2; part++) GA_UNROLL for (int c = 0; c < cols; c++)
      store_sums(group, has_min, &sums[part][c], out + 16 * c + 8 * part);
}

/* Types whose blocks are scaled one by one, as their loader says. */
GA_INLINE void dot_loaded(x16_loader load, const int group, const int head_bytes, const int record_bytes,
                          const int runs, const int has_min, const int most, const int cols, const uint8_t *head,
                          const uint8_t *record, const ga_x16_act *x, int64_t blocks, float *out) {
  __m256 sum[4][2];
  GA_UNROLL for (int c = 0; c < cols; c++) sum[c][0] = sum[c][1] = _mm256_setzero_ps();
  for (int64_t b = 0; b < blocks; b++, record += record_bytes, x += cols) {
    prefetch_record(record_bytes, record);
    GA_UNROLL for (int part = 0; part < 2; part++) {
      x16_block w;
      load(head + b / group * head_bytes, record, b % group, part, &w);
      GA_UNROLL for (int c = 0; c < cols; c++) {
        GA_UNROLL for (int run = 0; run < runs; run++) {
          const __m256i dot = dot_run(most, 8 / runs * run, 8 / runs, &w, &x[c], offset_sum(has_min, &x[c], run));
          sum[c][part] =
              _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), _mm256_mul_ps(w.d[run], _mm256_set1_ps(x[c].d)), sum[c][part]);
          if (has_min) sum[c][part] = _mm256_fmadd_ps(w.m[run], _mm256_set1_ps(x[c].sum[run].f), sum[c][part]);
        }
      }
    }
  }
  GA_UNROLL for (int c = 0; c < cols; c++) {
    _mm256_storeu_ps(out + 16 * c, sum[c][0]);
    _mm256_storeu_ps(out + 16 * c + 8, sum[c][1]);
  }
}

GA_INLINE void dot_quantised(x16_loader load, const int group, const int head_bytes, const int record_bytes,
                             const int runs, const int has_min, const int most, const int kind, const int cols,
                             const uint8_t *panel, const ga_x16_act *x, int64_t k, float *out) {
  const int64_t blocks = k / 32;
  const uint8_t *record = panel + ((((blocks + group - 1) / group * head_bytes) + 63) & ~(int64_t)63);
  if (!kind)
    dot_loaded(load, group, head_bytes, record_bytes, runs, has_min, most, cols, panel, record, x, blocks, out);
  else if (cols == 1)
    dot_column(group, head_bytes, record_bytes, has_min, kind, panel, record, x, blocks, out);
  else
    dot_columns(load, group, head_bytes, record_bytes, runs, has_min, most, kind, cols, panel, record, x, blocks, out);
}

#define MICRO(name, cols, group, head, record, runs, has_min, most)                                                \
  static void dot_##name##_##cols(const uint8_t *panel, const void *x, int64_t x_stride, int64_t k, float *out) {  \
    (void)x_stride;                                                                                                \
    dot_quantised(x16_load_##name, group, head, record, runs, has_min, most, KIND_##name, cols, panel, x, k, out); \
  }

#define IMPL(name, group, head, record, runs, offset, has_min, most) \
  MICRO(name, 1, group, head, record, runs, has_min, most)           \
  MICRO(name, 2, group, head, record, runs, has_min, most)           \
  MICRO(name, 3, group, head, record, runs, has_min, most)           \
  MICRO(name, 4, group, head, record, runs, has_min, most)           \
  const ga_x16_impl ga_x16_##name##_avx2 = {                         \
      .quantise = ga_x16_quantise_avx2,                              \
      .epilogue = ga_x16_epilogue_avx2,                              \
      .micro = {[1] = dot_##name##_1, [2] = dot_##name##_2, [3] = dot_##name##_3, [4] = dot_##name##_4}};
GA_X16_QUANTS(IMPL)
