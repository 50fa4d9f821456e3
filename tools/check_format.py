#!/usr/bin/env python3
"""Fails on C and CUDA code that clang-format 14 would change, and on lines longer than its limit. Usage: check_format.py [ROOT]

Exit code 77 (skipped) where there is no clang-format 14: another version breaks lines elsewhere. `make format` applies it."""
import re
import shutil
import subprocess
import sys
from pathlib import Path

LIMIT = 120
SUFFIXES = {".c", ".h", ".cu", ".cpp"}
# One asm statement a line, by tools/gen_wgmma.py.
GENERATED = {f"src/cuda/dev/ptx/{name}.h" for name in ("wgmma", "wgmma8", "wgmma_t")}


def formatter():
    for name in ("clang-format-14", "clang-format"):
        if shutil.which(name):
            version = subprocess.run([name, "--version"], capture_output=True, text=True).stdout
            if re.search(r"version 14\.", version):
                return name
    return None


def files(root):
    names = subprocess.run(["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"], check=True, capture_output=True, text=True).stdout.splitlines()
    return [n for n in names if Path(n).suffix in SUFFIXES and n not in GENERATED and (root / n).exists()]


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    names, bad = files(root), 0
    for name in names:
        for number, line in enumerate((root / name).read_text(errors="replace").split("\n"), 1):
            if len(line) > LIMIT:
                print(f"{name}:{number}: {len(line)} characters; at most {LIMIT}")
                bad += 1
    tool = formatter()
    if not tool:
        print("format: no clang-format 14 here, so only lengths of lines were looked at")
        return 1 if bad else 77
    log = subprocess.run([tool, "-n", "--ferror-limit=0", *names], cwd=root, capture_output=True, text=True).stderr
    places = re.findall(r"^(\S+?:\d+):\d+: warning: code should be clang-formatted", log, re.M)
    for place in places[:20]:
        print(f"{place}: not as clang-format writes it; `make format`")
    bad += len(places)
    print(f"format: {len(names)} files, {bad} places to change")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
