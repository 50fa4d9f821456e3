#!/usr/bin/env python3
"""Writes src/model/unicode_tables.inc: the character classes that tokenizers ask for, as a two-stage table.

Usage: gen_unicode.py           rewrite the table
       gen_unicode.py --check   exit 1 when the committed table is not what this script writes

General categories come from Python's unicodedata and must be those of Unicode 14.0.0 (Python 3.11), the version of
PCRE2 10.42 in Debian 12, which the tests compare with. Another version of Python is refused, so that the committed
table does not depend on who runs the script; --check then says that it was skipped and exits 77.
"""
import sys
import unicodedata
from pathlib import Path

VERSION = "14.0.0"
TABLE = Path(__file__).resolve().parent.parent / "src/model/unicode_tables.inc"
BLOCK_BITS = 7
LETTER, NUMBER, MARK, SPACE, PUNCT, OTHER, NONSPACING = (1 << i for i in range(7))

# The White_Space property (PropList.txt); unicodedata does not carry it, and str.isspace() is another set.
WHITE_SPACE = {0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, *range(9, 14), *range(0x2000, 0x200B)}


def flags(code):
    category = unicodedata.category(chr(code))
    category = "" if category == "Cn" else category
    bits = {"L": LETTER, "N": NUMBER, "M": MARK, "P": PUNCT, "C": OTHER}.get(category[:1], 0)
    return bits | (NONSPACING if category == "Mn" else 0) | (SPACE if code in WHITE_SPACE else 0)


def rows(numbers):
    text, line = [], " "
    for number in numbers:
        piece = f" {number},"
        if len(line) + len(piece) > 118:
            text.append(line)
            line = " "
        line += piece
    return "\n".join(text + [line])


def generate():
    size = 1 << BLOCK_BITS
    blocks, index = {}, []
    for start in range(0, 0x110000, size):
        block = tuple(flags(code) for code in range(start, start + size))
        index.append(blocks.setdefault(block, len(blocks)))
    assert len(blocks) <= 256, "the first stage holds bytes"
    cells = [cell for block in blocks for cell in block]
    return (
        f"/* Made by tools/gen_unicode.py from Unicode {VERSION}: do not edit. */\n"
        f"const uint8_t ga_uc_index[{len(index)}] = {{\n{rows(index)}\n}};\n"
        f"const uint8_t ga_uc_flags[{len(cells)}] = {{\n{rows(cells)}\n}};\n"
    )


def main():
    if unicodedata.unidata_version != VERSION:
        print(f"gen_unicode: skipped: this Python knows Unicode {unicodedata.unidata_version}, not {VERSION}")
        return 77
    if sys.argv[1:] == ["--check"]:
        same = TABLE.exists() and TABLE.read_text() == generate()
        print(f"gen_unicode: {TABLE.name} is {'current' if same else 'stale: run tools/gen_unicode.py'}")
        return 0 if same else 1
    TABLE.write_text(generate())
    return 0


if __name__ == "__main__":
    sys.exit(main())
