#!/usr/bin/env python3
"""Writes the files of the chat page as a C source: src/serve/page.h says what is in it. Usage: embed_page.py OUT FILE..."""
import sys
from pathlib import Path

TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
MOST_BYTES = 40_000  # of all files: the page stays small enough to read


def main():
    out, names = Path(sys.argv[1]), sorted(sys.argv[2:])
    arrays, rows, total = [], [], 0
    for number, path in enumerate(map(Path, names)):
        raw = path.read_bytes()
        total += len(raw)
        lines = (",".join(map(str, raw[i:i + 32])) for i in range(0, len(raw), 32))
        arrays.append(f"static const unsigned char file_{number}[] = {{\n" + ",\n".join(lines) + "};\n")
        url = "/" if path.name == "index.html" else f"/{path.name}"
        rows.append(f'    {{"{url}", "{TYPES[path.suffix]}", file_{number}, sizeof file_{number}}},\n')
    if total > MOST_BYTES:
        sys.exit(f"the chat page has {total} bytes; at most {MOST_BYTES}")
    out.write_text('/* By tools/embed_page.py. */\n#include "serve/page.h"\n\n' + "".join(arrays) +
                   "const page_file page_files[] = {\n" + "".join(rows) + "};\n" + f"const size_t n_page_files = {len(rows)};\n")


if __name__ == "__main__":
    main()
