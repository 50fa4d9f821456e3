/* Rounds of a plan's messages, for devices that do not write into each other's memory. Messages of one round may be
 * sent in any order or at the same time. A message belongs to the first round at which its sender has the data and its
 * receiver has the slot free. By then all messages of earlier rounds count as received. Ranks that run the rounds in
 * order therefore never deadlock. */
#ifndef GA_DIST_ROUNDS_H
#define GA_DIST_ROUNDS_H

#include "dist/plan.h"

/* Finds the round of each message of a rank. Sets of_step[i] to the round, counted from 0, if step i is a SEND or
 * RECEIVE, and otherwise to -1. Sets *rounds to the number of rounds. */
GA_NODISCARD ga_status dist_rounds_find(const ga_dist_plan *plan, int32_t rank, int32_t *of_step, int32_t *rounds);

#endif
