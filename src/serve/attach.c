#include "serve/attach.h"

#include "serve/embed.h"

ga_status sv_server_attach(sv_server *s, ga_model *model, ga_engine *engine) {
  ga_engine_stats stats = GA_ENGINE_STATS_INIT;
  s->model = model;
  s->engine = engine;
  s->tok = ga_model_tokenizer(model);
  if (!s->tok) return ga_error_set(GA_ERR_UNSUPPORTED, "the model file has no tokenizer");
  s->vocab = (int64_t)ga_tokenizer_size(s->tok);
  if (s->vocab > ga_model_get_info(model)->vocab) s->vocab = ga_model_get_info(model)->vocab;
  s->context = ga_model_get_info(model)->context;
  s->longest_piece = 1;
  for (int32_t id = 0; id < s->vocab; id++) {
    const size_t bytes = ga_tokenizer_piece(s->tok, id).bytes;
    if (bytes > s->longest_piece) s->longest_piece = bytes;
  }
  const ga_status status = engine ? ga_engine_get_stats(engine, &stats) : sv_embedder_start(s, &s->embedder);
  if (status != GA_OK) return status;
  if (engine) s->context = stats.context;
  return GA_OK;
}
