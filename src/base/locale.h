/* Numbers and dates of formats (JSON, templates) whatever the host application's locale is. */
#ifndef GA_BASE_LOCALE_H
#define GA_BASE_LOCALE_H

#include "ga/base.h"

/* The C locale for this thread alone. Calls nest; each is undone by ga_locale_end, on every path. */
typedef struct ga_locale {
  void *c, *host; /* locale_t */
} ga_locale;

GA_NODISCARD ga_status ga_locale_begin(ga_locale *out);
void ga_locale_end(ga_locale *locale);

#endif
