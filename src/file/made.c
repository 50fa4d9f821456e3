#include "file/made.h"

#include <string.h>

#include "base/compiler.h"
#include "base/half.h"
#include "base/status.h"

/* Bytes that are made at once: enough for long reads, little beside a layer. */
#define PIECE ((uint64_t)4 << 20)

enum { MX_BLOCK = 32, MX_CODES = MX_BLOCK / 2, MX_BYTES = MX_CODES + 1 };

/* Rows [row, row + n) of matrix m, which lies in a source's matrix number `matrix`. */
typedef struct made_rows {
  const ga_model_file *file;
  const ga_made *made;
  const ga_model_tensor *source;
  int64_t matrix, row, n;
} made_rows;

/* Rows, or columns, of the source from the first to the last of those taken. */
static int64_t made_span(const made_rows *r) { return (r->n - 1) * r->made->step + 1; }
static int64_t made_first(const made_rows *r) { return r->made->first + r->row * r->made->step; }

/* Reads rows of `bytes` each. scratch: made_span(r) rows. */
static ga_status made_take_rows(const made_rows *r, const ga_model_tensor *source, uint64_t bytes, uint8_t *scratch,
                                uint8_t *out) {
  const uint64_t at = (uint64_t)(r->matrix * r->made->source_rows + made_first(r)) * bytes;
  const uint64_t n = (uint64_t)made_span(r) * bytes, step = (uint64_t)r->made->step * bytes;
  if (r->made->step == 1) return ga_model_file_read(r->file, source, at, out, n);
  GA_TRY(ga_model_file_read(r->file, source, at, scratch, n));
  for (int64_t i = 0; i < r->n; i++) memcpy(out + (uint64_t)i * bytes, scratch + (uint64_t)i * step, bytes);
  return GA_OK;
}

/* Reads columns as rows. each: bytes of an element; scratch: made_span(r) elements. */
static ga_status take_columns(const made_rows *r, uint64_t each, uint8_t *scratch, uint8_t *out) {
  const int64_t cols = r->made->taken, stride = r->made->source_cols;
  const uint64_t step = (uint64_t)r->made->step * each, row_bytes = (uint64_t)cols * each;
  for (int64_t c = 0; c < cols; c++) {
    const uint64_t at = (uint64_t)((r->matrix * r->made->source_rows + c) * stride + made_first(r)) * each;
    GA_TRY(ga_model_file_read(r->file, r->source, at, scratch, (uint64_t)made_span(r) * each));
    for (int64_t i = 0; i < r->n; i++)
      memcpy(out + (uint64_t)i * row_bytes + (uint64_t)c * each, scratch + (uint64_t)i * step, each);
  }
  return GA_OK;
}

/* Element e of a block is in the half e % 2 of byte e / 2. */
static inline uint8_t mx_code(const uint8_t *codes, int e) { return (uint8_t)(codes[e / 2] >> (e % 2 * 4) & 15); }

/* Reads rows of blocks. scratch: made_span(r) rows of codes and of scales, then r->n rows of both. */
static ga_status take_mxfp4(const made_rows *r, uint8_t *scratch, uint8_t *out) {
  const int64_t blocks = r->made->source_cols / MX_BLOCK, n = r->n * blocks;
  uint8_t *codes = scratch + (uint64_t)(made_span(r) * blocks) * MX_CODES, *scales = codes + (uint64_t)n * MX_CODES;
  GA_TRY(made_take_rows(r, r->made->sources[0], (uint64_t)blocks * MX_CODES, scratch, codes));
  GA_TRY(made_take_rows(r, r->made->sources[1], (uint64_t)blocks, scratch, scales));
  for (int64_t i = 0; i < n; i++, codes += MX_CODES, out += MX_BYTES) {
    out[0] = scales[i];
    for (int e = 0; e < MX_CODES; e++) out[1 + e] = (uint8_t)(mx_code(codes, e) | mx_code(codes, e + MX_CODES) << 4);
  }
  return GA_OK;
}

/* The scales of the matrix that a row of codes is of. */
static const ga_model_tensor *e4m3_scales_of(const made_rows *r) {
  const ga_made *made = r->made;
  int32_t at = 0;
  while (made->sources[at] != r->source) at++;
  return made->sources[made->matrices + at];
}

static float scale_number(ga_dtype dtype, const uint8_t *bytes, int64_t i) {
  uint16_t h;
  float f;
  if (dtype == GA_F32) {
    memcpy(&f, bytes + 4 * i, sizeof f);
    return f;
  }
  memcpy(&h, bytes + 2 * i, sizeof h);
  return dtype == GA_F16 ? ga_f16_to_f32(h) : ga_bf16_to_f32(h);
}

/* Reads rows of codes as bf16. scratch: r->n rows of codes, then the matrix's scales. */
static ga_status take_e4m3(const made_rows *r, uint8_t *scratch, uint8_t *out) {
  const ga_model_tensor *scales = e4m3_scales_of(r);
  const int64_t cols = r->made->source_cols, rows = r->made->source_rows, first = made_first(r);
  uint8_t *codes = scratch, *numbers = scratch + (uint64_t)(r->n * cols);
  int64_t n = 1;
  for (int32_t i = 0; i < scales->view.n_dims; i++) n *= scales->view.dim[i];
  const bool by_row = n == rows && scales->view.dim[0] == rows, is_one = n == 1;
  const int64_t along = ga_div_up(cols, GA_MADE_BLOCK);
  GA_TRY(made_take_rows(r, r->source, (uint64_t)cols, NULL, codes));
  GA_TRY(ga_model_file_read(r->file, scales, 0, numbers, scales->bytes));
  for (int64_t i = 0; i < r->n; i++)
    for (int64_t c = 0; c < cols; c++) {
      const int64_t row = first + i, at = is_one ? 0 : by_row ? row : row / GA_MADE_BLOCK * along + c / GA_MADE_BLOCK;
      const float scale = scale_number(scales->view.dtype, numbers, at);
      const ga_bf16 value = ga_f32_to_bf16(ga_e4m3_to_f32(codes[i * cols + c]) * scale);
      memcpy(out + 2 * (i * cols + c), &value, sizeof value);
    }
  return GA_OK;
}

/* Bytes of memory that making r->n rows of row_bytes takes beside them. */
static uint64_t scratch_of(const made_rows *r, uint64_t row_bytes) {
  const uint64_t span = (uint64_t)made_span(r);
  switch (r->made->order) {
  case GA_MADE_ROWS: return r->made->step == 1 ? 0 : span * row_bytes;
  case GA_MADE_COLUMNS: return span * row_bytes / (uint64_t)r->made->taken;
  case GA_MADE_MXFP4: return (span + (uint64_t)r->n) * row_bytes;
  case GA_MADE_E4M3: return (uint64_t)r->n * row_bytes / 2 + e4m3_scales_of(r)->bytes;
  }
  return 0;
}

static ga_status made_make_rows(const made_rows *r, uint64_t row_bytes, uint8_t *scratch, uint8_t *out) {
  switch (r->made->order) {
  case GA_MADE_ROWS: return made_take_rows(r, r->source, row_bytes, scratch, out);
  case GA_MADE_COLUMNS: return take_columns(r, row_bytes / (uint64_t)r->made->taken, scratch, out);
  case GA_MADE_MXFP4: return take_mxfp4(r, scratch, out);
  case GA_MADE_E4M3: return take_e4m3(r, scratch, out);
  }
  return ga_fail(GA_ERR_INTERNAL, "order %d of a made tensor", (int)r->made->order);
}

/* Makes bytes [skip, skip + bytes) of the rows r. */
static ga_status make_bytes(const made_rows *r, uint64_t row_bytes, uint64_t skip, uint8_t *out, uint64_t bytes) {
  const uint64_t all = (uint64_t)r->n * row_bytes, scratch = scratch_of(r, row_bytes);
  const bool is_whole = skip == 0 && bytes == all;
  void *p;
  GA_TRY(ga_mem_alloc(scratch + (is_whole ? 1 : all), "joined tensor", &p));
  uint8_t *to = is_whole ? out : (uint8_t *)p + scratch;
  const ga_status status = made_make_rows(r, row_bytes, p, to);
  if (status == GA_OK && !is_whole) memcpy(out, to + skip, bytes);
  ga_mem_free(p);
  return status;
}

ga_status ga_made_read(const ga_model_file *file, const ga_model_tensor *tensor, uint64_t offset, void *out,
                       size_t bytes) {
  const ga_made *made = &file->made[tensor->offset];
  const uint64_t row_bytes = tensor->bytes / (uint64_t)(made->matrices * made->rows);
  const int64_t each = made->order == GA_MADE_MXFP4  ? made->matrices
                       : made->order == GA_MADE_E4M3 ? 1
                                                     : made->matrices / made->n_sources;
  const int64_t most = ga_max_i64(1, (int64_t)(PIECE / row_bytes));
  uint8_t *to = out;
  for (uint64_t at = offset, end = offset + bytes; at < end;) {
    const int64_t row = (int64_t)(at / row_bytes), matrix = row / made->rows;
    const uint64_t skip = at % row_bytes;
    made_rows r = {.file = file,
                   .made = made,
                   .source = made->sources[matrix / each],
                   .matrix = matrix % each,
                   .row = row % made->rows};
    const int64_t wanted = (int64_t)((skip + (end - at) + row_bytes - 1) / row_bytes);
    r.n = ga_min_i64(ga_min_i64(wanted, made->rows - r.row), most);
    const uint64_t n = ga_min_u64((uint64_t)r.n * row_bytes - skip, end - at);
    GA_TRY(make_bytes(&r, row_bytes, skip, to, n));
    to += n;
    at += n;
  }
  return GA_OK;
}

void ga_made_forget(const ga_model_file *file, const ga_model_tensor *tensor) {
  const ga_made *made = &file->made[tensor->offset];
  for (int32_t i = 0; i < made->n_sources; i++) ga_model_file_forget(file, made->sources[i]);
}
