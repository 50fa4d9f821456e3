"""Hunyuan with experts as GGUF has it: norms of heads after rotation, a shared feed-forward."""
from arch import llamagguf as base


def keys():
    return base.expert_sizes("hunyuan-moe")


def shapes():
    return base.decoder_shapes(base.expert_shapes() | base.shared_shapes(base.FF) | {"attn_q_norm": (base.HEAD,), "attn_k_norm": (base.HEAD,)})


def attended(h, one):
    q, k, v = base.heads_of(h, one)
    return base.norm(base.rotate_first(q, base.HEAD), one["attn_q_norm"]), base.norm(base.rotate_first(k, base.HEAD), one["attn_k_norm"]), v


def feed_forward(h, one, il):
    return base.experts(h, one, base.share_of_chosen) + base.shared(h, one)


def logits(w, ids):
    return base.expert_logits(w, ids, attended, feed_forward)
