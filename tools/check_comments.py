#!/usr/bin/env python3
"""Fails on comments of C headers and of kernels (.cu) that a stranger cannot read: their subject is left out, or they use words of order and
property that have a clearer one.

A comment must not begin with a word of BEGINNINGS, nor have a phrase of PHRASES.
Usage: check_comments.py [ROOT]"""
import re
import sys
from pathlib import Path

BEGINNINGS = re.compile(r"^(Of|What|Those|These that|It is so|One that|One of|As any|As many|The same of|Likewise|So (late|many|few|long)|To be|Told|Asked|Given to|Made of|Made when)\b")
PHRASES = re.compile(
    r"\b(is nobody's|as any\b|goes? behind|come(s)? behind|stands? behind|lies? behind|behind (it|them|all|that|this|what|which|the (last|others|work|step))|ahead of (it|them|what)|"
    r"told (of|to|by|in|with)|is told|gives? up|is asked for\b|for itself alone|of its kind alone|as it is\.$|is as any|nobody will)"
)
FOLDERS = ("include", "src", "cmdline", "cli", "verify")
COMMENT = re.compile(r"/\*(.*?)\*/", re.S)


def faults(text):
    for m in COMMENT.finditer(text):
        body = " ".join(line.strip().lstrip("*").strip() for line in m[1].split("\n")).strip()
        first = BEGINNINGS.match(body)
        phrase = PHRASES.search(body)
        if first or phrase:
            yield text.count("\n", 0, m.start()) + 1, (first or phrase)[0], body


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    files = sorted(p for f in FOLDERS for p in (root / f).rglob("*") if p.suffix in {".h", ".cu"})
    bad = 0
    for path in files:
        for line, word, body in faults(path.read_text()):
            print(f"{path.relative_to(root)}:{line}: '{word}': {body[:110]}")
            bad += 1
    print(f"comments: {len(files)} headers and kernels, {bad} comments to mend")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
