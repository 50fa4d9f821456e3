"""DeepSeek V2 Lite as older GGUF files have it: attn_kv_b unsplit, queries by one matrix, softmax, no groups."""
import arch_latent as base


def keys():
    return base.gguf_keys(base.LITE, False)


def shapes():
    return base.gguf_shapes(base.LITE, False)


def logits(w, ids):
    return base.gguf_logits(w, ids, base.LITE)
