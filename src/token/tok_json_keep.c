/* The parts of tokenizer.json that GGUF has no keys for. When GA converts a folder, they become JSON under a key of
 * ours. */
#include "base/json.h"
#include "base/status.h"
#include "text/json_io.h"
#include "token/tok_json.h"
#include "token/tok_parts.h"

#define STEP_FIELDS 3

static const char *const step_fields[STEP_FIELDS] = {"normalizer", "pre_tokenizer", "decoder"};
static const char *const model_fields[] = {"fuse_unk", "max_input_chars_per_word"};

/* --- what the keys can hold --- */

static bool is_one_id(const int32_t *ids, size_t n, int32_t id, bool adds) {
  return adds && id >= 0 ? n == 1 && ids[0] == id : n == 0;
}

static bool keys_hold_template(const tok_load *load) {
  const ga_vocab *v = &load->vocab;
  const tok_extra *e = &load->extra;
  const bool wpm = v->kind == GA_TOK_WPM;
  if (!e->has_template) return true;
  return is_one_id(e->before, e->n_before, wpm ? (v->cls >= 0 ? v->cls : v->bos) : v->bos, wpm || v->add_bos) &&
         is_one_id(e->after, e->n_after, wpm ? (v->sep >= 0 ? v->sep : v->eos) : v->eos, wpm || v->add_eos);
}

static bool keys_hold_wpm(const tok_extra *e) {
  const uint32_t fixed = TOK_WPM_CLEAN | TOK_WPM_CJK | TOK_WPM_PUNCT;
  return !e->has_wpm || ((e->wpm & ~(TOK_WPM_LOWER | TOK_WPM_STRIP)) == fixed && e->word_chars == TOK_WPM_WORD_CHARS);
}

/* Tokens that are not in the model's own vocabulary need no word on it, but for those that are not always found. */
static bool keys_hold_added(const tok_load *load) {
  const bool steps = load->extra.steps.count > 0;
  for (size_t i = 0; load->added && i < load->vocab.n_tokens; i++) {
    const uint8_t bits = load->added[i];
    if (bits & (TOK_ADDED_LSTRIP | TOK_ADDED_RSTRIP | TOK_ADDED_WORD | TOK_ADDED_PIECE)) return false;
    if (bits & TOK_ADDED_NORMALIZED && load->types[i] == GA_TOK_USER && steps) return false;
  }
  return true;
}

/* tok: made of `load`. */
static bool keys_hold_all(const tok_load *load, const ga_tokenizer *tok) {
  const ga_vocab *v = &load->vocab;
  const tok_extra *e = &load->extra;
  const bool spaced = v->kind == GA_TOK_SPM || v->kind == GA_TOK_UGM;
  if (e->steps.count || e->bpe_prefix || (e->has_strip && e->strip != (spaced && v->add_space_prefix))) return false;
  if (tok_merges_by_list(tok) || (v->kind == GA_TOK_BPE && v->unk >= 0)) return false;
  return keys_hold_template(load) && keys_hold_wpm(e) && keys_hold_added(load);
}

/* --- writing --- */

static json_t *kept_flags(size_t id, uint8_t bits) {
  return json_pack("{s:I,s:b,s:b,s:b,s:b,s:b,s:b}", "id", (json_int_t)id, "lstrip", !!(bits & TOK_ADDED_LSTRIP),
                   "rstrip", !!(bits & TOK_ADDED_RSTRIP), "single_word", !!(bits & TOK_ADDED_WORD), "normalized",
                   !!(bits & TOK_ADDED_NORMALIZED), "only", !!(bits & TOK_ADDED_ONLY), "piece",
                   !!(bits & TOK_ADDED_PIECE));
}

static bool keep_field(json_t *out, const json_t *from, const char *name) {
  json_t *value = json_object_get(from, name);
  return !value || json_is_null(value) || !json_object_set(out, name, value);
}

static bool keep_added(json_t *out, const tok_load *load) {
  json_t *list = json_array();
  bool ok = list != NULL;
  for (size_t i = 0; ok && load->added && i < load->vocab.n_tokens; i++)
    if (load->added[i]) ok = !json_array_append_new(list, kept_flags(i, load->added[i]));
  ok = ok && !json_object_set(out, "added_tokens", list);
  json_decref(list);
  return ok;
}

static json_t *keep_parts(const tok_load *load, const json_t *root) {
  json_t *out = json_object(), *model = json_object();
  bool ok = out && model;
  for (size_t i = 0; ok && i < STEP_FIELDS; i++) ok = keep_field(out, root, step_fields[i]);
  for (size_t i = 0; ok && i < GA_COUNT_OF(model_fields); i++)
    ok = keep_field(model, json_object_get(root, "model"), model_fields[i]);
  ok = ok && !json_object_set(out, "model", model) && keep_added(out, load);
  /* Settings of tokenizer_config.json are applied already. */
  ok = ok && !json_object_set_new(out, "wpm", json_integer((json_int_t)load->extra.wpm));
  json_t *before = json_array(), *after = json_array();
  for (size_t i = 0; ok && i < load->extra.n_before; i++)
    ok = !json_array_append_new(before, json_integer(load->extra.before[i]));
  for (size_t i = 0; ok && i < load->extra.n_after; i++)
    ok = !json_array_append_new(after, json_integer(load->extra.after[i]));
  ok = ok && before && after;
  if (ok && load->extra.has_template)
    ok = !json_object_set(out, "before", before) && !json_object_set(out, "after", after);
  json_decref(before);
  json_decref(after);
  json_decref(model);
  if (ok) return out;
  json_decref(out);
  return NULL;
}

ga_status tok_json_keep(const tok_load *load, const tok_files *files, const ga_tokenizer *tok, char **out) {
  *out = NULL;
  if (keys_hold_all(load, tok)) return GA_OK;
  json_t *parts = keep_parts(load, files->root);
  if (parts) *out = ga_json_dump(parts, JSON_COMPACT);
  json_decref(parts);
  return *out ? GA_OK : ga_fail_nomem("parts of tokenizer.json", 0);
}

/* --- reading --- */

static ga_status apply_added(tok_load *load, const json_t *list) {
  static const struct {
    const char *name;
    uint8_t bit;
  } bits[] = {{"lstrip", TOK_ADDED_LSTRIP},         {"rstrip", TOK_ADDED_RSTRIP}, {"single_word", TOK_ADDED_WORD},
              {"normalized", TOK_ADDED_NORMALIZED}, {"only", TOK_ADDED_ONLY},     {"piece", TOK_ADDED_PIECE}};
  size_t i, id;
  const json_t *token;
  void *p;
  GA_TRY(ga_arena_alloc(&load->arena, load->vocab.n_tokens, &p));
  load->added = p;
  load->extra.added = p;
  json_array_foreach(list, i, token) {
    GA_TRY(tok_json_id("added token", ga_json_at(token, "id"), &id));
    GA_REQUIRE(id < load->vocab.n_tokens, GA_ERR_FORMAT, "%s: added token %zu; must be below %zu", TOK_KEPT_JSON, id,
               load->vocab.n_tokens);
    for (size_t k = 0; k < GA_COUNT_OF(bits); k++)
      if (json_is_true(ga_json_at(token, bits[k].name))) load->added[id] |= bits[k].bit;
  }
  return GA_OK;
}

static ga_status apply_ids(tok_load *load, const json_t *list, const int32_t **ids, size_t *n) {
  size_t i, id;
  const json_t *value;
  void *p;
  GA_TRY(ga_arena_alloc(&load->arena, json_array_size(list) * sizeof(int32_t), &p));
  json_array_foreach(list, i, value) {
    GA_TRY(tok_json_id("the template", value, &id));
    ((int32_t *)p)[i] = (int32_t)id;
  }
  *ids = p;
  *n = json_array_size(list);
  return GA_OK;
}

static ga_status apply_kind(tok_load *load, const json_t *root) {
  ga_vocab *v = &load->vocab;
  switch (v->kind) {
  case GA_TOK_SPM:
    v->add_space_prefix = false; /* the steps say it again */
    v->unigram = 0;
    load->extra.has_merges = v->n_merges > 0;
    return tok_json_spm_parts(load, root);
  case GA_TOK_BPE:
    GA_TRY(tok_json_pre_bpe(load, ga_json_at(root, "pre_tokenizer")));
    return tok_json_steps(load, ga_json_at(root, "normalizer"));
  case GA_TOK_WPM:
    GA_TRY(tok_json_wpm_parts(load, root));
    load->extra.wpm = (uint32_t)json_integer_value(ga_json_at(root, "wpm"));
    return GA_OK;
  case GA_TOK_UGM: break; /* keys of its own have them */
  }
  return GA_OK;
}

ga_status tok_json_apply(tok_load *load, const json_t *root) {
  load->extra = (tok_extra){0};
  load->steps = NULL;
  GA_TRY(apply_added(load, ga_json_at(root, "added_tokens")));
  GA_TRY(apply_kind(load, root));
  tok_json_unknown(load, ga_json_at(root, "model"));
  GA_TRY(tok_json_decoder(load, ga_json_at(root, "decoder")));
  load->extra.has_template = ga_json_at(root, "before") != NULL;
  GA_TRY(apply_ids(load, ga_json_at(root, "before"), &load->extra.before, &load->extra.n_before));
  return apply_ids(load, ga_json_at(root, "after"), &load->extra.after, &load->extra.n_after);
}
