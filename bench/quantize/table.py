#!/usr/bin/env python3
"""A model to every type: size, seconds, perplexity and divergence from the source, as rows of a Markdown table.

    table.py GA COMPARE SOURCE.gguf FOLDER [TYPE...]

COMPARE is bench/quantize/compare.c, built. FOLDER takes the files; they are not removed. Each type is written twice where an
importance matrix changes it: even, and weighted by one of another part of the text."""
import json
import os
import subprocess
import sys

TYPES = "bf16 q8_0 q6_k q5_k_m q5_k_s q5_1 q5_0 q4_k_m q4_k_s iq4_nl iq4_xs q4_1 q4_0 mxfp4 q3_k_l q3_k_m q3_k_s q2_k q2_k_s".split()
WEIGHTED = "q4_k_m iq4_xs q4_0 q3_k_m q2_k".split()
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main():
    ga, compare, source, folder = sys.argv[1:5]
    text = open(os.path.join(ROOT, "tests/data/english.txt"), "rb").read()
    scored, read = os.path.join(folder, "scored.txt"), os.path.join(folder, "read.txt")
    with open(scored, "wb") as f:
        f.write(text[:100_000])
    with open(read, "wb") as f:
        f.write(text[150_000:250_000])
    matrix = os.path.join(folder, "matrix.gguf")
    subprocess.run([ga, "imatrix", "-m", source, "-f", read, "-o", matrix, "--limit", "24", "--force"], check=True)
    rows, files = [], []
    for kind in sys.argv[5:] or TYPES:
        for weighted in (False, True) if kind in WEIGHTED else (False,):
            path = os.path.join(folder, kind + ("-i" if weighted else "") + ".gguf")
            more = ["-i", matrix] if weighted else []
            out = subprocess.run([ga, "quantize", source, path, kind, "--force", "--json", *more], check=True, capture_output=True)
            rows.append((kind + (", weighted" if weighted else ""), os.path.getsize(path), json.loads(out.stdout)["seconds"]))
            files.append(path)
    out = subprocess.run([compare, scored, "256", "8", source, *files], check=True, capture_output=True, text=True).stdout
    found = [json.loads(line) for line in out.splitlines()]
    print("| type | MB | seconds | perplexity | KL | same first token |\n|---|---|---|---|---|---|")
    print(f"| source | {os.path.getsize(source) / 1e6:.1f} | | {found[0]['perplexity']:.3f} | 0 | 100 % |")
    for (kind, size, seconds), f in zip(rows, found[1:]):
        print(f"| {kind} | {size / 1e6:.1f} | {seconds:.1f} | {f['perplexity']:.3f} | {f['kl']:.5f} | {100 * f['same_top']:.1f} % |")


if __name__ == "__main__":
    main()
