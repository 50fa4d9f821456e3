/* A rank of a bench: contenders, its memory, and one run of each. */
#ifndef GA_VERIFY_DIST_BENCH_RANK_H
#define GA_VERIFY_DIST_BENCH_RANK_H

#include "verify/dist/bench.h"
#include "verify/dist/words.h"

typedef struct contender {
  char name[32];
  char asked[DIST_WORD_BYTES]; /* requested way of copying blocks, as ga_dist_exec_options.copies */
  char copies[8];              /* way of copying blocks that was chosen, set by rank 0; "" on a CPU */
  dist_task task;
  ga_dist_plan *plan;
  ga_dist_plan *forward; /* with gradients: the plan that computes O and LSE; else NULL */
} contender;

typedef struct bench {
  const dist_bench_options *o;
  contender of[DIST_MOST_CONTENDERS];
  int count;
  int32_t dtype;
} bench;

/* Device memory for the rows of all tokens, so that one device can do all of the work. A method uses the first of
 * these rows. */
typedef struct rank_memory {
  void *q, *k, *v, *o, *dout, *dq, *dk, *dv;
  float *lse;
  int32_t *q_start, *kv_start;                                     /* first token of each packed document */
  void *o_of[DIST_MOST_CONTENDERS], *lse_of[DIST_MOST_CONTENDERS]; /* inputs of each method's backward pass */
  ga_dist_exec *exec[DIST_MOST_CONTENDERS];
  ga_dist_exec *forward_exec; /* executor of the forward plan, for one method at a time */
} rank_memory;

typedef struct bench_rank {
  bench *b;
  const dist_rank *rank;
  rank_memory m;
  double *seconds; /* [contenders + 1][rounds] seconds; the last contender is one device */
} bench_rank;

/* Allocates and draws inputs, and runs each contender once, since a first run loads kernels and allocates. */
GA_NODISCARD ga_status bench_rank_open(bench_rank *j);
void bench_rank_close(bench_rank *j); /* frees everything; also called after a failure */
/* Runs contender i, or one device if i is the number of contenders, and waits for its end. */
GA_NODISCARD ga_status bench_rank_run(const bench_rank *j, int i);

#endif
