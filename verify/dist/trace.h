/* Timelines as files of trace events: chrome://tracing and Perfetto show ranks as processes and streams as threads. */
#ifndef GA_VERIFY_DIST_TRACE_H
#define GA_VERIFY_DIST_TRACE_H

#include "verify/dist/timeline.h"

/* Checks that the file can be written, and leaves nothing behind. GA_ERR_IO, GA_ERR_ARG: it cannot be written. */
GA_NODISCARD ga_status dist_trace_check(const char *path);
/* Writes the timeline to a file. devices: value of --device. */
GA_NODISCARD ga_status dist_trace_write(const char *path, const char *devices, const dist_timeline *t);

#endif
