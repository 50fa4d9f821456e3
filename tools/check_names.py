#!/usr/bin/env python3
"""Fails on a function's name that stands in several files, unless tools/shared_names.txt says what it means in all of them;
and on lines of that list that are not needed. Declarations, macros and names in capitals are exempt. Usage: check_names.py [ROOT]"""
import fnmatch
import re
import sys
from pathlib import Path

FOLDERS = ["include", "src", "cmdline", "cli", "verify", "tests", "examples", "python"]
SUFFIXES = {".c", ".h", ".cu", ".cuh", ".cpp"}
LIST = "tools/shared_names.txt"
MOST_LINES = 60
PASSED_OVER = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|^[ \t]*#(?:\\\n|[^\n])*", re.S | re.M)
TOKEN = re.compile(r"\n|\w+|[^\s\w]")
NOT_NAMES = {"__attribute__", "__launch_bounds__", "__align__", "__cluster_dims__", "_Alignas", "defined"}


def code_of(text):
    """Without comments, literals and lines of the preprocessor; lines stay where they are."""
    text = PASSED_OVER.sub(lambda m: "\n" * m[0].count("\n") or " ", text)
    return re.sub(r"extern\s*\{", " ", text)


def functions(text):
    """Names of the functions that a text defines, with their lines."""
    for head in heads(code_of(text)):
        yield from name_of(head)


def heads(code):
    """The tokens, with their lines, before each block that stands in no other."""
    depth, head, line = 0, [], 1
    for match in TOKEN.finditer(code):
        token = match[0]
        if token == "\n":
            line += 1
        elif token == "{":
            if depth == 0:
                yield head
            depth, head = depth + 1, []
        elif token == "}":
            depth, head = max(depth - 1, 0), []
        elif depth == 0:
            head = [] if token == ";" else head + [(token, line)]


def name_of(head):
    """The name before the last pair of parentheses that stands in no other."""
    words, found, depth = [token for token, _ in head], None, 0
    if "=" in words or words[:1] == ["typedef"]:
        return
    for i, word in enumerate(words):
        if word == "(":
            if depth == 0 and i and re.match(r"[A-Za-z_]", words[i - 1]) and words[i - 1] not in NOT_NAMES:
                found = head[i - 1]
            depth += 1
        elif word == ")":
            depth -= 1
    if found and not found[0].isupper():
        yield found


class Shared:
    """A line of the list: names | files | what they mean in each."""

    def __init__(self, number, text):
        parts = [part.strip() for part in text.split("|")]
        if len(parts) != 3 or not all(parts):
            raise SystemExit(f"{LIST}:{number}: write it as: names | files | what they mean in each")
        self.number, self.unused_names, self.unused_files = number, set(parts[0].split()), set(parts[1].split())
        self.names, self.files = sorted(self.unused_names), sorted(self.unused_files)

    def allows(self, name, files):
        names = [n for n in self.names if fnmatch.fnmatchcase(name, n)]
        if not names or not all(any(fnmatch.fnmatchcase(f, g) for g in self.files) for f in files):
            return False
        self.unused_names -= set(names)
        self.unused_files -= {g for g in self.files if any(fnmatch.fnmatchcase(f, g) for f in files)}
        return True


def defined(root):
    """{name: {file: line}}"""
    where = {}
    for path in sorted(p for folder in FOLDERS for p in (root / folder).rglob("*") if p.suffix in SUFFIXES):
        for name, line in functions(path.read_text(errors="replace")):
            where.setdefault(name, {}).setdefault(str(path.relative_to(root)), line)
    return where


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    lines = enumerate((root / LIST).read_text().splitlines(), 1)
    shared = [Shared(number, text) for number, text in lines if text.strip() and not text.startswith("#")]
    where, several, bad = defined(root), 0, 0
    for name, files in where.items():
        if len(files) == 1:
            continue
        several += 1
        if not [one for one in shared if one.allows(name, files)]:
            print(f"{name}: {', '.join(f'{f}:{line}' for f, line in files.items())}: name it by what it does there, or list it in {LIST}")
            bad += 1
    for one in shared:
        for text in sorted(one.unused_names | one.unused_files):
            print(f"{LIST}:{one.number}: {text} is not needed")
            bad += 1
    if len(shared) > MOST_LINES:
        print(f"{LIST}: {len(shared)} lines; at most {MOST_LINES}")
        bad += 1
    print(f"names: {len(where)} functions, {several} names in several files by {len(shared)} lines of {LIST}; {bad} to change")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
