/* tokenizer_config.json and special_tokens_map.json: ids of special tokens, and settings that change tokenizer.json. */
#include "base/json.h"
#include "base/status.h"
#include "token/tok_json.h"
#include "token/tok_parts.h"

/* --- special tokens --- */

/* special_tokens_map.json comes first where tokenizer_config.json has no added_tokens_decoder, as in transformers; else
 * it is passed over. */
static const json_t *setting_of(const json_src *src, const char *name) {
  const bool is_new = ga_json_at(src->config, "added_tokens_decoder") != NULL;
  const json_t *value = is_new ? NULL : ga_json_at(src->map, name);
  return value ? value : ga_json_at(src->config, name);
}

/* Tokens are named by a text or by an object with a content. */
static const char *content_of(const json_t *value) {
  return json_is_object(value) ? json_string_value(ga_json_at(value, "content")) : json_string_value(value);
}

static int32_t config_id(const json_src *src, const char *name, int32_t fallback) {
  const int32_t id = tok_json_find(src, content_of(setting_of(src, name)));
  return id >= 0 ? id : fallback;
}

static bool is_bert_class(const json_src *src) {
  const char *class = tok_json_text(src->config, "tokenizer_class");
  return !*class || !strcmp(class, "BertTokenizer") || !strcmp(class, "BertTokenizerFast");
}

/* The first and the last token that the template adds. */
static void template_ends(const tok_load *load, int32_t *first, int32_t *last) {
  const tok_extra *e = &load->extra;
  *first = e->n_before ? e->before[0] : GA_TOK_NONE;
  *last = e->n_after ? e->after[e->n_after - 1] : GA_TOK_NONE;
}

static void fill_ids(tok_load *load, const json_src *src) {
  ga_vocab *v = &load->vocab;
  int32_t first, last;
  template_ends(load, &first, &last);
  const bool wpm = v->kind == GA_TOK_WPM;
  v->bos = config_id(src, "bos_token", wpm ? GA_TOK_NONE : first);
  v->eos = config_id(src, "eos_token", wpm ? GA_TOK_NONE : last);
  if (v->kind != GA_TOK_UGM) {
    const char *unk = json_string_value(ga_json_at(src->root, "model.unk_token"));
    v->unk = unk ? tok_json_find(src, unk) : config_id(src, "unk_token", GA_TOK_NONE);
  }
  v->sep = config_id(src, "sep_token", wpm ? last : GA_TOK_NONE);
  v->cls = config_id(src, "cls_token", wpm ? first : GA_TOK_NONE);
  v->pad = config_id(src, "pad_token", GA_TOK_NONE);
  v->mask = config_id(src, "mask_token", GA_TOK_NONE);
  if (v->kind != GA_TOK_UGM) return; /* the template's tokens: its <s> may be the file's cls */
  if (first >= 0) v->bos = first;
  if (last >= 0) v->eos = last;
}

/* --- add_bos_token, add_eos_token --- */

/* Puts `id` at one end of the template, or takes it away; *n ids. */
static ga_status set_end(ga_arena *arena, bool wanted, bool at_front, int32_t id, const int32_t **ids, size_t *n) {
  void *p;
  const bool there = *n && (*ids)[at_front ? 0 : *n - 1] == id;
  if (id < 0 || there == wanted) return GA_OK;
  if (!wanted) {
    *ids += at_front;
    --*n;
    return GA_OK;
  }
  GA_TRY(ga_arena_alloc(arena, (*n + 1) * sizeof(int32_t), &p));
  int32_t *longer = p;
  if (*n) memcpy(longer + at_front, *ids, *n * sizeof(int32_t));
  longer[at_front ? 0 : *n] = id;
  *ids = longer;
  ++*n;
  return GA_OK;
}

/* WPM, UGM: the template counts alone. */
static ga_status apply_add_flags(tok_load *load, const json_src *src) {
  ga_vocab *v = &load->vocab;
  tok_extra *e = &load->extra;
  const json_t *bos = ga_json_at(src->config, "add_bos_token"), *eos = ga_json_at(src->config, "add_eos_token");
  const bool counts = v->kind == GA_TOK_SPM || v->kind == GA_TOK_BPE;
  if (counts && json_is_boolean(bos))
    GA_TRY(set_end(&load->arena, json_is_true(bos), true, v->bos, &e->before, &e->n_before));
  if (counts && json_is_boolean(eos))
    GA_TRY(set_end(&load->arena, json_is_true(eos), false, v->eos, &e->after, &e->n_after));
  v->add_bos = e->n_before && e->before[0] == v->bos;
  v->add_eos = e->n_after && e->after[e->n_after - 1] == v->eos;
  return GA_OK;
}

/* --- added tokens --- */

static void make_control(tok_load *load, const json_src *src, const json_t *value) {
  const int32_t id = tok_json_find(src, content_of(value));
  if (id >= 0 && load->types[id] == GA_TOK_USER) load->types[id] = GA_TOK_CONTROL;
}

static void take_extra_specials(tok_load *load, const json_src *src, const char *name) {
  const json_t *list = setting_of(src, name), *value;
  const char *key;
  json_t *named;
  size_t i;
  json_array_foreach(list, i, value) make_control(load, src, value);
  json_t *object = (json_t *)(uintptr_t)list; /* jansson's loop, which only reads, does not take const */
  json_object_foreach(object, key, named) make_control(load, src, named);
}

/* --- BertTokenizer --- */

static void take_bert_setting(tok_load *load, const json_src *src, const char *name, uint32_t bit) {
  const json_t *value = ga_json_at(src->config, name);
  if (!json_is_boolean(value)) return;
  load->extra.wpm = json_is_true(value) ? load->extra.wpm | bit : load->extra.wpm & ~bit;
}

/* transformers' BertTokenizer makes the normalizer anew from these settings. */
static void apply_bert_settings(tok_load *load, const json_src *src) {
  const json_t *normalizer = ga_json_at(src->root, "normalizer");
  if (load->vocab.kind != GA_TOK_WPM || !is_bert_class(src) || !tok_json_is(normalizer, "BertNormalizer")) return;
  take_bert_setting(load, src, "do_lower_case", TOK_WPM_LOWER);
  if (!json_is_boolean(ga_json_at(normalizer, "strip_accents")))
    take_bert_setting(load, src, "do_lower_case", TOK_WPM_STRIP);
  take_bert_setting(load, src, "strip_accents", TOK_WPM_STRIP);
  take_bert_setting(load, src, "tokenize_chinese_chars", TOK_WPM_CJK);
}

ga_status tok_json_specials(tok_load *load, const json_src *src) {
  if (src->config) GA_TRY(ga_parts_check(&tok_parts_config, NULL, src->config));
  if (src->map) GA_TRY(ga_parts_check(&tok_parts_map, NULL, src->map));
  fill_ids(load, src);
  apply_bert_settings(load, src);
  take_extra_specials(load, src, "additional_special_tokens");
  take_extra_specials(load, src, "extra_special_tokens");
  /* BertTokenizer puts cls and sep around texts with or without a template. */
  if (load->vocab.kind == GA_TOK_WPM && !load->extra.has_template && is_bert_class(src)) return GA_OK;
  load->extra.has_template = true;
  return apply_add_flags(load, src);
}
