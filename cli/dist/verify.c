/* ga dist verify: proves a plan. */
#include "cli/dist/verb.h"
#include "cli/dist/view.h"
#include "cmdline/error.h"
#include "verify/dist/ranks.h"

static dist_view asked = DIST_VIEW_INIT;

static const cmd_option options[] = {DIST_VIEW_OPTIONS(asked), DIST_JSON_OPTION(asked.json)};

static ga_status show_proof(const dist_task *t, const ga_dist_plan *plan) {
  ga_dist_report report = GA_DIST_REPORT_INIT;
  TRY(ga_dist_plan_verify(plan, &report));
  if (asked.json)
    return cmd_print_json(json_pack("{s:s, s:b}", "method", t->desc.method, "verified", 1), JSON_INDENT(2));
  printf("%s: verified:", t->desc.method);
  for (int32_t r = GA_DIST_RULE_SIZE; r <= GA_DIST_RULE_BYTES; r++)
    printf(" %s%s", ga_dist_rule_name(r), r < GA_DIST_RULE_BYTES ? "," : "\n");
  return GA_OK;
}

static int verify_main(char **args) {
  (void)args;
  if (!asked.shape.ranks) asked.shape.ranks = DIST_DEFAULT_RANKS;
  return dist_view_plan("verify", &asked, true, false, show_proof);
}

const dist_verb dist_verb_verify = {.name = "verify",
                                    .summary = "prove a plan: no deadlock, every pair once, memory and bytes",
                                    .options = options,
                                    .n_options = COUNT_OF(options),
                                    .run = verify_main};
