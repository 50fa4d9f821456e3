/* Products by experts on the CPU: a driver, and the kinds of products that its rows have.
 *
 *   sorted row p = a slot's place in the order by expert; rows offsets[e] to offsets[e + 1] - 1 are expert e's
 *   unit         = consecutive rows of an expert's matrix that are multiplied together
 *
 * IN: threads take runs of units of one expert. OUT: threads take runs of units, and multiply them for all experts in
 * rising order, so that each sum is one thread's work in one order and needs no room beside Y. */
#ifndef GA_CPU_CPU_EXPERT_H
#define GA_CPU_CPU_EXPERT_H

#include "cpu/cpu_kernels.h"
#include "ga/experts.h"

#define EXPERT_MOST_COLS 32 /* Largest number of sorted rows that are multiplied at once. */
#define EXPERT_MOST_UNIT 32 /* Largest number of rows of W in a unit. */

typedef struct expert_job expert_job;

/* A kind of product. `job` has what the kind needs: impl, rows and scratch. */
typedef struct expert_kind {
  int32_t unit; /* number of rows of W in a unit */
  /* Brings sorted rows [begin, end) of active experts' X into job->rows, which `multiply` reads. NULL: it reads X
   * itself. */
  void (*load)(const expert_job *job, int64_t begin, int64_t end);
  /* Returns the unit that begins at row `row` of the stack w. `left` is the number of the matrix's rows from there on.
   * `set` is 0 or 1; a unit stays valid until the thread opens another one of its set. */
  const void *(*open)(const expert_job *job, const void *w, int64_t row, int64_t left, int thread, int set);
  /* Returns how many of an expert's next `left` sorted rows are multiplied at once. */
  int64_t (*cols)(const expert_job *job, int64_t left);
  /* Computes out[c][unit], the products of a unit of the i-th active expert with sorted row p + c. */
  void (*multiply)(const expert_job *job, const void *unit, int32_t i, int64_t p, int64_t cols, float *out);
  /* Replaces t[cols][unit] by the activation `act`: SILU or one of the two GELUs. */
  void (*activate)(const expert_job *job, int32_t act, int64_t cols, float *t);
  /* Ends a thread's work with its units. NULL: there is nothing to end. */
  void (*close)(void);
} expert_kind;

struct expert_job {
  const ga_expert_gemm_desc *d;
  const ga_expert_gemm_io *a;
  const expert_kind *kind;
  const void *impl; /* what the kernel's row names, or NULL */
  void *rows;       /* rows of X by sorted row, as `load` has brought them */
  float *scratch;   /* units that threads have opened */
  /* --- set by cpu_expert_run --- */
  const int32_t *offsets, *order;
  int32_t *active, n_active; /* experts that have rows and a matrix, in rising order */
  int64_t units, chunk, runs;
};

/* Returns the row of X of sorted row p. */
static inline int64_t expert_x_row(const expert_job *job, int64_t p) {
  const int32_t i = job->order[p];
  if (job->d->form == GA_EXPERT_IN) return i / job->d->top_k;
  return job->d->flags & GA_EXPERT_SORTED ? p : i;
}

/* Returns the bytes of lists that cpu_expert_run needs, a multiple of 64; UINT64_MAX: they exceed 64 bits. */
uint64_t cpu_expert_list_bytes(const ga_expert_gemm_desc *d);
/* Checks numbers of experts, and runs a product. lists has cpu_expert_list_bytes bytes. */
ga_status cpu_expert_run(expert_job *job, const ga_kernel *kernel, void *lists, ga_stream *stream);

#endif
