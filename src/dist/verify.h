/* Parts of the verifier of plans. The verifier reads a plan, but uses none of the functions of its builder. It computes
 * a second time, in another way, which keys a query sees, how large a block is, and to which rank it must go. */
#ifndef GA_DIST_VERIFY_H
#define GA_DIST_VERIFY_H

#include "dist/plan.h"

typedef struct dist_verifier {
  const ga_dist_plan *plan;
  ga_dist_report report;
} dist_verifier;

/* Records a broken rule, if it is the first. Returns GA_ERR_STATE with the text "dist: rule <name>: rank R, step S:
 * ...". */
ga_status dist_broken(dist_verifier *v, int32_t rule, int32_t rank, int64_t step, const char *fmt, ...) GA_PRINTF(5, 6);

/* Returns the number of pairs of a query of stretch q and a key of stretch k that the query sees. Both stretches are of
 * one document. */
ga_u128 dist_visible(const ga_dist_plan *plan, const dist_stretch *q, const dist_stretch *k);
/* Returns the bytes of one row, with `heads` heads, of a block in memory. With `travels` the block is in a message. */
int64_t dist_bytes_of_row(const ga_dist_plan *plan, int32_t tensor, int32_t heads, bool travels);

ga_status dist_verify_sizes(dist_verifier *v);
ga_status dist_verify_cover(dist_verifier *v);
/* checks each rank alone: races, availability of data, order of sums, memory */
ga_status dist_verify_flow(dist_verifier *v);
/* checks all ranks together: each send has its receive, and no rank waits for ever */
ga_status dist_verify_waits(dist_verifier *v);
ga_status dist_verify_bytes(dist_verifier *v);

#endif
