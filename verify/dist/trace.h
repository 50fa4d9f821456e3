/* Timelines as files of trace events: chrome://tracing and Perfetto show ranks as processes and streams as threads. */
#ifndef GA_VERIFY_DIST_TRACE_H
#define GA_VERIFY_DIST_TRACE_H

#include "verify/dist/timeline.h"

/* GA_ERR_IO, GA_ERR_ARG where the file cannot be written. Nothing is left behind. */
GA_NODISCARD ga_status dist_trace_check(const char *path);
/* devices: the list of --device. */
GA_NODISCARD ga_status dist_trace_write(const char *path, const char *devices, const dist_timeline *t);

#endif
