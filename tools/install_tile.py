#!/usr/bin/env python3
"""Copies the tile layer to where its users include it from: src/cuda/dev becomes ga/tile. Usage: install_tile.py SRC DEST

  cuda/dev/X          -> ga/tile/X           (tile.h, ptx/, ptx/emu/, tile/, pipe/)
  core/emu_calls.h    -> ga/tile/emu_calls.h
A header that includes anything else of the tree is inside of the house and stays there."""
import re
import sys
from pathlib import Path

ALONE = {"core/emu_calls.h": "ga/tile/emu_calls.h"}
INCLUDE = re.compile(r'(#[ \t]*include[ \t]*)"([^"]+)"')


def public_name(path):
    return ALONE.get(path) or (re.sub("^cuda/dev/", "ga/tile/", path) if path.startswith("cuda/dev/") else None)


def main():
    src, dest = map(Path, sys.argv[1:])
    headers = [str(p.relative_to(src)) for p in sorted((src / "cuda/dev").rglob("*.h"))] + list(ALONE)
    for header in headers:
        text = (src / header).read_text()
        if not all(public_name(used) for _, used in INCLUDE.findall(text)):
            continue
        text = INCLUDE.sub(lambda m: f'{m[1]}"{public_name(m[2])}"', text)
        target = dest / public_name(header)
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_text() != text:
            target.write_text(text)


if __name__ == "__main__":
    sys.exit(main())
