"""GLM 4.5 as GGUF has it: biases, half of each head turns, one dense layer, and a last layer that is left out."""
from arch import llamagguf as base

SCALE, SHARED, TURNS = 1.5, 1, base.HEAD // 2


def keys():
    arch = "glm4moe"
    return base.expert_sizes(arch) | {
        f"{arch}.block_count": ("u32", base.LAYERS + 1), f"{arch}.nextn_predict_layers": ("u32", 1), f"{arch}.leading_dense_block_count": ("u32", 1),
        f"{arch}.expert_shared_count": ("u32", SHARED), f"{arch}.expert_weights_scale": ("f32", SCALE), f"{arch}.expert_weights_norm": ("bool", True),
        f"{arch}.rope.dimension_count": ("u32", TURNS)}


def shapes():
    moe = base.expert_shapes() | base.shared_shapes(SHARED * base.EXPERT_FF) | {"exp_probs_b.bias": (base.EXPERTS,)}
    named = base.with_layers({"attn_q_norm": (base.HEAD,), "attn_k_norm": (base.HEAD,)}, [base.dense_shapes(), moe])
    named = {name.replace("ffn_norm", "post_attention_norm"): shape for name, shape in named.items()}
    return named | {name.replace(".weight", ".bias"): shape[:1] for name, shape in named.items()
                    if name.split(".")[-2] in ("attn_q", "attn_k", "attn_v")}


def attended(h, one):
    q, k, v = base.heads_of(h, one, biased=True)
    return base.rotate_first(base.norm(q, one["attn_q_norm"]), TURNS), base.rotate_first(base.norm(k, one["attn_k_norm"]), TURNS), v


def feed_forward(h, one, il):
    if il == 0:
        return base.gated(h, one)

    def share(z, chosen):
        return SCALE * base.sigmoid(z)[chosen] / (base.sigmoid(z)[chosen].sum() + 1e-20)
    return base.experts(h, one, share, lambda z: base.sigmoid(z) + one["exp_probs_b.bias"]) + base.shared(h, one)


def logits(w, ids):
    return base.expert_logits(w, ids, attended, feed_forward, "post_attention_norm")
