/* Writes timelines as files of trace events. In chrome://tracing and Perfetto, ranks appear as processes and streams as
 * threads. */
#ifndef GA_VERIFY_DIST_TRACE_H
#define GA_VERIFY_DIST_TRACE_H

#include "verify/dist/timeline.h"

/* Checks that the file can be written, and leaves no file there. Returns GA_ERR_IO or GA_ERR_ARG if it cannot be
 * written. */
GA_NODISCARD ga_status dist_trace_check(const char *path);
/* Writes a timeline to the file `path`. devices: value of --device, for the names of ranks. */
GA_NODISCARD ga_status dist_trace_write(const char *path, const char *devices, const dist_timeline *t);

#endif
