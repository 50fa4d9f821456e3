/* The bytes of one tensor, a few rows at a time: read, made f32, laid out as GGUF has it, quantised. */
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "cpu/cpu_gemm.h"
#include "quant/halves.h"
#include "quant/rewrite.h"

/* Values in memory at once: enough rows to keep threads busy, little enough for any machine. */
#define PIECE_VALUES ((int64_t)1 << 22)
/* Dequantised by one thread in one go. */
#define PART_VALUES 4096

static ga_status need_room(void **p, size_t *room, size_t bytes) {
  if (bytes <= *room) return GA_OK;
  ga_mem_free(*p);
  *p = NULL;
  *room = 0;
  GA_TRY(ga_mem_alloc(bytes, "quantize", p));
  *room = bytes;
  return GA_OK;
}

static ga_status need_values(rewrite *r, size_t n) {
  void *p = r->values;
  const ga_status status = need_room(&p, &r->values_room, n * sizeof(float));
  r->values = p;
  return status;
}
static ga_status need_raw(rewrite *r, size_t bytes) {
  void *p = r->raw;
  const ga_status status = need_room(&p, &r->raw_room, bytes);
  r->raw = p;
  return status;
}
static ga_status need_piece(rewrite *r, size_t bytes) {
  void *p = r->piece;
  const ga_status status = need_room(&p, &r->piece_room, bytes);
  r->piece = p;
  return status;
}

/* --- reading ----------------------------------------------------------------------------------------------------- */

typedef struct float_job {
  ga_dtype dtype;
  const uint8_t *raw;
  int64_t n;
  float *out;
} float_job;

static void to_floats(void *arg, int64_t begin, int64_t end, int thread) {
  const float_job *job = arg;
  const ga_dtype_traits *t = ga_dtype_info(job->dtype);
  const int64_t from = begin * PART_VALUES, to = ga_min_i64(end * PART_VALUES, job->n);
  const uint8_t *raw = job->raw + from / t->block_elems * t->block_bytes;
  (void)thread;
  if (job->dtype == GA_F16)
    quant_f16_to_floats(raw, to - from, job->out + from);
  else if (job->dtype == GA_BF16)
    quant_bf16_to_floats(raw, to - from, job->out + from);
  else
    ga_cpu_dequantise(job->dtype, raw, to - from, job->out + from);
}

/* n values of the source from element `first` on, both at borders of blocks, into out. */
static ga_status source_values(rewrite *r, const rewrite_tensor *t, int64_t first, int64_t n, float *out) {
  const ga_dtype dtype = t->from->view.dtype;
  uint64_t offset, bytes;
  GA_TRY(ga_dtype_bytes(dtype, first, &offset));
  GA_TRY(ga_dtype_bytes(dtype, n, &bytes));
  GA_TRY(need_raw(r, bytes));
  GA_TRY(ga_model_file_read(r->file, t->from, offset, r->raw, bytes));
  float_job job = {dtype, r->raw, n, out};
  ga_pool_run_ranges(r->q->pool, ga_div_up(n, PART_VALUES), 1, to_floats, &job);
  return GA_OK;
}

static bool moves_rows(const rewrite_tensor *t) { return t->change == CHANGE_PAIRS || t->change == CHANGE_SPLIT; }

/* Row of the source that comes to lie at `row`. Pairs: of a head with h of them, (j, p) is taken from (p, j). */
static int64_t source_row(const rewrite_tensor *t, int64_t row) {
  const int64_t head = row / t->head_rows, at = row % t->head_rows;
  if (t->change == CHANGE_SPLIT) {
    const int64_t heads = t->rows / t->head_rows / 3;
    return (head % heads * 3 + head / heads) * t->head_rows + at;
  }
  return head * t->head_rows + (at % 2) * (t->head_rows / 2) + at / 2;
}

/* Columns [row, row + n) of the source as rows. */
static ga_status read_columns(rewrite *r, const rewrite_tensor *t, int64_t row, int64_t n) {
  void *p;
  GA_TRY(ga_mem_alloc((size_t)n * sizeof(float), "quantize", &p));
  float *column = p;
  ga_status status = GA_OK;
  for (int64_t c = 0; c < t->cols && status == GA_OK; c++) {
    status = source_values(r, t, c * t->rows + row, n, column);
    for (int64_t i = 0; i < n && status == GA_OK; i++) r->values[i * t->cols + c] = column[i];
  }
  ga_mem_free(p);
  return status;
}

/* Rows [row, row + n) of the result as f32. */
static ga_status read_result_rows(rewrite *r, const rewrite_tensor *t, int64_t row, int64_t n) {
  GA_TRY(need_values(r, (size_t)(n * t->cols)));
  if (t->made) {
    memcpy(r->values, t->made + row * t->cols, (size_t)(n * t->cols) * sizeof(float));
    return GA_OK;
  }
  if (t->change == CHANGE_TRANSPOSE) return read_columns(r, t, row, n);
  if (!moves_rows(t)) GA_TRY(source_values(r, t, row * t->cols, n * t->cols, r->values));
  for (int64_t i = 0; moves_rows(t) && i < n; i++)
    GA_TRY(source_values(r, t, source_row(t, row + i) * t->cols, t->cols, r->values + i * t->cols));
  if (t->change == CHANGE_PLUS_ONE)
    for (int64_t i = 0; i < n * t->cols; i++) r->values[i] += 1;
  return GA_OK;
}

/* --- writing ----------------------------------------------------------------------------------------------------- */

static bool is_copied(const rewrite_tensor *t) {
  return t->from && t->change == CHANGE_NONE && t->from->view.dtype == t->view.dtype;
}

static ga_status make_piece(rewrite *r, const rewrite_tensor *t) {
  ga_quantize_desc d = GA_QUANTIZE_DESC_INIT;
  uint64_t bytes;
  const int64_t each = t->weight ? t->rows / t->matrices : t->rows, matrix = t->weight ? r->next_row / each : 0;
  const float *weight = t->weight && t->inputs[matrix] > 0 ? t->weight + matrix * t->cols : NULL;
  d.rows = ga_min_i64(r->piece_rows, each * (matrix + 1) - r->next_row); /* of one matrix, whose weights they share */
  d.cols = t->cols;
  d.dtype = (int32_t)t->view.dtype;
  GA_REQUIRE(d.rows > 0, GA_ERR_INTERNAL, "more bytes than rows");
  GA_TRY(read_result_rows(r, t, r->next_row, d.rows));
  GA_TRY(ga_quantize_bytes(&d, &bytes));
  GA_TRY(need_piece(r, bytes));
  const ga_status status = ga_quantize_rows(r->q, &d, r->values, weight, r->piece);
  if (status != GA_OK) return ga_fail_in(status, "rows from %lld on", (long long)r->next_row);
  r->next_row += d.rows;
  r->piece_bytes = bytes;
  r->piece_at = 0;
  return GA_OK;
}

static ga_status tell_bytes(rewrite *r, const rewrite_tensor *t, uint64_t bytes) {
  const uint64_t source = t->from ? t->from->bytes : 0;
  r->done += (uint64_t)((double)bytes / (double)t->bytes_to * (double)source);
  if (r->progress && r->progress(r->user, ga_min_u64(r->done, r->total), r->total))
    return ga_fail(GA_ERR_CANCELLED, "stopped");
  return GA_OK;
}

static ga_status next_bytes(rewrite *r, const rewrite_tensor *t, uint64_t offset, uint8_t *data, size_t bytes) {
  if (is_copied(t)) {
    GA_TRY(ga_model_file_read(r->file, t->from, offset, data, bytes));
    return tell_bytes(r, t, bytes);
  }
  if (r->current != t) {
    r->current = t;
    r->next_row = 0;
    r->piece_rows = ga_max_i64(1, PIECE_VALUES / t->cols);
    r->piece_bytes = r->piece_at = 0;
  }
  for (size_t done = 0; done < bytes;) {
    if (r->piece_at == r->piece_bytes) GA_TRY(make_piece(r, t));
    const size_t n = (size_t)ga_min_u64(bytes - done, r->piece_bytes - r->piece_at);
    memcpy(data + done, r->piece + r->piece_at, n);
    r->piece_at += n;
    done += n;
  }
  return tell_bytes(r, t, bytes);
}

ga_status rewrite_bytes(void *user, uint64_t offset, void *data, size_t bytes) {
  const rewrite_tensor *t = user;
  const ga_status status = next_bytes(t->all, t, offset, data, bytes);
  if (status != GA_OK) return ga_fail_in(status, "tensor '%s'", t->name);
  if (t->from && offset + bytes == t->bytes_to) ga_model_file_forget(t->all->file, t->from);
  return GA_OK;
}
