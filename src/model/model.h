/* A model on a device: hyper-parameters, weights, and the buffers of one forward step. */
#ifndef GA_MODEL_MODEL_H
#define GA_MODEL_MODEL_H

#include "core/ctx.h"
#include "ga/llm.h"

#define GA_MODEL_MAX_LAYERS 512

typedef struct ga_arch_desc ga_arch_desc;     /* arch/arch.h */
typedef struct ga_model_graph ga_model_graph; /* graph.h */

typedef struct ga_hparams {
  const ga_arch_desc *arch;
  int32_t n_layers, width, ff_width, vocab, context;
  int32_t n_heads, n_kv_heads, head_dim, v_dim;
  int32_t rot_dim, rope_pairs;            /* ga_rope_pairs */
  int32_t window;                         /* 0 = none: sliding window of local layers */
  bool is_local[GA_MODEL_MAX_LAYERS];     /* layers that see only the window */
  bool no_rope[GA_MODEL_MAX_LAYERS];      /* layers that do not rotate */
  bool no_attention[GA_MODEL_MAX_LAYERS]; /* layers without keys and values */
  int32_t pooling;                        /* ga_pooling */
  bool has_alibi;                         /* logits fall with distance, by a slope of each head */
  bool has_head_norms;                    /* layer norms of the heads of q and k, each with weights of its own */
  bool is_parallel;                       /* both blocks of a layer add to what the layer began with */
  float norm_eps, embed_scale, attn_scale, residual_scale, logit_scale;
  float attn_softcap, logit_softcap; /* 0: none */
  bool yarn_keeps_size;              /* yarn multiplies neither sine nor cosine, where the file says nothing */
  int32_t act;                       /* ga_act_kind, of architectures that have several */
  double rope_base, rope_base_local;
} ga_hparams;

#define GA_WEIGHT_DIMS 4

typedef struct ga_attachment ga_attachment;

/* A tensor of the model, on the device of its layer. Matrices are [rows, cols] with y = W x, so that a row makes one
 * element of y; stacks of matrices have further dimensions before these. Vectors are f32. */
typedef struct ga_weight {
  const void *data;             /* NULL: the model does not have it */
  int64_t dims[GA_WEIGHT_DIMS]; /* [n_dims] the outermost first */
  int32_t n_dims;
  ga_dtype dtype;
  ga_layout layout;
  const ga_attachment *attachment; /* NULL: none */
} ga_weight;

/* An adapter of low rank (LoRA, arXiv 2106.09685): W x becomes W x + scale B (A x). */
struct ga_attachment {
  ga_weight a, b; /* [rank, columns of W], [rows of W, rank] */
  float scale;
};

static inline int64_t ga_weight_rows(const ga_weight *w) { return w->n_dims > 1 ? w->dims[w->n_dims - 2] : 1; }
static inline int64_t ga_weight_cols(const ga_weight *w) { return w->n_dims ? w->dims[w->n_dims - 1] : 0; }

/* Bytes of a GPU that a plan leaves alone at most: code, and what other programs take. */
#define GA_PLACEMENT_SPARE ((uint64_t)256 << 20)

#define GA_MODEL_MAX_PLACEMENTS 9 /* the CPU and eight GPUs */

/* Frequencies of rotary embedding. */
typedef enum rope_table {
  ROPE_GLOBAL,
  ROPE_LOCAL, /* of local layers */
  ROPE_LONG,  /* of global layers in sessions longer than what a model with longrope was first trained for */
  ROPE_TABLES
} rope_table;

/* A device with the layers [first, end), and with the device memory that it owns for them. The embedding is at the
 * first placement, the head at the last. */
typedef struct ga_placement {
  ga_ctx *ctx;
  int32_t first, end;
  const float *rope_freq[ROPE_TABLES]; /* [rot_dim / 2] */
  const float *alibi;                  /* [n_heads] slopes; NULL: none */
  void **buffers;
  size_t n_buffers, buffers_capacity;
  uint8_t *slab; /* rest of the newest shared buffer */
  size_t slab_bytes;
  ga_model_placement plan;
} ga_placement;

/* A session's sizes, with the defaults filled in. */
typedef struct ga_session_sizes {
  int32_t context, batch, max_out; /* max_out: rows of logits at once */
  ga_dtype kv_dtype;
  bool rounds_x; /* to e4m3 */
} ga_session_sizes;

struct ga_model {
  ga_ctx *ctx; /* of the last placement: logits are there */
  ga_ctx *cpu; /* owned: when the CPU helps out; else NULL */
  ga_placement placements[GA_MODEL_MAX_PLACEMENTS];
  int32_t n_placements;
  bool is_plan;   /* without weights */
  bool is_shared; /* all but `cpu` is another model's: ga_model_share */
  bool no_mmap;   /* nothing of the file is read once it is loaded */
  ga_model_file *file;
  ga_hparams hparams; /* of this rank's part, where the model is split by tensors */
  ga_hparams whole;   /* as the file has them */
  ga_comm *comm;      /* the caller's: of the ranks that share the model's tensors; NULL: one has all */
  ga_model_graph *graph;
  int32_t short_context; /* as ga_rope_short_context */
  ga_model_info info;
  ga_tokenizer *tokenizer;
  ga_template *chat_template;
  char template_error[256];

  ga_weight *weights; /* by layer and weight_id: ga_weight_at (weight_spec.h) */
  ga_attachment *attachments;

  float rope_magnitude[ROPE_TABLES];
};

/* The placement with the embedding, and the one with the head. */
static inline bool place_begins(const ga_model *m, const ga_placement *p) { return p == m->placements; }
static inline bool place_ends(const ga_model *m, const ga_placement *p) {
  return p == m->placements + m->n_placements - 1;
}

/* Reads and checks the hyper-parameters of an open file. */
GA_NODISCARD ga_status ga_hparams_read(const ga_model_file *file, ga_hparams *out);
/* Frequencies for rotary embedding; factors as in ga_rope_params, or NULL. */
GA_NODISCARD ga_status ga_hparams_rope(const ga_model_file *file, const ga_hparams *p, rope_table table,
                                       const float *factors, float *inv_freq, float *magnitude);
/* Divisors of a table's frequencies [rot_dim / 2], where the file has them; else *found is false. Room for 512. */
GA_NODISCARD ga_status ga_rope_factors(const ga_model_file *file, const ga_hparams *p, rope_table table, float *out,
                                       bool *found);
/* Tokens up to which longrope's short factors are meant; 0: the model has no long ones. */
GA_NODISCARD ga_status ga_rope_short_context(const ga_model_file *file, const ga_hparams *p, int32_t *tokens);
/* Checks the options (NULL: defaults) and fills in what they leave open. ctx: that of the logits. */
GA_NODISCARD ga_status ga_session_sizes_of(const ga_hparams *p, const ga_ctx *ctx, const ga_session_options *options,
                                           ga_session_sizes *out);

/* The memory that weights take on one device (a placement), in bytes. */
typedef struct ga_weight_need {
  uint64_t held;   /* as ga_model_placement.weights */
  uint64_t taken;  /* of the device's memory, with what sharing of buffers wastes: the sum over `small` is rounded up */
  uint64_t small;  /* of tensors that share buffers */
  uint64_t staged; /* the largest tensor that is packed there */
} ga_weight_need;
/* Computes the memory of layer il's weights; il -1: of the weights before the first layer (embeddings), n_layers: of
 * the weights after the last layer (norm, head). */
GA_NODISCARD ga_status ga_weights_need(const ga_model *model, ga_ctx *ctx, int32_t il, ga_weight_need *out);
/* Bytes of device memory that `small` bytes of tensors in shared buffers come to, at most. */
uint64_t ga_weights_shared(uint64_t small);
/* A vector of plain numbers as f32, plus `add`; src: the tensor's bytes, at any address. */
GA_NODISCARD ga_status ga_vector_to_f32(const ga_model_tensor *t, const unsigned char *src, float add, float *out);
/* Loads every weight that the architecture has onto the devices of the placements. */
GA_NODISCARD ga_status ga_weights_load(ga_model *model, const ga_model_options *options);
/* Device memory that the placement owns from now on. */
GA_NODISCARD ga_status ga_placement_alloc(ga_placement *placement, size_t bytes, void **out);
void ga_placement_free(ga_placement *placement);

/* Decides which layers are where: fills model->placements but for the weights. */
GA_NODISCARD ga_status ga_placement_plan(ga_model *model, ga_ctx *ctx, const ga_model_options *options);
/* The parts of a placement's plan for an error text: "weights 4.6 GiB, KV cache 512.0 MiB (4096 tokens of f16), ..." */
void ga_placement_text(const ga_model_placement *plan, char *text, size_t capacity);
#endif
