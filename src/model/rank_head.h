/* The head of a cross-encoder, which computes the score of a pair of texts from the first token's hidden state (arXiv
 * 1901.04085). */
#ifndef GA_MODEL_RANK_HEAD_H
#define GA_MODEL_RANK_HEAD_H

#include "model/model.h"

/* Returns whether a file has the head of a cross-encoder: a dense layer, and a matrix with a row of weights for each
 * label. */
bool rank_head_is_there(const ga_model_file *file);
/* Reads the head of a model's file. *out is NULL if the file has none. GA_ERR_SHAPE: a tensor has other dimensions than
 * the model's width needs. */
GA_NODISCARD ga_status rank_head_load(const ga_model_file *file, int32_t width, ga_rank_head **out);
void rank_head_free(ga_rank_head *head); /* NULL is fine */
/* Returns the number of labels. */
int32_t rank_head_labels(const ga_rank_head *head);
/* Computes the score of label 0: out (tanh(dense x + b)) + c. x: [width] hidden state. */
float rank_head_score(const ga_rank_head *head, const float *x);

#endif
