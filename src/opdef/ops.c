#include "opdef/ops.h"

const ga_op_info *const ga_ops[] = {
#define X(name) &ga_opdef_##name,
    GA_OPS(X)
#undef X
};

const int32_t ga_n_ops = GA_OP_COUNT;
