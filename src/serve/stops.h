/* Stop strings in a text that comes in pieces. What may be the beginning of one is held back until that is decided. */
#ifndef GA_SERVE_STOPS_H
#define GA_SERVE_STOPS_H

#include "ga/model_file.h"
#include "serve/text.h"

typedef struct sv_stops {
  const ga_text *stop; /* [n]; the caller's */
  size_t n;
  bool include; /* what was found is passed on too */
  sv_text held;
} sv_stops;

/* Appends to *out what of the text so far is sure. Returns the number of the stop string that begins first, the text
 * of which ends there, or -1. */
int sv_stops_push(sv_stops *s, const char *p, size_t n, sv_text *out);
/* The end: what was held back is no stop string. */
void sv_stops_flush(sv_stops *s, sv_text *out);
void sv_stops_free(sv_stops *s);

#endif
