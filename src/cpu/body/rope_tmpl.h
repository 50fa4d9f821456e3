/* KERNEL    rope, f32 rows in place
 * COMPUTES  pairs (a, b) -> (a cos - b sin, a sin + b cos), angle = position * inv_freq
 * ACCURACY  angles are computed and reduced in double. The error is 2 ulp of the larger of |a| and |b| for |angle| <
 *           2^20, where angles in f32 would be off by 2^-5. It is 2^-22 larger for larger angles
 * ORDER     one table of sines and cosines for ROPE_CHUNK pairs of a token serves all heads */
#include <math.h>

#define ROPE_CHUNK 64

typedef struct rope_table {
  /* Cosine and sine of each pair's angle. With GA_ROPE_NORM, one entry for each element: the cosine twice, the sine as
   * -s, s. */
  float cosine[2 * ROPE_CHUNK], sine[2 * ROPE_CHUNK];
} rope_table;

/* Reduces each angle position * freq[i] to r[i] in [-pi/4, pi/4] and a quadrant 0 to 3.
 *
 * Adding 1.5 * 2^52 rounds angle * 2 / pi to an integer, which is then in the low bits of the sum. pi / 2 is the sum of
 * two constants. The first has 33 bits, so that its product with an integer of 20 bits is exact. */
static void reduce_angles(int32_t position, const float *freq, int n, float *r, uint32_t *quadrant) {
  for (int i = 0; i < n; i++) {
    double angle = (double)position * (double)freq[i], shifted = angle * 0x1.45f306dc9c883p-1 /* 2 / pi */ + 0x1.8p52;
    double k = shifted - 0x1.8p52;
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    quadrant[i] = (uint32_t)bits & 3;
    r[i] = (float)((angle - k * 0x1.921fb544p0) - k * 0x1.0b4611a626331p-34);
  }
}

static void fill_rope_table(const ga_rope_desc *d, int32_t position, const float *freq, int n, rope_table *t) {
  float r[ROPE_CHUNK], s[ROPE_CHUNK], c[ROPE_CHUNK];
  uint32_t quadrant[ROPE_CHUNK];
  reduce_angles(position, freq, n, r, quadrant);
  for (int i = n; i < ROPE_CHUNK; i++) r[i] = 0;
  for (int i = 0; i < n; i += VN) {
    vf sine, cosine;
    vf_sincos_quarter(vf_load(r + i), &sine, &cosine);
    vf_store(s + i, sine);
    vf_store(c + i, cosine);
  }
  for (int i = 0; i < n; i++) {
    float sine = quadrant[i] & 1 ? c[i] : s[i], cosine = quadrant[i] & 1 ? s[i] : c[i];
    sine = d->magnitude * (quadrant[i] & 2 ? -sine : sine);
    cosine = d->magnitude * ((quadrant[i] + 1) & 2 ? -cosine : cosine);
    if (d->pairs == GA_ROPE_NEOX) {
      t->sine[i] = sine;
      t->cosine[i] = cosine;
    } else {
      t->sine[2 * i] = -sine;
      t->sine[2 * i + 1] = sine;
      t->cosine[2 * i] = t->cosine[2 * i + 1] = cosine;
    }
  }
}

/* Rotates n pairs (a[i], b[i]) by the angles of t. */
static void rope_neox(float *a, float *b, int n, const rope_table *t) {
  for (int i = 0; i < n; i += VN) {
    const int m = n - i < VN ? n - i : VN;
    vf c = vf_load(t->cosine + i), s = vf_load(t->sine + i);
    vf x = vf_load_n(a + i, m), y = vf_load_n(b + i, m);
    vf_store_n(a + i, vf_fnma(y, s, vf_mul(x, c)), m);
    vf_store_n(b + i, vf_fma(y, c, vf_mul(x, s)), m);
  }
}

/* Rotates n pairs of neighbouring elements of x by the angles of t. */
static void rope_interleaved(float *x, int n, const rope_table *t) {
  for (int i = 0; i < 2 * n; i += VN) {
    const int m = 2 * n - i < VN ? 2 * n - i : VN;
    vf v = vf_load_n(x + i, m);
    vf_store_n(x + i, vf_fma(vf_swap_pairs(v), vf_load(t->sine + i), vf_mul(v, vf_load(t->cosine + i))), m);
  }
}

static void rope_token(const ga_rope_desc *d, const ga_rope_io *a, int64_t token) {
  float *x = (float *)a->x + token * d->x_stride;
  const int half = d->rot_dim / 2;
  rope_table t;
  for (int from = 0; from < half; from += ROPE_CHUNK) {
    const int n = half - from < ROPE_CHUNK ? half - from : ROPE_CHUNK;
    fill_rope_table(d, a->positions[token], a->inv_freq + from, n, &t);
    for (int h = 0; h < d->heads; h++) {
      float *head = x + (int64_t)h * d->head_dim;
      if (d->pairs == GA_ROPE_NEOX)
        rope_neox(head + from, head + half + from, n, &t);
      else
        rope_interleaved(head + 2 * from, n, &t);
    }
  }
}

typedef struct rope_job {
  const ga_rope_desc *d;
  const ga_rope_io *a;
} rope_job;

static void rope_rows(const void *job, int64_t begin, int64_t end) {
  const rope_job *j = job;
  for (int64_t r = begin; r < end; r++) rope_token(j->d, j->a, r);
}

ga_status ISA(ga_cpu_rope)(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                           ga_stream *stream) {
  (void)kernel, (void)workspace;
  rope_job job = {.d = desc, .a = io};
  cpu_rows_run(stream, job.d->tokens, (int64_t)job.d->heads * job.d->rot_dim, rope_rows, &job);
  return GA_OK;
}
