/* KERNEL    expert_sum, sm80: adds up the results of each token's slots
 * COMPUTES  Y[token] = residual + sum of weight * result over the token's slots, in the order of experts and slots
 * CONTRACT  results [tokens * top_k, n] f32, rows as SORTED says; y f32, f16 or bf16
 * WORK      a block has COLS columns of a token, a lane four of them; each block ranks the token's slots itself
 * BUDGET    THREADS lanes
 */
#include "cuda/dev/ptx/elem.h"
#include "cuda/kern/expert/expert_rows.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_THREADS
#error "GA_P_THREADS: lanes of a block"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif
static_assert(GA_P_SMEM == 0, "no dynamic shared memory");

enum { EACH = 4, COLS = EACH * GA_P_THREADS };

/* The token's slots in the order in which they are added. Those that are left out have row -1. */
typedef struct {
  int row[EXPERT_MOST_SLOTS]; /* of results */
  float weight[EXPERT_MOST_SLOTS];
} token_slots;

GA_DEV void rank_slots(const ga_kargs_expert *a, int64_t token, token_slots *s) {
  const int slot = thread_index();
  if (slot >= a->top_k) return;
  const int64_t of_all = token * a->top_k + slot;
  const int key = expert_slot_key(a, of_all);
  int rank = 0;
  for (int j = 0; j < a->top_k; j++) rank += expert_slot_key(a, token * a->top_k + j) < key;
  s->row[rank] = expert_is_left_out(a, of_all) ? -1 : (int)expert_slot_row(a, of_all);
  s->weight[rank] = expert_weight(a, of_all);
}

/* Four columns of the token, which exist and whose results are aligned to 16 bytes. */
GA_DEV void add_four(const ga_kargs_expert *a, int64_t at, int64_t col, const token_slots *s) {
  float sum[EACH] = {0, 0, 0, 0};
  if (a->flags & EXPERT_RESIDUAL) GA_UNROLL
    for (int e = 0; e < EACH; e++) sum[e] = plain_get(a->y_dtype, a->residual, at + e);
  for (int i = 0; i < a->top_k; i++) {
    float x[EACH];
    if (s->row[i] < 0) continue;
    elem_get16_f32(x, a->results, s->row[i] * a->n + col);
    GA_UNROLL for (int e = 0; e < EACH; e++) sum[e] += s->weight[i] * x[e];
  }
  GA_UNROLL for (int e = 0; e < EACH; e++) plain_put(a->y_dtype, a->y, at + e, sum[e]);
}

GA_DEV void add_one(const ga_kargs_expert *a, int64_t at, int64_t col, const token_slots *s) {
  float sum = a->flags & EXPERT_RESIDUAL ? plain_get(a->y_dtype, a->residual, at) : 0;
  for (int i = 0; i < a->top_k; i++)
    if (s->row[i] >= 0) sum += s->weight[i] * a->results[s->row[i] * a->n + col];
  plain_put(a->y_dtype, a->y, at, sum);
}

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_expert a) {
  GA_SHARED token_slots s;
  const int across = (int)((a.n + COLS - 1) / COLS);
  const int64_t token = block_index() / across;
  const int64_t col = (int64_t)(block_index() % across) * COLS + EACH * thread_index(), at = token * a.y_stride + col;
  grid_launch_dependents();
  grid_dependency_wait();
  rank_slots(&a, token, &s);
  block_sync();
  if (a.n % EACH == 0 && col < a.n) {
    add_four(&a, at, col, &s);
    return;
  }
  for (int e = 0; e < EACH; e++)
    if (col + e < a.n) add_one(&a, at + e, col + e, &s);
}
