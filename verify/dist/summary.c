#include "verify/dist/summary.h"

#include "base/status.h"

ga_status dist_summarise(const ga_dist_plan *plan, dist_summary *s) {
  *s = (dist_summary){0};
  const int32_t ranks = ga_dist_plan_ranks(plan), stages = ga_dist_plan_stages(plan);
  for (int32_t r = 0; r < ranks; r++) {
    ga_dist_cost c = GA_DIST_COST_INIT;
    GA_TRY(ga_dist_plan_cost(plan, r, &c));
    s->pairs += c.pairs, s->sent += c.sent_bytes, s->steps += c.steps;
    if (c.pairs > s->most_pairs) s->most_pairs = c.pairs;
    if (c.received_bytes > s->most_received) s->most_received = c.received_bytes;
    if (c.memory_bytes > s->most_memory) s->most_memory = c.memory_bytes;
    if (c.message_bytes > s->most_message) s->most_message = c.message_bytes;
  }
  double slowest = 0;
  for (int32_t t = 0; t < stages; t++) {
    int64_t most = 0;
    for (int32_t r = 0; r < ranks; r++) {
      ga_dist_stage x = GA_DIST_STAGE_INIT;
      GA_TRY(ga_dist_plan_stage(plan, r, t, &x));
      if (x.pairs > most) most = x.pairs;
    }
    slowest += (double)most;
  }
  const double mean = (double)s->pairs / ranks;
  s->rank_balance = s->most_pairs ? mean / (double)s->most_pairs : 1;
  s->stage_balance = slowest > 0 ? mean / slowest : 1;
  return GA_OK;
}
