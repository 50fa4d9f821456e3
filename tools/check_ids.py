#!/usr/bin/env python3
"""Every kernel's id stands in src once: in its declaration. So one grep finds it. Usage: check_ids.py [ROOT]"""
import re
import sys
from pathlib import Path

import kernel_decl

SUFFIXES = {".toml", ".c", ".h", ".cu", ".cpp"}


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    ids = {row.id for file in kernel_decl.read(root) for row in file.rows}
    lines = dict.fromkeys(ids, 0)
    bad = 0
    for path in sorted(p for p in (root / "src").rglob("*") if p.suffix in SUFFIXES):
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            for word in set(re.findall(r"\w+", line)) & ids:
                lines[word] += 1
                if lines[word] > 1:
                    print(f"{path.relative_to(root)}:{number}: {word} stands elsewhere, too; name it by its fields")
                    bad += 1
    for name in sorted(i for i, n in lines.items() if n == 0):
        print(f"{name}: nowhere in src")
        bad += 1
    print(f"ids: {len(ids)} kernels, {bad} that one grep does not find")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
