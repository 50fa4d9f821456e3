/* Embeddings from the rows of an encoder: pooling, then the modules of modules.json. */
#ifndef GA_MODEL_EMBEDDING_H
#define GA_MODEL_EMBEDDING_H

#include "model/graph.h"
#include "model/model.h"

#define EMBEDDING_MOST_MODES   6
#define EMBEDDING_MOST_MODULES 16

typedef enum embedding_act { ACT_IDENTITY, ACT_TANH, ACT_RELU, ACT_GELU, ACT_SILU, ACT_SIGMOID } embedding_act;

/* A module: y = act(W x + b), or, without weights, x divided by its length. */
typedef struct embedding_module {
  float *weights; /* [out][in]; NULL: normalise */
  float *bias;    /* [out]; NULL: none */
  int32_t in, out;
  embedding_act act;
} embedding_module;

struct ga_embedding {
  ga_pooling modes[EMBEDDING_MOST_MODES]; /* [n_modes] ways of pooling, whose results are concatenated */
  int32_t n_modes;
  embedding_module modules[EMBEDDING_MOST_MODULES]; /* [n_modules] in the order in which they are applied */
  int32_t n_modules;
  int32_t width; /* elements of an embedding */
  int32_t most;  /* largest number of elements of the vectors between pooling and the last module */
};

/* Reads pooling and modules of an encoder's file, with their weights unless plan_only is set. Release with
 * embedding_destroy. */
GA_NODISCARD ga_status embedding_create(const ga_model_file *file, const ga_hparams *p, bool plan_only,
                                        ga_embedding **out);
void embedding_destroy(ga_embedding *embedding);

/* Computes one embedding, of length 1, from x [n][width], the model's rows of n tokens. out holds embedding->width
 * floats. */
GA_NODISCARD ga_status embedding_compute(const ga_embedding *embedding, const float *x, int32_t n, int32_t width,
                                         float *out);

#endif
