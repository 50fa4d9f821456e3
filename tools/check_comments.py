#!/usr/bin/env python3
"""Fails on comments of C headers that a stranger cannot read: their subject is left out, or they use words of order and
property that have a clearer one.

A comment must not begin with a word of BEGINNINGS, nor have a phrase of PHRASES. Files that still have some are listed with
their number in tools/comments_left.txt; a number may fall, and never rise.
Usage: check_comments.py [ROOT] [--all FILE...] [--write]"""
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
    args = [a for a in sys.argv[1:] if not a.startswith("--")]
    root = Path(args[0] if args else ".")
    names = args[1:]
    left_file = root / "tools/comments_left.txt"
    left = {}
    if left_file.exists():
        for line in left_file.read_text().split("\n"):
            if line and not line.startswith("#"):
                number, name = line.split()
                left[name] = int(number)
    files = [root / n for n in names] if names else sorted(p for f in FOLDERS for p in (root / f).rglob("*.h"))
    found, bad, total = {}, 0, 0
    for path in files:
        name = str(path.relative_to(root))
        here = list(faults(path.read_text()))
        total += len(here)
        if here:
            found[name] = len(here)
        if "--all" in sys.argv or len(here) > left.get(name, 0):
            for line, word, body in here:
                print(f"{name}:{line}: '{word}': {body[:110]}")
            bad += len(here) > left.get(name, 0)
        elif len(here) < left.get(name, 0) and "--write" not in sys.argv and not names:
            print(f"{name} has {len(here)} left, the list says {left[name]}: tools/check_comments.py . --write")
            bad += 1
    if "--write" in sys.argv:
        lines = [f"{n} {name}" for name, n in sorted(found.items()) if n <= left.get(name, n)]
        left_file.write_text("# Comments that tools/check_comments.py finds, by file. Numbers may fall, never rise.\n" + "\n".join(lines) + "\n")
    print(f"comments: {len(files)} headers, {total} comments to mend, {bad} files to change")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
