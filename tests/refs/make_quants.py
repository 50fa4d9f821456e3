#!/usr/bin/env python3
"""Vectors for tests/test_quant.c: random blocks of every GGUF type, dequantised by the `gguf` package (PyPI, MIT).

Usage: python3 -m venv v && v/bin/pip install gguf && v/bin/python tests/refs/make_quants.py tests/data/quants

File <type>.bin, little-endian: u32 blocks, u32 elements of a block, u32 bytes of a block, the blocks' bytes, then
blocks * elements f32 values. Made with gguf 0.19.0.
"""
import sys
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize

TYPES = [T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K, T.IQ4_NL, T.IQ4_XS, T.MXFP4,
         T.NVFP4, T.IQ2_XXS, T.IQ2_XS, T.IQ2_S, T.IQ3_XXS, T.IQ3_S, T.TQ1_0, T.TQ2_0]
# Byte offsets of the f16 fields of a block: random bytes there would often be infinite or NaN.
HALVES = {T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q2_K: [80, 82], T.Q3_K: [108],
          T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ4_NL: [0], T.IQ4_XS: [0], T.MXFP4: [], T.NVFP4: [],
          T.IQ2_XXS: [0], T.IQ2_XS: [0], T.IQ2_S: [0], T.IQ3_XXS: [0], T.IQ3_S: [0], T.TQ1_0: [52], T.TQ2_0: [64]}
BLOCKS = 6


def main():
    out = Path(sys.argv[1])
    rng = np.random.default_rng(20240501)
    for t in TYPES:
        elems, size = GGML_QUANT_SIZES[t]
        raw = rng.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
        for at in HALVES[t]:
            raw[:, at:at + 2] = rng.normal(0, 0.05, BLOCKS).astype(np.float16).view(np.uint8).reshape(BLOCKS, 2)
        if t == T.MXFP4:
            raw[:, 0] = rng.integers(100, 140, BLOCKS)
            raw[0, 0], raw[1, 0] = 0, 1
        if t == T.NVFP4:
            raw[:, 0:4] = rng.integers(0, 0x7f, (BLOCKS, 4))
        values = dequantize(raw, t).astype("<f4").reshape(BLOCKS, elems)
        with open(out / f"{t.name.lower()}.bin", "wb") as f:
            f.write(np.array([BLOCKS, elems, size], dtype="<u4").tobytes() + raw.tobytes() + values.tobytes())


if __name__ == "__main__":
    main()
