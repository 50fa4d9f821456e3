/* Draws of check_attn.c whose queries and keys are lists of stretches. */
#ifndef GA_VERIFY_CHECK_CHECK_ATTN_STRETCH_H
#define GA_VERIFY_CHECK_CHECK_ATTN_STRETCH_H

#include "verify/check/check.h"

/* Draws stretches, or none. may_have: the description so far allows them. */
void check_attn_stretch_draw(check_case *c, ga_attn_desc *d, bool may_have);
/* For ga bench: makes a sequence whose queries are two stretches, and whose keys lie in other stretches, in reverse
 * order. */
ga_status check_attn_stretch_timed(check_case *c);
/* True when any of the rows [first, first + rows) of K and V is in a stretch. */
bool check_attn_stretch_has(const check_case *c, const ga_attn_desc *d, int64_t first, int64_t rows);
void check_attn_stretch_args(const check_case *c, const ga_attn_desc *d, check_args *a, ga_attn_io *io);

#endif
