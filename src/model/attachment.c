#include "model/attachment.h"

#include "base/mem.h"
#include "base/status.h"
#include "model/pass/attach.h"

/* The placement that has the weights of a layer, or of the head. */
static ga_placement *placement_of_weight(ga_model *model, const attachment_source *s) {
  ga_placement *place = model->placements, *last = place + model->n_placements - 1;
  if (!ga_weight_specs[s->id].of_layer) return last;
  while (place < last && s->layer >= place->end) place++;
  return place;
}

static ga_status copy_matrix(ga_placement *place, const float *from, int64_t rows, int64_t cols, ga_weight *out) {
  const size_t bytes = (size_t)rows * (size_t)cols * sizeof(float);
  void *p;
  GA_TRY(ga_placement_alloc(place, bytes, &p));
  GA_TRY(ga_copy_to_device(place->ctx, p, from, bytes, NULL));
  *out = (ga_weight){.data = p, .dims = {rows, cols}, .n_dims = 2, .dtype = GA_F32, .layout = GA_LAYOUT_NATIVE};
  return GA_OK;
}

static ga_status check_source(ga_model *model, const attachment_source *s, ga_weight **out) {
  const bool is_known = s->id > W_NONE && s->id < W_COUNT;
  const bool is_there =
      is_known && (!ga_weight_specs[s->id].of_layer || (s->layer >= 0 && s->layer < model->hparams.n_layers));
  ga_weight *w = is_there ? ga_weight_slot(model, s->id, s->layer) : NULL;
  GA_REQUIRE(w && w->data && ga_weight_specs[s->id].kind == KIND_MATRIX, GA_ERR_UNSUPPORTED,
             "adapter: the model has no matrix %d in layer %d", (int)s->id, s->layer);
  GA_REQUIRE(!w->attachment, GA_ERR_ARG, "adapter: two for %s of layer %d", ga_weight_specs[s->id].name, s->layer);
  GA_REQUIRE(s->rank >= 1 && s->a && s->b, GA_ERR_ARG, "adapter of %s: rank is %d, or a or b is null; at least 1",
             ga_weight_specs[s->id].name, s->rank);
  *out = w;
  return GA_OK;
}

static ga_status attach_one(ga_model *model, const attachment_source *s, ga_attachment *out) {
  ga_placement *place;
  ga_weight *w = NULL;
  GA_TRY(check_source(model, s, &w));
  place = placement_of_weight(model, s);
  GA_TRY(copy_matrix(place, s->a, s->rank, ga_weight_cols(w), &out->a));
  GA_TRY(copy_matrix(place, s->b, ga_weight_rows(w), s->rank, &out->b));
  out->scale = s->scale;
  w->attachment = out;
  return GA_OK;
}

/* Device memory of a failed call stays the placements' until the model ends. */
static void detach_all(ga_model *model, const attachment_source *list, int32_t n) {
  for (int32_t i = 0; i < n; i++) ga_weight_slot(model, list[i].id, list[i].layer)->attachment = NULL;
  ga_mem_free(model->attachments);
  model->attachments = NULL;
}

ga_status model_attach(ga_model *model, const attachment_source *list, int32_t n) {
  ga_status status = GA_OK;
  int32_t done = 0;
  void *p;
  GA_REQUIRE(!model->comm && !model->is_shared && !model->is_plan && !model->attachments, GA_ERR_UNSUPPORTED,
             "adapters: the model is %s",
             model->comm        ? "split by tensors"
             : model->is_shared ? "a share of another"
             : model->is_plan   ? "loaded without weights"
                                : "one that has some");
  GA_TRY(ga_mem_zalloc(n > 0 ? (size_t)n : 1, sizeof *model->attachments, "adapters", &p));
  model->attachments = p;
  for (; done < n && status == GA_OK; done += status == GA_OK)
    status = attach_one(model, &list[done], &model->attachments[done]);
  if (status == GA_OK) status = attach_graph(model, &model->graph);
  if (status != GA_OK) detach_all(model, list, done);
  return status;
}
