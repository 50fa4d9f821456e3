/* POST /v1/rerank: scores of documents for a query, in the form of Jina, Cohere and vLLM, or of TEI (`texts`). */
#include "serve/rerank.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "serve/embed.h"

/* --- pairs of ids --- */

/* Joins the ids of a query and of a document, each with its own beginning and end. BERT writes [CLS] query [SEP]
 * document [SEP]; RoBERTa's family writes a second separator where the document's beginning was. */
static bool sv_join_pair(const sv_server *s, const sv_ids *query, const sv_ids *document, sv_ids *out, sv_fail *fail) {
  const bool doubles = ga_tokenizer_kind(s->tok) != GA_TOK_WPM;
  const size_t skipped = document->n && !doubles ? 1 : 0, n = query->n + document->n - skipped;
  out->p = malloc((n + 1) * sizeof *out->p);
  if (!out->p) return sv_refuse_nomem(fail);
  out->n = n;
  if (query->n) memcpy(out->p, query->p, query->n * sizeof *out->p);
  if (document->n > skipped) memcpy(out->p + query->n, document->p + skipped, (document->n - skipped) * sizeof *out->p);
  if (doubles && document->n && query->n) out->p[query->n] = query->p[query->n - 1];
  return true;
}

/* Cuts the document's end; the last id, a separator, stays. */
static bool sv_fit_pair(const sv_server *s, sv_ids *pair, size_t n_query, bool cuts, sv_fail *fail) {
  const size_t most = (size_t)s->context;
  if (cuts && pair->n > most && n_query + 1 < most) {
    pair->p[most - 1] = pair->p[pair->n - 1];
    pair->n = most;
  }
  return sv_fits_context(s, pair->n, 0, "documents", fail);
}

/* --- the request --- */

static const json_t *sv_document_text(const json_t *document) {
  const json_t *text = json_is_object(document) ? json_object_get(document, "text") : document;
  return json_is_string(text) ? text : NULL;
}

static bool sv_is_tei(const json_t *body) { return !sv_field(body, "documents") && sv_field(body, "texts"); }

static const json_t *sv_documents_of(const json_t *body) {
  return sv_field(body, sv_is_tei(body) ? "texts" : "documents");
}

static bool sv_read_pairs(sv_embed_job *job, const json_t *query, const json_t *documents, bool cuts, sv_call *call) {
  const sv_server *s = job->server;
  sv_fail *fail = &call->fail;
  sv_ids first;
  if (!sv_encode_text(s, json_string_value(query), json_string_length(query), GA_TOK_ADD_SPECIAL, &first, fail))
    return false;
  bool ok = true;
  for (size_t i = 0; ok && i < json_array_size(documents); i++) {
    const json_t *text = sv_document_text(json_array_get(documents, i));
    sv_ids second = {0}, *pair = &job->ids[job->n++];
    ok = text ? sv_encode_text(s, json_string_value(text), json_string_length(text), GA_TOK_ADD_SPECIAL, &second, fail)
              : sv_refuse_value(fail, "documents", json_array_get(documents, i), "strings, or objects with a text");
    ok = ok && sv_join_pair(s, &first, &second, pair, fail) && sv_fit_pair(s, pair, first.n, cuts, fail);
    free(second.p);
    call->n_prompt += (int64_t)pair->n;
  }
  job->n_query = first.n <= INT32_MAX ? (int32_t)first.n : INT32_MAX;
  free(first.p);
  return ok;
}

static bool sv_check_ranker(const sv_server *s, sv_fail *fail) {
  const ga_model_info *info = ga_model_get_info(s->model);
  if (info->n_labels == 1) return true;
  if (!info->n_labels)
    return sv_refuse(fail, 400, "not_a_reranker", "model",
                     "%s has no head for pairs; serve a cross-encoder of the BERT family for these.", s->o.model_id);
  return sv_refuse(fail, 400, "not_a_reranker", "model", "%s has %d labels; a reranker has 1.", s->o.model_id,
                   info->n_labels);
}

static bool sv_read_rerank(sv_embed_job *job, const json_t *body, sv_call *call) {
  const json_t *query = sv_field(body, "query"), *documents = sv_documents_of(body);
  sv_fail *fail = &call->fail;
  bool cuts = false;
  if (!sv_embed_model(job, body, fail) || !sv_check_ranker(job->server, fail) ||
      !sv_read_bool(body, "truncate", &cuts, fail) || !sv_read_bool(body, "raw_scores", &job->is_raw, fail) ||
      !sv_read_bool(body, sv_is_tei(body) ? "return_text" : "return_documents", &job->with_texts, fail))
    return false;
  if (!query) return sv_refuse(fail, 400, "missing_required_parameter", "query", "query is missing.");
  if (!json_is_string(query)) return sv_refuse_value(fail, "query", query, "a string");
  if (!documents) return sv_refuse(fail, 400, "missing_required_parameter", "documents", "documents is missing.");
  const size_t n = json_array_size(documents);
  if (!json_is_array(documents) || !n || n > SV_MAX_INPUTS)
    return sv_refuse_value(fail, "documents", documents, "an array of 1 to 2048 documents");
  job->top_n = (int64_t)n;
  if (!sv_read_int(body, "top_n", 1, INT32_MAX, &job->top_n, fail)) return false;
  job->ranks = true;
  job->width = 1;
  job->ids = calloc(n, sizeof *job->ids);
  job->vectors = calloc(n, sizeof *job->vectors);
  if (!job->ids || !job->vectors) return sv_refuse_nomem(fail);
  return sv_read_pairs(job, query, documents, cuts, call);
}

/* --- the answer --- */

typedef struct sv_ranked {
  size_t index;
  float score;
} sv_ranked;

static int sv_compare_ranked(const void *a, const void *b) {
  const sv_ranked *x = a, *y = b;
  if (x->score != y->score) return x->score < y->score ? 1 : -1;
  return (x->index > y->index) - (x->index < y->index);
}

/* Scores are probabilities unless the request wants the logits. */
static double sv_score_of(const sv_embed_job *job, float logit) {
  return job->is_raw ? (double)logit : 1 / (1 + exp(-(double)logit));
}

static void sv_put_ranked_list(sv_text *t, const sv_embed_job *job, const sv_ranked *ranked) {
  const bool is_tei = sv_is_tei(job->body);
  for (size_t i = 0; i < job->n && (int64_t)i < job->top_n; i++) {
    const json_t *text = sv_document_text(json_array_get(sv_documents_of(job->body), ranked[i].index));
    sv_putf(t, "%s{\"index\":%zu,\"%s\":", i ? "," : "", ranked[i].index, is_tei ? "score" : "relevance_score");
    sv_put_number(t, sv_score_of(job, ranked[i].score));
    if (job->with_texts) {
      sv_puts(t, is_tei ? ",\"text\":" : ",\"document\":{\"text\":");
      sv_put_json(t, json_string_value(text), json_string_length(text));
      if (!is_tei) sv_puts(t, "}");
    }
    sv_puts(t, "}");
  }
}

static void sv_put_rerank(sv_text *t, const sv_embed_job *job, const sv_call *call) {
  sv_ranked *ranked = malloc(job->n * sizeof *ranked);
  const bool is_tei = sv_is_tei(job->body);
  t->failed |= !ranked;
  for (size_t i = 0; ranked && i < job->n; i++) ranked[i] = (sv_ranked){i, job->vectors[i]};
  if (ranked) qsort(ranked, job->n, sizeof *ranked, sv_compare_ranked);
  if (!is_tei) {
    char id[48];
    sv_new_id(job->server, "rerank-", id);
    sv_putf(t, "{\"id\":\"%s\",\"object\":\"list\",\"model\":", id);
    sv_puts_json(t, job->server->o.model_id);
    sv_putf(t, ",\"usage\":{\"prompt_tokens\":%lld,\"total_tokens\":%lld},\"results\":", (long long)call->n_prompt,
            (long long)call->n_prompt);
  }
  sv_puts(t, "[");
  if (ranked) sv_put_ranked_list(t, job, ranked);
  sv_puts(t, is_tei ? "]" : "]}");
  free(ranked);
}

enum MHD_Result sv_run_rerank(sv_call *call) {
  static const sv_embed_form form = {sv_read_rerank, sv_put_rerank};
  return sv_run_embed(call, &form);
}
