"""ERNIE 4.5 with experts as GGUF has it: experts in every second layer, chosen with a bias; neighbours turn together."""
from arch import llamagguf as base

SHARED_FF = 40


def keys():
    arch = "ernie4_5-moe"
    return base.expert_sizes(arch) | {f"{arch}.interleave_moe_layer_step": ("u32", 2), f"{arch}.leading_dense_block_count": ("u32", 1),
                                      f"{arch}.expert_shared_feed_forward_length": ("u32", SHARED_FF)}


def shapes():
    moe = base.expert_shapes() | base.shared_shapes(SHARED_FF) | {"exp_probs_b.bias": (base.EXPERTS,)}
    return base.with_layers({}, [base.dense_shapes(), moe])


def attended(h, one):
    q, k, v = base.heads_of(h, one)
    return base.rotate_neighbours(q), base.rotate_neighbours(k), v


def feed_forward(h, one, il):
    if il == 0:
        return base.gated(h, one)

    def share(z, chosen):
        return base.softmax(z)[chosen] / max(base.softmax(z)[chosen].sum(), 1e-12)
    return base.experts(h, one, share, lambda z: base.softmax(z) + one["exp_probs_b.bias"]) + base.shared(h, one)


def logits(w, ids):
    return base.expert_logits(w, ids, attended, feed_forward)
