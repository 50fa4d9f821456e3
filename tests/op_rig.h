/* The rig of tests of public ops: the oracle and the CPU one after the other, and descriptions that are refused. */
#ifndef GA_TESTS_OP_RIG_H
#define GA_TESTS_OP_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "ga/ctx.h"

static inline ga_ctx *open_op_device(const char *device) {
  ga_ctx *ctx;
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = device;
  if (ga_ctx_create(&o, &ctx) != GA_OK) fail_msg("%s: %s", device, ga_error_text());
  return ctx;
}

/* Calls look with a context of the oracles, then with one of the CPU. */
static inline void on_ref_and_cpu(void (*look)(ga_ctx *ctx)) {
  static const char *const devices[] = {"ref", "cpu"};
  for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
    ga_ctx *ctx = open_op_device(devices[i]);
    look(ctx);
    ga_ctx_destroy(ctx);
  }
}

/* Checks that a plan was refused: its status, that there is none, and a part of the error text. */
static inline void assert_plan_refused(ga_status status, const ga_plan *plan, ga_status want, const char *text) {
  assert_int_equal(status, want);
  assert_null(plan);
  if (!strstr(ga_error_text(), text)) fail_msg("'%s' is not in '%s'", text, ga_error_text());
}

#endif
