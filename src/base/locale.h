/* A fixed locale for numbers and dates in JSON and templates, whatever the host application's locale is. */
#ifndef GA_BASE_LOCALE_H
#define GA_BASE_LOCALE_H

#include "ga/base.h"

/* The state of ga_locale_begin, which sets the C locale for this thread alone. Calls nest; ga_locale_end undoes each,
 * on every path. */
typedef struct ga_locale {
  void *c, *host; /* locale_t */
} ga_locale;

GA_NODISCARD ga_status ga_locale_begin(ga_locale *out);
void ga_locale_end(ga_locale *locale);

#endif
