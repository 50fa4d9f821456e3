/* The pass that chooses launches: nodes of a graph that can be one launch become one, where the planner finds a row.
 *
 * Patterns (fuse.c has the table) look at the users of values, never at positions of nodes. Nodes that no pattern takes
 * are launches of their own. What a program has decided holds for a whole session; running asks no more. */
#ifndef GA_MODEL_PASS_FUSE_H
#define GA_MODEL_PASS_FUSE_H

#include "model/program.h"

/* Number of a launch's rows, as far as rows of the kernel table differ by it: 1 to FUSED_FEW, or 0: more. */
enum { FUSED_FEW = 8 };
static inline int32_t fused_class(int32_t rows) { return rows <= FUSED_FEW ? rows : 0; }

/* Says whether a row of the kernel table takes a launch. */
typedef struct fuse_planner {
  ga_status (*takes_product)(void *user, const ga_gemm_fused_desc *desc, bool *taken);
  ga_status (*takes_store)(void *user, const ga_kv_store_fused_desc *desc, bool *taken);
  void *user;
} fuse_planner;
/* The planner of a context; it plans and runs nothing. */
fuse_planner fuse_planner_of(ga_ctx *ctx);

/* Purpose of a program: a model, nodes, and the class of steps. */
typedef struct fuse_target {
  const ga_model *model;
  int32_t first, end;          /* nodes of the graph */
  const fuse_planner *planner; /* NULL: no row takes more than one node's work needs */
  const ga_dtype *kv;          /* type of the layers' memory; NULL: there is none */
  int32_t tokens, wanted;      /* fused_class of the step's tokens and of the rows whose logits are wanted */
  bool is_invariant;           /* a token's numbers do not depend on the step's others; then tokens and wanted are 0 */
  bool rounds_x; /* to e4m3, in products by e4m3_128 of more than FUSED_FEW rows, or batch-invariant ones */
} fuse_target;

/* Makes a program whose values have strides and no addresses yet. Release with program_destroy. */
GA_NODISCARD ga_status fuse(const fuse_target *target, ga_program **out);

#endif
