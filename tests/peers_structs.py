#!/usr/bin/env python3
"""The structs that bench/peers spells out for ctypes are as large as the library's: those scripts run beside a GPU only, where a
header that grew would be noticed too late. Usage: peers_structs.py SIZES PEERS, SIZES the program of peers_sizes.c."""
import ctypes
import importlib
import subprocess
import sys
from unittest import mock

PAIRS = {
    "attention": {"Options": "ga_ctx_options", "Desc": "ga_attn_desc", "Io": "ga_attn_io"},
    "attn_bwd": {"Options": "ga_ctx_options", "Desc": "ga_attn_bwd_desc", "Io": "ga_attn_bwd_io"},
    "attn_fp8": {"QuantDesc": "ga_attn_quant_desc", "QuantIo": "ga_attn_quant_io"},
    "gemm": {"Desc": "ga_gemm_desc", "Io": "ga_gemm_io", "PackDesc": "ga_pack_desc"},
}

sizes = dict(line.split() for line in subprocess.check_output([sys.argv[1]], text=True).splitlines())
sys.path.insert(0, sys.argv[2])
for name in ("torch", "torch.nn", "torch.nn.functional", "torch.nn.attention"):
    sys.modules[name] = mock.MagicMock()
wrong = 0
for script, structs in PAIRS.items():
    module = importlib.import_module(script)
    for ours, theirs in structs.items():
        n = ctypes.sizeof(getattr(module, ours))
        if n != int(sizes[theirs]):
            print(f"bench/peers/{script}.py: {ours} has {n} bytes, {theirs} {sizes[theirs]}")
            wrong = 1
sys.exit(wrong)
