#!/usr/bin/env python3
"""Keeps code in documents equal to the source. A line `<!-- from: PATH NAME -->` before a fenced block names what stands in it:
the definition of NAME in PATH, without the comment before it; without NAME, the whole file. Usage: check_doc_code.py [ROOT] [--write]"""
import re
import sys
from pathlib import Path

MARK = re.compile(r"<!-- from: (\S+)( \w+)? -->\n```(c|toml)\n(.*?)```\n", re.S)


def definition(text, name):
    """The lines of a function, struct or table from where its name is first defined to the line that closes it; None: none."""
    lines = text.split("\n")
    for start, line in enumerate(lines):
        if not line or line[0] in " \t/#*}" or not re.search(rf"\b{name}\b", line):
            continue
        if line.rstrip().endswith(("}", "};")) and "{" in line:
            return line + "\n"
        for end in range(start, min(len(lines), start + 150)):
            if lines[end].endswith(";") and end == start and "{" not in line:
                break  # a declaration, or a use
            if lines[end] in ("}", "};") or re.match(r"\}( \w+)?;$", lines[end]) or (end > start and lines[end].endswith("};")):
                return "\n".join(lines[start : end + 1]) + "\n"
    return None


def main():
    root = Path(next((a for a in sys.argv[1:] if not a.startswith("--")), "."))
    write, blocks, bad = "--write" in sys.argv, 0, 0
    for path in sorted((root / "docs").rglob("*.md")):
        old = path.read_text()

        def block(m):
            nonlocal blocks, bad
            blocks += 1
            source = root / m[1]
            name = (m[2] or "").strip()
            text = source.read_text() if source.exists() else ""
            code = definition(text, name) if name else text or None
            if code is None:
                bad += 1
                print(f"{path.relative_to(root)}: {m[1]} does not define {name or 'anything: it is not there'}")
                return m[0]
            if code != m[4] and not write:
                bad += 1
                print(f"{path.relative_to(root)}: {name or 'the file'} is not what {m[1]} has: tools/check_doc_code.py --write")
            return f"<!-- from: {m[1]}{m[2] or ''} -->\n```{m[3]}\n{code}```\n"

        new = MARK.sub(block, old)
        if write and new != old:
            path.write_text(new)
    print(f"code in documents: {blocks} blocks, {bad} to change")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
