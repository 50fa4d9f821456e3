#!/usr/bin/env python3
"""Fails on a circle of more than three files that need each other, unless tools/circles.txt lists it; and on files of that list
that are in no circle. Usage: check_circles.py [ROOT]

x.c and x.h are one file. A file needs another one when it names a function or an object that the other alone defines, and includes, if
indirectly, a header that names it, too. Names with several definitions, as those of op templates, need none of them."""
import re
import sys
from pathlib import Path

from check_names import code_of, heads, name_of

FOLDERS = ["src", "cmdline", "cli", "verify"]
LIST = "tools/circles.txt"
MOST = 3
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
OBJECT = re.compile(r"^(?!static|extern|typedef|return)(?:[A-Za-z_]\w*[ *]+)+(\w+)(?:\[[^\]]*\])*\s*=", re.M)
WORD = re.compile(r"(?<![\w.>])[A-Za-z_]\w*")


class File:
    """A .c or .h file: what it defines for others, all names in it, and what it includes."""

    def __init__(self, text):
        code = code_of(text)
        self.words = set(WORD.findall(code))
        self.includes = INCLUDE.findall(text)
        self.defines, self.own = set(OBJECT.findall(code)), set()
        for head in heads(code):
            is_own = any(token == "static" for token, _ in head)
            (self.own if is_own else self.defines).update(name for name, _ in name_of(head))


def read_files(root):
    return {str(path.relative_to(root)): File(path.read_text(errors="replace"))
            for folder in FOLDERS for path in sorted((root / folder).rglob("*")) if path.suffix in {".c", ".h"}}


def unit_of(name):
    return name.rsplit(".", 1)[0]


def path_of(include, files):
    """Includes are written from the root, or from src."""
    return next((p for p in (include, "src/" + include) if p in files), None)


def headers_of(name, files, seen=None):
    """All headers that a file includes, directly or not."""
    seen = set() if seen is None else seen
    for include in files[name].includes:
        path = path_of(include, files)
        if path and path not in seen:
            seen.add(path)
            headers_of(path, files, seen)
    return seen


def needs(files):
    """{file without its suffix: those that it needs}"""
    definers = {}
    for name, file in files.items():
        for word in file.defines:
            definers.setdefault(word, set()).add(unit_of(name))
    alone = {word: next(iter(units)) for word, units in definers.items() if len(units) == 1}
    graph = {unit_of(name): set() for name in files}
    for name, file in files.items():
        declared = None
        for word in (file.words & alone.keys()) - file.own:
            if alone[word] == unit_of(name):
                continue
            if declared is None:
                declared = set().union(*(files[h].words for h in headers_of(name, files)), set())
            if word in declared:
                graph[unit_of(name)].add(alone[word])
    return graph


def circles(graph):
    """Groups of more than MOST files of which each needs each other, if indirectly (Tarjan, 1972)."""
    order, low, stack, on, found = {}, {}, [], set(), []

    def visit(start):
        work = [(start, iter(sorted(graph[start])))]
        order[start] = low[start] = len(order)
        stack.append(start)
        on.add(start)
        while work:
            unit, rest = work[-1]
            for other in rest:
                if other not in order:
                    order[other] = low[other] = len(order)
                    stack.append(other)
                    on.add(other)
                    work.append((other, iter(sorted(graph[other]))))
                    break
                if other in on:
                    low[unit] = min(low[unit], order[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[unit])
                if low[unit] == order[unit]:
                    at = stack.index(unit)
                    group = stack[at:]
                    del stack[at:]
                    on.difference_update(group)
                    if len(group) > MOST:
                        found.append(sorted(group))

    for unit in sorted(graph):
        if unit not in order:
            visit(unit)
    return sorted(found)


def listed(root):
    """Circles that are known: files with blanks between, a circle a line."""
    return [set(line.split()) for line in (root / LIST).read_text().splitlines() if line.strip() and not line.startswith("#")]


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    found, known = circles(needs(read_files(root))), listed(root)
    bad = 0
    for group in found:
        if not any(line.issuperset(group) for line in known):
            bad += 1
            print(f"{len(group)} files need each other; at most {MOST}. Cut the circle, or list it in {LIST}:\n  {' '.join(group)}")
    for name in sorted(set().union(*known) - set().union(*found)):
        bad += 1
        print(f"{LIST}: {name} is in no circle: leave it out")
    print(f"circles: {len(found)} of more than {MOST} files, the largest of {max(map(len, found), default=0)}; {bad} to change")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
