#!/usr/bin/env python3
"""Compares the CUDA images of two builds, which shows that a change of sources changed no machine code: nvcc makes the same
bytes of the same tokens. Usage: compare_images.py BUILD_A BUILD_B

Images are compressed: one whose kernel got another name differs in any case. A static
function that is not inlined has a hash of its source's text in its name, and its image differs when a comment changes."""
import sys
from pathlib import Path


def images(build):
    return {p.name.removesuffix(".image"): p for p in (Path(build) / "cuda").glob("*.image")}


def main():
    a, b = images(sys.argv[1]), images(sys.argv[2])
    bad = 0
    for name, path in sorted(a.items()):
        other = b.pop(name, None)
        if not other:
            print(f"{name}: only in {sys.argv[1]}")
            bad += 1
        elif path.read_bytes() != other.read_bytes():
            print(f"{name}: differs")
            bad += 1
    for name in sorted(b):
        print(f"{name}: only in {sys.argv[2]}")
        bad += 1
    print(f"images: {len(a)} compared, {bad} not alike")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
