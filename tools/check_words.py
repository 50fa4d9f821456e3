#!/usr/bin/env python3
"""Fails on text that does not belong in a tree that others read: paths of one machine, notes without an issue,
tabs and blanks at line ends, lines that no screen holds, built files. Usage: check_words.py [ROOT]"""
import re
import subprocess
import sys
from pathlib import Path

RULES = [
    (re.compile(r"(?<![\w.:])/(?:home|root|work|Users)/\w"), "a path of one machine"),
    (re.compile(r"\b(?:TODO|FIXME|XXX)\b(?!\(#\d+\))"), "a note without an issue: write it as WORD(#12)"),
    (re.compile(r"[ \t]+$"), "blanks at the end of the line"),
    (re.compile(r"^(<{7}|>{7}|={7}$)"), "a merge conflict"),
]
CODE_RULES = [(re.compile(r"\t"), "a tab"), (re.compile(r"^.{151,}"), "more than 150 characters")]
BUILT = {".o", ".a", ".so", ".whl", ".pyc", ".cubin", ".exe", ".gguf"}
GENERATED = {"src/cuda/dev/ptx/wgmma.h", "src/cuda/dev/ptx/wgmma8.h", "src/cuda/dev/ptx/wgmma_t.h"}  # one asm statement a line, by tools/gen_wgmma.py
CODE = {".c", ".h", ".cu", ".cuh"}
TEXT = CODE | {".py", ".md", ".txt", ".cmake", ".sh", ".def", ".json", ".yml"}


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    names = subprocess.run(["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"], check=True, capture_output=True, text=True).stdout.splitlines()
    bad = 0
    for name in names:
        path = root / name
        if path.suffix in BUILT and not (path.suffix == ".gguf" and name.startswith("tests/data/arch/")):  # tiny models
            print(f"{name}: a built file")
            bad += 1
        if path.suffix not in TEXT or {"data", "refs"} & set(Path(name).parts) or name.startswith("tools/check_words") or not path.exists():
            continue
        rules = RULES + (CODE_RULES if path.suffix in CODE and name not in GENERATED else [])
        for number, line in enumerate(path.read_text(errors="replace").split("\n"), 1):
            for rule, what in rules:
                if rule.search(line):
                    print(f"{name}:{number}: {what}")
                    bad += 1
    print(f"words: {bad} to change")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
