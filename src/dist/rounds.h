/* Rounds of a plan's messages, for devices that do not write into each other's memory. A message belongs to the first
 * round at which its sender has the data and its receiver has the slot free. All messages of earlier rounds count as
 * received then. Ranks that run the rounds in order therefore never deadlock. Messages of one round may be sent in any
 * order or at the same time. */
#ifndef GA_DIST_ROUNDS_H
#define GA_DIST_ROUNDS_H

#include "dist/plan.h"

/* Finds the round of each step of a rank. of_step[step] is the round of a SEND or RECEIVE, from 0, and -1 for other
 * steps. *rounds is the number of rounds. */
GA_NODISCARD ga_status dist_rounds_find(const ga_dist_plan *plan, int32_t rank, int32_t *of_step, int32_t *rounds);

#endif
