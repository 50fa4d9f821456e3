/* KERNEL    sample, sm80
 * COMPUTES  greedy: the largest of the logits with biases and penalties applied, the lowest id of equals; 0 when none is a number.
 *           logprob: its log-probability under the plain softmax of the logits
 * CONTRACT  temperature 0. Adjusted logits are made in double and rounded once, as ga_ref_sample has them
 * DATA      logits once from gmem (twice with logprob); a bitmap in shared memory says which tokens may be in the lists
 * BUDGET    one block of THREADS lanes: 5 us for 128 k logits, most of it latency
 */
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/ptx/elem.h"
#include "cuda/dev/tile/block_row.h"
#include "core/kargs_layer.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, pasted from its table row"
#endif
#ifndef GA_P_THREADS
#error "GA_P_THREADS: lanes of a block"
#endif

enum { AHEAD = 8 /* loads of a lane under way at once */ };

typedef struct {
  int32_t id;
  float bias;
} logit_bias; /* ga_logit_bias */

typedef struct {
  float logit;
  int id;
} candidate;

/* NaN and -infinity are nobody; of equals the lower id. */
GA_DEV candidate better(candidate a, candidate b) {
  if (!(b.logit > GA_NEG_INFINITY)) return a;
  return b.logit > a.logit || (b.logit == a.logit && b.id < a.id) ? b : a;
}

/* Bit id % 32 of word (id / 32) % THREADS is set when a list names such an id. Each lane makes its own word. */
GA_DEV uint32_t own_word(const ga_kargs_sample *a) {
  const logit_bias *bias = (const logit_bias *)a->bias;
  uint32_t word = 0;
  for (int64_t i = 0; i < a->n_history; i++)
    if ((a->history[i] >> 5) % GA_P_THREADS == thread_index()) word |= 1u << (a->history[i] & 31);
  for (int64_t i = 0; i < a->n_bias; i++)
    if ((bias[i].id >> 5) % GA_P_THREADS == thread_index()) word |= 1u << (bias[i].id & 31);
  return word;
}

GA_DEV float adjusted(const ga_kargs_sample *a, int64_t id) {
  const logit_bias *bias = (const logit_bias *)a->bias;
  double x = (double)a->logits[id];
  int count = 0;
  for (int64_t i = 0; i < a->n_bias; i++)
    if (bias[i].id == id) x += (double)bias[i].bias;
  for (int64_t i = 0; i < a->n_history; i++) count += a->history[i] == id;
  if (!count) return (float)x;
  x = x > 0 ? x / (double)a->repetition_penalty : x * (double)a->repetition_penalty;
  const double all = (double)a->frequency_penalty * count;
  return (float)(x - ((double)a->presence_penalty + all));
}

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_sample a) {
  GA_SHARED uint32_t words[GA_P_THREADS];
  GA_SHARED candidate slots[GA_P_THREADS / 32];
  GA_SHARED row_shared shared;
  const bool lists = a.n_history + a.n_bias > 0;
  grid_dependency_wait();
  grid_launch_dependents();
  words[thread_index()] = lists ? own_word(&a) : 0;
  block_sync();
  candidate best = {GA_NEG_INFINITY, 0x7fffffff};
  for (int64_t base = thread_index(); base < a.vocab; base += AHEAD * GA_P_THREADS) {
    float x[AHEAD];
    GA_UNROLL for (int b = 0; b < AHEAD; b++) {
      const int64_t i = base + b * GA_P_THREADS;
      x[b] = i < a.vocab ? a.logits[i] : GA_NEG_INFINITY;
    }
    GA_UNROLL for (int b = 0; b < AHEAD; b++) {
      const int64_t i = base + b * GA_P_THREADS;
      const candidate c = {lists && i < a.vocab && words[(i >> 5) % GA_P_THREADS] >> (i & 31) & 1 ? adjusted(&a, i) : x[b], (int)i};
      best = better(best, c);
    }
  }
  for (int m = 16; m > 0; m /= 2) {
    const candidate c = {shfl_xor_f32(best.logit, m), (int)shfl_xor_u32((uint32_t)best.id, m)};
    best = better(best, c);
  }
  if (thread_index() % 32 == 0) slots[thread_index() / 32] = best;
  block_sync();
  for (int w = 0; w < GA_P_THREADS / 32; w++) best = better(best, slots[w]);
  const int id = best.id == 0x7fffffff ? 0 : best.id;
  if (thread_index() == 0) *a.id = id;
  for (int64_t i = thread_index(); i < a.n_advance; i += GA_P_THREADS) a.advance[i]++;
  if (!a.logprob) return;
  float most = GA_NEG_INFINITY, sum = 0;
  for (int64_t i = thread_index(); i < a.vocab; i += GA_P_THREADS) most = fmaxf(most, a.logits[i]);
  most = row_max(&shared, 0, GA_P_THREADS, most);
  for (int64_t i = thread_index(); i < a.vocab; i += GA_P_THREADS) sum += expf(a.logits[i] - most);
  sum = row_sum(&shared, 1, GA_P_THREADS, sum);
  if (thread_index() == 0) *a.logprob = a.logits[id] - most - logf(sum);
}
