#!/usr/bin/env python3
"""Fails on an #include that src/LAYERS does not allow, on a line there that allows a folder of no lower rank, on code
outside of src/model/arch/ that asks which architecture a model is, and on code outside of src/model/memory/ that names a
kind of layer memory. Usage: check_layers.py [ROOT]"""
import re
import sys
from pathlib import Path

ARCH_HOME = "src/model/arch/"
# What runs models. File formats and tokenizers have names of their own, which they compare.
ARCH_BLIND = ("include/", "src/base/", "src/core/", "src/cpu/", "src/cuda/", "src/op/", "src/model/", "src/engine/", "cmdline/",
              "cli/", "verify/")
MEMORY_HOME = "src/model/memory/"
INCLUDE = re.compile(r'\s*#\s*include\s+["<]([^">]+)[">]')


def read_layers(root):
    """{folder: what it may include}, {folder: its rank}"""
    layers, ranks = {}, {}
    for line in (root / "src/LAYERS").read_text().splitlines():
        line = line.split("#")[0]
        if line.strip():
            head, allowed = line.split(":")
            rank, folder = head.split()
            layers[folder], ranks[folder] = set(allowed.split()), float(rank)
    return layers, ranks


def uphill(layers, ranks):
    """Lines of LAYERS that allow a folder of the same rank or a higher one, or an unknown folder."""
    rank_of = {Path(folder).name: rank for folder, rank in ranks.items()}
    found = 0
    for folder, allowed in layers.items():
        for name in sorted(allowed - {Path(folder).name}):
            rank = rank_of.get(name.split("/")[0])
            if rank is None or rank >= ranks[folder]:
                print(f"src/LAYERS: {folder} (rank {ranks[folder]}) may not include {name} (rank {rank})")
                found += 1
    return found


def may_include(target, allowed):
    return any(target == name or target.startswith(name + "/") for name in allowed)


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


def read_kinds(root):
    """What naming a kind of layer memory looks like: its declaration, its name in quotes, a header of its folder."""
    texts = [path.read_text() for path in sorted((root / MEMORY_HOME).glob("*.c"))]
    kinds = [kind for text in texts for kind in re.findall(r"^const memory_kind_type (\w+) =", text, re.M)]
    names = [name for text in texts for name in re.findall(r'\.name = "(\w+)"', text)]
    assert kinds and len(kinds) == len(names), f"{len(kinds)} kinds and {len(names)} names in {MEMORY_HOME}"
    return re.compile(rf'\b({"|".join(kinds)})\b|"({"|".join(names)})"|"model/memory/')


def names_kind(rel, line, kinds):
    return not rel.startswith(MEMORY_HOME) and rel.startswith(ARCH_BLIND) and kinds.search(line)


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    layers, ranks = read_layers(root)
    archs = read_archs(root)
    kinds = read_kinds(root)
    folders = {Path(layer).name for layer in layers}
    bad, asked, named = uphill(layers, ranks), 0, 0
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
            if names_kind(rel, line, kinds):
                print(f"{rel}:{number}: names a kind of layer memory; {MEMORY_HOME} alone may")
                named += 1
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
            elif folder != own and not may_include(target, layers[layer]):
                print(f"{rel}:{number}: {layer} may not include {target}")
                bad += 1
    print(f"layers: {bad} forbidden includes, {asked} questions for an architecture, {named} kinds of memory named")
    return bad + asked + named > 0


if __name__ == "__main__":
    sys.exit(main())
