#!/usr/bin/env python3
"""Whole models on the CUDA emulator, Llama- and Gemma-shaped: the same greedy tokens as on the CPU, with caches of several types; --explain
names every op.
usage: tokens.py GA_EMU"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
import tiny_gguf  # noqa: E402


def answer(program, model, device, *options):
    env = {**os.environ, "GA_EMU": "seed=5"}
    command = [program, "run", "-m", model, "-d", device, "--raw", "--temp", "0", "-n", "6", "-q", "--ignore-eos", *options, "ab"]
    done = subprocess.run(command, capture_output=True, env=env, timeout=600)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stderr.decode()}")
    return done.stdout, done.stderr.decode()


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        path, gemma = Path(folder) / "tiny.gguf", Path(folder) / "gemma.gguf"
        path.write_bytes(tiny_gguf.build())
        gemma.write_bytes(tiny_gguf.build(*tiny_gguf.gemma()))
        for model, options in ((path, []), (path, ["--kv-type", "f32"]), (gemma, []), (gemma, ["--kv-type", "q8_0"])):
            want, _ = answer(program, model, "cpu", *options)
            got, _ = answer(program, model, "emu", *options)
            if got != want:
                sys.exit(f"{model.name} {options}: emulator {got!r}, CPU {want!r}")
        _, text = answer(program, path, "emu", "--explain")
        for op in ("gemm", "attn", "kv_store", "sample"):
            if f"\n{op} " not in "\n" + text:
                sys.exit(f"--explain does not tell of {op}:\n{text}")
    print("tokens agree")


if __name__ == "__main__":
    main()
