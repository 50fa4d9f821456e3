/* The post_processor of tokenizer.json, as tokens before and after a text, and its decoder. */
#include "base/json.h"
#include "base/status.h"
#include "token/tok_json.h"
#include "token/tok_parts.h"

#define MARK       "\xE2\x96\x81" /* U+2581 */
#define AFFIX_MOST 64             /* tokens on one side */

/* --- tokens of templates --- */

typedef struct affix {
  int32_t before[AFFIX_MOST], after[AFFIX_MOST];
  size_t n_before, n_after;
} affix;

static ga_status affix_put(affix *a, bool after, int32_t id) {
  size_t *n = after ? &a->n_after : &a->n_before;
  GA_REQUIRE(*n < AFFIX_MOST, GA_ERR_UNSUPPORTED,
             "tokenizer.json: post_processor adds more than %d tokens on one side of a text", AFFIX_MOST);
  (after ? a->after : a->before)[(*n)++] = id;
  return GA_OK;
}

/* A token of the template stands for all ids of its entry in special_tokens. */
static ga_status put_special(const json_src *src, const json_t *post, const char *name, bool after, affix *a) {
  const json_t *entry = json_object_get(json_object_get(post, "special_tokens"), name), *ids = ga_json_at(entry, "ids"),
               *value;
  size_t i, id;
  if (json_array_size(ids)) {
    json_array_foreach(ids, i, value) {
      GA_TRY(tok_json_id(name, value, &id));
      GA_TRY(affix_put(a, after, (int32_t)id));
    }
    return GA_OK;
  }
  const int32_t found = tok_json_find(src, name);
  GA_REQUIRE(found >= 0, GA_ERR_FORMAT, "tokenizer.json: the template of post_processor names '%s'; it is no token",
             ga_quote(name, strlen(name)).text);
  return affix_put(a, after, found);
}

static ga_status read_template(const json_src *src, const json_t *post, affix *a) {
  size_t i, texts = 0;
  const json_t *piece;
  json_array_foreach(ga_json_at(post, "single"), i, piece) {
    const json_t *text = ga_json_at(piece, "Sequence"), *name = ga_json_at(piece, "SpecialToken.id");
    GA_REQUIRE(text || json_is_string(name), GA_ERR_FORMAT,
               "tokenizer.json: piece %zu of the template of post_processor is neither Sequence nor SpecialToken", i);
    if (!text) {
      GA_TRY(put_special(src, post, json_string_value(name), texts > 0, a));
      continue;
    }
    const char *id = tok_json_text(text, "id");
    GA_REQUIRE(!*id || !strcmp(id, "A"), GA_ERR_UNSUPPORTED,
               "tokenizer.json: the template of post_processor has the text '%s'; must be A",
               ga_quote(id, strlen(id)).text);
    texts++;
  }
  GA_REQUIRE(texts > 0, GA_ERR_FORMAT, "tokenizer.json: the template of post_processor has no text");
  GA_REQUIRE(texts == 1, GA_ERR_UNSUPPORTED, "tokenizer.json: the template of post_processor has %zu texts; GA has one",
             texts);
  return GA_OK;
}

/* [text, id] */
static ga_status put_named(const json_t *step, const char *field, bool after, affix *a) {
  const json_t *pair = ga_json_at(step, field);
  const char *name = json_string_value(json_array_get(pair, 0));
  size_t id;
  GA_REQUIRE(name, GA_ERR_FORMAT, "tokenizer.json: '%s' of '%s' is %s; must be a text and an id", field,
             tok_json_text(step, "type"), ga_json_type_name(pair));
  GA_TRY(tok_json_id(name, json_array_get(pair, 1), &id));
  return affix_put(a, after, (int32_t)id);
}

static ga_status read_post_step(const json_src *src, const json_t *step, affix *a) {
  GA_TRY(tok_parts_check_step("post_processor", step));
  if (tok_json_is(step, "ByteLevel")) return GA_OK; /* offsets alone */
  GA_REQUIRE(a->n_before + a->n_after == 0, GA_ERR_UNSUPPORTED,
             "tokenizer.json: post_processor '%s' adds tokens to those of a step before it; GA has one such step",
             tok_json_text(step, "type"));
  if (tok_json_is(step, "TemplateProcessing")) return read_template(src, step, a);
  GA_TRY(put_named(step, "cls", false, a));
  return put_named(step, "sep", true, a);
}

static ga_status keep_ids(ga_arena *arena, const int32_t *ids, size_t n, const int32_t **out) {
  void *p;
  GA_TRY(ga_arena_alloc(arena, n * sizeof(int32_t), &p));
  if (n) memcpy(p, ids, n * sizeof(int32_t));
  *out = p;
  return GA_OK;
}

ga_status tok_json_post(tok_load *load, const json_src *src) {
  const json_t *post = ga_json_at(src->root, "post_processor"), *list = ga_json_at(post, "processors"), *step;
  affix a = {0};
  size_t i;
  if (!post) return GA_OK;
  if (!json_is_array(list)) GA_TRY(read_post_step(src, post, &a));
  if (json_is_array(list)) GA_TRY(tok_parts_check_step("post_processor", post));
  json_array_foreach(list, i, step) {
    GA_REQUIRE(!tok_json_is(step, "Sequence"), GA_ERR_UNSUPPORTED,
               "tokenizer.json: post_processor has a Sequence in a Sequence; GA has one level");
    GA_TRY(read_post_step(src, step, &a));
  }
  load->extra.has_template = true;
  load->extra.n_before = a.n_before;
  load->extra.n_after = a.n_after;
  GA_TRY(keep_ids(&load->arena, a.before, a.n_before, &load->extra.before));
  return keep_ids(&load->arena, a.after, a.n_after, &load->extra.after);
}

/* --- decoder --- */

static bool step_text_is(const json_t *step, const char *path, const char *want) {
  return !strcmp(tok_json_text(step, path), want);
}

static ga_status take_metaspace_decoder(tok_load *load, const json_t *step) {
  const char *scheme = tok_json_text(step, "prepend_scheme");
  GA_REQUIRE(step_text_is(step, "replacement", MARK), GA_ERR_UNSUPPORTED,
             "tokenizer.json: decoder Metaspace with another replacement than U+2581");
  load->extra.strip = *scheme ? strcmp(scheme, "never") != 0 : !json_is_false(ga_json_at(step, "add_prefix_space"));
  return GA_OK;
}

static ga_status take_strip_decoder(tok_load *load, const json_t *step) {
  const json_int_t start = json_integer_value(ga_json_at(step, "start"));
  GA_REQUIRE(step_text_is(step, "content", " ") && (start == 0 || start == 1), GA_ERR_UNSUPPORTED,
             "tokenizer.json: decoder Strip of %lld characters '%s' at the start; must be 0 or 1 spaces",
             (long long)start, ga_quote(tok_json_text(step, "content"), strlen(tok_json_text(step, "content"))).text);
  load->extra.strip = start == 1;
  return GA_OK;
}

/* SentencePiece's pieces have U+2581 for spaces, and names of bytes: their decoders put these back. */
static ga_status take_decoder(tok_load *load, const json_t *step) {
  const bool bytes = load->vocab.kind == GA_TOK_BPE;
  GA_TRY(tok_parts_check_step("decoder", step));
  GA_REQUIRE(tok_json_is(step, "ByteLevel") == bytes || tok_json_is(step, "Fuse"), GA_ERR_UNSUPPORTED,
             "tokenizer.json: decoder '%s'; with this model and pre_tokenizer GA has %s", tok_json_text(step, "type"),
             bytes ? "ByteLevel" : "Replace, ByteFallback, Fuse, Strip and Metaspace");
  if (tok_json_is(step, "Metaspace")) return take_metaspace_decoder(load, step);
  if (tok_json_is(step, "Strip")) return take_strip_decoder(load, step);
  GA_REQUIRE(!tok_json_is(step, "Replace") ||
                 (step_text_is(step, "pattern.String", MARK) && step_text_is(step, "content", " ")),
             GA_ERR_UNSUPPORTED, "tokenizer.json: decoder Replace; must be of U+2581 by a space");
  GA_REQUIRE(!tok_json_is(step, "WordPiece"), GA_ERR_UNSUPPORTED,
             "tokenizer.json: decoder WordPiece; with this model GA has Replace, ByteFallback, Fuse, Strip and "
             "Metaspace");
  return GA_OK;
}

ga_status tok_json_decoder(tok_load *load, const json_t *decoder) {
  const json_t *list = ga_json_at(decoder, "decoders"), *step;
  size_t i;
  if (!decoder) return GA_OK;
  if (load->vocab.kind == GA_TOK_WPM) return tok_parts_check_step("decoder", decoder);
  load->extra.has_strip = load->vocab.kind == GA_TOK_SPM || load->vocab.kind == GA_TOK_UGM;
  if (!json_is_array(list)) return take_decoder(load, decoder);
  GA_TRY(tok_parts_check_step("decoder", decoder));
  json_array_foreach(list, i, step) GA_TRY(take_decoder(load, step));
  return GA_OK;
}
