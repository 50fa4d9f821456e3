#include "serve/profile.h"

#include <stdlib.h>
#include <string.h>

static bool sv_copy_profile_text(const char *from, const char **to) {
  *to = from ? strdup(from) : NULL;
  return !from || *to;
}

ga_status sv_profile_copy(const sv_profile *profile, sv_profile *out, ga_template **tpl) {
  *out = *profile;
  *tpl = NULL;
  bool ok = sv_copy_profile_text(profile->chat_template, &out->chat_template);
  ok &= sv_copy_profile_text(profile->system, &out->system);
  ok &= sv_copy_profile_text(profile->modelfile, &out->modelfile);
  for (size_t i = 0; i < profile->n_stop; i++) ok &= sv_copy_profile_text(profile->stop[i], &out->stop[i]);
  if (!ok) return ga_error_set(GA_ERR_NOMEM, "model: no memory for its profile");
  if (!out->chat_template) return GA_OK;
  return ga_template_compile(out->chat_template, strlen(out->chat_template), tpl);
}

void sv_profile_free(sv_profile *profile) {
  free((void *)(uintptr_t)profile->chat_template);
  free((void *)(uintptr_t)profile->system);
  free((void *)(uintptr_t)profile->modelfile);
  for (size_t i = 0; i < profile->n_stop; i++) free((void *)(uintptr_t)profile->stop[i]);
  *profile = (sv_profile){0};
}
