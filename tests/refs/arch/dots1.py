"""dots.llm1 as GGUF has it: one dense layer, then experts by sigmoids beside a shared feed-forward."""
from arch import llamagguf as base

SCALE, SHARED = 2.5, 2


def keys():
    arch = "dots1"
    return base.expert_sizes(arch) | {f"{arch}.leading_dense_block_count": ("u32", 1), f"{arch}.expert_shared_count": ("u32", SHARED),
                                      f"{arch}.expert_weights_scale": ("f32", SCALE), f"{arch}.expert_gating_func": ("u32", 2)}


def shapes():
    moe = base.expert_shapes() | base.shared_shapes(SHARED * base.EXPERT_FF) | {"exp_probs_b.bias": (base.EXPERTS,)}
    return base.with_layers({"attn_q_norm": (base.HEAD,), "attn_k_norm": (base.HEAD,)}, [base.dense_shapes(), moe])


def attended(h, one):
    q, k, v = base.heads_of(h, one)
    return base.rotate_first(base.norm(q, one["attn_q_norm"]), base.HEAD), base.rotate_first(base.norm(k, one["attn_k_norm"]), base.HEAD), v


def feed_forward(h, one, il):
    if il == 0:
        return base.gated(h, one)

    def share(z, chosen):
        return SCALE * base.sigmoid(z)[chosen] / (base.sigmoid(z)[chosen].sum() + 1e-20)
    return base.experts(h, one, share, lambda z: base.sigmoid(z) + one["exp_probs_b.bias"]) + base.shared(h, one)


def logits(w, ids):
    return base.expert_logits(w, ids, attended, feed_forward)
