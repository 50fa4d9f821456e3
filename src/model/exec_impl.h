/* Declarations that the files of launches share. */
#ifndef GA_MODEL_EXEC_IMPL_H
#define GA_MODEL_EXEC_IMPL_H

#include "model/exec.h"

/* Returns the data of a vector of weights; NULL: the model has no such vector. */
static inline const float *exec_vector(const ga_exec *e, weight_ref w) {
  return w.id == W_NONE ? NULL : ga_weight_at(e->model, w)->data;
}
static inline int64_t exec_cols(const ga_exec *e, value_id v) { return e->model->graph->values[v].cols; }
/* Returns the input x of a launch's products, without the matrix and the number of rows. */
static inline exec_watched exec_watched_input(const ga_exec *e, const launch *l, value_id x) {
  return (exec_watched){.layer = l->layer, .x = exec_rows(e, x), .cols = exec_cols(e, x), .stride = exec_stride(e, x)};
}

/* --- exec_experts.c: launches of layers with experts --- */

GA_NODISCARD ga_status exec_route(const ga_exec *e, const launch *l);
GA_NODISCARD ga_status exec_expert_in(const ga_exec *e, const launch *l);
GA_NODISCARD ga_status exec_expert_out(const ga_exec *e, const launch *l);

#endif
