/* Timelines in numbers: seconds of each rank that were attention, communication, both, or neither. */
#ifndef GA_CLI_DIST_TIMELINE_H
#define GA_CLI_DIST_TIMELINE_H

#include <jansson.h>

#include "verify/dist/timeline.h"

/* Prints the figures as text. path: name of the file that has the spans. */
GA_NODISCARD ga_status timeline_print(const char *path, const dist_timeline *t);
/* Makes the figures as JSON. *out is a new value; NULL: out of memory. */
GA_NODISCARD ga_status timeline_json(const char *path, const dist_timeline *t, json_t **out);

#endif
