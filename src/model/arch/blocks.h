/* Blocks of layers that several architectures share. Biases are added where the architecture lists them and the file
 * has them.
 *
 * Shapes as in model/graph.h. */
#ifndef GA_MODEL_ARCH_BLOCKS_H
#define GA_MODEL_ARCH_BLOCKS_H

#include "model/build.h"

/* q [T, Hq D], k [T, Hkv D], v [T, Hkv Dv] of a layer */
typedef struct block_qkv {
  value_id q, k, v;
} block_qkv;

/* Three products with h [T, d]. */
block_qkv block_qkv_of(graph_builder *b, value_id h);
/* One product with h, by a matrix that has the rows of q, k and v, and its result cut into the three. */
block_qkv block_joined_qkv_of(graph_builder *b, value_id h);
/* RMS norm of each head of q and k; the heads of each share their weights. */
void block_norm_heads(graph_builder *b, block_qkv *t);
/* Layer norm of each head of q and k; each head has weights of its own. */
void block_layer_norm_heads(graph_builder *b, block_qkv *t);
void block_rotate(graph_builder *b, block_qkv *t, bool is_local);
/* [T, d] = scale * Wo attention(q, k, v), over the layer's memory; window 0: none */
value_id block_attention(graph_builder *b, block_qkv t, int32_t window, float scale);
/* [T, d] = Wo attention(q, k, v), in both directions */
value_id block_attention_bidirectional(graph_builder *b, block_qkv t, int32_t window, bool has_alibi);

/* [T, d] = scale * W_down (act(W_gate h) * W_up h) */
value_id block_gated_ffn(graph_builder *b, value_id h, int32_t act, float scale);
/* The same with one matrix, whose rows are those of gate and up. */
value_id block_joined_ffn(graph_builder *b, value_id h, int32_t act);
/* [T, d] = W_down act(W_up h) */
value_id block_ffn(graph_builder *b, value_id h, int32_t act);

/* A decoder layer with layer norms before attention and before an ungated block: x [T, d] -> [T, d]. */
value_id block_layer_norm_decoder(graph_builder *b, value_id x, int32_t window, int32_t act);

typedef value_id (*block_layer_fn)(graph_builder *b, value_id x); /* x [T, d] -> [T, d]; b->layer says which layer */
/* All layers on x [T, d]. Afterwards b->layer stands after them. */
value_id block_layers(graph_builder *b, value_id x, block_layer_fn layer);
/* The result logits [n_out, V] = scale * W_output norm(wanted rows of x), by RMS norm or by layer norm. */
void block_rms_head(graph_builder *b, value_id x, float scale);
void block_layer_norm_head(graph_builder *b, value_id x, float scale);

/* x [T, d] of BERT's kin: layer norm of tokens, positions and types, those of them that the architecture has. */
value_id block_bert_embedding(graph_builder *b);
/* [T, d] = layer norm of x + added, with the norm after attention, and with that after the feed-forward. */
value_id block_bert_attn_norm(graph_builder *b, value_id x, value_id added);
value_id block_bert_ffn_norm(graph_builder *b, value_id x, value_id added);

#endif
