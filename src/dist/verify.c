/* Proves a plan right before it runs: all parts of the verifier, in order. */
#include "dist/verify.h"

#include "base/sized.h"

ga_status ga_dist_plan_verify(const ga_dist_plan *plan, ga_dist_report *report) {
  GA_REQUIRE(plan, GA_ERR_ARG, "dist: plan is null");
  if (report) GA_TRY(ga_sized_check_out("dist: report", report, ga_dist_report_first));
  dist_verifier v = {.plan = plan, .report = {.rank = -1, .step = -1}};
  ga_status (*const parts[])(dist_verifier *) = {dist_verify_sizes, dist_verify_cover, dist_verify_waits,
                                                 dist_verify_flow, dist_verify_bytes};
  ga_status status = GA_OK;
  for (size_t i = 0; i < GA_COUNT_OF(parts) && status == GA_OK; i++) status = parts[i](&v);
  if (report) ga_sized_give(&v.report, sizeof v.report, report);
  return status;
}
