"""DeepSeek V3 as folders have it: a tensor for each expert's matrix, keys and values in one matrix."""
import arch_latent as base


def config():
    return base.folder_config(base.V3, "deepseek_v3")


def shapes():
    return base.folder_shapes(base.V3)


def logits(w, ids):
    return base.folder_logits(w, ids, base.V3)
