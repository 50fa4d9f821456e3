#!/usr/bin/env python3
"""The wheel as pip makes it: its tag, size and contents, and its import in a fresh environment.

Usage: wheel.py BUILD: out of a build folder's libga, in seconds.
       wheel.py --clone: out of a bare clone of this checkout's HEAD, which compiles libga without nvcc and takes minutes;
                         says how long.
Later Pythons import the same file where they are on the path; auditwheel and abi3audit look at it where they are installed. The last line
names what was skipped. 77: pip cannot build here."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = 16 << 20
MOST_IMPORT_MS = 60
LATER = ("python3.12", "python3.13", "python3.14")
INSIDE = {"gpu_accel/_core.abi3.so", "gpu_accel/__init__.py", "gpu_accel/__init__.pyi", "gpu_accel/py.typed"}
BUNDLED = ("libjansson.so", "libutf8proc.so", "LICENSE.jansson", "LICENSE.utf8proc")
# Prints milliseconds, frameworks that were imported, whether a driver was loaded, and where jansson came from.
IMPORT = """
import sys, time
start = time.perf_counter()
import gpu_accel
ms = (time.perf_counter() - start) * 1e3
maps = open('/proc/self/maps').read()
frameworks = {'numpy', 'torch', 'jax', 'transformers', 'asyncio'} & set(sys.modules)
jansson = [line.split()[-1] for line in maps.splitlines() if 'libjansson' in line]
print(ms, sorted(frameworks), 'libcuda' in maps, jansson[0])
x = memoryview(bytearray(64)).cast('f')
assert memoryview(gpu_accel.add(x, x)).tolist() == [0.0] * 16
"""


def build_in(source, folder, env):
    # The installed setuptools where there is one: then nothing is fetched.
    have = not subprocess.run([sys.executable, "-c", "import setuptools, wheel"], capture_output=True).returncode
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, source]
    done = subprocess.run(command + (["--no-build-isolation"] if have else []), env=env, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout[-4000:], done.stderr[-4000:])
        no_pip = "No module named pip" in done.stderr or "No matching distribution found for setuptools" in done.stderr
        sys.exit(77 if no_pip else 1)
    return next(Path(folder).glob("*.whl"))


def copy_of_checkout(folder):
    """pip writes into the tree that it builds, so it gets one of its own."""
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "python", "setup.py", "pyproject.toml", "LICENSE", "docs/guide/python.md"],
                           check=True, capture_output=True, text=True).stdout.split()
    for name in names:
        target = Path(folder, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    return folder


def make_wheel(folder):
    env = {name: value for name, value in os.environ.items() if not name.startswith("CMAKE_C_COMPILER_LAUNCHER")}
    if sys.argv[1] == "--clone":
        source = Path(folder, "clone")
        subprocess.run(["git", "clone", "-q", ROOT, source], check=True)
        start, before = time.monotonic(), os.times()
        wheel = build_in(source, Path(folder, "wheels"), {**env, "GA_CUDA": "OFF"})
        after = os.times()
        busy = after.children_user - before.children_user + after.children_system - before.children_system
        print(f"built from a clone: {time.monotonic() - start:.0f} s, {busy:.0f} s of processor time on {os.cpu_count()} cores, "
              f"load {os.getloadavg()[1]:.1f} at the end, over 5 minutes")
        return wheel
    source = copy_of_checkout(Path(folder, "source"))
    return build_in(source, Path(folder, "wheels"), {**env, "GA_BUILD_DIR": str(Path(sys.argv[1]).resolve())})


def check_contents(wheel):
    assert re.search(r"-cp311-abi3-\w*linux\w*\.whl$", wheel.name), f"tag of {wheel.name}; wanted is cp311-abi3"
    names = set(zipfile.ZipFile(wheel).namelist())
    assert INSIDE <= names, f"{wheel.name} lacks {sorted(INSIDE - names)}"
    for name in BUNDLED:
        assert any(n.startswith(f"gpu_accel/{name}") for n in names), f"{wheel.name} lacks {name}: {sorted(names)}"
    size = wheel.stat().st_size
    assert size < MOST_BYTES, f"{wheel.name} has {size} bytes; allowed are {MOST_BYTES}"
    print(f"{wheel.name}: {size / 1e6:.1f} MB, {len(names)} files")


def has_kernels():
    """Whether the build has GPU kernels, which the size depends on."""
    if sys.argv[1] == "--clone":
        return False
    cache = Path(sys.argv[1], "CMakeCache.txt").read_text()
    return not re.search(r"^GA_CUDA:\w+=OFF$|^GA_NVCC:\w+=.*NOTFOUND$", cache, re.M)


def check_documented(wheel):
    """The guide's size of a wheel without GPU kernels is that of this one, to a tenth."""
    told = float(re.search(r"([\d.]+) MB without GPU kernels", (ROOT / "docs/guide/python.md").read_text())[1])
    size = wheel.stat().st_size / 1e6
    assert has_kernels() or abs(size - told) <= told / 10, f"docs/guide/python.md tells {told} MB; {wheel.name} has {size:.2f}"


def check_import(wheel, folder):
    """Unpacked by pip itself; the least of five times counts, for the machine does other things too."""
    place = Path(folder, "installed")
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", place, wheel], check=True,
                   capture_output=True)
    env = {**os.environ, "PYTHONPATH": str(place)}
    missing = []
    for python in (sys.executable, *LATER):
        if not shutil.which(python) or subprocess.run([python, "-V"], capture_output=True).returncode:  # pyenv has names without programs
            missing.append(python)
            continue
        runs = [subprocess.run([python, "-c", IMPORT], check=True, env=env, cwd=folder, capture_output=True, text=True).stdout for _ in range(5)]
        ms = min(float(run.split()[0]) for run in runs)
        print(f"import by {Path(python).name}: {ms:.1f} ms, then:{runs[0].split(maxsplit=1)[1].strip()}")
        assert ms <= MOST_IMPORT_MS, f"import took {ms} ms; allowed are {MOST_IMPORT_MS}"
        assert f"[] False {place}" in runs[0], f"a framework, a driver, or the system's jansson: {runs[0]}"
    return missing


def audit(wheel):
    """Names of the tools that are not here."""
    missing = []
    here = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    for tool, options, wanted in (("auditwheel", ["show"], r"manylinux_2_\d+_"), ("abi3audit", ["--strict", "--report"], "")):
        if not (path := shutil.which(tool, path=here)):
            missing.append(tool)
            continue
        done = subprocess.run([path, *options, wheel], capture_output=True, text=True)
        text = done.stdout + done.stderr
        assert not done.returncode and re.search(wanted, text), f"{tool}: {text}"
        found = re.findall(wanted, text) if wanted else ["content"]
        print(f"{tool}: {found[0].rstrip('_')}")
    return missing


def main():
    with tempfile.TemporaryDirectory(prefix="ga-wheel-") as folder:
        wheel = make_wheel(folder)
        check_contents(wheel)
        check_documented(wheel)
        missing = check_import(wheel, folder)
        missing += audit(wheel)
    print(f"wheel: passed; skipped: {', '.join(missing) or 'nothing'}")


if __name__ == "__main__":
    sys.exit(main())
