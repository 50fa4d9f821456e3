"""Decoders in numpy, f64, from their papers and the names and fields of Hugging Face: one plain loop over layers.

make_arch.py --compare shows how far this is from transformers where both have an architecture."""
import json
import math
import struct

import numpy as np


def jina_shapes(c):
    d, f = c["hidden_size"], c["intermediate_size"]
    all_of = {"embeddings.word_embeddings.weight": (c["vocab_size"], d),
              "embeddings.token_type_embeddings.weight": (c["type_vocab_size"], d)}
    norms = ["embeddings.LayerNorm"]
    for il in range(c["num_hidden_layers"]):
        at = f"encoder.layer.{il}."
        for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            all_of |= {f"{at}{name}.weight": (d, d), f"{at}{name}.bias": (d,)}
        all_of |= {f"{at}mlp.gated_layers.weight": (2 * f, d), f"{at}mlp.wo.weight": (d, f), f"{at}mlp.wo.bias": (d,)}
        norms += [f"{at}attention.output.LayerNorm", f"{at}mlp.layernorm"]
    for name in norms:
        all_of |= {f"{name}.weight": (d,), f"{name}.bias": (d,)}
    return all_of


def expert_shapes(c):
    """Of a layer: a tensor for each expert's matrix."""
    d, f = c["hidden_size"], c.get("moe_intermediate_size") or c["intermediate_size"]
    is_mixtral = c["model_type"] == "mixtral"
    at, up, down = ("block_sparse_moe", ("w1", "w3"), "w2") if is_mixtral else ("mlp", ("gate_proj", "up_proj"), "down_proj")
    n = c["num_local_experts" if is_mixtral else "num_experts"]
    return {f"{at}.gate": (n, d)} | {f"{at}.experts.{e}.{name}": (f, d) for e in range(n) for name in up} | {
        f"{at}.experts.{e}.{down}": (d, f) for e in range(n)}


def shapes(c):
    """Tensors by their names, [out, in]."""
    if c["model_type"] == "bert":
        return jina_shapes(c)
    d, f, heads, kv = c["hidden_size"], c["intermediate_size"], c["num_attention_heads"], c["num_key_value_heads"]
    head = c.get("head_dim") or d // heads
    all_of = {"model.embed_tokens.weight": (c["vocab_size"], d), "model.norm.weight": (d,)}
    if not c["tie_word_embeddings"]:
        all_of["lm_head.weight"] = (c["vocab_size"], d)
    is_coder = c["model_type"] == "starcoder2"
    if is_coder:
        all_of["model.norm.bias"] = (d,)
    for il in range(c["num_hidden_layers"]):
        one = {"self_attn.q_proj": (heads * head, d), "self_attn.k_proj": (kv * head, d), "self_attn.v_proj": (kv * head, d),
               "self_attn.o_proj": (d, heads * head)}
        if is_coder:
            one |= {"mlp.c_fc": (f, d), "mlp.c_proj": (d, f), "input_layernorm": (d,), "post_attention_layernorm": (d,)}
            all_of |= {f"model.layers.{il}.{name}.bias": shape[:1] for name, shape in one.items()}
        elif "num_experts_per_tok" in c:
            one |= expert_shapes(c) | {"input_layernorm": (d,), "post_attention_layernorm": (d,)}
            wide = c["model_type"] == "olmoe"
            if c["model_type"] != "mixtral":
                one |= {"self_attn.q_norm": (heads * head if wide else head,), "self_attn.k_norm": (kv * head if wide else head,)}
            all_of |= {f"model.layers.{il}.{name}.weight": shape for name, shape in one.items()}
            continue
        else:
            one |= {"mlp.gate_proj": (f, d), "mlp.up_proj": (f, d), "mlp.down_proj": (d, f), "post_attention_layernorm": (d,),
                    "post_feedforward_layernorm": (d,), "self_attn.q_norm": (heads * head,), "self_attn.k_norm": (kv * head,)}
        all_of |= {f"model.layers.{il}.{name}.weight": shape for name, shape in one.items()}
    return all_of


def random_weights(c):
    return random_of(shapes(c))


def random_of(shapes_by_name):
    """Random values everywhere: a weight that is 1 or 0 hides a mistake. Rounded to f32, as the file has them."""
    draw = np.random.default_rng(7)
    weights = {}
    for name, shape in sorted(shapes_by_name.items()):
        scale = 0.3 if len(shape) == 1 else 1.2 / shape[-1] ** 0.5
        base = 1.0 if len(shape) == 1 and "norm" in name and name.endswith("weight") else 0.0
        weights[name] = (base + scale * draw.standard_normal(shape)).astype(np.float32)
    return weights


def write_safetensors(path, weights):
    head, at = {}, 0
    for name, w in weights.items():  # bytes are codes of e4m3
        head[name] = {"dtype": "F8_E4M3" if w.dtype == np.uint8 else "F32", "shape": list(w.shape), "data_offsets": [at, at + w.nbytes]}
        at += w.nbytes
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for w in weights.values():
            f.write(w.tobytes() if w.dtype == np.uint8 else w.astype("<f4").tobytes())


def read_safetensors(path):
    with open(path, "rb") as f:
        raw = f.read()
    (n,) = struct.unpack("<Q", raw[:8])
    head = json.loads(raw[8:8 + n])
    head.pop("__metadata__", None)
    return {name: np.frombuffer(raw[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]], "<f4").reshape(t["shape"])
            for name, t in head.items()}


def rope_angles(c, head, scaled):
    """Angles a position of each pair, and the factor of sine and cosine."""
    rope = dict(c.get("rope_scaling") or {}, **(c.get("rope_parameters") or {}))
    base = rope.get("rope_theta") or c["rope_theta"]
    freq = base ** (-np.arange(0, head, 2) / head)
    kind = rope.get("rope_type", "default") if scaled else "default"
    if kind == "default":
        return freq, 1.0
    old, factor = rope["original_max_position_embeddings"], rope["factor"]
    if kind == "llama3":
        turns = old * freq / (2 * math.pi)
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        keep = np.clip((turns - low) / (high - low), 0, 1)
        return keep * freq + (1 - keep) * freq / factor, 1.0
    assert kind == "yarn", kind

    def pair_of(turns):
        return head * math.log(old / (turns * 2 * math.pi)) / (2 * math.log(base))

    low = max(math.floor(pair_of(rope.get("beta_fast") or 32)), 0)
    high = min(math.ceil(pair_of(rope.get("beta_slow") or 1)), head - 1)
    keep = 1 - np.clip((np.arange(head // 2) - low) / max(high - low, 0.001), 0, 1)
    return keep * freq + (1 - keep) * freq / factor, rope.get("attention_factor") or 0.1 * math.log(factor) + 1


def rotate(x, angles, magnitude):
    """x [T, heads, D]: element i turns with element i + D / 2."""
    turn = np.arange(len(x))[:, None, None] * angles
    a, b = np.split(x, 2, -1)
    return magnitude * np.concatenate([a * np.cos(turn) - b * np.sin(turn), b * np.cos(turn) + a * np.sin(turn)], -1)


def attention(q, k, v, window):
    """q [T, Hq, D], k and v [T, Hkv, D]; a query sees itself and what is before it, at most `window` in all."""
    t, heads, head = q.shape
    k, v = (np.repeat(x, heads // k.shape[1], 1) for x in (k, v))
    s = np.einsum("qhd,khd->hqk", q, k) / math.sqrt(head)
    far = np.arange(t)[:, None] - np.arange(t)[None, :]
    s = np.where((far < 0) | (far >= (window or t)), -np.inf, s)
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("hqk,khd->qhd", p / p.sum(-1, keepdims=True), v).reshape(t, -1)


def alibi_slopes(heads):
    """Of ALiBi's paper; for a number that is no power of two every other slope of twice as many heads fills up."""
    n = 1 << heads.bit_length() - 1
    more = [2 ** (-8 * (h + 1) / (2 * n)) for h in range(0, 2 * n, 2)]
    return np.array(([2 ** (-8 * (h + 1) / n) for h in range(n)] + more)[:heads])


def jina_embedding(c, weights, ids):
    """Mean of the rows behind the last layer, of length 1."""
    w = {name: x.astype(np.float64) for name, x in weights.items()}
    heads, t, f = c["num_attention_heads"], len(ids), c["intermediate_size"]
    far = np.abs(np.arange(t)[:, None] - np.arange(t)[None, :])

    def linear(x, name):
        y = x @ w[name + ".weight"].T
        return y + w[name + ".bias"] if name + ".bias" in w else y

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + c["layer_norm_eps"]) * w[name + ".weight"] + w[name + ".bias"]

    x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.token_type_embeddings.weight"][0]
    x = norm(x, "embeddings.LayerNorm")
    for il in range(c["num_hidden_layers"]):
        at = f"encoder.layer.{il}."
        q, k, v = (linear(x, f"{at}attention.self.{n}").reshape(t, heads, -1) for n in ("query", "key", "value"))
        s = np.einsum("qhd,khd->hqk", q, k) / math.sqrt(q.shape[-1]) - alibi_slopes(heads)[:, None, None] * far
        p = np.exp(s - s.max(-1, keepdims=True))
        o = np.einsum("hqk,khd->qhd", p / p.sum(-1, keepdims=True), v).reshape(t, -1)
        x = norm(x + linear(o, f"{at}attention.output.dense"), f"{at}attention.output.LayerNorm")
        both = linear(x, f"{at}mlp.gated_layers")
        x = norm(x + linear(gelu_erf(both[:, :f]) * both[:, f:], f"{at}mlp.wo"), f"{at}mlp.layernorm")
    v = x.mean(0)
    return v / np.sqrt((v * v).sum())


def gelu_erf(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def silu(x):
    return x / (1 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def logits(c, weights, ids):
    """[T, V] of a model of config c."""
    w = {name: x.astype(np.float64) for name, x in weights.items()}
    is_olmo, is_coder = c["model_type"] in ("olmo2", "olmo3"), c["model_type"] == "starcoder2"
    has_row_norms = is_olmo or c["model_type"] == "olmoe"
    heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
    head = c.get("head_dim") or c["hidden_size"] // heads
    t = len(ids)

    def linear(x, name):
        y = x @ w[name + ".weight"].T
        return y + w[name + ".bias"] if name + ".bias" in w else y

    def norm(x, name):
        if is_coder:  # a layer norm
            x = x - x.mean(-1, keepdims=True)
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + c["norm_epsilon"]) * w[name + ".weight"] + w[name + ".bias"]
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + c["rms_norm_eps"]) * w[name + ".weight"]

    def q_or_k(h, at, which, n, angles):
        x = linear(h, f"{at}.{which}_proj")
        if has_row_norms:
            x = norm(x, f"{at}.{which}_norm")
        x = x.reshape(t, n, head)
        if c["model_type"] in ("qwen3", "qwen3_moe"):
            x = norm(x, f"{at}.{which}_norm")
        return rotate(x, *angles)

    def attend(h, at, local):
        angles = rope_angles(c, head, not local or is_coder)
        q, k = q_or_k(h, at, "q", heads, angles), q_or_k(h, at, "k", kv, angles)
        v = linear(h, f"{at}.v_proj").reshape(t, kv, head)
        return linear(attention(q, k, v, c["sliding_window"] if local else 0), f"{at}.o_proj")

    def experts(h, at):
        """Softmax over all experts; divided by its sum over the chosen ones with norm_topk_prob, as in Mixtral."""
        at = {"mixtral": at.replace("mlp", "block_sparse_moe")}.get(c["model_type"], at)
        gate, up, down = ("w1", "w3", "w2") if c["model_type"] == "mixtral" else ("gate_proj", "up_proj", "down_proj")
        out = np.zeros_like(h)
        for i, (x, z) in enumerate(zip(h, linear(h, f"{at}.gate"))):
            chosen = np.argsort(-z, kind="stable")[:c["num_experts_per_tok"]]
            s = np.exp(z - z.max())
            share = s[chosen] / s[chosen].sum() if c.get("norm_topk_prob", True) else s[chosen] / s.sum()
            for e, weight in zip(chosen, share):
                one = f"{at}.experts.{e}"
                out[i] += weight * linear(silu(linear(x, f"{one}.{gate}")) * linear(x, f"{one}.{up}"), f"{one}.{down}")
        return out

    def feed_forward(h, at):
        if "num_experts_per_tok" in c:
            return experts(h, at)
        if is_coder:
            return linear(gelu_tanh(linear(h, f"{at}.c_fc")), f"{at}.c_proj")
        return linear(silu(linear(h, f"{at}.gate_proj")) * linear(h, f"{at}.up_proj"), f"{at}.down_proj")

    x = w["model.embed_tokens.weight"][ids]
    for il in range(c["num_hidden_layers"]):
        at = f"model.layers.{il}"
        local = (c.get("layer_types") or ["full_attention"] * (il + 1))[il] == "sliding_attention"
        local = local or is_coder and bool(c["sliding_window"])
        if is_olmo:
            x = x + norm(attend(x, f"{at}.self_attn", local), f"{at}.post_attention_layernorm")
            x = x + norm(feed_forward(x, f"{at}.mlp"), f"{at}.post_feedforward_layernorm")
        else:
            x = x + attend(norm(x, f"{at}.input_layernorm"), f"{at}.self_attn", local)
            x = x + feed_forward(norm(x, f"{at}.post_attention_layernorm"), f"{at}.mlp")
    head_weight = w["model.embed_tokens.weight"] if c["tie_word_embeddings"] else w["lm_head.weight"]
    return norm(x, "model.norm") @ head_weight.T
