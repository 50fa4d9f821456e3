/* Draws for the check of attention in which queries and keys are given as lists of stretches. */
#ifndef GA_VERIFY_CHECK_CHECK_ATTN_STRETCH_H
#define GA_VERIFY_CHECK_CHECK_ATTN_STRETCH_H

#include "verify/check/check.h"

/* Draws lists of stretches, or none. may_have: the rest of the description allows stretches. */
void check_attn_stretch_draw(check_case *c, ga_attn_desc *d, bool may_have);
/* Makes a sequence for ga bench. Its queries are two stretches. Its keys are other stretches, in reverse order. */
ga_status check_attn_stretch_timed(check_case *c);
/* Returns whether some of the rows first to first + rows - 1 of K and V are in a stretch. */
bool check_attn_stretch_has(const check_case *c, const ga_attn_desc *d, int64_t first, int64_t rows);
void check_attn_stretch_args(const check_case *c, const ga_attn_desc *d, check_args *a, ga_attn_io *io);

#endif
