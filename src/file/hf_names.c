/* Names of tensors: prefix of the checkpoint off, stem by the architecture's table, suffix kept. */
#include <string.h>

#include "base/status.h"
#include "file/hf.h"
#include "file/limits.h"

/* What wraps the model in a checkpoint; longest first, so that none hides another. */
static const char *const hf_prefixes[] = {"model.language_model.",
                                          "language_model.model.",
                                          "language_model.",
                                          "transformer.",
                                          "gpt_neox.",
                                          "model.",
                                          "roberta.",
                                          "bert.",
                                          ""};

enum { HOLES = 2 }; /* numbers in a name */

/* Old BERT files say gamma and beta. */
static const struct {
  const char *hf, *gguf;
} hf_suffixes[] = {{".weight", ".weight"},
                   {".bias", ".bias"},
                   {".gamma", ".weight"},
                   {".beta", ".bias"},
                   {".weight_scale", ".weight_scale"},
                   {".weight_scale_inv", ".weight_scale_inv"},
                   {"", ""} /* of whole names in tables */};

/* Digits at s without leading zeros, 0 when there are none or too many. */
static size_t layer_digits(const char *s) {
  size_t n = strspn(s, "0123456789");
  return n <= GA_MODEL_MAX_LAYER_DIGITS && (n == 1 || s[0] != '0') ? n : 0;
}

/* Does the name begin with the pattern? *rest = what follows, numbers[HOLES] = the digits. */
static bool match_stem(const char *pattern, const char *name, const char **rest, ga_text *numbers) {
  for (size_t found = 0; *pattern; pattern++) {
    if (*pattern == '%') {
      size_t n = layer_digits(name);
      if (n == 0 || found == HOLES) return false;
      numbers[found++] = (ga_text){name, n};
      name += n;
    } else if (*pattern != *name++) {
      return false;
    }
  }
  *rest = name;
  return true;
}

static const char *gguf_suffix(const char *rest) {
  for (size_t i = 0; i < GA_COUNT_OF(hf_suffixes); i++)
    if (!strcmp(rest, hf_suffixes[i].hf)) return hf_suffixes[i].gguf;
  return NULL;
}

/* The pattern up to its next '%', then the number that it stands for. */
static size_t print_part(const char *pattern, ga_text number, char *out) {
  const size_t head = strcspn(pattern, "%");
  memcpy(out, pattern, head);
  if (number.bytes) memcpy(out + head, number.data, number.bytes);
  return head + number.bytes;
}

static ga_status print_name(ga_arena *arena, const char *pattern, const ga_text *numbers, const char *suffix,
                            const char **out) {
  char stem[GA_MODEL_MAX_NAME_BYTES + 1], *text; /* patterns are ours, with few digits in them */
  size_t n = 0;
  for (size_t i = 0; i <= HOLES && *pattern; i++) {
    n += print_part(pattern, i < HOLES ? numbers[i] : (ga_text){0}, stem + n);
    pattern += strcspn(pattern, "%");
    if (*pattern) pattern++;
  }
  GA_TRY(ga_arena_printf(arena, &text, "%.*s%s", (int)n, stem, suffix));
  *out = text;
  return GA_OK;
}

ga_status ga_hf_form_name(ga_arena *arena, const ga_hf_form *form, const char *name, const char **out, bool *matches) {
  *out = NULL;
  *matches = false;
  for (size_t i = 0; i < GA_COUNT_OF(hf_prefixes) && !*matches; i++) {
    const size_t prefix = strlen(hf_prefixes[i]);
    const char *rest;
    ga_text numbers[HOLES] = {0};
    if (strncmp(name, hf_prefixes[i], prefix) != 0 || !match_stem(form->hf, name + prefix, &rest, numbers) || *rest)
      continue;
    *matches = true;
    if (form->gguf) GA_TRY(print_name(arena, form->gguf, numbers, "", out));
  }
  return GA_OK;
}

ga_status ga_hf_tensor_name(ga_arena *arena, const ga_hf_arch *arch, const char *name, const char **out) {
  *out = name;
  for (size_t i = 0; i < GA_COUNT_OF(hf_prefixes); i++) {
    size_t prefix = strlen(hf_prefixes[i]);
    if (strncmp(name, hf_prefixes[i], prefix) != 0) continue;
    for (const ga_hf_name *row = arch->names; row->hf; row++) {
      const char *rest, *suffix;
      ga_text numbers[HOLES] = {0};
      if (match_stem(row->hf, name + prefix, &rest, numbers) && (suffix = gguf_suffix(rest)))
        return print_name(arena, row->gguf, numbers, suffix, out);
    }
  }
  return GA_OK;
}
