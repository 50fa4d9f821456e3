/* Checks of lists of stretches (ga/attn.h), for all ops that take them. */
#ifndef GA_OP_OP_STRETCH_H
#define GA_OP_OP_STRETCH_H

#include "ga/attn_bwd.h"

ga_status ga_check_q_stretches(const char *op, const ga_attn_stretch *q, int32_t n, int64_t max_q);
/* Checks the stretches of K and V. ready: the array of ready words; NULL: no stretch may wait for one. */
ga_status ga_check_kv_stretches(const char *op, const ga_attn_stretch *kv, int32_t n, int64_t max_kv,
                                const uint32_t *ready);

/* Checks a description of attn_bwd and fills in its defaults, as ga_attn_bwd_plan does. */
ga_status ga_attn_bwd_complete(ga_attn_bwd_desc *d);
/* Checks an io of attn_bwd and fills in its defaults, as ga_attn_bwd_run does. */
ga_status ga_attn_bwd_complete_io(const ga_attn_bwd_desc *d, ga_attn_bwd_io *io);

#endif
