/* Adapters of low rank that join a loaded model's table of weights. */
#ifndef GA_MODEL_ATTACHMENT_H
#define GA_MODEL_ATTACHMENT_H

#include "model/weight_spec.h"

/* One adapter of low rank (LoRA), in host memory: W x becomes W x + scale B (A x). */
typedef struct attachment_source {
  weight_id id;   /* role of W, a matrix that the model has */
  int32_t layer;  /* layer of W */
  int32_t rank;   /* rank of the adapter, 1 or more */
  const float *a; /* matrix A [rank, columns of W] */
  const float *b; /* matrix B [rows of W, rank] */
  float scale;
} attachment_source;

/* Copies the adapters to the devices of their weights, and rebuilds the model's graph with them. Call it once for a
 * model, before it has a session, an engine or a model that shares its weights. After a failure the model has no
 * adapters. GA_ERR_UNSUPPORTED: the model is split over ranks, shares another model's weights, or has no such matrix.
 * GA_ERR_ARG: two adapters are for one matrix, or a rank is below 1. */
GA_NODISCARD ga_status model_attach(ga_model *model, const attachment_source *list, int32_t n);

#endif
