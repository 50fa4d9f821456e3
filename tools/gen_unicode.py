#!/usr/bin/env python3
"""Writes src/token/unicode_tables.inc: the character classes that tokenizers ask for, as a two-stage table.

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
TABLE = Path(__file__).resolve().parent.parent / "src/token/unicode_tables.inc"
BLOCK_BITS = 7
LETTER, NUMBER, MARK, SPACE, PUNCT, OTHER, NONSPACING, UPPER, LOWER = (1 << i for i in range(9))

# The White_Space property (PropList.txt); unicodedata does not carry it, and str.isspace() is another set.
WHITE_SPACE = {0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, *range(9, 14), *range(0x2000, 0x200B)}

# BERT's punctuation, control characters and nonspacing marks are those of Unicode 8.0, which the tokenizers that its
# models are trained with carry. Characters of these classes that are younger (DerivedAge.txt):
YOUNGER = """
    61D 7FD 890-891 898-89F 8CA-8E2 9FD-9FE A76 AFA-AFF B55 C04 C3C C77 C84 D00 D3B-D3C D81 EBA 180F 1ABF-1ACE
    1B7D-1B7E 1DF6-1DFB 2E43-2E4F 2E52-2E5D A82C A8C5 A8FF 10D24-10D27 10EAB-10EAD 10F46-10F50 10F55-10F59
    10F82-10F89 11070 11073-11074 110C2 110CD 111CF 1123E 1133B 11438-1143F 11442-11444 11446 1144B-1144F
    1145A-1145B 1145D-1145E 11660-1166C 116B9 1182F-11837 11839-1183B 1193B-1193C 1193E 11943-11946 119D4-119D7
    119DA-119DB 119E0 119E2 11A01-11A0A 11A33-11A38 11A3B-11A47 11A51-11A56 11A59-11A5B 11A8A-11A96 11A98-11A9C
    11A9E-11AA2 11C30-11C36 11C38-11C3D 11C3F 11C41-11C45 11C70-11C71 11C92-11CA7 11CAA-11CB0 11CB2-11CB3
    11CB5-11CB6 11D31-11D36 11D3A 11D3C-11D3D 11D3F-11D45 11D47 11D90-11D91 11D95 11D97 11EF3-11EF4 11EF7-11EF8
    11FFF 12FF1-12FF2 13430-13438 16E97-16E9A 16F4F 16FE2 16FE4 1CF00-1CF2D 1CF30-1CF46 1E000-1E006 1E008-1E018
    1E01B-1E021 1E023-1E024 1E026-1E02A 1E130-1E136 1E2AE 1E2EC-1E2EF 1E944-1E94A 1E95E-1E95F
"""
# and those whose category has changed since, with what they were in 8.0.
CHANGED = {0x111C9: PUNCT, 0x166D: PUNCT, 0x1734: NONSPACING, 0x1885: 0, 0x1886: 0, 0xA9BD: 0}


def young():
    for piece in YOUNGER.split():
        first, _, last = piece.partition("-")
        yield from range(int(first, 16), int(last or first, 16) + 1)


NOT_IN_8 = set(young())


def flags(code):
    category = unicodedata.category(chr(code))
    bits = {"L": LETTER, "N": NUMBER, "M": MARK}.get(category[0], 0)
    bits |= {"Lu": UPPER, "Lt": UPPER, "Ll": LOWER}.get(category, 0)
    bert = {"P": PUNCT, "C": OTHER}.get(category[0], 0) | (NONSPACING if category == "Mn" else 0)
    if category == "Cn" or code in NOT_IN_8:
        bert = 0
    return bits | CHANGED.get(code, bert) | (SPACE if code in WHITE_SPACE else 0)


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
        f"const uint16_t ga_uc_flags[{len(cells)}] = {{\n{rows(cells)}\n}};\n"
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
