#include "cuda/kern/expert/expert_tile_sm90a.h"

#include <math.h>

#include "base/mem.h"
#include "base/status.h"
#include "cuda/kern/gemm/gemm.h"

#define SET_ROWS  128 /* rows of W of a set; a tile has two sets */
#define X_THREADS 256
#define X_EACH    16 /* columns of a thread that converts X */
#define BOX_COLS  64
#define X_ALIGN   256 /* bytes, of X in the workspace */
#define BLOCKS    8   /* a multiprocessor, of X_THREADS */

static int64_t slot_rows(const ga_expert_gemm_desc *d) { return d->tokens * d->top_k; }
static bool tile_is_gated(const ga_expert_gemm_desc *d) { return d->flags & GA_EXPERT_GATED; }
static int32_t tile_rows(const ga_kernel *k) { return ((const cuda_expert_tile_variant *)k->impl)->bn; }
static int64_t tile_units(const ga_expert_gemm_desc *d) { return ga_div_up(d->k, cuda_unit_of(d->w_dtype)->k); }
static int64_t sorted_width(const ga_expert_gemm_desc *d) { return tile_units(d) * cuda_unit_of(d->w_dtype)->k; }
static int64_t w_tiles(const ga_expert_gemm_desc *d) {
  return ga_div_up(d->n, tile_is_gated(d) ? SET_ROWS : 2 * SET_ROWS);
}

/* The workspace: results of slots in OUT, then X. */
static uint64_t x_at(const ga_expert_gemm_desc *d) {
  const uint64_t results = d->form == GA_EXPERT_OUT ? (uint64_t)slot_rows(d) * (uint64_t)d->n * sizeof(float) : 0;
  return ga_round_up(results, X_ALIGN);
}

/* Tiles of X are at most full ones, and one for each expert. */
static int64_t most_items(const ga_kernel *k, const ga_expert_gemm_desc *d) {
  const int64_t rows = slot_rows(d);
  return (rows / tile_rows(k) + ga_min_i64(d->n_experts, rows)) * w_tiles(d);
}

const char *cuda_expert_tile_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_expert_gemm_desc *d = desc;
  const char *refusal = cuda_expert_packed_refusal(k, d);
  if (refusal || cuda_expert_is_empty(d)) return refusal;
  if (!(d->flags & GA_EXPERT_SORTED)) return "the rows are not sorted by expert";
  return most_items(k, d) > INT32_MAX ? "too many tiles" : NULL;
}

/* Clocks of 1.98 GHz, measured on an H200 with q4_k and bf16 (docs/log/experts.md): of the launches, of a tile's ends
 * and of storing one of its rows, and of 64 columns of a tile. */
double cuda_expert_tile_cost(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  enum { LAUNCH = 16000, TILE = 2000, TILE_ROW = 180, STEP = 850, STEP_ROW = 8, COLS = 64, BYTES = 2100 /* a clock */ };
  const ga_expert_gemm_desc *d = desc;
  if (cuda_expert_is_empty(d)) return 0;
  const int64_t rows = slot_rows(d), bn = tile_rows(k);
  const double tiles = cuda_expert_groups(d, bn), waves = ceil(tiles * (double)w_tiles(d) / caps->sms),
               step = STEP + STEP_ROW * (double)bn,
               tile = TILE + TILE_ROW * (double)rows / tiles + (double)(sorted_width(d) / COLS) * step;
  const double moved = (double)(rows * (sorted_width(d) * 2 * 2 + (d->form == GA_EXPERT_OUT ? d->n * 8 : d->n * 4)));
  return cuda_clocks_us(caps, (int64_t)(LAUNCH + moved / BYTES + waves * tile));
}

static ga_status launch_x(const ga_plan_step *step, const void *desc, const void *io, void *workspace,
                          ga_stream *stream) {
  const ga_expert_gemm_desc *d = desc;
  GA_TRY(cuda_expert_check_io(stream, step->chosen, d, io, 16));
  const ga_kargs_expert_x args = {
      .e = cuda_expert_kargs(d, io), .out = (char *)workspace + x_at(d), .width = sorted_width(d)};
  const int64_t blocks = ga_div_up(slot_rows(d) * args.width, (int64_t)X_EACH * X_THREADS),
                most = (int64_t)stream->device->caps.sms * BLOCKS;
  const cuda_launch l = {
      .grid = {(uint32_t)ga_min_i64(blocks, most), 1, 1}, .block = {X_THREADS, 1, 1}, .dependent = true};
  return cuda_enqueue(stream, step->row, &l, &args);
}

const char *cuda_expert_tile_plan(const ga_kernel *k, const void *desc, ga_plan_steps *steps) {
  const ga_expert_gemm_desc *d = desc;
  if (cuda_expert_is_empty(d)) return NULL;
  steps->workspace_bytes = x_at(d) + (uint64_t)(slot_rows(d) * sorted_width(d)) * 2;
  const cuda_expert_tile_variant *v = k->impl;
  const char *why = ga_plan_steps_add(steps, v->convert_x, launch_x, 0);
  why = why ? why : ga_plan_steps_add(steps, k, NULL, 0);
  return why ? why : cuda_expert_plan_sum(v->sum, d, steps);
}

static ga_status encode_sorted_x(const cuda_device *dev, const ga_kernel *k, int64_t rows, int64_t width, void *x,
                                 ga_tmap *out) {
  const uint64_t dims[2] = {(uint64_t)width, (uint64_t)rows}, bytes[1] = {2 * (uint64_t)width};
  const uint32_t box[2] = {BOX_COLS, (uint32_t)tile_rows(k)}, ones[2] = {1, 1};
  CUresult rc =
      dev->cu->TensorMapEncodeTiled(out, CU_TMAP_BFLOAT16, 2, x, dims, bytes, box, ones, CU_TMAP_INTERLEAVE_NONE,
                                    CU_TMAP_SWIZZLE_128B, CU_TMAP_L2_256B, CU_TMAP_OOB_ZERO);
  return rc == CUDA_SUCCESS ? GA_OK : ga_fail_in(ga_cu_fail(dev->cu, rc, "cuTensorMapEncodeTiled"), "%s: x", k->id);
}

ga_status cuda_expert_tile(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  const ga_expert_gemm_desc *d = desc;
  const cuda_variant *v = k->impl;
  if (cuda_expert_is_empty(d)) return GA_OK;
  ga_kargs_expert_tile args = {.e = cuda_expert_kargs(d, io),
                               .tiles = (int32_t)ga_div_up(d->n, GA_PACKED_ROWS),
                               .units = (int32_t)tile_units(d),
                               .w_tiles = (int32_t)w_tiles(d)};
  if (d->form == GA_EXPERT_OUT) args.e.results = workspace;
  GA_TRY(
      encode_sorted_x(cuda_device_of(stream), k, slot_rows(d), sorted_width(d), (char *)workspace + x_at(d), &args.x));
  const int64_t blocks = ga_min_i64(most_items(k, d), stream->device->caps.sms);
  const cuda_launch l = {.grid = {(uint32_t)blocks, 1, 1},
                         .block = {v->threads, 1, 1},
                         .shared_bytes = v->shared_bytes,
                         .dependent = true};
  return cuda_enqueue(stream, k, &l, &args);
}
