"""MiniMax M2 as GGUF has it: whole rows of q and k are normed, half of each head turns, experts by sigmoids in all layers."""
from arch import llamagguf as base

TURNS = base.HEAD // 2


def keys():
    return base.expert_sizes("minimax-m2") | {"minimax-m2.expert_gating_func": ("u32", 2), "minimax-m2.rope.dimension_count": ("u32", TURNS)}


def shapes():
    moe = base.expert_shapes() | {"exp_probs_b.bias": (base.EXPERTS,)}
    return base.with_layers({"attn_q_norm": (base.HEADS * base.HEAD,), "attn_k_norm": (base.KV_HEADS * base.HEAD,)}, [moe] * base.LAYERS)


def attended(h, one):
    q, k, v = base.heads_of(h, one)
    q, k = (base.norm(x.reshape(len(h), -1), one[f"attn_{n}_norm"]).reshape(x.shape) for n, x in (("q", q), ("k", k)))
    return base.rotate_first(q, TURNS), base.rotate_first(k, TURNS), v


def feed_forward(h, one, il):
    return base.experts(h, one, lambda z, chosen: base.sigmoid(z)[chosen] / base.sigmoid(z)[chosen].sum(),
                        lambda z: base.sigmoid(z) + one["exp_probs_b.bias"])


def logits(w, ids):
    return base.expert_logits(w, ids, attended, feed_forward)
