/* Declarations that both executors of plans use: exec.c runs a plan in host memory, device.c on devices. */
#ifndef GA_DIST_EXEC_H
#define GA_DIST_EXEC_H

#include "core/comm.h"
#include "core/ctx.h"
#include "dist/block.h"
#include "dist/spans.h"

typedef struct dist_device dist_device;

/* Creates the executor of one rank's part of a plan, on ctx's device. All ranks call it at the same time. */
GA_NODISCARD ga_status dist_device_create(const ga_dist_plan *plan, ga_comm *comm, ga_ctx *ctx,
                                          const ga_dist_exec_options *options, dist_device **out);
void dist_device_destroy(dist_device *e); /* frees the executor; NULL is accepted */
/* Runs the executor's plan once over tensors that the caller has checked. After an error the communicator is ended and
 * the outputs are zeros. */
GA_NODISCARD ga_status dist_device_run(dist_device *e, const ga_dist_tensors *io);
/* Returns the bytes of device memory that the executor of `rank` allocates. */
int64_t dist_device_memory(const ga_dist_plan *plan, int32_t rank);
uint64_t dist_device_sent(const dist_device *e);
const char *dist_device_copies(const dist_device *e);
const char *dist_device_why_host(const dist_device *e);
const dist_spans *dist_device_spans(const dist_device *e); /* returns NULL without ga_dist_exec_options.timeline */

/* Creates an executor as ga_dist_exec_create_with does, for tests. The device's executor (device.c) runs the plan even
 * where ctx is on a CPU. */
GA_NODISCARD ga_status dist_exec_create_on_device(const ga_dist_plan *plan, ga_comm *comm, ga_ctx *ctx,
                                                  const ga_dist_exec_options *options, ga_dist_exec **out);

#endif
