#!/usr/bin/env python3
"""Refuses a kernel whose header comment is not a table. Usage: check_contracts.py [ROOT]

The comment that opens src/cuda/kern/**/*.cu is a table of two columns, a word in capitals and its text:

  /* KERNEL    attn_fwd, sm90a            the word begins in column 4, the text in one column throughout,
   * COMPUTES  O = softmax(Q K^T) V,      in which its further lines begin, too
   *           lse = log sum exp
   * BARRIERS  name    arrivals  waiter   orders
   *           k_full  1+tx      all      TMA write -> wgmma read
   * BUDGET    what     how much
   *           threads  384
   */

KERNEL comes first. COMPUTES, CONTRACT and BUDGET are never missing, BARRIERS is not where mbarriers, named barriers or barriers of a
cluster are used. BARRIERS is a table of the four columns above, or names another kernel's file; BUDGET may be a table of two. A row begins
in the columns of the table's head, and only its last cell goes on in the next line. Steps of the ladder begin with LADDER and need no more."""
import re
import sys
from pathlib import Path

from kernel_decl import text_of

NEEDED = ["COMPUTES", "CONTRACT", "BUDGET"]
WORDS = {"KERNEL", "BARRIERS", "LADDER", "DATA", "WORK", "REF", "MEASURED", "SOFTMAX", "SPEED", "SCHEDULE", "ORDER", "SUMS", "MERGE", *NEEDED}
USES_BARRIERS = re.compile(r"\b(mbar_init|bar_sync|cluster_sync|cluster_arrive)\(")
HEADS = {"BARRIERS": ["name", "arrivals", "waiter", "orders"], "BUDGET": ["what", "how much"]}
WORD = re.compile(r"([A-Z][A-Z_]*(?: [A-Z0-9]+)?) +")
RUN_ON = re.compile(rf"\b({'|'.join(sorted(WORDS))})(\s{{2,}}|\s*$)")  # a word of the first column inside of the second
MOST = 120


class Fault(Exception):
    """(line, text)"""


def header(lines):
    """The lines of the comment that opens the file, without the frame."""
    if not lines or not lines[0].startswith("/* "):
        raise Fault(1, "the file does not begin with a header comment")
    end = next((i for i, line in enumerate(lines) if "*/" in line), None)
    if end is None or lines[end] != " */":
        raise Fault(1, "the header's end is not a line of its own")
    for number, line in enumerate(lines[:end], 1):
        if line[:3] != ("/* " if number == 1 else " * "):
            raise Fault(number, "the line does not begin with \" * \"")
        if len(line) > MOST:
            raise Fault(number, f"the line has {len(line)} characters; at most {MOST}")
    return [line[3:] for line in lines[:end]]


def entries(lines):
    """[(word, its first line's number, lines of text)] of the table of two columns."""
    first = WORD.match(lines[0])
    if not first:
        raise Fault(1, "the first line does not begin with a word in capitals, blanks and a text")
    column, found = first.end(), []
    for number, line in enumerate(lines, 1):
        word, text = line[:column], line[column:]
        if not text or text[0] == " " and word.strip():
            raise Fault(number, f"its text does not begin in column {column + 4}, as the first line's does")
        if word.strip():
            if not WORD.fullmatch(word):
                raise Fault(number, f"\"{line[:column + 8].strip()}...\" is neither a word in capitals nor a text that begins in column {column + 4}")
            found.append((word.strip(), number, [text]))
        else:
            found[-1][2].append(text)
        if RUN_ON.search(text):
            raise Fault(number, f"{RUN_ON.search(text)[1]} stands inside of a text; it begins a line")
    return found


def check_table(word, first, lines):
    head = HEADS[word]
    at = [lines[0].find(name) for name in head]
    if re.split(r"\s{2,}", lines[0].strip()) != head or at[0] != 0:
        raise Fault(first, f"{word} has no head \"{'  '.join(head)}\"")
    for number, line in enumerate(lines[1:], first + 1):
        if not line[:at[-1]].strip():
            if not line[at[-1]:].strip() or line[at[-1]] == " " or number == first + 1:
                raise Fault(number, f"{word}: a line that goes on begins below \"{head[-1]}\"")
            continue
        cells = [line[a:b] for a, b in zip(at, at[1:] + [None])]
        if any(not cell.strip() or cell[0] == " " for cell in cells) or any(not cell.endswith("  ") for cell in cells[:-1]):
            raise Fault(number, f"{word}: its cells do not begin below \"{'  '.join(head)}\", two blanks behind the one before")


def check(name, lines, uses_barriers):
    found = entries(header(lines))
    words = [word for word, _, _ in found]
    if found[0][0].split()[0] == "LADDER":
        return
    if words[0] != "KERNEL":
        raise Fault(1, f"the first word is {words[0]}; must be KERNEL or LADDER")
    for word in NEEDED + (["BARRIERS"] if uses_barriers else []):
        if word not in words:
            raise Fault(1, f"{word} is missing")
    for word in words:
        if words.count(word) > 1:
            raise Fault(found[len(words) - 1 - words[::-1].index(word)][1], f"{word} stands twice")
    for word, first, texts in found:
        if word == "BARRIERS" and re.fullmatch(r"as \w+\.cu", texts[0]):
            continue
        if word == "BARRIERS" or word == "BUDGET" and texts[0].startswith("what "):
            check_table(word, first, texts)


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    files, bad = sorted((root / "src/cuda/kern").rglob("*.cu")), 0
    for path in files:
        try:
            check(path.name, path.read_text().split("\n"), USES_BARRIERS.search(text_of(root, path, set())) is not None)
        except Fault as fault:
            print(f"{path.relative_to(root)}:{fault.args[0]}: {fault.args[1]}")
            bad += 1
    print(f"contracts: {len(files)} kernels, {bad} headers refused")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
