#!/usr/bin/env python3
"""Programs against today's shared library: old.c, compiled with the first version of the structs; init.c, with every INIT macro of today's
headers, as C11 and as C++17, warnings as errors. Usage: programs.py LIBGA.so; CC and CXX as usual."""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))
import tiny_gguf  # noqa: E402

WARN = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
CC, CXX = os.environ.get("CC", "cc"), os.environ.get("CXX", "c++")


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}{done.stderr}")


def unused(used):
    """INIT macros that the text does not use, and _plan functions that it does not call."""
    text = "".join(h.read_text() for h in sorted((ROOT / "include" / "ga").glob("*.h")))
    inits = re.findall(r"#define (GA_\w+_INIT)\b", text)
    ops = re.findall(r"\bga_(\w+)_plan\(", text) + re.findall(r"^GA_DECLARE_OP\((\w+)\)", text, re.MULTILINE)
    return [i for i in inits if not re.search(rf"\b{i}\b", used)] + [f"ga_{op}_plan" for op in ops if f"PLAN({op}," not in used]


def main():
    library = Path(sys.argv[1]).resolve()
    link = [library, f"-Wl,-rpath,{library.parent}", "-lm"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ops = folder / "tests/abi/op_init.h"
        run(sys.executable, ROOT / "tools/gen_ops.py", ROOT, "--abi", ops)
        missing = unused((HERE / "init.c").read_text() + ops.read_text())
        if missing:
            sys.exit(f"tests/abi/init.c does not use {', '.join(missing)}")
        model = folder / "tiny.gguf"
        model.write_bytes(tiny_gguf.build())
        for program, compiler, source, arguments in (
            ("old", [CC, "-std=c11"], "old.c", [model]),
            ("init_c11", [CC, "-std=c11", "-x", "c"], "init.c", []),
            ("init_cxx17", [CXX, "-std=c++17", "-x", "c++"], "init.c", []),
        ):
            include = ["-I", ROOT] if program == "old" else ["-I", ROOT / "include", "-I", folder]
            run(*compiler, *WARN, *include, HERE / source, "-x", "none", *link, "-o", folder / program)
            run(folder / program, *arguments)
    print("programs: 3 built, linked and run")


if __name__ == "__main__":
    main()
