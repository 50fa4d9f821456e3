#include "base/locale.h"

#include <locale.h>

#include "base/status.h"

ga_status ga_locale_begin(ga_locale *out) {
  *out = (ga_locale){.c = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
  if (!out->c) return ga_fail_nomem("C locale", 0);
  out->host = uselocale(out->c);
  return GA_OK;
}

void ga_locale_end(ga_locale *locale) {
  if (!locale->c) return;
  (void)uselocale(locale->host);
  freelocale(locale->c);
  *locale = (ga_locale){0};
}
