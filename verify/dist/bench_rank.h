/* A rank of a bench: contenders, its memory, and one run of each. */
#ifndef GA_VERIFY_DIST_BENCH_RANK_H
#define GA_VERIFY_DIST_BENCH_RANK_H

#include "verify/dist/bench.h"
#include "verify/dist/words.h"

typedef struct contender {
  char name[32];
  char asked[DIST_WORD_BYTES]; /* ga_dist_exec_options.copies */
  char copies[8];              /* the way of blocks that was chosen, set by rank 0; "" on a CPU */
  dist_task task;
  ga_dist_plan *plan, *forward; /* forward: with gradients, the plan that computes O and LSE; else NULL */
} contender;

typedef struct bench {
  const dist_bench_options *o;
  contender of[DIST_MOST_CONTENDERS];
  int count;
  int32_t dtype;
} bench;

/* Rows of all tokens, so that one device can do all of the work; a method takes the first rows of them. */
typedef struct rank_memory {
  void *q, *k, *v, *o, *dout, *dq, *dk, *dv;
  float *lse;
  int32_t *q_start, *kv_start;                                     /* of packed documents */
  void *o_of[DIST_MOST_CONTENDERS], *lse_of[DIST_MOST_CONTENDERS]; /* inputs of a method's backward */
  ga_dist_exec *exec[DIST_MOST_CONTENDERS], *forward_exec;         /* forward_exec: of one method at a time */
} rank_memory;

typedef struct bench_rank {
  bench *b;
  const dist_rank *rank;
  rank_memory m;
  double *seconds; /* [contenders + 1][rounds]; the last is one device */
} bench_rank;

/* Allocates and draws inputs, and runs each contender once: a first run loads kernels and allocates. */
GA_NODISCARD ga_status bench_rank_open(bench_rank *j);
void bench_rank_close(bench_rank *j); /* also after a failure */
/* Runs contender i, or one device where i is their count, and waits for its end. */
GA_NODISCARD ga_status bench_rank_run(const bench_rank *j, int i);

#endif
