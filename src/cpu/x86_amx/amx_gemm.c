/* KERNEL    gemm_<type>_prefill_amx_32x32: packed weights times bf16 activations, sums in f32 over all of k
 * COMPUTES  Y[32 x 32] = X tiles (2 of 16 rows) times W tiles (2 panels of 16 rows), 32 elements of k a step
 * CONTRACT  any m and n, k a multiple of the type's block; both factors rounded to bf16 once; one order along k
 * DATA      X f32 -> bf16 tiles in the workspace, once a call; two panels of W -> bf16 tiles in the thread's workspace,
 *           once a call, used for all rows of X; tdpbf16ps; sums through a 4 KiB buffer into the epilogue
 * MEASURED  1.4 TFLOP/s a core at m 512, n = k = 576 (3.2 with all operands in the first-level cache, no widening)
 * BUDGET    tiles 0-3 sums, 4-5 X, 6-7 W: 4 loads for 4 products of 16 clocks each
 * REF       Intel AMX, Intel SDM vol. 1 chapter 18 */
#include <string.h>

#include "cpu/x86_amx/amx_tiles.h"
#include "cpu/x86_avx512/x16_avx512.h"

#define NEAR_BYTES (1024 * 1024) /* half of a second-level cache of 2 MiB */

typedef struct amx_job {
  const ga_gemm_desc *desc;
  const ga_gemm_io *io;
  const ga_amx_impl *impl;
  const ga_x16_format *format;
  uint8_t *x_tiles; /* [m / 16 rounded up to 2][k tiles] */
  uint8_t *w_tiles; /* [threads][chunk][k tiles] */
  int64_t k_tiles, panels, panel_bytes, chunk;
} amx_job;

/* Rows [begin, end) of X; rows that pad the last tile are zeros. */
static void convert_rows(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const amx_job *job = arg;
  const ga_gemm_desc *d = job->desc;
  for (int64_t r = begin; r < end; r++) {
    uint8_t *to = job->x_tiles + r / 16 * job->k_tiles * GA_AMX_TILE_BYTES + r % 16 * 64;
    const float *x = (const float *)job->io->x + r * d->x_stride;
    for (int64_t t = 0; t < job->k_tiles; t++, to += GA_AMX_TILE_BYTES) {
      if (r < d->m)
        amx_convert_32(x + 32 * t, d->k - 32 * t, to);
      else
        memset(to, 0, 64);
    }
  }
}

/* `count` panels with all rows of X: 32 rows of X stay near while the panels pass in pairs. */
static void multiply_panels(const amx_job *job, int64_t first, int64_t count, uint8_t *tiles) {
  const ga_gemm_desc *d = job->desc;
  const int64_t panel_tiles = job->k_tiles * GA_AMX_TILE_BYTES;
  GA_ALIGNED(64) float out[GA_AMX_BLOCK * GA_AMX_BLOCK];
  for (int64_t p = 0; p < count; p++)
    job->impl->dequant((const uint8_t *)job->io->w + (first + p) * job->panel_bytes, d->k, tiles + p * panel_tiles);
  for (int64_t row = 0; row < d->m; row += GA_AMX_BLOCK) {
    int64_t rows = ga_min_i64(GA_AMX_BLOCK, d->m - row);
    for (int64_t p = 0; p < count; p += 2) {
      int wt = p + 1 < count ? 2 : 1;
      amx_multiply(rows > 16 ? 2 : 1, wt, job->x_tiles + row / 16 * panel_tiles, tiles + p * panel_tiles, job->k_tiles,
                   out);
      for (int i = 0; i < wt; i++) {
        int64_t col = (first + p + i) * GA_X16_ROWS;
        ga_x16_epilogue_avx512(d, job->io, row, rows, col, ga_min_i64(GA_X16_ROWS, d->n - col), out + 16 * i,
                               GA_AMX_BLOCK);
      }
    }
  }
}

static void multiply_chunk(void *arg, int64_t i, int thread) {
  const amx_job *job = arg;
  amx_configure();
  multiply_panels(job, i * job->chunk, ga_min_i64(job->chunk, job->panels - i * job->chunk),
                  job->w_tiles + thread * job->chunk * job->k_tiles * GA_AMX_TILE_BYTES);
  _tile_release();
}

/* Panels that a thread widens together. Two while all of X stays in the second-level cache; more beyond that, since X
 * then comes from farther away once for each group of panels. Four groups a thread at least, for balance. */
static int64_t chunk_panels(const ga_gemm_desc *d, int threads) {
  const int64_t k_bytes = ga_div_up(d->k, 32) * 64, panels = ga_div_up(d->n, GA_X16_ROWS);
  if (d->m * k_bytes <= NEAR_BYTES) return 2;
  int64_t pairs = ga_min_i64(NEAR_BYTES / 2 / (k_bytes * GA_AMX_BLOCK), ga_div_up(panels, 8 * threads));
  return 2 * ga_max_i64(1, pairs);
}

static uint64_t amx_x_bytes(const ga_gemm_desc *d) {
  uint64_t bytes;
  bool fits = ga_mul_ok((uint64_t)ga_div_up(d->m, 16) * GA_AMX_TILE_BYTES, (uint64_t)ga_div_up(d->k, 32), &bytes);
  return fits ? bytes : UINT64_MAX;
}

uint64_t ga_cpu_gemm_amx_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel;
  const ga_gemm_desc *d = desc;
  uint64_t threads = caps->threads > 1 ? (uint64_t)caps->threads : 1, bytes;
  uint64_t panel = (uint64_t)ga_div_up(d->k, 32) * GA_AMX_TILE_BYTES;
  if (!ga_mul_ok(threads * (uint64_t)chunk_panels(d, (int)threads), panel, &bytes)) return UINT64_MAX;
  return ga_add_ok(bytes, amx_x_bytes(d), &bytes) ? bytes : UINT64_MAX;
}

ga_status ga_cpu_gemm_amx(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                          ga_stream *stream) {
  const ga_gemm_desc *d = desc;
  amx_job job = {.desc = desc, .io = io, .impl = kernel->impl, .format = ga_x16_format_of(kernel->dtype[0])};
  if (d->m == 0 || d->n == 0) return GA_OK;
  job.x_tiles = workspace;
  job.w_tiles = job.x_tiles + amx_x_bytes(d);
  job.k_tiles = ga_div_up(d->k, 32);
  job.panels = ga_div_up(d->n, GA_X16_ROWS);
  job.panel_bytes = x16_panel_bytes(job.format, d->k);
  job.chunk = chunk_panels(d, ga_pool_threads(cpu_pool(stream)));
  ga_pool *pool = d->m * d->n * d->k < 512 * 1024 ? NULL : cpu_pool(stream);
  ga_pool_run_ranges(pool, ga_div_up(d->m, 16) * 16, 4, convert_rows, &job);
  ga_pool_run(pool, ga_div_up(job.panels, job.chunk), multiply_chunk, &job);
  return GA_OK;
}
