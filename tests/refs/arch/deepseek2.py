"""DeepSeek V3 as GGUF has it: matrices split for absorption, queries by a latent vector, sigmoids, groups, a last layer that is left out."""
import arch_latent as base


def keys():
    split = base.gguf_keys(base.V3, True)
    return split | {"deepseek2.block_count": ("u32", base.LAYERS + 1), "deepseek2.nextn_predict_layers": ("u32", 1)}


def shapes():
    return base.gguf_shapes(base.V3, True)


def logits(w, ids):
    return base.gguf_logits(w, ids, base.V3)
