/* KERNEL    expert_few, sm80: products by experts with packed stacks (GA_LAYOUT_MMA_PACKED), for few rows an
 *           expert
 * COMPUTES  Y of ga_expert_gemm (ga/experts.h), or the results of slots, which expert_sum adds up. Products as in
 *           packed_few.h
 * CONTRACT  x and y f32, k at least 1; w packed, at multiples of 16 bytes; n and k up to 2^28
 * WORK      a group is up to group_rows rows of an expert, with SORTED or IN_TURN; else it is a slot (IN) or a token
 *           with all its slots (OUT). Slots whose expert has no matrix are left out. `shares` blocks have a group,
 *           each a run of its tiles of 16 rows of W. A tile has a part for each matrix or slot; all units of all
 *           parts are divided evenly among the warps
 * DATA      W: gmem -> registers, 16 bytes a lane, a group reads it once. A warp loads DEPTH - 1 units before it
 *           multiplies one; if DEPTH is 1, it loads the next one afterwards. X: two bf16 an element in shared memory,
 *           once a block. Sums of warps meet in shared memory and are added in one order
 * BUDGET    THREADS lanes, one block a multiprocessor, DEPTH units of W in registers
 * MEASURED  one H200, 8 of 128 experts, 768 x 2048 q4_k, gate and up: 1 token 11.1 us, 8 tokens 51 us
 */
#include "cuda/dev/ptx/mem.h"
#include "cuda/kern/expert/expert_rows.h"
#include "cuda/kern/gemm/packed_few.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_W
#error "GA_P_W: type of W: Q4_0, Q4_K, F16, ..."
#endif
#ifndef GA_P_DEPTH
#error "GA_P_DEPTH: units of W that a warp holds, 1 to 3"
#endif
#ifndef GA_P_THREADS
#error "GA_P_THREADS: lanes of a block"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif
static_assert(GA_P_SMEM <= 229376, "what a launch takes at most: 227 KiB less what the kernel declares");

#define T GA_CAT(T_, GA_P_W)
enum {
  WARPS = GA_P_THREADS / 32,
  WORDS = PACKED_WORDS(T),
  GROUPS = PACKED_GROUPS(T),
  UNIT_K = PACKED_K(T),
  UNIT_BYTES = PACKED_BYTES(T),
  DEPTH = GA_P_DEPTH,
  HALVES = PACKED_HALVES(T) ? 2 : 1,
  COLS = PACKED_FEW_COLS,
  ROWS = 16 /* of a tile */
};

typedef const ga_kargs_expert_few *args;

/* Rows that a block multiplies, and its share of the work. */
typedef struct {
  int expert, matrix;     /* of all rows; OUT without SORTED: slot_expert and slot_matrix have each slot's */
  int first, count;       /* sorted rows, or slots; count 0: the block has no work */
  int step;               /* from one of them to the next: n_experts with IN_TURN, else 1 */
  int copies;             /* of X: twice the rows, rounded up to a power of two; OUT without SORTED: 2 for each slot */
  int tile, tiles;        /* first and number */
  int parts;              /* of a tile: matrices, or slots */
  int n;                  /* units: tiles * parts * units of k */
  uint32_t x, sums, sets; /* shared addresses of X, of its sums, and of the warps' sums */
} share;

typedef struct {
  int before[WARPS];                    /* groups of the experts of lower warps */
  int found[3];                         /* expert, first sorted row and number of rows of the block's group */
  int slots;                            /* OUT without SORTED: number of the token's slots that are not left out, */
  int slot_number[EXPERT_MOST_SLOTS];   /* which of the token's slots each is, */
  int slot_expert[EXPERT_MOST_SLOTS];   /* its expert, */
  int slot_matrix[EXPERT_MOST_SLOTS];   /* and matrix, */
  int slot_at[EXPERT_MOST_SLOTS];       /* the slots in the order in which results are added, */
  float slot_weight[EXPERT_MOST_SLOTS]; /* and the weight of each */
} block_shared;

/* True if a block has a token's slots with an expert each. */
GA_DEV bool is_for_token(args a) { return a->e.form == EXPERT_OUT && !(a->e.flags & EXPERT_SORTED); }

/* --- which rows --- */

/* Returns how many groups an expert has. */
GA_DEV int expert_groups(args a, int e) {
  if (expert_matrix(&a->e, e) < 0) return 0;
  return (a->e.offsets[e + 1] - a->e.offsets[e] + a->group_rows - 1) / a->group_rows;
}

/* Returns how many groups the lane's experts [first, last) have. */
GA_DEV int lane_groups(args a, int first, int last) {
  int n = 0;
  for (int e = first; e < last; e++) n += expert_groups(a, e);
  return n;
}

/* Finds sorted group `group` of the experts' groups, in their order: the lane whose experts have it writes it. */
GA_DEV void find_group(args a, int group, block_shared *s) {
  const int lane = thread_index() % 32, warp = thread_index() / 32;
  const int each = (a->e.n_experts + GA_P_THREADS - 1) / GA_P_THREADS, first = thread_index() * each,
            last = first + each < a->e.n_experts ? first + each : a->e.n_experts;
  const int own = lane_groups(a, first, last);
  int upto = own;
  GA_UNROLL for (int d = 1; d < 32; d *= 2) {
    const int x = (int)shfl_up_u32((uint32_t)upto, d);
    if (lane >= d) upto += x;
  }
  if (lane == 31) s->before[warp] = upto;
  if (thread_index() < 3) s->found[thread_index()] = 0;
  block_sync();
  int at = upto - own;
  for (int w = 0; w < warp; w++) at += s->before[w];
  if (group < at || group >= at + own) return;
  for (int e = first; e < last; e++) {
    const int row = a->e.offsets[e], rows = a->e.offsets[e + 1] - row, mine = expert_groups(a, e);
    if (group >= at + mine) {
      at += mine;
      continue;
    }
    const int done = (group - at) * a->group_rows;
    s->found[0] = e;
    s->found[1] = row + done;
    s->found[2] = rows - done < a->group_rows ? rows - done : a->group_rows;
    return;
  }
}

/* Finds group `group` of IN_TURN: groups of an expert follow each other. */
GA_DEV void find_turn(args a, int group, share *sh) {
  const int n = a->e.n_experts, most = (int)((a->e.tokens + n - 1) / n),
            groups = (most + a->group_rows - 1) / a->group_rows, done = group % groups * a->group_rows;
  sh->expert = group / groups;
  sh->step = n;
  sh->first = done * n + sh->expert;
  const int rows = (int)((a->e.tokens - sh->expert + n - 1) / n) - done;
  sh->count = rows < 0 ? 0 : rows < a->group_rows ? rows : a->group_rows;
}

/* Experts of a token's slots, and their order. */
GA_DEV void find_slots(args a, int64_t token, block_shared *s) {
  const int slot = thread_index();
  if (slot >= a->e.top_k) return;
  const int64_t first = token * a->e.top_k;
  const int expert = a->e.experts[first + slot], matrix = expert_matrix(&a->e, expert),
            key = expert_slot_key(&a->e, first + slot);
  int rank = 0, before = 0, all = 0;
  for (int j = 0; j < a->e.top_k; j++) {
    if (expert_is_left_out(&a->e, first + j)) continue;
    rank += expert_slot_key(&a->e, first + j) < key;
    before += j < slot;
    all++;
  }
  if (slot == 0) s->slots = all;
  if (matrix < 0) return;
  s->slot_number[before] = slot;
  s->slot_expert[before] = expert;
  s->slot_matrix[before] = matrix;
  s->slot_at[rank] = before;
  s->slot_weight[before] = expert_weight(&a->e, first + slot);
}

GA_DEV share find_share(args a, block_shared *s) {
  const int group = block_index() / a->shares, number = block_index() % a->shares;
  share sh = {0, 0, group, 1, 1, 2, 0, 0, a->e.flags & EXPERT_GATED ? 2 : 1, 0, 0, 0, 0};
  if (is_for_token(a)) {
    find_slots(a, group, s);
    sh.first = group * a->e.top_k;
  } else if (a->e.flags & EXPERT_SORTED) {
    find_group(a, group, s);
  } else if (a->e.flags & EXPERT_IN_TURN) {
    find_turn(a, group, &sh);
  } else {
    sh.expert = a->e.experts[group];
  }
  block_sync();
  if (is_for_token(a)) sh.count = sh.parts = s->slots;
  if (a->e.flags & EXPERT_SORTED) {
    sh.expert = s->found[0];
    sh.first = s->found[1];
    sh.count = s->found[2];
  }
  while (!is_for_token(a) && sh.copies < 2 * sh.count) sh.copies *= 2;
  sh.matrix = expert_matrix(&a->e, sh.expert);
  if (sh.matrix < 0 && !is_for_token(a)) sh.count = 0;
  while (!is_for_token(a) && sh.copies < 2 * sh.count) sh.copies *= 2;
  sh.tile = (int)((int64_t)a->tiles * number / a->shares);
  sh.tiles = (int)((int64_t)a->tiles * (number + 1) / a->shares) - sh.tile;
  sh.n = sh.tiles * sh.parts * a->units;
  sh.x = smem_base();
  sh.sums = sh.x + (uint32_t)a->x_bytes;
  sh.sets = sh.sums + (uint32_t)a->sum_bytes;
  return sh;
}

GA_DEV int first_unit_of(const share *s, int warp) { return (int)((int64_t)s->n * warp / WARPS); }
/* Returns the warp that has unit `unit`: the last one whose first unit is not after it. */
GA_DEV int warp_of_unit(const share *s, int unit) { return (int)(((uint32_t)(unit + 1) * WARPS - 1) / (uint32_t)s->n); }

/* Returns the slot, among all tokens' slots, of the block's i-th row. */
GA_DEV int64_t row_slot(args a, const share *sh, int i) {
  const int64_t at = sh->first + (int64_t)i * sh->step;
  return a->e.flags & EXPERT_SORTED ? a->e.order[at] : at;
}

/* --- X to shared memory --- */

/* Four elements of the block's row i from column k on; zeros outside. */
GA_DEV void get_row_x(args a, const share *sh, const block_shared *s, int i, int64_t k, float *x) {
  GA_UNROLL for (int e = 0; e < 4; e++) x[e] = 0;
  if (i >= sh->count || k >= a->e.k) return;
  const int64_t row = a->e.form == EXPERT_IN ? row_slot(a, sh, i) / a->e.top_k
                      : is_for_token(a)      ? sh->first + s->slot_number[i]
                                             : sh->first + i;
  const float *from = (const float *)a->e.x + row * a->e.x_stride + k;
  if (k + 4 <= a->e.k && (uint64_t)from % 16 == 0)
    elem_get16_f32(x, from, 0);
  else GA_UNROLL
    for (int e = 0; e < 4; e++)
      if (k + e < a->e.k) x[e] = from[e];
}

/* Returns the bytes from one slot's X to the next one's, and of its sums: OUT without SORTED. */
GA_DEV int x_slot_bytes(args a) { return a->units * GROUPS * 128; }
GA_DEV int sum_slot_bytes(args a) { return a->units * GROUPS * HALVES * 8; }

/* AHEAD loads of a lane are under way at once. */
GA_DEV void split_block_x(args a, const share *sh, const block_shared *s) {
  enum { AHEAD = 4 };
  const bool apart = is_for_token(a);
  const int h = sh->copies / 2, per = a->units * UNIT_K / 4, rows = apart ? sh->count : h,
            cols = packed_sum_cols(sh->copies);
  for (int base = 0; base < rows * per; base += AHEAD * GA_P_THREADS) {
    float x[AHEAD][4];
    GA_UNROLL for (int b = 0; b < AHEAD; b++) {
      const int i = base + b * GA_P_THREADS + thread_index(), row = i / per;
      get_row_x(a, sh, s, i < rows * per ? row : sh->count, 4 * (int64_t)(i - row * per), x[b]);
    }
    GA_UNROLL for (int b = 0; b < AHEAD; b++) {
      const int i = base + b * GA_P_THREADS + thread_index(), row = i / per, v = i - row * per, group = v / 8,
                e = v % 8 * 4, col = apart ? 0 : row;
      uint32_t hi[2], lo[2];
      float sum = packed_split_x(x[b], hi, lo);
      if (PACKED_MIN(T)) GA_UNROLL
        for (int m = 1; m < (HALVES == 2 ? 4 : 8); m *= 2) sum += shfl_xor_f32(sum, m);
      if (i >= rows * per) continue;
      const uint32_t at = sh->x + (uint32_t)(apart ? row * x_slot_bytes(a) : 0) +
                          (uint32_t)(group * sh->copies * 64 + packed_x_at(e) * 2);
      sts_u2(at + (uint32_t)col * 64, hi[0], hi[1]);
      sts_u2(at + (uint32_t)(col + h) * 64, lo[0], lo[1]);
      if (!PACKED_MIN(T) || e % (32 / HALVES)) continue;
      const uint32_t sums = sh->sums + (uint32_t)(apart ? row * sum_slot_bytes(a) : 0) +
                            (uint32_t)((group * HALVES + e / 16 * (HALVES - 1)) * cols) * 4;
      sts_f1(sums + (uint32_t)col * 4, sum);
      if (sh->copies <= COLS) sts_f1(sums + (uint32_t)(col + h) * 4, 0); /* the high column has all of it */
    }
  }
}

/* --- products --- */

/* Returns where the units of part `part` (tile * parts + matrix or slot) of the block begin. */
GA_DEV const uint8_t *units_at(args a, const share *sh, const block_shared *s, int part) {
  const int tile = part / sh->parts, which = part % sh->parts,
            matrix = is_for_token(a) ? s->slot_matrix[which] : sh->matrix;
  const void *w = a->e.flags & EXPERT_GATED && which == 0 ? a->e.w_gate : a->e.w;
  return (const uint8_t *)w +
         ((int64_t)matrix * (a->e.expert_rows / ROWS) + sh->tile + tile) * a->units * (int64_t)UNIT_BYTES;
}

/* A warp's sum of what it has of a part goes to its set, and starts anew. */
GA_DEV void put_set(args a, const share *sh, int warp, int set, int lane, float *acc) {
  const uint32_t at = sh->sets + (uint32_t)(((warp * a->slots + set) * ROWS + lane / 4) * COLS + lane % 4 * 2) * 4;
  sts_f2(at, acc[0], acc[1]);
  sts_f2(at + 8 * COLS * 4, acc[2], acc[3]);
  GA_UNROLL for (int e = 0; e < 4; e++) acc[e] = 0;
}

/* Row `row` and column `col` of a part: the sum of the warps that had units of it. */
GA_DEV float add_sets(args a, const share *sh, int part, int row, int col) {
  const int first = warp_of_unit(sh, part * a->units), last = warp_of_unit(sh, (part + 1) * a->units - 1);
  float sum = 0;
  for (int w = first; w <= last; w++) {
    if (first_unit_of(sh, w) == first_unit_of(sh, w + 1)) continue;
    const int set = w == first ? part - first_unit_of(sh, w) / a->units : 0; /* later warps begin with this part */
    const uint32_t at = sh->sets + (uint32_t)(((w * a->slots + set) * ROWS + row) * COLS + col) * 4;
    sum += lds_f1(at);
    if (sh->copies <= COLS) sum += lds_f1(at + (uint32_t)sh->copies * 2);
  }
  return sum;
}

/* two: X has more copies than COLS. */
GA_DEV void multiply_parts_of(args a, const share *sh, block_shared *s, bool two) {
  const int lane = thread_index() % 32, warp = warp_uniform(thread_index() / 32);
  const int first = first_unit_of(sh, warp), end = first_unit_of(sh, warp + 1);
  int next = first, next_part = first / a->units, next_at = first - next_part * a->units; /* the unit to load next */
  int part = next_part, at = next_at, set = 0;
  const uint8_t *w = units_at(a, sh, s, next_part) + (int64_t)next_at * UNIT_BYTES;
  uint32_t words[DEPTH][WORDS];
  float acc[4] = {0, 0, 0, 0};
#define GA_LOAD(d)                             \
  if (next < end) {                            \
    packed_load(T, words[d], w, lane);         \
    next++;                                    \
    w += UNIT_BYTES;                           \
    if (++next_at == a->units && next < end) { \
      next_at = 0;                             \
      w = units_at(a, sh, s, ++next_part);     \
    }                                          \
  }
  GA_UNROLL for (int d = 0; d < (DEPTH > 1 ? DEPTH - 1 : 1); d++) GA_LOAD(d) split_block_x(a, sh, s);
  block_sync();
  const bool apart = is_for_token(a);
  GA_ROLL for (int u = first; u < end;) {
    GA_UNROLL for (int d = 0; d < DEPTH; d++) {
      if (u >= end) break;
      if (DEPTH > 1) GA_LOAD((d + DEPTH - 1) % DEPTH)
      const int slot = apart ? part % sh->parts : 0;
      packed_take_unit(T, sh->x + (uint32_t)(slot * x_slot_bytes(a)), sh->sums + (uint32_t)(slot * sum_slot_bytes(a)),
                       sh->copies, two, words[d], at, lane, acc);
      if (DEPTH == 1) GA_LOAD(0)
      u++;
      if (++at < a->units && u < end) continue;
      put_set(a, sh, warp, set++, lane, acc);
      if (at == a->units) at = 0, part++;
    }
  }
  block_sync();
}

/* --- results --- */

/* Element (row of the block's rows, column `col` of Y) of IN, or a slot's result of OUT. */
GA_DEV void finish_slot(args a, const share *sh, int i, int tile, int row, int64_t col) {
  const bool in = a->e.form == EXPERT_IN, gated = a->e.flags & EXPERT_GATED;
  const int64_t y_row = sh->first + (int64_t)i * sh->step;
  const float weight = in ? expert_weight(&a->e, row_slot(a, sh, i)) : 1;
  const int of_u = tile * sh->parts + sh->parts - 1;
  float g = 0;
  const float u = expert_with_bias(&a->e, a->e.bias, sh->expert, col, weight, add_sets(a, sh, of_u, row, i));
  if (!in) {
    a->e.results[y_row * a->e.n + col] = u;
    return;
  }
  if (gated) g = expert_with_bias(&a->e, a->e.bias_gate, sh->expert, col, weight, add_sets(a, sh, of_u - 1, row, i));
  elem_put_f32(a->e.y, y_row * a->e.y_stride + col, expert_into_slot(&a->e, g, u));
}

GA_DEV void finish_slots(args a, const share *sh) {
  const int rows = sh->tiles * ROWS;
  for (int i = thread_index(); i < rows * sh->count; i += GA_P_THREADS) {
    const int row = i % rows;
    const int64_t col = (int64_t)sh->tile * ROWS + row;
    if (col < a->e.n) finish_slot(a, sh, i / rows, row / ROWS, row % ROWS, col);
  }
}

/* Rows of OUT without SORTED: results of the token's slots take the place of X, then each column adds its own up. */
GA_DEV void finish_token(args a, const share *sh, const block_shared *s) {
  const int rows = sh->tiles * ROWS;
  const int64_t first = (int64_t)sh->tile * ROWS, token = sh->first / a->e.top_k;
  for (int i = thread_index(); i < rows * sh->parts; i += GA_P_THREADS) {
    const int slot = i / rows, row = i % rows;
    const float x = add_sets(a, sh, row / ROWS * sh->parts + slot, row % ROWS, 0);
    if (first + row >= a->e.n) continue;
    sts_f1(sh->x + (uint32_t)i * 4,
           s->slot_weight[slot] * expert_with_bias(&a->e, a->e.bias, s->slot_expert[slot], first + row, 1, x));
  }
  block_sync();
  for (int row = thread_index(); row < rows; row += GA_P_THREADS) {
    const int64_t at = token * a->e.y_stride + first + row;
    if (first + row >= a->e.n) continue;
    float sum = a->e.flags & EXPERT_RESIDUAL ? elem_get_f32(a->e.residual, at) : 0;
    for (int i = 0; i < sh->parts; i++) sum += lds_f1(sh->x + (uint32_t)(s->slot_at[i] * rows + row) * 4);
    elem_put_f32(a->e.y, at, sum);
  }
}

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_expert_few a) {
  GA_SHARED block_shared s;
  grid_launch_dependents();
  grid_dependency_wait();
  const share sh = find_share(&a, &s);
  if (sh.count == 0) {
    if (is_for_token(&a)) finish_token(&a, &sh, &s); /* residual, or zeros */
    return;
  }
  if (sh.copies > COLS) /* code of its own: few rows are the usual case */
    multiply_parts_of(&a, &sh, &s, true);
  else
    multiply_parts_of(&a, &sh, &s, false);
  if (is_for_token(&a))
    finish_token(&a, &sh, &s);
  else
    finish_slots(&a, &sh);
}
