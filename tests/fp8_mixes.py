#!/usr/bin/env python3
"""tests/cuda/mixes.c with FP8 folders on the CPU.
usage: fp8_mixes.py MIXES"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import fp8_folder

with tempfile.TemporaryDirectory() as folder:
    for scales in ("row", "block"):
        model = fp8_folder.build(Path(folder) / scales, "tiny", scales)
        # Rows of AMX are not batch-invariant.
        done = subprocess.run([sys.argv[1], model, "cpu", "150", "6"], env={**os.environ, "GA_DISABLE_KERNELS": "*amx*"}, capture_output=True, text=True)
        print(scales, done.stdout, done.stderr)
        if done.returncode or ": 0 answers differ" not in done.stdout:
            sys.exit(1)
