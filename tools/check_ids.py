#!/usr/bin/env python3
"""Every kernel's id stands in src once: in its declaration. So one grep finds it. And every CUDA row is in a group of
tests/cuda/check_all.sh, whose patterns all name rows. Usage: check_ids.py [ROOT]"""
import fnmatch
import re
import sys
from pathlib import Path

import kernel_decl

SUFFIXES = {".toml", ".c", ".h", ".cu", ".cpp"}


GROUP = re.compile(r"^(?:check \w+|short=) ?'([^']+)'", re.M)


def not_checked(root, files):
    """What is wrong with the groups of rows that a GPU checks."""
    rows = [row for row in kernel_decl.rows_of(files, "cuda") if row["op"] not in kernel_decl.NOT_IN_TABLE and "step" not in row.get("flags", [])]
    text = (root / "tests/cuda/check_all.sh").read_text()
    for quoted in re.findall(r"'([^'\n]*\*[^'\n]*)'", text):
        for pattern in quoted.split(","):
            if not fnmatch.filter([row.id for row in rows], pattern):
                yield f"tests/cuda/check_all.sh: {pattern} names no row"
    patterns = [p for group in GROUP.findall(text) for p in group.split(",")]
    for row in rows:
        if not any(fnmatch.fnmatchcase(row.id, p) for p in patterns):
            yield f"{row.id}: in no group of tests/cuda/check_all.sh"


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    files = kernel_decl.read(root)
    ids = {row.id for file in files for row in file.rows}
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
    ungrouped = list(not_checked(root, files))
    print(*ungrouped, sep="\n", end="\n" if ungrouped else "")
    print(f"ids: {len(ids)} kernels, {bad} that one grep does not find, {len(ungrouped)} wrong groups of tests/cuda/check_all.sh")
    return bad > 0 or bool(ungrouped)


if __name__ == "__main__":
    sys.exit(main())
