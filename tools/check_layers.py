#!/usr/bin/env python3
"""Fails on an #include that goes up the layers of src/LAYERS. Usage: check_layers.py [ROOT]"""
import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'\s*#\s*include\s+"([^"]+)"')


def read_layers(root):
    layers = {}
    for line in (root / "src/LAYERS").read_text().splitlines():
        line = line.split("#")[0]
        if line.strip():
            head, allowed = line.split(":")
            layers[head.split()[1]] = set(allowed.split())
    return layers


def layer_of(path, layers):
    return max((d for d in layers if path.startswith(d + "/")), key=len, default=None)


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    layers = read_layers(root)
    bad = 0
    for path in sorted(root.glob("*/**/*")):
        rel = str(path.relative_to(root))
        layer = layer_of(rel, layers)
        if layer is None or path.suffix not in {".c", ".h", ".cu", ".cuh", ".def", ".inc"}:
            continue
        own = Path(layer).name
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            target = match[1]
            folder = target.split("/")[0]
            if "/" not in target and own == "examples":  # they stand alone, as a user's program does
                continue
            if "/" not in target or target.startswith("../"):
                print(f'{rel}:{number}: include "{target}" by its path from src/ or include/')
                bad += 1
            elif folder != own and folder not in layers[layer]:
                print(f"{rel}:{number}: {layer} may not include {folder}/")
                bad += 1
    print(f"layers: {bad} forbidden includes")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
