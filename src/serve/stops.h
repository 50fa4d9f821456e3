/* Finds stop strings in a text that arrives in pieces. Text that may begin a stop string is held until more text has
 * arrived. */
#ifndef GA_SERVE_STOPS_H
#define GA_SERVE_STOPS_H

#include "ga/model_file.h"
#include "serve/text.h"

typedef struct sv_stops {
  const ga_text *stop; /* [n] stop strings, owned by the caller */
  size_t n;
  bool include; /* the stop string itself is passed on with the text before it */
  sv_text held; /* text that is held because it may begin a stop string */
} sv_stops;

/* Takes the next piece of text. Appends the text that cannot be part of a stop string to *out. Returns the index of the
 * stop string that begins first; the text ends there. -1: no stop string has been found. */
int sv_stops_push(sv_stops *s, const char *p, size_t n, sv_text *out);
/* Ends the text: appends the held text, which is no stop string, to *out. */
void sv_stops_flush(sv_stops *s, sv_text *out);
void sv_stops_free(sv_stops *s);

#endif
