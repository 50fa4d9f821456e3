/* Reads names of a command line: devices of ranks, and ways of copying blocks between them. */
#ifndef GA_VERIFY_DIST_DEVICES_H
#define GA_VERIFY_DIST_DEVICES_H

#include "ga/base.h"

enum { DIST_DEVICE_BYTES = 64 };

/* Checks the names in a value of --device: "cpu", or GPUs separated by commas. Returns GA_ERR_ARG for other names. */
GA_NODISCARD ga_status dist_check_devices(const char *devices);
/* Returns whether all of the named devices use host memory. */
bool dist_is_on_host(const char *devices);
/* Copies the name of a rank's device from the list `devices`. If there are more ranks than names, the list repeats. */
void dist_device_of(const char *devices, int32_t rank, char name[DIST_DEVICE_BYTES]);
/* Sets the environment variables that ranks on these devices need. It must be called before any device is opened. */
void dist_prepare_devices(const char *devices);

/* Checks the value of --copies, a way of copying blocks; NULL is allowed. several: a list with commas is allowed, too.
 * Returns GA_ERR_ARG for unknown names. */
GA_NODISCARD ga_status dist_check_copies(const char *copies, bool several);

#endif
