#!/usr/bin/env python3
"""Every header of device code compiles alone: it takes what it needs as parameters, never from what a kernel has defined before.
Usage: check_device_headers.py [ROOT] [HEADER...]; CXX as usual.

Headers are those under src/cuda/dev and those of src/cuda/kern that kernels include. Each is compiled as the emulator compiles kernels
(src/emu), so that no nvcc is needed; twice in a file, for its guard. A header that uses parameters (GA_P_*) is compiled with those of the
first row of each kernel that includes it; others, and all of src/cuda/dev, without any. And no kernel includes a header behind
code of its own: what stands before an #include is comments, #ifndef, #error, #endif and other #includes."""
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gen_kernels
import kernel_decl

FLAGS = ["-x", "c++", "-std=c++17", "-fsyntax-only", "-DGA_EMU", "-DGA_KERNEL_ID=alone", "-Wall", "-Wextra", "-Werror", "-Wundef", "-Wno-unknown-pragmas",
         "-Wno-unused-function"]
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
BEFORE = re.compile(r"\s*(#\s*(include|ifndef|error|endif|pragma)\b.*)?")


def run(root, *arguments):
    return subprocess.run([os.environ.get("CXX", "c++"), *FLAGS, f"-I{root}/src", *arguments], capture_output=True, text=True)


def headers_of(root, source, definitions):
    """What a file includes with these definitions, of src/cuda/kern."""
    made = re.split(r"(?<!\\)\s+", run(root, *definitions, "-MM", str(source)).stdout.replace("\\\n", " "))
    made = [p.replace("\\ ", " ") for p in made]  # spaces within names follow a backslash
    return [str(Path(p).resolve().relative_to(root / "src")) for p in made if "/src/cuda/kern/" in p and p.endswith(".h")]


def defines(row):
    return tuple(f"-DGA_P_{pair}" for pair in gen_kernels.params(row).split(",") if pair[0].isupper())


def cases(root, family=""):
    """{(header, definitions): a kernel that includes it so}. A header that no parameter reaches needs no definitions."""
    found = {(str(p.relative_to(root / "src")), ()): "" for p in (root / "src/cuda/dev").rglob("*.h") if p.parent.name != "emu"}
    for file in (f for f in kernel_decl.read(root) if f.source and family in f.name):
        definitions = defines(file.rows[0])
        for name in headers_of(root, file.source, definitions):
            reached = "GA_P_" in kernel_decl.text_of(root, root / "src" / name, set())
            found.setdefault((name, definitions if reached else ()), file.source.name)
    return found


def compile_alone(root, header, definitions):
    with tempfile.NamedTemporaryFile("w", suffix=".cc") as source:
        source.write(f'#include "{header}"\n#include "{header}"\n')
        source.flush()
        return run(root, *definitions, source.name)


def late_includes(path):
    """Numbers of the lines with an #include behind code."""
    text = COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), path.read_text()).replace("\\\n", "  ")
    code = False
    for number, line in enumerate(text.split("\n"), 1):
        if code and INCLUDE.match(line):
            yield number
        code = code or not BEFORE.fullmatch(line)


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    only, bad = sys.argv[2:], 0
    for path in sorted((root / "src/cuda/kern").rglob("*.cu")):
        for number in late_includes(path):
            print(f"{path.relative_to(root)}:{number}: includes a header behind code of its own")
            bad += 1
    todo = [(header, definitions, kernel) for (header, definitions), kernel in sorted(cases(root).items()) if not only or any(o in header for o in only)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda case: compile_alone(root, case[0], case[1]), todo))
    for (header, _, kernel), done in zip(todo, results):
        if done.returncode:
            print(f"{header}{' as in ' + kernel if kernel else ''} does not compile alone:\n{done.stderr[:1200]}")
            bad += 1
    print(f"device headers: {len({header for header, _, _ in todo})} compiled alone, {len(todo)} times; {bad} faults")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
