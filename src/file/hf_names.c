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

/* Old BERT files say gamma and beta. */
static const struct {
  const char *hf, *gguf;
} hf_suffixes[] = {{".weight", ".weight"},
                   {".bias", ".bias"},
                   {".gamma", ".weight"},
                   {".beta", ".bias"},
                   {".weight_scale", ".weight_scale"},
                   {".weight_scale_inv", ".weight_scale_inv"}};

/* Digits at s without leading zeros, 0 when there are none or too many. */
static size_t layer_digits(const char *s) {
  size_t n = strspn(s, "0123456789");
  return n <= GA_MODEL_MAX_LAYER_DIGITS && (n == 1 || s[0] != '0') ? n : 0;
}

/* Does the name begin with the pattern? *rest = what follows, *layer = the digits. */
static bool match_stem(const char *pattern, const char *name, const char **rest, ga_text *layer) {
  for (; *pattern; pattern++) {
    if (*pattern == '%') {
      size_t n = layer_digits(name);
      if (n == 0) return false;
      *layer = (ga_text){name, n};
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

static ga_status print_name(ga_arena *arena, const char *pattern, ga_text layer, const char *suffix, const char **out) {
  const char *hole = strchr(pattern, '%');
  size_t head = hole ? (size_t)(hole - pattern) : strlen(pattern);
  char *text;
  GA_TRY(ga_arena_printf(arena, &text, "%.*s%.*s%s%s", (int)head, pattern, (int)layer.bytes,
                         layer.bytes ? layer.data : "", hole ? hole + 1 : "", suffix));
  *out = text;
  return GA_OK;
}

ga_status ga_hf_tensor_name(ga_arena *arena, const ga_hf_arch *arch, const char *name, const char **out) {
  *out = name;
  for (size_t i = 0; i < GA_COUNT_OF(hf_prefixes); i++) {
    size_t prefix = strlen(hf_prefixes[i]);
    if (strncmp(name, hf_prefixes[i], prefix) != 0) continue;
    for (const ga_hf_name *row = arch->names; row->hf; row++) {
      const char *rest, *suffix;
      ga_text layer = {0};
      if (match_stem(row->hf, name + prefix, &rest, &layer) && (suffix = gguf_suffix(rest)))
        return print_name(arena, row->gguf, layer, suffix, out);
    }
  }
  return GA_OK;
}
