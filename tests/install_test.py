#!/usr/bin/env python3
"""What `cmake --install` brings is enough: installs the build into a folder of its own, builds examples/ against it by find_package, runs
the C part, and compiles a kernel's includes with pkg-config's flags. Usage: install_test.py SOURCE BUILD"""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def run(*command, **more):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **more)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def main():
    source, build = map(Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        prefix, examples = Path(folder) / "a prefix", Path(folder) / "examples"
        run("cmake", "--install", build, "--prefix", prefix)
        run("cmake", "-S", source / "examples", "-B", examples, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release")
        run("cmake", "--build", examples)
        done = subprocess.run([examples / "tile_run", "cpu"], capture_output=True, text=True)
        if done.returncode != 1 or "CUDA devices" not in done.stderr:
            sys.exit(f"tile_run on the CPU: {done.returncode} {done.stderr}")
        pc = next(prefix.rglob("ga.pc"))
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
