/* Checks rows in child processes, so that a kernel that crashes or hangs does not end the others' checks. */
#ifndef GA_VERIFY_CHECK_WALK_H
#define GA_VERIFY_CHECK_WALK_H

#include "verify/check/internal.h"

/* A callback that gets the result of each row, in the order of the rows, in the parent process. */
typedef void (*check_report)(void *user, const ga_kernel *kernel, const check_result *result);

/* Checks the n rows in `rows`. The caller must have no other threads. Fails if no child process can be started or the
 * device cannot be opened. */
ga_status check_walk(const ga_kernel *const *rows, size_t n, const check_options *o, check_report report, void *user);

/* Finds the rows of the named device's backend whose ids match the patterns. The caller frees *out with free. Returns
 * GA_ERR_ARG if the device is not known. */
ga_status check_rows_of(const char *device, const char *patterns, const ga_kernel ***out, size_t *n);

#endif
