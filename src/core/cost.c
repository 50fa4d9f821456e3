#include "core/cost.h"

#include "base/mem.h"

/* --- what devices do in a microsecond --- */

static const ga_rates thread_rates = {.call_us = 0.5, .unit_flops = 60000, .unit_bytes = 8000};

double ga_work_us(const ga_work *work, const ga_caps *caps) {
  const ga_rates *r = caps->rates ? caps->rates : &thread_rates;
  const double units = caps->sms > 0 ? (double)caps->sms : (double)ga_max_i64(caps->threads, 1);
  return r->call_us + work->flops / (units * r->unit_flops) + work->bytes / (units * r->unit_bytes);
}

double ga_cost_us(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  if (kernel->cost) return kernel->cost(kernel, desc, caps);
  const ga_work work = ga_op_info_of(kernel->op)->work(desc);
  return ga_work_us(&work, caps) * 100 / (kernel->speed > 0 ? kernel->speed : 1);
}
