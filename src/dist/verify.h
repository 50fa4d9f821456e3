/* The verifier's parts. It shares the data of a plan with the builder, and none of its functions: what a query sees,
 * how large a block is and where it has to go are worked out here a second time, in another way. */
#ifndef GA_DIST_VERIFY_H
#define GA_DIST_VERIFY_H

#include "dist/plan.h"

typedef struct dist_verifier {
  const ga_dist_plan *plan;
  ga_dist_report report;
} dist_verifier;

/* Notes the first violation; GA_ERR_STATE with "dist: rule <name>: rank R, step S: ...". */
ga_status dist_broken(dist_verifier *v, int32_t rule, int32_t rank, int64_t step, const char *fmt, ...) GA_PRINTF(5, 6);

/* Pairs of a query and a key that see each other, of stretches of one document. */
ga_u128 dist_visible(const ga_dist_plan *plan, const dist_stretch *q, const dist_stretch *k);
/* Returns the bytes of one row, with `heads` heads, of a block in memory; or, with `travels`, of a block that is
 * sent. */
int64_t dist_bytes_of_row(const ga_dist_plan *plan, int32_t tensor, int32_t heads, bool travels);

ga_status dist_verify_sizes(dist_verifier *v);
ga_status dist_verify_cover(dist_verifier *v);
ga_status dist_verify_flow(dist_verifier *v);  /* races, availability, order, memory: each rank by itself */
ga_status dist_verify_waits(dist_verifier *v); /* matching, deadlock: all ranks together */
ga_status dist_verify_bytes(dist_verifier *v);

#endif
