#!/usr/bin/env python3
"""Every public header compiles alone, as C11 and as C++17. Usage: check_headers.py [ROOT]; CC and CXX as usual."""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

WARN = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-fsyntax-only"]


def compiles(command, suffix, header, root):
    with tempfile.NamedTemporaryFile("w", suffix=suffix) as source:
        source.write(f'#include "{header}"\n#include "{header}"\n')  # twice: the guard too
        source.flush()
        done = subprocess.run([*command, *WARN, "-I", root / "include", source.name], capture_output=True, text=True)
    if done.returncode:
        print(f"{header} as {command[-1]}:\n{done.stderr}")
    return done.returncode == 0


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    kinds = [([os.environ.get("CC", "cc"), "-std=c11"], ".c"), ([os.environ.get("CXX", "c++"), "-std=c++17"], ".cc")]
    headers = sorted(p.relative_to(root / "include") for p in (root / "include").rglob("*.h"))
    bad = sum(not compiles(command, suffix, header, root) for header in headers for command, suffix in kinds)
    print(f"headers: {len(headers)} compiled alone, {bad} failures")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
