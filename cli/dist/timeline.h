/* Prints sums over a timeline: for each rank the seconds of attention, communication, both, or neither. */
#ifndef GA_CLI_DIST_TIMELINE_H
#define GA_CLI_DIST_TIMELINE_H

#include <jansson.h>

#include "verify/dist/timeline.h"

/* Prints the times of each rank as text: of attention, of communication, of waiting, and the longest gaps without
 * attention. path: name of the file that has the timeline's spans. */
GA_NODISCARD ga_status timeline_print(const char *path, const dist_timeline *t);
/* Stores the times and gaps of each rank as a JSON value in *out, which the caller releases. NULL: out of memory. path:
 * name of the file that has the timeline's spans. */
GA_NODISCARD ga_status timeline_json(const char *path, const dist_timeline *t, json_t **out);

#endif
