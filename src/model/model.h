/* A model on a device: hyper-parameters, weights, and the buffers of one forward step. */
#ifndef GA_MODEL_MODEL_H
#define GA_MODEL_MODEL_H

#include "core/ctx.h"
#include "ga/llm.h"

#define GA_MODEL_MAX_LAYERS 512

typedef struct ga_arch_desc ga_arch_desc;     /* defined in arch/arch.h */
typedef struct ga_model_graph ga_model_graph; /* defined in graph.h */
typedef struct ga_rank_head ga_rank_head;     /* defined in rank_head.h */

/* How the router of a layer with experts chooses: the fields of ga_route_desc with the same names. */
typedef struct ga_router {
  int32_t scores, n_groups, top_k_groups, group_score, renorm;
  float norm_eps, scale;
} ga_router;

/* The gated activation of experts: the fields of ga_expert_gemm_desc with the same names. */
typedef struct ga_expert_act {
  int32_t clamp;
  float act_alpha, limit, up_offset;
  bool weighs_input; /* a token's weights multiply the input of its experts, not their results */
} ga_expert_act;

/* Sizes of a layer's heads of attention. */
typedef struct ga_heads {
  int32_t n_kv;    /* number of heads of keys and values */
  int32_t dim;     /* elements of a head of queries, and of keys */
  int32_t v_dim;   /* elements of a head of values */
  int32_t rot_dim; /* elements of a head to which RoPE is applied */
} ga_heads;

/* Factors of queries: 1 + scale * ln(1 + floor((position + offset) / length)). */
typedef struct ga_temperature {
  int32_t length; /* 0: queries have no factors */
  int32_t offset;
  float scale;
} ga_temperature;

typedef struct ga_hparams {
  const ga_arch_desc *arch;
  int32_t n_layers, width, ff_width, vocab;
  int32_t context; /* tokens of the context for which the model is made, with its scaling of RoPE */
  /* largest context of a session. It is more than `context` if the file does not say whether its context is scaled */
  int32_t context_most;
  int32_t context_trained; /* tokens of the context that the file states */
  int32_t n_heads, n_kv_heads, head_dim, v_dim;
  int32_t rot_dim; /* number of leading elements of a head to which RoPE is applied; with kv_latent: of trailing ones */
  /* Multi-head latent attention: elements of the latent vector from which all heads' keys and values are made, and of
   * the latent vector of queries. kv_latent 0: heads have keys and values; q_latent 0: queries have no latent vector */
  int32_t kv_latent, q_latent;
  ga_heads local_heads;                   /* heads of local layers; dim 0: all layers have heads of the same sizes */
  int32_t rope_pairs;                     /* elements that RoPE rotates together, a ga_rope_pairs */
  int32_t window;                         /* tokens of the sliding window of local layers; 0 = none */
  bool is_local[GA_MODEL_MAX_LAYERS];     /* [layer] the layer's attention is limited to the sliding window */
  bool no_rope[GA_MODEL_MAX_LAYERS];      /* [layer] the layer has no RoPE */
  bool no_attention[GA_MODEL_MAX_LAYERS]; /* [layer] the layer has no keys and values */
  /* [layer] the layer reads keys and values of the layer so many layers before it; 0: it has its own */
  int16_t kv_distance[GA_MODEL_MAX_LAYERS];
  int32_t layer_ff_width[GA_MODEL_MAX_LAYERS]; /* [layer] width of the layer's feed-forward; 0: ff_width */
  /* Local layers attend within chunks: a query at position p sees keys from the largest multiple of this on. A multiple
   * of the tokens of a page, and equal to `window`; 0: local layers have windows */
  int32_t chunk;
  ga_temperature temperature; /* factors of queries by position */
  int32_t pooling;            /* encoders: how rows become one, a ga_pooling */
  int32_t n_types;            /* rows of the table of token types that are read: 2 to score pairs of texts; 0 means 1 */
  bool has_alibi;             /* attention has ALiBi: logits fall with distance, by a slope for each head */
  bool has_head_norms;        /* heads of q and k have layer norms, each with its own weights */
  bool norms_heads;           /* heads of q and k that rotate are divided by their root mean square, without weights */
  bool is_parallel; /* attention and feed-forward of a layer both read the layer's input, and both are added to it */
  float latent_eps; /* epsilon of the norms of latent vectors */
  float norm_eps, embed_scale, attn_scale, residual_scale, logit_scale;
  float attn_softcap, logit_softcap; /* soft-caps of attention's logits and of the output's; 0: none */
  /* YaRN that extends the context by factor f multiplies sine and cosine by (1 + 0.1 ln f) / (1 + 0.1 m ln f). m is
   * this field. A multiplier that the file states replaces the formula. */
  double yarn_log_multiplier;
  /* factor of sine and cosine with YaRN that extends the context, in place of that formula; 0: the formula */
  double yarn_magnitude;
  int32_t act; /* activation of the feed-forward (ga_act_kind), for architectures whose models use different ones */
  /* number of experts (feed-forwards) of a layer, and number that a router chooses for each token; 0: one feed-forward
   * for all tokens */
  int32_t n_experts, n_experts_used;
  int32_t expert_ff_width; /* width of the feed-forward of each expert */
  int32_t shared_ff_width; /* width of the feed-forward that all tokens take beside their experts; 0: none */
  /* Layers before n_dense_layers have one feed-forward. From there on every expert_step-th layer has experts: those
   * whose number, counted from 1, it divides, but for those of is_dense. */
  int32_t n_dense_layers, expert_step;
  bool is_dense[GA_MODEL_MAX_LAYERS];
  ga_router router; /* how experts are chosen */
  ga_expert_act expert_act;
  int32_t layer_embed_width; /* elements of the embedding of a token that each layer has of its own; 0: none */
  /* Layers read memory or values of layers other than the one before them, so that all of them are on one device. */
  bool is_joined;
  bool values_are_keys; /* values of global layers are their keys before norm and rotation */
  bool has_sinks;       /* each head of attention has a sink: one more logit in the denominator of its softmax */
  double rope_base, rope_base_local;
} ga_hparams;

/* Returns the sizes of a layer's heads. */
static inline ga_heads ga_heads_of(const ga_hparams *p, int32_t layer) {
  const bool is_other = p->local_heads.dim && layer >= 0 && p->is_local[layer];
  return is_other ? p->local_heads : (ga_heads){p->n_kv_heads, p->head_dim, p->v_dim, p->rot_dim};
}
/* Returns the layer whose keys and values a layer reads. */
static inline int32_t ga_kv_layer(const ga_hparams *p, int32_t layer) { return layer - p->kv_distance[layer]; }

#define GA_WEIGHT_DIMS 4

typedef struct ga_attachment ga_attachment;
typedef struct ga_embedding ga_embedding; /* embedding.h */
typedef struct expert_cache expert_cache; /* expert_cache.h */
typedef struct expert_trace expert_trace; /* expert_trace.h */

/* A tensor of the model, on the device of its layer. Matrices are [rows, cols] with y = W x: a row gives one element of
 * y. Stacks of matrices have further dimensions before rows. Vectors are f32. */
typedef struct ga_weight {
  const void *data;             /* NULL: the model has no such tensor */
  int64_t dims[GA_WEIGHT_DIMS]; /* [n_dims] dimensions, the outermost first */
  int32_t n_dims;
  ga_dtype dtype;
  ga_layout layout;
  const ga_attachment *attachment; /* adapter of the matrix; NULL: none */
} ga_weight;

/* An adapter of low rank (LoRA, arXiv 2106.09685): W x becomes W x + scale B (A x). */
struct ga_attachment {
  ga_weight a, b; /* matrices A [rank, columns of W] and B [rows of W, rank] */
  float scale;
};

/* Returns the rows of a matrix; 1 for a vector. */
static inline int64_t ga_weight_rows(const ga_weight *w) { return w->n_dims > 1 ? w->dims[w->n_dims - 2] : 1; }
static inline int64_t ga_weight_cols(const ga_weight *w) { return w->n_dims ? w->dims[w->n_dims - 1] : 0; }

/* Largest number of bytes of a GPU's memory that placement leaves unused, for code and other programs. */
#define GA_PLACEMENT_SPARE ((uint64_t)256 << 20)

#define GA_MODEL_MAX_PLACEMENTS 9 /* largest number of placements: the CPU and eight GPUs */

/* Tables of frequencies of RoPE. */
typedef enum rope_table {
  ROPE_GLOBAL,
  ROPE_LOCAL, /* frequencies of local layers */
  /* frequencies of global layers, in sessions longer than the context for which a model with longrope was first
   * trained */
  ROPE_LONG,
  ROPE_TABLES
} rope_table;

/* A device with layers [first, end), and the device memory that it owns for them. The first placement has the
 * embedding, the last one the output head. */
typedef struct ga_placement {
  ga_ctx *ctx;
  int32_t first, end;
  const float *rope_freq[ROPE_TABLES]; /* [rope_table][ga_rope_dims / 2] frequencies */
  const float *alibi;                  /* [n_heads] slopes of ALiBi; NULL: none */
  void **buffers;
  size_t n_buffers, buffers_capacity;
  uint8_t *slab; /* unused rest of the newest buffer that small tensors share */
  size_t slab_bytes;
  expert_cache *cache; /* cache of its layers' experts that are in host memory; NULL: none */
  ga_model_placement plan;
} ga_placement;

/* A session's sizes, with the defaults filled in. */
typedef struct ga_session_sizes {
  int32_t context;
  int32_t batch;
  int32_t max_out; /* largest number of rows of logits of a step */
  ga_dtype kv_dtype;
  bool rounds_x; /* products round activations to e4m3 */
} ga_session_sizes;

struct ga_model {
  ga_ctx *ctx; /* context of the last placement, which has the logits */
  ga_ctx *cpu; /* context of the CPU, which the model owns, if the CPU has some layers or experts; else NULL */
  ga_placement placements[GA_MODEL_MAX_PLACEMENTS];
  int32_t n_placements;
  /* Experts of layers before n_host_experts are in host memory, also where the layer is on a GPU: the CPU multiplies by
   * them (exec_impl.h). host_experts owns them, on the context `cpu`. */
  int32_t n_host_experts;
  ga_placement host_experts;
  expert_trace *trace; /* file for the experts that tokens choose; NULL: none */
  bool is_plan;        /* the model has no weights (ga_model_options.plan_only) */
  bool is_shared;      /* another model owns everything but `cpu` (ga_model_share) */
  bool no_mmap;        /* the file is not read any more once the model is loaded */
  ga_model_file *file;
  ga_hparams hparams; /* sizes of this rank's part of the model, if ranks share it by tensor parallelism */
  ga_hparams whole;   /* sizes of the whole model, as the file has them */
  /* the caller's communicator of the ranks that share the model by tensor parallelism; NULL: no ranks share it */
  ga_comm *comm;
  ga_model_graph *graph;
  /* largest number of tokens for which longrope's short factors apply; 0: the model has no long factors */
  int32_t short_context;
  ga_model_info info;
  ga_rank_head *rank_head; /* head of a cross-encoder; NULL: the model has none */
  ga_tokenizer *tokenizer;
  ga_template *chat_template;
  /* if has_tool_template: the file's template of the name tool_use; NULL: GA cannot compile it */
  ga_template *tool_template;
  bool has_tool_template;
  char template_error[256];

  ga_embedding *embedding; /* NULL: the model is no encoder */

  ga_weight *weights; /* table of weights by layer and weight_id; ga_weight_at (weight_spec.h) finds an entry */
  ga_attachment *attachments;

  float rope_magnitude[ROPE_TABLES];
};

/* Returns whether the experts of a layer are in host memory although the layer is on a GPU. */
static inline bool place_has_host_experts(const ga_model *m, const ga_placement *p, int32_t layer) {
  return layer < m->n_host_experts && !ga_device_in_host_memory(p->ctx->device);
}
/* Returns whether the placement has the embedding. */
static inline bool place_begins(const ga_model *m, const ga_placement *p) { return p == m->placements; }
/* Returns whether the placement has the output head. */
static inline bool place_ends(const ga_model *m, const ga_placement *p) {
  return p == m->placements + m->n_placements - 1;
}

/* Reads and checks the hyper-parameters of an open file. */
GA_NODISCARD ga_status ga_hparams_read(const ga_model_file *file, ga_hparams *out);
/* Returns the number of elements of a head that a table's frequencies rotate. */
int32_t ga_rope_dims(const ga_hparams *p, rope_table table);
/* Computes the frequencies of a table, inv_freq[ga_rope_dims / 2], and *magnitude, the factor of sine and cosine.
 * factors: [ga_rope_dims / 2] divisors of the frequencies; NULL: none. */
GA_NODISCARD ga_status ga_hparams_rope(const ga_model_file *file, const ga_hparams *p, rope_table table,
                                       const float *factors, float *inv_freq, float *magnitude);
/* Reads the divisors of a table's frequencies, [ga_rope_dims / 2]. *found is false if the file has none. out
 * must hold 512 numbers. */
GA_NODISCARD ga_status ga_rope_factors(const ga_model_file *file, const ga_hparams *p, rope_table table, float *out,
                                       bool *found);

/* Reads the number of tokens up to which longrope's short factors apply; 0: the model has no long factors. */
GA_NODISCARD ga_status ga_rope_short_context(const ga_model_file *file, const ga_hparams *p, int32_t *tokens);
/* Checks a session's options (NULL: defaults) and writes its sizes, with defaults filled in. ctx: context of the
 * logits. */
GA_NODISCARD ga_status ga_session_sizes_of(const ga_hparams *p, const ga_ctx *ctx, const ga_session_options *options,
                                           ga_session_sizes *out);

/* The memory that weights need on the device of one placement, in bytes. */
typedef struct ga_weight_need {
  uint64_t held; /* bytes of the weights, in the types and layouts in which the device holds them */
  /* bytes of device memory of the tensors that have buffers of their own */
  uint64_t taken;
  uint64_t small;  /* bytes of the tensors that share buffers; ga_weights_shared gives the device memory for them */
  uint64_t staged; /* bytes of the largest tensor that is packed on the device */
} ga_weight_need;
/* Groups of a layer's weights that have places of their own. */
typedef enum weight_group { GROUP_EXPERTS /* stacks and biases of experts */, GROUP_OTHERS } weight_group;
/* Computes the memory of a group of the weights of layer il. il -1: the weights before the first layer (embeddings);
 * n_layers: the weights after the last layer (norm, output matrix). */
GA_NODISCARD ga_status ga_weights_need(const ga_model *model, ga_ctx *ctx, int32_t il, weight_group group,
                                       ga_weight_need *out);
/* Returns an upper bound of the bytes of device memory that tensors of `small` bytes together need in shared
 * buffers. */
uint64_t ga_weights_shared(uint64_t small);
/* Converts a vector of f32, f16 or bf16 to f32 and adds `add` to each element. src: the tensor's bytes, at any
 * address. */
GA_NODISCARD ga_status ga_vector_to_f32(const ga_model_tensor *t, const unsigned char *src, float add, float *out);
/* Loads every weight of the architecture to the devices of the placements. */
GA_NODISCARD ga_status ga_weights_load(ga_model *model, const ga_model_options *options);
/* Allocates device memory that the placement owns. */
GA_NODISCARD ga_status ga_placement_alloc(ga_placement *placement, size_t bytes, void **out);
/* Frees all device memory of the placement. */
void ga_placement_free(ga_placement *placement);

/* Decides which device has which layers, and fills in model->placements except for the weights. */
GA_NODISCARD ga_status ga_placement_plan(ga_model *model, ga_ctx *ctx, const ga_model_options *options);
/* Writes the parts of a placement's plan for an error text: "weights 4.6 GiB, KV cache 512.0 MiB (4096 tokens of
 * f16), ..." */
void ga_placement_text(const ga_model_placement *plan, char *text, size_t capacity);
#endif
