/* A GPU's cache of experts that are in host memory: the GPU multiplies by the experts that it has (hits) while the CPU
 * multiplies by the others (misses). Missed experts are loaded for later steps by a second stream, and least recently
 * used ones make way (expert_lru.h).
 *
 *   thread    file -> page-locked buffer
 *   stream 2                              | copy to the device | pack into a slot |
 *   stream 1  ...  products by the experts in slots ...  (never waits for loads)
 *
 * Layers whose experts have the same types share slots. One context's thread uses a cache. */
#ifndef GA_MODEL_EXPERT_CACHE_H
#define GA_MODEL_EXPERT_CACHE_H

#include "model/weight_spec.h"

typedef struct expert_cache expert_cache;

/* Computes the bytes of the smallest cache of a model's layers on ctx (a slot for each type of layer, and the buffers
 * of loads), and of one that has all experts of layers [first, end). GA_ERR_UNSUPPORTED: experts of a type that ctx
 * does not store as the file has it. */
GA_NODISCARD ga_status expert_cache_bounds(const ga_model *model, ga_ctx *ctx, int32_t first, int32_t end,
                                           uint64_t *least, uint64_t *most);
/* Makes a cache of at most `bytes` bytes of device memory for the placement's layers [first, end), whose experts are in
 * host memory. Release with expert_cache_destroy. */
GA_NODISCARD ga_status expert_cache_create(const ga_model *model, ga_ctx *ctx, int32_t first, int32_t end,
                                           uint64_t bytes, expert_cache **out);
/* Waits for loads and frees the memory. NULL is fine. */
void expert_cache_destroy(expert_cache *c);

/* The stacks of a layer in the cache, for ga_expert_gemm with n_matrices. Biases are those of all experts. */
typedef struct cached_stacks {
  ga_weight gate, up, down;                     /* data: the slots of the layer's type */
  const float *gate_bias, *up_bias, *down_bias; /* NULL: the model has none */
  int64_t n_slots;
  const int32_t *slots;     /* [n_experts] on the device: slot of each expert, -1: the CPU multiplies by it */
  const int32_t *on_host;   /* [n_experts] on the host: the expert itself where slots has -1, else -1 */
  int32_t n_hits, n_misses; /* experts of the step that have slots, and that have none */
  int64_t miss_rows;        /* rows of those that have none */
} cached_stacks;

/* How steps of many tokens get experts that have no slots. */
typedef enum expert_streaming {
  STREAM_IF_FASTER, /* as the times of earlier layers say: all are loaded before the products, or the CPU multiplies */
  STREAM_NEVER,
  STREAM_ALWAYS /* where there are enough slots */
} expert_streaming;
void expert_cache_set_streaming(expert_cache *c, expert_streaming streaming);

/* Begins a layer's products of a step: takes in loads that are complete, and looks the step's experts up. offsets:
 * [n_experts + 1] on the host, as ga_route writes them. With many tokens it may load all experts that have no slots;
 * then there are no misses. *out is valid until expert_cache_want. */
GA_NODISCARD ga_status expert_cache_begin(expert_cache *c, int32_t layer, const int32_t *offsets, cached_stacks *out);
/* Has missed experts of the same step loaded. The layer's products on the device must be enqueued, and those on the CPU
 * complete. */
GA_NODISCARD ga_status expert_cache_want(expert_cache *c, int32_t layer, const int32_t *offsets);
/* Notes how long the CPU's products of a layer have taken. */
void expert_cache_note_cpu(expert_cache *c, const cached_stacks *s, double seconds);
/* Adds the cache's numbers to *stats. Any thread may call the function. */
void expert_cache_count(const expert_cache *c, ga_expert_cache_stats *stats);

#endif
