/* `ga probe`: measures the best rates of a device. The name of a figure ends in its unit. Figures are stored in one
 * JSON file for each device; ga bench takes them as 100 %. */
#ifndef GA_VERIFY_PROBE_PROBE_H
#define GA_VERIFY_PROBE_PROBE_H

#include <jansson.h>

#include "core/ctx.h"

typedef struct probe {
  ga_ctx *ctx;
  double seconds;  /* seconds of measuring for each figure */
  bool brief;      /* does the least work that still runs all code; for tests */
  json_t *figures; /* figures as name -> number, in the order of measurement */
  int done, total; /* number of steps done, and of all steps, for the progress line */
} probe;

/* Stores one figure. name: a printf format, with its arguments after it. */
void probe_put(probe *p, double value, const char *name, ...) GA_PRINTF(3, 4);
/* Begins a step, and shows `what` on the progress line. Returns GA_ERR_CANCELLED after Ctrl-C. */
GA_NODISCARD ga_status probe_step(probe *p, const char *what);

GA_NODISCARD ga_status probe_cpu(probe *p);
GA_NODISCARD ga_status probe_gpu(probe *p);

/* --- the file of figures: <cache>/ga/probe/<device>.json --- */

/* Writes the path of the device's file of figures. Returns false if neither a cache folder nor a home folder is
 * known. */
bool probe_path(const ga_ctx *ctx, char *path, size_t capacity);
/* Writes the file of figures atomically: as a temporary file, which is then renamed. */
GA_NODISCARD ga_status probe_write(const char *path, const json_t *report);
/* Returns the figures of this device's last probe as a new object, which the caller releases with json_decref; NULL:
 * there are none. */
json_t *probe_read(const ga_ctx *ctx);

#endif
