"""gpt-oss as GGUF has it: sinks, a window in every second layer, yarn, biases. keys, shapes and logits are what make_arch.py takes."""
import math

import numpy as np

from arch import llamagguf as base
from arch_numpy import rotate

WINDOW, FACTOR, ORIGINAL, ALPHA, LIMIT = 6, 4.0, 32, 1.702, 7.0
BIASED = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps")


def keys():
    arch = "gpt-oss"
    return base.expert_sizes(arch) | {
        f"{arch}.attention.sliding_window": ("u32", WINDOW), f"{arch}.rope.scaling.type": ("text", "yarn"),
        f"{arch}.rope.scaling.factor": ("f32", FACTOR), f"{arch}.rope.scaling.original_context_length": ("u32", ORIGINAL)}


def shapes():
    named = base.decoder_shapes(base.expert_shapes() | {"attn_sinks": (base.HEADS,)})
    named = {name.replace("ffn_norm", "post_attention_norm"): shape for name, shape in named.items()}
    biases = {name.replace(".weight", ".bias"): shape[:-1] for name, shape in named.items()
              if name.split(".")[-2] in BIASED}
    return named | biases


def yarn():
    """Angles a position of each pair, and the factor of sine and cosine: arXiv 2309.00071, beta 32 and 1."""
    half = base.HEAD // 2
    freq = base.BASE ** (-np.arange(half) / half)
    edge = [base.HEAD * math.log(ORIGINAL / (turns * 2 * math.pi)) / (2 * math.log(base.BASE)) for turns in (32, 1)]
    low, high = max(math.floor(edge[0]), 0), min(math.ceil(edge[1]), base.HEAD - 1)
    kept = 1 - np.clip((np.arange(half) - low) / max(high - low, 0.001), 0, 1)
    return freq / FACTOR * (1 - kept) + freq * kept, 0.1 * math.log(FACTOR) + 1


def attention(q, k, v, sinks, window):
    t, heads, head = q.shape
    k, v = (np.repeat(x, heads // k.shape[1], 1) for x in (k, v))
    s = np.einsum("qhd,khd->hqk", q, k) / math.sqrt(head)
    far = np.arange(t)[:, None] - np.arange(t)[None, :]
    s = np.where((far < 0) | (far >= (window or t)), -np.inf, s)
    s = np.concatenate([s, np.broadcast_to(sinks[:, None, None], (heads, t, 1))], -1)
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("hqk,khd->qhd", (p / p.sum(-1, keepdims=True))[..., :-1], v).reshape(t, -1)


def experts(h, w, bias):
    out = np.zeros_like(h)
    for t, (x, z) in enumerate(zip(h, h @ w["ffn_gate_inp"].T + bias["ffn_gate_inp"])):
        chosen = np.argsort(-z, kind="stable")[:base.CHOSEN]
        for e, weight in zip(chosen, base.softmax(z[chosen])):
            gate = np.minimum(w["ffn_gate_exps"][e] @ x + bias["ffn_gate_exps"][e], LIMIT)
            up = np.clip(w["ffn_up_exps"][e] @ x + bias["ffn_up_exps"][e], -LIMIT, LIMIT)
            y = (up + 1) * gate / (1 + np.exp(-ALPHA * gate))
            out[t] += weight * (w["ffn_down_exps"][e] @ y + bias["ffn_down_exps"][e])
    return out


def logits(w, ids):
    t, (angles, magnitude) = len(ids), yarn()
    x = w["token_embd.weight"][ids]
    for il in range(base.LAYERS):
        weight, bias = ({name.split(".")[2]: v for name, v in w.items() if name.startswith(f"blk.{il}.") and name.endswith(kind)}
                        for kind in (".weight", ".bias"))
        h = base.norm(x, weight["attn_norm"])
        q, k, v = ((h @ weight[f"attn_{n}"].T + bias[f"attn_{n}"]).reshape(t, -1, base.HEAD) for n in "qkv")
        o = attention(rotate(q, angles, magnitude), rotate(k, angles, magnitude), v, weight["attn_sinks"], 0 if il % 2 else WINDOW)
        x = x + o @ weight["attn_output"].T + bias["attn_output"]
        x = x + experts(base.norm(x, weight["post_attention_norm"]), weight, bias)
    return base.norm(x, w["output_norm.weight"]) @ w["output.weight"].T
