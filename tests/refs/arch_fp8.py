"""Weights in e4m3 with a scale for each block of 128 x 128, as checkpoints in FP8 have them. Scales are powers of two, so that bf16 has each value."""
import numpy as np

BLOCK = 128
CONFIG = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [BLOCK, BLOCK]}


def code_values():
    """Of codes 0 to 126: 4 bits of exponent, 3 of mantissa."""
    exponent, mantissa = np.divmod(np.arange(127), 8)
    return np.where(exponent == 0, mantissa / 8 * 2.0 ** -6, (1 + mantissa / 8) * 2.0 ** (exponent - 7.0))


VALUES = code_values()


def is_stored(name, w):
    """Products of layers, but for routers."""
    return w.ndim == 2 and ".layers." in name and not name.endswith("mlp.gate.weight")


def scales_of(w):
    down, along = (-(-n // BLOCK) for n in w.shape)
    return (2.0 ** -(6 + (np.arange(down)[:, None] + np.arange(along)) % 3)).astype(np.float32)


def spread(scales, shape):
    return np.repeat(np.repeat(scales, BLOCK, 0), BLOCK, 1)[:shape[0], :shape[1]]


def codes_of(w):
    x = w / spread(scales_of(w), w.shape)
    size = np.abs(x)
    at = np.clip(np.searchsorted(VALUES, size), 1, len(VALUES) - 1)
    nearest = np.where(size - VALUES[at - 1] < VALUES[at] - size, at - 1, at)
    return (nearest + np.where(x < 0, 128, 0)).astype(np.uint8)


def changed(weights):
    """Rounds what is stored in e4m3."""
    for name, w in weights.items():
        if is_stored(name, w):
            codes = codes_of(w)
            value = VALUES[codes & 127] * np.where(codes > 127, -1, 1) * spread(scales_of(w), w.shape)
            weights[name] = value.astype(np.float32)
    return weights


def stored(weights):
    """As the file has them: codes, and scales beside them."""
    out = {}
    for name, w in weights.items():
        if is_stored(name, w):
            out |= {name: codes_of(w), name + "_scale_inv": scales_of(w)}
        else:
            out[name] = w
    return out
