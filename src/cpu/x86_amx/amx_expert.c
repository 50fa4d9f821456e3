/* KERNEL    expert_gemm_<type>_prefill_amx_32x32: products by experts with many rows each (ga/experts.h)
 * COMPUTES  blocks of 32 sorted rows by 32 rows of an expert's matrix; both factors rounded to bf16 once, sums in f32
 * CONTRACT  packed stacks, f32 X and Y; on average 20 rows an expert or more. A row of Y has the same bits whatever the
 *           other tokens and the number of threads
 * DATA      X f32 -> bf16 tiles in the workspace, once a call: an expert's rows begin with a tile of their own. Two
 *           panels of W -> bf16 tiles in the thread's workspace, once for all rows of the expert
 * THREADS   all: see cpu/cpu_expert.h
 */
#include <string.h>

#include "base/mem.h"
#include "cpu/cpu_expert.h"
#include "cpu/x86_amx/amx_tiles.h"
#include "cpu/x86_avx512/x16_avx512.h"

#define TILE_ROWS (GA_AMX_BLOCK / 2)

static int64_t k_tiles_of(const ga_expert_gemm_desc *d) { return ga_div_up(d->k, 32); }

/* Returns the tile row (16 rows of X) that holds sorted row p of the i-th active expert. Experts share none: one that
 * ends within a tile row leaves the rest of it empty. */
static int64_t tile_row_of(const expert_job *job, int32_t i, int64_t p) {
  const int64_t first = job->offsets[job->active[i]];
  return first / TILE_ROWS + i + (p - first) / TILE_ROWS;
}

static uint8_t *x_tiles_at(const expert_job *job, int64_t tile_row) {
  return (uint8_t *)job->rows + tile_row * k_tiles_of(job->d) * GA_AMX_TILE_BYTES;
}

/* Converts sorted row p to row r of its tiles. */
static void put_x_row(const expert_job *job, int64_t p, uint8_t *tiles, int64_t r) {
  const ga_expert_gemm_desc *d = job->d;
  const float *x = (const float *)job->a->x + expert_x_row(job, p) * d->x_stride;
  for (int64_t t = 0; t < k_tiles_of(d); t++)
    amx_convert_32(x + 32 * t, d->k - 32 * t, tiles + t * GA_AMX_TILE_BYTES + 64 * r);
}

/* Clears rows from r on of a tile row. */
static void clear_x_rows(const expert_job *job, uint8_t *tiles, int64_t r) {
  for (int64_t t = 0; t < k_tiles_of(job->d); t++)
    memset(tiles + t * GA_AMX_TILE_BYTES + 64 * r, 0, (size_t)(64 * (TILE_ROWS - r)));
}

static void convert_sorted_rows(const expert_job *job, int64_t begin, int64_t end) {
  for (int32_t i = 0; i < job->n_active; i++) {
    const int64_t first = job->offsets[job->active[i]], last = job->offsets[job->active[i] + 1];
    for (int64_t p = ga_max_i64(first, begin); p < ga_min_i64(last, end); p++) {
      uint8_t *tiles = x_tiles_at(job, tile_row_of(job, i, p));
      const int64_t r = (p - first) % TILE_ROWS;
      put_x_row(job, p, tiles, r);
      if (p == last - 1 && r + 1 < TILE_ROWS) clear_x_rows(job, tiles, r + 1);
    }
  }
}

/* Widens two panels, or one and zeros. */
static const void *open_panels(const expert_job *job, const void *w, int64_t row, int64_t left, int thread, int set) {
  const ga_amx_impl *impl = job->impl;
  const int64_t k = job->d->k, panel_bytes = x16_panel_bytes(ga_x16_format_of((ga_dtype)job->d->w_dtype), k);
  const int64_t panel_tiles = k_tiles_of(job->d) * GA_AMX_TILE_BYTES;
  const uint8_t *panel = (const uint8_t *)w + row / GA_X16_ROWS * panel_bytes;
  uint8_t *to = (uint8_t *)job->scratch + (2 * (int64_t)thread + set) * 2 * panel_tiles;
  amx_configure();
  impl->dequant(panel, k, to);
  if (left > GA_X16_ROWS)
    impl->dequant(panel + panel_bytes, k, to + panel_tiles);
  else
    memset(to + panel_tiles, 0, (size_t)panel_tiles);
  return to;
}

static int64_t block_cols(const expert_job *job, int64_t left) {
  (void)job;
  return ga_min_i64(left, GA_AMX_BLOCK);
}

static void multiply_blocks(const expert_job *job, const void *unit, int32_t i, int64_t p, int64_t cols, float *out) {
  amx_multiply(cols > TILE_ROWS ? 2 : 1, 2, x_tiles_at(job, tile_row_of(job, i, p)), unit, k_tiles_of(job->d), out);
}

/* Applies an activation by the epilogue of gemm, in place, to the columns of each panel. */
static void activate_blocks(const expert_job *job, int32_t act, int64_t cols, float *t) {
  (void)job;
  const ga_gemm_desc d = {.m = cols, .n = GA_X16_ROWS, .y_stride = GA_AMX_BLOCK, .act = act, .scale = 1};
  for (int64_t half = 0; half < GA_AMX_BLOCK; half += GA_X16_ROWS) {
    const ga_gemm_io io = {.y = t + half};
    ga_x16_epilogue_avx512(&d, &io, 0, cols, 0, GA_X16_ROWS, t + half, GA_AMX_BLOCK);
  }
}

static void release_tiles(void) { _tile_release(); }

static const expert_kind amx_kind = {.unit = GA_AMX_BLOCK,
                                     .load = convert_sorted_rows,
                                     .open = open_panels,
                                     .cols = block_cols,
                                     .multiply = multiply_blocks,
                                     .activate = activate_blocks,
                                     .close = release_tiles};

_Static_assert(GA_AMX_BLOCK <= EXPERT_MOST_COLS && GA_AMX_BLOCK <= EXPERT_MOST_UNIT, "the driver has the room");

/* Returns the bytes of all tiles of X; UINT64_MAX: they exceed 64 bits. */
static uint64_t x_tile_bytes(const ga_expert_gemm_desc *d) {
  const uint64_t rows = (uint64_t)(d->tokens * d->top_k) / TILE_ROWS + (uint64_t)d->n_experts + 1;
  uint64_t bytes;
  return ga_mul_ok(rows, (uint64_t)k_tiles_of(d) * GA_AMX_TILE_BYTES, &bytes) ? bytes : UINT64_MAX;
}

uint64_t ga_cpu_expert_amx_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel;
  const ga_expert_gemm_desc *d = desc;
  const uint64_t threads = caps->threads > 1 ? (uint64_t)caps->threads : 1;
  uint64_t bytes;
  if (!ga_mul_ok((uint64_t)k_tiles_of(d) * GA_AMX_TILE_BYTES, 4 * threads, &bytes)) return UINT64_MAX;
  if (!ga_add_ok(bytes, x_tile_bytes(d), &bytes)) return UINT64_MAX;
  return ga_add_ok(bytes, cpu_expert_list_bytes(d), &bytes) ? bytes : UINT64_MAX;
}

ga_status ga_cpu_expert_amx(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                            ga_stream *stream) {
  expert_job job = {.d = desc, .a = io, .kind = &amx_kind, .impl = kernel->impl};
  job.rows = (uint8_t *)workspace + cpu_expert_list_bytes(job.d);
  job.scratch = (float *)(void *)((uint8_t *)job.rows + x_tile_bytes(job.d));
  return cpu_expert_run(&job, kernel, workspace, stream);
}
