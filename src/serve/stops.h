/* Finds stop strings in a text that arrives in pieces. Text that may begin a stop string is pending until that is
 * decided. */
#ifndef GA_SERVE_STOPS_H
#define GA_SERVE_STOPS_H

#include "ga/model_file.h"
#include "serve/text.h"

typedef struct sv_stops {
  const ga_text *stop; /* [n] stop strings, owned by the caller */
  size_t n;
  bool include; /* the stop string itself is passed on, too */
  sv_text held; /* pending text, which may begin a stop string */
} sv_stops;

/* Takes text and appends the decided part to *out. Returns the index of the stop string that begins first, where the
 * text ends; -1: none. */
int sv_stops_push(sv_stops *s, const char *p, size_t n, sv_text *out);
/* Ends the text: pending text is no stop string. */
void sv_stops_flush(sv_stops *s, sv_text *out);
void sv_stops_free(sv_stops *s);

#endif
