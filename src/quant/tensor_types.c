#include "quant/tensor_types.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"

static ga_status read_tensor_type(ga_arena *arena, const char *text, tensor_type *out) {
  const char *equals = text ? strrchr(text, '=') : NULL;
  char *pattern;
  GA_REQUIRE(equals && equals > text && equals[1], GA_ERR_ARG, "tensor type '%s'; must be NAME=TYPE",
             ga_quote(text ? text : "", text ? strlen(text) : 0).text);
  out->type = ga_dtype_from_name(equals + 1);
  GA_REQUIRE(out->type != GA_DTYPE_NONE && ga_quantize_known(out->type), GA_ERR_ARG,
             "tensor type '%s': the type must be f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q2_k to q6_k, iq4_nl, "
             "iq4_xs or mxfp4",
             ga_quote(text, strlen(text)).text);
  GA_TRY(ga_arena_strndup(arena, text, (size_t)(equals - text), &pattern));
  out->pattern = pattern;
  return GA_OK;
}

ga_status tensor_types_read(ga_arena *arena, const char *const *texts, int32_t n, tensor_types *out) {
  void *p = NULL;
  *out = (tensor_types){0};
  GA_REQUIRE(n >= 0 && (n == 0 || texts), GA_ERR_ARG, "quantize: n_tensor_types is %d, tensor_types %s", n,
             texts ? "given" : "NULL");
  if (n) GA_TRY(ga_arena_alloc(arena, (size_t)n * sizeof(tensor_type), &p));
  out->item = p;
  for (out->n = 0; out->n < n; out->n++) GA_TRY(read_tensor_type(arena, texts[out->n], &out->item[out->n]));
  return GA_OK;
}

/* "blk.12.ffn_down": "ffn_down"; other names as they are. */
static const char *behind_layer(const char *name) {
  const char *dot = strncmp(name, "blk.", 4) ? NULL : strchr(name + 4, '.');
  return dot ? dot + 1 : name;
}

ga_dtype tensor_types_find(const tensor_types *types, const char *name) {
  char stem[128];
  (void)snprintf(stem, sizeof stem, "%s", name);
  if (ga_ends_with(stem, ".weight")) stem[strlen(stem) - strlen(".weight")] = 0;
  for (int32_t i = 0; i < types->n; i++) {
    tensor_type *t = &types->item[i];
    if (fnmatch(t->pattern, name, 0) && fnmatch(t->pattern, stem, 0) && fnmatch(t->pattern, behind_layer(stem), 0))
      continue;
    t->is_used = true;
    return t->type;
  }
  return GA_DTYPE_NONE;
}

ga_status tensor_types_all_used(const tensor_types *types) {
  for (int32_t i = 0; i < types->n; i++)
    GA_REQUIRE(types->item[i].is_used, GA_ERR_ARG,
               "tensor type '%s': no matrix has that name, or one before it fits them all",
               ga_quote(types->item[i].pattern, strlen(types->item[i].pattern)).text);
  return GA_OK;
}
