"""Llama as GGUF has it: neighbours of a head turn together. keys, shapes and logits are what make_arch.py takes."""
import numpy as np

from arch_numpy import attention, silu

LAYERS, WIDTH, FF, HEADS, KV_HEADS, HEAD, VOCAB, EPS, BASE = 2, 32, 48, 4, 2, 16, 96, 1e-5, 10000.0


def sizes(arch, ff=FF):
    """Metadata that all decoders of this shape have."""
    return {"general.architecture": ("text", arch)} | {f"{arch}.{key}": value for key, value in {
        "block_count": ("u32", LAYERS), "embedding_length": ("u32", WIDTH), "feed_forward_length": ("u32", ff),
        "context_length": ("u32", 128), "attention.head_count": ("u32", HEADS), "attention.head_count_kv": ("u32", KV_HEADS),
        "attention.key_length": ("u32", HEAD), "attention.value_length": ("u32", HEAD),
        "attention.layer_norm_rms_epsilon": ("f32", EPS), "rope.freq_base": ("f32", BASE)}.items()}


def decoder_shapes(feed_forward):
    """Tensors by their names, [out, in]; feed_forward: those of a layer's, without its norm."""
    layer = {"attn_norm": (WIDTH,), "attn_q": (HEADS * HEAD, WIDTH), "attn_k": (KV_HEADS * HEAD, WIDTH),
             "attn_v": (KV_HEADS * HEAD, WIDTH), "attn_output": (WIDTH, HEADS * HEAD), "ffn_norm": (WIDTH,)} | feed_forward
    whole = {"token_embd": (VOCAB, WIDTH), "output_norm": (WIDTH,), "output": (VOCAB, WIDTH)}
    return {f"{name}.weight": shape for name, shape in whole.items()} | {
        f"blk.{il}.{name}.weight": shape for il in range(LAYERS) for name, shape in layer.items()}


def rotate_neighbours(x):
    """x [T, heads, D]: element 2 i turns with element 2 i + 1."""
    turn = np.arange(len(x))[:, None, None] * BASE ** (-np.arange(0, HEAD, 2) / HEAD)
    a, b = x[..., 0::2], x[..., 1::2]
    return np.stack([a * np.cos(turn) - b * np.sin(turn), b * np.cos(turn) + a * np.sin(turn)], -1).reshape(x.shape)


def norm(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * weight


def decoder_logits(w, ids, feed_forward):
    """[T, V]; feed_forward(h, weights of the layer by name) is what a layer adds after its attention."""
    t = len(ids)
    x = w["token_embd.weight"][ids]
    for il in range(LAYERS):
        one = {name.split(".")[2]: v for name, v in w.items() if name.startswith(f"blk.{il}.")}
        h = norm(x, one["attn_norm"])
        q, k, v = (h @ one[f"attn_{n}"].T for n in "qkv")
        q, k = rotate_neighbours(q.reshape(t, HEADS, HEAD)), rotate_neighbours(k.reshape(t, KV_HEADS, HEAD))
        x = x + attention(q, k, v.reshape(t, KV_HEADS, HEAD), 0) @ one["attn_output"].T
        x = x + feed_forward(norm(x, one["ffn_norm"]), one)
    return norm(x, w["output_norm.weight"]) @ w["output.weight"].T


def keys():
    return sizes("llama")


def shapes():
    return decoder_shapes({"ffn_gate": (FF, WIDTH), "ffn_up": (FF, WIDTH), "ffn_down": (WIDTH, FF)})


def gated(h, one):
    return (silu(h @ one["ffn_gate"].T) * (h @ one["ffn_up"].T)) @ one["ffn_down"].T


def logits(w, ids):
    return decoder_logits(w, ids, gated)


EXPERTS, CHOSEN, EXPERT_FF = 8, 3, 32


def expert_sizes(arch):
    """Metadata of a decoder of this shape with experts in place of one feed-forward."""
    return sizes(arch) | {f"{arch}.expert_count": ("u32", EXPERTS), f"{arch}.expert_used_count": ("u32", CHOSEN),
                          f"{arch}.expert_feed_forward_length": ("u32", EXPERT_FF)}


def expert_shapes():
    return {"ffn_gate_inp": (EXPERTS, WIDTH), "ffn_gate_exps": (EXPERTS, EXPERT_FF, WIDTH), "ffn_up_exps": (EXPERTS, EXPERT_FF, WIDTH),
            "ffn_down_exps": (EXPERTS, WIDTH, EXPERT_FF)}


def softmax(z):
    s = np.exp(z - z.max())
    return s / s.sum()


def experts(h, one, weights_of, keys_of=lambda z: z):
    """keys_of(logits of a token) are largest for the experts that are chosen; weights_of(logits, these experts) are the factors of their
    outputs."""
    out = np.zeros_like(h)
    for t, (x, z) in enumerate(zip(h, h @ one["ffn_gate_inp"].T)):
        chosen = np.argsort(-keys_of(z), kind="stable")[:CHOSEN]
        for e, weight in zip(chosen, weights_of(z, chosen)):
            y = silu(one["ffn_gate_exps"][e] @ x) * (one["ffn_up_exps"][e] @ x)
            out[t] += weight * (one["ffn_down_exps"][e] @ y)
    return out


def share_of_chosen(z, chosen):
    """Softmax over all experts, divided by its sum over the chosen ones."""
    return softmax(z)[chosen] / softmax(z)[chosen].sum()


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def shared(h, one):
    """The feed-forward that all tokens take beside their experts."""
    return (silu(h @ one["ffn_gate_shexp"].T) * (h @ one["ffn_up_shexp"].T)) @ one["ffn_down_shexp"].T


def shared_shapes(width):
    return {"ffn_gate_shexp": (width, WIDTH), "ffn_up_shexp": (width, WIDTH), "ffn_down_shexp": (WIDTH, width)}


def dense_shapes():
    return {"ffn_gate": (FF, WIDTH), "ffn_up": (FF, WIDTH), "ffn_down": (WIDTH, FF)}


def with_layers(common, by_layer):
    """Shapes of a decoder whose layers differ: by_layer[il] are those of layer il's feed-forward, common those of all layers."""
    named = {name: shape for name, shape in decoder_shapes(common).items()}
    for il, layer in enumerate(by_layer):
        named |= {(f"blk.{il}.{name}" if "." in name else f"blk.{il}.{name}.weight"): shape for name, shape in layer.items()}
    return named


def weights_of_layer(w, il):
    """By name; biases as NAME.bias."""
    return {name.removeprefix(f"blk.{il}.").removesuffix(".weight"): v for name, v in w.items() if name.startswith(f"blk.{il}.")}


def rotate_first(x, n):
    """x [T, heads, D]: of the first n elements i turns with i + n / 2."""
    turn = np.arange(len(x))[:, None, None] * BASE ** (-np.arange(0, n, 2) / n)
    a, b = x[..., :n // 2], x[..., n // 2:n]
    return np.concatenate([a * np.cos(turn) - b * np.sin(turn), b * np.cos(turn) + a * np.sin(turn), x[..., n:]], -1)


def expert_logits(w, ids, attended, feed_forward, norm_name="ffn_norm"):
    """[T, V]; attended(h, weights of the layer) are q, k, v [T, heads, D], feed_forward(h, weights, layer) what a layer adds."""
    t = len(ids)
    x = w["token_embd.weight"][ids]
    for il in range(LAYERS):
        one = weights_of_layer(w, il)
        q, k, v = attended(norm(x, one["attn_norm"]), one)
        x = x + attention(q, k, v, 0).reshape(t, -1) @ one["attn_output"].T
        x = x + feed_forward(norm(x, one[norm_name]), one, il)
    return norm(x, w["output_norm.weight"]) @ w["output.weight"].T


def heads_of(h, one, biased=False):
    return [(h @ one[f"attn_{n}"].T + (one[f"attn_{n}.bias"] if biased else 0)).reshape(len(h), -1, HEAD) for n in "qkv"]
