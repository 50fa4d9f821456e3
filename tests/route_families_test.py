#!/usr/bin/env python3
"""ga_route against the routers of model families, each written here from its paper's or model card's formula, in f64 and without ga's fields.
Experts and their order must be the same, weights within 2e-7 of themselves; counts, offsets and order those of a stable sort. Tokens whose choice
hangs on less than what f32 resolves are left out, and few may be. Usage: route_families_test.py LIBGA.so"""
import ctypes
import math
import random
import struct
import sys

TOKENS = 40
NEAREST = 1e-6  # distance of neighbours in the order of choice, in parts of the larger, from which on the choice is compared
SOFTMAX, CHOSEN, SIGMOID, SQRT_SOFTPLUS = range(4)
RENORM_SUM, RENORM_BOUND = 1, 2
SUM2 = 1
SORT = 1


class Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("device", ctypes.c_char_p), ("disable_kernels", ctypes.c_char_p), ("threads", ctypes.c_int32),
                ("flags", ctypes.c_uint32)]


class Desc(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t)] + [(name, ctypes.c_int64) for name in ("tokens", "logits_stride", "vocab")] + \
        [(name, ctypes.c_int32) for name in ("n_experts", "top_k", "scores", "n_groups", "top_k_groups", "group_score", "renorm")] + \
        [("norm_eps", ctypes.c_float), ("scale", ctypes.c_float), ("flags", ctypes.c_uint32)]


class Io(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("logits", "bias", "expert_scale", "token_ids", "table", "experts", "weights", "counts", "offsets",
                                                     "order", "place")]


# --- formulas ---

class Choice:
    """Chooses by size, and knows how narrow the choices were."""

    def __init__(self):
        self.gap = math.inf

    def top(self, values, k):
        order = sorted(range(len(values)), key=lambda i: -values[i])
        for a, b in zip(order[:k], order[1:k + 1]):
            if values[b] > -math.inf:
                self.gap = min(self.gap, (values[a] - values[b]) / max(abs(values[a]), abs(values[b]), 1e-300))
        return order[:k]


def softmax(z):
    e = [math.exp(x - max(z)) for x in z]
    return [x / sum(e) for x in e]


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def of_sum(w, extra=0.0):
    total = sum(w) + extra
    return [x / total for x in w]


def pick(values, which):
    return [values[i] for i in which]


def gpt_oss(m, c, z):
    """Logits of the chosen, then softmax (github.com/openai/gpt-oss, model.py)."""
    e = c.top(z, m["top_k"])
    return e, softmax(pick(z, e))


def mixtral(m, c, z):
    """Softmax over all, the largest, divided by their sum (arXiv 2401.04088)."""
    p = softmax(z)
    e = c.top(p, m["top_k"])
    return e, of_sum(pick(p, e))


def olmoe(m, c, z):
    """Softmax over all, the largest as they are (arXiv 2409.02060)."""
    p = softmax(z)
    e = c.top(p, m["top_k"])
    return e, pick(p, e)


def deepseek_v2(m, c, z):
    """Groups by their largest probability; no norm, a factor (arXiv 2405.04434)."""
    p, size = softmax(z), len(z) // m["n_groups"]
    groups = c.top([max(p[g * size:(g + 1) * size]) for g in range(m["n_groups"])], m["top_k_groups"])
    e = c.top([x if i // size in groups else -math.inf for i, x in enumerate(p)], m["top_k"])
    return e, [x * m["scale"] for x in pick(p, e)]


def deepseek_v3(m, c, z):
    """Sigmoid; groups by the sum of their two largest s + b; weights without b (arXiv 2412.19437)."""
    s = [sigmoid(x) for x in z]
    t = [x + b for x, b in zip(s, m["bias"])]
    n = m.get("n_groups", 1)
    size = len(z) // n
    groups = range(n)
    if n > 1:
        groups = c.top([sum(sorted(t[g * size:(g + 1) * size])[-2:]) for g in range(n)], m["top_k_groups"])
    e = c.top([x if i // size in groups else -math.inf for i, x in enumerate(t)], m["top_k"])
    return e, [x * m.get("scale", 1) for x in of_sum(pick(s, e), m.get("norm_eps", 0.0))]


def llama4(m, c, z):
    """The largest logit, and its sigmoid."""
    e = c.top(z, 1)
    return e, [sigmoid(z[e[0]])]


def ernie(m, c, z):
    """Softmax; the bias chooses; the sum is bounded from below (Ernie 4.5)."""
    p = softmax(z)
    e = c.top([x + b for x, b in zip(p, m["bias"])], m["top_k"])
    w = pick(p, e)
    return e, [x / max(sum(w), m["norm_eps"]) for x in w]


def gemma4(m, c, z):
    e, w = mixtral(m, c, z)
    return e, [x * m["expert_scale"][i] for x, i in zip(w, e)]


def deepseek_v4(m, c, z):
    s = [math.sqrt(math.log1p(math.exp(x))) for x in z]
    e = c.top([x + b for x, b in zip(s, m["bias"])], m["top_k"])
    return e, [x * m["scale"] for x in of_sum(pick(s, e))]


def deepseek_v4_hash(m, c, z):
    """First layers: the experts are a function of the token."""
    e = m["table"][m["token_ids"][m["token"]]]
    return e, [x * m["scale"] for x in of_sum([math.sqrt(math.log1p(math.exp(z[i]))) for i in e])]


V3 = {"n_experts": 256, "top_k": 8, "n_groups": 8, "top_k_groups": 4, "scale": 2.5, "norm_eps": 1e-20}
FAMILIES = [  # name, formula, its numbers, fields of ga_route_desc beside those of the same name, bias: None, or its range
    ("gpt-oss-20b", gpt_oss, {"n_experts": 32, "top_k": 4}, {"scores": CHOSEN}, None),
    ("granite", mixtral, {"n_experts": 40, "top_k": 8}, {"scores": CHOSEN}, None),  # softmax and norm are the softmax of the chosen
    ("mixtral", mixtral, {"n_experts": 8, "top_k": 2}, {"renorm": RENORM_SUM}, None),
    ("qwen2 moe", olmoe, {"n_experts": 60, "top_k": 4}, {}, None),
    ("qwen3 moe", mixtral, {"n_experts": 128, "top_k": 8}, {"renorm": RENORM_SUM}, None),
    ("qwen3 next", mixtral, {"n_experts": 512, "top_k": 10}, {"renorm": RENORM_SUM}, None),
    ("olmoe", olmoe, {"n_experts": 64, "top_k": 8}, {}, None),
    ("hunyuan", mixtral, {"n_experts": 64, "top_k": 8}, {"renorm": RENORM_SUM}, None),
    ("deepseek v2", deepseek_v2, {"n_experts": 160, "top_k": 6, "n_groups": 8, "top_k_groups": 3, "scale": 16.0}, {}, None),
    ("deepseek v3", deepseek_v3, V3, {"scores": SIGMOID, "group_score": SUM2, "renorm": RENORM_SUM}, (-0.2, 0.2)),
    ("deepseek v3, large biases", deepseek_v3, V3, {"scores": SIGMOID, "group_score": SUM2, "renorm": RENORM_SUM}, (12, 35)),
    ("kimi k2", deepseek_v3, {"n_experts": 384, "top_k": 8, "scale": 2.827, "norm_eps": 1e-20}, {"scores": SIGMOID, "renorm": RENORM_SUM}, (-0.2, 0.2)),
    ("minimax m2", deepseek_v3, {"n_experts": 256, "top_k": 8}, {"scores": SIGMOID, "renorm": RENORM_SUM}, (12, 35)),
    ("lfm2", deepseek_v3, {"n_experts": 32, "top_k": 4, "norm_eps": 1e-6}, {"scores": SIGMOID, "renorm": RENORM_SUM}, (-0.5, 0.5)),
    ("llama 4", llama4, {"n_experts": 128, "top_k": 1}, {"scores": SIGMOID}, None),
    ("ernie 4.5", ernie, {"n_experts": 64, "top_k": 6, "norm_eps": 1e-12}, {"renorm": RENORM_BOUND}, (-0.1, 0.1)),
    ("ernie 4.5, a bound that is reached", ernie, {"n_experts": 64, "top_k": 6, "norm_eps": 0.5}, {"renorm": RENORM_BOUND}, (-0.1, 0.1)),
    ("gemma 4", gemma4, {"n_experts": 128, "top_k": 8}, {"renorm": RENORM_SUM}, None),
    ("deepseek v4", deepseek_v4, {"n_experts": 256, "top_k": 6, "scale": 1.5}, {"scores": SQRT_SOFTPLUS, "renorm": RENORM_SUM}, (-0.5, 0.5)),
    ("deepseek v4, first layers", deepseek_v4_hash, {"n_experts": 256, "top_k": 6, "scale": 1.5, "vocab": 31},
     {"scores": SQRT_SOFTPLUS, "renorm": RENORM_SUM}, None),
]


# --- calls ---

def f32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def bf16(x):
    """The number of 8 bits next below: how biases of trained models arrive."""
    return struct.unpack("<f", b"\0\0" + struct.pack("<f", x)[2:])[0]


class Library:
    def __init__(self, path, device):
        self.lib = ctypes.CDLL(path)
        self.lib.ga_error_text.restype = ctypes.c_char_p
        self.ctx = ctypes.c_void_p()
        self.expect(self.lib.ga_ctx_create(ctypes.byref(Options(ctypes.sizeof(Options), device, None, 0, 0)), ctypes.byref(self.ctx)))

    def expect(self, status):
        if status:
            sys.exit(f"status {status}: {self.lib.ga_error_text().decode()}")

    def route(self, fields, inputs):
        n = fields["tokens"] * fields["top_k"]
        d = Desc(struct_size=ctypes.sizeof(Desc), **{"scale": 1.0, "flags": SORT, **fields})
        arrays = {name: (ctypes.c_float if isinstance(x[0], float) else ctypes.c_int32) * len(x) for name, x in inputs.items()}
        arrays = {name: kind(*inputs[name]) for name, kind in arrays.items()}
        results = {"experts": n, "counts": fields["n_experts"], "offsets": fields["n_experts"] + 1, "order": n, "place": n}
        arrays |= {name: (ctypes.c_int32 * count)() for name, count in results.items()}
        arrays["weights"] = (ctypes.c_float * n)()
        io = Io(**{name: ctypes.addressof(x) for name, x in arrays.items()})
        self.expect(self.lib.ga_route(self.ctx, ctypes.byref(d), ctypes.byref(io), None))
        return {name: list(x) for name, x in arrays.items()}

    def close(self):
        self.lib.ga_ctx_destroy(self.ctx)


def compare_sort(r, n_experts, wrong):
    order = sorted(range(len(r["experts"])), key=lambda i: r["experts"][i])  # Python's sort is stable
    if r["order"] != order or [r["place"][i] for i in order] != list(range(len(order))):
        wrong("order or place")
    counts = [r["experts"].count(e) for e in range(n_experts)]
    if r["counts"] != counts or r["offsets"] != [sum(counts[:e]) for e in range(n_experts + 1)]:
        wrong("counts or offsets")


def compare(library, seed, name, formula, numbers, fields, bias):
    rng, m, faults = random.Random(seed), dict(numbers), []
    n, k = m["n_experts"], m["top_k"]
    z = [[f32(2 * rng.gauss(0, 1)) for _ in range(n)] for _ in range(TOKENS)]
    inputs = {"logits": sum(z, [])}
    if bias:
        m["bias"] = inputs["bias"] = [bf16(rng.uniform(*bias)) for _ in range(n)]
    if formula is gemma4:
        m["expert_scale"] = inputs["expert_scale"] = [f32(rng.uniform(0.5, 2)) for _ in range(n)]
    if "vocab" in m:
        m["table"] = [rng.sample(range(n), k) for _ in range(m["vocab"])]
        m["token_ids"] = inputs["token_ids"] = [rng.randrange(m["vocab"]) for _ in range(TOKENS)]
        inputs["table"] = sum(m["table"], [])
    own = [field for field, _ in Desc._fields_]
    r = library.route({"tokens": TOKENS, **{field: x for field, x in m.items() if field in own}, **fields}, inputs)
    narrow = 0
    for t in range(TOKENS):
        c, m["token"] = Choice(), t
        experts, weights = formula(m, c, z[t])
        if c.gap < NEAREST:
            narrow += 1
            continue
        if r["experts"][t * k:(t + 1) * k] != list(experts):
            faults.append(f"token {t}: experts {r['experts'][t * k:(t + 1) * k]} instead of {experts}")
        elif any(not abs(got - want) <= 2e-7 * abs(want) for got, want in zip(r["weights"][t * k:(t + 1) * k], weights)):
            faults.append(f"token {t}: weights {r['weights'][t * k:(t + 1) * k]} instead of {weights}")
    compare_sort(r, n, faults.append)
    if narrow > TOKENS // 5:
        faults.append(f"{narrow} of {TOKENS} tokens hang on less than {NEAREST}")
    return [f"{name}: {fault}" for fault in faults]


def main():
    faults = []
    for device in (b"ref", b"cpu"):
        library = Library(sys.argv[1], device)
        for seed, family in enumerate(FAMILIES):
            faults += [f"{device.decode()}: {fault}" for fault in compare(library, seed, *family)]
        library.close()
    print("\n".join(faults[:20]))
    print(f"{len(FAMILIES)} families, {len(faults)} faults")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
