/* The architectures that GA runs, one descriptor each. Once a model is loaded, no code outside of this folder asks
 * which one it is; loading safetensors does (file/hf_tables.c, hf_config.c, hf_open.c). To add one: a descriptor;
 * docs/howto/add-an-architecture.md has the steps. */
#ifndef GA_MODEL_ARCH_ARCH_H
#define GA_MODEL_ARCH_ARCH_H

#include "model/build.h"

enum { REQUIRED = false, OPTIONAL = true };

typedef struct weight_use {
  weight_id id;
  bool optional; /* the file may lack it */
} weight_use;

struct ga_arch_desc {
  const char *name; /* general.architecture in the file */
  bool is_encoder;  /* makes embeddings: no cache, no head, all layers on one device */
  const weight_use *weights;
  size_t n_weights;
  /* Has the layer such a tensor? NULL: each layer has all of `weights`. */
  bool (*has_weight)(const ga_hparams *p, weight_id id, int32_t layer);
  /* Reads the hyper-parameters; those of p are 0 but for arch. */
  ga_status (*read)(const ga_model_file *file, ga_hparams *p);
  /* Appends all layers; failures stay in the builder. */
  void (*build)(graph_builder *b);
};

/* Every `const ga_arch_desc ga_arch_<name> =` of this folder by name, ended by NULL; cmake/archs.cmake makes it. */
extern const ga_arch_desc *const ga_archs[];

/* NULL: GA does not have it. */
const ga_arch_desc *ga_arch_find(const char *name, size_t bytes);
/* Their names, separated by commas. */
const char *ga_arch_names(void);
/* NULL: not of this architecture. */
const weight_use *ga_arch_weight(const ga_arch_desc *arch, weight_id id);
/* Does the architecture list the tensor for that layer? Tensors of the whole model ignore the layer. */
bool ga_arch_has_weight(const ga_hparams *p, weight_id id, int32_t layer);

/* --- for the readers: keys of the file, with the limits that make everything after safe to compute --- */

/* Layers, widths, heads, and the defaults of what scales. */
GA_NODISCARD ga_status hparams_sizes(const ga_model_file *file, ga_hparams *p);
/* pairs: "norm" or "neox", which elements turn together where the file does not say. */
GA_NODISCARD ga_status hparams_rope(const ga_model_file *file, const char *pairs, ga_hparams *p);
/* The sliding window, and which layers are local. Where the file does not say: fallback, 0 for none; every
 * global_every-th is not. */
GA_NODISCARD ga_status hparams_windows(const ga_model_file *file, int32_t fallback, int32_t global_every,
                                       ga_hparams *p);
/* From the shape of the embedding, once the width is known. */
GA_NODISCARD ga_status hparams_vocab(const ga_model_file *file, ga_hparams *p);
/* key: behind "<arch>.". */
GA_NODISCARD ga_status hparams_eps(const ga_model_file *file, const char *key, ga_hparams *p);
GA_NODISCARD ga_status hparams_int(const ga_model_file *file, const ga_hparams *p, const char *key, int64_t fallback,
                                   int64_t least, int64_t most, int32_t *out);
GA_NODISCARD ga_status hparams_float(const ga_model_file *file, const ga_hparams *p, const char *key, double fallback,
                                     double least, double most, float *out);
/* The number of experts, how many of them a token has, and their width. */
GA_NODISCARD ga_status hparams_experts(const ga_model_file *file, ga_hparams *p);
/* Layer norms of heads: W_Q_HEADS_NORM and W_K_HEADS_NORM, in all layers or in none. */
GA_NODISCARD ga_status hparams_head_norms(const ga_model_file *file, ga_hparams *p);
/* Reads the factor on attention's logits where the file has it; hparams_sizes sets the default. */
GA_NODISCARD ga_status hparams_attn_scale(const ga_model_file *file, ga_hparams *p);
/* "<arch>.<key>" in a caller's buffer. */
#define GA_HPARAM_KEY_BYTES 96
const char *hparams_key(const ga_hparams *p, const char *key, char text[GA_HPARAM_KEY_BYTES]);

#endif
