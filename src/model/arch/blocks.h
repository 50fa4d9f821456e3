/* Blocks of layers that several architectures share. Biases are added where the architecture lists them and the file
 * has them.
 *
 * model/graph.h explains the letters in shapes. */
#ifndef GA_MODEL_ARCH_BLOCKS_H
#define GA_MODEL_ARCH_BLOCKS_H

#include "model/build.h"

/* The values q [T, Hq D], k [T, Hkv D] and v [T, Hkv Dv] of a layer. */
typedef struct block_qkv {
  value_id q, k, v;
} block_qkv;

/* Computes q, k and v by three products with h [T, d]. */
block_qkv block_qkv_of(graph_builder *b, value_id h);
/* Computes q, k and v by one product of h with a joined matrix, which has the rows of all three matrices. The result's
 * columns are cut into q, k and v. */
block_qkv block_joined_qkv_of(graph_builder *b, value_id h);
/* Applies the RMS norm to each head of q and of k; the heads of q share their weights, and so do those of k. */
void block_norm_heads(graph_builder *b, block_qkv *t);
/* Applies the layer norm to each head of q and of k; each head has its own weights. */
void block_layer_norm_heads(graph_builder *b, block_qkv *t);
/* Applies RoPE to the heads of q and k. is_local: with the frequencies of local layers. */
void block_rotate(graph_builder *b, block_qkv *t, bool is_local);
/* Returns [T, d] = scale * Wo attention(q, k, v), where q attends to the keys and values in the layer's memory. window
 * 0: no window. */
value_id block_attention(graph_builder *b, block_qkv t, int32_t window, float scale);
/* Returns [T, d] = Wo attention(q, k, v), in both directions among the step's own tokens. window 0: no window. */
value_id block_attention_bidirectional(graph_builder *b, block_qkv t, int32_t window, bool has_alibi);

/* Returns [T, d] = scale * W_down (act(W_gate h) * W_up h). */
value_id block_gated_ffn(graph_builder *b, value_id h, int32_t act, float scale);
/* Returns [T, d] = W_down (act(W_gate h) * W_up h), where one matrix has the rows of W_gate and W_up. */
value_id block_joined_ffn(graph_builder *b, value_id h, int32_t act);
/* Returns [T, d] = W_down act(W_up h). */
value_id block_ffn(graph_builder *b, value_id h, int32_t act);

/* Returns [T, d] = the weighted sum of W_down (act(W_gate h) * W_up h) over the experts that each token chooses by
 * W_router h. Biases are added where the file has them. */
value_id block_experts(graph_builder *b, value_id h, int32_t act);

/* Returns whether the layer has experts, as hparams_expert_layers has read. */
bool block_layer_has_experts(const ga_hparams *p, int32_t layer);
/* ga_arch_desc.has_weight of architectures whose layers have experts, a feed-forward beside them, or one feed-forward
 * in their place. */
bool block_has_weight(const ga_hparams *p, weight_id id, int32_t layer);
/* Returns [T, d] = what the layer's feed-forward adds for h [T, d]: experts and the feed-forward that tokens share,
 * multiplied by the sigmoid of W_SHARED_GATE h if the file has that; or one feed-forward. */
value_id block_expert_layer(graph_builder *b, value_id h, int32_t act);

/* Returns [T, n_layers P], the embeddings of tokens that layers have of their own: the sum of looked up ones and of
 * products with x [T, d], normed for each layer. */
value_id block_layer_embeddings(graph_builder *b, value_id x);
/* Returns [T, d] = norm(W_proj (gelu(W_gate x) * e)), where e [T, P] is the layer's part of b->layer_values. */
value_id block_layer_embedding(graph_builder *b, value_id x);

/* Appends a decoder layer with layer norms before attention and before an ungated feed-forward: x [T, d] -> [T, d]. */
value_id block_layer_norm_decoder(graph_builder *b, value_id x, int32_t window, int32_t act);

typedef value_id (*block_layer_fn)(graph_builder *b, value_id x); /* appends layer b->layer: x [T, d] -> [T, d] */
/* Appends all layers, from x [T, d] on. Afterwards b->layer is n_layers. */
value_id block_layers(graph_builder *b, value_id x, block_layer_fn layer);
/* Sets the result, logits [n_out, V] = scale * W_output norm(wanted rows of x), with the RMS norm. */
void block_rms_head(graph_builder *b, value_id x, float scale);
/* Sets the result, logits [n_out, V] = cap * tanh(W_output norm(wanted rows of x) / cap), with the RMS norm and the
 * cap of hparams.logit_softcap; 0: no cap. */
void block_capped_head(graph_builder *b, value_id x);
/* Sets the result, logits [n_out, V] = scale * W_output norm(wanted rows of x), with the layer norm. */
void block_layer_norm_head(graph_builder *b, value_id x, float scale);

/* Returns x [T, d] of models like BERT: the layer norm of the sum of the embeddings of tokens, positions and types. An
 * embedding that the architecture does not have is left out. */
value_id block_bert_embedding(graph_builder *b);
/* Returns [T, d] = layer norm of x + added, with the weights of the norm after attention. */
value_id block_bert_attn_norm(graph_builder *b, value_id x, value_id added);
/* Returns [T, d] = layer norm of x + added, with the weights of the norm after the feed-forward. */
value_id block_bert_ffn_norm(graph_builder *b, value_id x, value_id added);

#endif
