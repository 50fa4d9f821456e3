/* One rank of a bench of methods: the methods ("contenders"), the rank's memory, and one run of each method. */
#ifndef GA_VERIFY_DIST_BENCH_RANK_H
#define GA_VERIFY_DIST_BENCH_RANK_H

#include "verify/dist/bench.h"
#include "verify/dist/words.h"

typedef struct contender {
  char name[32];
  /* way of copying blocks that was requested, such as "peer" (ga_dist_exec_options.copies) */
  char asked[DIST_WORD_BYTES];
  char copies[8]; /* way of copying blocks that the run chose, set by rank 0; "" on a CPU */
  dist_task task;
  ga_dist_plan *plan;
  /* plan of the forward pass, which computes O and LSE for the plan of gradients; NULL if plan is a forward pass
   * itself */
  ga_dist_plan *forward;
} contender;

typedef struct bench {
  const dist_bench_options *o;
  contender of[DIST_MOST_CONTENDERS];
  int count;
  int32_t dtype;
} bench;

/* Device memory for the rows of all tokens, so that one device can do all of the work. A method uses only the first
 * rows, as many as the rank has. */
typedef struct rank_memory {
  void *q, *k, *v, *o, *dout, *dq, *dk, *dv;
  float *lse;
  /* first token of each document in the packed batch */
  int32_t *q_start, *kv_start;
  /* O and LSE as inputs of each method's backward pass */
  void *o_of[DIST_MOST_CONTENDERS], *lse_of[DIST_MOST_CONTENDERS];
  ga_dist_exec *exec[DIST_MOST_CONTENDERS];
  ga_dist_exec *forward_exec; /* executor of the plan `forward`, for one method at a time */
} rank_memory;

typedef struct bench_rank {
  bench *b;
  const dist_rank *rank;
  rank_memory m;
  double *seconds; /* [contenders + 1][rounds] seconds of each run; the last row is for one device */
} bench_rank;

/* Allocates and draws the inputs. Runs each contender once, since a first run loads kernels and allocates memory. */
GA_NODISCARD ga_status bench_rank_open(bench_rank *j);
void bench_rank_close(bench_rank *j); /* frees everything; it is also called after a failure of bench_rank_open */
/* Runs contender i once and waits for its end. i = the number of contenders stands for one device. */
GA_NODISCARD ga_status bench_rank_run(const bench_rank *j, int i);

#endif
