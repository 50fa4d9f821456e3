#include "core/cost.h"

#include "base/mem.h"

/* --- what devices do in a microsecond --- */

enum {
  SM_FLOPS = 6000000, /* a multiprocessor's tensor cores in 16 bits, at the clock that its power allows */
  SM_BYTES = 30000,   /* a multiprocessor's share of 4 TB/s */
  THREAD_FLOPS = 60000,
  THREAD_BYTES = 8000
};
#define GPU_LAUNCH_US 3.0
#define CPU_CALL_US   0.5

double ga_work_us(const ga_work *work, const ga_caps *caps) {
  const bool gpu = caps->sms > 0;
  const double units = gpu ? (double)caps->sms : (double)ga_max_i64(caps->threads, 1);
  return (gpu ? GPU_LAUNCH_US : CPU_CALL_US) + work->flops / (units * (gpu ? SM_FLOPS : THREAD_FLOPS)) +
         work->bytes / (units * (gpu ? SM_BYTES : THREAD_BYTES));
}

double ga_cost_us(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  if (kernel->cost) return kernel->cost(kernel, desc, caps);
  const ga_work work = ga_op_info_of(kernel->op)->work(desc);
  return ga_work_us(&work, caps) * 100 / (kernel->speed > 0 ? kernel->speed : 1);
}
