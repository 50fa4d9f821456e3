/* Devices of ranks, and ways of copying blocks between them, by their names on a command line. */
#ifndef GA_VERIFY_DIST_DEVICES_H
#define GA_VERIFY_DIST_DEVICES_H

#include "ga/base.h"

enum { DIST_DEVICE_BYTES = 64 };

/* Checks the names of devices: "cpu", or GPUs separated by commas. GA_ERR_ARG for other names. */
GA_NODISCARD ga_status dist_check_devices(const char *devices);
/* Returns whether all of the devices use host memory. */
bool dist_is_on_host(const char *devices);
/* Copies the name of a rank's device. With more ranks than devices the list repeats. */
void dist_device_of(const char *devices, int32_t rank, char name[DIST_DEVICE_BYTES]);
/* Sets the environment variables that ranks need, before any device is opened. */
void dist_prepare_devices(const char *devices);

/* Checks the names of ways of copying blocks; NULL is allowed. several: a list with commas is allowed, too.
 * GA_ERR_ARG for unknown names. */
GA_NODISCARD ga_status dist_check_copies(const char *copies, bool several);

#endif
