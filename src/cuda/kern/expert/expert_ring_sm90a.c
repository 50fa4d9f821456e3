#include "base/mem.h"
#include "base/status.h"
#include "cuda/kern/expert/expert.h"
#include "cuda/kern/gemm/gemm.h"
#include "cuda/kern/gemm/gemm_split_int8_sm90a_args.h"

#define STATIC_BYTES 1024 /* of shared memory, which rows keep free */
#define MOST_DEPTH   4    /* stages of a ring */
#define ALIGN        16   /* bytes, of areas of shared memory */
#define MOST_PARTS   32   /* of a warp: a lane has the address of one */

/* How a launch is cut. slots and parts are the largest numbers of tiles and of parts of which a warp has items. */
typedef struct ring_shape {
  const cuda_unit *unit;
  int64_t per, tiles, units, all_tiles, items, slot_units, x_units, shares, slots, parts, depth, shared_bytes;
} ring_shape;

static bool ring_is_out(const ga_expert_gemm_desc *d) { return d->form == GA_EXPERT_OUT; }
static bool ring_in_bf16(const ring_shape *s) { return cuda_gemm_in_bf16(s->unit->dtype); }

/* X in parts, scales of units, and sums over runs. */
static int64_t ring_x_bytes(const ring_shape *s) {
  const int64_t k = s->x_units * s->unit->k;
  if (ring_in_bf16(s)) return k * 2 * (int64_t)sizeof(uint16_t);
  const int64_t runs = s->unit->k / (s->unit->dtype == GA_Q2_K ? 16 : 32);
  return k * 3 + (int64_t)ga_round_up((size_t)(s->x_units * 4) * sizeof(float), ALIGN) +
         (cuda_gemm_has_min(s->unit->dtype) ? s->x_units * runs * (int64_t)sizeof(float) : 0);
}

/* Sets the shares of a token, and what follows from them. A ring has as many stages as there is room for. */
static void set_ring_shares(ring_shape *s, const ga_expert_gemm_desc *d, int64_t shares, int64_t warps, int64_t limit) {
  const int64_t mats = !ring_is_out(d) && d->flags & GA_EXPERT_GATED ? 2 : 1, slots = ring_is_out(d) ? d->top_k : 1;
  s->shares = ga_max_i64(1, ga_min_i64(shares, s->all_tiles));
  const int64_t tiles = ga_div_up(s->all_tiles, s->shares), ni = s->items * slots,
                run = ga_div_up(tiles * mats * ni, warps);
  s->slots = (run + ni - 2) / ni + 1;
  s->parts = (run + s->items - 2) / s->items + 1;
  const int64_t table = (int64_t)ga_round_up((size_t)(GA_RING_CONSTANTS + 4 * tiles * mats), ALIGN),
                rest = ring_x_bytes(s) + warps * s->slots * GA_PACKED_ROWS * (int64_t)sizeof(float) + table +
                       warps * GA_RING_BARS,
                stage = warps * s->per * s->unit->bytes;
  s->depth = ga_max_i64(1, ga_min_i64(MOST_DEPTH, (limit - rest) / stage));
  s->shared_bytes = rest + s->depth * stage;
}

static int64_t ring_limit(const ga_caps *caps) { return (int64_t)caps->smem_bytes - STATIC_BYTES; }

/* A token has as many blocks as there are multiprocessors for it, or more where a warp would have too many parts. */
static ring_shape ring_shape_of(const ga_kernel *k, const ga_expert_gemm_desc *d, const ga_caps *caps) {
  const int64_t warps = ((const cuda_variant *)k->impl)->threads / 32, limit = ring_limit(caps);
  ring_shape s = {.unit = cuda_unit_of(d->w_dtype)};
  s.per = GA_RING_ITEM(s.unit->k, s.unit->bytes);
  s.tiles = ga_div_up(d->n, GA_PACKED_ROWS);
  s.units = ga_div_up(d->k, s.unit->k);
  s.all_tiles = s.tiles * (ring_is_out(d) ? 1 : d->top_k);
  s.items = ga_div_up(s.units, s.per);
  s.slot_units = (int64_t)ga_round_up((size_t)s.units, s.unit->k < 256 ? 2 : 1);
  s.x_units = s.slot_units * (ring_is_out(d) ? d->top_k : 1);
  for (int64_t shares = (int64_t)caps->sms / d->tokens;; shares = 2 * s.shares) {
    set_ring_shares(&s, d, shares, warps, limit);
    if ((s.shared_bytes <= limit && s.parts <= MOST_PARTS) || s.shares >= s.all_tiles) return s;
  }
}

const char *cuda_expert_ring_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_expert_gemm_desc *d = desc;
  const char *refusal = cuda_expert_packed_refusal(k, d);
  if (refusal || cuda_expert_is_empty(d)) return refusal;
  if (d->flags & GA_EXPERT_SORTED) return "the rows are sorted by expert";
  if (d->flags & GA_EXPERT_IN_TURN || d->n_matrices) return "experts are taken in turn, or have places of their own";
  const ring_shape s = ring_shape_of(k, d, caps);
  if (s.shared_bytes > ring_limit(caps)) return "shared memory is too small";
  if (s.parts > MOST_PARTS) return "top_k is too large";
  return s.shares * d->tokens > INT32_MAX || s.all_tiles * s.items * d->top_k > INT32_MAX / 2 ? "too many rows" : NULL;
}

/* Clocks of 1.98 GHz, as those of dense products of one row (gemm_split_int8_sm90a.c): each token reads its experts. */
double cuda_expert_ring_cost(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  enum { LAUNCH = 7000, BYTES = 2500, PLAIN_BYTES = 2000 /* a clock */ };
  (void)k;
  const ga_expert_gemm_desc *d = desc;
  if (cuda_expert_is_empty(d)) return 0;
  const cuda_unit *u = cuda_unit_of(d->w_dtype);
  const int64_t bytes = d->tokens * d->top_k * ga_div_up(d->n, GA_PACKED_ROWS) * ga_div_up(d->k, u->k) * u->bytes *
                        (d->flags & GA_EXPERT_GATED ? 2 : 1);
  return cuda_clocks_us(caps, LAUNCH + bytes / (cuda_gemm_in_bf16(d->w_dtype) ? PLAIN_BYTES : BYTES));
}

ga_status cuda_expert_ring(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  const ga_expert_gemm_desc *d = desc;
  const cuda_variant *v = k->impl;
  (void)workspace;
  if (cuda_expert_is_empty(d)) return GA_OK;
  GA_TRY(cuda_expert_check_io(stream, k, d, io, 16));
  const ring_shape s = ring_shape_of(k, d, &stream->device->caps);
  const ga_kargs_expert_ring args = {.e = cuda_expert_kargs(d, io),
                                     .tiles = (int32_t)s.tiles,
                                     .units = (int32_t)s.units,
                                     .all_tiles = (int32_t)s.all_tiles,
                                     .items = (int32_t)s.items,
                                     .slot_units = (int32_t)s.slot_units,
                                     .x_units = (int32_t)s.x_units,
                                     .shares = (int32_t)s.shares,
                                     .slots = (int32_t)s.slots,
                                     .depth = (int32_t)s.depth};
  const cuda_launch l = {.grid = {(uint32_t)(s.shares * d->tokens), 1, 1},
                         .block = {v->threads, 1, 1},
                         .shared_bytes = (uint32_t)s.shared_bytes,
                         .dependent = true};
  return cuda_enqueue(stream, k, &l, &args);
}
