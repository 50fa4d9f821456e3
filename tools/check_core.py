#!/usr/bin/env python3
"""Fails where src/core names an op: its number, its types, its constants, its header or, where the name is no English word,
the word. Usage: check_core.py [ROOT]

The names are those of src/op/*.toml."""
import re
import sys
from pathlib import Path

import op_decl

ENGLISH = {"pack", "norm", "act", "add", "embed", "convert", "sample", "rope"}  # as words alone they mean something else


def patterns(names, headers):
    any_op = "|".join(sorted(names, key=len, reverse=True))
    words = "|".join(name for name in names if name not in ENGLISH)
    return [(re.compile(rf"\bGA_OP_(?!COUNT)\w+"), "the number of an op"),
            (re.compile(rf"\bga_({any_op})(_desc|_io|_fused\w*|_plan|_run)?\b"), "a type or function of an op"),
            (re.compile(rf"\bGA_({any_op.upper()})_"), "a constant of an op"),
            (re.compile(rf'"({any_op})"'), "the name of an op"),
            (re.compile(rf"#\s*include \"({'|'.join(sorted(headers))}|opdef/)"), "a header of ops"),
            (re.compile(rf"\b({words})s?\b"), "the name of an op")]


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    names = op_decl.names(root)
    checks = patterns(names, {"ga/all_reduce.h"} | {op.data["header"] for op in op_decl.read(root)[0]})
    files = sorted(path for path in (root / "src/core").iterdir() if path.suffix in {".c", ".h"})
    bad = 0
    for path in files:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for pattern, what in checks:
                if match := pattern.search(line):
                    print(f"{path.relative_to(root)}:{number}: {match[0]}: {what}; src/opdef is the place")
                    bad += 1
                    break
    print(f"core: {len(files)} files, {len(names)} ops, {bad} places that name one")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
