#!/usr/bin/env python3
"""What `cmake --install` brings is enough: installs the build into a folder of its own, builds examples/ against it by find_package, runs
the C part, and compiles a kernel's includes with pkg-config's flags. Usage: install_test.py SOURCE BUILD"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import chat_rig
import serve_rig

MOST_LINES = 60  # of a small program


def run(*command, **more):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **more)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def run_small_programs(source, examples, folder):
    """Each of the small programs, on models that say what is expected."""
    for name in ("chat", "embeddings", "attention", "quantised_product", "own_kernel"):
        lines = len((source / "examples" / f"{name}.c").read_text().splitlines())
        if lines > MOST_LINES:
            sys.exit(f"examples/{name}.c: {lines} lines; at most {MOST_LINES}")
    model = Path(folder) / "words.gguf"
    model.write_bytes(chat_rig.script(["Hello", " you", "."]))
    said = run(examples / "chat", model, input="hi\nagain\n")
    if said != "Hello you.\n" * 2:
        sys.exit(f"chat: {said!r}")
    said = run(examples / "embeddings", serve_rig.write_encoder(folder), "a b c", "x y z", "a b c")
    if [float(line.split()[0]) == 1 for line in said.splitlines()] != [False, True]:
        sys.exit(f"embeddings: {said!r}")
    for name in ("attention", "quantised_product"):
        run(examples / name)
    bad = subprocess.run([examples / "chat", "/nowhere.gguf"], capture_output=True, text=True)
    if bad.returncode != 1 or "nowhere" not in bad.stderr:
        sys.exit(f"chat without a model: {bad.returncode} {bad.stderr}")


def check_compile_lines(source, folder, pc):
    """The line in the comment that opens each example compiles it, as a strict compiler does. A shell splits what pkg-config prints, so that
    the prefix has no space here."""
    out, plain = Path(folder) / "lines", Path(folder) / "prefix"
    plain.symlink_to("a prefix")
    place = plain / pc.relative_to(Path(folder) / "a prefix").parent
    env = {**os.environ, "PKG_CONFIG_PATH": str(place), "LD_LIBRARY_PATH": str(place.parent)}
    shutil.copytree(source / "examples", out)
    for path in sorted(out.glob("*.c")):
        line = re.search(r"^ \* +(cc -std=c11 .*?)( \*/)?$", path.read_text(), re.M)
        if not line and "int main(" in path.read_text():
            sys.exit(f"examples/{path.name}: no line that compiles it")
        if line:
            run("sh", "-c", line[1].replace("-std=c11", "-std=c11 -Wall -Wextra -Werror -pedantic"), cwd=out, env=env)
    for name in ("attention", "quantised_product"):
        run(out / name, env=env)


def main():
    source, build = map(Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        prefix, examples = Path(folder) / "a prefix", Path(folder) / "examples"
        run("cmake", "--install", build, "--prefix", prefix)
        run("cmake", "-S", source / "examples", "-B", examples, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release")
        run("cmake", "--build", examples)
        run_small_programs(source, examples, folder)
        done = subprocess.run([examples / "tile_run", "cpu"], capture_output=True, text=True)
        if done.returncode != 1 or "CUDA devices" not in done.stderr:
            sys.exit(f"tile_run on the CPU: {done.returncode} {done.stderr}")
        pc = next(prefix.rglob("ga.pc"))
        check_compile_lines(source, folder, pc)
        flags = run("pkg-config", "--cflags", "ga", env={**os.environ, "PKG_CONFIG_PATH": str(pc.parent)}).replace("\\ ", "\0").split()
        flags = [f.replace("\0", " ") for f in flags]
        test = Path(folder) / "test.cc"
        test.write_text("#define GA_EMU\n#include <ga/tile/tile.h>\n#include <ga/launch.h>\n")
        cxx = shutil.which("g++") or shutil.which("c++")
        if cxx:
            run(cxx, "-std=c++17", "-fsyntax-only", "-Wno-unknown-pragmas", *flags, test)
        print(f"installed, {len(list(examples.glob('*.cubin')))} kernels compiled")


if __name__ == "__main__":
    main()
