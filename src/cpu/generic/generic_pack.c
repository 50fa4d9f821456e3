/* Native weights into GA_LAYOUT_X16 (src/cpu/cpu_pack.h), by plain 32-bit arithmetic on 4 codes at a time: a few bytes
 * a clock, which is faster than a disk or page cache delivers them. */
#include <string.h>

#include "base/status.h"
#include "cpu/cpu_pack.h"

static const ga_x16_format formats[] = {
    /* dtype    step group head record runs offset min */
    {GA_F32, 1, 1, 0, 64, 1, 0, false},          {GA_F16, 1, 1, 0, 32, 1, 0, false},
    {GA_BF16, 2, 1, 0, 64, 1, 0, false},         {GA_Q4_0, 32, 1, 32, 256, 1, 8, false},
    {GA_Q4_1, 32, 1, 64, 256, 1, 0, true},       {GA_Q5_0, 32, 1, 32, 320, 1, 16, false},
    {GA_Q5_1, 32, 1, 64, 320, 1, 0, true},       {GA_Q8_0, 32, 1, 32, 512, 1, 128, false},
    {GA_IQ4_NL, 32, 1, 32, 256, 1, 128, false},  {GA_MXFP4, 32, 1, 16, 256, 1, 12, false},
    {GA_NVFP4, 32, 1, 32, 256, 2, 12, false},    {GA_Q4_K, 32, 8, 320, 256, 1, 0, true},
    {GA_Q5_K, 32, 8, 320, 320, 1, 0, true},      {GA_Q6_K, 32, 8, 288, 384, 2, 32, false},
    {GA_Q2_K, 32, 8, 320, 128, 2, 0, true},      {GA_Q3_K, 32, 8, 288, 192, 2, 4, false},
    {GA_IQ4_XS, 32, 8, 160, 256, 1, 128, false},
};

const ga_x16_format *ga_x16_format_of(ga_dtype dtype) {
  for (size_t i = 0; i < GA_COUNT_OF(formats); i++)
    if (formats[i].dtype == dtype) return &formats[i];
  return NULL;
}

static uint32_t load_u32(const uint8_t *p) {
  uint32_t x;
  memcpy(&x, p, sizeof x);
  return x;
}
/* Vector v, dword of row r. */
static void put_u32(uint8_t *vectors, int v, int r, uint32_t x) { memcpy(vectors + 64 * v + 4 * r, &x, sizeof x); }
/* The f16 of row r in vector-of-16 number i of a head. */
static void put_half(uint8_t *head, int i, int r, const uint8_t *half) { memcpy(head + 32 * i + 2 * r, half, 2); }

/* Bytes of 16 codes pairs as q4_0 has them: already in order. */
static void put_nibbles(uint8_t *v, int r, const uint8_t *qs) {
  for (int t = 0; t < 4; t++) put_u32(v, t, r, load_u32(qs + 4 * t));
}

/* Nibble `shift` (0 or 4) of 32 bytes. */
static void put_plane(uint8_t *v, int r, const uint8_t *qs, int shift) {
  for (int t = 0; t < 4; t++)
    put_u32(v, t, r,
            (load_u32(qs + 4 * t) >> shift & 0x0f0f0f0fu) | (load_u32(qs + 16 + 4 * t) >> shift & 0x0f0f0f0fu) << 4);
}

/* Bits `shift` and `shift + 1` of 32 bytes into H0 and H1. */
static void put_pairs(uint8_t *h, int r, const uint8_t *q, int shift) {
  for (int half = 0; half < 2; half++) {
    uint32_t x = 0;
    for (int t = 0; t < 4; t++) x |= (load_u32(q + 16 * half + 4 * t) >> shift & 0x03030303u) << 2 * t;
    put_u32(h, half, r, x);
  }
}

/* Bit `shift` of 32 bytes into H. */
static void put_bits(uint8_t *h, int r, const uint8_t *q, int shift) {
  uint32_t x = 0;
  for (int t = 0; t < 8; t++) x |= (load_u32(q + 4 * t) >> shift & 0x01010101u) << t;
  put_u32(h, 0, r, x);
}

/* Bit 4t + j of a word to bit t of byte j: for each j, every fourth bit is gathered by halving the gaps. */
static uint32_t transpose_bits(uint32_t word) {
  uint32_t out = 0;
  for (int j = 0; j < 4; j++) {
    uint32_t x = word >> j & 0x11111111u;
    x = (x | x >> 3) & 0x03030303u;
    x = (x | x >> 6) & 0x000f000fu;
    x = (x | x >> 12) & 0xffu;
    out |= x << 8 * j;
  }
  return out;
}

/* Scale and minimum j of the 8 pairs of 6 bits. */
static void put_six_bits(uint8_t *scales, uint8_t *mins, int r, const uint8_t *s) {
  for (int j = 0; j < 4; j++) {
    scales[16 * j + r] = s[j] & 63;
    mins[16 * j + r] = s[j + 4] & 63;
    scales[16 * (j + 4) + r] = (uint8_t)((s[j + 8] & 15) | (s[j] >> 6) << 4);
    mins[16 * (j + 4) + r] = (uint8_t)(s[j + 8] >> 4 | (s[j + 4] >> 6) << 4);
  }
}

/* --- one native block of row r: head and first record --- */

static void pack_4(const uint8_t *b, int r, uint8_t *head, uint8_t *rec) {
  put_half(head, 0, r, b);
  put_nibbles(rec, r, b + 2);
}

static void pack_q4_1(const uint8_t *b, int r, uint8_t *head, uint8_t *rec) {
  put_half(head, 0, r, b);
  put_half(head, 1, r, b + 2);
  put_nibbles(rec, r, b + 4);
}

static void pack_q5_0(const uint8_t *b, int r, uint8_t *head, uint8_t *rec) {
  put_half(head, 0, r, b);
  put_u32(rec, 0, r, transpose_bits(load_u32(b + 2)));
  put_nibbles(rec + 64, r, b + 6);
}

static void pack_q5_1(const uint8_t *b, int r, uint8_t *head, uint8_t *rec) {
  put_half(head, 0, r, b);
  put_half(head, 1, r, b + 2);
  put_u32(rec, 0, r, transpose_bits(load_u32(b + 4)));
  put_nibbles(rec + 64, r, b + 8);
}

static void pack_q8_0(const uint8_t *b, int r, uint8_t *head, uint8_t *rec) {
  put_half(head, 0, r, b);
  for (int t = 0; t < 8; t++) put_u32(rec, t, r, load_u32(b + 2 + 4 * t) ^ 0x80808080u);
}

static void pack_mxfp4(const uint8_t *b, int r, uint8_t *head, uint8_t *rec) {
  head[r] = b[0];
  put_nibbles(rec, r, b + 1);
}

/* Two records; a run of 16 elements has 8 bytes, low nibbles first. */
static void pack_nvfp4(const uint8_t *b, int r, uint8_t *head, uint8_t *rec) {
  for (int i = 0; i < 2; i++, head += 32, rec += 256) {
    const uint8_t *q = b + 4 + 16 * i;
    for (int run = 0; run < 2; run++) {
      uint8_t s = b[2 * i + run] & 0x7f;
      head[16 * run + r] = s == 0x7f ? 0 : s;
    }
    for (int t = 0; t < 2; t++) {
      uint32_t first = load_u32(q + 4 * t), second = load_u32(q + 8 + 4 * t);
      put_u32(rec, t, r, (first & 0x0f0f0f0fu) | (second & 0x0f0f0f0fu) << 4);
      put_u32(rec, t + 2, r, (first >> 4 & 0x0f0f0f0fu) | (second & 0xf0f0f0f0u));
    }
  }
}

static void pack_q4_k(const uint8_t *b, int r, uint8_t *head, uint8_t *rec) {
  put_half(head, 0, r, b);
  put_half(head, 1, r, b + 2);
  put_six_bits(head + 64, head + 192, r, b + 4);
  for (int j = 0; j < 8; j++) put_plane(rec + 256 * j, r, b + 16 + 32 * (j / 2), 4 * (j & 1));
}

static void pack_q5_k(const uint8_t *b, int r, uint8_t *head, uint8_t *rec) {
  put_half(head, 0, r, b);
  put_half(head, 1, r, b + 2);
  put_six_bits(head + 64, head + 192, r, b + 4);
  for (int j = 0; j < 8; j++) {
    put_bits(rec + 320 * j, r, b + 16, j);
    put_plane(rec + 320 * j + 64, r, b + 48 + 32 * (j / 2), 4 * (j & 1));
  }
}

static void pack_q6_k(const uint8_t *b, int r, uint8_t *head, uint8_t *rec) {
  put_half(head, 0, r, b + 208);
  for (int i = 0; i < 16; i++) head[32 + 16 * i + r] = b[192 + i];
  for (int j = 0; j < 8; j++) {
    put_pairs(rec + 384 * j, r, b + 128 + 32 * (j / 4), 2 * (j % 4));
    put_plane(rec + 384 * j + 128, r, b + 64 * (j / 4) + 32 * (j & 1), j % 4 < 2 ? 0 : 4);
  }
}

static void pack_q2_k(const uint8_t *b, int r, uint8_t *head, uint8_t *rec) {
  put_half(head, 0, r, b + 80);
  put_half(head, 1, r, b + 82);
  for (int i = 0; i < 16; i++) head[64 + 16 * i + r] = b[i];
  for (int j = 0; j < 8; j++) put_pairs(rec + 128 * j, r, b + 16 + 32 * (j / 4), 2 * (j % 4));
}

static void pack_q3_k(const uint8_t *b, int r, uint8_t *head, uint8_t *rec) {
  const uint8_t *s = b + 96;
  put_half(head, 0, r, b + 108);
  for (int i = 0; i < 16; i++) {
    int low = i < 8 ? s[i] & 15 : s[i - 8] >> 4, high = s[8 + (i & 3)] >> 2 * (i >> 2) & 3;
    head[32 + 16 * i + r] = (uint8_t)(int8_t)((low | high << 4) - 32);
  }
  for (int j = 0; j < 8; j++) {
    put_pairs(rec + 192 * j, r, b + 32 + 32 * (j / 4), 2 * (j % 4));
    put_bits(rec + 192 * j + 128, r, b, j);
  }
}

static void pack_iq4_xs(const uint8_t *b, int r, uint8_t *head, uint8_t *rec) {
  int high = b[2] | b[3] << 8;
  put_half(head, 0, r, b);
  for (int j = 0; j < 8; j++) {
    int scale = (b[4 + j / 2] >> 4 * (j & 1) & 15) | (high >> 2 * j & 3) << 4;
    head[32 + 16 * j + r] = (uint8_t)(int8_t)(scale - 32);
    put_nibbles(rec + 256 * j, r, b + 8 + 16 * j);
  }
}

typedef void (*pack_fn)(const uint8_t *block, int r, uint8_t *head, uint8_t *rec);

static pack_fn packer_of(ga_dtype dtype) {
  switch (dtype) {
  case GA_Q4_0:
  case GA_IQ4_NL: return pack_4;
  case GA_Q4_1: return pack_q4_1;
  case GA_Q5_0: return pack_q5_0;
  case GA_Q5_1: return pack_q5_1;
  case GA_Q8_0: return pack_q8_0;
  case GA_MXFP4: return pack_mxfp4;
  case GA_NVFP4: return pack_nvfp4;
  case GA_Q4_K: return pack_q4_k;
  case GA_Q5_K: return pack_q5_k;
  case GA_Q6_K: return pack_q6_k;
  case GA_Q2_K: return pack_q2_k;
  case GA_Q3_K: return pack_q3_k;
  case GA_IQ4_XS: return pack_iq4_xs;
  default: return NULL;
  }
}

/* Plain types: elements of `bytes` each, `step` of a row side by side. */
static void pack_plain(const ga_x16_format *f, const uint8_t *rows, int n_rows, int64_t k, uint8_t *panel) {
  int bytes = f->record_bytes / GA_X16_ROWS / f->step;
  for (int r = 0; r < n_rows; r++) {
    const uint8_t *row = rows + r * k * bytes;
    for (int64_t i = 0; i < k; i++)
      memcpy(panel + i / f->step * f->record_bytes + (r * f->step + i % f->step) * bytes, row + i * bytes,
             (size_t)bytes);
  }
}

typedef struct pack_job {
  const ga_pack_desc *desc;
  const ga_pack_io *io;
  const ga_x16_format *format;
} pack_job;

static void pack_panel(const pack_job *job, int64_t panel) {
  const ga_x16_format *f = job->format;
  const ga_dtype_traits *t = ga_dtype_info(f->dtype);
  int64_t k = job->desc->k, blocks = k / t->block_elems, row_bytes = blocks * t->block_bytes;
  int64_t records = t->block_elems / f->step; /* of a native block */
  int n_rows = (int)ga_min_i64(GA_X16_ROWS, job->desc->n - panel * GA_X16_ROWS);
  const uint8_t *rows = (const uint8_t *)job->io->src + panel * GA_X16_ROWS * row_bytes;
  uint8_t *to = (uint8_t *)job->io->dst + panel * x16_panel_bytes(f, k), *recs = to + x16_head_bytes(f, k);
  pack_fn pack = packer_of(f->dtype);
  /* No byte is left as it was: the same weights give the same bytes. */
  int64_t head = ga_div_up(x16_records(f, k), f->group) * f->head_bytes;
  if (n_rows < GA_X16_ROWS || !pack)
    memset(to, 0, (size_t)x16_panel_bytes(f, k));
  else
    memset(to + head, 0, (size_t)(x16_head_bytes(f, k) - head));
  if (!pack) {
    pack_plain(f, rows, n_rows, k, to);
    return;
  }
  for (int64_t b = 0; b < blocks; b++)
    for (int r = 0; r < n_rows; r++)
      pack(rows + r * row_bytes + b * t->block_bytes, r, to + b * records / f->group * f->head_bytes,
           recs + b * records * f->record_bytes);
}

static void pack_range(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const pack_job *job = arg;
  for (int64_t p = begin; p < end; p++) pack_panel(job, p);
}

ga_status ga_cpu_pack_x16(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                          ga_stream *stream) {
  (void)kernel, (void)workspace;
  pack_job job = {.desc = desc, .io = io};
  job.format = ga_x16_format_of((ga_dtype)job.desc->w_dtype);
  if (job.desc->n == 0 || job.desc->k == 0) return GA_OK;
  ga_pool *pool = job.desc->n * job.desc->k < 32 * 1024 ? NULL : cpu_pool(stream);
  ga_pool_run_ranges(pool, ga_div_up(job.desc->n, GA_X16_ROWS), 1, pack_range, &job);
  return GA_OK;
}

const char *ga_cpu_pack_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_pack_desc *d = desc;
  if (d->w_layout != (int32_t)kernel->layout) return "another layout";
  return ga_x16_format_of((ga_dtype)d->w_dtype) ? NULL : "this type has no such layout";
}

uint64_t ga_cpu_pack_bytes(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)caps;
  const ga_pack_desc *d = desc;
  const ga_x16_format *f = ga_x16_format_of((ga_dtype)d->w_dtype);
  uint64_t bytes;
  bool fits = ga_mul_ok((uint64_t)ga_div_up(d->n, GA_X16_ROWS), (uint64_t)x16_panel_bytes(f, d->k), &bytes);
  return fits ? bytes : UINT64_MAX;
}
