#!/usr/bin/env python3
"""Fails on comments of C headers and of kernels (.cu) that a stranger cannot read: their subject is left out, or they use words of order and
property that have a clearer one.

A comment must not begin with a word of BEGINNINGS, nor in a header with one of FIELD_BEGINNINGS, nor have a phrase of PHRASES, nor directly follow another one: one of the two is
old, or belongs to something else.
Usage: check_comments.py [ROOT]"""
import re
import sys
from pathlib import Path

BEGINNINGS = re.compile(r"^(Of|What|Those|These that|It is so|One that|One of|As any|As many|The same of|Likewise|So (late|many|few|long)|To be|Told|Asked|Given to|Made of|Made when)\b")
FIELD_BEGINNINGS = re.compile(r"^(of|by|that|behind)\b")  # of headers: such a comment leans on the declaration
PHRASES = re.compile(
    r"\b(is nobody's|as any\b|goes? behind|come(s)? behind|stands? behind|lies? behind|behind (it|them|all|that|this|what|which|the (last|others|work|step))|ahead of (it|them|what)|"
    r"told (of|to|by|in|with)|is told|gives? up|is asked for\b|for itself alone|of its kind alone|as it is\.$|is as any|nobody will)"
)
FOLDERS = ("include", "src", "cmdline", "cli", "verify")
COMMENT = re.compile(r"/\*(.*?)\*/", re.S)
PAIR = re.compile(r"^[ \t]*/\*(?:(?!\*/).)*\*/[ \t]*\n[ \t]*/\*(?! clang-format)((?:(?!\*/).)*)\*/[ \t]*$", re.S | re.M)


def faults(text, is_header):
    for m in COMMENT.finditer(text):
        body = " ".join(line.strip().lstrip("*").strip() for line in m[1].split("\n")).strip()
        first = BEGINNINGS.match(body) or (is_header and FIELD_BEGINNINGS.match(body))
        phrase = PHRASES.search(body)
        if first or phrase:
            yield text.count("\n", 0, m.start()) + 1, (first or phrase)[0], body
    for m in PAIR.finditer(text):
        if "---" not in m[0]:  # marks of sections
            yield text.count("\n", 0, m.start(1)) + 1, "a second comment", m[1].strip()


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    files = sorted(p for f in FOLDERS for p in (root / f).rglob("*") if p.suffix in {".h", ".cu"})
    bad = 0
    for path in files:
        for line, word, body in faults(path.read_text(), path.suffix == ".h"):
            print(f"{path.relative_to(root)}:{line}: '{word}': {body[:110]}")
            bad += 1
    print(f"comments: {len(files)} headers and kernels, {bad} comments to mend")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
