"""Builds gpu_accel._core by CMake: one description of the build for pip and for make.

GA_BUILD_DIR: a configured build folder whose libga is taken. Without it ./build is taken when it is built, or else libga
is built first; with nvcc it has CUDA kernels then, but for GA_CUDA=OFF.
The wheel has the shared libraries that Python's systems need not have, with their licences."""
import os
import re
import shutil
import subprocess
import sysconfig
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

ROOT = Path(__file__).resolve().parent
BUNDLED = {"jansson": "libjansson4", "utf8proc": "libutf8proc2"}  # library: Debian's package, whose licence goes along
CMAKE = "3.25"


def cmake_is_new_enough():
    """cmake of the system. Otherwise pip fetches one for the build."""
    if not (cmake := shutil.which("cmake")):
        return False
    said = subprocess.run([cmake, "--version"], capture_output=True, text=True).stdout
    found = re.search(r"version (\d+)\.(\d+)", said)
    return bool(found) and tuple(map(int, found.groups())) >= tuple(map(int, CMAKE.split(".")))


def needed_libraries(module):
    """Paths of the bundled libraries, as the loader finds them for the module."""
    said = subprocess.run(["ldd", module], check=True, capture_output=True, text=True).stdout
    found = {}
    for name in BUNDLED:
        if not (match := re.search(rf"(lib{name}\.so\S*) => (/\S+)", said)):
            sys.exit(f"{module}: lib{name} is not among its libraries:\n{said}")
        found[name] = (match[1], Path(match[2]))
    return found


class CMakeBuild(build_ext):
    def get_ext_filename(self, name):
        return name.replace(".", os.sep) + ".abi3.so"

    def folder(self):
        given = os.environ.get("GA_BUILD_DIR")
        if given:
            return Path(given)
        if (ROOT / "build/libga.a").exists() and (ROOT / "build/CMakeCache.txt").exists():
            return ROOT / "build"
        return Path(self.build_temp).resolve() / "ga"

    def build_extension(self, ext):
        folder, include = self.folder(), sysconfig.get_paths()["include"]
        if not Path(include, "Python.h").exists():
            sys.exit(f"{include}/Python.h is missing: install Python's headers (Debian: python3-dev)")
        if not (folder / "CMakeCache.txt").exists():
            configure = ["cmake", "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", "-DGA_TESTS=OFF", f"-DGA_PYTHON_INCLUDE={include}",
                         f"-DGA_CUDA={os.environ.get('GA_CUDA', 'ON')}"] + (["-GNinja"] if shutil.which("ninja") else [])
            subprocess.run(configure, check=True)
        elif not (folder / "python/gpu_accel").exists():  # configured where Python.h was missing
            subprocess.run(["cmake", folder, f"-DGA_PYTHON_INCLUDE={include}"], check=True)
        jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or str(os.cpu_count())
        subprocess.run(["cmake", "--build", folder, "--target", "ga_python", "--parallel", jobs], check=True)
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        built = folder / "python/gpu_accel/_core.abi3.so"
        shutil.copy2(built, target)
        if strip := shutil.which("strip"):
            subprocess.run([strip, "--strip-unneeded", target], check=True)
        self.bundle(built, target)

    def bundle(self, built, module):
        """Asks for the libraries of what CMake built: beside `module` an earlier wheel's may lie, and would be found."""
        for name, (soname, path) in needed_libraries(built).items():
            licence = Path("/usr/share/doc", BUNDLED[name], "copyright")
            if not licence.exists():  # for this machine alone then
                print(f"{licence} is missing: {path} stays out of the wheel, which needs the system's {soname}")
                continue
            shutil.copy2(path, module.parent / soname)
            shutil.copy2(licence, module.parent / f"LICENSE.{name}")


class Abi3Wheel(bdist_wheel):
    """One wheel for CPython 3.11 and all that follow."""

    def get_tag(self):
        return "cp311", "abi3", super().get_tag()[2]


if sys.version_info < (3, 11):
    sys.exit("gpu_accel needs Python 3.11 or newer")
setup(setup_requires=[] if cmake_is_new_enough() else [f"cmake>={CMAKE}"],
      ext_modules=[Extension("gpu_accel._core", [], py_limited_api=True)],
      cmdclass={"build_ext": CMakeBuild, "bdist_wheel": Abi3Wheel})
