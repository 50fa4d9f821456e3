/* Filling in the middle (arXiv 2207.14255): a prompt whose answer stands between two texts. */
#include <stdlib.h>
#include <string.h>

#include "serve/prompts.h"

typedef struct sv_gap {
  sv_ids extra, before, line, behind;
} sv_gap;

static void sv_gap_free(sv_gap *g) {
  free(g->extra.p);
  free(g->before.p);
  free(g->line.p);
  free(g->behind.p);
}

static bool sv_has_gap_tokens(const sv_server *s, const char *field, sv_fail *fail) {
  for (int i = GA_TOK_FIM_PREFIX; i <= GA_TOK_FIM_MIDDLE; i++)
    if (ga_tokenizer_special(s->tok, (ga_tok_special)i) < 0)
      return sv_refuse(fail, 400, "no_fill_in_the_middle", field,
                       "%s: the model has no tokens for filling in the middle.", field);
  return true;
}

/* Bytes that cannot fit into the context are not encoded. */
static ga_text sv_last_part(ga_text text, size_t most) {
  size_t at = text.bytes > most ? text.bytes - most : 0;
  while (at < text.bytes && ((unsigned char)text.data[at] & 0xC0) == 0x80) at++;
  return (ga_text){text.data + at, text.bytes - at};
}

static ga_text sv_first_part(ga_text text, size_t most) {
  size_t n = text.bytes > most ? most : text.bytes;
  while (n && n < text.bytes && ((unsigned char)text.data[n] & 0xC0) == 0x80) n--;
  return (ga_text){text.data, n};
}

/* --- other texts --- */

static bool sv_append(sv_ids *to, const int32_t *ids, size_t n, sv_fail *fail) {
  int32_t *const p = realloc(to->p, (to->n + n + 1) * sizeof *p);
  if (!p) return sv_refuse_nomem(fail);
  to->p = p;
  if (n) memcpy(p + to->n, ids, n * sizeof *ids);
  to->n += n;
  return true;
}

static bool sv_append_special(const sv_server *s, sv_ids *to, ga_tok_special which, sv_fail *fail) {
  const int32_t id = ga_tokenizer_special(s->tok, which);
  return id < 0 || sv_append(to, &id, 1, fail);
}

static bool sv_append_text(const sv_server *s, sv_ids *to, const char *text, size_t bytes, sv_fail *fail) {
  sv_ids made;
  if (!sv_encode_text(s, text, bytes, 0, &made, fail)) return false;
  const bool ok = sv_append(to, made.p, made.n, fail);
  free(made.p);
  return ok;
}

static bool sv_append_file(const sv_server *s, sv_ids *to, const json_t *file, sv_fail *fail) {
  const json_t *name = json_object_get(file, "filename"), *text = json_object_get(file, "text");
  const bool is_named = ga_tokenizer_special(s->tok, GA_TOK_FIM_FILE) >= 0;
  const ga_text all = {json_string_value(text), json_string_length(text)},
                some = sv_first_part(all, (size_t)s->context * s->longest_piece);
  return sv_append_special(s, to, GA_TOK_FIM_FILE, fail) &&
         (!is_named || !json_is_string(name) ||
          (sv_append_text(s, to, json_string_value(name), json_string_length(name), fail) &&
           sv_append_text(s, to, "\n", 1, fail))) &&
         sv_append_text(s, to, some.data, some.bytes, fail) && sv_append_text(s, to, "\n", 1, fail);
}

/* Files of a repository, as Qwen2.5-Coder is trained on them (arXiv 2409.12186): a name, then each file. Models without
 * tokens for that get the texts alone. */
static bool sv_encode_extra(const sv_server *s, const json_t *files, sv_ids *out, sv_fail *fail) {
  const json_t *one;
  size_t i;
  if (!json_array_size(files)) return true;
  if (ga_tokenizer_special(s->tok, GA_TOK_FIM_REPO) >= 0 &&
      (!sv_append_special(s, out, GA_TOK_FIM_REPO, fail) || !sv_append_text(s, out, "project\n", 8, fail)))
    return false;
  json_array_foreach(files, i, one) {
    if (!sv_append_file(s, out, one, fail)) return false;
  }
  return sv_append_special(s, out, GA_TOK_FIM_FILE, fail);
}

/* --- what fits --- */

static void sv_keep_last(sv_ids *ids, size_t n) {
  if (ids->n <= n) return;
  memmove(ids->p, ids->p + ids->n - n, n * sizeof *ids->p);
  ids->n = n;
}

static size_t sv_least(size_t a, size_t b) { return a < b ? a : b; }

/* The texts next to the gap count most: three parts of four are for the one before, what one leaves is the other's, and
 * other texts get the rest. A quarter of the context is the answer's, if it does not ask for less. */
static void sv_fit_gap(const sv_server *s, const sv_params *p, sv_gap *g) {
  const size_t context = (size_t)s->context, quarter = context / 4,
               answer = p->max_tokens < 0 ? quarter : sv_least((size_t)p->max_tokens, context / 2),
               taken = answer + g->line.n + 4, room = context > taken ? context - taken : 0, part = room - room / 4;
  const size_t behind = sv_least(g->behind.n, room - sv_least(g->before.n, part));
  sv_keep_last(&g->before, room - behind);
  g->behind.n = behind;
  sv_keep_last(&g->extra, room - behind - g->before.n);
}

/* --- the prompt --- */

/* Prefix, suffix, middle, as models are trained to read them. */
static bool sv_join_gap(const sv_server *s, const sv_gap *g, bool add_bos, sv_ids *out, sv_fail *fail) {
  return (!add_bos || sv_append_special(s, out, GA_TOK_BOS, fail)) && sv_append(out, g->extra.p, g->extra.n, fail) &&
         sv_append_special(s, out, GA_TOK_FIM_PREFIX, fail) && sv_append(out, g->before.p, g->before.n, fail) &&
         sv_append(out, g->line.p, g->line.n, fail) && sv_append_special(s, out, GA_TOK_FIM_SUFFIX, fail) &&
         sv_append(out, g->behind.p, g->behind.n, fail) && sv_append_special(s, out, GA_TOK_FIM_MIDDLE, fail);
}

bool sv_encode_gap(const sv_server *s, sv_prompt *prompt, const sv_request *r, sv_ids *out, sv_fail *fail) {
  sv_gap g = {0};
  sv_params plain = r->p;
  *out = (sv_ids){0};
  if (!sv_has_gap_tokens(s, r->fits_gap ? "input_suffix" : "suffix", fail)) return false;
  plain.add_special = false;
  ga_text suffix = r->suffix;
  sv_prompt cut = *prompt, *from = prompt;
  if (r->fits_gap) {
    const size_t most = (size_t)s->context * s->longest_piece;
    const ga_text last = sv_last_part((ga_text){prompt->text, prompt->bytes}, most);
    cut.text = last.data, cut.bytes = last.bytes;
    from = &cut;
    suffix = sv_first_part(suffix, most);
  }
  bool ok = sv_encode_prompt(s, from, &plain, &g.before, fail) &&
            sv_encode_text(s, suffix.data, suffix.bytes, 0, &g.behind, fail) &&
            (!r->line.bytes || sv_encode_text(s, r->line.data, r->line.bytes, 0, &g.line, fail)) &&
            sv_encode_extra(s, r->extra, &g.extra, fail);
  if (ok && r->fits_gap) sv_fit_gap(s, &r->p, &g);
  ok = ok && sv_join_gap(s, &g, r->p.add_special && ga_tokenizer_adds_bos(s->tok), out, fail);
  sv_gap_free(&g);
  return ok;
}

bool sv_add_gap_stops(const sv_server *s, sv_params *p, sv_fail *fail) {
  const size_t most = (size_t)p->n_stop_ids + 1 + GA_TOK_FIM_FILE - GA_TOK_FIM_PAD;
  int32_t *const ids = realloc(p->stop_ids, most * sizeof *ids);
  if (!ids) return sv_refuse_nomem(fail);
  p->stop_ids = ids;
  for (int i = GA_TOK_FIM_PAD; i <= GA_TOK_FIM_FILE; i++) {
    const int32_t id = ga_tokenizer_special(s->tok, (ga_tok_special)i);
    if (id >= 0) ids[p->n_stop_ids++] = id;
  }
  return true;
}
