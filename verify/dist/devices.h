/* Devices of ranks, and ways of blocks between them, as a command line names them. */
#ifndef GA_VERIFY_DIST_DEVICES_H
#define GA_VERIFY_DIST_DEVICES_H

#include "ga/base.h"

enum { DIST_DEVICE_BYTES = 64 };

/* devices: "cpu", or GPUs with commas between them. GA_ERR_ARG for other names. */
GA_NODISCARD ga_status dist_check_devices(const char *devices);
/* True where all of them are in host memory. */
bool dist_is_on_host(const char *devices);
/* Copies the name of a rank's device. With more ranks than devices the list repeats. */
void dist_device_of(const char *devices, int32_t rank, char name[DIST_DEVICE_BYTES]);
/* Sets the environment variables that ranks need, before any device is opened. */
void dist_prepare_devices(const char *devices);

/* Refuses unknown ways of blocks with GA_ERR_ARG; NULL is allowed. several: a list with commas is allowed, too. */
GA_NODISCARD ga_status dist_check_copies(const char *copies, bool several);

#endif
