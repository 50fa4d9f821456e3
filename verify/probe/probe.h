/* ga probe: what a device can do at best. Figures have names that end in their unit, and live in one JSON file a
 * device: ga bench takes them as its 100 %. */
#ifndef GA_VERIFY_PROBE_PROBE_H
#define GA_VERIFY_PROBE_PROBE_H

#include <jansson.h>

#include "core/ctx.h"

typedef struct probe {
  ga_ctx *ctx;
  double seconds;  /* for one figure */
  bool brief;      /* the least work that runs everything: for tests */
  json_t *figures; /* name -> number, in the order measured */
  int done, total; /* steps, for the progress line */
} probe;

/* Keeps one figure. name: printf's. */
void probe_put(probe *p, double value, const char *name, ...) GA_PRINTF(3, 4);
/* Tells the progress line that a step begins. GA_ERR_CANCELLED after Ctrl-C. */
GA_NODISCARD ga_status probe_step(probe *p, const char *what);

GA_NODISCARD ga_status probe_cpu(probe *p);
GA_NODISCARD ga_status probe_gpu(probe *p);

/* --- the file: <cache>/ga/probe/<device>.json --- */

/* False when there is no home to put it in. */
bool probe_path(const ga_ctx *ctx, char *path, size_t capacity);
/* Whole or not at all: a temporary file, renamed. */
GA_NODISCARD ga_status probe_write(const char *path, const json_t *report);
/* The figures of the last probe of this very device, NULL when there is none. New. */
json_t *probe_read(const ga_ctx *ctx);

#endif
