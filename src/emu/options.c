/* The options, from the environment. */
#include <stdlib.h>
#include <string.h>

#include "emu/machine.h"

emu_options emu_opt = {.seed = 1, .when = EMU_LATE, .checks = true, .sms = 4};

static bool has_word(const char *list, const char *word) { return strstr(list, word) != NULL; }

emu_options *emu_settings(void) {
  static bool read;
  if (read) return &emu_opt;
  read = true;
  const char *e = getenv("GA_EMU"), *p;
  if (!e) return &emu_opt;
  if ((p = strstr(e, "seed="))) emu_opt.seed = strtoull(p + 5, NULL, 10);
  if ((p = strstr(e, "sms="))) emu_opt.sms = atoi(p + 4);
  if (has_word(e, "early")) emu_opt.when = EMU_EARLY;
  if (has_word(e, "mixed")) emu_opt.when = EMU_MIXED;
  if (has_word(e, "nocheck")) emu_opt.checks = false;
  if (has_word(e, "dependent")) emu_opt.dependent = true;
  if (has_word(e, "perturb")) emu_opt.perturb = 1;
  if (has_word(e, "inorder")) emu_opt.in_order = true;
  if (has_word(e, "verbose")) emu_opt.verbose = true;
  return &emu_opt;
}
