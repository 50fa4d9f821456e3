/* Rounds of a plan's messages, for devices that do not write into each other's memory. A message is in the first round
 * in which its sender has what it sends and its receiver has the slot for it free, when all messages of earlier rounds
 * are there. So ranks that take the rounds in order never wait in a circle, and messages of one round may go in any
 * order or at the same time. */
#ifndef GA_DIST_ROUNDS_H
#define GA_DIST_ROUNDS_H

#include "dist/plan.h"

/* of_step: [steps of the rank] the round of a SEND or RECEIVE, from 0; -1 for other steps. */
GA_NODISCARD ga_status dist_rounds_find(const ga_dist_plan *plan, int32_t rank, int32_t *of_step, int32_t *rounds);

#endif
