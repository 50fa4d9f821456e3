"""Qwen 2 with experts as GGUF has it: biases of q, k and v, experts by a softmax that is not divided by its sum, beside a shared feed-forward
behind a gate."""
from arch import llamagguf as base

SHARED = 40


def keys():
    return base.expert_sizes("qwen2moe") | {"qwen2moe.expert_shared_feed_forward_length": ("u32", SHARED)}


def shapes():
    layer = base.expert_shapes() | base.shared_shapes(SHARED) | {"ffn_gate_inp_shexp": (base.WIDTH,)}
    biases = {"attn_q.bias": (base.HEADS * base.HEAD,), "attn_k.bias": (base.KV_HEADS * base.HEAD,), "attn_v.bias": (base.KV_HEADS * base.HEAD,)}
    return base.with_layers({}, [layer | biases] * base.LAYERS)


def attended(h, one):
    q, k, v = base.heads_of(h, one, biased=True)
    return base.rotate_first(q, base.HEAD), base.rotate_first(k, base.HEAD), v


def feed_forward(h, one, il):
    gate = base.sigmoid(h @ one["ffn_gate_inp_shexp"])[:, None]
    return base.experts(h, one, lambda z, chosen: base.softmax(z)[chosen]) + gate * base.shared(h, one)


def logits(w, ids):
    return base.expert_logits(w, ids, attended, feed_forward)
