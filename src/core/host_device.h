/* Device operations for backends that run on the host's own memory and threads: shared by cpu and ref. */
#ifndef GA_CORE_HOST_DEVICE_H
#define GA_CORE_HOST_DEVICE_H

#include "core/device.h"

/* Makes a device over host memory with a pool of `threads` (0 = one per usable CPU). The caller fills kernels and text.
 */
GA_NODISCARD ga_status ga_host_device_create(const char *name, int threads, ga_device **out);

#endif
