#include "serve/profile.h"

#include <stdlib.h>
#include <string.h>

ga_status sv_profile_copy(const sv_profile *profile, sv_profile *out, ga_template **tpl) {
  *out = *profile;
  *tpl = NULL;
  if (!profile->chat_template) return GA_OK;
  out->chat_template = strdup(profile->chat_template);
  if (!out->chat_template) return ga_error_set(GA_ERR_NOMEM, "chat template: no memory");
  return ga_template_compile(out->chat_template, strlen(out->chat_template), tpl);
}

void sv_profile_free(sv_profile *profile) {
  free((void *)(uintptr_t)profile->chat_template);
  *profile = (sv_profile){0};
}
