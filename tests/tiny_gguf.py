"""A tiny llama model as GGUF, made from two dictionaries that a test may spoil first."""
import math
import struct

TYPES = {"u32": 4, "i32": 5, "f32": 6, "bool": 7, "text": 8, "array": 9}
WIDTH, FF, HEADS, KV_HEADS, HEAD, LAYERS, VOCAB, CONTEXT = 64, 96, 4, 2, 16, 2, 262, 128
# GGUF type: elements and bytes of a block
BLOCKS = {0: (1, 4), 1: (1, 2), 2: (32, 18), 8: (32, 34), 24: (1, 1), 28: (1, 8), 30: (1, 2)}


def metadata():
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + ["\u2581", "a", "\u2581a"]
    return {
        "general.architecture": ("text", "llama"),
        "general.name": ("text", "tiny"),
        "llama.block_count": ("u32", LAYERS),
        "llama.embedding_length": ("u32", WIDTH),
        "llama.feed_forward_length": ("u32", FF),
        "llama.context_length": ("u32", CONTEXT),
        "llama.attention.head_count": ("u32", HEADS),
        "llama.attention.head_count_kv": ("u32", KV_HEADS),
        "llama.attention.layer_norm_rms_epsilon": ("f32", 1e-5),
        "llama.rope.dimension_count": ("u32", HEAD),
        "llama.rope.freq_base": ("f32", 10000.0),
        "tokenizer.ggml.model": ("text", "llama"),
        "tokenizer.ggml.tokens": ("array", ("text", tokens)),
        "tokenizer.ggml.scores": ("array", ("f32", [0.0] * 259 + [-1.0, -2.0, -3.0])),
        "tokenizer.ggml.token_type": ("array", ("i32", [2, 3, 3] + [6] * 256 + [1] * 3)),
        "tokenizer.ggml.bos_token_id": ("u32", 1),
        "tokenizer.ggml.eos_token_id": ("u32", 2),
        "tokenizer.chat_template": ("text", "{% for m in messages %}{{ m.content }}\n{% endfor %}"),
    }


def tensors():
    """Name: (dimensions, slowest first; GGUF type; bytes or None for made-up ones)."""
    shapes = {"token_embd.weight": (VOCAB, WIDTH), "output_norm.weight": (WIDTH,)}
    for i in range(LAYERS):
        for name, shape in {
            "attn_norm": (WIDTH,), "attn_q": (HEADS * HEAD, WIDTH), "attn_k": (KV_HEADS * HEAD, WIDTH),
            "attn_v": (KV_HEADS * HEAD, WIDTH), "attn_output": (WIDTH, HEADS * HEAD), "ffn_norm": (WIDTH,),
            "ffn_gate": (FF, WIDTH), "ffn_up": (FF, WIDTH), "ffn_down": (WIDTH, FF),
        }.items():
            shapes[f"blk.{i}.{name}.weight"] = shape
    return {name: (shape, 0, None) for name, shape in shapes.items()}


def gemma():
    """The same in Gemma 3's shape, as build() takes it: every third layer sees all, the others 4 tokens; one kv head of 32. A head of its own:
    tied, each token would be the one before it."""
    head, layers = 32, 3
    meta = {k.replace("llama.", "gemma3."): v for k, v in metadata().items()}
    meta["general.architecture"] = ("text", "gemma3")
    meta |= {"gemma3.block_count": ("u32", layers), "gemma3.attention.head_count_kv": ("u32", 1),
             "gemma3.attention.key_length": ("u32", head), "gemma3.attention.value_length": ("u32", head),
             "gemma3.attention.sliding_window": ("u32", 4), "gemma3.attention.sliding_window_pattern": ("u32", 3),
             "gemma3.rope.dimension_count": ("u32", head), "gemma3.rope.freq_base": ("f32", 1e6)}
    shapes = {"token_embd.weight": (VOCAB, WIDTH), "output_norm.weight": (WIDTH,), "output.weight": (VOCAB, WIDTH)}
    for i in range(layers):
        for name, shape in {
            "attn_norm": (WIDTH,), "attn_q": (HEADS * head, WIDTH), "attn_k": (head, WIDTH), "attn_v": (head, WIDTH),
            "attn_q_norm": (head,), "attn_k_norm": (head,), "attn_output": (WIDTH, HEADS * head), "post_attention_norm": (WIDTH,),
            "ffn_norm": (WIDTH,), "ffn_gate": (FF, WIDTH), "ffn_up": (FF, WIDTH), "ffn_down": (WIDTH, FF), "post_ffw_norm": (WIDTH,),
        }.items():
            shapes[f"blk.{i}.{name}.weight"] = shape
    return meta, {name: (shape, 0, None) for name, shape in shapes.items()}


def text(value):
    raw = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(raw)) + raw


def encode(kind, value):
    if kind == "text":
        return text(value)
    if kind == "array":
        elem, values = value
        return struct.pack("<IQ", TYPES[elem], len(values)) + b"".join(encode(elem, v) for v in values)
    return struct.pack({"u32": "<I", "i32": "<i", "f32": "<f", "bool": "<B"}[kind], value)


made = {}


def data_of(shape, kind, seed):
    if (shape, kind, seed) not in made:
        n = math.prod(shape)
        per, size = BLOCKS[kind]
        if kind == 0:
            values = [1.0 if len(shape) == 1 else ((i * 2654435761 + seed * 40503 >> 7) % 1024 - 512) / 4096 for i in range(n)]
            made[shape, kind, seed] = struct.pack(f"<{n}f", *values)
        else:
            made[shape, kind, seed] = bytes((i * 7 + seed) & 0x3F for i in range(n // per * size))
    return made[shape, kind, seed]


def pad(raw):
    return raw + bytes(-len(raw) % 32)


def build(meta=None, weights=None):
    meta = metadata() if meta is None else meta
    weights = tensors() if weights is None else weights
    head = b"GGUF" + struct.pack("<IQQ", 3, len(weights), len(meta))
    for key, (kind, value) in meta.items():
        head += text(key) + struct.pack("<I", TYPES[kind]) + encode(kind, value)
    body = []
    offset = 0
    for seed, (name, (shape, kind, raw)) in enumerate(weights.items()):
        raw = pad(data_of(shape, kind, seed) if raw is None else raw)
        head += text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", d) for d in reversed(shape))
        head += struct.pack("<IQ", kind, offset)
        body.append(raw)
        offset += len(raw)
    return pad(head) + b"".join(body)
