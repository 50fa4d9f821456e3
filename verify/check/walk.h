/* Checks rows in child processes: a kernel that crashes or hangs fails alone. */
#ifndef GA_VERIFY_CHECK_WALK_H
#define GA_VERIFY_CHECK_WALK_H

#include "verify/check/internal.h"

/* A callback in the parent process, in the order of the rows. */
typedef void (*check_report)(void *user, const ga_kernel *kernel, const check_result *result);

/* Checks rows[n]. The caller must have no other threads. Fails if no child can be started or the device cannot be
 * opened. */
ga_status check_walk(const ga_kernel *const *rows, size_t n, const check_options *o, check_report report, void *user);

/* Finds the rows of the named device's backend that match the patterns. Release *out with free. GA_ERR_ARG: the
 * device is not known. */
ga_status check_rows_of(const char *device, const char *patterns, const ga_kernel ***out, size_t *n);

#endif
