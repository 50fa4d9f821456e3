#!/usr/bin/env python3
"""Fails on an #include that goes up the layers of src/LAYERS, and on code outside of src/model/arch/ that asks which
architecture a model is. Usage: check_layers.py [ROOT]"""
import re
import sys
from pathlib import Path

ARCH_HOME = "src/model/arch/"
# What runs models. File formats and tokenizers have names of their own, which they compare.
ARCH_BLIND = ("include/", "src/base/", "src/core/", "src/cpu/", "src/cuda/", "src/op/", "src/model/", "src/engine/", "cli/",
              "verify/")
INCLUDE = re.compile(r'\s*#\s*include\s+["<]([^">]+)[">]')


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


def read_archs(root):
    """What asking for an architecture looks like: its descriptor, its name compared, a model told by its size, or the
    instruction set of a device where models are."""
    texts = [path.read_text() for path in sorted((root / ARCH_HOME).glob("*.c"))]
    names = "|".join(name for text in texts for name in re.findall(r"^const ga_arch_desc ga_arch_(\w+) =", text, re.M))
    assert names, f"no descriptors in {ARCH_HOME}"
    return re.compile(rf'\b(GA_MODEL|ga_arch)_({names})\b|cmp\([^;]*"({names})"|n_layers\s*[!=]=\s*[0-9]')


def asks_for_arch(rel, line, archs):
    if rel.startswith(ARCH_HOME) or not rel.startswith(ARCH_BLIND):
        return False
    in_models = rel.startswith(("src/model/", "src/engine/"))
    return archs.search(line) or (in_models and "GA_ISA_sm" in line)


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    layers = read_layers(root)
    archs = read_archs(root)
    folders = {Path(layer).name for layer in layers}
    bad = asked = 0
    for path in sorted(root.glob("*/**/*")):
        rel = str(path.relative_to(root))
        layer = layer_of(rel, layers)
        if layer is None or path.suffix not in {".c", ".h", ".cu", ".cuh", ".def", ".inc"}:
            continue
        own = Path(layer).name
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if asks_for_arch(rel, line, archs):
                print(f"{rel}:{number}: asks which architecture this is; {ARCH_HOME} alone may")
                asked += 1
            match = INCLUDE.match(line)
            if not match:
                continue
            target = match[1]
            folder = target.split("/")[0]
            if "<" in match[0] and folder not in folders:  # a library's
                continue
            if "/" not in target and own == "examples":  # they stand alone, as a user's program does
                continue
            if "/" not in target or target.startswith("../"):
                print(f'{rel}:{number}: include "{target}" by its path from src/ or include/')
                bad += 1
            elif folder != own and folder not in layers[layer]:
                print(f"{rel}:{number}: {layer} may not include {folder}/")
                bad += 1
    print(f"layers: {bad} forbidden includes, {asked} questions for an architecture")
    return bad + asked > 0


if __name__ == "__main__":
    sys.exit(main())
