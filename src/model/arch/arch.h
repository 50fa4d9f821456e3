/* The architectures that GA runs, with one descriptor each. Once a model is loaded, no code outside of this folder
 * depends on its architecture. The only exception is the loading of safetensors (file/hf_tables.c, hf_config.c,
 * hf_open.c). docs/howto/add-an-architecture.md has the steps to add one. */
#ifndef GA_MODEL_ARCH_ARCH_H
#define GA_MODEL_ARCH_ARCH_H

#include "model/build.h"

enum { REQUIRED = false, OPTIONAL = true };

typedef struct weight_use {
  weight_id id;
  bool optional; /* the file may lack the tensor */
} weight_use;

struct ga_arch_desc {
  const char *name; /* general.architecture in the file */
  /* true: the model makes embeddings; it has no KV cache and no output head, and all layers are on one device */
  bool is_encoder;
  bool has_rank_head; /* files of the architecture may have a head that scores pairs of texts (rank_head.h) */
  const weight_use *weights;
  size_t n_weights;
  /* Returns whether the layer has the tensor; of tensors of the whole model whether the model has it. NULL: all of
   * `weights` are there. */
  bool (*has_weight)(const ga_hparams *p, weight_id id, int32_t layer);
  /* Reads the hyper-parameters into p, whose fields are 0 except arch. */
  ga_status (*read)(const ga_model_file *file, ga_hparams *p);
  /* Appends all layers to the graph; failures are kept in the builder. */
  void (*build)(graph_builder *b);
};

/* All architectures by name, with NULL at the end: each `const ga_arch_desc ga_arch_<name> =` of this folder.
 * cmake/archs.cmake writes the list. */
extern const ga_arch_desc *const ga_archs[];

/* Finds an architecture by name; NULL: GA does not have it. */
const ga_arch_desc *ga_arch_find(const char *name, size_t bytes);
/* Returns the names of all architectures, separated by commas. */
const char *ga_arch_names(void);
/* Returns the architecture's entry for a tensor, in arch->weights; NULL: the architecture does not have the tensor. */
const weight_use *ga_arch_weight(const ga_arch_desc *arch, weight_id id);
/* Returns whether the architecture has the tensor in that layer. Tensors of the whole model ignore the layer. */
bool ga_arch_has_weight(const ga_hparams *p, weight_id id, int32_t layer);

/* --- for `read` functions: they read keys of the file, and check them against limits that make later computations safe
 * --- */

/* Reads the number of layers, the width and the context, and sets the defaults of scales but that of attention. */
GA_NODISCARD ga_status hparams_model_sizes(const ga_model_file *file, ga_hparams *p);
/* Reads the heads and widths of models whose layers with a window have heads of their own, and whose feed-forwards
 * differ in width. Call it after hparams_windows. */
GA_NODISCARD ga_status hparams_layer_sizes(const ga_model_file *file, ga_hparams *p);
/* Reads the width of the embedding of a token that each layer has of its own. */
GA_NODISCARD ga_status hparams_layer_embedding(const ga_model_file *file, ga_hparams *p);
/* Reads the numbers of elements of heads of keys and of values. */
GA_NODISCARD ga_status hparams_head_dims(const ga_model_file *file, ga_hparams *p);
/* Reads the number of last layers that have no keys and values of their own. Each reads those of the last layer before
 * them that has a window as it has, or has none. Call it after hparams_windows. */
GA_NODISCARD ga_status hparams_shared_kv(const ga_model_file *file, int32_t fallback, ga_hparams *p);
/* Reads the numbers of layers and heads and the widths, and sets the defaults of all scales. */
GA_NODISCARD ga_status hparams_sizes(const ga_model_file *file, ga_hparams *p);
/* Reads the parameters of RoPE. pairs: "norm" or "neox", the elements that are rotated together unless the file says
 * otherwise. */
GA_NODISCARD ga_status hparams_rope(const ga_model_file *file, const char *pairs, ga_hparams *p);
/* Reads which layers have no rotary embedding. If the file does not list them, it is every fourth, or every n-th as a
 * folder states. */
GA_NODISCARD ga_status hparams_rope_layers(const ga_model_file *file, ga_hparams *p);
/* Reads the size of the sliding window, and which layers use it (local layers). If the file has no window, its size is
 * `fallback`; 0: no window. If the file does not list the layers, all are local except every global_every-th. */
GA_NODISCARD ga_status hparams_windows(const ga_model_file *file, int32_t fallback, int32_t global_every,
                                       ga_hparams *p);
/* Sets the vocabulary from the shape of the embedding; p->width must be known. */
GA_NODISCARD ga_status hparams_vocab(const ga_model_file *file, ga_hparams *p);
/* Reads the epsilon of norms. key: the metadata key without its prefix "<arch>.". */
GA_NODISCARD ga_status hparams_eps(const ga_model_file *file, const char *key, ga_hparams *p);
/* Reads an integer in [least, most], which must be there. key: the metadata key without its prefix "<arch>.". */
GA_NODISCARD ga_status hparams_stated_int(const ga_model_file *file, const ga_hparams *p, const char *key,
                                          int64_t least, int64_t most, int32_t *out);
/* Reads an integer in [least, most], or sets `fallback` if the key is absent. key: the metadata key without its prefix
 * "<arch>.". */
GA_NODISCARD ga_status hparams_int(const ga_model_file *file, const ga_hparams *p, const char *key, int64_t fallback,
                                   int64_t least, int64_t most, int32_t *out);
/* Reads a number in [least, most], or sets `fallback` if the key is absent. key: the metadata key without its prefix
 * "<arch>.". */
GA_NODISCARD ga_status hparams_float(const ga_model_file *file, const ga_hparams *p, const char *key, double fallback,
                                     double least, double most, float *out);
/* Reads the number of experts, the number that each token uses, and their width. */
GA_NODISCARD ga_status hparams_experts(const ga_model_file *file, ga_hparams *p);
/* Reads which layers have experts, and the width of the feed-forward that all tokens share. Call it after
 * hparams_router. */
GA_NODISCARD ga_status hparams_expert_layers(const ga_model_file *file, ga_hparams *p);
/* Returns whether the file has a number of experts above 0. */
bool hparams_has_experts(const ga_model_file *file, const ga_hparams *p);
/* Reads the numbers of experts and how they are chosen. usual: what the architecture does where the file says nothing.
 * GA_ERR_UNSUPPORTED: more experts than ga_route takes. */
GA_NODISCARD ga_status hparams_router(const ga_model_file *file, const ga_router *usual, ga_hparams *p);
/* Sets has_head_norms: W_Q_HEADS_NORM and W_K_HEADS_NORM must be in all layers or in none. */
GA_NODISCARD ga_status hparams_head_norms(const ga_model_file *file, ga_hparams *p);
/* Reads the factor of attention's logits if the file has it; hparams_sizes sets the default. */
GA_NODISCARD ga_status hparams_attn_scale(const ga_model_file *file, ga_hparams *p);
/* Reads the factors of queries by position. `scale` and `length` are those of files that state none; scale 0: none. */
GA_NODISCARD ga_status hparams_temperature(const ga_model_file *file, float scale, int32_t length, ga_hparams *p);
/* Reads the pooling of an encoder. If the file states none, it is the mean. */
GA_NODISCARD ga_status hparams_pooling(const ga_model_file *file, ga_hparams *p);
/* Reads the type of the scaling of rotary embedding, and its factor. If the file states no factor, or 0, *factor is
 * unchanged. A factor without a type is linear. */
GA_NODISCARD ga_status hparams_rope_scaling(const ga_model_file *file, const ga_hparams *p, ga_text *type,
                                            double *factor);
bool hparams_text_is(const ga_text *text, const char *want); /* Returns whether the text is `want`. */
/* Reads the context before the scaling of rotary embedding. If the file does not state it, *out becomes
 * p->context_trained. */
GA_NODISCARD ga_status hparams_original_context(const ga_model_file *file, const ga_hparams *p, int32_t *out);
#define GA_HPARAM_KEY_BYTES 96 /* largest size of a key in bytes, with its NUL */
/* Writes "<arch>.<key>" to `text` and returns it. */
const char *hparams_key(const ga_hparams *p, const char *key, char text[GA_HPARAM_KEY_BYTES]);

#endif
