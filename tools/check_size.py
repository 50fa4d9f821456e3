#!/usr/bin/env python3
"""Fails on files over 800 lines and functions over 150; prints medians. Tables (.def, data) are exempt.

Functions are found by layout: a line that starts in column 1, ends in "{" and has a "(", up to the "}" in column 1.
Usage: check_size.py [ROOT]"""
import re
import statistics
import sys
from pathlib import Path

FILE_LIMIT, FUNCTION_LIMIT, GOAL = 800, 150, 50
FOLDERS = ["include", "src", "cmdline", "cli", "verify", "tools", "tests", "examples", "python"]
HEAD = re.compile(r"^[A-Za-z_].*\(.*")


def functions(lines):
    start, name = None, ""
    for number, line in enumerate(lines, 1):
        if start is None and HEAD.match(line) and not line.rstrip().endswith(";"):
            match = re.search(r"(\w+)\s*\(", line)
            start, name, opened = number, match[1] if match else "?", line.rstrip().endswith("{")
        elif start is not None and line.startswith("}"):
            if opened:
                yield name, start, number - start + 1
            start = None
        elif start is not None and line.rstrip().endswith("{"):
            opened = True
        elif start is not None and not opened and (line.rstrip().endswith(";") or not line.strip()):
            start = None


def is_table(lines):
    """Generated or data: hardly any line has a statement."""
    return "/* table */" in "".join(lines[:3])


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    files, sizes, bad = [], [], 0
    for path in sorted(p for f in FOLDERS for p in (root / f).rglob("*")):
        if path.suffix not in {".c", ".h", ".cu", ".cuh", ".py"} or "data" in path.relative_to(root).parts:
            continue
        lines = path.read_text(errors="replace").splitlines(True)
        if is_table(lines):
            continue
        files.append(len(lines))
        if len(lines) > FILE_LIMIT:
            print(f"{path}: {len(lines)} lines; at most {FILE_LIMIT}")
            bad += 1
        if path.suffix == ".py":
            continue
        for name, start, length in functions(lines):
            sizes.append(length)
            if length > FUNCTION_LIMIT:
                print(f"{path}:{start}: {name} has {length} lines; at most {FUNCTION_LIMIT}")
                bad += 1
    within = 100 * sum(s <= GOAL for s in sizes) / len(sizes)
    print(f"sizes: {len(files)} files, median {statistics.median(files):.0f}, max {max(files)}; {len(sizes)} functions, "
          f"median {statistics.median(sizes):.0f}, max {max(sizes)}, {within:.1f} % within {GOAL}; {bad} too long")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
