/* Declared ops of multi-head latent attention (ga/mla.h), in the order in which a layer has them.
 *
 *   latent_query       q [T, Hq D] -> [T, Hq (latent + rotated)]: W_K_UP times the first elements of each head, and its
 *                      last rot_dim elements rotated
 *   latent_attention   queries, and rows [T, latent + rotated] of W_KV_DOWN -> [T, Hq latent]: rows are normed by
 *                      W_KV_DOWN_NORM, rotated and appended to the layer's pages; queries attend causally to them
 *   latent_values      [T, Hq latent] -> [T, Hq Dv]: W_V_UP times each head
 */
#ifndef GA_MODEL_LATENT_H
#define GA_MODEL_LATENT_H

#include "model/graph_op.h"

extern const graph_op latent_query, latent_attention, latent_values;

#endif
