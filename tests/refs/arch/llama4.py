"""Llama 4's text as GGUF has it: norms of heads without weights after rotation, experts in every second layer, whose input is multiplied by the
sigmoid of their logits. Both layers rotate: the first that does not is the fourth."""
import numpy as np

from arch import llamagguf as base
from arch_numpy import silu


def keys():
    return base.expert_sizes("llama4") | {"llama4.interleave_moe_layer_step": ("u32", 2)}


def shapes():
    return base.with_layers({}, [base.dense_shapes(), base.expert_shapes() | base.shared_shapes(base.EXPERT_FF)])


def attended(h, one):
    q, k, v = base.heads_of(h, one)
    return base.norm(base.rotate_neighbours(q), 1), base.norm(base.rotate_neighbours(k), 1), v


def feed_forward(h, one, il):
    if il == 0:
        return base.gated(h, one)
    out = base.shared(h, one)
    for t, (x, z) in enumerate(zip(h, h @ one["ffn_gate_inp"].T)):
        for e in np.argsort(-z, kind="stable")[:base.CHOSEN]:
            u = base.sigmoid(z[e]) * x
            out[t] += one["ffn_down_exps"][e] @ (silu(one["ffn_gate_exps"][e] @ u) * (one["ffn_up_exps"][e] @ u))
    return out


def logits(w, ids):
    return base.expert_logits(w, ids, attended, feed_forward)
