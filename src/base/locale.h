/* A fixed locale for numbers and dates in JSON and templates, whatever the host application's locale is. */
#ifndef GA_BASE_LOCALE_H
#define GA_BASE_LOCALE_H

#include "ga/base.h"

/* State of ga_locale_begin, which sets the C locale for this thread only. Calls nest. Each must be undone by
 * ga_locale_end on every path. */
typedef struct ga_locale {
  /* Handles of type locale_t: the C locale, and the thread's previous locale. */
  void *c, *host;
} ga_locale;

GA_NODISCARD ga_status ga_locale_begin(ga_locale *out);
void ga_locale_end(ga_locale *locale);

#endif
