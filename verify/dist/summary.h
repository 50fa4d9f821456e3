/* Sums and maxima over the ranks of a plan. */
#ifndef GA_VERIFY_DIST_SUMMARY_H
#define GA_VERIFY_DIST_SUMMARY_H

#include "ga/dist.h"

typedef struct dist_summary {
  int64_t pairs, most_pairs, sent, most_received, most_memory, most_message, steps;
  /* balance of the ranks' work: mean number of pairs of a query and a key of a rank / the most pairs of any rank */
  double rank_balance;
  /* balance if ranks wait for the slowest rank in each stage: mean number of pairs of a rank / sum over stages of the
   * most pairs of any rank */
  double stage_balance;
} dist_summary;

GA_NODISCARD ga_status dist_summarise(const ga_dist_plan *plan, dist_summary *s);

#endif
