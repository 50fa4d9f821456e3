/* Draws of check_attn.c whose queries and keys are lists of stretches. */
#ifndef GA_VERIFY_CHECK_CHECK_ATTN_STRETCH_H
#define GA_VERIFY_CHECK_CHECK_ATTN_STRETCH_H

#include "verify/check/check.h"

/* may_have: what has been drawn before does not rule them out. */
void check_attn_stretch_draw(check_case *c, ga_attn_desc *d, bool may_have);
/* Of ga bench: a sequence whose queries are two stretches, and whose keys lie in others, the last first. */
ga_status check_attn_stretch_timed(check_case *c);
/* Whether one of the rows [first, first + rows) of K and V is in a stretch. */
bool check_attn_stretch_has(const check_case *c, const ga_attn_desc *d, int64_t first, int64_t rows);
void check_attn_stretch_args(const check_case *c, const ga_attn_desc *d, check_args *a, ga_attn_io *io);

#endif
