/* Sentence embeddings of encoder models: one pass, pooled, L2-normalised (arXiv 1908.10084). */
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "model/embedding.h"
#include "model/exec.h"
#include "model/rank_head.h"

/* ids, positions, types, q_start[2] in one device buffer. Ids from n_first on have type 1. */
static ga_status run_embedding(ga_model *model, ga_exec *e, const int32_t *ids, int32_t n, int32_t n_first,
                               int32_t *host, int32_t *device) {
  int32_t *positions = host + n, *types = positions + n, *q_start = types + n;
  for (int32_t i = 0; i < n; i++) {
    host[i] = ids[i];
    positions[i] = i;
    types[i] = i >= n_first;
  }
  q_start[0] = 0;
  q_start[1] = n;
  GA_TRY(ga_copy_to_device(model->ctx, device, host, ((size_t)n * 3 + 2) * sizeof(int32_t), NULL));
  ga_step step = {.n_tokens = n,
                  .n_seqs = 1,
                  .max_q = n,
                  .max_kv = n,
                  .ids = device,
                  .positions = device + n,
                  .types = device + (types - host),
                  .q_start = device + (q_start - host)};
  e->step = &step;
  return exec_run(e);
}

/* Computes the embedding of ids; with `score`, that of a pair whose first part has n_first ids. */
static ga_status embed_tokens(ga_model *model, ga_exec *e, const int32_t *ids, int32_t n, int32_t n_first, float *out,
                              float *score) {
  const size_t inputs = ((size_t)n * 3 + 2) * sizeof(int32_t),
               rows = (size_t)n * (size_t)model->hparams.width * sizeof(float);
  void *host = NULL, *device = NULL;
  ga_status status = ga_mem_alloc(inputs + rows, "embedding", &host);
  if (status == GA_OK) status = ga_buffer_alloc(model->ctx, inputs, &device);
  float *x = (float *)host;
  int32_t *ints = host ? (int32_t *)(x + rows / sizeof(float)) : NULL;
  if (status == GA_OK) status = run_embedding(model, e, ids, n, n_first, ints, device);
  if (status == GA_OK) status = ga_copy_to_host(model->ctx, x, exec_result(e), rows, NULL);
  if (status == GA_OK && score) *score = rank_head_score(model->rank_head, x);
  if (status == GA_OK && out) status = embedding_compute(model->embedding, x, n, model->hparams.width, out);
  ga_buffer_free(model->ctx, device);
  ga_mem_free(host);
  return status;
}

static ga_status check_encoder_ids(const ga_model *model, const char *what, const int32_t *ids, int32_t n) {
  GA_REQUIRE(n >= 1 && n <= model->hparams.context, GA_ERR_SHAPE, "%s: %d tokens; this model takes 1 to %d", what, n,
             model->hparams.context);
  GA_REQUIRE(!model->is_plan, GA_ERR_STATE, "%s: the model was loaded without weights (plan_only)", what);
  for (int32_t i = 0; i < n; i++)
    GA_REQUIRE(ids[i] >= 0 && ids[i] < model->hparams.vocab, GA_ERR_ARG, "%s: id %d at %d; must be 0 to %d", what,
               ids[i], i, model->hparams.vocab - 1);
  return GA_OK;
}

/* Runs the model once; one of `out` and `score` may be NULL. */
static ga_status run_encoder(ga_model *model, const int32_t *ids, int32_t n, int32_t n_first, float *out,
                             float *score) {
  ga_exec e;
  GA_TRY(exec_create(model, model->placements, NULL, n, 0, n, &e));
  const ga_status status = embed_tokens(model, &e, ids, n, n_first, out, score);
  exec_destroy(&e);
  return status;
}

ga_status ga_embed_vector(ga_model *model, const int32_t *ids, int32_t n, float *out, size_t capacity) {
  GA_REQUIRE(model && ids && out, GA_ERR_ARG, "embed: model, ids or out is null");
  GA_REQUIRE(model->info.is_encoder, GA_ERR_UNSUPPORTED,
             "embed: %s generates text; embeddings need an encoder such as bert", model->info.arch);
  GA_REQUIRE(capacity >= (size_t)model->info.embedding_width, GA_ERR_SHAPE,
             "embed: room for %zu floats; an embedding of this model has %d", capacity, model->info.embedding_width);
  GA_TRY(check_encoder_ids(model, "embed", ids, n));
  return run_encoder(model, ids, n, n, out, NULL);
}

ga_status ga_rank_ids(ga_model *model, const int32_t *ids, int32_t n, int32_t n_query, float *score) {
  GA_REQUIRE(model && ids && score, GA_ERR_ARG, "rank: model, ids or score is null");
  GA_REQUIRE(model->rank_head, GA_ERR_UNSUPPORTED,
             "rank: %s has no head for pairs; scores need a cross-encoder of the BERT family", model->info.arch);
  GA_REQUIRE(model->info.n_labels == 1, GA_ERR_UNSUPPORTED, "rank: the model has %d labels; a score needs 1",
             model->info.n_labels);
  GA_TRY(check_encoder_ids(model, "rank", ids, n));
  GA_REQUIRE(n_query >= 0 && n_query <= n, GA_ERR_ARG, "rank: n_query is %d; must be 0 to %d", n_query, n);
  return run_encoder(model, ids, n, model->hparams.n_types > 1 ? n_query : n, NULL, score);
}

ga_status ga_embed_ids(ga_model *model, const int32_t *ids, int32_t n, float *out) {
  GA_REQUIRE(model, GA_ERR_ARG, "embed: model is null");
  return ga_embed_vector(model, ids, n, out, (size_t)model->info.width);
}
