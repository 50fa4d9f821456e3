/* Draws of check_attn.c whose queries and keys are lists of stretches. */
#ifndef GA_VERIFY_CHECK_CHECK_ATTN_STRETCH_H
#define GA_VERIFY_CHECK_CHECK_ATTN_STRETCH_H

#include "verify/check/check.h"

/* Draws lists of stretches, or none. may_have: the description so far allows stretches. */
void check_attn_stretch_draw(check_case *c, ga_attn_desc *d, bool may_have);
/* Makes a sequence for ga bench. Its queries are two stretches, and its keys are other stretches, in reverse order. */
ga_status check_attn_stretch_timed(check_case *c);
/* Returns whether any of the rows [first, first + rows) of K and V is in a stretch. */
bool check_attn_stretch_has(const check_case *c, const ga_attn_desc *d, int64_t first, int64_t rows);
void check_attn_stretch_args(const check_case *c, const ga_attn_desc *d, check_args *a, ga_attn_io *io);

#endif
