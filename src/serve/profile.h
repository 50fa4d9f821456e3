/* Properties that the program gives a model, beside and in place of the properties in the model's files. */
#ifndef GA_SERVE_PROFILE_H
#define GA_SERVE_PROFILE_H

#include "ga/chat.h"
#include "serve/params.h"

typedef struct sv_profile {
  /* source of a chat template that replaces the model's templates, also the template for tools; NULL = the model's own
   * templates are used */
  const char *chat_template;
  const char *system;             /* system message of chats that have none; NULL = none */
  const char *stop[SV_MAX_STOPS]; /* [n_stop] texts before which answers end, for requests without stop texts */
  size_t n_stop;
  const char *modelfile; /* Modelfile of the model, for descriptions of it; NULL = none */
  int64_t context;       /* largest number of tokens of a sequence; 0 = the program's option decides */
  sv_defaults defaults;  /* default values of the parameters that a request does not have */
} sv_profile;

/* Copies a profile with its texts, and compiles its chat template; *tpl is NULL if it has none. The caller releases
 * *out with sv_profile_free and *tpl with ga_template_destroy, also after a failure. */
GA_NODISCARD ga_status sv_profile_copy(const sv_profile *profile, sv_profile *out, ga_template **tpl);
void sv_profile_free(sv_profile *profile);

#endif
