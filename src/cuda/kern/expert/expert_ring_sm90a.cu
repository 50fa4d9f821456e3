/* KERNEL    expert_ring, sm90a: products by experts with packed stacks (GA_LAYOUT_MMA_PACKED), for one token or a few,
 *           whose rows are not sorted
 * COMPUTES  Y of ga_expert_gemm (ga/experts.h). Products as in gemm_split_int8_sm90a.cu: X in digits of 8 bits, or in
 *           two bf16 by weights of 16 bits and of e4m3. OUT multiplies sums of slots by their weights, and adds them
 *           in the order of slots
 * CONTRACT  x and y f32, k at least 1; w packed, at multiples of 16 bytes; no GA_EXPERT_SORTED; n and k up to 2^28; a
 *           warp has items of at most 32 parts
 * WORK      `shares` blocks have a token. IN: a tile is 16 rows of W for a slot, with `gated` the same rows of the gate
 *           beside them. OUT: a tile is 16 rows of W of all chosen experts, one after the other along k. Blocks have
 *           runs of tiles. A block's items, tile after tile, are divided evenly among its warps, and each warp sums its
 *           items of a tile. These sums are added in shared memory, always in one order
 * DATA      W: the copy engine brings items, of a unit or two, into a ring of shared memory, one ring a warp: an
 *           elected lane issues the copy, the warp waits. X: digits, scales and sums in shared memory once a block
 * BARRIERS  name           arrivals  waiter    orders
 *           full[warp][s]  1+tx      its warp  copy of an item to stage s of the warp's ring -> ld.shared; the stage is
 *                                              free once the warp has read it (warp_sync)
 *           block          all       all       X in shared memory -> products; the sums of all warps -> their sum
 * BUDGET    THREADS lanes, one block a multiprocessor; shared memory is chosen at the launch
 * MEASURED  one H200, 8 of 128 experts, 768 x 2048 q4_k, gate and up: 1 token 7.1 us, 4 tokens 15.7 us
 */
#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_W
#error "GA_P_W: type of W: Q4_0, Q4_K, F16, ..."
#endif
#ifndef GA_P_SPLITS_X
#error "GA_P_SPLITS_X: parts of an element of X: 3 digits of 8 bits, or 2 numbers in bf16"
#endif
#ifndef GA_P_THREADS
#error "GA_P_THREADS: lanes of a block"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif

#include "cuda/kern/expert/expert_rows.h"
#include "cuda/kern/gemm/split_type.h"

static_assert(GA_P_SMEM <= 231424, "what a launch takes at most: 227 KiB less 1 KiB kept free");
#define RING_BYTES(depth) (BARS_BYTES + (depth)*ITEM_BYTES)

typedef const ga_kargs_expert_ring *args;

/* The share of the work of a block. A part is the run of items of one matrix within a tile: the tile's rows of W, of
 * the gate, or of one slot's expert. */
typedef struct {
  share s;   /* n, ni, tiles, and the addresses in shared memory. IN with `gated` has two tiles here for each tile */
  int token; /* number of the block's token */
  int first; /* the block's first tile */
  int each;  /* tiles of the block */
} block_share;

/* State of a warp's copies. */
typedef struct {
  uint64_t w;     /* address of the item that is copied next */
  int at, part;   /* its index within its part, and the part's index among the warp's parts */
  uint32_t ring;  /* shared address of the stages; their mbarriers are before it */
  int left;       /* items that the warp has not asked for */
  uint64_t start; /* address of the warp's part number `lane` in the stack of expert 0 */
  int expert;     /* its expert, 0 if there is no such part, */
  float weight;   /* and the weight of its slot in OUT */
} part_asker;

GA_DEV bool adds_slots(args a) { return a->e.form == EXPERT_OUT; }
GA_DEV bool has_gate(args a) { return a->e.flags & EXPERT_GATED; }
/* Returns the number of parts of a tile. */
GA_DEV int parts_of_tile(args a) { return adds_slots(a) ? a->e.top_k : has_gate(a) ? 2 : 1; }
GA_DEV bool is_short_item(args a, int at) { return PER == 2 && 2 * at + 1 == a->units; }

GA_DEV block_share block_share_of(args a) {
  block_share b;
  const int number = block_index() % a->shares;
  b.token = block_index() / a->shares;
  b.first = (int)((int64_t)a->all_tiles * number / a->shares);
  b.each = (int)((int64_t)a->all_tiles * (number + 1) / a->shares) - b.first;
  share *s = &b.s;
  s->part = s->group = s->k0 = s->tile = s->unused = 0;
  s->nb = a->x_units;
  s->ni = a->items * (adds_slots(a) ? a->e.top_k : 1);
  s->tiles = b.each * (!adds_slots(a) && has_gate(a) ? 2 : 1);
  s->n = s->tiles * s->ni;
  s->rows = 1;
  s->width = WIDTH(1);
  s->x = smem_base() + (uint32_t)(WARPS * RING_BYTES(a->depth));
  s->scales = s->x + (uint32_t)(a->x_units * UNIT_K * SPLITS_X * X_ELEM);
  s->sums = s->scales;
  if (SPLITS_X == 3) s->sums += (uint32_t)((a->x_units * s->width * 4 + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN);
  s->parts = s->sums + (PACKED_MIN(T) ? (uint32_t)(a->x_units * RUNS * 4) : 0);
  s->table = s->parts + (uint32_t)(WARPS * a->slots * GA_PACKED_ROWS * 4);
  return b;
}

/* --- addresses of parts --- */

/* Returns the slot of part `part` of the block. */
GA_DEV int part_slot(args a, const block_share *b, int part) {
  const int parts = parts_of_tile(a);
  return adds_slots(a) ? part % parts : (b->first + part / parts) / a->tiles;
}

/* Returns the global address at which part `part` of the block, of slot `slot`, begins in the stack of expert 0. */
GA_DEV uint64_t part_start(args a, const block_share *b, int part, int slot) {
  const int parts = parts_of_tile(a), tile = b->first + part / parts,
            row = adds_slots(a) ? tile : tile - slot * a->tiles;
  const void *w = !adds_slots(a) && part % parts == 1 ? a->e.w_gate : a->e.w;
  return (uint64_t)w + (uint64_t)((int64_t)row * a->units * UNIT_BYTES);
}

/* Returns the bytes from one expert's matrix to the next one's. */
GA_DEV int64_t expert_bytes(args a) { return a->e.expert_rows / GA_PACKED_ROWS * a->units * UNIT_BYTES; }

/* Writes the table of the warps that sum each tile. */
GA_DEV void fill_sums_table(const block_share *b) {
  const packed_constants k = packed_constants_of(T);
  if (thread_index() == 0) {
    sts_u2(b->s.table, k.low, k.high);
    sts_u1(b->s.table + 8, k.top);
  }
  for (int t = GA_P_THREADS - 1 - thread_index(); t < b->s.tiles; t += GA_P_THREADS)
    sts_u1(b->s.table + (uint32_t)(CONSTANTS_BYTES + 4 * t), sums_of_tile(&b->s, t));
}

/* --- copies --- */

GA_DEV void begin_part(part_asker *s) {
  const uint32_t low = shfl_idx_u32((uint32_t)s->start, s->part),
                 high = shfl_idx_u32((uint32_t)(s->start >> 32), s->part);
  s->w = (uint64_t)high << 32 | low;
}

/* Issues the copy of the warp's next item to a stage of its ring. */
GA_DEV void ask_item(args a, part_asker *s, int stage) {
  const uint32_t bar = s->ring - BARS_BYTES + (uint32_t)(stage * 8),
                 bytes = UNIT_BYTES * (is_short_item(a, s->at) ? 1 : PER);
  if (warp_elect()) {
    mbar_arrive_expect(bar, bytes);
    bulk_load_bytes(s->ring + (uint32_t)(stage * ITEM_BYTES), (const void *)s->w, bytes, bar, L2_EVICT_FIRST);
  }
  s->w += bytes;
  s->left--;
  if (++s->at < a->items || s->left == 0) return;
  s->at = 0;
  s->part++;
  begin_part(s);
}

/* --- X --- */

/* Loads the lane's four elements, from column k on, of the row of X of slot `slot` (OUT), or of the token. Elements
 * outside of X become zeros. */
GA_DEV void get_x_of(args a, const block_share *b, int slot, int64_t k, float *x) {
  const int64_t row = adds_slots(a) ? (int64_t)b->token * a->e.top_k + slot : b->token;
  const float *from = (const float *)a->e.x + row * a->e.x_stride;
  get_row(k + 4 <= a->e.k && (uint64_t)(from + k) % 16 == 0, from, a->e.k, k, x);
}

/* Converts X to digits, or to sums of two bf16, in shared memory. A slot of OUT begins at a multiple of X_UNITS units.
 * The warp's first copies are issued between the first loads and their use. */
GA_DEV void convert_x_of(args a, const block_share *b, part_asker *next, int warp, int lane) {
  enum { QUADS = X_K / 128, AHEAD = QUADS == 2 ? 2 : 4 };
  const int slot_chunks = a->slot_units / X_UNITS, chunks = a->x_units / X_UNITS;
  GA_ROLL for (int base = warp; base == warp || base < chunks; base += AHEAD * WARPS) {
    float x[AHEAD][QUADS][4];
    GA_UNROLL for (int i = 0; i < AHEAD; i++) {
      const int chunk = base + i * WARPS, slot = chunk / slot_chunks;
      GA_UNROLL for (int v = 0; v < QUADS; v++) GA_UNROLL for (int e = 0; e < 4; e++) x[i][v][e] = 0;
      if (chunk >= chunks) continue;
      GA_UNROLL for (int v = 0; v < QUADS; v++)
          get_x_of(a, b, slot, (int64_t)(chunk - slot * slot_chunks) * X_K + 4 * lane + 128 * v, x[i][v]);
    }
    if (base == warp) {
      next->start += (uint64_t)(next->expert * expert_bytes(a));
      begin_part(next);
      next->w += (uint64_t)(next->at * ITEM_BYTES);
      GA_ROLL for (int d = 0; d < a->depth && next->left > 0; d++) ask_item(a, next, d);
    }
    GA_UNROLL for (int i = 0; i < AHEAD; i++) {
      const int chunk = base + i * WARPS;
      if (chunk >= chunks) continue;
      put_x(1, &b->s, chunk, 0, lane, x[i]);
    }
  }
  block_sync();
}

/* --- products --- */

/* Adds a part's sums, times the weight of its slot, to those of the tile, and sets them to zero. i is the part's index
 * among the warp's parts. */
GA_DEV void end_part(const part_asker *s, int i, float *total, float *acc) {
  const float weight = __uint_as_float(shfl_idx_u32(float_bits(s->weight), i));
  GA_UNROLL for (int e = 0; e < 4; e++) total[e] = fmaf(weight, acc[e], total[e]);
  GA_UNROLL for (int e = 0; e < 4; e++) acc[e] = 0;
}

/* Multiplies X by the warp's items, `items` in number, from item `at` of part `part` on. */
GA_DEV void take_items_of(args a, const block_share *b, part_asker *next, int warp, int lane, int items, int part,
                          int at) {
  lane_view v = view_of(1, &b->s, lane);
  uint32_t table = b->s.table;
  const int parts = adds_slots(a) ? a->e.top_k : 1;
  int stage = 0, slot = 0, ended = 0 /* parts */, which = adds_slots(a) ? part % parts : 0;
  uint32_t parity = 0;
  float acc[SPLITS_X][4], total[4];
  GA_UNROLL for (int e = 0; e < 4; e++) acc[0][e] = total[e] = 0;
  pin_u32(v.x, 2); /* later loads stay after the barrier */
  pin_u32(v.scales, 2);
  pin_u32(&v.sums, 1);
  pin_u32(&table, 1);
  const packed_constants k = get_constants(table);
  GA_ROLL for (; items > 0; items--) {
    const bool both = PER == 2 && !is_short_item(a, at);
    const int unit = which * a->slot_units + PER * at;
    uint32_t w[PER][WORDS], item = next->ring + (uint32_t)(stage * ITEM_BYTES);
    mbar_wait(next->ring - BARS_BYTES + (uint32_t)(stage * 8), parity);
    pin_u32(&item, 1);
    packed_fetch(T, w[0], item, lane);
    if (both) packed_fetch(T, w[PER - 1], item + UNIT_BYTES, lane);
    int done = 0; /* 0, once the item is in registers */
    GA_UNROLL for (int i = 0; i < PER; i++) pin_u32(w[i], WORDS);
    GA_UNROLL for (int i = 0; i < PER; i++) done += (int)packed_fetched(T, w[i], WORDS);
    warp_sync();
    if (next->left > 0) ask_item(a, next, stage + done);
    take_unit(1, &v, &k, w[0], unit, lane, acc);
    if (both) take_unit(1, &v, &k, w[PER - 1], unit + 1, lane, acc);
    if (++stage == a->depth) stage = 0, parity ^= 1;
    if (++at < a->items && items > 1) continue;
    end_part(next, ended++, total, acc[0]);
    which = at < a->items ? which : which + 1;
    if (items > 1 && adds_slots(a) && which < parts) {
      at = 0;
      continue;
    }
    GA_UNROLL for (int e = 0; e < 4; e++) acc[0][e] = total[e];
    GA_UNROLL for (int e = 0; e < 4; e++) total[e] = 0;
    put_split(1, a->slots, &b->s, warp, slot++, lane, acc);
    at = which = 0;
  }
  block_sync();
}

/* --- results --- */

/* Row `row` of the block's tile `i` of IN. */
GA_DEV void finish_in(args a, const block_share *b, int i, int row) {
  const int tile = b->first + i, slot = tile / a->tiles;
  const int64_t col = (int64_t)(tile - slot * a->tiles) * GA_PACKED_ROWS + row,
                at = (int64_t)b->token * a->e.top_k + slot;
  if (col >= a->e.n) return;
  const bool gated = has_gate(a);
  const int expert = a->e.flags & EXPERT_BIAS ? a->e.experts[at] : 0;
  const float weight = expert_weight(&a->e, at);
  float g = 0;
  const float u = expert_with_bias(&a->e, a->e.bias, expert, col, weight,
                                   add_splits_of(a->slots, &b->s, gated ? 2 * i : i, row, 0));
  if (gated)
    g = expert_with_bias(&a->e, a->e.bias_gate, expert, col, weight, add_splits_of(a->slots, &b->s, 2 * i + 1, row, 0));
  elem_put_f32(a->e.y, at * a->e.y_stride + col, expert_into_slot(&a->e, g, u));
}

/* Row `row` of the block's tile `i` of OUT. */
GA_DEV void finish_out(args a, const block_share *b, int i, int row) {
  const int64_t col = (int64_t)(b->first + i) * GA_PACKED_ROWS + row, first = (int64_t)b->token * a->e.top_k,
                at = b->token * a->e.y_stride + col;
  if (col >= a->e.n) return;
  float sum = add_splits_of(a->slots, &b->s, i, row, 0);
  if (a->e.flags & EXPERT_BIAS)
    for (int j = 0; j < a->e.top_k; j++)
      sum = fmaf(expert_weight(&a->e, first + j), a->e.bias[a->e.experts[first + j] * a->e.expert_rows + col], sum);
  if (a->e.flags & EXPERT_RESIDUAL) sum += elem_get_f32(a->e.residual, at);
  elem_put_f32(a->e.y, at, sum);
}

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_expert_ring a) {
  const int lane = thread_index() % 32, warp = warp_uniform(thread_index() / 32);
  grid_launch_dependents();
  const block_share b = block_share_of(&a);
  const int first = first_item(&b.s, warp), items = first_item(&b.s, warp + 1) - first, part = first / a.items,
            at = first - part * a.items;
  part_asker next = {0, at, 0, smem_base() + (uint32_t)(warp * RING_BYTES(a.depth)) + BARS_BYTES, items, 0, 0, 1};
  const bool has_part = part + lane < b.each * parts_of_tile(&a);
  const int slot = has_part ? part_slot(&a, &b, part + lane) : 0;
  if (has_part) next.start = part_start(&a, &b, part + lane, slot);
  if (lane == 0) {
    GA_ROLL for (int d = 0; d < a.depth; d++) mbar_init(next.ring - BARS_BYTES + (uint32_t)(d * 8), 1);
    mbar_init_fence();
  }
  warp_sync();
  fill_sums_table(&b);
  grid_dependency_wait();
  if (has_part) next.expert = ldg_i32(a.e.experts + (int64_t)b.token * a.e.top_k + slot);
  if (has_part && adds_slots(&a)) next.weight = expert_weight(&a.e, (int64_t)b.token * a.e.top_k + slot);
  convert_x_of(&a, &b, &next, warp, lane);
  take_items_of(&a, &b, &next, warp, lane, items, part, at);
  for (int i = thread_index(); i < b.each * GA_PACKED_ROWS; i += GA_P_THREADS)
    if (adds_slots(&a))
      finish_out(&a, &b, i / GA_PACKED_ROWS, i % GA_PACKED_ROWS);
    else
      finish_in(&a, &b, i / GA_PACKED_ROWS, i % GA_PACKED_ROWS);
}
