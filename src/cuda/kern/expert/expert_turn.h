/* Experts of slots that are not sorted, with GA_EXPERT_IN_TURN, too; see ga/experts.h. */
#pragma once
#include "cuda/dev/ptx/base.h"
#include "cuda/kern/expert/expert_args.h"

enum { EXPERT_IN_TURN = 32 }; /* ga_expert_flags */

/* Returns the expert of a slot; not for SORTED. */
GA_DEV int expert_of_slot(const ga_kargs_expert *a, int64_t slot) {
  return a->flags & EXPERT_IN_TURN ? (int)(slot % a->n_experts) : a->experts[slot];
}
