/* The pass that chooses launches. It joins nodes of a graph into one launch, if the planner finds a kernel for it.
 *
 * Patterns (fuse.c has the table) look at the users of values, never at positions of nodes. Nodes that no pattern takes
 * are launches of their own. The launches are chosen when a program is made and hold for a whole session. Running a
 * program needs no planner. */
#ifndef GA_MODEL_PASS_FUSE_H
#define GA_MODEL_PASS_FUSE_H

#include "model/program.h"

/* Classes of numbers of rows, for which different kernels are best: each of 1 to FUSED_FEW is its own class; class 0 is
 * more rows. */
enum { FUSED_FEW = 8 };
static inline int32_t fused_class(int32_t rows) { return rows <= FUSED_FEW ? rows : 0; }

/* Functions that say whether the kernel table has a kernel for a launch. */
typedef struct fuse_planner {
  ga_status (*takes_product)(void *user, const ga_gemm_fused_desc *desc, bool *taken);
  ga_status (*takes_store)(void *user, const ga_kv_store_fused_desc *desc, bool *taken);
  void *user;
} fuse_planner;
/* Returns the planner of a context. It only looks kernels up: nothing is planned or run. */
fuse_planner fuse_planner_of(ga_ctx *ctx);

/* The purpose of a program: a model, some of its nodes, and a class of steps. */
typedef struct fuse_target {
  const ga_model *model;
  int32_t first, end;          /* nodes [first, end) of the graph */
  const fuse_planner *planner; /* NULL: each launch does the work of one node */
  const ga_dtype *kv;          /* element type of the layers' memory; NULL: there is none */
  int32_t tokens, wanted;      /* fused_class of the step's tokens, and of the rows whose logits are wanted */
  bool is_invariant; /* a token's numbers do not depend on the step's other tokens; tokens and wanted are then 0 */
  /* products with e4m3_128 round X to e4m3 if they have more than FUSED_FEW rows, or are batch-invariant */
  bool rounds_x;
} fuse_target;

/* Makes the target's program, whose values have strides, but no addresses yet. Release with program_destroy. */
GA_NODISCARD ga_status fuse(const fuse_target *target, ga_program **out);

#endif
