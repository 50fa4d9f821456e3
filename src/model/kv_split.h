/* The matrices of latent attention from files that have them unsplit: attn_kv_b [n_heads * (nope + v), latent], with
 * the rows of keys and then those of values for each head. It becomes attn_k_b [n_heads, latent, nope], transposed, and
 * attn_v_b [n_heads, v, latent]. */
#ifndef GA_MODEL_KV_SPLIT_H
#define GA_MODEL_KV_SPLIT_H

#include "model/weight_spec.h"

/* Checks the shape of the layer's attn_kv_b, if the file has one. */
GA_NODISCARD ga_status kv_split_check(const ga_model *model, int32_t il);
/* Describes W_K_UP or W_V_UP as a tensor without data. Returns false if the layer has no attn_kv_b, or one of another
 * shape. Values keep their type. Keys of a block type become f32, since their columns are no blocks. */
bool kv_split_describe(const ga_model *model, weight_id id, int32_t il, ga_model_tensor *out);
/* Makes the stack in memory of its own. cpu: a context that converts blocks; NULL: one is made. The caller releases
 * *copy with ga_mem_free. */
GA_NODISCARD ga_status kv_split_read(const ga_model *model, ga_ctx *cpu, weight_id id, int32_t il,
                                     const ga_model_tensor *described, void **copy);

#endif
